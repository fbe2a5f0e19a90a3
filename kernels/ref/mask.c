/* Reference of mask. */
#include "kernels/ops/mask.h"
#include "kernels/op.h"

#include <math.h>
#include <string.h>

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_mask *a = args;
    (void)x, (void)site, (void)params, (void)state;
    for (uint32_t r = 0; r < a->rows; r++) {
        float *y = a->y + r * a->ldy;
        memcpy(y, a->x + r * a->ldx, a->n * sizeof *y);
        for (uint32_t t = 0; t < a->n; t++)
            if (!iq_mask_allows(a->allow[r], t)) y[t] = -INFINITY;
    }
    return IQ_OK;
}

const struct iq_variant iq__mask_reference = {
    .kind = "mask", .name = "reference", .device = "cpu", .flags = IQ_V_REFERENCE | IQ_V_GOLDEN, .run = run};
