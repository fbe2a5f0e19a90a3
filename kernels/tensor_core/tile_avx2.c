#include "kernels/cpu/vec_avx2.h"

#define v_half(p)      _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p)))
#define v_round_f16(v) _mm256_cvtph_ps(_mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))

#define PIECE_V                2
#define t_set1(i)              ((vs)_mm256_set1_epi32(i))
#define t_max(a, b)            ((vs)_mm256_max_epi32((__m256i)(a), (__m256i)(b)))
#define t_add16(a, b)          ((vs)_mm256_add_epi16((__m256i)(a), (__m256i)(b)))
#define t_max16(a, b)          ((vs)_mm256_max_epi16((__m256i)(a), (__m256i)(b)))
#define t_truncate(v)          ((vs)_mm256_cvttps_epi32(v))
#define t_negative(v)          ((uint32_t)_mm256_movemask_ps((__m256)(v)))
#define t_where(mask, i, e)    ((vs)_mm256_blendv_epi8((__m256i)(e), _mm256_set1_epi32(i), (__m256i)(mask)))
#define t_if_equal(x, y, i, e) t_where((x) == (y), i, e)
#define t_if_nan(v, i, e)      t_where((v) != (v), i, e)
#include "kernels/tensor_core/expand.h"

/* Without a rounding mode of its own, the conversion rounds to nearest: the bit worth half a unit of the last place, 24
 * below the highest, is cleared first. */
INLINE vf t_toward_zero(vi v)
{
    vi mag = (vi)_mm256_abs_epi32((__m256i)v);
    mag &= ~(mag >> 24);
    return _mm256_cvtepi32_ps(_mm256_sign_epi32((__m256i)mag, (__m256i)v));
}
#include "kernels/tensor_core/tile_kernels.h"

const struct iq__tc_form iq__tc_avx2 = {row, weights, tile};
