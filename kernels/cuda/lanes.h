/* The contract's vector rule over the lanes of a warp, and maximum. All 32 lanes take part. */
#ifndef IQ_CUDA_LANES_H
#define IQ_CUDA_LANES_H

#include "kernels/arith.h"
#include "kernels/cuda/cuda.h"

/* iq_fold32: lanes i and i + 16 are added, then 8, 4, 2, 1. The result is right in lane 0. */
__device__ __forceinline__ float iq_warp_fold(float sum)
{
#pragma unroll
    for (int half = IQ_WARP / 2; half; half /= 2) sum = sum + __shfl_down_sync(IQ_ALL_LANES, sum, half);
    return sum;
}

/* iq_max of all lanes, in every lane. */
__device__ __forceinline__ float iq_warp_max(float max)
{
#pragma unroll
    for (int half = IQ_WARP / 2; half; half /= 2) max = iq_max(max, __shfl_xor_sync(IQ_ALL_LANES, max, half));
    return max;
}

#endif
