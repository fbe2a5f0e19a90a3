/* The kind rmsnorm: what taps, firing logs and triggers see of it. */
#include "kernels/ops/rmsnorm.h"
#include "kernels/op.h"

#include <string.h>

static uint32_t rows(const void *args) { return ((const struct iq_rmsnorm *)args)->rows; }

static size_t row_bytes(const void *args, unsigned point)
{
    const struct iq_rmsnorm *a = args;
    return point == 0 ? (size_t)a->groups * a->n * sizeof(float) : 0;
}

static const void *get(const void *args, unsigned point, uint32_t r, void *scratch)
{
    const struct iq_rmsnorm *a = args;
    (void)point, (void)scratch;
    return a->y + r * a->ldy;
}

static void put(const void *args, unsigned point, uint32_t r, const void *bytes)
{
    const struct iq_rmsnorm *a = args;
    memcpy(a->y + r * a->ldy, bytes, row_bytes(args, point));
}

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
                                         .elem = sizeof(float),
                                         .fields = fields,
                                         .field = field};
