/* The kind rmsnorm: what taps, firing logs and triggers see of it, and its invariant. */
#include "kernels/ops/rmsnorm.h"
#include "kernels/kind/rows.h"
#include "kernels/kind/values.h"
#include "kernels/op.h"

#include <math.h>

static uint32_t rows(const void *args) { return ((const struct iq_rmsnorm *)args)->rows; }

static struct iq_run at(const void *args, unsigned point)
{
    const struct iq_rmsnorm *a = args;
    return (struct iq_run){a->y, a->ldy, point == 0 ? (size_t)a->groups * a->n : 0};
}
IQ__FLOAT_ROWS(at)

static const char *const fields[] = {"n",       "groups",  "elements", "rows",    "ldx", "ldy",
                                     "x_bytes", "y_bytes", "x_align",  "y_align", NULL};

/* elements: over all rows. */
static uint64_t field(const void *args, unsigned index)
{
    const struct iq_rmsnorm *a = args;
    uint64_t n = (uint64_t)a->groups * a->n;
    const uint64_t value[] = {a->n,
                              a->groups,
                              a->rows * n,
                              a->rows,
                              a->ldx,
                              a->ldy,
                              iq__extent(a->rows, a->ldx, n),
                              iq__extent(a->rows, a->ldy, n),
                              iq__align_of(a->x),
                              iq__align_of(a->y)};
    return value[index];
}

static struct iq__numbers numbers(const void *args, uint32_t r)
{
    const struct iq_rmsnorm *a = args;
    return (struct iq__numbers){a->x + r * a->ldx, (size_t)a->groups * a->n};
}
IQ__NUMBER_VALUES_OF(numbers)

static double value_y_offset(const struct iq_site *site, const void *args, uint32_t r)
{
    (void)site;
    return (double)r * (double)((const struct iq_rmsnorm *)args)->ldy * sizeof(float);
}

static const struct iq_value values[] = {
    IQ__NUMBER_VALUES,
    {"y_offset", "bytes from y's first row to the row", IQ_VALUE_COUNT, false, false, value_y_offset},
    {0},
};

/* Each element is its input over the root of its own row's mean square, to six bits: no rounding, no approximate root and
 * no order of the sum is further off. Rows that hold what is not finite are not judged. */
static int check_group(const struct iq_rmsnorm *a, uint32_t r, uint32_t g, struct iq_err *err)
{
    const float *x = a->x + r * a->ldx + (size_t)g * a->n, *y = a->y + r * a->ldy + (size_t)g * a->n;
    double sum = 0;
    for (uint32_t i = 0; i < a->n; i++) sum += (double)x[i] * (double)x[i];
    double root = sqrt(sum / a->n + (double)a->eps);
    for (uint32_t i = 0; i < a->n && root < 0x1p63 && root > 0x1p-60; i++) {
        double want = (double)x[i] / root * (double)a->weight[i];
        if (!(fabs(want) < 60000)) continue; /* float16 may overflow */
        if (!(fabs((double)y[i] - want) <= fabs(want) * 0x1p-6 + 0x1p-24))
            return iq_fail(
                err, IQ_MISMATCH,
                "row %u element %u: found %.9g, expected about %.9g: the row's own mean square is %.9g", r,
                g * a->n + i, (double)y[i], want, sum / a->n);
    }
    return IQ_OK;
}

static int check(const void *args, struct iq_err *err)
{
    const struct iq_rmsnorm *a = args;
    for (uint32_t r = 0; r < a->rows; r++)
        for (uint32_t g = 0; g < a->groups; g++) IQ_TRY(check_group(a, r, g, err));
    return IQ_OK;
}

const struct iq_kind iq__kind_rmsnorm = {.name = "rmsnorm",
                                         .args_size = sizeof(struct iq_rmsnorm),
                                         .rows = rows,
                                         .row_bytes = row_bytes,
                                         .get = get,
                                         .put = put,
                                         .runs = runs,
                                         .elem = sizeof(float),
                                         .fields = fields,
                                         .field = field,
                                         .values = values,
                                         .check = check};
