/* Reference of sample: the rules of kernels/ops/sampling.h, one after another, on a list of (weight, id). */
#include "kernels/arith.h"
#include "kernels/base/rng.h"
#include "kernels/cpu/sample_rules.h"
#include "kernels/exec.h"
#include "kernels/op.h"

#include <stdlib.h>

struct item {
    uint64_t weight;
    uint32_t id;
    float logit;
};

static int by_weight(const void *left, const void *right)
{
    const struct item *a = left, *b = right;
    if (a->weight != b->weight) return a->weight < b->weight ? 1 : -1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static int by_id(const void *left, const void *right)
{
    const struct item *a = left, *b = right;
    return a->id < b->id ? -1 : a->id > b->id;
}

/* The row's set before any filter by weight: the first top_k candidates, or every token. */
static uint32_t collect(const struct iq_sample *a, uint32_t r, struct item *item)
{
    uint32_t n = a->top_k[r] ? a->top_k[r] : a->vocab;
    const float *logits = a->logits + r * a->ld;
    for (uint32_t i = 0; i < n; i++) {
        size_t at = (size_t)r * a->k + i;
        item[i] = a->top_k[r] ? (struct item){0, a->ids[at], a->values[at]} : (struct item){0, i, logits[i]};
    }
    return n;
}

static int draw_row(const struct iq_sample *a, uint32_t r, struct item *item)
{
    uint32_t n = collect(a, r, item), kept = 0;
    float max = -INFINITY;
    bool any = false;
    for (uint32_t i = 0; i < n; i++) {
        if (item[i].logit != item[i].logit) continue;
        max = item[i].logit > max ? item[i].logit : max;
        any = true;
    }
    if (!any) return IQ_NOT_FOUND;

    uint64_t least = iq__sample_least(a->min_p[r]), total = 0;
    for (uint32_t i = 0; i < n; i++) {
        item[i].weight = iq__sample_weight(item[i].logit, max);
        if (item[i].weight == 0 || item[i].weight < least) continue;
        total += item[i].weight;
        item[kept++] = item[i];
    }

    qsort(item, kept, sizeof *item, by_weight);
    iq_u128 limit = iq__sample_limit(a->top_p[r], total);
    uint64_t before = 0;
    for (n = 0; n < kept && (iq_u128)before << 32 < limit; n++) before += item[n].weight;

    qsort(item, n, sizeof *item, by_id);
    uint64_t point = iq__sample_point(a->seed[r], a->pos[r], before), sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += item[i].weight;
        if (point < sum) return a->token[r] = item[i].id, IQ_OK;
    }
    return IQ_INTERNAL;
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_sample *a = args;
    (void)site, (void)params, (void)state;
    struct item *item = iq_exec_scratch(x, ((size_t)a->vocab + a->k) * sizeof *item);
    if (!item) return IQ_MEMORY;
    int status = IQ_OK;
    for (uint32_t r = 0; r < a->rows; r++) {
        bool greedy;
        int s = iq__sample_begin(a, r, &greedy);
        if (s == IQ_OK && !greedy) s = draw_row(a, r, item);
        if (s == IQ_OK) continue;
        a->token[r] = UINT32_MAX;
        if (status == IQ_OK) status = s;
    }
    return status;
}

const struct iq_variant iq__sample_reference = {.kind = "sample",
                                                .name = "reference",
                                                .device = "cpu",
                                                .flags = IQ_V_REFERENCE | IQ_V_GOLDEN,
                                                .run = run};
