#include "kernels/cpu/features.h"
#include "kernels/cpu/vec_avx2.h"
#include "kernels/op.h"
#include "kernels/tables.h"

#define v_half(p)           _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p)))
#define v_i8(p)             _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(p))))
#define v_bf16(d, odd)      ((vf)((odd) ? (d)&0xffff0000u : (d) << 16))
#define v_nibble(d, i)      _mm256_cvtepi32_ps((__m256i)((d) >> 4 * (i)&15u))
#define v_nibble8(d, i)     v_sub(v_nibble(d, i), v_set1(8.0f))
#define v_hold(d)           (void)(d)
#define v_fma_from(a, p, c) v_fma(a, v_set1(*(p)), c)

/* 16 registers. */
#define ALONE_V(F, R)   ((R) == 1 ? 4 : 2)
#define HALF_V(F, R)    ALONE_V(F, R)
#define LEADING_V(F, R) ALONE_V(F, R)
#define FOLLOWING_V(R)  ALONE_V(IQ_F32, R)
#define EACH_HALF(X)
#define EACH_MANY(X)  X(1) X(2) X(3) X(4) X(5) X(6)
#define EACH_ALONE(X) EACH_MANY(X)
#define ROWS_ALONE                                                                                           \
    {                                                                                                        \
        6, 6, 6, 4, 4, 4                                                                                     \
    }
#define ROWS_MANY 6
#include "kernels/cpu/product_kernels.h"

VARIANTS(iq_cpu_has_avx2);
