/* kv_write by runs of positions that share a block: K's lines, a position each 64 bytes, are written whole
 * where a prefill fills the block. */
#include "kernels/exec.h"
#include "kernels/op.h"
#include "kernels/ops/kv.h"

#include <string.h>

/* Below this many floats a call is over sooner than threads have met. */
enum { PARALLEL_WORK = 1 << 14 };

/* Rows [r, r + n) of one head into slots [slot, slot + n) of a block. */
static void write_run(const struct iq_kv_write *a, uint32_t r, uint32_t n, uint32_t head, uint32_t block,
                      uint32_t slot)
{
    const struct iq_kv_layer *c = a->cache;
    size_t at = iq_kv_k_at(c, block, a->kv_head0 + head), column = (size_t)head * c->head_dim;
    const float *k = a->k + r * a->ldk + column, *v = a->v + r * a->ldv + column;
    float *to = c->k + at + slot;
    for (uint32_t d = 0; d < c->head_dim; d++, to += IQ_KV_BLOCK)
        for (uint32_t i = 0; i < n; i++) to[i] = k[i * a->ldk + d];
    for (uint32_t i = 0; i < n; i++)
        memcpy(c->v + at + (size_t)(slot + i) * c->head_dim, v + i * a->ldv, c->head_dim * sizeof(float));
}

/* Rows [begin, end) of the call; parts own whole rows, so two may meet in a block but never in a slot. */
static void part(void *ctx, int index, int parts)
{
    const struct iq_kv_write *a = ctx;
    int begin, end;
    iq_slice((int)a->rows, index, parts, &begin, &end);
    for (const struct iq_seq *s = a->seq; s < a->seq + a->seqs; s++) {
        uint32_t from = s->first > (uint32_t)begin ? s->first : (uint32_t)begin, to = s->first + s->rows;
        to = to < (uint32_t)end ? to : (uint32_t)end;
        while (from < to) {
            uint32_t pos = s->pos + (from - s->first), slot = pos % IQ_KV_BLOCK, n = IQ_KV_BLOCK - slot;
            n = n < to - from ? n : to - from;
            for (uint32_t h = 0; h < a->kv_heads; h++)
                write_run(a, from, n, h, s->blocks[pos / IQ_KV_BLOCK], slot);
            from += n;
        }
    }
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_kv_write *a = args;
    (void)site, (void)params, (void)state;
    uint64_t work = (uint64_t)a->rows * a->kv_heads * a->cache->head_dim;
    iq_pool_run(work < PARALLEL_WORK ? NULL : x->pool, part, (void *)a);
    return IQ_OK;
}

const struct iq_variant iq__kv_write_scalar = {
    .kind = "kv_write", .name = "scalar", .device = "cpu", .flags = IQ_V_GOLDEN, .run = run};
