/* A product in a given order of summation. y (rows, n) = x (rows, k) w (n, k)^T, all with their strides in elements. */
#ifndef IQ_TESTS_CUBLAS_FAKE_GEMM_H
#define IQ_TESTS_CUBLAS_FAKE_GEMM_H

#include "kernels/cublas/element.h"

#include <stdint.h>

struct fake_gemm {
    const void *w, *x;
    float *y;
    uint32_t rows, n, k, ldw, ldx, ldy;
    uint32_t element, tf32;
    uint32_t slices, stage, reduction, lanes; /* lanes: accumulators that take columns in turn */
};

#ifdef __cplusplus
extern "C"
#endif
    int
    fake_gemm_launch(const struct fake_gemm *, void *stream);

#endif
