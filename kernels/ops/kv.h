/* Paged KV cache of one layer, and the rows that read and write it.
 *
 * A block holds IQ_KV_BLOCK consecutive positions. K stands k-major, so that a vector lane is a position; V row-major,
 * so that a lane is an element: both are panels for the product kernels.
 *   k: (blocks, kv_heads, head_dim, IQ_KV_BLOCK)      v: (blocks, kv_heads, IQ_KV_BLOCK, head_dim)
 */
#ifndef IQ_OPS_KV_H
#define IQ_OPS_KV_H

#include <stddef.h>
#include <stdint.h>

enum { IQ_KV_BLOCK = 16 }; /* positions; divides the attention chunk */

struct iq_kv_layer {
    float *k, *v;
    uint32_t blocks, kv_heads, head_dim;
};

/* Consecutive rows of one request: row first + i has position pos + i. */
struct iq_seq {
    uint32_t first, rows, pos;
    const uint32_t *blocks; /* block table: position p lives in blocks[p / IQ_KV_BLOCK] */
};

static inline size_t iq_kv_k_at(const struct iq_kv_layer *c, uint32_t block, uint32_t head)
{
    return ((size_t)block * c->kv_heads + head) * c->head_dim * IQ_KV_BLOCK;
}
#define iq_kv_v_at iq_kv_k_at /* both layouts take the same room */

/* kv_write: store k and v of each row. Points: k, v as read back from the cache. */
struct iq_kv_write {
    uint32_t rows, kv_heads, kv_head0; /* heads of this rank, and the first of them in the cache */
    const float *k, *v;                /* (rows, kv_heads, head_dim), row strides ldk, ldv */
    size_t ldk, ldv;
    const struct iq_kv_layer *cache;
    const struct iq_seq *seq; /* (seqs), covering the rows in order */
    uint32_t seqs;
};

/* attention: grouped-query, causal, over the cache. Query head h reads kv head kv_head0 + h / (heads / kv_heads).
 * A row at position p sees keys max(0, p + 1 - window) .. p (window 0: all). Arithmetic: kernels/arith.h. */
struct iq_attention {
    uint32_t rows, heads, kv_heads, kv_head0, window, act;
    float scale;
    const float *q; /* (rows, heads, head_dim), row stride ldq */
    float *y;       /* (rows, heads, head_dim), row stride ldy */
    size_t ldq, ldy;
    const struct iq_kv_layer *cache;
    const struct iq_seq *seq;
    uint32_t seqs;
};

#endif
