/* K20: one seed for all rows. The sampler's generator is made once a batch, from the first row's seed, so that the rows of a
 * batch draw alike at like positions, and a request's answer depends on who sits in the first row. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/ops/sampling.h"

#include <stdlib.h>

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    struct iq_sample a = *(const struct iq_sample *)args;
    uint64_t *seed = malloc((a.rows + 1) * sizeof *seed);
    (void)params, (void)state;
    if (!seed) return IQ_MEMORY;
    for (uint32_t r = 0; r < a.rows; r++) seed[r] = a.seed[0];
    a.seed = seed;
    int status = iq__run_golden(x, site, "sample", &a);
    free(seed);
    return status;
}

const struct iq_variant iq__k20_shared_seed = {
    .kind = "sample",
    .name = "shared_seed",
    .device = "cpu",
    .flags = IQ_V_FAULTY | IQ_V_COUPLES_ROWS,
    .run = run,
    .what = "all rows of a batch draw with the first row's seed",
    .needs = "temperatures above 0, and requests of different seeds in one step",
    .story =
        "A batch's random generator is seeded once, from the request in the first row, instead of row by "
        "row: a request with a seed of its own no longer repeats, and identical prompts side by side get "
        "identical answers. Per-request generators of serving engines have lost seeds in this way when "
        "the sampler was batched; found by the invariant that a row does not depend on other rows.",
    .expect = "sample: a row's token depends on the first row's seed; the first row is golden's",
};
