/* The kinds add, swiglu and temper: what taps, firing logs and triggers see of them. All write y: (rows, n). */
#include "kernels/ops/vector.h"
#include "kernels/kind/values.h"
#include "kernels/op.h"

#include <string.h>

static const char *const fields[] = {"n", "elements", "rows", "ldy", "y_bytes", "y_align", NULL};

/* elements: over all rows. */
#define ELEMENT_WISE(kind)                                                                                   \
    static uint32_t kind##_rows(const void *args) { return ((const struct iq_##kind *)args)->rows; }         \
    static size_t kind##_row_bytes(const void *args, unsigned point)                                         \
    {                                                                                                        \
        return point == 0 ? ((const struct iq_##kind *)args)->n * sizeof(float) : 0;                         \
    }                                                                                                        \
    static const void *kind##_get(const void *args, unsigned point, uint32_t r, void *scratch)               \
    {                                                                                                        \
        const struct iq_##kind *a = args;                                                                    \
        (void)point, (void)scratch;                                                                          \
        return a->y + r * a->ldy;                                                                            \
    }                                                                                                        \
    static void kind##_put(const void *args, unsigned point, uint32_t r, const void *bytes)                  \
    {                                                                                                        \
        const struct iq_##kind *a = args;                                                                    \
        memcpy(a->y + r * a->ldy, bytes, kind##_row_bytes(args, point));                                     \
    }                                                                                                        \
    static unsigned kind##_runs(const void *args, unsigned point, struct iq_run run[IQ_RUNS])                \
    {                                                                                                        \
        const struct iq_##kind *a = args;                                                                    \
        run[0] = (struct iq_run){a->y, a->ldy, a->n};                                                        \
        return point == 0;                                                                                   \
    }                                                                                                        \
    static uint64_t kind##_field(const void *args, unsigned index)                                           \
    {                                                                                                        \
        const struct iq_##kind *a = args;                                                                    \
        const uint64_t value[] = {a->n,   (uint64_t)a->rows * a->n,          a->rows,                        \
                                  a->ldy, iq__extent(a->rows, a->ldy, a->n), iq__align_of(a->y)};            \
        return value[index];                                                                                 \
    }                                                                                                        \
    const struct iq_kind iq__kind_##kind = {.name = #kind,                                                   \
                                            .args_size = sizeof(struct iq_##kind),                           \
                                            .rows = kind##_rows,                                             \
                                            .row_bytes = kind##_row_bytes,                                   \
                                            .get = kind##_get,                                               \
                                            .put = kind##_put,                                               \
                                            .runs = kind##_runs,                                             \
                                            .elem = sizeof(float),                                           \
                                            .fields = fields,                                                \
                                            .field = kind##_field}

ELEMENT_WISE(add);
ELEMENT_WISE(swiglu);
ELEMENT_WISE(temper);
