/* What the CUDA kernels offer to a device layer: a table with one launcher per kind.
 *
 * A launcher takes the op's own argument struct (kernels/ops/NAME.h) and puts the kernel on a stream; it neither waits nor
 * allocates, so that it may be captured into a graph. Of the struct, the host reads the scalars; pointers to floats, ids
 * and the like are device memory. Three descriptors stay on the host, and what they point to is on the device: `struct
 * iq_matrix`, also in arrays (its data), `struct iq_kv_layer` (its k and v), the array `piece` of all_reduce (each one's x). `seq` is a
 * device array, and so are the block tables that it names: a captured graph then reads what the host has staged. A row
 * that no sequence covers (padding) is left alone by kv_write and attention.
 *
 * Returns IQ_OK, or IQ_SHAPE, IQ_LIMIT, IQ_UNSUPPORTED before anything was launched. What the driver says of the launch
 * itself is the caller's to ask (cudaGetLastError). */
#ifndef IQ_CUDA_LAUNCH_H
#define IQ_CUDA_LAUNCH_H

#include "kernels/arith.h"
#include "kernels/base/digest.h"
#include "kernels/ops/embed.h"
#include "kernels/ops/kv.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/moe.h"
#include "kernels/ops/reduce.h"
#include "kernels/ops/rmsnorm.h"
#include "kernels/ops/rope.h"
#include "kernels/ops/sampling.h"
#include "kernels/ops/vector.h"

typedef void *iq_cuda_stream; /* a cudaStream_t; NULL: the default stream */

/* Digests of rows (kernels/base/digest.h): row r is run 0, then run 1. Elements of 4 bytes; a float32 NaN is canonical. */
struct iq_cuda_digest {
    uint32_t rows;
    struct {
        const void *x; /* (rows, n), row stride ld elements */
        size_t ld;
        uint32_t n; /* run 1: 0 where a row is a single run */
    } run[2];
    struct iq_digest *out; /* (rows) */
};

/* Digests of what kv_write stored, read back from the cache: point 0 K, point 1 V. Padded rows get zeros. */
struct iq_cuda_kv_digest {
    const struct iq_kv_write *write;
    unsigned point;
    struct iq_digest *out; /* (rows) */
};

/* Rows of 4-byte elements that are set aside, and settled once a fault has run over them. Words of row r stand at
 * saved + r * stride + at. Settling: where `won` has the row's bit, changed[r] becomes 1 if a bit differs from what was saved
 * (and stays as it is otherwise); the other rows get their saved bits back. */
struct iq_cuda_rows {
    uint32_t rows, n;
    void *x; /* (rows, n), row stride ld elements */
    size_t ld, stride, at;
    uint32_t *saved;
    const uint32_t *won; /* (rows / 32 + 1) bits */
    uint32_t *changed;   /* (rows) */
};

enum {
    IQ_CUDA_HEAD_DIM = 512,  /* most elements of a head that attention takes */
    IQ_CUDA_PARTIAL_HEAD = 2 /* what a chunk's elements follow: its maximum and its sum */
};

static inline uint32_t iq_cuda_attention_chunks(uint32_t context)
{
    return context / IQ_KEY_CHUNK + (context % IQ_KEY_CHUNK != 0);
}
static inline uint64_t iq_cuda_attention_floats(const struct iq_attention *a, uint32_t context)
{
    return (uint64_t)a->rows * a->heads * iq_cuda_attention_chunks(context) *
           (IQ_CUDA_PARTIAL_HEAD + (uint64_t)a->cache->head_dim);
}

struct iq_cuda_kernels {
    int (*embed)(const struct iq_embed *, iq_cuda_stream);
    int (*rmsnorm)(const struct iq_rmsnorm *, iq_cuda_stream);
    int (*matmul)(const struct iq_matmul *, iq_cuda_stream);
    int (*rope)(const struct iq_rope *, iq_cuda_stream);
    int (*kv_write)(const struct iq_kv_write *, iq_cuda_stream);
    int (*attention)(const struct iq_attention *, iq_cuda_stream);
    /* The same bits by more blocks: a chunk of keys each, for few rows and long contexts. No position of the call, nor of
     * a graph's later runs, sees more than `context` keys; partial: device memory of iq_cuda_attention_floats(). */
    int (*attention_split)(const struct iq_attention *, uint32_t context, float *partial, iq_cuda_stream);
    int (*all_reduce)(const struct iq_all_reduce *, iq_cuda_stream);
    int (*add)(const struct iq_add *, iq_cuda_stream);
    int (*swiglu)(const struct iq_swiglu *, iq_cuda_stream);
    int (*temper)(const struct iq_temper *, iq_cuda_stream);
    int (*topk)(const struct iq_topk *, iq_cuda_stream);
    /* status: (rows) device memory; each row's IQ_OK or why it could not be drawn (ops/sampling.h). */
    int (*sample)(const struct iq_sample *, int32_t *status, iq_cuda_stream);
    int (*route)(const struct iq_route *, iq_cuda_stream);
    int (*moe_dispatch)(const struct iq_moe_dispatch *, iq_cuda_stream);
    int (*moe_lists)(const struct iq_moe_dispatch *, iq_cuda_stream); /* iq_moe_lists */
    int (*all_to_all)(const struct iq_all_to_all *, iq_cuda_stream);
    int (*grouped_matmul)(const struct iq_grouped_matmul *, iq_cuda_stream);
    int (*combine)(const struct iq_combine *, iq_cuda_stream);
    int (*digest)(const struct iq_cuda_digest *, iq_cuda_stream);
    int (*kv_digest)(const struct iq_cuda_kv_digest *, iq_cuda_stream);
    int (*rows_save)(const struct iq_cuda_rows *, iq_cuda_stream);
    int (*rows_settle)(const struct iq_cuda_rows *, iq_cuda_stream);
    /* Saves what kv_write stored (point 0 K, 1 V), as rows of the cache's layout; x is not used. */
    int (*rows_kv)(const struct iq_cuda_rows *, const struct iq_kv_write *, unsigned point, iq_cuda_stream);
    /* matmul by tensor-core instructions. profile: enum iq_tc_profile_id, which has to be the GPU's own (the shim takes
     * any); format of operands: enum iq_tc_format. */
    int (*products)(const struct iq_matmul *, unsigned profile, unsigned format, iq_cuda_stream);
};

#ifdef __cplusplus
extern "C" {
#endif
extern const struct iq_cuda_kernels iq__cuda_kernels;      /* built by nvcc, where it is found */
extern const struct iq_cuda_kernels iq__cuda_shim_kernels; /* the same source on the CPU */
#ifdef __cplusplus
}
#endif

#endif
