/* fmaf over vectors, bit for bit, for targets whose compiler may not use an fma instruction: fmaf() in libm costs a call
 * per lane. Included by vec_portable.h, whose types it uses.
 *
 * The product of two floats is exact in double (48 of 53 bits), so s = a * b + c in double is off by one rounding, and
 * rounding s to float gives fmaf's bits unless that first rounding mattered to the second. It matters only where s lies
 * exactly half way between two floats (the exact sum may lie beside it): the low 29 of its 52 bits are then 1 and zeros.
 * Below 2^-126 floats are coarser and half ways lie elsewhere. Such lanes, some 2 in 10^9 of ordinary ones, go through
 * fmaf(). Overflow, infinities and the sign of zero are the same in both formats; NaN stays NaN. */
#ifndef IQ_CPU_FMA_PORTABLE_H
#define IQ_CPU_FMA_PORTABLE_H

#if defined __SSE2__
#include <emmintrin.h>
#endif

typedef double v_doubles __attribute__((vector_size(8 * VL)));
typedef int32_t v_dwords __attribute__((vector_size(8 * VL))); /* little endian: low, high, low, high ... */
typedef int32_t v_dwords_half __attribute__((vector_size(4 * VL)));

/* Is a sign bit set in any dword? */
V_FN int v_any(v_dwords m)
{
    const v_dwords_half *h = (const v_dwords_half *)&m;
    v_dwords_half both = h[0] | h[1];
#if defined __SSE2__ && VL == 4
    return _mm_movemask_ps((__m128)both);
#else
    int any = 0;
    for (int l = 0; l < VL; l++) any |= both[l] < 0;
    return any;
#endif
}

static __attribute__((noinline, cold)) vf v_fma_by_lane(vf a, vf b, vf c)
{
    vf o;
    for (int l = 0; l < VL; l++) o[l] = __builtin_fmaf(a[l], b[l], c[l]);
    return o;
}

V_FN vf v_fma(vf a, vf b, vf c)
{
    v_doubles s = __builtin_convertvector(a, v_doubles) * __builtin_convertvector(b, v_doubles) +
                  __builtin_convertvector(c, v_doubles);
    /* Low dword: 0 where the low 29 bits are a half way's. High dword: the magnitude's; 0x381 is 2^-126's exponent. */
    const v_dwords keep = {0x1fffffff, 0x7fffffff, 0x1fffffff, 0x7fffffff, 0x1fffffff, 0x7fffffff, 0x1fffffff, 0x7fffffff};
    const v_dwords half = {0x10000000, 0, 0x10000000, 0, 0x10000000, 0, 0x10000000, 0};
    const v_dwords least = {1, 0x38100000, 1, 0x38100000, 1, 0x38100000, 1, 0x38100000};
    v_dwords doubtful = (((v_dwords)s & keep) ^ half) < least;
    if (__builtin_expect(v_any(doubtful), 0)) return v_fma_by_lane(a, b, c);
    return __builtin_convertvector(s, vf);
}

#endif
