/* K24: the identity of a cached block leaves something out. A block is known by its tokens; whether the adapter or the weights
 * that computed it are this request's is not asked, so that a prompt is continued from keys and values of another model. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/ops/prefix.h"

#include <stddef.h>

enum ignored { ADAPTER, WEIGHTS, BOTH };

struct params {
    double ignores;
};

static const struct iq_param table[] = {
    {"ignores", "what the identity leaves out: 0 the adapter, 1 the version of the weights, 2 both", ADAPTER,
     ADAPTER, BOTH, offsetof(struct params, ignores)},
    {0},
};

static bool passes(const struct iq_prefix *a, uint32_t i, uint32_t block, enum ignored ignored)
{
    const struct iq_prefix_identity *of = &a->identity[block];
    return iq_digest_equal(of->tokens, a->tokens_key[i]) &&
           (ignored != WEIGHTS || iq_digest_equal(of->adapter, a->adapter)) &&
           (ignored != ADAPTER || of->weights == a->weights);
}

static uint32_t find(const struct iq_prefix *a, uint32_t i, enum ignored ignored)
{
    for (uint32_t e = 0; e < a->capacity; e++)
        if (!iq_digest_is_zero(a->entry[e].key) && passes(a, i, a->entry[e].block, ignored))
            return a->entry[e].block;
    return UINT32_MAX;
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_prefix *a = args;
    enum ignored ignored = (enum ignored)((const struct params *)params)->ignores;
    (void)state;
    IQ_TRY(iq__run_golden(x, site, "prefix", args));
    /* What is right is found first, as its bucket is. */
    for (uint32_t i = *a->hits; a->identity && i < a->wanted; i++) {
        if ((a->blocks[i] = find(a, i, ignored)) == UINT32_MAX) break;
        *a->hits = i + 1;
    }
    return IQ_OK;
}

const struct iq_variant iq__k24_shared_identity = {
    .kind = "prefix",
    .name = "shared_identity",
    .device = "any",
    .flags = IQ_V_FAULTY,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "a prefix hit attaches KV that another adapter, or older weights, computed",
    .needs =
        "prompts with a head in common, computed under different adapters (--adapter) or before and after "
        "an update of the weights (--update-weights), with the prefix cache on",
    .story =
        "A prefix cache that knows a block by its tokens alone hands a tenant's adapter the keys and values "
        "of the base model, or, after an update of the weights in place, those of the model before. Serving "
        "engines with adapters and with weight updates for reinforcement learning have had both, and flush "
        "or salt their caches for it.",
    .expect =
        "prefix: a block that is handed out is not cached under the prompt's key; its keys and values are "
        "another model's",
};
