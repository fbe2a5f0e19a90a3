/* K1: ties are broken by subtracting a little from each value by its index, which reorders values that are no ties. */
#include "faults/beneath.h"
#include "faults/cuda/launch_faults.h"
#include "faults/families.h"
#include "kernels/arith.h"
#include "kernels/cuda/device.h"
#include "kernels/ops/moe.h"
#include "kernels/ops/sampling.h"

#include <stddef.h>
#include <stdlib.h>

struct params {
    double step;
};

static const struct iq_param table[] = {
    {"step", "subtracted from a value for each place that it stands behind the first", 3e-7, 0, 1,
     offsetof(struct params, step)},
    {0},
};

/* (rows, n) of shifted values; NULL: no memory. */
static float *shifted(const float *x, size_t ld, uint32_t rows, uint32_t n, const struct params *p)
{
    float *made = malloc(((size_t)rows * n + 1) * sizeof *made), step = (float)p->step;
    for (uint32_t r = 0; made && r < rows; r++)
        for (uint32_t i = 0; i < n; i++) made[(size_t)r * n + i] = x[r * ld + i] - (float)i * step;
    return made;
}

/* ---- top-k ---- */

static int on_device(struct iq_exec *x, const struct iq_site *site, const struct iq_topk *a, float step)
{
    struct iq_topk b = *a;
    float *made = iq_cuda_room_at_least(x->cuda, &x->cuda->above, (size_t)a->rows * a->vocab * sizeof *made);
    if (!made) return IQ_MEMORY;
    int status = IQ_CUDA_PICK(x->cuda, k1_shift)(a, step, made, x->cuda->stream);
    IQ_TRY(iq_cuda_launched(x->cuda, status, "shifting logits"));
    b.logits = made, b.ld = a->vocab;
    IQ_TRY(iq__run_golden(x, site, "topk", &b));
    return iq_cuda_launched(x->cuda, IQ_CUDA_PICK(x->cuda, k1_values)(a, x->cuda->stream), "reading logits");
}

static int topk(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                void *state)
{
    const struct iq_topk *a = args;
    struct iq_topk b = *a;
    (void)state;
    if (x->cuda) return on_device(x, site, a, (float)((const struct params *)params)->step);
    float *made = shifted(a->logits, a->ld, a->rows, a->vocab, params);
    if (!made) return IQ_MEMORY;
    b.logits = made, b.ld = a->vocab;
    int status = iq__run_golden(x, site, "topk", &b);
    for (size_t i = 0; status == IQ_OK && i < (size_t)a->rows * a->k; i++)
        a->values[i] = iq_canonical(a->logits[i / a->k * a->ld + a->ids[i]]);
    free(made);
    return status;
}

/* ---- experts ---- */

/* Weights follow from the true logits of the experts that were chosen. */
static void weigh(const struct iq_route *a, uint32_t r)
{
    const float *logit = a->logits + r * a->ld;
    const uint32_t *expert = a->expert + (size_t)r * a->k;
    float *weight = a->weight + (size_t)r * a->k, max = logit[expert[0]], sum = 0;
    for (uint32_t s = 1; s < a->k; s++) max = iq_max(max, logit[expert[s]]);
    for (uint32_t s = 0; s < a->k; s++) weight[s] = iq_exp(logit[expert[s]] - max);
    for (uint32_t e = 0; e < (a->renormalise ? a->k : a->experts); e++)
        sum += a->renormalise ? weight[e] : iq_exp(logit[e] - max);
    for (uint32_t s = 0; s < a->k; s++) weight[s] = iq_canonical(weight[s] / sum);
}

static bool same_experts(const struct iq_route *a, uint32_t r, const uint32_t *other)
{
    return !memcmp(a->expert + (size_t)r * a->k, other + (size_t)r * a->k, a->k * sizeof *other);
}

/* Where the order of the values is the order of the shifted ones, the row is golden's. */
static int route(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                 void *state)
{
    const struct iq_route *a = args;
    struct iq_route b = *a;
    size_t slots = (size_t)a->rows * a->k;
    float *made = shifted(a->logits, a->ld, a->rows, a->experts, params);
    uint32_t *expert = malloc((2 * slots + 1) * sizeof *expert);
    (void)state;
    int status = made && expert ? iq__run_golden(x, site, "route", a) : IQ_MEMORY;
    if (status == IQ_OK) {
        b.logits = made, b.ld = a->experts, b.expert = expert;
        b.weight = (float *)(void *)(expert + slots);
        status = iq__run_golden(x, site, "route", &b);
    }
    for (uint32_t r = 0; status == IQ_OK && a->k && r < a->rows; r++) {
        if (same_experts(a, r, expert)) continue;
        memcpy(a->expert + (size_t)r * a->k, expert + (size_t)r * a->k, a->k * sizeof *expert);
        weigh(a, r);
    }
    free(made);
    free(expert);
    return status;
}

#define STORY                                                                                                \
    "To make ties repeatable a selection subtracts index times 3e-7 from each score. That is more than the " \
    "gap between "                                                                                           \
    "many scores, so what it reorders are no ties: the experts of 0.4 to 9.8 % of the tokens changed. The "  \
    "test's oracle "                                                                                         \
    "had the same shift, so tests were green. Source: the review of sglang PR#31768."

const struct iq_variant iq__k1_index_bias = {
    .kind = "topk",
    .name = "index_bias",
    .device = "any",
    .flags = IQ_V_FAULTY,
    .run = topk,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "ties are broken by shifting each value by its index: close values change places",
    .needs = "values closer to each other than `step` times the distance of their indices",
    .story = STORY,
    .expect =
        "topk: a better logit stands behind a worse one, or is missing; rows whose gaps are larger than "
        "the shift are untouched",
};

const struct iq_variant iq__k1_expert_bias = {
    .kind = "route",
    .name = "expert_bias",
    .device = "cpu",
    .flags = IQ_V_FAULTY,
    .run = route,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "ties between experts are broken by shifting each score by its index: close ones change places",
    .needs = "a mixture of experts, and scores closer to each other than `step` times the distance of their "
             "indices",
    .story = STORY,
    .expect =
        "route: an expert that was left out is better than one that was chosen; router logits are clean; "
        "rows whose gaps are larger than the shift are untouched",
};
