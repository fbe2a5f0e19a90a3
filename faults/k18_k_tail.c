/* K18: the tail of K is dropped. A kernel that walks K in whole tiles stops at the last whole one; the
 * columns behind it never enter the sum. Right wherever K is a multiple of the tile. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/matrix.h"
#include "kernels/ops/matmul.h"

#include <stddef.h>

struct params {
    double tile, drop;
};

static const struct iq_param table[] = {
    {"tile", "columns in a tile of K; a shorter tail is dropped", 128, 2, 1 << 20,
     offsetof(struct params, tile)},
    {"drop", "columns dropped where there is no tail; 0: none, and nothing is wrong", 0, 0, 1 << 20,
     offsetof(struct params, drop)},
    {0},
};

/* Columns that are summed. Below one tile these kernels take another path, and it is right. */
static uint32_t kept(const struct iq_matrix *w, const struct params *p)
{
    uint32_t tile = (uint32_t)p->tile, tail = w->k % tile;
    if (!tail) tail = (uint32_t)p->drop;
    uint32_t left = tail < w->k ? w->k - tail : 0;
    left -= left % (uint32_t)iq_format_info((enum iq_format)w->format)->elements;
    return left ? left : w->k;
}

/* The packed panels keep their stride: a view with fewer columns is all it takes. */
static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    struct iq_matmul a = *(const struct iq_matmul *)args;
    struct iq_matrix view[IQ_MATMUL_PARTS];
    (void)state;
    for (uint32_t i = 0; i < a.parts; i++) {
        view[i] = *a.part[i].w;
        view[i].k = kept(&view[i], params);
        a.part[i].w = &view[i];
    }
    return iq__run_golden(x, site, "matmul", &a);
}

const struct iq_variant iq__k18_k_tail = {
    .kind = "matmul",
    .name = "k_tail",
    .device = "any",
    .flags = IQ_V_FAULTY | IQ_V_ROW_LOCAL,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "the columns past the last whole tile of K are dropped",
    .needs = "a K that is larger than `tile` and no multiple of it; or a `drop` above 0",
    .story = "A small-batch or split-K product covers K in whole tiles and leaves the tail out: a small "
             "error, only at certain shapes. Sources: llama.cpp#5386 and #8311 (K not a multiple of 128), "
             "facebookexperimental/triton#2767 (K tail dropped).",
    .expect =
        "matmul: the result misses the last columns' terms: unequal on exact data, far outside any rounding; "
        "where K is whole tiles nothing changes",
};
