/* A call of a user's kernel as it is laid out in shared memory: what kernels/abi/kernel.h promises, made of an op's arguments.
 *
 * Outputs stand between guards, as do their rows where these are padded: bytes of a known pattern, looked at when the kernel
 * has returned. The elements themselves begin as 0xff, so that what is left out does not look right. */
#ifndef IQ_ABI_LAID_H
#define IQ_ABI_LAID_H

#include "kernels/abi/area.h"
#include "kernels/abi/kernel.h"
#include "kernels/base/digest.h"
#include "kernels/ops/list.h"

#include <stdbool.h>

enum { IQ_ABI_INS = 4, IQ_ABI_OUTS = 2, IQ_ABI_SCALARS = 2, IQ_ABI_GUARD = 4096 };

/* Part of a message between processes: see harness/kernel/wire.h. */
struct iq_abi_operand {
    uint32_t area, dtype, dims, present;
    uint64_t at; /* bytes, in the area */
    uint64_t dim[INQUEST_DIMS], stride[INQUEST_DIMS];
};
_Static_assert(sizeof(struct iq_abi_operand) == 88, "wire format");

/* Weights that have been laid out, by the panels that they were read from. */
struct iq_abi_kept {
    const void *data;
    struct iq_digest digest; /* of the panels: they may have been written anew */
    size_t at, bytes;
    bool packed;
};

struct iq_abi_memory {
    struct iq_abi_area area[IQ_ABI_AREAS];
    struct iq_abi_kept *kept; /* (n_kept), owned */
    size_t n_kept, cap_kept;
};

struct iq_abi_laid {
    struct iq_abi_memory *memory;
    bool packed; /* the kernel wants weights as they are stored */
    bool failed; /* no memory */
    uint32_t act;
    struct iq_abi_operand in[IQ_ABI_INS], out[IQ_ABI_OUTS];
    void *to[IQ_ABI_OUTS]; /* where outputs belong; their rows stand as far apart there as here */
    double scalar[IQ_ABI_SCALARS];
};

/* One kind of op that a user's kernel may stand for. Names: as Python sees them; unused ones NULL. */
struct iq_abi_kind {
    const char *kind, *in[IQ_ABI_INS + 1], *out[IQ_ABI_OUTS + 1], *scalar[IQ_ABI_SCALARS + 1];
    uint32_t (*calls)(const void *args); /* of the kernel for one of the op; NULL: one */
    void (*lay)(struct iq_abi_laid *, const void *args, uint32_t call);
};

/* kind NULL ends. */
extern const struct iq_abi_kind iq_abi_kinds[];
const struct iq_abi_kind *iq_abi_kind_find(const char *kind); /* NULL: a user's kernel can't stand for it */

int iq_abi_memory_open(struct iq_abi_memory *, struct iq_err *err);
void iq_abi_memory_close(struct iq_abi_memory *);
/* Begins a call: inputs and outputs of the call before are gone, weights stay. */
void iq_abi_lay(const struct iq_abi_kind *, struct iq_abi_laid *, const void *args, uint32_t call);
/* The outputs, into the op's own. */
void iq_abi_give(const struct iq_abi_laid *);
/* What was written outside the outputs, as a sentence's end ("wrote 12 bytes past the end of y"); false: nothing. */
bool iq_abi_strayed(const struct iq_abi_kind *, const struct iq_abi_laid *, char *out, size_t size);
/* What was left out, likewise ("left 64 elements of y unwritten, ..."). */
bool iq_abi_unwritten(const struct iq_abi_kind *, const struct iq_abi_laid *, char *out, size_t size);
/* Which operand an address belongs to or stands beside, given where the other process has mapped the areas: "8 bytes past the
 * end of y", "inside x"; false: none near. */
bool iq_abi_locate(const struct iq_abi_kind *, const struct iq_abi_laid *, const uint64_t base[IQ_ABI_AREAS],
                   uint64_t address, char *out, size_t size);

/* For kinds. dim: (dims), shape of the operand. Strides of its rows in elements; rows after the first dim are contiguous. */
void iq__abi_in(struct iq_abi_laid *, unsigned i, uint32_t dtype, const void *x, size_t ld, uint32_t dims,
                const uint64_t *dim);
/* Room to fill; NULL: failed. */
void *iq__abi_room(struct iq_abi_laid *, unsigned i, uint32_t dtype, uint32_t dims, const uint64_t *dim);
void iq__abi_out(struct iq_abi_laid *, unsigned i, uint32_t dtype, void *y, size_t ld, uint32_t dims,
                 const uint64_t *dim);
void iq__abi_lay_matmul(struct iq_abi_laid *, const void *args, uint32_t call);
void iq__abi_lay_attention(struct iq_abi_laid *, const void *args, uint32_t call);

#define IQ_DIM(...)                                                                                          \
    (sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)), (const uint64_t[]) { __VA_ARGS__ }

#endif
