/* Descent by digits: how a block finds an order statistic without sorting. A histogram over eight bits of a key, of counts
 * or of weights, tells which digit the wanted element has; then only elements with that digit matter, and the next eight
 * bits. All sums are of integers, so that the order of the atomics shows nowhere. */
#ifndef IQ_CUDA_SELECT_H
#define IQ_CUDA_SELECT_H

#include "kernels/cuda/cuda.h"

#include <stdint.h>

enum { IQ_DIGITS = 256, IQ_SELECT_THREADS = 1024 };

typedef unsigned long long iq_tally;

/* Where a descent ended: the key of the wanted element. */
struct iq_descent {
    uint64_t key;
    iq_tally before, size; /* sums over smaller keys; over this key */
};

struct iq_bin {
    iq_tally before, size; /* sums over smaller digits; over this digit */
    uint32_t digit;
};

/* Shared memory of a descent. */
struct iq_select {
    iq_tally bin[IQ_DIGITS];
    struct iq_bin found;
};

__device__ __forceinline__ iq_tally iq_warp_sum(iq_tally value)
{
#pragma unroll
    for (int half = IQ_WARP / 2; half; half /= 2) value += __shfl_xor_sync(IQ_ALL_LANES, value, half);
    return value;
}

__device__ __forceinline__ void iq_select_clear(struct iq_select *s)
{
    for (uint32_t i = threadIdx.x; i < IQ_DIGITS; i += blockDim.x) s->bin[i] = 0;
    __syncthreads();
}

/* Adds `value` to the digit's bin; 0 adds nothing. Whole warps call it: neighbours often share a digit, and then one of
 * them adds for all. */
__device__ __forceinline__ void iq_select_add(struct iq_select *s, uint32_t digit, iq_tally value)
{
    unsigned some = __ballot_sync(IQ_ALL_LANES, value != 0);
    if (some == 0) return;
    int leader = __ffs((int)some) - 1;
    uint32_t common = __shfl_sync(IQ_ALL_LANES, digit, leader);
    if (__all_sync(IQ_ALL_LANES, value == 0 || digit == common)) {
        iq_tally sum = iq_warp_sum(value);
        if ((int)(threadIdx.x % IQ_WARP) == leader) atomicAdd(&s->bin[common], sum);
    } else if (value != 0) {
        atomicAdd(&s->bin[digit], value);
    }
}

/* After all have added: the first digit, ascending, at which the running sum exceeds `point` (the last one with anything
 * in it, if none does). All threads of the block; the bins are free afterwards. */
__device__ __forceinline__ struct iq_bin iq_select_find(struct iq_select *s, iq_tally point)
{
    __syncthreads();
    if (threadIdx.x < IQ_WARP) { /* lane l: digits 8 l .. 8 l + 7 */
        const uint32_t per = IQ_DIGITS / IQ_WARP, first = threadIdx.x * per;
        iq_tally own = 0, below = 0;
        for (uint32_t i = 0; i < per; i++) own += s->bin[first + i];
        for (int lane = 0; lane < IQ_WARP; lane++) {
            iq_tally other = __shfl_sync(IQ_ALL_LANES, own, lane);
            if (lane < (int)threadIdx.x) below += other;
        }
        iq_tally total = iq_warp_sum(own);
        if (point >= total) point = total - 1;
        if (own && below <= point && point < below + own) {
            uint32_t i = 0;
            while (below + s->bin[first + i] <= point) below += s->bin[first + i++];
            s->found.before = below;
            s->found.size = s->bin[first + i];
            s->found.digit = first + i;
        }
    }
    __syncthreads();
    struct iq_bin found = s->found;
    __syncthreads();
    return found;
}

/* The element at which the running sum of values, keys ascending, exceeds `point`. Items: a function object, item(i, &key,
 * &value) for i < n; a value of 0 is no element. Keys have `bits` bits, a multiple of 8. All threads of the block. */
template <class Items>
__device__ __forceinline__ struct iq_descent iq_select_descend(struct iq_select *s, const Items &item,
                                                               uint32_t n, int bits, iq_tally point)
{
    struct iq_descent at = {0, 0, 0};
    for (int shift = bits - 8; shift >= 0; shift -= 8) {
        iq_select_clear(s);
        for (uint32_t begin = 0; begin < n; begin += blockDim.x) {
            uint64_t key = 0;
            iq_tally value = 0;
            if (threadIdx.x < n - begin) item(begin + threadIdx.x, &key, &value);
            if (key >> 8 >> shift != at.key) value = 0;
            iq_select_add(s, (uint32_t)(key >> shift) % IQ_DIGITS, value);
        }
        struct iq_bin bin = iq_select_find(s, point - at.before);
        at.key = at.key << 8 | bin.digit;
        at.before += bin.before;
        at.size = bin.size;
    }
    return at;
}

#endif
