#include "kernels/ops/embed.h"
#include "kernels/matrix.h"
#include "kernels/op.h"
#include "kernels/tables.h"

#include <string.h>

static uint32_t rows(const void *args) { return ((const struct iq_embed *)args)->rows; }

static size_t row_bytes(const void *args, unsigned point)
{
    const struct iq_embed *e = args;
    return point == 0 ? e->table->k * sizeof *e->y : 0;
}

static const void *get(const void *args, unsigned point, uint32_t r, void *scratch)
{
    (void)point, (void)scratch;
    const struct iq_embed *e = args;
    return e->y + r * e->ldy;
}

static void put(const void *args, unsigned point, uint32_t r, const void *bytes)
{
    (void)point;
    const struct iq_embed *e = args;
    memcpy(e->y + r * e->ldy, bytes, e->table->k * sizeof *e->y);
}

static const char *const fields[] = {"rows", "hidden", "vocab", "format", "ldy", NULL};

static uint64_t field(const void *args, unsigned index)
{
    const struct iq_embed *e = args;
    const uint64_t value[] = {e->rows, e->table->k, e->table->n, e->table->format, e->ldy};
    return value[index];
}

const struct iq_kind iq__kind_embed = {.name = "embed",
                                       .args_size = sizeof(struct iq_embed),
                                       .rows = rows,
                                       .row_bytes = row_bytes,
                                       .get = get,
                                       .put = put,
                                       .elem = sizeof(float),
                                       .fields = fields,
                                       .field = field};
