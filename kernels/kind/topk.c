/* The kind topk: what taps, firing logs and triggers see of it, and its invariants. */
#include "kernels/arith.h"
#include "kernels/cpu/topk_order.h"
#include "kernels/kind/values.h"
#include "kernels/op.h"
#include "kernels/ops/sampling.h"

#include <string.h>

static uint32_t rows(const void *args) { return ((const struct iq_topk *)args)->rows; }

/* A row is its ids, then its values. */
static size_t row_bytes(const void *args, unsigned point)
{
    return point == 0 ? ((const struct iq_topk *)args)->k * (size_t)8 : 0;
}

static const void *get(const void *args, unsigned point, uint32_t r, void *scratch)
{
    const struct iq_topk *a = args;
    (void)point;
    size_t n = a->k * sizeof(uint32_t);
    memcpy(scratch, a->ids + (size_t)r * a->k, n);
    memcpy((char *)scratch + n, a->values + (size_t)r * a->k, n);
    return scratch;
}

static void put(const void *args, unsigned point, uint32_t r, const void *bytes)
{
    const struct iq_topk *a = args;
    (void)point;
    size_t n = a->k * sizeof(uint32_t);
    memcpy(a->ids + (size_t)r * a->k, bytes, n);
    memcpy(a->values + (size_t)r * a->k, (const char *)bytes + n, n);
}

static unsigned runs(const void *args, unsigned point, struct iq_run run[IQ_RUNS])
{
    const struct iq_topk *a = args;
    if (point) return 0;
    run[0] = (struct iq_run){a->ids, a->k, a->k};
    run[1] = (struct iq_run){a->values, a->k, a->k};
    return 2;
}

/* elements: rows x vocabulary. */
static const char *const fields[] = {"k",  "vocab",   "shards",  "rows", "elements",
                                     "ld", "x_bytes", "x_align", NULL};

static uint64_t field(const void *args, unsigned index)
{
    const struct iq_topk *a = args;
    const uint64_t value[] = {a->k,
                              a->vocab,
                              a->shards,
                              a->rows,
                              (uint64_t)a->rows * a->vocab,
                              a->ld,
                              iq__extent(a->rows, a->ld, a->vocab),
                              iq__align_of(a->logits)};
    return value[index];
}

static struct iq__numbers numbers(const void *args, uint32_t r)
{
    const struct iq_topk *a = args;
    return (struct iq__numbers){a->logits + r * a->ld, a->vocab};
}
IQ__NUMBER_VALUES_OF(numbers)
IQ__NUMBER_VALUE(numbers, largest)
IQ__NUMBER_VALUE(numbers, gap)
IQ__NUMBER_VALUE(numbers, ties)
IQ__NUMBER_VALUE(numbers, rounds_down)
IQ__NUMBER_VALUE(numbers, full_bin)

#define OF_THE_CUT(name)                                                                                     \
    static double value_##name(const struct iq_site *site, const void *args, uint32_t r)                     \
    {                                                                                                        \
        (void)site;                                                                                          \
        return iq__values_##name(numbers(args, r), ((const struct iq_topk *)args)->k);                       \
    }
OF_THE_CUT(cut_gap)
OF_THE_CUT(cut_ties)
OF_THE_CUT(cut_bin)

static double value_x_offset(const struct iq_site *site, const void *args, uint32_t r)
{
    (void)site;
    return (double)r * (double)((const struct iq_topk *)args)->ld * sizeof(float);
}

static const struct iq_value values[] = {
    {"largest", "the largest logit", IQ_VALUE_NUMBER, false, true, value_largest},
    {"gap", "the largest logit less the second largest", IQ_VALUE_NUMBER, false, true, value_gap},
    {"ties", "other logits that equal the largest", IQ_VALUE_COUNT, false, true, value_ties},
    {"rounds_down", "whether the largest logit is above its bf16 rounding", IQ_VALUE_FLAG, false, true,
     value_rounds_down},
    {"cut_gap", "the k-th largest logit less the one after it", IQ_VALUE_NUMBER, false, true, value_cut_gap},
    {"cut_ties", "logits that equal the k-th largest and are left out", IQ_VALUE_COUNT, false, true,
     value_cut_ties},
    {"cut_bin", "logits in the k-th largest's bin, of 256 by sign and exponent", IQ_VALUE_COUNT, false, true,
     value_cut_bin},
    {"full_bin", "logits in the fullest of these bins", IQ_VALUE_COUNT, false, true, value_full_bin},
    IQ__NUMBER_VALUES,
    {"x_offset", "bytes from the first row of logits to the row", IQ_VALUE_COUNT, false, false,
     value_x_offset},
    {0},
};

/* One row: ids in range, values the logits of their ids, strictly descending in the order of topk_order.h
 * (so no id twice), and nothing left out that is better than what is there. */
static int check_row(const struct iq_topk *a, uint32_t r, struct iq_err *err)
{
    const float *x = a->logits + r * a->ld, *values = a->values + (size_t)r * a->k;
    const uint32_t *ids = a->ids + (size_t)r * a->k;
    for (uint32_t i = 0; i < a->k; i++) {
        if (ids[i] >= a->vocab)
            return iq_fail(err, IQ_MISMATCH, "row %u candidate %u: id %u, expected one below %u", r, i,
                           ids[i], a->vocab);
        float logit = x[ids[i]];
        if (iq_f32_bits(values[i]) != iq_f32_bits(logit) && (values[i] == values[i] || logit == logit))
            return iq_fail(err, IQ_MISMATCH, "row %u candidate %u: value %.9g, but logit %u is %.9g", r, i,
                           values[i], ids[i], logit);
        if (i > 0 && iq__topk_entry(x[ids[i - 1]], ids[i - 1]) >= iq__topk_entry(logit, ids[i]))
            return iq_fail(err, IQ_MISMATCH,
                           "row %u: candidate %u (id %u, %.9g) stands behind id %u (%.9g) but is not "
                           "after it in order",
                           r, i, ids[i], logit, ids[i - 1], x[ids[i - 1]]);
    }
    if (a->k == 0) return IQ_OK;
    uint64_t first = iq__topk_entry(x[ids[0]], ids[0]),
             last = iq__topk_entry(x[ids[a->k - 1]], ids[a->k - 1]);
    uint32_t inside = 0;
    for (uint32_t i = 0; i < a->vocab; i++) {
        uint64_t entry = iq__topk_entry(x[i], i);
        if (entry < first)
            return iq_fail(err, IQ_MISMATCH,
                           "row %u: the largest logit is not among the candidates: id %u "
                           "(%.9g) beats id %u (%.9g)",
                           r, i, x[i], ids[0], x[ids[0]]);
        inside += entry <= last;
    }
    if (inside != a->k)
        return iq_fail(err, IQ_MISMATCH,
                       "row %u: %u logits are at least as good as the last of %u candidates: some were "
                       "left out",
                       r, inside, a->k);
    return IQ_OK;
}

static int check(const void *args, struct iq_err *err)
{
    const struct iq_topk *a = args;
    for (uint32_t r = 0; r < a->rows; r++) IQ_TRY(check_row(a, r, err));
    return IQ_OK;
}

const struct iq_kind iq__kind_topk = {.name = "topk",
                                      .args_size = sizeof(struct iq_topk),
                                      .rows = rows,
                                      .row_bytes = row_bytes,
                                      .get = get,
                                      .put = put,
                                      .runs = runs,
                                      .elem = sizeof(uint32_t),
                                      .fields = fields,
                                      .field = field,
                                      .values = values,
                                      .check = check};
