#include "kernels/ops/matmul.h"
#include "kernels/matrix.h"
#include "kernels/op.h"
#include "kernels/tables.h"

#include <string.h>

/* Point p is the output of part p. */
static const struct iq_matmul_part *part_at(const void *args, unsigned point)
{
    const struct iq_matmul *m = args;
    return point < m->parts ? &m->part[point] : NULL;
}

static uint32_t rows(const void *args) { return ((const struct iq_matmul *)args)->rows; }

static size_t row_bytes(const void *args, unsigned point)
{
    const struct iq_matmul_part *p = part_at(args, point);
    return p ? p->w->n * sizeof *p->y : 0;
}

static const void *get(const void *args, unsigned point, uint32_t r, void *scratch)
{
    (void)scratch;
    const struct iq_matmul_part *p = part_at(args, point);
    return p->y + r * p->ldy;
}

static void put(const void *args, unsigned point, uint32_t r, const void *bytes)
{
    const struct iq_matmul_part *p = part_at(args, point);
    memcpy(p->y + r * p->ldy, bytes, p->w->n * sizeof *p->y);
}

/* Of the whole call: rows, parts; of the first part: n, k, unit, format. Strides in floats. */
static const char *const fields[] = {"rows", "n", "k", "unit", "format", "parts", "ldx", "ldy", "bias", NULL};

static uint64_t field(const void *args, unsigned index)
{
    const struct iq_matmul *m = args;
    const struct iq_matmul_part *p = &m->part[0];
    const uint64_t value[] = {m->rows,  p->w->n, p->w->k, p->w->unit,     p->w->format,
                              m->parts, m->ldx,  p->ldy,  p->bias != NULL};
    return value[index];
}

const struct iq_kind iq__kind_matmul = {.name = "matmul",
                                        .args_size = sizeof(struct iq_matmul),
                                        .rows = rows,
                                        .row_bytes = row_bytes,
                                        .get = get,
                                        .put = put,
                                        .elem = sizeof(float),
                                        .fields = fields,
                                        .field = field};
