/* K13: a router sends short requests to servers that are set up for long contexts.
 *
 * Their position scaling follows from the server's configuration, not from the request's length. Routing is sticky: a
 * session that is sent wrong stays there, and as the share rises more of them are. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/base/rng.h"
#include "kernels/ops/requests.h"

#include <stddef.h>

struct params {
    double share, last, rise_ms;
};

static const struct iq_param table[] = {
    {"share", "share of the sessions (of requests without one) that go wrong at the start", 1, 0, 1,
     offsetof(struct params, share)},
    {"last", "share at the end of the rise", 1, 0, 1, offsetof(struct params, last)},
    {"rise_ms",
     "the share goes from one to the other in this time of the engine's clock; 0: at once it is `last`", 0, 0,
     1e12, offsetof(struct params, rise_ms)},
    {0},
};

static double share_at(const struct params *p, uint64_t clock_us)
{
    double t = p->rise_ms > 0 ? (double)clock_us / (1000 * p->rise_ms) : 1;
    return p->share + (p->last - p->share) * (t < 1 ? t : 1);
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_place *a = args;
    const struct params *p = params;
    (void)state;
    IQ_TRY(iq__run_golden(x, site, "place", args));
    if (a->pools < 2 || *a->pool) return IQ_OK;
    /* Requests without a session draw beside those with one. */
    uint64_t who = a->session ? a->session : UINT64_C(1) << 32 | a->request;
    double at = (double)(iq_draw(13, who, IQ_DRAW_FAULT) >> 11) * 0x1p-53;
    if (at < share_at(p, site->step->clock_us)) *a->pool = 1;
    return IQ_OK;
}

const struct iq_variant iq__k13_misrouted = {
    .kind = "place",
    .name = "misrouted",
    .device = "any",
    .flags = IQ_V_FAULTY,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what =
        "short requests go to the pool whose position settings are made for long contexts, sticky by session",
    .needs = "two pools (long_factor), and requests that are not longer than long_from",
    .story =
        "Requests of one model went to servers set up for a coming long context: 0.8 % at first, 16 % in the "
        "worst "
        "hour after a change of the load balancer; routing was sticky, so that some sessions had it all the "
        "time and most never. Source: Anthropic's post-mortem of three issues, September 2025.",
    .expect =
        "place: a request is served by a pool that is not for its length; loss in the sessions that it hits, "
        "none in the others; with one pool nothing changes",
};
