/* The portable form: every block by iq_tc_block. */
#include "kernels/cpu/vec_portable.h"
#include "kernels/tensor_core/tile.h"

#include "kernels/arith.h"

V_FN vf v_half(const uint16_t *p)
{
    vf o;
    for (int l = 0; l < VL; l++) o[l] = iq_f16_to_f32(p[l]);
    return o;
}

V_FN vf v_round_f16(vf v)
{
    vf o;
    for (int l = 0; l < VL; l++) o[l] = iq_f16_to_f32(iq_f32_to_f16(v[l]));
    return o;
}

#define CHOOSE(mask, a, b)     (((mask) & (a)) | (~(mask) & (b)))
#define t_set1(i)              ((vs){0} + (i))
#define t_max(a, b)            CHOOSE((a) > (b), a, b)
#define t_if_equal(x, y, i, e) CHOOSE((x) == (y), t_set1(i), e)
#define t_if_nan(v, i, e)      CHOOSE((v) != (v), t_set1(i), (vs)(e))
#include "kernels/tensor_core/expand.h"

static void tile(const struct iq__tc_tile *t)
{
    for (uint32_t r = 0; r < t->rows; r++)
        for (uint32_t o = t->first; o < t->first + IQ__TC_PIECE; o++) {
            float *sum = &t->sum[(size_t)r * IQ_PANEL + o];
            for (uint32_t k = 0; k < t->columns; k += t->profile->products)
                *sum = iq_bits_f32(iq__tc_exact(t, r, k, o, iq_f32_bits(*sum)));
        }
}

const struct iq__tc_form iq__tc_scalar = {row, weights, tile};
