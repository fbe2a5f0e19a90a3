/* Vector primitives, AVX2 with FMA and F16C: 8 float lanes, 16 registers. See vec_avx512.h. */
#ifndef IQ_CPU_VEC_H
#define IQ_CPU_VEC_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define VL          8
#define IQ_ISA      avx2
#define IQ_ISA_NAME "avx2"
typedef __m256 vf;
typedef uint32_t vi __attribute__((vector_size(32)));
#define v_load(p)      _mm256_loadu_ps(p)
#define v_store(p, v)  _mm256_storeu_ps(p, v)
#define v_set1(f)      _mm256_set1_ps(f)
#define v_fma(a, b, c) _mm256_fmadd_ps(a, b, c)
#define v_add(a, b)    _mm256_add_ps(a, b)
#define v_sub(a, b)    _mm256_sub_ps(a, b)
#define v_mul(a, b)    _mm256_mul_ps(a, b)
#define v_div(a, b)    _mm256_div_ps(a, b)
#define v_loadi(p)     ((vi)_mm256_loadu_si256((const __m256i *)(p)))

/* Keeps a loaded vector in its register: the compiler would rather load it again for each use. */
#define v_pin(v) __asm__("" : "+v"(v))

#endif
