/* K5: the token's number is shifted after a healthy selection. The sampler chose well, and the step that turns its choice
 * into a token number lands beside it: what comes out reads like speech and means nothing, while every logit is right. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/ops/sampling.h"

#include <stddef.h>

enum { MOST = 1 << 22 };

struct params {
    double delta;
};

static const struct iq_param table[] = {
    {"delta", "added to the chosen token's number, modulo the vocabulary", 1, -MOST, MOST,
     offsetof(struct params, delta)},
    {0},
};

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_sample *a = args;
    int64_t delta = (int64_t)((const struct params *)params)->delta, n = a->vocab;
    (void)state;
    IQ_TRY(iq__run_golden(x, site, "sample", args));
    for (uint32_t r = 0; r < a->rows; r++) a->token[r] = (uint32_t)(((a->token[r] + delta) % n + n) % n);
    return IQ_OK;
}

const struct iq_variant iq__k5_token_shift = {
    .kind = "sample",
    .name = "token_shift",
    .device = "cpu",
    .flags = IQ_V_FAULTY,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "the chosen token's number is shifted, after a healthy selection",
    .needs = "a `delta` that is not 0",
    .story = "Kernels gave wrong results in certain GPU configurations, so that the step which picks token "
             "numbers was slightly wrong: nonsense in the shape of fluent text, with healthy logits. Source: "
             "status.openai.com/incidents/ssg8fh7sfyz3 (February 2024).",
    .expect = "sample: the token is not among the candidates that the row allows; logits and candidates are "
              "golden's",
};
