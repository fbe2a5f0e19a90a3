/* The kind rmsnorm: what taps, firing logs and triggers see of it. */
#include "kernels/ops/rmsnorm.h"
#include "kernels/kind/rows.h"
#include "kernels/op.h"

static uint32_t rows(const void *args) { return ((const struct iq_rmsnorm *)args)->rows; }

static struct iq_run at(const void *args, unsigned point)
{
    const struct iq_rmsnorm *a = args;
    return (struct iq_run){a->y, a->ldy, point == 0 ? (size_t)a->groups * a->n : 0};
}
IQ__FLOAT_ROWS(at)

static const char *const fields[] = {"n", "groups", "elements", NULL};

/* elements: over all rows. */
static uint64_t field(const void *args, unsigned index)
{
    const struct iq_rmsnorm *a = args;
    const uint64_t value[] = {a->n, a->groups, (uint64_t)a->rows * a->groups * a->n};
    return value[index];
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
                                         .field = field};
