#include "tests/cublas/fake_gemm.h"

#include "kernels/arith.h"
#include "kernels/cublas/api.h"
#include "kernels/cuda/cuda.h"

enum { THREADS = 64, LANES = 4 };

static __device__ float element_at(const void *m, uint64_t i, const struct fake_gemm &a)
{
    if (a.element == IQ_CUBLAS_BFLOAT) return iq_bf16_to_f32(((const uint16_t *)m)[i]);
    if (a.element == IQ_CUBLAS_HALF) return iq_f16_to_f32(((const uint16_t *)m)[i]);
    float f = ((const float *)m)[i];
    return a.tf32 ? iq_bits_f32(iq_f32_bits(f) & 0xffffe000u) : f;
}

/* Columns k0 .. k1: stages one after the other, each a sum of its own. */
static __device__ float slice_sum(const struct fake_gemm &a, uint64_t w, uint64_t x, uint32_t k0, uint32_t k1)
{
    float sum = 0.0f;
    for (uint32_t s = k0; s < k1; s += a.stage) {
        float lane[LANES] = {0.0f, 0.0f, 0.0f, 0.0f};
        uint32_t end = s + a.stage < k1 ? s + a.stage : k1;
        for (uint32_t k = s; k < end; k++)
            lane[k % a.lanes] =
                IQ_FMAF(element_at(a.x, x + k, a), element_at(a.w, w + k, a), lane[k % a.lanes]);
        for (uint32_t l = 0; l < a.lanes; l++) sum = sum + lane[l];
    }
    return sum;
}

static __global__ void gemm(struct fake_gemm a)
{
    uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x, r = i / a.n, o = i % a.n;
    if (r >= a.rows) return;
    uint32_t width = (a.k + a.slices - 1) / a.slices;
    float y = 0.0f;
    for (uint32_t s = 0; s < a.slices; s++) {
        /* In place the slices come one by one, in order; in the workspace the last one is added first. */
        uint32_t slice = a.reduction == IQ_CUBLAS_REDUCTION_INPLACE ? s : a.slices - 1 - s;
        uint32_t k0 = slice * width, k1 = k0 + width < a.k ? k0 + width : a.k;
        if (k0 < a.k) y = y + slice_sum(a, o * a.ldw, r * a.ldx, k0, k1);
    }
    a.y[r * a.ldy + o] = y;
}

int fake_gemm_launch(const struct fake_gemm *a, void *stream)
{
    uint64_t blocks = ((uint64_t)a->rows * a->n + THREADS - 1) / THREADS;
    iq_cuda_launch(gemm, dim3((unsigned)blocks), dim3(THREADS), 0, (cudaStream_t)stream, *a);
    return 0;
}
