/* K6: some outputs of the head are boosted. Tokens of rare scripts stand together at the end of a vocabulary, since merges
 * are numbered by how often they occur: an epilogue that adds to the last panels of the head's product gives tokens that
 * should be rare a high probability. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/arith.h"
#include "kernels/matrix.h"
#include "kernels/ops/matmul.h"

#include <math.h>
#include <stddef.h>

struct params {
    double first, last, boost;
};

static const struct iq_param table[] = {
    {"first", "where the boosted outputs begin, as a share of all", 0.9, 0, 1,
     offsetof(struct params, first)},
    {"last", "where they end", 1, 0, 1, offsetof(struct params, last)},
    {"boost", "added to each of them", 12, -1e6, 1e6, offsetof(struct params, boost)},
    {0},
};

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_matmul *a = args;
    const struct params *p = params;
    (void)state;
    IQ_TRY(iq__run_golden(x, site, "matmul", args));
    for (uint32_t i = 0; i < a->parts; i++) {
        const struct iq_matmul_part *part = &a->part[i];
        uint32_t n = part->w->n, from = (uint32_t)ceil(p->first * n), to = (uint32_t)(p->last * n);
        for (uint32_t r = 0; r < a->rows; r++)
            for (uint32_t c = from; c < to; c++) {
                float *y = &part->y[r * part->ldy + c];
                *y = iq_act_round(*y + (float)p->boost, a->act);
            }
    }
    return IQ_OK;
}

const struct iq_variant iq__k6_rare_script = {
    .kind = "matmul",
    .name = "rare_script",
    .device = "cpu",
    .flags = IQ_V_FAULTY,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "outputs at the end of the vocabulary are boosted: give `op` lm_head and a low `rate`",
    .needs = "a range that holds an output; at lm_head, tokens there that golden does not choose",
    .story =
        "An optimisation at run time on misconfigured servers now and then gave a high probability to a "
        "token that should be rare: Thai or Chinese characters in an English answer, syntax errors in "
        "code. Source: anthropic.com/engineering/a-postmortem-of-three-recent-issues (output corruption, "
        "25 August to 2 September 2025).",
    .expect = "matmul: outputs in the range are `boost` too large, the others are golden's",
};
