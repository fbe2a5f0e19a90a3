/* Vector primitives in GCC vector extensions only: any target. Where it has no fma instruction (plain x86-64),
 * v_fma works in double (fma_portable.h). See vec_avx512.h. */
#ifndef IQ_CPU_VEC_H
#define IQ_CPU_VEC_H

#include <stddef.h>
#include <stdint.h>

#define VL 4
#define IQ_ISA scalar
#define IQ_ISA_NAME "scalar"
typedef float vf __attribute__((vector_size(4 * VL)));
typedef uint32_t vi __attribute__((vector_size(4 * VL)));
typedef float vfu __attribute__((vector_size(4 * VL), aligned(4), may_alias));
typedef uint32_t viu __attribute__((vector_size(4 * VL), aligned(4), may_alias));
#define V_FN static inline __attribute__((always_inline))
V_FN vf v_load(const float *p) { return *(const vfu *)p; }
V_FN void v_store(float *p, vf v) { *(vfu *)p = v; }
V_FN vf v_set1(float f) { return f - (vf){0}; } /* f - 0 is f, also for -0 */
#if defined __FMA__ || defined __aarch64__
V_FN vf v_fma(vf a, vf b, vf c)
{
    vf o;
    for (int l = 0; l < VL; l++) o[l] = __builtin_fmaf(a[l], b[l], c[l]);
    return o;
}
#else
#include "kernels/cpu/fma_portable.h"
#endif
V_FN vf v_add(vf a, vf b) { return a + b; }
V_FN vf v_sub(vf a, vf b) { return a - b; }
V_FN vf v_mul(vf a, vf b) { return a * b; }
V_FN vf v_div(vf a, vf b) { return a / b; }
V_FN vi v_loadi(const void *p) { return *(const viu *)p; }

#endif
