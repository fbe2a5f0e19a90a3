/* Reference of rmsnorm. */
#include "kernels/ops/rmsnorm.h"
#include "kernels/arith.h"
#include "kernels/op.h"

static void norm(const struct iq_rmsnorm *a, const float *x, float *y)
{
    float lane[IQ_VECTOR_LANES] = {0};
    for (uint32_t i = 0; i < a->n; i++)
        lane[i % IQ_VECTOR_LANES] = IQ_FMAF(x[i], x[i], lane[i % IQ_VECTOR_LANES]);
    float r = 1.0f / IQ_SQRTF(iq_fold32(lane) / (float)a->n + a->eps);
    for (uint32_t i = 0; i < a->n; i++) y[i] = iq_act_round((x[i] * r) * a->weight[i], a->act);
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_rmsnorm *a = args;
    (void)x, (void)site, (void)params, (void)state;
    for (uint32_t r = 0; r < a->rows; r++)
        for (uint32_t g = 0; g < a->groups; g++)
            norm(a, a->x + r * a->ldx + (size_t)g * a->n, a->y + r * a->ldy + (size_t)g * a->n);
    return IQ_OK;
}

const struct iq_variant iq__rmsnorm_reference = {.kind = "rmsnorm",
                                                 .name = "reference",
                                                 .device = "cpu",
                                                 .flags = IQ_V_REFERENCE | IQ_V_GOLDEN,
                                                 .run = run};
