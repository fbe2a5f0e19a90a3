/* The kind sample: what taps, firing logs and triggers see of it, and its invariants. */
#include "kernels/kind/values.h"
#include "kernels/op.h"
#include "kernels/ops/sampling.h"

#include <string.h>

static uint32_t rows(const void *args) { return ((const struct iq_sample *)args)->rows; }
static size_t row_bytes(const void *args, unsigned point)
{
    return (void)args, point == 0 ? sizeof(uint32_t) : 0;
}

static const void *get(const void *args, unsigned point, uint32_t r, void *scratch)
{
    (void)point, (void)scratch;
    return ((const struct iq_sample *)args)->token + r;
}

static void put(const void *args, unsigned point, uint32_t r, const void *bytes)
{
    (void)point;
    memcpy(((const struct iq_sample *)args)->token + r, bytes, sizeof(uint32_t));
}

static unsigned runs(const void *args, unsigned point, struct iq_run run[IQ_RUNS])
{
    run[0] = (struct iq_run){((const struct iq_sample *)args)->token, 1, 1};
    return point == 0;
}

static const char *const fields[] = {"k", "vocab", "rows", "elements", "ld", "x_bytes", "x_align", NULL};

static uint64_t field(const void *args, unsigned index)
{
    const struct iq_sample *a = args;
    const uint64_t value[] = {a->k,
                              a->vocab,
                              a->rows,
                              (uint64_t)a->rows * a->vocab,
                              a->ld,
                              iq__extent(a->rows, a->ld, a->vocab),
                              iq__align_of(a->logits)};
    return value[index];
}

static struct iq__numbers numbers(const void *args, uint32_t r)
{
    const struct iq_sample *a = args;
    return (struct iq__numbers){a->logits + r * a->ld, a->vocab};
}
IQ__NUMBER_VALUES_OF(numbers)
IQ__NUMBER_VALUE(numbers, largest)
IQ__NUMBER_VALUE(numbers, gap)
IQ__NUMBER_VALUE(numbers, ties)
IQ__NUMBER_VALUE(numbers, rounds_down)

static const struct iq_value values[] = {
    {"largest", "the largest logit after temperature", IQ_VALUE_NUMBER, false, true, value_largest},
    {"gap", "that less the second largest", IQ_VALUE_NUMBER, false, true, value_gap},
    {"ties", "other logits that equal the largest", IQ_VALUE_COUNT, false, true, value_ties},
    {"rounds_down", "whether the largest is above its bf16 rounding", IQ_VALUE_FLAG, false, true,
     value_rounds_down},
    IQ__NUMBER_VALUES,
    {0},
};

/* The token is in the vocabulary, no NaN, and among the candidates that the row allows. */
static int check(const void *args, struct iq_err *err)
{
    const struct iq_sample *a = args;
    for (uint32_t r = 0; r < a->rows; r++) {
        uint32_t token = a->token[r];
        if (token >= a->vocab)
            return iq_fail(err, IQ_MISMATCH, "row %u: token %u, expected one below %u", r, token, a->vocab);
        float logit = a->logits[r * a->ld + token];
        if (logit != logit)
            return iq_fail(err, IQ_MISMATCH, "row %u: the logit of token %u is NaN", r, token);
        uint32_t allowed = a->temperature[r] > 0 ? a->top_k[r] : 1;
        if (allowed == 0) continue;
        bool found = false;
        for (uint32_t i = 0; i < allowed && i < a->k; i++) found |= a->ids[(size_t)r * a->k + i] == token;
        if (!found)
            return iq_fail(err, IQ_MISMATCH, "row %u: token %u is not among the first %u candidates", r,
                           token, allowed);
    }
    return IQ_OK;
}

const struct iq_kind iq__kind_sample = {.name = "sample",
                                        .args_size = sizeof(struct iq_sample),
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
