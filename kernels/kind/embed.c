/* The kind embed: what taps, firing logs and triggers see of it. */
#include "kernels/ops/embed.h"
#include "kernels/kind/rows.h"
#include "kernels/kind/values.h"
#include "kernels/matrix.h"
#include "kernels/op.h"
#include "kernels/tables.h"

static uint32_t rows(const void *args) { return ((const struct iq_embed *)args)->rows; }

static struct iq_run at(const void *args, unsigned point)
{
    const struct iq_embed *e = args;
    return (struct iq_run){e->y, e->ldy, point == 0 ? e->table->k : 0};
}
IQ__FLOAT_ROWS(at)

static const char *const fields[] = {"rows",     "hidden",      "vocab",   "format",  "ldy",
                                     "elements", "table_bytes", "y_bytes", "y_align", NULL};

static uint64_t field(const void *args, unsigned index)
{
    const struct iq_embed *e = args;
    const uint64_t value[] = {e->rows,
                              e->table->k,
                              e->table->n,
                              e->table->format,
                              e->ldy,
                              (uint64_t)e->rows * e->table->k,
                              (uint64_t)e->table->panels * e->table->panel_bytes,
                              iq__extent(e->rows, e->ldy, e->table->k),
                              iq__align_of(e->y)};
    return value[index];
}

const struct iq_kind iq__kind_embed = {.name = "embed",
                                       .args_size = sizeof(struct iq_embed),
                                       .rows = rows,
                                       .row_bytes = row_bytes,
                                       .get = get,
                                       .put = put,
                                       .runs = runs,
                                       .elem = sizeof(float),
                                       .fields = fields,
                                       .field = field};
