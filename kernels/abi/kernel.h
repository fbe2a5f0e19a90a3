/* Your own kernel under inquest: what a shared library exports. Plain C, self-contained; installed as inquest/kernel.h.
 *
 * A library exports one function, inquest_kernels(), which returns a table of kernels. A plan names the library and puts a
 * kernel in place of an op:
 *     {"libraries": ["./mine.so"], "faults": [{"op": "ffn_norm", "variant": "my_norm"}]}
 * Build it with: cc -O2 -fPIC -shared -o mine.so mine.c
 *
 * Where it runs: in a process of its own beside the trial, which shares with it nothing but the operands. A crash, a call that
 * does not return, memory that grows without end and a write outside an output are findings that name the kernel.
 * Threads: one call at a time; a kernel may start threads of its own, which must be done when it returns.
 * Ownership: all pointers in a call are inquest's, valid until the kernel returns. Inputs lie in read-only memory. What the
 * library's table points to is the library's, for as long as the process lives.
 * Units: dims and strides are in elements, in row-major order; the last dimension has stride 1. Rows of an operand may be
 * padded: use stride[0]. Padding of an output must be left alone.
 * Numbers: activations are float32 whatever `act` says; where it is not INQUEST_ACT_F32, each output is rounded to that type
 * (nearest even) and widened again, but for a product's partial sums, whose act is INQUEST_ACT_F32 always.
 * Errors: return INQUEST_OK; INQUEST_DECLINED (the reference computes this call instead); or any other number, which ends the
 * trial as crashed with that number in the finding.
 * Versions: INQUEST_ABI changes only when old libraries would break. Structs grow at their end; `size` tells how far.
 */
#ifndef INQUEST_KERNEL_H
#define INQUEST_KERNEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define INQUEST_ABI 1

enum { INQUEST_OK = 0, INQUEST_DECLINED = 1 };
enum inquest_dtype { INQUEST_F32 = 1, INQUEST_U32 = 2, INQUEST_U8 = 3 };
enum inquest_act { INQUEST_ACT_F32, INQUEST_ACT_BF16, INQUEST_ACT_F16 };
enum { INQUEST_DIMS = 4 };

#define INQUEST_NO_LAYER UINT32_MAX

struct inquest_tensor {
    void *data; /* element (0, 0, ...); NULL: the call has no such operand */
    uint32_t dtype, dims;
    uint64_t dim[INQUEST_DIMS], stride[INQUEST_DIMS];
};

struct inquest_call {
    uint32_t size, abi;   /* sizeof(struct inquest_call) as inquest has it; INQUEST_ABI */
    const char *kind;     /* "rmsnorm" */
    const char *op;       /* the place: "ffn_norm" */
    uint64_t step;        /* of the engine, from 0 */
    uint32_t layer, rank; /* INQUEST_NO_LAYER outside the layers; tensor-parallel rank */
    uint32_t batch, rows; /* requests in the step; rows of the call without padded ones behind them */
    uint32_t act;         /* enum inquest_act */
    uint32_t n_in, n_out, n_scalars, n_params;
    const struct inquest_tensor *in, *out; /* by the kind's indices below */
    const double *scalar;                  /* by the kind's indices below */
    const double *param;                   /* as the kernel's table of parameters, set by the plan */
};

/* Kinds: operands with their shapes, scalars, and what is computed. */

/* y = x / sqrt(mean(x^2) + eps) * weight, over runs of n */
enum { INQUEST_RMSNORM_X /* (rows, groups, n) */, INQUEST_RMSNORM_WEIGHT /* (n) */ };
enum { INQUEST_RMSNORM_Y /* (rows, groups, n) */ };
enum { INQUEST_RMSNORM_EPS };

/* y = x w^T + bias. One call a matrix: q, k and v are three.
 * w is (n, k) float32, its rows unpacked; for a kernel with INQUEST_PACKED it is (panels, bytes of a panel) of
 * INQUEST_U8: 64 outputs side by side, k-major, outputs past n are zeros; FORMAT says how (offsets in bytes):
 *   0 F32   per k:    64 floats                 3 Q8_0  per 32 k: 64 halves d, then per k 64 int8
 *   1 F16   per k:    64 halves                 4 Q4_0  per 32 k: 64 halves d, then per 8 k 64 dwords
 *   2 BF16  per 2 k:  64 dwords, even k low     5 Q4_1  per 32 k: 64 halves d, 64 halves m, then as Q4_0
 * A dword of nibbles holds q of k + i at bits 4i .. 4i + 3. Q8_0 is d q, Q4_0 d (q - 8), Q4_1 d q + m.
 * UNIT: columns of a unit of golden's sum over k (see README); any order is allowed, but only golden's gives its bits. */
enum { INQUEST_MATMUL_X /* (rows, k) */, INQUEST_MATMUL_W, INQUEST_MATMUL_BIAS /* (n), or data NULL */ };
enum { INQUEST_MATMUL_Y /* (rows, n) */ };
enum { INQUEST_MATMUL_FORMAT, INQUEST_MATMUL_UNIT };

/* The k largest of each row, descending, ties by ascending id; NaN last; -0 equals +0 */
enum { INQUEST_TOPK_LOGITS /* (rows, vocab) */ };
enum { INQUEST_TOPK_IDS /* (rows, k) u32 */, INQUEST_TOPK_VALUES /* (rows, k) */ };
enum { INQUEST_TOPK_SHARDS }; /* equal parts of the row, one a tensor-parallel rank */

/* Causal, grouped queries: head h reads KV head h / (heads / kv_heads). SEQ has a line a sequence: its first row, its rows,
 * the position of the first, the first of its keys in K and V. A row at position p sees the sequence's keys
 * max(0, p + 1 - window) .. p, window 0: all. score = q.k * scale. */
enum {
    INQUEST_ATTENTION_Q,  /* (rows, heads, head_dim) */
    INQUEST_ATTENTION_K,  /* (keys of all sequences, kv_heads, head_dim) */
    INQUEST_ATTENTION_V,  /* as k */
    INQUEST_ATTENTION_SEQ /* (sequences, 4) u32 */
};
enum { INQUEST_ATTENTION_Y /* (rows, heads, head_dim) */ };
enum { INQUEST_ATTENTION_SCALE, INQUEST_ATTENTION_WINDOW };

/* Pair i of the first `rotary` elements of a head is (2i, 2i + 1) when interleaved, else (i, i + rotary / 2):
 * a' = a cos - b sin, b' = b cos + a sin; other elements are copied. */
enum {
    INQUEST_ROPE_Q,    /* (rows, heads, dim) */
    INQUEST_ROPE_K,    /* (rows, kv_heads, dim) */
    INQUEST_ROPE_POS,  /* (rows) u32 */
    INQUEST_ROPE_TABLE /* (rows, rotary / 2, 2): cos and sin at the row's position */
};
enum { INQUEST_ROPE_Q_OUT, INQUEST_ROPE_K_OUT }; /* as q, k */
enum { INQUEST_ROPE_ROTARY, INQUEST_ROPE_INTERLEAVED };

/* y = the sum of the pieces, each the sum of units [unit, unit + units) of k, in ascending order */
enum {
    INQUEST_ALL_REDUCE_X /* (pieces, rows, n) */,
    INQUEST_ALL_REDUCE_PIECE /* (pieces, 3) u32: unit, units, rank */
};
enum { INQUEST_ALL_REDUCE_Y /* (rows, n) */ };

enum { INQUEST_SWIGLU_GATE /* (rows, n) */, INQUEST_SWIGLU_UP /* (rows, n) */ };
enum { INQUEST_SWIGLU_Y /* (rows, n): gate / (1 + exp(-gate)) * up */ };

enum { INQUEST_ADD_A /* (rows, n) */, INQUEST_ADD_B /* (rows, n) */ };
enum { INQUEST_ADD_Y /* (rows, n) */ };

/* What the author says of a kernel; nothing is believed, it is only listed beside what was measured. */
enum {
    INQUEST_BENIGN = 1, /* another order or tile: other bits, no wrong result */
    INQUEST_FAULTY = 2, /* wrong on purpose */
    INQUEST_GOLDEN = 4, /* claims golden's bits */
    INQUEST_PACKED = 8  /* matmul: wants the weights as they are stored */
};

struct inquest_param {
    const char *name, *help;
    double def, lo, hi; /* def within lo to hi, all finite */
};

enum { INQUEST_PARAMS_MAX = 16, INQUEST_KERNELS_MAX = 64, INQUEST_NAME_MAX = 63 };

struct inquest_kernel {
    const char *kind, *name; /* name: letters, digits, _ . -, and no variant of the kind has it */
    const char *what;        /* one line for listings, or NULL */
    uint32_t flags;
    uint32_t n_params;
    const struct inquest_param *params; /* (n_params) */
    int (*run)(const struct inquest_call *);
};

struct inquest_kernel_library {
    uint32_t abi, kernel_size; /* INQUEST_ABI, sizeof(struct inquest_kernel) as the library was built */
    uint32_t n_kernels, reserved;
    const struct inquest_kernel *kernels; /* (n_kernels) */
};

/* abi: INQUEST_ABI of the inquest that asks. NULL where the library has nothing for it. */
const struct inquest_kernel_library *inquest_kernels(uint32_t abi);

#ifdef __cplusplus
}
#endif

#endif
