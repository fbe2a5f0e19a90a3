/* K14 in the router: experts behind a limit are never proposed. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/ops/moe.h"

#include <stddef.h>

struct params {
    double share;
};

static const struct iq_param table[] = {
    {"share", "share of the experts, from the first on, that are looked at; at least as many as a row takes",
     0.5, 0, 1, offsetof(struct params, share)},
    {0},
};

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    struct iq_route a = *(const struct iq_route *)args;
    uint32_t seen = (uint32_t)(a.experts * ((const struct params *)params)->share);
    (void)state;
    a.experts = seen > a.k ? seen : a.k;
    return iq__run_golden(x, site, "route", &a);
}

const struct iq_variant iq__k14_half_candidates = {
    .kind = "route",
    .name = "half_candidates",
    .device = "any",
    .flags = IQ_V_FAULTY,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "the second half of the experts is never proposed",
    .needs = "a mixture of more experts than a row takes",
    .story =
        "A gate of 256 threads looks at one expert a thread, so that expert 256 and later ones are never "
        "chosen; no model that had been tried had more. Loss rose from 5.5 to 14.3 and nothing was said. "
        "Source: imp#2056.",
    .expect =
        "route: an expert that was left out is better than one that was chosen; router logits are clean",
};
