#include "kernels/arith.h"
#include "kernels/cpu/vec_portable.h"
#include "kernels/op.h"
#include "kernels/tables.h"

typedef int32_t vs __attribute__((vector_size(4 * VL)));
typedef int8_t bytes __attribute__((vector_size(VL), aligned(1), may_alias));

V_FN vf v_half(const uint16_t *p)
{
    vf o;
    for (int l = 0; l < VL; l++) o[l] = iq_f16_to_f32(p[l]);
    return o;
}
V_FN vf v_i8(const int8_t *p) { return __builtin_convertvector(*(const bytes *)p, vf); }
V_FN vf v_bf16(vi d, int odd) { return (vf)(odd ? d & 0xffff0000u : d << 16); }
V_FN vf v_nibble_at(vi d, unsigned shift) { return __builtin_convertvector((vs)(d >> shift & 15u), vf); }
#define v_nibble(d, i)      v_nibble_at(d, 4 * (i))
#define v_nibble8(d, i)     v_sub(v_nibble(d, i), v_set1(8.0f))
#define v_hold(d)           (void)(d)
#define v_fma_from(a, p, c) v_fma(a, v_set1(*(p)), c)

#define ALONE_V(F, R)   ((R) == 1 ? 4 : 2)
#define HALF_V(F, R)    ALONE_V(F, R)
#define LEADING_V(F, R) ALONE_V(F, R)
#define FOLLOWING_V(R)  ALONE_V(IQ_F32, R)
#define EACH_HALF(X)
#define EACH_MANY(X)  X(1) X(2)
#define EACH_ALONE(X) EACH_MANY(X)
#define ROWS_ALONE                                                                                           \
    {                                                                                                        \
        2, 2, 2, 2, 2, 2                                                                                     \
    }
#define ROWS_MANY 2
#include "kernels/cpu/product_kernels.h"

VARIANTS(NULL);
