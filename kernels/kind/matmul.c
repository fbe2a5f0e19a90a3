/* The kind matmul: what taps, firing logs and triggers see of it. */
#include "kernels/ops/matmul.h"
#include "kernels/kind/rows.h"
#include "kernels/kind/values.h"
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

/* The columns of x that the parts read. */
static uint32_t columns(const struct iq_matmul *m, uint32_t *first)
{
    uint32_t lo = UINT32_MAX, hi = 0;
    for (uint32_t p = 0; p < m->parts; p++) {
        uint32_t at = m->part[p].x_at, end = at + m->part[p].w->k;
        lo = at < lo ? at : lo;
        hi = end > hi ? end : hi;
    }
    *first = m->parts ? lo : 0;
    return m->parts ? hi - lo : 0;
}

/* Of the whole call: rows, parts; of the first part: n, k, unit, format. Strides in floats. elements: of the first part's
 * y over all rows; x_offset: bytes to the first column that is read. */
static const char *const fields[] = {"rows",    "n",        "k",       "unit",    "format",
                                     "parts",   "ldx",      "ldy",     "bias",    "elements",
                                     "columns", "x_offset", "x_bytes", "w_bytes", "y_bytes",
                                     "x_align", "w_align",  "y_align", NULL};

static uint64_t field(const void *args, unsigned index)
{
    const struct iq_matmul *m = args;
    const struct iq_matmul_part *p = &m->part[0];
    uint32_t first, n = columns(m, &first);
    const uint64_t value[] = {m->rows,
                              p->w->n,
                              p->w->k,
                              p->w->unit,
                              p->w->format,
                              m->parts,
                              m->ldx,
                              p->ldy,
                              p->bias != NULL,
                              (uint64_t)m->rows * p->w->n,
                              n,
                              (uint64_t)first * sizeof *m->x,
                              iq__extent(m->rows, m->ldx, n),
                              (uint64_t)p->w->panels * p->w->panel_bytes,
                              iq__extent(m->rows, p->ldy, p->w->n),
                              iq__align_of(m->x + first),
                              iq__align_of(p->w->data),
                              iq__align_of(p->y)};
    return value[index];
}

static struct iq__numbers numbers(const void *args, uint32_t r)
{
    const struct iq_matmul *m = args;
    uint32_t first, n = columns(m, &first);
    return (struct iq__numbers){m->x + r * m->ldx + first, n};
}
IQ__NUMBER_VALUES_OF(numbers)

/* Where row r of the first part's y begins: what a kernel's offset arithmetic must hold. */
static double value_y_offset(const struct iq_site *site, const void *args, uint32_t r)
{
    (void)site;
    return (double)r * (double)((const struct iq_matmul *)args)->part[0].ldy * sizeof(float);
}

static const struct iq_value values[] = {
    IQ__NUMBER_VALUES,
    {"y_offset", "bytes from y's first row to the row", IQ_VALUE_COUNT, false, false, value_y_offset},
    {0},
};

const struct iq_kind iq__kind_matmul = {.name = "matmul",
                                        .args_size = sizeof(struct iq_matmul),
                                        .rows = rows,
                                        .row_bytes = row_bytes,
                                        .get = get,
                                        .put = put,
                                        .runs = runs,
                                        .elem = sizeof(float),
                                        .fields = fields,
                                        .field = field,
                                        .values = values};
