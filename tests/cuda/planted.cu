#include "tests/cuda/planted.h"

#include "kernels/cuda/cuda.h"

#define ALL 0xffffffffu

enum { N = PLANTED_WORDS };

/* What a kernel computes is of no interest: out is a permutation of in, or counts. */

template <bool BUG> static __global__ void missing_barrier(const uint32_t *in, uint32_t *out)
{
    IQ_SHARED(uint32_t, tile, N);
    tile[threadIdx.x] = in[threadIdx.x];
    if (!BUG) __syncthreads();
    out[threadIdx.x] = tile[N - 1 - threadIdx.x];
}

static void reversed(const uint32_t *in, uint32_t *out)
{
    for (unsigned i = 0; i < N; i++) out[i] = in[N - 1 - i];
}

static void shifted(const uint32_t *in, uint32_t *out)
{
    for (unsigned i = 0; i + 1 < N; i++) out[i] = in[i + 1];
}

/* The tile is filled again while others still read it. */
template <bool BUG> static __global__ void missing_second_barrier(const uint32_t *in, uint32_t *out)
{
    IQ_SHARED_DYNAMIC(uint32_t, tile);
    for (unsigned round = 0; round < N; round += N / 4) {
        tile[threadIdx.x] = in[round + threadIdx.x];
        __syncthreads();
        out[round + threadIdx.x] = tile[N / 4 - 1 - threadIdx.x];
        if (!BUG) __syncthreads();
    }
}

static void reversed_by_quarters(const uint32_t *in, uint32_t *out)
{
    for (unsigned i = 0; i < N; i++) out[i] = in[(i & ~63u) + 63 - i % 64];
}

/* Threads that run in ascending order do what was meant: each word is read before it's overwritten. */
template <bool BUG> static __global__ void overwritten_while_read(const uint32_t *in, uint32_t *out)
{
    IQ_SHARED(uint32_t, tile, N);
    tile[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    uint32_t v = threadIdx.x + 1 < N ? tile[threadIdx.x + 1] : 0;
    if (!BUG) __syncthreads();
    tile[threadIdx.x] = v;
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];
}

template <bool BUG> static __global__ void missing_warp_sync(const uint32_t *in, uint32_t *out)
{
    IQ_SHARED(uint32_t, tile, N);
    tile[threadIdx.x] = in[threadIdx.x];
    if (!BUG) __syncwarp();
    out[threadIdx.x] = tile[threadIdx.x ^ 31];
}

static void reversed_by_warps(const uint32_t *in, uint32_t *out)
{
    for (unsigned i = 0; i < N; i++) out[i] = in[i ^ 31];
}

/* On today's GPUs the shuffle happens to make the warp's lanes wait for each other, and orders nothing. */
template <bool BUG> static __global__ void shuffle_for_warp_sync(const uint32_t *in, uint32_t *out)
{
    IQ_SHARED(uint32_t, tile, N);
    tile[threadIdx.x] = in[threadIdx.x];
    uint32_t nothing = __shfl_xor_sync(ALL, 0u, 1);
    if (!BUG) __syncwarp();
    out[threadIdx.x] = tile[threadIdx.x ^ 31] + nothing;
}

template <bool BUG> static __global__ void mask_without_caller(const uint32_t *in, uint32_t *out)
{
    out[threadIdx.x] = __shfl_xor_sync(BUG ? ALL >> 1 : ALL, in[threadIdx.x], 31);
}

template <bool BUG> static __global__ void mask_of_lanes_elsewhere(const uint32_t *in, uint32_t *out)
{
    uint32_t half = threadIdx.x % 32 < 16 ? 0xffffu : 0xffff0000u, v = in[threadIdx.x];
    if (threadIdx.x % 32 < 16)
        v = __shfl_xor_sync(BUG ? ALL : half, v, 15);
    else
        v = __shfl_xor_sync(half, v, 15);
    out[threadIdx.x ^ 16] = v;
}

template <bool BUG> static __global__ void masks_disagree(const uint32_t *in, uint32_t *out)
{
    uint32_t mask = BUG && threadIdx.x % 32 >= 16 ? ALL << 1 : ALL;
    out[threadIdx.x] = __shfl_xor_sync(mask, in[threadIdx.x], 31);
}

template <bool BUG> static __global__ void divergent_warp(const uint32_t *in, uint32_t *out)
{
    uint32_t v = in[threadIdx.x];
    if (BUG && threadIdx.x % 32 < 16)
        v = __shfl_xor_sync(ALL, v, 31);
    else
        v = __shfl_xor_sync(ALL, v, 31);
    out[threadIdx.x] = v;
}

template <bool BUG> static __global__ void shuffle_from_outside_mask(const uint32_t *in, uint32_t *out)
{
    uint32_t half = threadIdx.x % 32 < 16 ? 0xffffu : 0xffff0000u;
    uint32_t v = __shfl_xor_sync(half, in[threadIdx.x], BUG ? 31 : 15);
    out[threadIdx.x ^ 16] = v;
}

template <bool BUG> static __global__ void mask_of_lanes_gone(const uint32_t *in, uint32_t *out)
{
    if (BUG && threadIdx.x % 32 == 31) {
        out[threadIdx.x ^ 31] = in[threadIdx.x];
        return;
    }
    uint32_t sum = __reduce_add_sync(ALL, 0u);
    out[threadIdx.x ^ 31] = in[threadIdx.x] + sum;
}

template <bool BUG> static __global__ void divergent_barrier(const uint32_t *in, uint32_t *out)
{
    IQ_SHARED(uint32_t, tile, N);
    tile[threadIdx.x] = in[threadIdx.x];
    if (BUG && threadIdx.x < 64)
        __syncthreads();
    else
        __syncthreads();
    out[threadIdx.x] = tile[N - 1 - threadIdx.x];
}

/* The right form has one barrier: two call sites of one condition that all threads share are fine as well. */
template <> __global__ void divergent_barrier<false>(const uint32_t *in, uint32_t *out)
{
    IQ_SHARED(uint32_t, tile, N);
    tile[threadIdx.x] = in[threadIdx.x];
    if (blockIdx.x == 0)
        __syncthreads();
    else
        __syncthreads();
    out[threadIdx.x] = tile[N - 1 - threadIdx.x];
}

template <bool BUG> static __global__ void barrier_of_some(const uint32_t *in, uint32_t *out)
{
    out[N - 1 - threadIdx.x] = in[threadIdx.x];
    if (!BUG || threadIdx.x < 64) __syncthreads();
}

template <bool BUG> static __global__ void barrier_against_warp_operation(const uint32_t *in, uint32_t *out)
{
    uint32_t zero = 0;
    if (BUG && threadIdx.x % 32 >= 16)
        zero = __shfl_sync(ALL, zero, 0);
    else
        __syncthreads();
    out[N - 1 - threadIdx.x] = in[threadIdx.x] + zero;
}

template <bool BUG> static __global__ void return_above_barrier(const uint32_t *in, uint32_t *out, uint32_t n)
{
    IQ_SHARED(uint32_t, tile, N);
    if (BUG && threadIdx.x >= n) return;
    if (threadIdx.x < n) tile[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < n) out[threadIdx.x] = tile[n - 1 - threadIdx.x];
}

static void reversed_hundred(const uint32_t *in, uint32_t *out)
{
    for (unsigned i = 0; i < 100; i++) out[i] = in[99 - i];
}

template <bool BUG> static __global__ void shared_taken_for_zero(const uint32_t *in, uint32_t *out)
{
    IQ_SHARED(uint32_t, sum, N);
    if (!BUG) sum[threadIdx.x] = 0;
    sum[threadIdx.x] += in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = sum[N - 1 - threadIdx.x];
}

/* A maximum hides garbage that is small. */
template <bool BUG> static __global__ void shared_partly_written(const uint32_t *in, uint32_t *out)
{
    IQ_SHARED(float, best, 33);
    if (threadIdx.x < (BUG ? 32 : 33)) best[threadIdx.x] = (float)(in[threadIdx.x] & 0xff);
    __syncthreads();
    float max = -1.0f;
    for (unsigned i = 0; i < 33; i++) max = best[i] > max ? best[i] : max;
    out[threadIdx.x] = (uint32_t)max;
}

static void best_of_33(const uint32_t *in, uint32_t *out)
{
    uint32_t max = 0;
    for (unsigned i = 0; i < 33; i++) max = (in[i] & 0xff) > max ? in[i] & 0xff : max;
    for (unsigned i = 0; i < N; i++) out[i] = max;
}

template <bool BUG> static __global__ void write_past_shared(const uint32_t *in, uint32_t *out)
{
    IQ_SHARED(uint32_t, tile, N);
    IQ_SHARED(uint32_t, other, N);
    tile[threadIdx.x + BUG] = in[threadIdx.x];
    other[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = other[N - 1 - threadIdx.x];
}

template <bool BUG> static __global__ void read_past_shared(const uint32_t *in, uint32_t *out)
{
    IQ_SHARED_DYNAMIC(uint32_t, tile);
    tile[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[N - (BUG ? 0 : 1) - threadIdx.x];
}

template <bool BUG> static __global__ void read_before_shared(const uint32_t *in, uint32_t *out)
{
    IQ_SHARED(uint32_t, tile, N);
    tile[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[N - (BUG ? 2 : 1) - (int)threadIdx.x];
}

template <bool BUG> static __global__ void write_past_device(const uint32_t *in, uint32_t *out)
{
    out[N - 1 - threadIdx.x + BUG] = in[threadIdx.x];
}

template <bool BUG> static __global__ void lost_update(const uint32_t *in, uint32_t *out)
{
    IQ_SHARED(uint32_t, count, 8);
    if (threadIdx.x < 8) count[threadIdx.x] = 0;
    __syncthreads();
    if (BUG)
        count[in[threadIdx.x] % 8] += 1;
    else
        atomicAdd(&count[in[threadIdx.x] % 8], 1u);
    __syncthreads();
    if (threadIdx.x < 8) out[threadIdx.x] = count[threadIdx.x];
}

static void histogram(const uint32_t *in, uint32_t *out)
{
    for (unsigned i = 0; i < N; i++) out[in[i] % 8]++;
}

template <bool BUG> static __global__ void lost_update_between_blocks(const uint32_t *in, uint32_t *out)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t lanes = __ballot_sync(ALL, in[i] & 1);
    if (threadIdx.x) return;
    if (BUG)
        out[0] += __popc(lanes);
    else
        atomicAdd(&out[0], (uint32_t)__popc(lanes));
}

static void odd_ones(const uint32_t *in, uint32_t *out)
{
    for (unsigned i = 0; i < N; i++) out[0] += in[i] & 1;
}

template <bool BUG> static __global__ void stack_overflow(const uint32_t *in, uint32_t *out)
{
    volatile uint32_t local[BUG ? 20000 : 200];
    for (unsigned i = 0; i < sizeof local / sizeof local[0]; i++) local[i] = in[i % N];
    uint32_t at = N - 1 - threadIdx.x;
    out[threadIdx.x] = at < 200 ? local[at] : in[at];
}

/* A row's launcher; `...` are further arguments. */
#define LAUNCHER(kernel, grid, block, shared, ...)                                                           \
    static int kernel##_launch(int bug, const uint32_t *in, uint32_t *out, void *stream)                     \
    {                                                                                                        \
        if (bug)                                                                                             \
            iq_cuda_launch(kernel<true>, dim3(grid), dim3(block), shared, (cudaStream_t)stream, in,          \
                           out __VA_ARGS__);                                                                 \
        else                                                                                                 \
            iq_cuda_launch(kernel<false>, dim3(grid), dim3(block), shared, (cudaStream_t)stream, in,         \
                           out __VA_ARGS__);                                                                 \
        return 0;                                                                                            \
    }
LAUNCHER(missing_barrier, 1, N, 0)
LAUNCHER(missing_second_barrier, 1, N / 4, N)
LAUNCHER(overwritten_while_read, 1, N, 0)
LAUNCHER(missing_warp_sync, 1, N, 0)
LAUNCHER(shuffle_for_warp_sync, 1, N, 0)
LAUNCHER(mask_without_caller, 1, N, 0)
LAUNCHER(mask_of_lanes_elsewhere, 1, N, 0)
LAUNCHER(masks_disagree, 1, N, 0)
LAUNCHER(divergent_warp, 1, N, 0)
LAUNCHER(shuffle_from_outside_mask, 1, N, 0)
LAUNCHER(mask_of_lanes_gone, 1, N, 0)
LAUNCHER(divergent_barrier, 1, N, 0)
LAUNCHER(barrier_of_some, 1, N, 0)
LAUNCHER(barrier_against_warp_operation, 1, N, 0)
LAUNCHER(return_above_barrier, 1, N, 0, , 100u)
LAUNCHER(shared_taken_for_zero, 1, N, 0)
LAUNCHER(shared_partly_written, 1, N, 0)
LAUNCHER(write_past_shared, 1, N, 0)
LAUNCHER(read_past_shared, 1, N, N * 4)
LAUNCHER(read_before_shared, 1, N, 0)
LAUNCHER(write_past_device, 1, N, 0)
LAUNCHER(lost_update, 1, N, 0)
LAUNCHER(lost_update_between_blocks, 8, 32, 0)
LAUNCHER(stack_overflow, 1, N, 0)

#define ROW(kernel, expect, race_only, ...)                                                                  \
    {                                                                                                        \
#kernel, kernel##_launch, expect, race_only, { __VA_ARGS__ }                                         \
    }
extern "C" const struct planted planted[] = {
    ROW(missing_barrier, reversed, 0),
    ROW(missing_second_barrier, reversed_by_quarters, 0),
    ROW(overwritten_while_read, shifted, 0),
    ROW(missing_warp_sync, reversed_by_warps, 0),
    ROW(shuffle_for_warp_sync, reversed_by_warps, 1),
    ROW(mask_without_caller, reversed_by_warps, 0, {"reverse", "mask 7fffffff lacks the caller, lane 31"},
        {"forward", "reads lane 31 for lane 0, which mask 7fffffff lacks"}),
    ROW(mask_of_lanes_elsewhere, reversed_by_warps, 0, {"forward", "returned, while lane 0 waits for it"}),
    ROW(masks_disagree, reversed_by_warps, 0, {"forward", "with mask fffffffe meets lane 1 at planted.cu"}),
    ROW(divergent_warp, reversed_by_warps, 0, {"forward", "divergent warp: operation at planted.cu"}),
    ROW(shuffle_from_outside_mask, reversed_by_warps, 0,
        {"forward", "reads lane 31 for lane 0, which mask 0000ffff"}),
    ROW(mask_of_lanes_gone, reversed_by_warps, 0, {"forward", "returned, while lane 0 waits for it"},
        {"reverse", "names lanes 80000000, which have returned"}),
    ROW(divergent_barrier, reversed, 0, {"forward", "divergent barrier: __syncthreads at planted.cu"}),
    ROW(barrier_of_some, reversed, 0,
        {"forward", "returned while 64 threads of the block wait in __syncthreads"}),
    ROW(barrier_against_warp_operation, reversed, 0,
        {"forward", "deadlock, no thread can go on: thread 0 at __syncthreads at planted.cu"}),
    ROW(return_above_barrier, reversed_hundred, 0, {"reverse", "but 156 threads of the block have returned"}),
    ROW(shared_taken_for_zero, reversed, 0),
    ROW(shared_partly_written, best_of_33, 0),
    ROW(write_past_shared, reversed, 0, {"forward", "byte 1024 of tile, which has 1024 bytes"},
        {"reverse", "wrote at byte 1024 of tile, which has 1024 bytes"}),
    ROW(read_past_shared, reversed, 0,
        {"forward", "byte 1024 of dynamic shared memory, which has 1024 bytes"}),
    ROW(read_before_shared, reversed, 0, {"reverse", "byte -4 of tile, which has 1024 bytes"}),
    ROW(write_past_device, reversed, 0,
        {"forward", "byte 1024 of an allocation of 1024 bytes of device memory"},
        {"reverse", "something wrote at byte 1024 of an allocation of 1024 bytes"}),
    ROW(lost_update, histogram, 1),
    ROW(lost_update_between_blocks, odd_ones, 1),
    ROW(stack_overflow, reversed, 0, {"forward", "stack overflow: more than 64 KiB of locals"}),
};
extern "C" const unsigned planted_n = sizeof planted / sizeof planted[0];
