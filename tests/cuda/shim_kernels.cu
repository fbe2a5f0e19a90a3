#include "tests/cuda/shim_kernels.h"

#include "kernels/cuda/cuda.h"

#define ALL 0xffffffffu

static __global__ void affine(uint32_t *x, uint32_t n, uint32_t factor, uint32_t term)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[i] * factor + term;
}

int shim_affine(uint32_t *x, uint32_t n, uint32_t factor, uint32_t term, void *stream)
{
    iq_cuda_launch(affine, dim3((n + 63) / 64), dim3(64), 0, (cudaStream_t)stream, x, n, factor, term);
    return 0;
}

static __global__ void warp_operations(uint32_t *out)
{
    uint32_t lane = threadIdx.x, *o = out + lane, v = lane * 3 + 1;
    o[0 * 32] = __shfl_sync(ALL, v, 5);
    o[1 * 32] = __shfl_sync(ALL, v, 5, 8);
    o[2 * 32] = __shfl_up_sync(ALL, v, 3);
    o[3 * 32] = __shfl_down_sync(ALL, v, 3);
    o[4 * 32] = __shfl_down_sync(ALL, v, 3, 8);
    o[5 * 32] = __shfl_xor_sync(ALL, v, 17);
    o[6 * 32] = __shfl_xor_sync(ALL, v, 9, 8);
    o[7 * 32] = __ballot_sync(ALL, lane % 3 == 0);
    o[8 * 32] = (uint32_t)__any_sync(ALL, lane == 31) * 2 + (uint32_t)__any_sync(ALL, lane == 32);
    o[9 * 32] = (uint32_t)__all_sync(ALL, lane < 32) * 2 + (uint32_t)__all_sync(ALL, lane < 31);
    o[10 * 32] = __reduce_add_sync(ALL, v);
    o[11 * 32] = (uint32_t)__reduce_min_sync(ALL, (int)lane - 7);
    o[12 * 32] = (uint32_t)__reduce_max_sync(ALL, 7 - (int)lane);
    o[13 * 32] = __reduce_max_sync(ALL, 7 - lane);
    uint32_t half = lane < 16 ? 0xffffu : 0xffff0000u;
    o[14 * 32] = __reduce_xor_sync(half, v);
    double wide = __shfl_xor_sync(ALL, (double)lane + 0.5, 1);
    o[15 * 32] = (uint32_t)(wide * 2.0);
}

int shim_warp_operations(uint32_t *out, void *stream)
{
    iq_cuda_launch(warp_operations, dim3(1), dim3(32), 0, (cudaStream_t)stream, out);
    return 0;
}

static __global__ void atomics(uint32_t *counters)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&counters[0], i);
    atomicSub(&counters[1], 1u);
    atomicMin(&counters[2], 1000u - i);
    atomicMax(&counters[3], i);
    atomicAnd(&counters[4], ~(1u << i % 8));
    atomicOr(&counters[5], 1u << i % 32);
    atomicXor(&counters[6], i);
    uint32_t seen = 0, expected;
    do {
        expected = seen;
        seen = atomicCAS(&counters[7], expected, expected + 2);
    } while (seen != expected);
}

int shim_atomics(uint32_t *counters, void *stream)
{
    iq_cuda_launch(atomics, dim3(8), dim3(64), 0, (cudaStream_t)stream, counters);
    return 0;
}

template <class T> static __device__ T neighbour(T v)
{
    IQ_SHARED(T, row, 32);
    row[threadIdx.x] = v;
    __syncthreads();
    return row[threadIdx.x ^ 1];
}

static __global__ void template_arrays(uint32_t *out)
{
    uint32_t a = neighbour<uint32_t>(threadIdx.x);
    uint64_t b = neighbour<uint64_t>((uint64_t)threadIdx.x << 32);
    out[threadIdx.x] = a;
    out[32 + threadIdx.x] = (uint32_t)(b >> 32);
}

int shim_template_arrays(uint32_t *out, void *stream)
{
    iq_cuda_launch(template_arrays, dim3(1), dim3(32), 0, (cudaStream_t)stream, out);
    return 0;
}

static __global__ void shape(uint32_t *out)
{
    uint32_t b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    uint32_t t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    uint32_t i = b * (blockDim.x * blockDim.y * blockDim.z) + t;
    out[i] = i;
}

int shim_shape(uint32_t *out, void *stream)
{
    iq_cuda_launch(shape, dim3(2, 3, 4), dim3(5, 2, 3), 0, (cudaStream_t)stream, out);
    return 0;
}

static __global__ void nothing(uint32_t) {}

int shim_nothing(const uint32_t grid[3], const uint32_t block[3], uint64_t shared_bytes, void *stream)
{
    iq_cuda_launch(nothing, dim3(grid[0], grid[1], grid[2]), dim3(block[0], block[1], block[2]), shared_bytes,
                   (cudaStream_t)stream, 0u);
    return 0;
}

static __global__ void barriers(uint32_t *out, uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds; i++) __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = rounds;
}

int shim_barriers(uint32_t *out, uint32_t blocks, uint32_t rounds, void *stream)
{
    iq_cuda_launch(barriers, dim3(blocks), dim3(256), 0, (cudaStream_t)stream, out, rounds);
    return 0;
}

static __global__ void arrivals(uint32_t *out)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = atomicAdd(&out[256], 1u);
}

int shim_arrivals(uint32_t *out, void *stream)
{
    iq_cuda_launch(arrivals, dim3(4), dim3(64), 0, (cudaStream_t)stream, out);
    return 0;
}

static __global__ void spin(uint32_t *flags)
{
    while (atomicAdd(&flags[blockIdx.x ^ 1], 0u) == 0) {}
    atomicExch(&flags[blockIdx.x], 1u);
}

int shim_spin(uint32_t *out, void *stream)
{
    iq_cuda_launch(spin, dim3(2), dim3(2), 0, (cudaStream_t)stream, out);
    return 0;
}

static __global__ void divide(uint32_t *out, uint32_t n, uint32_t divisor) { out[0] = n / divisor; }

int shim_divide(uint32_t *out, uint32_t n, uint32_t divisor, void *stream)
{
    iq_cuda_launch(divide, dim3(1), dim3(1), 0, (cudaStream_t)stream, out, n, divisor);
    return 0;
}
