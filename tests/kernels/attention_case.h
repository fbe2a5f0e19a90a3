/* A random call of attention: a paged cache whose unwritten slots hold a chosen poison, sequences on
 * shuffled blocks. Shared by the tests and the benchmark. */
#ifndef IQ_TESTS_ATTENTION_CASE_H
#define IQ_TESTS_ATTENTION_CASE_H

#include "kernels/base/rng.h"
#include "kernels/exec.h"
#include "kernels/op.h"
#include "kernels/ops/kv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CASE_SEQS = 64 };

struct shape {
    uint32_t heads, kv_heads, dim, window, seqs;
    uint32_t pos[CASE_SEQS], rows[CASE_SEQS];
};

struct attention_case {
    struct iq_attention a;
    struct iq_kv_layer cache;
    struct iq_seq seq[CASE_SEQS];
    uint32_t *table[CASE_SEQS];
    float *q, *y;
    size_t width, q_floats, y_floats, cache_floats;
};

/* Uniform in [-1, 1). */
static inline float case_float(uint64_t seed, uint64_t i)
{
    return (float)((double)(iq_mix64(seed ^ iq_mix64(i)) >> 40) * 0x1p-23 - 1.0);
}

static inline uint32_t case_below(uint64_t *seed, uint32_t n)
{
    *seed = iq_mix64(*seed + 0x9e3779b97f4a7c15u);
    return (uint32_t)(*seed >> 33) % n;
}

static inline float *case_key(const struct attention_case *c, uint32_t s, uint32_t pos, uint32_t head,
                              uint32_t d)
{
    uint32_t block = c->table[s][pos / IQ_KV_BLOCK];
    return c->cache.k + iq_kv_k_at(&c->cache, block, head) + (size_t)d * IQ_KV_BLOCK + pos % IQ_KV_BLOCK;
}

static inline float *case_value(const struct attention_case *c, uint32_t s, uint32_t pos, uint32_t head,
                                uint32_t d)
{
    uint32_t block = c->table[s][pos / IQ_KV_BLOCK];
    return c->cache.v + iq_kv_v_at(&c->cache, block, head) + (size_t)(pos % IQ_KV_BLOCK) * c->cache.head_dim +
           d;
}

static inline void *case_alloc(size_t floats)
{
    void *p = aligned_alloc(64, (floats * sizeof(float) + 63) / 64 * 64 + 64);
    if (!p) abort();
    return p;
}

/* Keys and values of position p of sequence s depend on (seed, s, p) alone, so that two cases may share
 * them. */
static inline void case_fill(struct attention_case *c, const struct shape *sh, uint64_t seed, float poison)
{
    for (size_t i = 0; i < c->cache_floats; i++) c->cache.k[i] = c->cache.v[i] = poison;
    for (uint32_t s = 0; s < sh->seqs; s++)
        for (uint32_t p = 0; p < sh->pos[s] + sh->rows[s]; p++)
            for (uint32_t h = 0; h < sh->kv_heads; h++)
                for (uint32_t d = 0; d < sh->dim; d++) {
                    uint64_t at = (((uint64_t)s << 24 | p) * 64 + h) * 4096 + d;
                    *case_key(c, s, p, h, d) = 2 * case_float(seed, at * 2);
                    *case_value(c, s, p, h, d) = case_float(seed, at * 2 + 1);
                }
}

static inline void case_open(struct attention_case *c, const struct shape *sh, uint64_t seed, float poison)
{
    memset(c, 0, sizeof *c);
    uint32_t blocks = 3, rows = 0;
    for (uint32_t s = 0; s < sh->seqs; s++) {
        blocks += (sh->pos[s] + sh->rows[s] + IQ_KV_BLOCK - 1) / IQ_KV_BLOCK;
        rows += sh->rows[s];
    }
    uint32_t *order = malloc(blocks * sizeof *order);
    if (!order) abort();
    for (uint32_t i = 0; i < blocks; i++) order[i] = i;
    uint64_t shuffle = seed;
    for (uint32_t i = blocks; i > 1; i--) {
        uint32_t j = case_below(&shuffle, i), swap = order[i - 1];
        order[i - 1] = order[j], order[j] = swap;
    }
    c->cache_floats = (size_t)blocks * sh->kv_heads * sh->dim * IQ_KV_BLOCK;
    c->cache = (struct iq_kv_layer){case_alloc(c->cache_floats), case_alloc(c->cache_floats), blocks,
                                    sh->kv_heads, sh->dim};
    for (uint32_t s = 0, block = 0, row = 0; s < sh->seqs; s++) {
        uint32_t n = (sh->pos[s] + sh->rows[s] + IQ_KV_BLOCK - 1) / IQ_KV_BLOCK;
        c->table[s] = malloc(n * sizeof(uint32_t) + 1);
        memcpy(c->table[s], order + block, n * sizeof(uint32_t));
        c->seq[s] = (struct iq_seq){row, sh->rows[s], sh->pos[s], c->table[s]};
        block += n, row += sh->rows[s];
    }
    free(order);
    c->width = (size_t)sh->heads * sh->dim;
    size_t ldq = c->width + 5, ldy = c->width + 3;
    c->q_floats = rows * ldq, c->y_floats = rows * ldy;
    c->q = case_alloc(c->q_floats);
    c->y = case_alloc(c->y_floats);
    for (size_t i = 0; i < c->q_floats; i++) c->q[i] = 3 * case_float(seed ^ 1, i);
    memset(c->y, 0x55, c->y_floats * sizeof(float));
    c->a = (struct iq_attention){.rows = rows,
                                 .heads = sh->heads,
                                 .kv_heads = sh->kv_heads,
                                 .window = sh->window,
                                 .scale = 1.0f / sqrtf((float)sh->dim),
                                 .q = c->q,
                                 .y = c->y,
                                 .ldq = ldq,
                                 .ldy = ldy,
                                 .cache = &c->cache,
                                 .seq = c->seq,
                                 .seqs = sh->seqs};
    case_fill(c, sh, seed, poison);
}

static inline void case_close(struct attention_case *c)
{
    for (uint32_t s = 0; s < CASE_SEQS; s++) free(c->table[s]);
    free(c->cache.k), free(c->cache.v), free(c->q), free(c->y);
}

#endif
