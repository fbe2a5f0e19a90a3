/* K15: another order of the sum over K. A benign control: the same terms, added in another tree.
 *
 * Engines choose tiles and splits by shape, so that a batch of 9 and a batch of 10 add in different
 * orders. Here K is cut into other units than the contract's; chains get shorter or longer and the tree
 * changes. Bits differ, the result is as good: a comparator that calls this a regression is wrong. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/matrix.h"
#include "kernels/ops/matmul.h"

#include <stddef.h>

enum { WHOLE_BLOCKS = 32 }; /* columns: a unit is whole blocks of every weight format */

struct params {
    double unit;
};

static const struct iq_param table[] = {
    {"unit",
     "columns of K in a partial sum (rounded down to a multiple of 32); the contract's is 128 or a KV group",
     64, WHOLE_BLOCKS, 1 << 20, offsetof(struct params, unit)},
    {0},
};

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    struct iq_matmul a = *(const struct iq_matmul *)args;
    const struct params *p = params;
    struct iq_matrix view[IQ_MATMUL_PARTS];
    (void)state;
    for (uint32_t i = 0; i < a.parts; i++) {
        view[i] = *a.part[i].w;
        view[i].unit = (uint32_t)p->unit / WHOLE_BLOCKS * WHOLE_BLOCKS;
        a.part[i].w = &view[i];
    }
    return iq__run_golden(x, site, "matmul", &a);
}

const struct iq_variant iq__k15_reduction_order = {
    .kind = "matmul",
    .name = "reduction_order",
    .device = "any",
    .flags = IQ_V_BENIGN | IQ_V_ROW_LOCAL,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "another order of the same sum: a benign control",
    .needs = "products whose K is larger than `unit`, and a `unit` that is not the contract's",
    .story = "Tile and split of a sum follow the shape of the batch, so a neighbour's prompt that grows by a "
             "token changes a victim's bits. Sources: vllm#51902 (tile choice at 9 to 10 tokens), vllm#48271 "
             "(block size of a norm by number of tokens). Not a fault.",
    .expect = "matmul: other bits within the rounding bound of any order; equal bits on exact data; at most "
              "near ties flip",
};
