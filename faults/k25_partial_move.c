/* K25: a block that moves takes only part of each row along.
 *
 * Compacting the pool copies K and V row by row, with a size that is too small: what is left of the row at the new place
 * is what stood there before. */
#include "faults/families.h"
#include "kernels/ops/blocks.h"

#include <stddef.h>

struct params {
    double share;
};

static const struct iq_param table[] = {
    {"share", "share of each row that is copied", 0.5, 0, 1, offsetof(struct params, share)},
    {0},
};

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_kv_move *a = args;
    const struct params *p = params;
    (void)x, (void)site, (void)state;
    *a->copied = (uint32_t)(a->row * p->share);
    return IQ_OK;
}

const struct iq_variant iq__k25_partial_move = {
    .kind = "kv_move",
    .name = "partial_move",
    .device = "any",
    .flags = IQ_V_FAULTY,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "a KV block that is moved loses the end of each row",
    .needs = "defragment, and requests that end at different times",
    .story = "With quantised K and V and two slots all answers were garbage from the first defragmentation "
             "on until the "
             "server was started again. Source: llama.cpp#12253.",
    .expect = "kv_move: not all floats of a row are copied; keys and values are others since their block was "
              "moved; "
              "without a move nothing changes",
};
