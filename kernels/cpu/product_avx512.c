#include "kernels/cpu/features.h"
#include "kernels/cpu/vec_avx512.h"
#include "kernels/op.h"
#include "kernels/tables.h"

#define v_half(p) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(p)))
#define v_i8(p) _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(p))))
#define v_bf16(d, odd) ((vf)((odd) ? (d) & 0xffff0000u : (d) << 16))

/* vpermps reads only the low four bits of each index: neither a mask nor a conversion. */
#define NIBBLE_OF(table, d, i) _mm512_permutexvar_ps((__m512i)((d) >> iq__nibble_shift(i)), table)
#define v_nibble(d, i) NIBBLE_OF(_mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), d, i)
#define v_nibble8(d, i) NIBBLE_OF(_mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7), d, i)

/* (d & nibble) | one, as one operation of three inputs: its truth table is 0xea. */
#define OFFSETS
#define TURNED(d, i) ((i) / 2 ? _mm512_ror_epi32((__m512i)(d), 8 * ((i) / 2)) : (__m512i)(d))
#define v_offset(d, i)                                                                                       \
    ((vf)_mm512_ternarylogic_epi32(TURNED(d, i), _mm512_set1_epi32((i) % 2 ? 0xf0000 : 0xf000),              \
                                   _mm512_set1_epi32(0x3f800000), 0xea))

/* 32 registers: at least 4 vectors of weights for few rows (chains must cover latency times pipes), 6 x 4 for many. */
#define ALONE_V(R) ((R) <= 3 ? 4 : 2)
#define HALF_V(R) 2
#define MANY_V(R) 4
#define EACH_HALF(X) X(1) X(2) X(3)
#define EACH_MANY(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define EACH_ALONE(X) EACH_MANY(X)
#define ROWS_ALONE {6, 6, 6, 6, 6, 6}
#define ROWS_MANY 6
#include "kernels/cpu/product_kernels.h"

const struct iq_variant iq__matmul_avx512 = {.kind = "matmul",
                                             .name = IQ_ISA_NAME,
                                             .device = "cpu",
                                             .flags = IQ_V_GOLDEN,
                                             .run = run,
                                             .supports = supports,
                                             .usable = iq_cpu_has_avx512};
