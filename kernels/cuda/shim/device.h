/* CUDA's device language for g++: part of shim.h; include that. Only what is here may be used by a kernel.
 *
 * A CUDA thread is a fiber. It runs until it waits at a barrier or a warp operation (under random schedules also at
 * atomics), then another of its block goes on, in the schedule's order. All functions take the caller's source line
 * as hidden arguments, for findings.
 * Arithmetic is the machine's, compiled with -ffp-contract=off: equal to CUDA's to the bit but for NaN payloads.
 */
#ifndef IQ_CUDA_SHIM_DEVICE_H
#define IQ_CUDA_SHIM_DEVICE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

#define IQ__VECTOR(type, name, align2, align4)                                                               \
    struct __align__(align2) name##2 { type x, y; };                                                         \
    struct __align__(align4) name##4 { type x, y, z, w; };                                                   \
    static inline name##2 make_##name##2(type x, type y) { return name##2 {x, y}; }                          \
    static inline name##4 make_##name##4(type x, type y, type z, type w) { return name##4 {x, y, z, w}; }
IQ__VECTOR(float, float, 8, 16)
IQ__VECTOR(int, int, 8, 16)
IQ__VECTOR(unsigned, uint, 8, 16)
IQ__VECTOR(unsigned short, ushort, 4, 8)
IQ__VECTOR(unsigned char, uchar, 2, 4)
IQ__VECTOR(double, double, 16, 16)
#undef IQ__VECTOR

/* ---- who runs ---- */

struct iq_shim_thread {
    uint3 index;
    unsigned linear, warp, lane;
};
struct iq_shim_block {
    uint3 index;
    dim3 block, grid;
};
extern "C" {
extern struct iq_shim_thread *iq_shim_thread; /* the running thread */
extern struct iq_shim_block iq_shim_block;    /* its block */
}
#define threadIdx (iq_shim_thread->index)
#define blockIdx  (iq_shim_block.index)
#define blockDim  (iq_shim_block.block)
#define gridDim   (iq_shim_block.grid)
#define warpSize  32

/* ---- the doors to the scheduler ---- */

typedef uint64_t iq_shim_fold(uint64_t so_far, uint64_t lane);
enum { IQ_SHIM_NO_SOURCE = -1 };

extern "C" {
void *iq_shim_shared(const void *key, const char *name, size_t bytes, size_t align);
void *iq_shim_shared_dynamic(void);
void iq_shim_barrier(const char *file, int line);
/* The lanes of `mask` meet. source: the result is that lane's value; fold: all values, ascending; neither: memory is
 * ordered among them and the result is 0. */
uint64_t iq_shim_collective(unsigned mask, uint64_t value, int source, iq_shim_fold *fold, const char *file,
                            int line);
/* Called before an atomic access: tells the race detector, and lets others run under random schedules. */
void iq_shim_atomic(const void *address, size_t bytes);
}

#define IQ__AT const char *file = __builtin_FILE(), int line = __builtin_LINE()

static inline void __syncthreads(IQ__AT) { iq_shim_barrier(file, line); }
static inline void __syncwarp(unsigned mask = 0xffffffffu, IQ__AT)
{
    iq_shim_collective(mask, 0, IQ_SHIM_NO_SOURCE, NULL, file, line);
}

/* ---- shuffles ---- */

template <class T> static inline T iq__shuffle(unsigned mask, T value, int source, const char *file, int line)
{
    static_assert(sizeof(T) <= 8 && std::is_trivially_copyable<T>::value,
                  "a shuffle moves up to eight bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = iq_shim_collective(mask, bits, source, NULL, file, line);
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The lane that is read: outside its segment of `width` a lane keeps its own value. */
static inline int iq__lane(int offset_lane, int width)
{
    int lane = (int)iq_shim_thread->lane, base = lane & ~(width - 1);
    return offset_lane < base || offset_lane >= base + width ? lane : offset_lane;
}

template <class T> static inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, IQ__AT)
{
    int base = (int)iq_shim_thread->lane & ~(width - 1);
    return iq__shuffle(mask, value, base + (source & (width - 1)), file, line);
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, IQ__AT)
{
    /* Into an earlier segment is allowed: only a later one is out of reach. */
    int lane = (int)iq_shim_thread->lane, from = lane ^ bits;
    return iq__shuffle(mask, value, from >= (lane & ~(width - 1)) + width ? lane : from, file, line);
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, IQ__AT)
{
    return iq__shuffle(mask, value, iq__lane((int)(iq_shim_thread->lane + by), width), file, line);
}
template <class T> static inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, IQ__AT)
{
    return iq__shuffle(mask, value, iq__lane((int)iq_shim_thread->lane - (int)by, width), file, line);
}

/* ---- votes and reductions ---- */

static inline uint64_t iq__fold_or(uint64_t a, uint64_t b) { return a | b; }
static inline uint64_t iq__fold_and(uint64_t a, uint64_t b) { return a & b; }
static inline uint64_t iq__fold_xor(uint64_t a, uint64_t b) { return a ^ b; }
static inline uint64_t iq__fold_add(uint64_t a, uint64_t b) { return a + b; }
static inline uint64_t iq__fold_min(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t iq__fold_max(uint64_t a, uint64_t b) { return a > b ? a : b; }

static inline uint64_t iq__reduce(unsigned mask, uint64_t value, iq_shim_fold *fold, const char *file,
                                  int line)
{
    return iq_shim_collective(mask, value, IQ_SHIM_NO_SOURCE, fold, file, line);
}
static inline unsigned __ballot_sync(unsigned mask, int p, IQ__AT)
{
    return (unsigned)iq__reduce(mask, p ? 1ull << iq_shim_thread->lane : 0, iq__fold_or, file, line);
}
static inline int __any_sync(unsigned mask, int p, IQ__AT)
{
    return (int)iq__reduce(mask, p != 0, iq__fold_or, file, line);
}
static inline int __all_sync(unsigned mask, int p, IQ__AT)
{
    return (int)iq__reduce(mask, p != 0, iq__fold_and, file, line);
}
/* Signed values keep their order when the sign bit is turned over. */
#define IQ__REDUCE(name)                                                                                     \
    static inline unsigned __reduce_##name##_sync(unsigned mask, unsigned v, IQ__AT)                         \
    {                                                                                                        \
        return (unsigned)iq__reduce(mask, v, iq__fold_##name, file, line);                                   \
    }
IQ__REDUCE(add)
IQ__REDUCE(min)
IQ__REDUCE(max)
IQ__REDUCE(and)
IQ__REDUCE(or)
IQ__REDUCE(xor)
#undef IQ__REDUCE
static inline int __reduce_add_sync(unsigned mask, int v, IQ__AT)
{
    return (int)(unsigned)iq__reduce(mask, (unsigned)v, iq__fold_add, file, line);
}
static inline int __reduce_min_sync(unsigned mask, int v, IQ__AT)
{
    return (int)((unsigned)iq__reduce(mask, (unsigned)v ^ 0x80000000u, iq__fold_min, file, line) ^
                 0x80000000u);
}
static inline int __reduce_max_sync(unsigned mask, int v, IQ__AT)
{
    return (int)((unsigned)iq__reduce(mask, (unsigned)v ^ 0x80000000u, iq__fold_max, file, line) ^
                 0x80000000u);
}

#include "kernels/cuda/shim/device_math.h"

#endif
