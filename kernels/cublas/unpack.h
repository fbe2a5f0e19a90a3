/* Between the engine's matrices and cuBLAS's: kernels that unpack weights, take x, and finish y. Launchers as in
 * kernels/cuda/launch.h: they queue, and pointers are the device's; the iq_matrix itself stays on the host. */
#ifndef IQ_CUBLAS_UNPACK_H
#define IQ_CUBLAS_UNPACK_H

#include "kernels/cublas/element.h"
#include "kernels/cuda/launch.h"
#include "kernels/matrix.h"

/* out[n][k] = value (n, k), rounded to nearest even; rows begin ld elements apart. */
struct iq_cublas_unpack {
    const struct iq_matrix *w;
    void *out;
    uint32_t ld, element;
};

/* out[r][i] = x[r][i], i < k, likewise. */
struct iq_cublas_take {
    const float *x;
    size_t ldx;
    uint32_t rows, k, ld, element;
    void *out;
};

/* y[r][i] = rounded(sum[r][i] + bias[i]): what the op adds to the product. sum: (rows, n), dense. */
struct iq_cublas_finish {
    const float *sum, *bias; /* bias: (n) or NULL */
    float *y;
    size_t ldy;
    uint32_t rows, n, act; /* enum iq_act */
};

#define IQ_CUBLAS_LAUNCHERS(X)                                                                               \
    X(cublas_unpack, iq_cublas_unpack) X(cublas_take, iq_cublas_take) X(cublas_finish, iq_cublas_finish)

#ifdef __cplusplus
extern "C" {
#endif
#define X(name, args)                                                                                        \
    int iq__cuda_##name(const struct args *, iq_cuda_stream);                                                \
    int iq__cuda_shim_##name(const struct args *, iq_cuda_stream);
IQ_CUBLAS_LAUNCHERS(X)
#undef X
#ifdef __cplusplus
}
#endif

#endif
