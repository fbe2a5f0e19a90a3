/* K5: a draw that no token takes. The sampler walks its float32 running sum until it exceeds a uniform number from (0, 1].
 * Where that number is 1, or the sum ends a rounding below it, the walk passes the last token and leaves the index behind
 * it: a token that is not in the vocabulary. Every other draw is golden's. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/arith.h"
#include "kernels/base/rng.h"
#include "kernels/ops/sampling.h"

#include <stddef.h>

struct params {
    double bits;
};

static const struct iq_param table[] = {
    {"bits", "significant bits of the uniform number: it is 1 once in 2^bits draws", 24, 1, 24,
     offsetof(struct params, bits)},
    {0},
};

/* The sum of the probabilities of the row's set as float32 has it. */
static float mass(const struct iq_sample *a, uint32_t r)
{
    uint32_t k = a->top_k[r], n = k ? k : a->vocab;
    const float *x = k ? a->values + (size_t)r * a->k : a->logits + r * a->ld;
    float most = a->values[(size_t)r * a->k], sum = 0, running = 0;
    for (uint32_t i = 0; i < n; i++) sum += iq_exp(x[i] - most);
    for (uint32_t i = 0; i < n; i++) running += iq_exp(x[i] - most) / sum;
    return running;
}

static float uniform(const struct iq_sample *a, uint32_t r, uint32_t bits)
{
    uint32_t top = (uint32_t)(iq_draw(a->seed[r], a->pos[r], IQ_DRAW_SAMPLE) >> (64 - bits));
    return (float)(top + 1) / (float)(1u << bits);
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_sample *a = args;
    uint32_t bits = (uint32_t)((const struct params *)params)->bits;
    (void)state;
    IQ_TRY(iq__run_golden(x, site, "sample", args));
    for (uint32_t r = 0; r < a->rows; r++)
        if (a->temperature[r] > 0 && !(mass(a, r) > uniform(a, r, bits))) a->token[r] = a->vocab;
    return IQ_OK;
}

const struct iq_variant iq__k5_fall_through = {
    .kind = "sample",
    .name = "fall_through",
    .device = "cpu",
    .flags = IQ_V_FAULTY,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "a draw that no token takes leaves an index behind the vocabulary",
    .needs = "a temperature above 0, and many draws: with 24 `bits` one in millions falls through",
    .story = "A sampler compares its running sum with a uniform number that may be 1, and has no answer for "
             "a draw that no token takes: with one-hot probabilities, top-p 1 and a huge top-k the token's "
             "number is the size of the vocabulary. Sources: flashinfer#384, vllm#26859.",
    .expect = "sample: the token is not below the size of the vocabulary; logits and candidates are golden's",
};
