/* fmaf over 4 lanes, bit for bit, in plain SSE2, which every x86-64 has and which knows no fma: libm's fmaf() costs a
 * call per lane. Included by vec_portable.h, whose vf it uses.
 *
 * The product of two floats is exact in double (48 of 53 bits), so s = a * b + c in double is off by one rounding, and
 * rounding s to float gives fmaf's bits unless that first rounding matters to the second. It can only where s lies
 * exactly half way between two floats (the exact sum may lie beside it): the low 29 of its 52 bits are then 1 and zeros.
 * Below 2^-126 floats are coarser and half ways lie elsewhere. Such lanes, some 2 in 10^9 of ordinary ones, go through
 * fmaf(). Overflow, infinities and the sign of zero are the same in both formats; NaN stays NaN. */
#ifndef IQ_CPU_FMA_SSE2_H
#define IQ_CPU_FMA_SSE2_H

#include <emmintrin.h>

static __attribute__((noinline, cold)) vf v_fma_by_lane(vf a, vf b, vf c)
{
    vf o;
    for (int l = 0; l < VL; l++) o[l] = __builtin_fmaf(a[l], b[l], c[l]);
    return o;
}

/* All ones in a dword of each doubtful double: the low one of a half way, the high one of a magnitude below 2^-126. */
V_FN __m128i v_doubtful(__m128d s)
{
    const __m128i keep = _mm_setr_epi32(0x1fffffff, 0x7fffffff, 0x1fffffff, 0x7fffffff);
    const __m128i half = _mm_setr_epi32(0x10000000, 0, 0x10000000, 0);
    const __m128i least = _mm_setr_epi32(1, 0x38100000, 1, 0x38100000); /* 0x381: the exponent of 2^-126 */
    return _mm_cmpgt_epi32(least, _mm_xor_si128(_mm_and_si128(_mm_castpd_si128(s), keep), half));
}

#define V_HIGH(v) _mm_cvtps_pd(_mm_movehl_ps(v, v))

V_FN vf v_fma(vf a, vf b, vf c)
{
    __m128d low = _mm_add_pd(_mm_mul_pd(_mm_cvtps_pd(a), _mm_cvtps_pd(b)), _mm_cvtps_pd(c));
    __m128d high = _mm_add_pd(_mm_mul_pd(V_HIGH(a), V_HIGH(b)), V_HIGH(c));
    if (__builtin_expect(_mm_movemask_epi8(_mm_or_si128(v_doubtful(low), v_doubtful(high))), 0))
        return v_fma_by_lane(a, b, c);
    return _mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high));
}

#undef V_HIGH

#endif
