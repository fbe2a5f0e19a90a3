/* The kind mask: what taps, firing logs and triggers see of it, and its invariant. */
#include "kernels/ops/mask.h"
#include "kernels/op.h"

#include <math.h>
#include <string.h>

static uint32_t rows(const void *args) { return ((const struct iq_mask *)args)->rows; }
static size_t row_bytes(const void *args, unsigned point)
{
    return point == 0 ? ((const struct iq_mask *)args)->n * sizeof(float) : 0;
}

static const void *get(const void *args, unsigned point, uint32_t r, void *scratch)
{
    const struct iq_mask *a = args;
    (void)point, (void)scratch;
    return a->y + r * a->ldy;
}

static void put(const void *args, unsigned point, uint32_t r, const void *bytes)
{
    const struct iq_mask *a = args;
    memcpy(a->y + r * a->ldy, bytes, row_bytes(args, point));
}

static const char *const fields[] = {"n", "masked", NULL};

/* masked: rows that have a mask. */
static uint64_t field(const void *args, unsigned index)
{
    const struct iq_mask *a = args;
    uint64_t masked = 0;
    for (uint32_t r = 0; r < a->rows; r++) masked += a->allow[r] != NULL;
    return index == 0 ? a->n : masked;
}

/* What a row forbids can't be chosen, what it allows is as it was. */
static int check(const void *args, struct iq_err *err)
{
    const struct iq_mask *a = args;
    for (uint32_t r = 0; r < a->rows; r++)
        for (uint32_t t = 0; t < a->n; t++) {
            const float *x = &a->x[r * a->ldx + t], *y = &a->y[r * a->ldy + t];
            if (!iq_mask_allows(a->allow[r], t)) {
                if (*y == -INFINITY) continue;
                return iq_fail(err, IQ_MISMATCH, "row %u: token %u is forbidden, but its logit is %.9g", r, t,
                               (double)*y);
            }
            if (memcmp(x, y, sizeof *x))
                return iq_fail(err, IQ_MISMATCH, "row %u: token %u is allowed: found %.9g, expected %.9g", r,
                               t, (double)*y, (double)*x);
        }
    return IQ_OK;
}

const struct iq_kind iq__kind_mask = {.name = "mask",
                                      .args_size = sizeof(struct iq_mask),
                                      .rows = rows,
                                      .row_bytes = row_bytes,
                                      .get = get,
                                      .put = put,
                                      .elem = sizeof(float),
                                      .fields = fields,
                                      .field = field,
                                      .check = check};
