/* K10: a prefix hit hands out a block that holds another prompt's keys and values.
 *
 * The lookup finds the right entry and reads the block number of the next one in the table: a slot that
 * was moved, rehashed or reused while the old key still stood in it. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/ops/prefix.h"

#include <stddef.h>

enum which { FIRST, LAST, ALL };

struct params {
    double which;
};

static const struct iq_param table[] = {
    {"which", "which block of the run is foreign: 0 the first, 1 the last, 2 all", FIRST, FIRST, ALL,
     offsetof(struct params, which)},
    {0},
};

/* The next entry behind the one that holds `block`; the block itself where the table has no other. */
static uint32_t foreign(const struct iq_prefix *a, uint32_t block)
{
    uint32_t at = 0;
    while (at < a->capacity && (a->entry[at].block != block || iq_digest_is_zero(a->entry[at].key))) at++;
    for (uint32_t i = 1; i < a->capacity; i++) {
        const struct iq_prefix_entry *e = &a->entry[(at + i) & (a->capacity - 1)];
        if (!iq_digest_is_zero(e->key) && e->block != block) return e->block;
    }
    return block;
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_prefix *a = args;
    const struct params *p = params;
    (void)state;
    IQ_TRY(iq__run_golden(x, site, "prefix", args));
    enum which which = (enum which)p->which;
    for (uint32_t i = 0; i < *a->hits; i++)
        if (which == ALL || i == (which == FIRST ? 0 : *a->hits - 1)) a->blocks[i] = foreign(a, a->blocks[i]);
    return IQ_OK;
}

const struct iq_variant iq__k10_foreign_block = {
    .kind = "prefix",
    .name = "foreign_block",
    .device = "any",
    .flags = IQ_V_FAULTY,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "a prefix hit hands out another prompt's KV block",
    .needs = "prefix hits: prompts that share their first 16 tokens or more, one after the other, with the "
             "prefix cache on and more than one block in it",
    .story = "A cached prefix is found under the right hash but the block that is attached belongs to "
             "another history: an old hash stayed on a block whose contents were rebuilt. Sources: "
             "vllm#49449 (block hash kept after streaming input), sglang#23020 (blocks reused too early).",
    .expect =
        "prefix: a block that is handed out is not cached under the prompt's key; its keys and values differ "
        "from a computed prefix; without a hit nothing changes",
};
