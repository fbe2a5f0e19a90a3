/* Reference of prefix: the prompt's blocks are looked up in order; the first that is not cached ends the
 * run. */
#include "kernels/ops/prefix.h"
#include "kernels/exec.h"
#include "kernels/op.h"

#include <string.h>

/* The block cached under `key`, or UINT32_MAX. A free slot ends a probe; so does a whole turn of a full
 * table. */
static uint32_t probe(const struct iq_prefix *a, struct iq_digest key)
{
    for (uint32_t i = 0; i < a->capacity; i++) {
        const struct iq_prefix_entry *e = &a->entry[(key.lo + i) & (a->capacity - 1)];
        if (iq_digest_is_zero(e->key)) return UINT32_MAX;
        if (iq_digest_equal(e->key, key)) return e->block;
    }
    return UINT32_MAX;
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_prefix *a = args;
    (void)x, (void)site, (void)params, (void)state;
    *a->hits = 0;
    if (a->wanted) memset(a->blocks, 0xff, a->wanted * sizeof *a->blocks);
    if (a->capacity & (a->capacity - 1)) return IQ_SHAPE;
    for (uint32_t i = 0; i < a->wanted; i++) {
        uint32_t block = probe(a, a->key[i]);
        if (block == UINT32_MAX) break;
        a->blocks[i] = block;
        *a->hits = i + 1;
    }
    return IQ_OK;
}

const struct iq_variant iq__prefix_reference = {.kind = "prefix",
                                                .name = "reference",
                                                .device = "cpu",
                                                .flags = IQ_V_REFERENCE | IQ_V_GOLDEN,
                                                .run = run};
