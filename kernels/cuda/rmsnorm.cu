/* rmsnorm: a block a run of n elements. The contract's 32 strided lanes are the lanes of one warp; all threads scale. */
#include "kernels/cuda/lanes.h"
#include "kernels/cuda/launchers.h"

enum { SHORT = 512, MANY = 256 }; /* a run of fewer elements gets one warp, others `MANY` threads */

static __global__ void rmsnorm(struct iq_rmsnorm a)
{
    IQ_SHARED(float, scale, 1);
    uint32_t row = blockIdx.x / a.groups, group = blockIdx.x % a.groups;
    const float *x = a.x + row * a.ldx + (size_t)group * a.n;
    float *y = a.y + row * a.ldy + (size_t)group * a.n;
    if (threadIdx.x < IQ_WARP) {
        float sum = 0.0f;
#pragma unroll 8
        for (uint32_t i = threadIdx.x; i < a.n; i += IQ_WARP) sum = IQ_FMAF(x[i], x[i], sum);
        sum = iq_warp_fold(sum);
        if (threadIdx.x == 0) scale[0] = 1.0f / IQ_SQRTF(sum / (float)a.n + a.eps);
    }
    __syncthreads();
    float r = scale[0];
    for (uint32_t i = threadIdx.x; i < a.n; i += blockDim.x)
        y[i] = iq_act_round((x[i] * r) * a.weight[i], a.act);
}

int IQ_CUDA_NAME(rmsnorm)(const struct iq_rmsnorm *a, iq_cuda_stream stream)
{
    unsigned grid;
    IQ_TRY(iq_cuda_grid((uint64_t)a->rows * a->groups, &grid));
    if (grid == 0) return IQ_OK;
    iq_cuda_launch(rmsnorm, dim3(grid), dim3(a->n < SHORT ? IQ_WARP : MANY), 0, (cudaStream_t)stream, *a);
    return IQ_OK;
}
