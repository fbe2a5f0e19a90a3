/* References of add, swiglu and temper. */
#include "kernels/ops/vector.h"
#include "kernels/arith.h"
#include "kernels/op.h"

static int add(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_add *a = args;
    (void)x, (void)site, (void)params, (void)state;
    for (uint32_t r = 0; r < a->rows; r++)
        for (uint32_t i = 0; i < a->n; i++)
            a->y[r * a->ldy + i] = iq_act_round(a->a[r * a->lda + i] + a->b[r * a->ldb + i], a->act);
    return IQ_OK;
}

static int swiglu(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                  void *state)
{
    const struct iq_swiglu *a = args;
    (void)x, (void)site, (void)params, (void)state;
    for (uint32_t r = 0; r < a->rows; r++)
        for (uint32_t i = 0; i < a->n; i++) {
            float gate = a->gate[r * a->ldg + i], silu = gate / (1.0f + iq_exp(-gate));
            a->y[r * a->ldy + i] = iq_act_round(silu * a->up[r * a->ldu + i], a->act);
        }
    return IQ_OK;
}

static int temper(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                  void *state)
{
    const struct iq_temper *a = args;
    (void)x, (void)site, (void)params, (void)state;
    for (uint32_t r = 0; r < a->rows; r++) {
        float t = a->temperature[r] == 0.0f ? 1.0f : a->temperature[r]; /* x / 1 is x */
        for (uint32_t i = 0; i < a->n; i++) a->y[r * a->ldy + i] = iq_canonical(a->x[r * a->ldx + i] / t);
    }
    return IQ_OK;
}

enum { FLAGS = IQ_V_REFERENCE | IQ_V_GOLDEN };

const struct iq_variant iq__add_reference = {
    .kind = "add", .name = "reference", .device = "cpu", .flags = FLAGS, .run = add};
const struct iq_variant iq__swiglu_reference = {
    .kind = "swiglu", .name = "reference", .device = "cpu", .flags = FLAGS, .run = swiglu};
const struct iq_variant iq__temper_reference = {
    .kind = "temper", .name = "reference", .device = "cpu", .flags = FLAGS, .run = temper};
