/* Element-wise ops. add: y = a + b. swiglu: y = (gate / (1 + exp(-gate))) * up. temper: y = x / temperature[r], copied
 * where the temperature is 0 (greedy) or 1. */
#ifndef IQ_OPS_VECTOR_H
#define IQ_OPS_VECTOR_H

#include <stddef.h>
#include <stdint.h>

struct iq_add {
    uint32_t rows, n, act;
    const float *a, *b;
    float *y;
    size_t lda, ldb, ldy; /* row strides, floats */
};

struct iq_swiglu {
    uint32_t rows, n, act;
    const float *gate, *up;
    float *y;
    size_t ldg, ldu, ldy;
};

struct iq_temper {
    uint32_t rows, n;
    const float *x, *temperature; /* (rows, n), (rows) */
    float *y;
    size_t ldx, ldy;
};

#endif
