#include "kernels/cpu/vec_avx512.h"

#define v_half(p)      _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(p)))
#define v_round_f16(v) _mm512_cvtph_ps(_mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))

#define PIECE_V                2 /* vectors of outputs side by side */
#define t_set1(i)              ((vs)_mm512_set1_epi32(i))
#define t_max(a, b)            ((vs)_mm512_max_epi32((__m512i)(a), (__m512i)(b)))
#define t_add16(a, b)          ((vs)_mm512_add_epi16((__m512i)(a), (__m512i)(b)))
#define t_max16(a, b)          ((vs)_mm512_max_epi16((__m512i)(a), (__m512i)(b)))
#define t_truncate(v)          ((vs)_mm512_cvttps_epi32(v))
#define t_negative(v)          ((uint32_t)_mm512_movepi32_mask((__m512i)(v)))
#define t_toward_zero(v)       _mm512_cvt_roundepi32_ps((__m512i)(v), _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)
#define t_where(mask, i, e)    ((vs)_mm512_mask_mov_epi32((__m512i)(e), mask, _mm512_set1_epi32(i)))
#define t_if_equal(x, y, i, e) t_where(_mm512_cmpeq_epi32_mask((__m512i)(x), _mm512_set1_epi32(y)), i, e)
#define t_if_nan(v, i, e)      t_where(_mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), i, e)
#include "kernels/tensor_core/expand.h"
#include "kernels/tensor_core/tile_kernels.h"

const struct iq__tc_form iq__tc_avx512 = {row, weights, tile};
