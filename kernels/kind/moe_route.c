/* The kinds route and moe_dispatch: what taps, firing logs and triggers see of them, and their invariants. */
#include "kernels/cpu/topk_order.h"
#include "kernels/kind/rows.h"
#include "kernels/kind/values.h"
#include "kernels/moe_lists.h"
#include "kernels/op.h"
#include "kernels/tables.h"

#include <math.h>

/* ---- route ---- */

static uint32_t route_rows(const void *args) { return ((const struct iq_route *)args)->rows; }

static struct iq_run route_at(const void *args, unsigned point)
{
    const struct iq_route *a = args;
    return (struct iq_run){point == 0 ? (void *)a->expert : a->weight, a->k, point < 2 ? a->k : 0};
}
IQ__ROWS(route_, route_at)

static const char *const route_fields[] = {"rows", "experts", "k", "renormalise", "elements", "ld", NULL};

static uint64_t route_field(const void *args, unsigned index)
{
    const struct iq_route *a = args;
    const uint64_t value[] = {a->rows, a->experts, a->k, a->renormalise, (uint64_t)a->rows * a->experts,
                              a->ld};
    return value[index];
}

static struct iq__numbers numbers(const void *args, uint32_t r)
{
    const struct iq_route *a = args;
    return (struct iq__numbers){a->logits + r * a->ld, a->experts};
}
IQ__NUMBER_VALUES_OF(numbers)
IQ__NUMBER_VALUE(numbers, gap)
static double value_cut_gap(const struct iq_site *site, const void *args, uint32_t r)
{
    (void)site;
    return iq__values_cut_gap(numbers(args, r), ((const struct iq_route *)args)->k);
}

static const struct iq_value route_values[] = {
    {"gap", "the best expert's logit less the second's", IQ_VALUE_NUMBER, false, true, value_gap},
    {"cut_gap", "the last chosen expert's logit less the next one's", IQ_VALUE_NUMBER, false, true,
     value_cut_gap},
    IQ__NUMBER_VALUES,
    {0},
};

/* Each row names k different experts by ascending id, and no expert that it leaves out is better than one of them. */
static int route_check(const void *args, struct iq_err *err)
{
    const struct iq_route *a = args;
    for (uint32_t r = 0; r < a->rows; r++) {
        const uint32_t *expert = a->expert + (size_t)r * a->k;
        const float *logit = a->logits + r * a->ld;
        uint64_t worst = 0;
        uint32_t inside = 0;
        for (uint32_t s = 0; s < a->k; s++) {
            if (expert[s] >= a->experts || (s && expert[s] <= expert[s - 1]))
                return iq_fail(
                    err, IQ_MISMATCH,
                    "row %u slot %u: expert %u, expected ids below %u that ascend from slot to slot", r, s,
                    expert[s], a->experts);
            uint64_t own = iq__topk_entry(logit[expert[s]], expert[s]);
            worst = own > worst ? own : worst;
        }
        for (uint32_t e = 0; e < a->experts; e++) inside += iq__topk_entry(logit[e], e) <= worst;
        if (a->k && inside != a->k)
            return iq_fail(err, IQ_MISMATCH,
                           "row %u: %u experts are at least as good as the worst of the %u that were chosen",
                           r, inside, a->k);
    }
    return IQ_OK;
}

const struct iq_kind iq__kind_route = {.name = "route",
                                       .args_size = sizeof(struct iq_route),
                                       .rows = route_rows,
                                       .row_bytes = route_row_bytes,
                                       .get = route_get,
                                       .put = route_put,
                                       .runs = route_runs,
                                       .elem = sizeof(uint32_t),
                                       .fields = route_fields,
                                       .field = route_field,
                                       .values = route_values,
                                       .check = route_check};

/* ---- moe_dispatch ---- */

static uint32_t dispatch_rows(const void *args) { return ((const struct iq_moe_dispatch *)args)->rows; }

static struct iq_run owner_at(const void *args, unsigned point)
{
    const struct iq_moe_dispatch *a = args;
    return (struct iq_run){a->owner, a->k, point == 0 ? a->k : 0};
}
IQ__ROWS(dispatch_, owner_at)

static const char *const dispatch_fields[] = {"rows", "experts", "k", NULL};

static uint64_t dispatch_field(const void *args, unsigned index)
{
    const struct iq_moe_dispatch *a = args;
    const uint64_t value[] = {a->rows, a->experts, a->k};
    return value[index];
}

/* Rows' slots that go to each of `ranks` runs of experts, as they were chosen: the least and the most. */
static void dealt(const struct iq_moe_dispatch *a, uint32_t ranks, uint32_t *least, uint32_t *most)
{
    uint32_t count[IQ_EXPERTS] = {0};
    *least = UINT32_MAX, *most = 0;
    for (uint32_t i = 0; i < a->rows * a->k; i++)
        if (a->expert[i] < a->experts) count[(uint64_t)a->expert[i] * ranks / a->experts]++;
    for (uint32_t r = 0; r < ranks; r++) {
        *least = count[r] < *least ? count[r] : *least;
        *most = count[r] > *most ? count[r] : *most;
    }
}

static double skew(const void *args, uint32_t ranks)
{
    const struct iq_moe_dispatch *a = args;
    uint32_t least, most;
    if (!ranks || ranks > a->experts || a->experts > IQ_EXPERTS) return NAN;
    dealt(a, ranks, &least, &most);
    return most - least;
}
static double value_rank_skew(const struct iq_site *site, const void *args, uint32_t r)
{
    (void)r;
    return skew(args, site->step->expert_parallel);
}
static double value_skew(const struct iq_site *site, const void *args, uint32_t r)
{
    (void)site, (void)r;
    return skew(args, ((const struct iq_moe_dispatch *)args)->experts);
}

static const struct iq_value dispatch_values[] = {
    {"rank_skew", "most less fewest tokens that an expert-parallel rank gets", IQ_VALUE_COUNT, true, true,
     value_rank_skew},
    {"skew", "most less fewest tokens that an expert gets", IQ_VALUE_COUNT, true, true, value_skew},
    {0},
};

static void dispatch_derive(const void *args) { iq_moe_lists(args); }

/* A slot goes to the expert that was chosen for it, or to none; it stands in that expert's list, and nothing else does. */
static int dispatch_check(const void *args, struct iq_err *err)
{
    const struct iq_moe_dispatch *a = args;
    uint32_t served = 0;
    for (uint32_t i = 0; i < a->rows * a->k; i++) {
        if (a->owner[i] == IQ_SLOT_DROPPED) continue;
        if (a->owner[i] != a->expert[i])
            return iq_fail(err, IQ_MISMATCH, "row %u slot %u: goes to expert %u, but %u was chosen", i / a->k,
                           i % a->k, a->owner[i], a->expert[i]);
        served++;
    }
    if (a->first[0] != 0 || a->first[a->experts] != served)
        return iq_fail(err, IQ_MISMATCH, "the lists hold slots %u to %u, expected 0 to %u", a->first[0],
                       a->first[a->experts], served);
    for (uint32_t e = 0; e < a->experts; e++) {
        if (a->first[e] > a->first[e + 1])
            return iq_fail(err, IQ_MISMATCH, "the list of expert %u ends before it begins", e);
        for (uint32_t i = a->first[e]; i < a->first[e + 1]; i++) {
            uint32_t at = a->list[i];
            if (at >= a->rows * a->k || a->owner[at] != e || (i > a->first[e] && at <= a->list[i - 1]))
                return iq_fail(err, IQ_MISMATCH,
                               "entry %u of expert %u's list is slot %u, expected the expert's own slots by "
                               "ascending row",
                               i - a->first[e], e, at);
        }
    }
    return IQ_OK;
}

const struct iq_kind iq__kind_moe_dispatch = {.name = "moe_dispatch",
                                              .args_size = sizeof(struct iq_moe_dispatch),
                                              .rows = dispatch_rows,
                                              .row_bytes = dispatch_row_bytes,
                                              .get = dispatch_get,
                                              .put = dispatch_put,
                                              .runs = dispatch_runs,
                                              .derive = dispatch_derive,
                                              .elem = sizeof(uint32_t),
                                              .fields = dispatch_fields,
                                              .field = dispatch_field,
                                              .values = dispatch_values,
                                              .check = dispatch_check};
