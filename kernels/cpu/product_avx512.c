#include "kernels/cpu/features.h"
#include "kernels/cpu/vec_avx512.h"
#include "kernels/op.h"
#include "kernels/tables.h"

#define v_half(p)      _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(p)))
#define v_i8(p)        _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(p))))
#define v_bf16(d, odd) ((vf)((odd) ? (d)&0xffff0000u : (d) << 16))

/* vpermps reads only the low four bits of each index: neither a mask nor a conversion. The last nibble needs no mask
 * either, and its conversion runs on a unit that is idle else. */
#define TABLE(d, i, ...) _mm512_permutexvar_ps((__m512i)((d) >> 4 * (i)), _mm512_setr_ps(__VA_ARGS__))
#define v_nibble(d, i)                                                                                       \
    ((i) == 7 ? _mm512_cvtepi32_ps((__m512i)((d) >> 28))                                                     \
              : TABLE(d, i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
#define v_nibble8(d, i) TABLE(d, i, -8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7)

#define v_hold(d) v_pin(d)

/* The load unit broadcasts an operand of an fma for nothing; a vbroadcastss takes turns with the permutes (2.2 instead of
 * 2.4 cycles for 16 weights of Q4_1, Zen 4). A compiler would make one vbroadcastss of all uses. */
static inline __attribute__((always_inline)) vf v_fma_from(vf a, const float *p, vf c)
{
    __asm__("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(c) : "v"(a), "m"(*p));
    return c;
}

/* 32 registers. 4 vectors of weights keep enough chains going for one row, and share the work of expanding best; where
 * they leave too few registers for scales, or for addresses of stores, 2 are faster (measured on Zen 4). */
#define ALONE_V(F, R)   ((R) == 6 && (F) >= IQ_Q4_0 ? 2 : 4)
#define HALF_V(F, R)    2
#define LEADING_V(F, R) ((R) <= 3 || (F) == IQ_Q8_0 || (F) == IQ_F32 ? 4 : 2)
#define FOLLOWING_V(R)  4
#define EACH_MANY(X)    X(1) X(2) X(3) X(4) X(5) X(6)
#define EACH_HALF(X)    EACH_MANY(X)
#define EACH_ALONE(X)   EACH_MANY(X)
#define ROWS_ALONE                                                                                           \
    {                                                                                                        \
        6, 6, 6, 6, 6, 6                                                                                     \
    }
#define ROWS_MANY 6
#include "kernels/cpu/product_kernels.h"

VARIANTS(iq_cpu_has_avx512);
