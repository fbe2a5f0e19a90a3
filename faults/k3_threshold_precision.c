/* K3: a threshold in float32, candidates in bfloat16.
 *
 * Two ops had to agree on the maximum: one keeps the winners (candidate >= threshold), the other
 * everything below the threshold. The compiler raised the threshold to float32 and left the winners' side
 * in bfloat16. A value at or above the threshold whose bfloat16 rounding lies below it is then neither a
 * winner nor below: it vanishes. */
#include "faults/families.h"
#include "faults/topk_rows.h"
#include "kernels/arith.h"
#include "kernels/cpu/topk_order.h"

#include <stddef.h>

struct params {
    double rank;
};

static const struct iq_param table[] = {
    {"rank", "the threshold is the value of this rank: 1 is the maximum, as at temperature 0; 0: the k-th", 1,
     0, 1 << 20, offsetof(struct params, rank)},
    {0},
};

static bool vanishes(float value, float threshold)
{
    float candidate = iq_bf16_to_f32(iq_f32_to_bf16(value));
    bool winner = candidate >= threshold, below = value < threshold;
    return value == value && !winner && !below;
}

static void row(const struct iq_topk *a, uint32_t r, const void *params, void *scratch)
{
    const struct params *p = params;
    const float *x = a->logits + r * a->ld;
    uint32_t rank = (uint32_t)p->rank;
    if (!rank || rank > a->k) rank = a->k;
    struct iq__best best = {scratch, 0, rank};
    for (uint32_t i = 0; i < a->vocab; i++) iq__best_push(&best, iq__topk_entry(x[i], i));
    float threshold = x[(uint32_t)best.entry[0]]; /* the heap's root: the worst of the best `rank` */
    best = (struct iq__best){scratch, 0, a->k};
    for (uint32_t i = 0; i < a->vocab; i++)
        if (threshold != threshold || !vanishes(x[i], threshold))
            iq__best_push(&best, iq__topk_entry(x[i], i));
    iq__best_sort(&best);
    iq__topk_write(a, r, best.entry, best.n);
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_topk *a = args;
    (void)site, (void)state;
    if (!a->k) return IQ_OK;
    return iq__topk_rows(x, a, params, a->k * sizeof(uint64_t), row);
}

const struct iq_variant iq__k3_threshold_precision = {
    .kind = "topk",
    .name = "threshold_precision",
    .device = "cpu",
    .flags = IQ_V_FAULTY,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "threshold in float32, candidates in bfloat16: the maximum can vanish",
    .story = "Probabilities were bfloat16 on a float32 vector unit, and the compiler may raise some ops to "
             "float32 "
             "(xla_allow_excess_precision): ops that had to agree on the maximum ran at different precision, "
             "and the "
             "most probable token was dropped where rounding had lowered it. Source: "
             "anthropic.com/engineering/a-postmortem-of-three-recent-issues (precision mismatch).",
    .expect =
        "topk: the argmax is missing where its bfloat16 rounding is below its float32 value, about half of "
        "the rows; the others are untouched",
};
