/* exp, maximum, rounding of activations and part loads in vectors: bit for bit what kernels/arith.h does to each lane.
 * Include it after one of the vec_*.h. A vd holds half a vf's lanes in double; the steps of v__exp are those of iq__exp
 * in the same order. */
#ifndef IQ_CPU_VEC_MATH_H
#define IQ_CPU_VEC_MATH_H

#include "kernels/arith.h"

#include <string.h>

#ifndef V_FN
#define V_FN static inline __attribute__((always_inline, unused))
#endif

#if VL == 16
typedef __m512d vd;
#define vd_set1(d)       _mm512_set1_pd(d)
#define vd_fma(a, b, c)  _mm512_fmadd_pd(a, b, c)
#define vd_add(a, b)     _mm512_add_pd(a, b)
#define vd_sub(a, b)     _mm512_sub_pd(a, b)
#define vd_mul(a, b)     _mm512_mul_pd(a, b)
#define vd_pow2(shifted) /* 2^k from magic + k */                                                            \
    _mm512_castsi512_pd(_mm512_add_epi64(_mm512_slli_epi64(_mm512_castpd_si512(shifted), 52),                \
                                         _mm512_set1_epi64(0x3ff0000000000000)))
#define vd_low(v)       _mm512_cvtps_pd(_mm512_castps512_ps256(v))
#define vd_high(v)      _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1))
#define v_from_vd(l, h) _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(l)), _mm512_cvtpd_ps(h), 1)
#define v_min_raw(a, b) _mm512_min_ps(a, b)
#define v_max_raw(a, b) _mm512_max_ps(a, b)
#define v_and(a, b)     _mm512_and_ps(a, b)
/* v where it is a number or test is, canonical NaN where `test` is NaN */
#define v_nan_where(test, v)                                                                                 \
    _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(test, test, _CMP_UNORD_Q), v_set1(iq_nan()))
#define v_round_f16(v) _mm512_cvtph_ps(_mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))
#elif VL == 8
typedef __m256d vd;
#define vd_set1(d)      _mm256_set1_pd(d)
#define vd_fma(a, b, c) _mm256_fmadd_pd(a, b, c)
#define vd_add(a, b)    _mm256_add_pd(a, b)
#define vd_sub(a, b)    _mm256_sub_pd(a, b)
#define vd_mul(a, b)    _mm256_mul_pd(a, b)
#define vd_pow2(shifted)                                                                                     \
    _mm256_castsi256_pd(_mm256_add_epi64(_mm256_slli_epi64(_mm256_castpd_si256(shifted), 52),                \
                                         _mm256_set1_epi64x(0x3ff0000000000000)))
#define vd_low(v)            _mm256_cvtps_pd(_mm256_castps256_ps128(v))
#define vd_high(v)           _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1))
#define v_from_vd(l, h)      _mm256_set_m128(_mm256_cvtpd_ps(h), _mm256_cvtpd_ps(l))
#define v_min_raw(a, b)      _mm256_min_ps(a, b)
#define v_max_raw(a, b)      _mm256_max_ps(a, b)
#define v_round_f16(v)       _mm256_cvtph_ps(_mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))
#define v_and(a, b)          _mm256_and_ps(a, b)
#define v_nan_where(test, v) _mm256_blendv_ps(v, v_set1(iq_nan()), _mm256_cmp_ps(test, test, _CMP_UNORD_Q))
#endif

#if VL > 4
/* |x| <= 708, no NaN. */
V_FN vd v__exp(vd x)
{
    vd magic = vd_set1(IQ_RINT_MAGIC);
    vd shifted = vd_fma(x, vd_set1(IQ_LOG2E), magic), k = vd_sub(shifted, magic);
    vd r = vd_fma(k, vd_set1(-IQ_LN2_LO), vd_fma(k, vd_set1(-IQ_LN2_HI), x));
    vd r2 = vd_mul(r, r), r4 = vd_mul(r2, r2);
    vd q01 = vd_fma(vd_set1(IQ_EXP_Q1), r, vd_set1(IQ_EXP_Q0));
    vd q23 = vd_fma(vd_set1(IQ_EXP_Q3), r, vd_set1(IQ_EXP_Q2));
    vd q45 = vd_fma(vd_set1(IQ_EXP_Q5), r, vd_set1(IQ_EXP_Q4));
    vd q67 = vd_fma(vd_set1(IQ_EXP_Q7), r, vd_set1(IQ_EXP_Q6));
    vd q89 = vd_fma(vd_set1(IQ_EXP_Q9), r, vd_set1(IQ_EXP_Q8));
    vd q = vd_fma(vd_fma(q89, r4, vd_fma(q67, r2, q45)), r4, vd_fma(q23, r2, q01));
    vd tail = vd_fma(r2, vd_fma(r, q, vd_set1(0.5)), r);
    vd p = vd_add(vd_set1(1.0), tail);
    return vd_mul(p, vd_pow2(shifted));
}

/* iq_exp of each lane. */
V_FN vf v_exp(vf x)
{
    vf in = v_min_raw(v_max_raw(x, v_set1(-104.0f)), v_set1(89.0f));
    vd low = v__exp(vd_low(in)), high = v__exp(vd_high(in));
    vf y = v_from_vd(low, high);
    return v_nan_where(x, y);
}

/* iq_max of each lane: the hardware's maximum returns its second operand for two zeros and for NaN. */
V_FN vf v_max(vf a, vf b)
{
    vf m = v_and(v_max_raw(a, b), v_max_raw(b, a));
    return v_nan_where(b, v_nan_where(a, m));
}

/* iq_canonical of each lane. */
V_FN vf v_canonical(vf v) { return v_nan_where(v, v); }

#else /* portable: lane by lane */

#define V__EACH(expr)                                                                                        \
    vf o;                                                                                                    \
    for (int l = 0; l < VL; l++) o[l] = (expr);                                                              \
    return o
V_FN vf v_exp(vf x) { V__EACH(iq_exp(x[l])); }
V_FN vf v_max(vf a, vf b) { V__EACH(iq_max(a[l], b[l])); }
V_FN vf v_canonical(vf v) { V__EACH(iq_canonical(v[l])); }

#endif

/* iq_act_round of each lane. `act` should be a constant where this is inlined into a loop. */
V_FN vf v_act_round(vf v, uint32_t act)
{
#if VL > 4
    if (act == IQ_ACT_BF16) {
        vi u = (vi)v;
        return v_nan_where(v, (vf)((u + 0x7fffu + (u >> 16 & 1u)) & 0xffff0000u));
    }
    return v_canonical(act == IQ_ACT_F16 ? v_round_f16(v) : v);
#else
    V__EACH(iq_act_round(v[l], act));
#endif
}

/* The first n < VL lanes; the others are 0, and not stored. For element-wise work only. */
V_FN vf v_load_part(const float *p, size_t n)
{
    float t[VL] = {0};
    memcpy(t, p, n * sizeof *t);
    return v_load(t);
}

V_FN void v_store_part(float *p, vf v, size_t n)
{
    float t[VL];
    v_store(t, v);
    memcpy(p, t, n * sizeof *t);
}

/* Of the 2 VL floats a, b: those at even and at odd places; and back, the lower and the upper half of a0 b0 a1 b1 ... */
#if VL == 16
#define v_even(a, b)    __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define v_odd(a, b)     __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#define v_zip_low(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define v_zip_high(a, b)                                                                                     \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif VL == 8
#define v_even(a, b)     __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define v_odd(a, b)      __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define v_zip_low(a, b)  __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define v_zip_high(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define v_even(a, b)     __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define v_odd(a, b)      __builtin_shufflevector(a, b, 1, 3, 5, 7)
#define v_zip_low(a, b)  __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define v_zip_high(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif

#endif
