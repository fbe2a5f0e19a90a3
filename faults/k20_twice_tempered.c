/* K20: the temperature is applied twice: once by the op that is there for it, once more by the sampler's own kernel. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/arith.h"
#include "kernels/ops/vector.h"

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_temper *a = args;
    (void)params, (void)state;
    IQ_TRY(iq__run_golden(x, site, "temper", args));
    for (uint32_t r = 0; r < a->rows; r++) {
        float t = a->temperature[r];
        for (uint32_t i = 0; i < a->n && t != 0; i++)
            a->y[r * a->ldy + i] = iq_canonical(a->y[r * a->ldy + i] / t);
    }
    return IQ_OK;
}

const struct iq_variant iq__k20_twice_tempered = {
    .kind = "temper",
    .name = "twice_tempered",
    .device = "cpu",
    .flags = IQ_V_FAULTY,
    .run = run,
    .what = "the temperature is applied twice",
    .needs = "a request whose temperature is neither 0 nor 1",
    .story =
        "A sampling kernel that divides by the temperature itself is put behind a pipeline that has done "
        "so: 0.5 acts as 0.25, 1.5 as 2.25, while 0 and 1 are right, so that greedy tests pass. A class "
        "of bug of every engine that moves its sampler into another library.",
    .expect = "temper: the logits are divided by the square of the temperature; where it is 0 or 1 nothing "
              "changes",
};
