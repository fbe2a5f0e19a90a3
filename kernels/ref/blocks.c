/* References of the control ops over the KV pool. */
#include "kernels/ops/blocks.h"
#include "kernels/op.h"

#define RUN(name, body)                                                                                      \
    static int run_##name(struct iq_exec *x, const struct iq_site *site, const void *args,                   \
                          const void *params, void *state)                                                   \
    {                                                                                                        \
        const struct iq_##name *a = args;                                                                    \
        (void)x, (void)site, (void)params, (void)state;                                                      \
        body return IQ_OK;                                                                                   \
    }

static uint32_t oldest_idle(const struct iq_kv_evict *a)
{
    const struct iq_prefix_entry *oldest = NULL;
    for (uint32_t i = 0; i < a->capacity; i++) {
        const struct iq_prefix_entry *e = &a->entry[i];
        if (iq_digest_is_zero(e->key) || a->refs[e->block]) continue;
        if (!oldest || e->used < oldest->used) oldest = e;
    }
    return oldest ? oldest->block : UINT32_MAX;
}

RUN(kv_alloc, *a->block = a->free[a->n_free - 1];)
RUN(kv_evict, *a->block = oldest_idle(a);)
RUN(kv_free, *a->fate = a->refs ? IQ_KV_HELD : a->cached ? IQ_KV_CACHED : IQ_KV_FREE;)
RUN(kv_land, *a->landed = a->layers;)
RUN(kv_move, *a->copied = a->row;)

#define REFERENCE(op)                                                                                        \
    {                                                                                                        \
        .kind = #op, .name = "reference", .device = "cpu", .flags = IQ_V_REFERENCE | IQ_V_GOLDEN,            \
        .run = run_##op                                                                                      \
    }
static const struct iq_variant alloc = REFERENCE(kv_alloc), evict = REFERENCE(kv_evict),
                               release = REFERENCE(kv_free), land = REFERENCE(kv_land),
                               move = REFERENCE(kv_move);

const struct iq_variant *const iq__variants_blocks[] = {&alloc, &evict, &release, &land, &move, NULL};
