/* The kind rope: what taps, firing logs and triggers see of it. Points: q and k, each (rows, heads, dim). */
#include "kernels/ops/rope.h"
#include "kernels/kind/rows.h"
#include "kernels/kind/values.h"
#include "kernels/op.h"

static uint32_t rows(const void *args) { return ((const struct iq_rope *)args)->rows; }

static struct iq_run at(const void *args, unsigned point)
{
    const struct iq_rope *a = args;
    if (point > 1) return (struct iq_run){0};
    return (struct iq_run){a->part[point].y, a->part[point].ldy, (size_t)a->part[point].heads * a->dim};
}
IQ__FLOAT_ROWS(at)

/* ldx, ldy, bytes and alignments: of q. */
static const char *const fields[] = {"dim", "rotary",  "interleaved", "q_heads", "kv_heads", "rows", "ldx",
                                     "ldy", "x_bytes", "y_bytes",     "x_align", "y_align",  NULL};

static uint64_t field(const void *args, unsigned index)
{
    const struct iq_rope *a = args;
    const struct iq_rope_part *q = &a->part[0];
    uint64_t n = (uint64_t)q->heads * a->dim;
    const uint64_t value[] = {a->dim,
                              a->rotary,
                              a->interleaved,
                              q->heads,
                              a->part[1].heads,
                              a->rows,
                              q->ldx,
                              q->ldy,
                              iq__extent(a->rows, q->ldx, n),
                              iq__extent(a->rows, q->ldy, n),
                              iq__align_of(q->x),
                              iq__align_of(q->y)};
    return value[index];
}

const struct iq_kind iq__kind_rope = {.name = "rope",
                                      .args_size = sizeof(struct iq_rope),
                                      .rows = rows,
                                      .row_bytes = row_bytes,
                                      .get = get,
                                      .put = put,
                                      .runs = runs,
                                      .elem = sizeof(float),
                                      .fields = fields,
                                      .field = field};
