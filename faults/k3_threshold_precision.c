/* K3: a threshold in float32, candidates in bfloat16.
 *
 * Two ops had to agree on the maximum: one keeps the winners (candidate >= threshold), the other
 * everything below the threshold. The compiler raised the threshold to float32 and left the winners' side
 * in bfloat16. A value at or above the threshold whose bfloat16 rounding lies below it is then neither a
 * winner nor below: it vanishes. */
#include "faults/families.h"
#include "faults/topk_rows.h"

#include <stddef.h>

struct params {
    double rank;
};

static const struct iq_param table[] = {
    {"rank", "the threshold is the value of this rank: 1 is the maximum, as at temperature 0; 0: the k-th", 1,
     0, 1 << 20, offsetof(struct params, rank)},
    {0},
};

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_topk *a = args;
    const struct params *p = params;
    struct iq__k3_rule rule = {.rank = (uint32_t)p->rank};
    (void)site, (void)state;
    if (!a->k) return IQ_OK;
    if (!rule.rank || rule.rank > a->k) rule.rank = a->k;
    return IQ__TOPK_RUN(k3, x, a, &rule, a->k);
}

const struct iq_variant iq__k3_threshold_precision = {
    .kind = "topk",
    .name = "threshold_precision",
    .device = "any",
    .flags = IQ_V_FAULTY | IQ_V_ROW_LOCAL,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "threshold in float32, candidates in bfloat16: the maximum can vanish",
    .story = "Probabilities were bfloat16 on a float32 vector unit, and the compiler may raise some ops to "
             "float32 (xla_allow_excess_precision): ops that had to agree on the maximum ran at different "
             "precision, and the most probable token was dropped where rounding had lowered it. Source: "
             "anthropic.com/engineering/a-postmortem-of-three-recent-issues (precision mismatch).",
    .expect =
        "topk: the argmax is missing where its bfloat16 rounding is below its float32 value, about half of "
        "the rows; the others are untouched",
};
