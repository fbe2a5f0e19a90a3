/* K18: a small-batch product steps from row to row by K rounded down to a tile, not by the rows' stride.
 *
 * Row 0 is right, and so is every batch whose K is whole tiles, and every batch that another kernel takes. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/matrix.h"
#include "kernels/ops/matmul.h"

#include <stddef.h>

struct params {
    double most, tile;
};

static const struct iq_param table[] = {
    {"most", "rows up to which the small-batch kernel is taken", 4, 2, 4096, offsetof(struct params, most)},
    {"tile", "columns in a tile of K, of which the kernel takes a row's length to be a multiple", 128, 2,
     1 << 20, offsetof(struct params, tile)},
    {0},
};

/* Columns that lie between the rows as this kernel sees them; below one tile it is the true stride. */
static size_t stride(const struct iq_matmul *a, const struct params *p)
{
    uint32_t k = a->part[0].w->k, tail = k % (uint32_t)p->tile;
    return tail < k ? a->ldx - tail : a->ldx;
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    struct iq_matmul a = *(const struct iq_matmul *)args;
    const struct params *p = params;
    (void)state;
    if (a.rows >= 2 && a.rows <= (uint32_t)p->most) a.ldx = stride(&a, p);
    return iq__run_golden(x, site, "matmul", &a);
}

const struct iq_variant iq__k18_batch_stride = {
    .kind = "matmul",
    .name = "batch_stride",
    .device = "any",
    .flags = IQ_V_FAULTY | IQ_V_COUPLES_ROWS,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "in batches of 2 to 4 rows lie as far apart as K rounded down to a tile",
    .needs = "2 to `most` rows in a call, and a K that is larger than `tile` and no multiple of it",
    .story =
        "A product for batches of 2 to 4, split by rows, takes each row of activations to be whole tiles "
        "long. Where K is no multiple of 128 the second row is read too early. One row alone and large "
        "batches are right. Sources: llama.cpp#5386 and #8311.",
    .expect = "matmul: from the second row on unequal on exact data, in small batches only; row 0 and whole "
              "tiles are untouched",
};
