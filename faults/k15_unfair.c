/* K15: batches are formed in another order. A benign control.
 *
 * The newest come first, each with at most some tokens: other neighbours, other chunks, other steps. What a row computes
 * does not depend on any of it, so no answer may change. */
#include "faults/families.h"
#include "kernels/ops/requests.h"

#include <stddef.h>

struct params {
    double most;
};

static const struct iq_param table[] = {
    {"most", "most tokens of a request in a step", 16, 1, 1048576, offsetof(struct params, most)},
    {0},
};

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_form *a = args;
    const struct params *p = params;
    uint32_t left = a->budget;
    (void)x, (void)site, (void)state;
    for (uint32_t i = 0; i < a->n; i++) {
        uint32_t seat = a->n - 1 - i, tokens = (uint32_t)p->most;
        if (tokens > left) tokens = left;
        if (!a->joining && tokens > a->seat[seat].lacking) tokens = a->seat[seat].lacking;
        a->pick[i] = tokens ? (struct iq_form_pick){seat, tokens} : (struct iq_form_pick){UINT32_MAX, 0};
        if (!a->joining) left -= tokens;
    }
    return IQ_OK;
}

const struct iq_variant iq__k15_unfair = {
    .kind = "form",
    .name = "unfair",
    .device = "any",
    .flags = IQ_V_BENIGN,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "the newest requests ride first, each with few tokens (benign)",
    .needs = "two requests or more",
    .story = "A neighbour's prefill that grew by a token changed the victim's bits elsewhere: batches are "
             "never formed "
             "twice alike. Sources: vllm#51902, #48271.",
    .expect = "form: another order is no wrong one; no answer changes, since rows do not depend on the batch "
              "that they ride in",
};
