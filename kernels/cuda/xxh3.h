/* XXH3_128bits (seed 0, default secret) of words of 4 bytes, as one thread or eight lanes make it: what digests are made
 * with (kernels/base/digest.h). Written after the description in xxhash.h 0.8.1 of xxHash by Yann Collet (BSD 2-clause,
 * https://github.com/Cyan4973/xxHash): names of the steps and all constants are from there.
 *
 * Input is a Words: a function object, w(i) the i-th little-endian word of 32 bits. Its length is a multiple of 4 bytes, so
 * the case of 1 to 3 bytes is not here. */
#ifndef IQ_CUDA_XXH3_H
#define IQ_CUDA_XXH3_H

#include "kernels/base/digest.h"
#include "kernels/cuda/cuda.h"

#define IQ_XXH32_1 0x9E3779B1u
#define IQ_XXH32_2 0x85EBCA77u
#define IQ_XXH32_3 0xC2B2AE3Du
#define IQ_XXH64_1 0x9E3779B185EBCA87u
#define IQ_XXH64_2 0xC2B2AE3D27D4EB4Fu
#define IQ_XXH64_3 0x165667B19E3779F9u
#define IQ_XXH64_4 0x85EBCA77C2B2AE63u
#define IQ_XXH64_5 0x27D4EB2F165667C5u

enum {
    IQ_XXH_SECRET = 192, /* bytes */
    IQ_XXH_STRIPE = 64,  /* bytes that the eight lanes take together */
    IQ_XXH_BLOCK = 16,   /* stripes before the lanes are scrambled */
    IQ_XXH_SHORT_MAX = 240,
    IQ_XXH_LANES = 8
};

#ifdef __CUDACC__
static __device__ const /* not __constant__: the lanes of a stripe read different words */
#else
static const
#endif
    uint32_t iq_xxh_secret[IQ_XXH_SECRET / 4] = {
        0x396cfeb8u, 0xbe4ba423u, 0x2c81017cu, 0x1cad21f7u, 0xe96dd4deu, 0xdb979083u, 0xa4a44072u,
        0x1f67b3b7u, 0x4ee679cbu, 0x78e5c0ccu, 0x7dd05a82u, 0x2172ffccu, 0x744608b8u, 0x8e2443f7u,
        0xe69035e0u, 0x4c263a81u, 0xbb52283cu, 0xcb00c391u, 0x8b65d088u, 0xa32e531bu, 0x97486471u,
        0x4ef90da2u, 0x46ef1938u, 0xd8acdea9u, 0x3f76faa8u, 0x3f349ce3u, 0xc7bbdcf9u, 0x1d4f0bc7u,
        0x4be0518au, 0x3159b4cdu, 0xc97e9fc8u, 0x647378d9u, 0x83acc5eau, 0xc3ebd334u, 0xffa081c5u,
        0xeb6313fau, 0x51dd0d17u, 0x49daf0b7u, 0x265516d3u, 0x9e68d429u, 0x58be162bu, 0xfca1477du,
        0xd1b8f88fu, 0xce31d07au, 0x8f3acb45u, 0x28041695u, 0xcafbd7afu, 0x7e404bbbu};

/* Eight bytes of the secret from byte `at` on. */
__device__ __forceinline__ uint64_t iq_xxh_key(uint32_t at)
{
    uint32_t i = at / 4, shift = at % 4 * 8;
    uint64_t low = (uint64_t)iq_xxh_secret[i + 1] << 32 | iq_xxh_secret[i];
    if (shift == 0) return low;
    return low >> shift | (uint64_t)iq_xxh_secret[i + 2] << (64 - shift);
}

__device__ __forceinline__ uint64_t iq_xxh_fold(uint64_t a, uint64_t b) { return a * b ^ __umul64hi(a, b); }

__device__ __forceinline__ uint64_t iq_xxh3_avalanche(uint64_t h)
{
    h = (h ^ h >> 37) * 0x165667919E3779F9u;
    return h ^ h >> 32;
}

__device__ __forceinline__ uint64_t iq_xxh64_avalanche(uint64_t h)
{
    h = (h ^ h >> 33) * IQ_XXH64_2;
    h = (h ^ h >> 29) * IQ_XXH64_3;
    return h ^ h >> 32;
}

__device__ __forceinline__ uint64_t iq_xxh_swap64(uint64_t x)
{
    x = (x & 0x00ff00ff00ff00ffu) << 8 | (x >> 8 & 0x00ff00ff00ff00ffu);
    x = (x & 0x0000ffff0000ffffu) << 16 | (x >> 16 & 0x0000ffff0000ffffu);
    return x << 32 | x >> 32;
}

/* Eight bytes from word i on. */
template <class Words> __device__ __forceinline__ uint64_t iq_xxh_pair(const Words &w, uint32_t i)
{
    return (uint64_t)w(i + 1) << 32 | w(i);
}

/* XXH3_mix16B of the four words from i on. */
template <class Words>
__device__ __forceinline__ uint64_t iq_xxh_mix(const Words &w, uint32_t i, uint32_t key)
{
    return iq_xxh_fold(iq_xxh_pair(w, i) ^ iq_xxh_key(key), iq_xxh_pair(w, i + 2) ^ iq_xxh_key(key + 8));
}

template <class Words>
__device__ __forceinline__ void iq_xxh_mix32(struct iq_digest *acc, const Words &w, uint32_t one,
                                             uint32_t two, uint32_t key)
{
    acc->lo += iq_xxh_mix(w, one, key);
    acc->lo ^= iq_xxh_pair(w, two) + iq_xxh_pair(w, two + 2);
    acc->hi += iq_xxh_mix(w, two, key + 16);
    acc->hi ^= iq_xxh_pair(w, one) + iq_xxh_pair(w, one + 2);
}

/* 0, 4 or 8 bytes. */
template <class Words> __device__ __forceinline__ struct iq_digest iq_xxh_to8(const Words &w, uint32_t words)
{
    struct iq_digest h;
    if (words == 0) {
        h.lo = iq_xxh64_avalanche(iq_xxh_key(64) ^ iq_xxh_key(72));
        h.hi = iq_xxh64_avalanche(iq_xxh_key(80) ^ iq_xxh_key(88));
        return h;
    }
    uint64_t keyed = ((uint64_t)w(words - 1) << 32 | w(0)) ^ iq_xxh_key(16) ^ iq_xxh_key(24);
    uint64_t prime = IQ_XXH64_1 + (words << 4); /* bytes << 2 */
    h.lo = keyed * prime;
    h.hi = __umul64hi(keyed, prime) + (h.lo << 1);
    h.lo ^= h.hi >> 3;
    h.lo = (h.lo ^ h.lo >> 35) * 0x9FB21C651E98DF25u;
    h.lo ^= h.lo >> 28;
    h.hi = iq_xxh3_avalanche(h.hi);
    return h;
}

/* 12 or 16 bytes. */
template <class Words> __device__ __forceinline__ struct iq_digest iq_xxh_to16(const Words &w, uint32_t words)
{
    uint64_t first = iq_xxh_pair(w, 0), last = iq_xxh_pair(w, words - 2);
    uint64_t keyed = first ^ last ^ iq_xxh_key(32) ^ iq_xxh_key(40);
    uint64_t lo = keyed * IQ_XXH64_1, hi = __umul64hi(keyed, IQ_XXH64_1);
    lo += (uint64_t)(4 * words - 1) << 54;
    last ^= iq_xxh_key(48) ^ iq_xxh_key(56);
    hi += last + (last & 0xffffffffu) * (IQ_XXH32_2 - 1);
    lo ^= iq_xxh_swap64(hi);
    struct iq_digest h;
    h.lo = iq_xxh3_avalanche(lo * IQ_XXH64_2);
    h.hi = iq_xxh3_avalanche(__umul64hi(lo, IQ_XXH64_2) + hi * IQ_XXH64_2);
    return h;
}

/* 20 to 240 bytes. */
template <class Words>
__device__ __forceinline__ struct iq_digest iq_xxh_to240(const Words &w, uint32_t words)
{
    uint64_t bytes = 4 * (uint64_t)words;
    struct iq_digest acc, h;
    acc.lo = bytes * IQ_XXH64_1;
    acc.hi = 0;
    if (words <= 32) {
        for (int i = words > 24 ? 3 : words > 16 ? 2 : words > 8 ? 1 : 0; i >= 0; i--)
            iq_xxh_mix32(&acc, w, 4 * i, words - 4 * (i + 1), 32 * i);
    } else {
        for (uint32_t i = 0; i < 4; i++) iq_xxh_mix32(&acc, w, 8 * i, 8 * i + 4, 32 * i);
        acc.lo = iq_xxh3_avalanche(acc.lo);
        acc.hi = iq_xxh3_avalanche(acc.hi);
        for (uint32_t i = 4; i < words / 8; i++) iq_xxh_mix32(&acc, w, 8 * i, 8 * i + 4, 3 + 32 * (i - 4));
        iq_xxh_mix32(&acc, w, words - 4, words - 8, 136 - 17 - 16); /* 136: the least secret */
    }
    h.lo = iq_xxh3_avalanche(acc.lo + acc.hi);
    h.hi = 0 - iq_xxh3_avalanche(acc.lo * IQ_XXH64_1 + acc.hi * IQ_XXH64_4 + bytes * IQ_XXH64_2);
    return h;
}

/* One thread; at most IQ_XXH_SHORT_MAX bytes. */
template <class Words>
__device__ __forceinline__ struct iq_digest iq_xxh_short(const Words &w, uint32_t words)
{
    return words <= 2 ? iq_xxh_to8(w, words) : words <= 4 ? iq_xxh_to16(w, words) : iq_xxh_to240(w, words);
}

/* A stripe: eight lanes, a lane eight bytes, and its neighbour's too. `lanes`: the eight in the warp's mask. */
template <class Words>
__device__ __forceinline__ void iq_xxh_stripe(uint64_t *acc, const Words &w, uint32_t word, uint32_t key,
                                              uint32_t lane, unsigned lanes)
{
    uint64_t value = iq_xxh_pair(w, word + 2 * lane), keyed = value ^ iq_xxh_key(key + 8 * lane);
    *acc += (keyed & 0xffffffffu) * (keyed >> 32) + __shfl_xor_sync(lanes, value, 1);
}

/* XXH3_mergeAccs: right in the group's lane 0. */
__device__ __forceinline__ uint64_t iq_xxh_merge(uint64_t acc, uint32_t key, uint64_t start, uint32_t lane,
                                                 unsigned lanes)
{
    uint64_t keyed = acc ^ iq_xxh_key(key + 8 * lane), other = __shfl_xor_sync(lanes, keyed, 1);
    uint64_t sum = iq_xxh_fold(keyed, other); /* lane 2 i: pair i */
    sum += __shfl_down_sync(lanes, sum, 2, IQ_XXH_LANES);
    sum += __shfl_down_sync(lanes, sum, 4, IQ_XXH_LANES);
    return iq_xxh3_avalanche(start + sum);
}

/* Eight neighbouring lanes of a warp, beginning at a multiple of eight: more than IQ_XXH_SHORT_MAX bytes. The result is
 * right in the group's lane 0. */
template <class Words> __device__ struct iq_digest iq_xxh_long(const Words &w, uint32_t words)
{
    uint32_t lane = threadIdx.x % IQ_XXH_LANES;
    unsigned lanes = 0xffu << (threadIdx.x % IQ_WARP - lane);
    uint64_t acc = lane == 0   ? IQ_XXH32_3
                   : lane == 1 ? IQ_XXH64_1
                   : lane == 2 ? IQ_XXH64_2
                   : lane == 3 ? IQ_XXH64_3
                   : lane == 4 ? IQ_XXH64_4
                   : lane == 5 ? IQ_XXH32_2
                   : lane == 6 ? IQ_XXH64_5
                               : IQ_XXH32_1;
    const uint32_t stripe = IQ_XXH_STRIPE / 4, last = IQ_XXH_SECRET - IQ_XXH_STRIPE;
    uint32_t stripes = (words - 1) / stripe; /* before the last one, which may overlap */
    for (uint32_t s = 0; s < stripes; s++) {
        iq_xxh_stripe(&acc, w, s * stripe, s % IQ_XXH_BLOCK * 8, lane, lanes);
        if (s % IQ_XXH_BLOCK == IQ_XXH_BLOCK - 1)
            acc = (acc ^ acc >> 47 ^ iq_xxh_key(last + 8 * lane)) * IQ_XXH32_1;
    }
    iq_xxh_stripe(&acc, w, words - stripe, last - 7, lane, lanes);
    uint64_t bytes = 4 * (uint64_t)words;
    struct iq_digest h;
    h.lo = iq_xxh_merge(acc, 11, bytes * IQ_XXH64_1, lane, lanes);
    h.hi = iq_xxh_merge(acc, IQ_XXH_SECRET - IQ_XXH_STRIPE - 11, ~(bytes * IQ_XXH64_2), lane, lanes);
    return h;
}

/* Eight lanes, any length: the result is right in the group's lane 0. */
template <class Words>
__device__ __forceinline__ struct iq_digest iq_xxh_words(const Words &w, uint32_t words)
{
    if (4 * (uint64_t)words > IQ_XXH_SHORT_MAX) return iq_xxh_long(w, words);
    struct iq_digest h = {0, 0};
    if (threadIdx.x % IQ_XXH_LANES == 0) h = iq_xxh_short(w, words);
    return h;
}

#endif
