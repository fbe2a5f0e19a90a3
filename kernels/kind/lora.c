/* The kind lora: what taps, firing logs and triggers see of it, and its invariant. */
#include "kernels/ops/lora.h"
#include "kernels/op.h"

#include <string.h>

static uint32_t rows(const void *args) { return ((const struct iq_lora *)args)->rows; }
static size_t row_bytes(const void *args, unsigned point)
{
    const struct iq_lora *a = args;
    return point < a->parts ? a->part[point].n * sizeof(float) : 0;
}

static const void *get(const void *args, unsigned point, uint32_t r, void *scratch)
{
    const struct iq_lora_part *p = &((const struct iq_lora *)args)->part[point];
    (void)scratch;
    return p->y + r * p->ldy;
}

static void put(const void *args, unsigned point, uint32_t r, const void *bytes)
{
    const struct iq_lora_part *p = &((const struct iq_lora *)args)->part[point];
    memcpy(p->y + r * p->ldy, bytes, p->n * sizeof(float));
}

static const char *const fields[] = {"n", "k", "adapted", NULL};

/* adapted: rows that have an adapter here. */
static uint64_t field(const void *args, unsigned index)
{
    const struct iq_lora *a = args;
    uint64_t adapted = 0;
    for (uint32_t r = 0; r < a->rows; r++) adapted += a->part[0].pair[r] && a->part[0].pair[r]->rank;
    const uint64_t value[] = {a->part[0].n, a->part[0].k, adapted};
    return value[index];
}

/* A row without an adapter is as it was. */
static int check(const void *args, struct iq_err *err)
{
    const struct iq_lora *a = args;
    for (uint32_t i = 0; i < a->parts; i++) {
        const struct iq_lora_part *p = &a->part[i];
        for (uint32_t r = 0; r < a->rows; r++) {
            bool none = !p->pair[r] || !p->pair[r]->rank;
            if (none && memcmp(p->y + r * p->ldy, p->base + r * p->ldb, p->n * sizeof *p->y))
                return iq_fail(err, IQ_MISMATCH, "row %u has no adapter, but part %u of it was changed", r,
                               i);
        }
    }
    return IQ_OK;
}

const struct iq_kind iq__kind_lora = {.name = "lora",
                                      .args_size = sizeof(struct iq_lora),
                                      .rows = rows,
                                      .row_bytes = row_bytes,
                                      .get = get,
                                      .put = put,
                                      .elem = sizeof(float),
                                      .fields = fields,
                                      .field = field,
                                      .check = check};
