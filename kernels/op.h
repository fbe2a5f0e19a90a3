/* Ops, kinds, variants.
 *
 * A kind is an operation (matmul, rmsnorm, topk ...) with an argument struct in kernels/ops/KIND.h. An op is a place
 * in the model where a kind runs (qkv, attn_out, down ... are places of matmul). A variant is one implementation of a
 * kind: the reference, a fast one for an instruction set, a benign reordering, or a wrong one. All take the same
 * arguments. Outputs never alias inputs, so a variant may run twice on the same arguments.
 */
#ifndef IQ_OP_H
#define IQ_OP_H

#include "kernels/base/status.h"
#include "kernels/ops/list.h"
#include "kernels/site.h"

#include <stdbool.h>

struct iq_exec;

typedef int iq_run_fn(struct iq_exec *, const struct iq_site *, const void *args, const void *params,
                      void *state);

/* Where a point's rows lie: elements [0, n) of row r begin at x + r * ld (in elements). */
struct iq_run {
    void *x;
    size_t ld, n; /* n 0: nothing */
};

enum { IQ_RUNS = 2 };

enum iq_value_type { IQ_VALUE_COUNT, IQ_VALUE_NUMBER, IQ_VALUE_FLAG };

/* What a trigger can ask of the numbers that an op is given. */
struct iq_value {
    const char *name, *help;
    enum iq_value_type type;
    bool call;  /* one for the whole call, row 0 asked; otherwise one a row */
    bool reads; /* an operand's elements, which the host can't on a device */
    double (*of)(const struct iq_site *, const void *args, uint32_t r); /* NaN: there is none here */
};

struct iq_kind {
    const char *name;
    size_t args_size;
    /* Rows of output: row r at point p as contiguous bytes, in `scratch` (row_bytes) where the layout is another.
     * `put` writes such bytes back. Both serve taps, firing logs and row-selective faults; neither is golden's path. */
    uint32_t (*rows)(const void *args);
    size_t (*row_bytes)(const void *args, unsigned point); /* 0: the point does not exist in this call */
    const void *(*get)(const void *args, unsigned point, uint32_t r, void *scratch);
    void (*put)(const void *args, unsigned point, uint32_t r, const void *bytes);
    /* For devices, whose memory get and put can't touch: a row is run[0], then run[1]. Returns how many there are, 0 where
     * the point does not exist. NULL: the rows lie otherwise. */
    unsigned (*runs)(const void *args, unsigned point, struct iq_run run[IQ_RUNS]);
    /* Makes again what follows from all rows' points (lists over them), once rows have been put back; NULL: nothing does.
     * Devices have a kernel for it (moe_lists). */
    void (*derive)(const void *args);
    size_t elem; /* bytes of an element, for the digest's segments */
    /* Generic fields for triggers: operand dims and the like, by name. */
    const char *const *fields; /* NULL-terminated, or NULL */
    uint64_t (*field)(const void *args, unsigned index);
    const struct iq_value *values; /* name NULL ends; or NULL */
    /* The op's invariant (argmax in top-k ...) on finished outputs; NULL if it has none. IQ_MISMATCH: it is broken. */
    int (*check)(const void *args, struct iq_err *);
};

enum {
    IQ_V_REFERENCE = 1,     /* plain C, written to be read; exactly one per kind */
    IQ_V_GOLDEN = 2,        /* bits equal to the reference's: may serve golden */
    IQ_V_BENIGN = 4,        /* another order or tile: other bits, no wrong result */
    IQ_V_FAULTY = 8,        /* wrong on purpose */
    IQ_V_COUPLES_ROWS = 16, /* a row's result may depend on other rows: refused in golden */
    IQ_V_HARDWARE = 32,     /* stands on a library of the GPU's maker: a plan can't arm it on the shim */
    /* What it makes of a row follows from that row and its own sequence: not from its neighbours, nor from where blocks lie
     * or what else is in memory. Such faults may ride beside others (dispatch.h). */
    IQ_V_ROW_LOCAL = 64,
    IQ_V_COUNTS_ROWS = 128 /* ... but which row it strikes depends on how many the call has */
};

struct iq_param {
    const char *name, *help;
    double def, lo, hi; /* every parameter is a number; integers are exact in a double */
    size_t offset;      /* of a double in the params struct */
};

struct iq_variant {
    const char *kind, *name, *device; /* device: "cpu", "cuda", or "any": run looks at the exec's device */
    uint32_t flags;
    iq_run_fn *run;
    bool (*supports)(const struct iq_site *, const void *args); /* NULL: always. Else the reference runs. */
    bool (*usable)(void);                                       /* NULL: on every machine (CPU features) */
    const struct iq_param *params;                              /* name NULL ends; NULL if none */
    size_t params_size, state_size; /* state: zeroed when armed, one per pick and slot */
    const char *what;               /* one line for listings, of wrong and benign ones */
    const char *needs;              /* what it needs to have an effect; NULL: nothing */
    const char *story, *expect;     /* faulty ones: what really happened; what must break */
};

const struct iq_kind *iq_kind_find(const char *name); /* NULL if unknown */
const struct iq_kind *iq_op_kind(enum iq_op_id op);
const char *iq_op_name(unsigned op); /* "?" if out of range */
/* The op's number in draws: it stays what it is when ops are added. */
uint32_t iq_op_number(unsigned op);
int iq_op_find(const char *name); /* enum iq_op_id, or -1 */
/* The op's point names, NULL-terminated. */
const char *const *iq_op_points(enum iq_op_id op);

/* Adds a variant to the process's registry; the record is borrowed for ever. IQ_EXISTS, IQ_NO_REFERENCE (register the
 * kind's reference first), IQ_NOT_FOUND (kind). Not thread-safe: register before engines run. */
int iq_variant_register(const struct iq_variant *, struct iq_err *);
/* Registers every variant that is built into kernels. Idempotent. */
int iq_kernels_register(struct iq_err *);
const struct iq_variant *iq_variant_find(const char *kind, const char *name);
const struct iq_variant *iq_variant_at(size_t index); /* for listings; NULL past the end */
/* The fastest golden variant of a kind that is usable here and not above `isa` ("scalar", "avx2", "avx512", or NULL). */
const struct iq_variant *iq_variant_golden(const char *kind, const char *isa);
/* The fastest form of tensor-core products ("sm90", "sm90-f16" ...: kernels/tensor_core) under the same conditions; NULL
 * if there are no products of this name. */
const struct iq_variant *iq_variant_products(const char *products, const char *isa);
/* Their form on a device; whether the device in hand makes them is iq_cuda_products (kernels/cuda/products.h). */
const struct iq_variant *iq_variant_products_cuda(const char *products);

#endif
