/* The kind topk: what taps, firing logs and triggers see of it, and its invariants. */
#include "kernels/cpu/topk_order.h"
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

static const char *const fields[] = {"k", "vocab", "shards", NULL};

static uint64_t field(const void *args, unsigned index)
{
    const struct iq_topk *a = args;
    const uint64_t value[] = {a->k, a->vocab, a->shards};
    return value[index];
}

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
        if (memcmp(&values[i], &logit, sizeof logit) && (values[i] == values[i] || logit == logit))
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
                                      .check = check};
