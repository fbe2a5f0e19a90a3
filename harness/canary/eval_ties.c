/* What became of near ties. */
#include "harness/canary/eval.h"

#include <math.h>
#include <stdlib.h>

static bool differs(const struct iq_eval *a, const struct iq_eval *b, const struct iq_eval_question *q)
{
    for (size_t t = q->first; t < q->first + q->tokens; t++)
        if (!iq_digest_equal(a->token[t].logits, b->token[t].logits)) return true;
    return false;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* NaN is the largest change of all. */
static double moved(float gap, float from)
{
    const double by = fabs((double)gap - (double)from);
    return isnan(by) ? INFINITY : by;
}

int iq_eval_ties(const struct iq_prompts *prompts, const struct iq_eval *model, const struct iq_eval *golden,
                 struct iq_eval_ties *out, struct iq_err *err)
{
    double *shift = malloc(((size_t)prompts->n + 1) * sizeof *shift);
    *out = (struct iq_eval_ties){0};
    if (!shift) return iq_fail(err, IQ_MEMORY, "no memory for %u near ties", prompts->n);
    for (uint32_t i = 0; i < prompts->n; i++) {
        const struct iq_prompt_tie *tie = &prompts->prompt[i].tie;
        const struct iq_eval_question *q = &model->question[i];
        const float from = golden ? golden->question[i].gap : tie->margin;
        if (!tie->ids.n) continue;
        out->recorded += (golden ? from : q->gap) == tie->margin;
        out->differ += golden ? differs(model, golden, q) : q->gap != from;
        out->flips += q->kept + 1 == tie->ids.n;
        out->early += q->kept + 1 < tie->ids.n;
        shift[out->n++] = moved(q->gap, from);
    }
    qsort(shift, out->n, sizeof *shift, ascending);
    if (out->n) {
        out->median = shift[(out->n - 1) / 2];
        out->most = shift[(out->n * 9 + 9) / 10 - 1];
        out->largest = shift[out->n - 1];
    }
    free(shift);
    return IQ_OK;
}
