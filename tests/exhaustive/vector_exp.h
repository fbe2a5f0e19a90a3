/* v_exp over an array, once per instruction set: each vector_exp_ISA.c includes its vec_*.h and then this. */
#include "kernels/cpu/vec_math.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)

/* n a multiple of 16. */
void JOIN(iq__test_exp_, IQ_ISA)(const float *x, float *y, size_t n);

void JOIN(iq__test_exp_, IQ_ISA)(const float *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i += VL) v_store(y + i, v_exp(v_load(x + i)));
}
