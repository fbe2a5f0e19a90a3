/* Reference of rope. */
#include "kernels/ops/rope.h"
#include "kernels/arith.h"
#include "kernels/op.h"

static void rotate(const struct iq_rope *a, const float *table, const float *x, float *y)
{
    uint32_t half = a->rotary / 2;
    for (uint32_t i = 0; i < half; i++) {
        uint32_t first = a->interleaved ? 2 * i : i, second = a->interleaved ? 2 * i + 1 : i + half;
        float cosine = table[2 * i], sine = table[2 * i + 1];
        y[first] = iq_act_round(IQ_FMAF(x[first], cosine, -(x[second] * sine)), a->act);
        y[second] = iq_act_round(IQ_FMAF(x[second], cosine, x[first] * sine), a->act);
    }
    for (uint32_t i = a->rotary; i < a->dim; i++) y[i] = iq_act_round(x[i], a->act);
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_rope *a = args;
    (void)x, (void)site, (void)params, (void)state;
    for (int p = 0; p < 2; p++)
        for (uint32_t r = 0; r < a->rows; r++)
            for (uint32_t h = 0; h < a->part[p].heads; h++)
                rotate(a, a->table + (size_t)a->pos[r] * a->rotary,
                       a->part[p].x + r * a->part[p].ldx + (size_t)h * a->dim,
                       a->part[p].y + r * a->part[p].ldy + (size_t)h * a->dim);
    return IQ_OK;
}

const struct iq_variant iq__rope_reference = {
    .kind = "rope", .name = "reference", .device = "cpu", .flags = IQ_V_REFERENCE | IQ_V_GOLDEN, .run = run};
