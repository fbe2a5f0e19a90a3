/* K13: one set of position factors where each request should have its own.
 *
 * Long and short factors are two tables. Chosen once per batch, a long request's neighbours are turned by its table;
 * chosen by the position, a request that crosses the threshold reads keys that were turned by the other one. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/ops/rope.h"

#include <stddef.h>
#include <stdlib.h>

struct params {
    double threshold;
};

static const struct iq_param table[] = {
    {"threshold",
     "0: if a request of the long pool is in the batch, all get its table; else: positions from this one "
     "on get it",
     0, 0, 16777216, offsetof(struct params, threshold)},
    {0},
};

static bool supports(const struct iq_site *site, const void *args)
{
    (void)site;
    return ((const struct iq_rope *)args)->tables > 1;
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_rope *a = args;
    const struct params *p = params;
    struct iq_rope wrong = *a;
    bool any = false;
    (void)state;
    uint32_t *pos = malloc(a->rows * sizeof *pos);
    if (!pos) return IQ_MEMORY;
    for (uint32_t r = 0; r < a->rows; r++) any |= a->pos[r] >= a->span;
    for (uint32_t r = 0; r < a->rows; r++) {
        uint32_t at = a->pos[r] % a->span;
        bool lengthened = p->threshold > 0 ? at >= p->threshold : any;
        pos[r] = lengthened ? a->span + at : at;
    }
    wrong.pos = pos;
    int status = iq__run_golden(x, site, "rope", &wrong);
    free(pos);
    return status;
}

const struct iq_variant iq__k13_one_set = {
    .kind = "rope",
    .name = "one_set",
    .device = "cpu",
    .flags = IQ_V_FAULTY | IQ_V_COUPLES_ROWS,
    .run = run,
    .supports = supports,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "one table of position factors for the whole batch, or by the position instead of the request",
    .needs = "two pools (long_factor), requests of both in a batch; or positions beyond the threshold",
    .story =
        "Models with long and short rotary factors: the set was chosen for the batch or by the configured "
        "context, "
        "so that short prompts got long factors, and what crossed the threshold became garbage. Sources: "
        "vllm#10336, #27431; llama.cpp#24823.",
    .expect = "rope: rows of q and k are turned by another table than their request's; with one table "
              "nothing changes",
};
