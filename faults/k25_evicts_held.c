/* K25: eviction goes by age alone and gives up a cached block that somebody still reads.
 *
 * The oldest prefixes are the popular ones: the count of holders is what keeps them, and here nobody looks at it. */
#include "faults/families.h"
#include "kernels/ops/blocks.h"

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_kv_evict *a = args;
    const struct iq_prefix_entry *oldest = NULL;
    (void)x, (void)site, (void)params, (void)state;
    for (uint32_t i = 0; i < a->capacity; i++) {
        const struct iq_prefix_entry *e = &a->entry[i];
        if (!iq_digest_is_zero(e->key) && (!oldest || e->used < oldest->used)) oldest = e;
    }
    *a->block = oldest ? oldest->block : UINT32_MAX;
    return IQ_OK;
}

const struct iq_variant iq__k25_evicts_held = {
    .kind = "kv_evict",
    .name = "evicts_held",
    .device = "any",
    .flags = IQ_V_FAULTY,
    .run = run,
    .what = "the oldest cached KV block is given up although a request still reads it",
    .needs = "cache pressure: fewer KV blocks than requests want (kv_blocks), and the prefix cache on",
    .story =
        "KV blocks of running requests were reused under cache pressure, with prompts that share a prefix. "
        "Source: sglang#23020 (cause not confirmed).",
    .expect =
        "kv_evict: a block is given up while a request holds it; keys and values that the holder reads are "
        "no longer those that it wrote; without pressure nothing changes",
};
