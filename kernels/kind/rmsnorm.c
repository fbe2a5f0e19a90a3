/* The kind rmsnorm: what taps, firing logs and triggers see of it. */
#include "kernels/ops/rmsnorm.h"
#include "kernels/kind/rows.h"
#include "kernels/kind/values.h"
#include "kernels/op.h"

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
                                         .values = values};
