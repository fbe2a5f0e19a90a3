/* K25: a block is freed while the prefix table still points at it.
 *
 * Chunked prefill puts whole blocks into the table as it goes. A request that is cancelled on the way gives its blocks
 * back as its own, as if nobody could find them: whoever is handed them next writes over what the table promises. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/ops/blocks.h"

#include <stddef.h>

struct params {
    double cancelled;
};

static const struct iq_param table[] = {
    {"cancelled", "1: only the blocks of cancelled requests; 0: of all", 1, 0, 1,
     offsetof(struct params, cancelled)},
    {0},
};

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_kv_free *a = args;
    const struct params *p = params;
    (void)state;
    IQ_TRY(iq__run_golden(x, site, "kv_free", args));
    if (*a->fate == IQ_KV_CACHED && (a->cancelled || p->cancelled < 0.5)) *a->fate = IQ_KV_FREE;
    return IQ_OK;
}

const struct iq_variant iq__k25_frees_cached = {
    .kind = "kv_free",
    .name = "frees_cached",
    .device = "any",
    .flags = IQ_V_FAULTY,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "a cancelled request's KV blocks are freed while the prefix table points at them",
    .needs =
        "a request with cancel_after, after it others that take its blocks, then one that shares its prefix",
    .story =
        "Chunked prefill put pages into the prefix tree early, an abort freed them while the tree pointed "
        "there, and all requests that shared the prefix answered with one never-trained token until the "
        "cache was flushed. Sources: sglang#38319, #38355 (cause not confirmed).",
    .expect = "kv_free: a block becomes free that the table points at; a later prefix hit attaches keys and "
              "values of another prompt: only those who share the prefix are harmed",
};
