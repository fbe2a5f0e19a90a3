/* Vector primitives in GCC vector extensions only: any target. Plain x86-64 has no fma instruction: there v_fma
 * works in double (fma_sse2.h). See vec_avx512.h. */
#ifndef IQ_CPU_VEC_H
#define IQ_CPU_VEC_H

#include <stddef.h>
#include <stdint.h>

#define VL          4
#define IQ_ISA      scalar
#define IQ_ISA_NAME "scalar"
typedef float vf __attribute__((vector_size(4 * VL)));
typedef uint32_t vi __attribute__((vector_size(4 * VL)));
typedef float vfu __attribute__((vector_size(4 * VL), aligned(4), may_alias));
typedef uint32_t viu __attribute__((vector_size(4 * VL), aligned(4), may_alias));
#define V_FN static inline __attribute__((always_inline))
V_FN vf v_load(const float *p) { return *(const vfu *)p; }
V_FN void v_store(float *p, vf v) { *(vfu *)p = v; }
V_FN vf v_set1(float f) { return f - (vf){0}; } /* f - 0 is f, also for -0 */
#if defined __SSE2__ && !defined __FMA__
#include "kernels/cpu/fma_sse2.h"
#else
V_FN vf v_fma(vf a, vf b, vf c)
{
    vf o;
    for (int l = 0; l < VL; l++) o[l] = __builtin_fmaf(a[l], b[l], c[l]);
    return o;
}
#endif
V_FN vf v_add(vf a, vf b) { return a + b; }
V_FN vf v_sub(vf a, vf b) { return a - b; }
V_FN vf v_mul(vf a, vf b) { return a * b; }
V_FN vf v_div(vf a, vf b) { return a / b; }
V_FN vi v_loadi(const void *p) { return *(const viu *)p; }
#define v_pin(v) (void)(v) /* elsewhere: see vec_avx512.h */

#endif
