/* The kind rope: what taps, firing logs and triggers see of it. Points: q and k, each (rows, heads, dim). */
#include "kernels/ops/rope.h"
#include "kernels/op.h"

#include <string.h>

static uint32_t rows(const void *args) { return ((const struct iq_rope *)args)->rows; }

static size_t row_bytes(const void *args, unsigned point)
{
    const struct iq_rope *a = args;
    return point < 2 ? (size_t)a->part[point].heads * a->dim * sizeof(float) : 0;
}

static const void *get(const void *args, unsigned point, uint32_t r, void *scratch)
{
    const struct iq_rope *a = args;
    (void)scratch;
    return a->part[point].y + r * a->part[point].ldy;
}

static void put(const void *args, unsigned point, uint32_t r, const void *bytes)
{
    const struct iq_rope *a = args;
    memcpy(a->part[point].y + r * a->part[point].ldy, bytes, row_bytes(args, point));
}

static const char *const fields[] = {"dim", "rotary", "interleaved", "q_heads", "kv_heads", NULL};

static uint64_t field(const void *args, unsigned index)
{
    const struct iq_rope *a = args;
    const uint64_t value[] = {a->dim, a->rotary, a->interleaved, a->part[0].heads, a->part[1].heads};
    return value[index];
}

const struct iq_kind iq__kind_rope = {.name = "rope",
                                      .args_size = sizeof(struct iq_rope),
                                      .rows = rows,
                                      .row_bytes = row_bytes,
                                      .get = get,
                                      .put = put,
                                      .elem = sizeof(float),
                                      .fields = fields,
                                      .field = field};
