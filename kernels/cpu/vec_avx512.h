/* Vector primitives, AVX-512 (F, BW, VL, DQ) with FMA and F16C: 16 float lanes, 32 registers. The three vec_*.h offer
 * the same names; a kernel is written once over them and compiled once per instruction set. */
#ifndef IQ_CPU_VEC_H
#define IQ_CPU_VEC_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define VL          16
#define IQ_ISA      avx512
#define IQ_ISA_NAME "avx512"
typedef __m512 vf;
typedef uint32_t vi __attribute__((vector_size(64)));
#define v_load(p)      _mm512_loadu_ps(p)
#define v_store(p, v)  _mm512_storeu_ps(p, v)
#define v_set1(f)      _mm512_set1_ps(f)
#define v_fma(a, b, c) _mm512_fmadd_ps(a, b, c)
#define v_add(a, b)    _mm512_add_ps(a, b)
#define v_sub(a, b)    _mm512_sub_ps(a, b)
#define v_mul(a, b)    _mm512_mul_ps(a, b)
#define v_div(a, b)    _mm512_div_ps(a, b)
#define v_loadi(p)     ((vi)_mm512_loadu_si512(p))

/* Keeps a loaded vector in its register: the compiler would rather load it again for each use. */
#define v_pin(v) __asm__("" : "+v"(v))

#endif
