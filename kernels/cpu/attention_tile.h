/* Tiles of attention: what the drivers for all instruction sets share. Internal to kernels/cpu/attention*. */
#ifndef IQ_CPU_ATTENTION_TILE_H
#define IQ_CPU_ATTENTION_TILE_H

#include "kernels/arith.h"
#include "kernels/ops/kv.h"

#include <stdbool.h>

struct iq_exec;

/* Floats from one row's scores, and from one row's queries, to the next: a chunk, and 16 so that the rows
 * of a tile don't share a few cache sets. Constant, so that one register addresses all rows. */
enum { SCORE_STRIDE = IQ_KEY_CHUNK + 16, QUERY_STRIDE = IQ_CHUNK + 16 };

/* The keys and values of one sequence and KV head. */
struct reach {
    const float *k, *v;     /* the head's part of block 0 */
    const uint32_t *blocks; /* the sequence's block table */
    size_t block_stride;    /* floats from block to block */
    uint32_t dim;
};

static inline const float *reach_k(const struct reach *r, uint32_t key)
{
    return r->k + r->blocks[key / IQ_KV_BLOCK] * r->block_stride + key % IQ_KV_BLOCK;
}
static inline const float *reach_v(const struct reach *r, uint32_t key)
{
    return r->v + r->blocks[key / IQ_KV_BLOCK] * r->block_stride + (size_t)(key % IQ_KV_BLOCK) * r->dim;
}

struct tile_row {
    uint32_t lo, hi;     /* keys that it sees */
    uint32_t lo_c, hi_c; /* of these in the current chunk; equal: none */
    float *y;            /* (dim) */
    float m, l, m_c, l_c;
    bool begun; /* m, l and sum hold earlier chunks */
};

/* Consecutive rows that share `keys`. Buffers belong to one thread. */
struct tile {
    struct reach keys;
    uint32_t rows, rows_max, act;
    float scale;
    size_t stride;      /* of sum and chunk: dim rounded up to whole vectors */
    float *q;           /* (chunks of dim, rows_max, QUERY_STRIDE) */
    float *scores;      /* (chunks of dim, rows_max, SCORE_STRIDE); weights later */
    float *chunk, *sum; /* (rows_max, stride): P.V of a chunk; merged */
    struct tile_row *row;
};

/* x[0..n) of part 0 = the tree's sum of `parts` runs of n floats, `stride` apart; destroys the rest. */
static inline void tree_add(float *x, size_t stride, uint32_t parts, uint32_t n)
{
    /* parts <= 2 is the common case; the depth is log2(parts). */
    uint32_t left = iq_tree_left(parts);
    if (left > 1) tree_add(x, stride, left, n);
    if (parts - left > 1) tree_add(x + left * stride, stride, parts - left, n);
    for (uint32_t i = 0; i < n; i++) x[i] += x[left * stride + i];
}

/* Cuts the call into tiles of at most `tile` rows and runs them on the exec's threads: contiguous shares of
 * equal cost, of the list (sequence, KV head, tile). */
int iq__attention_tiles(struct iq_exec *, const struct iq_attention *, uint32_t tile,
                        void (*run)(const struct tile *));

#endif
