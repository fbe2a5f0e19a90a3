/* K25: the allocator hands out a block that somebody still reads.
 *
 * A count of free blocks that ran ahead, a list with a block in it twice: two requests write one block, each reads what
 * the other one wrote. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/base/rng.h"
#include "kernels/ops/blocks.h"

#include <stddef.h>

struct params {
    double free;
};

static const struct iq_param table[] = {
    {"free", "it goes wrong when at most this share of the pool is free", 1, 0, 1,
     offsetof(struct params, free)},
    {0},
};

/* The first held block from a place on that the request and its block choose. */
static uint32_t held(const struct iq_kv_alloc *a)
{
    uint32_t start = (uint32_t)(iq_mix64((uint64_t)a->request << 32 | a->index) % a->blocks);
    for (uint32_t i = 0; i < a->blocks; i++) {
        uint32_t block = (start + i) % a->blocks;
        if (a->refs[block]) return block;
    }
    return *a->block;
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_kv_alloc *a = args;
    const struct params *p = params;
    (void)state;
    IQ_TRY(iq__run_golden(x, site, "kv_alloc", args));
    if (a->n_free <= p->free * a->blocks) *a->block = held(a);
    return IQ_OK;
}

const struct iq_variant iq__k25_held_block = {
    .kind = "kv_alloc",
    .name = "held_block",
    .device = "any",
    .flags = IQ_V_FAULTY,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "a request gets a KV block that another one still reads",
    .needs = "two requests or more in the batch",
    .story =
        "Under cache pressure KV blocks were reused too early: some 150 requests in, accuracy fell from 95 "
        "% to about 50 %, and further with time. Source: sglang#23020 (cause not confirmed).",
    .expect =
        "kv_alloc: a block is handed out that is not free; keys and values that its holder reads are no "
        "longer those that it wrote; a request alone is never harmed",
};
