/* route and combine, written once over the vector primitives; a file per instruction set includes it after its vec_*.h. */
#include "kernels/cpu/features.h"
#include "kernels/cpu/topk_order.h"
#include "kernels/cpu/vec_math.h"
#include "kernels/cpu/vec_variant.h"
#include "kernels/cpu/vector_split.h"
#include "kernels/ops/moe.h"

/* Elements from which a second thread pays: about ten microseconds of work. */
enum { ROUTE_WORTH = 1 << 13, COMBINE_WORTH = 1 << 15, PIECE = 4096 };

/* ---- route ---- */

/* The k best experts, in order, as entries (topk_order.h): each one that beats the last of them finds its place. */
static void best_of(const float *logit, uint32_t experts, uint32_t k, uint64_t *best)
{
    for (uint32_t s = 0; s < k; s++) best[s] = UINT64_MAX;
    for (uint32_t e = 0; e < experts; e++) {
        uint64_t own = iq__topk_entry(logit[e], e);
        uint32_t at = k;
        for (; at > 0 && own < best[at - 1]; at--)
            if (at < k) best[at] = best[at - 1];
        if (at < k) best[at] = own;
    }
}

/* y[i] = exp(x[i] - max), i < n. */
INLINE void exp_run(uint32_t n, const float *x, float max, float *y)
{
    vf by = v_set1(max);
    uint32_t i = 0;
    for (; i + VL <= n; i += VL) v_store(y + i, v_exp(v_sub(v_load(x + i), by)));
    if (i < n) v_store_part(y + i, v_exp(v_sub(v_load_part(x + i, n - i), by)), n - i);
}

/* The vector rule. */
static float sum_of(const float *x, uint32_t n)
{
    float lane[IQ_VECTOR_LANES] = {0};
    for (uint32_t i = 0; i < n; i += IQ_VECTOR_LANES)
        for (uint32_t l = 0; l < IQ_VECTOR_LANES && i + l < n; l++) lane[l] += x[i + l];
    return iq_fold32(lane);
}

static void route_span(const void *args, uint32_t r, uint32_t from, uint32_t to)
{
    const struct iq_route *a = args;
    const float *logit = a->logits + r * a->ld;
    uint32_t *expert = a->expert + (size_t)r * a->k;
    float *weight = a->weight + (size_t)r * a->k, chosen[IQ_EXPERT_SLOTS], sum;
    uint64_t best[IQ_EXPERT_SLOTS];
    (void)from, (void)to;
    best_of(logit, a->experts, a->k, best);
    float max = logit[(uint32_t)best[0]];
    for (uint32_t s = 0; s < a->k; s++) {
        uint32_t id = (uint32_t)best[s], at = s;
        for (; at > 0 && expert[at - 1] > id; at--) expert[at] = expert[at - 1];
        expert[at] = id;
    }
    if (a->renormalise) {
        for (uint32_t s = 0; s < a->k; s++) chosen[s] = logit[expert[s]];
        exp_run(a->k, chosen, max, chosen);
        sum = chosen[0];
        for (uint32_t s = 1; s < a->k; s++) sum = sum + chosen[s];
    } else {
        float all[IQ_EXPERTS];
        exp_run(a->experts, logit, max, all);
        sum = sum_of(all, a->experts);
        for (uint32_t s = 0; s < a->k; s++) chosen[s] = all[expert[s]];
    }
    for (uint32_t s = 0; s < a->k; s++) weight[s] = iq_canonical(chosen[s] / sum);
}

static int route(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                 void *state)
{
    const struct iq_route *a = args;
    (void)site, (void)params, (void)state;
    if (a->k > a->experts) return IQ_SHAPE;
    if (a->experts > IQ_EXPERTS || a->k > IQ_EXPERT_SLOTS) return IQ_LIMIT;
    if (a->k) iq__vector_split(x, a->rows, a->experts, a->experts, ROUTE_WORTH, route_span, a);
    return IQ_OK;
}

/* ---- combine ---- */

/* What a row adds up: the slots that some expert has served. */
struct terms {
    uint32_t n;
    float weight[IQ_EXPERT_SLOTS];
    const float *x[IQ_EXPERT_SLOTS]; /* from the span's first column on */
};

INLINE void combine_run(uint32_t n, const struct terms *t, float *y, const uint32_t act)
{
    for (uint32_t i = 0; i < n; i += VL) {
        size_t left = n - i;
        vf sum = v_set1(0.0f);
        for (uint32_t s = 0; s < t->n; s++) {
            vf term = left < VL ? v_load_part(t->x[s] + i, left) : v_load(t->x[s] + i);
            vf weight = v_set1(t->weight[s]);
            sum = s ? v_fma(weight, term, sum) : v_mul(weight, term);
        }
        sum = v_act_round(sum, act);
        if (left < VL)
            v_store_part(y + i, sum, left);
        else
            v_store(y + i, sum);
    }
}

static void combine_span(const void *args, uint32_t r, uint32_t from, uint32_t to)
{
    const struct iq_combine *a = args;
    struct terms t = {0};
    for (size_t at = (size_t)r * a->k; at < (r + (size_t)1) * a->k; at++) {
        if (a->owner[at] == IQ_SLOT_DROPPED) continue;
        t.weight[t.n] = a->weight[at];
        t.x[t.n++] = a->x + at * a->n + from;
    }
    FOR_EACH_ACT(a->act, combine_run, to - from, &t, a->y + r * a->ldy + from);
}

static int combine(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                   void *state)
{
    const struct iq_combine *a = args;
    (void)site, (void)params, (void)state;
    if (a->k > IQ_EXPERT_SLOTS) return IQ_LIMIT;
    iq__vector_split(x, a->rows, a->n, PIECE, COMBINE_WORTH, combine_span, a);
    return IQ_OK;
}

#define VARIANTS(can)                                                                                        \
    VARIANT(route, .usable = can);                                                                           \
    VARIANT(combine, .usable = can)
