/* The kind all_reduce: what taps, firing logs and triggers see of it, and its invariant. */
#include "kernels/arith.h"
#include "kernels/kind/rows.h"
#include "kernels/kind/values.h"
#include "kernels/op.h"
#include "kernels/ops/reduce.h"

static uint32_t rows(const void *args) { return ((const struct iq_all_reduce *)args)->rows; }

static struct iq_run at(const void *args, unsigned point)
{
    const struct iq_all_reduce *a = args;
    return (struct iq_run){a->y, a->ldy, point == 0 ? a->n : 0};
}
IQ__FLOAT_ROWS(at)

static const char *const fields[] = {"elements", "pieces", "units", "n",     "bytes", "rows",
                                     "ranks",    "ldx",    "ldy",   "align", NULL};

/* The largest power of two, at most 4096, to which every row of every message is aligned, and the sum's. */
static uint64_t align(const struct iq_all_reduce *a)
{
    uintptr_t at = (uintptr_t)a->y | a->ldy * sizeof(float);
    for (uint32_t p = 0; p < a->pieces; p++) at |= (uintptr_t)a->piece[p].x | a->piece[p].ldx * sizeof(float);
    return iq__align_of((const void *)at);
}

/* elements: of one message, over all rows; bytes: the float32 bytes that one piece carries; ranks: that send pieces. */
static uint64_t field(const void *args, unsigned index)
{
    const struct iq_all_reduce *a = args;
    uint64_t elements = (uint64_t)a->rows * a->n;
    uint64_t ranks = 0, ldx = a->pieces ? a->piece[0].ldx : 0;
    for (uint32_t p = 0; p < a->pieces; p++) ranks = a->piece[p].rank >= ranks ? a->piece[p].rank + 1 : ranks;
    const uint64_t value[] = {elements, a->pieces, a->units, a->n,   elements * sizeof(float),
                              a->rows,  ranks,     ldx,      a->ldy, align(a)};
    return value[index];
}

/* The relative error of one rounding to the activation type, with room for a subnormal float16. */
static double act_error(uint32_t act, double magnitude)
{
    switch (act) {
    case IQ_ACT_BF16:
        return magnitude * 0x1p-8;
    case IQ_ACT_F16:
        return magnitude * 0x1p-11 + 0x1p-25;
    default:
        return 0;
    }
}

/* In whatever order float32 adds n terms, the result lies within (n - 1) u' sum |x| of their sum, u' =
 * 2^-23 leaving room for the higher terms; one rounding follows. Rows with a term or a sum that is not
 * finite are not judged. */
static int check(const void *args, struct iq_err *err)
{
    const struct iq_all_reduce *a = args;
    for (uint32_t r = 0; r < a->rows; r++) {
        for (uint32_t i = 0; i < a->n; i++) {
            double sum = 0, size = 0, y = a->y[r * a->ldy + i];
            for (uint32_t p = 0; p < a->pieces; p++) {
                double x = a->piece[p].x[r * a->piece[p].ldx + i];
                sum += x;
                size += fabs(x);
            }
            double bound = a->pieces * 0x1p-23 * size + act_error(a->act, size);
            if (!(size < (a->act == IQ_ACT_F16 ? 65504.0 : 0x1p127))) continue; /* overflow is not disorder */
            if (!(fabs(y - sum) <= bound))
                return iq_fail(err, IQ_MISMATCH,
                               "row %u element %u: found %.9g, expected %.9g within %.3g in any "
                               "order of the sum",
                               r, i, y, sum, bound);
        }
    }
    return IQ_OK;
}

const struct iq_kind iq__kind_all_reduce = {.name = "all_reduce",
                                            .args_size = sizeof(struct iq_all_reduce),
                                            .rows = rows,
                                            .row_bytes = row_bytes,
                                            .get = get,
                                            .put = put,
                                            .runs = runs,
                                            .elem = sizeof(float),
                                            .fields = fields,
                                            .field = field,
                                            .check = check};
