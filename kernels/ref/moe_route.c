/* References of route and moe_dispatch. */
#include "kernels/arith.h"
#include "kernels/cpu/topk_order.h"
#include "kernels/moe_lists.h"
#include "kernels/op.h"

/* The k best experts, by ascending id; returns the best one's logit. */
static float choose(const struct iq_route *a, const float *logit, uint32_t *expert)
{
    uint64_t best = UINT64_MAX;
    uint32_t found = 0;
    for (uint32_t e = 0; e < a->experts; e++) {
        uint64_t own = iq__topk_entry(logit[e], e);
        uint32_t before = 0;
        for (uint32_t o = 0; o < a->experts; o++) before += iq__topk_entry(logit[o], o) < own;
        if (before < a->k) expert[found++] = e;
        best = own < best ? own : best;
    }
    return logit[(uint32_t)best];
}

static void weigh(const struct iq_route *a, const float *logit, const uint32_t *expert, float max,
                  float *weight)
{
    float sum;
    for (uint32_t s = 0; s < a->k; s++) weight[s] = iq_exp(logit[expert[s]] - max);
    if (a->renormalise) {
        sum = weight[0];
        for (uint32_t s = 1; s < a->k; s++) sum = sum + weight[s];
    } else {
        float lane[IQ_VECTOR_LANES] = {0};
        for (uint32_t e = 0; e < a->experts; e++) lane[e % IQ_VECTOR_LANES] += iq_exp(logit[e] - max);
        sum = iq_fold32(lane);
    }
    for (uint32_t s = 0; s < a->k; s++) weight[s] = iq_canonical(weight[s] / sum);
}

static int route(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                 void *state)
{
    const struct iq_route *a = args;
    (void)x, (void)site, (void)params, (void)state;
    if (a->k > a->experts) return IQ_SHAPE;
    if (a->experts > IQ_EXPERTS || a->k > IQ_EXPERT_SLOTS) return IQ_LIMIT;
    for (uint32_t r = 0; r < a->rows && a->k; r++) {
        const float *logit = a->logits + r * a->ld;
        uint32_t *expert = a->expert + (size_t)r * a->k;
        weigh(a, logit, expert, choose(a, logit, expert), a->weight + (size_t)r * a->k);
    }
    return IQ_OK;
}

static int dispatch(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                    void *state)
{
    const struct iq_moe_dispatch *a = args;
    (void)x, (void)site, (void)params, (void)state;
    if (a->experts > IQ_EXPERTS || a->k > IQ_EXPERT_SLOTS) return IQ_LIMIT;
    for (size_t i = 0; i < (size_t)a->rows * a->k; i++)
        a->owner[i] = a->expert[i] < a->experts ? a->expert[i] : IQ_SLOT_DROPPED;
    iq_moe_lists(a);
    return IQ_OK;
}

enum { FLAGS = IQ_V_REFERENCE | IQ_V_GOLDEN };

const struct iq_variant iq__route_reference = {
    .kind = "route", .name = "reference", .device = "cpu", .flags = FLAGS, .run = route};
const struct iq_variant iq__moe_dispatch_reference = {
    .kind = "moe_dispatch", .name = "reference", .device = "cpu", .flags = FLAGS, .run = dispatch};
