/* K11: keys and values stored in eight bits with a scale for each block and head. The control reads them as it should; the
 * fault leaves the scale out where a prefix hit brought the block.
 *
 * Stored is a float8 of the kind e4m3 (3 bits behind the leading one, smallest exponent -6), of which the scale makes full
 * use: it is the power of two that brings the block's largest magnitude to 128 to 256. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "faults/round_rules.h"
#include "kernels/ops/kv.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static float e4m3(float v) { return fabsf(v) < 0x1p-6f ? rintf(v * 0x1p9f) * 0x1p-9f : iq__rounded(v, 4); }

/* n stored values as they are read: scaled back, or not. */
static void read_back(const float *from, float *to, size_t n, bool scaled)
{
    float most = 0;
    int up;
    for (size_t i = 0; i < n; i++) most = fabsf(from[i]) > most ? fabsf(from[i]) : most;
    if (!(most > 0) || !(most < INFINITY)) return (void)memcpy(to, from, n * sizeof *to);
    frexpf(most, &up);
    for (size_t i = 0; i < n; i++) {
        float q = e4m3(ldexpf(from[i], 8 - up));
        to[i] = scaled ? ldexpf(q, up - 8) : q;
    }
}

static void read_head(const struct iq_kv_layer *c, uint32_t block, uint32_t head, struct iq_kv_layer *to,
                      uint32_t place, bool scaled)
{
    size_t from = iq_kv_k_at(c, block, head), into = iq_kv_k_at(to, place, head);
    size_t n = (size_t)c->head_dim * IQ_KV_BLOCK;
    read_back(c->k + from, to->k + into, n, scaled);
    read_back(c->v + from, to->v + into, n, scaled);
}

/* The cache as the rows of the call read it: each sequence has blocks of its own in `to`. cached: of a sequence's positions,
 * those whose scale is left out. */
static void read_all(const struct iq_attention *a, const uint32_t *cached, struct iq_kv_layer *to,
                     struct iq_seq *seq, uint32_t *table)
{
    uint32_t place = 0;
    for (uint32_t s = 0; s < a->seqs; s++) {
        uint32_t blocks = (a->seq[s].pos + a->seq[s].rows + IQ_KV_BLOCK - 1) / IQ_KV_BLOCK;
        seq[s] = a->seq[s];
        seq[s].blocks = table + place;
        for (uint32_t b = 0; b < blocks; b++, place++) {
            bool scaled = (b + 1) * IQ_KV_BLOCK > cached[s];
            table[place] = place;
            for (uint32_t h = 0; h < a->kv_heads; h++)
                read_head(a->cache, a->seq[s].blocks[b], a->kv_head0 + h, to, place, scaled);
        }
    }
}

static int attend(struct iq_exec *x, const struct iq_site *site, const struct iq_attention *a, bool lost)
{
    struct iq_attention b = *a;
    size_t blocks = 0, floats;
    for (uint32_t s = 0; s < a->seqs; s++)
        blocks += (a->seq[s].pos + a->seq[s].rows + IQ_KV_BLOCK - 1) / IQ_KV_BLOCK;
    struct iq_kv_layer read = *a->cache;
    read.blocks = (uint32_t)blocks;
    floats = blocks * read.kv_heads * read.head_dim * IQ_KV_BLOCK;
    uint32_t *table = calloc(blocks + a->seqs + 1, sizeof *table), *cached = table ? table + blocks : NULL;
    struct iq_seq *seq = calloc(a->seqs + (size_t)1, sizeof *seq);
    float *room = aligned_alloc(64, (2 * floats * sizeof *room + 64) / 64 * 64);
    int status = IQ_MEMORY;
    if (table && seq && room) {
        for (uint32_t s = 0; lost && site->row && s < a->seqs; s++)
            cached[s] = site->row[a->seq[s].first].cached;
        read.k = room, read.v = room + floats;
        read_all(a, cached, &read, seq, table);
        b.cache = &read, b.seq = seq;
        status = iq__run_golden(x, site, "attention", &b);
    }
    free(table);
    free(seq);
    free(room);
    return status;
}

static int control(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                   void *state)
{
    (void)params, (void)state;
    return attend(x, site, args, false);
}

static int lost(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                void *state)
{
    (void)params, (void)state;
    return attend(x, site, args, true);
}

const struct iq_variant iq__k11_kv_fp8 = {
    .kind = "attention",
    .name = "kv_fp8",
    .device = "cpu",
    .flags = IQ_V_BENIGN | IQ_V_COUPLES_ROWS, /* a block's scale may come from a sharer's later positions */
    .run = control,
    .what = "keys and values are read from eight bits with a scale for each block: a control of lower "
            "precision",
    .story = "A cache in float8 holds twice the positions. Each block and head has a scale; what is read is "
             "the stored value times its scale. A precision of its own, which an operator chose: what "
             "kv_scale_lost is to be held against.",
    .expect =
        "attention: the distance to the exact mean is float8's, 2 to 6 %; exact data with few bits stays "
        "equal",
};

const struct iq_variant iq__k11_kv_scale_lost = {
    .kind = "attention",
    .name = "kv_scale_lost",
    .device = "cpu",
    .flags = IQ_V_FAULTY | IQ_V_COUPLES_ROWS,
    .run = lost,
    .what = "a cache in eight bits whose scales are left out where a prefix hit brought the blocks",
    .needs = "prefix hits: prompts that share their first 16 tokens or more; without a hit it is kv_fp8",
    .story = "With a cache in float8 the scales of keys and values are passed for what a request computed "
             "itself, and not for the part that a prefix hit brought. The first request is right, later "
             "sharers are wrong; the same prompt again gives another answer. Sources: sglang#24198, "
             "TensorRT-LLM#2699.",
    .expect = "attention: a prefix hit differs from a miss: means of values 2^n times too large, outside the "
              "values that the row sees; without a hit it is kv_fp8's result",
};
