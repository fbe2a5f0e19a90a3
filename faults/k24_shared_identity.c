/* K24: the key of a cached prefix leaves out something that its KV depends on.
 *
 * Two requests with the same tokens then share KV although their position settings, adapter, weights or tenants differ. */
#include "faults/families.h"
#include "kernels/ops/requests.h"

#include <stddef.h>
#include <string.h>

struct params {
    double what;
};

static const struct iq_param table[] = {
    {"what",
     "what is left out: 0 the weights, 1 the arithmetic, 2 position settings, 3 the adapter, 4 the tenant",
     IQ_IDENTITY_POSITIONS, 0, IQ_IDENTITY_PARTS - 1, offsetof(struct params, what)},
    {0},
};

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_identity *a = args;
    const struct params *p = params;
    struct iq_digest part[IQ_IDENTITY_PARTS];
    (void)x, (void)site, (void)state;
    memcpy(part, a->part, sizeof part);
    part[(unsigned)p->what] = (struct iq_digest){0};
    *a->root = iq_digest_list(part, IQ_IDENTITY_PARTS);
    return IQ_OK;
}

const struct iq_variant iq__k24_shared_identity = {
    .kind = "identity",
    .name = "shared_identity",
    .device = "any",
    .flags = IQ_V_FAULTY,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "prefixes are shared between requests whose settings differ",
    .needs = "requests with the same first 16 tokens or more that differ in what is left out: long_factor "
             "and long_from "
             "for position settings, `tenant` for tenants",
    .story = "Prefix keys were hashes of tokens alone, so that an adapter's or another tenant's KV was "
             "served, or KV that "
             "was computed under other position settings.",
    .expect =
        "identity: the root of a request's keys is not over all that its KV depends on; a hit attaches keys "
        "and "
        "values that were computed under other settings (of another tenant: the same bits, so it is masked)",
};
