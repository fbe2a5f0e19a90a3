/* Comparisons of vectors, after one of the vec_*.h: lane by lane the greater, `acc` where v is NaN
 * (v_raise); a mask of the lanes of v that are at least `bound` (v_reach; NaN never is). */
#ifndef IQ_CPU_VEC_COMPARE_H
#define IQ_CPU_VEC_COMPARE_H

#if VL == 16
#define v_raise(v, acc)   _mm512_max_ps(v, acc)
#define v_reach(v, bound) _mm512_cmp_ps_mask(v, bound, _CMP_GE_OQ)
#elif VL == 8
#define v_raise(v, acc)   _mm256_max_ps(v, acc)
#define v_reach(v, bound) _mm256_movemask_ps(_mm256_cmp_ps(v, bound, _CMP_GE_OQ))
#else
static inline vf v_raise(vf v, vf acc)
{
    vi more = (vi)(v > acc);
    return (vf)(((vi)v & more) | ((vi)acc & ~more));
}
static inline uint32_t v_reach(vf v, vf bound)
{
    uint32_t mask = 0;
    for (int l = 0; l < VL; l++) mask |= (uint32_t)(v[l] >= bound[l]) << l;
    return mask;
}
#endif

#endif
