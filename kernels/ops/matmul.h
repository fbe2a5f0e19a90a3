/* Matrix products y = x W^T (+ bias) under the contract's sum over K. One call may make several products that share
 * the rows of x (q, k, v; gate, up) or, in a row-parallel projection, one per tree node that the rank owns. */
#ifndef IQ_OPS_MATMUL_H
#define IQ_OPS_MATMUL_H

#include <stddef.h>
#include <stdint.h>

struct iq_matrix; /* packed weights: kernels/matrix.h */

enum { IQ_MATMUL_PARTS = 16 };

struct iq_matmul_part {
    const struct iq_matrix *w; /* (n, k) */
    const float *bias;         /* (n) or NULL; added once, after the sum */
    float *y;                  /* (rows, n), row stride ldy floats */
    size_t ldy;
    uint32_t x_at; /* first column of x that the part reads: x[r][x_at .. x_at + k) */
};

struct iq_matmul {
    uint32_t rows, parts;
    uint32_t act;   /* enum iq_act: rounding of y; partial sums are float32 always */
    const float *x; /* (rows, >= k), row stride ldx floats */
    size_t ldx;
    struct iq_matmul_part part[IQ_MATMUL_PARTS];
};

#endif
