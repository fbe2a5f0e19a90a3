/* RMS norm: y = x / sqrt(mean(x^2) + eps) * weight, over `groups` runs of n elements in each row (heads, for q/k norm).
 * Sum of squares by the vector rule (32 strided lanes of fmaf, folded); then r = 1 / sqrtf(sum / n + eps) as a
 * division, an addition, a root and a division; y = (x * r) * weight. */
#ifndef IQ_OPS_RMSNORM_H
#define IQ_OPS_RMSNORM_H

#include <stddef.h>
#include <stdint.h>

struct iq_rmsnorm {
    uint32_t rows, groups, n, act;
    float eps;
    const float *x, *weight; /* x: (rows, groups, n), row stride ldx; weight: (n) */
    float *y;                /* (rows, groups, n), row stride ldy */
    size_t ldx, ldy;
};

#endif
