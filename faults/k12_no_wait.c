/* K12: attention reads KV that has not landed.
 *
 * A prefix comes from a remote cache, layer by layer; the wait for it returns at once. What the request reads in its first
 * step is what stood in its blocks before; the rest lands behind it, so that later steps read right keys and values. */
#include "faults/families.h"
#include "kernels/ops/blocks.h"

#include <stddef.h>

struct params {
    double share;
};

static const struct iq_param table[] = {
    {"share", "share of the layers that are there all the same, divided by the transfers under way", 0, 0, 1,
     offsetof(struct params, share)},
    {0},
};

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_kv_land *a = args;
    const struct params *p = params;
    (void)x, (void)site, (void)state;
    *a->landed = (uint32_t)(a->layers * p->share / (a->flying ? a->flying : 1));
    return IQ_OK;
}

const struct iq_variant iq__k12_no_wait = {
    .kind = "kv_land",
    .name = "no_wait",
    .device = "any",
    .flags = IQ_V_FAULTY,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "a prefix from a remote cache is read before it has landed",
    .needs = "prefix hits with remote_kv on",
    .story = "KV was fetched by remote reads and the wait for them did nothing: attention ran before it had "
             "arrived, worse with more requests at a time. Source: vllm#48534.",
    .expect =
        "kv_land: a request may run before all layers of its prefix are there; a hit is not equal to a miss; "
        "without a hit, or without remote_kv, nothing changes",
};
