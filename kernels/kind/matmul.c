/* The kind matmul: what taps, firing logs and triggers see of it. */
#include "kernels/ops/matmul.h"
#include "kernels/kind/rows.h"
#include "kernels/matrix.h"
#include "kernels/op.h"
#include "kernels/tables.h"

static uint32_t rows(const void *args) { return ((const struct iq_matmul *)args)->rows; }

/* Point p is the output of part p. */
static struct iq_run at(const void *args, unsigned point)
{
    const struct iq_matmul *m = args;
    if (point >= m->parts) return (struct iq_run){0};
    return (struct iq_run){m->part[point].y, m->part[point].ldy, m->part[point].w->n};
}
IQ__FLOAT_ROWS(at)

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
                                        .runs = runs,
                                        .elem = sizeof(float),
                                        .fields = fields,
                                        .field = field};
