/* Reference of kv_write. */
#include "kernels/exec.h"
#include "kernels/op.h"
#include "kernels/ops/kv.h"

static void write_row(const struct iq_kv_write *a, uint32_t r, uint32_t block, uint32_t slot)
{
    const struct iq_kv_layer *c = a->cache;
    for (uint32_t h = 0; h < a->kv_heads; h++) {
        const float *k = a->k + r * a->ldk + (size_t)h * c->head_dim;
        const float *v = a->v + r * a->ldv + (size_t)h * c->head_dim;
        size_t at = iq_kv_k_at(c, block, a->kv_head0 + h);
        for (uint32_t d = 0; d < c->head_dim; d++) {
            c->k[at + (size_t)d * IQ_KV_BLOCK + slot] = k[d];
            c->v[at + (size_t)slot * c->head_dim + d] = v[d];
        }
    }
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_kv_write *a = args;
    (void)x, (void)site, (void)params, (void)state;
    for (const struct iq_seq *s = a->seq; s < a->seq + a->seqs; s++)
        for (uint32_t i = 0; i < s->rows; i++) {
            uint32_t pos = s->pos + i;
            write_row(a, s->first + i, s->blocks[pos / IQ_KV_BLOCK], pos % IQ_KV_BLOCK);
        }
    return IQ_OK;
}

const struct iq_variant iq__kv_write_reference = {.kind = "kv_write",
                                                  .name = "reference",
                                                  .device = "cpu",
                                                  .flags = IQ_V_REFERENCE | IQ_V_GOLDEN,
                                                  .run = run};
