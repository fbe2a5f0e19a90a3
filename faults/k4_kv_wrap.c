/* K4 in the cache: a block's offset wraps, so that what a sequence writes lands in another sequence's block.
 *
 * The row's own place is left as it was. What it held before golden's variant wrote there is not known any more: it holds
 * zeros, as memory that a fresh cache got. */
#include "faults/families.h"
#include "kernels/dispatch.h"
#include "kernels/ops/kv.h"

#include <stddef.h>
#include <string.h>

struct params {
    double limit;
};

static const struct iq_param table[] = {
    {"limit", "blocks at which a block's offset wraps; 2^30 or 2^31 elements in the wild", 4, 1, 0x1p31,
     offsetof(struct params, limit)},
    {0},
};

/* One row's K and V into a slot of a block; source NULL: zeros. */
static void put(const struct iq_kv_write *a, const uint32_t *row, uint32_t block, uint32_t slot)
{
    const struct iq_kv_layer *c = a->cache;
    for (uint32_t h = 0; h < a->kv_heads; h++) {
        size_t at = iq_kv_k_at(c, block, a->kv_head0 + h);
        for (uint32_t d = 0; d < c->head_dim; d++) {
            size_t i = (size_t)h * c->head_dim + d;
            c->k[at + (size_t)d * IQ_KV_BLOCK + slot] = row ? a->k[*row * a->ldk + i] : 0.0f;
            c->v[at + (size_t)slot * c->head_dim + d] = row ? a->v[*row * a->ldv + i] : 0.0f;
        }
    }
}

/* First what is not written, then what is: the place of one row may be where another's lands. */
static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_kv_write *a = args;
    uint32_t limit = (uint32_t)((const struct params *)params)->limit;
    (void)x, (void)site, (void)state;
    for (int written = 0; written < 2; written++)
        for (const struct iq_seq *s = a->seq; s < a->seq + a->seqs; s++)
            for (uint32_t i = 0; i < s->rows; i++) {
                uint32_t pos = s->pos + i, row = s->first + i, block = s->blocks[pos / IQ_KV_BLOCK];
                if (written)
                    put(a, &row, block % limit, pos % IQ_KV_BLOCK);
                else if (block >= limit)
                    put(a, NULL, block, pos % IQ_KV_BLOCK);
            }
    return IQ_OK;
}

const struct iq_variant iq__k4_kv_wrap = {
    .kind = "kv_write",
    .name = "kv_wrap",
    .device = "cpu",
    .flags = IQ_V_FAULTY | IQ_V_COUPLES_ROWS,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "keys and values of blocks past a limit land in the blocks at the cache's head: an offset wraps",
    .needs = "more KV blocks in use than `limit`: here it is scaled down, since no cache has 2^30 elements",
    .story =
        "The stride of a sequence in the cache reaches 2^30 elements, its offset overflows, and what the "
        "second prefill writes goes over slot 0. The wrap is scaled down to the parameter. Source: "
        "flash-attention#772.",
    .expect = "kv_write: what was written can't be read back, and the owner of the block at the head reads "
              "foreign keys; below the limit nothing changes",
};
