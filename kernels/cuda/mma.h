/* The tensor core's instructions for a kernel: D = A B + D of a warp, with bf16 or fp16 operands and float32 accumulators.
 *
 * A is 16 x K, B is K x 8, K 16 or 8. The registers are those of PTX: with g = lane / 4 and t = lane % 4, and two
 * neighbours along K in a register (the even one in the low half),
 *   a[0] row g, columns 2t, 2t+1    a[1] row g + 8    a[2], a[3] the same 8 columns further
 *   b[0] column g, rows 2t, 2t+1    b[1] the same 8 rows further
 *   d[0], d[1] row g, columns 2t, 2t+1    d[2], d[3] row g + 8
 * All 32 lanes take part, at one place of the source. `profile` (enum iq_tc_profile_id) says whose arithmetic is meant: a
 * GPU has its own and ignores it, the shim obeys.
 *
 * mma.sync and not the newer instructions: it is one source for sm_80, sm_90 and sm_100, and the rows in
 * tests/data/tensor_core were measured with it (as wmma.mma.sync, which is the same machine instruction, HMMA). That
 * wgmma and tcgen05.mma do the same to bf16 and fp16 is what arXiv 2511.10909 finds.
 * Source: PTX ISA 9.0, "Matrix Fragments for mma.m16n8k16 with floating point type" and m16n8k8. */
#ifndef IQ_CUDA_MMA_H
#define IQ_CUDA_MMA_H

#include "kernels/arith.h"
#include "kernels/cuda/cuda.h"
#include "kernels/tensor_core/block.h"

#ifdef __CUDACC__
#define IQ_MMA_D "{%0, %1, %2, %3}"
#define IQ_MMA(shape, type, a, b)                                                                            \
    "mma.sync.aligned." shape ".row.col.f32." type "." type ".f32 " IQ_MMA_D ", " a ", " b ", " IQ_MMA_D ";"

template <int OPERAND>
__device__ __forceinline__ void iq_mma16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                                         uint32_t)
{
#define IQ_MMA16(type)                                                                                       \
    asm volatile(IQ_MMA("m16n8k16", type, "{%4, %5, %6, %7}", "{%8, %9}")                                    \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                            \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
    if (OPERAND == IQ_TC_F16)
        IQ_MMA16("f16");
    else
        IQ_MMA16("bf16");
#undef IQ_MMA16
}

template <int OPERAND>
__device__ __forceinline__ void iq_mma8(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                                        uint32_t)
{
#define IQ_MMA8(type)                                                                                        \
    asm volatile(IQ_MMA("m16n8k8", type, "{%4, %5}", "{%6}")                                                 \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                            \
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]))
    if (OPERAND == IQ_TC_F16)
        IQ_MMA8("f16");
    else
        IQ_MMA8("bf16");
#undef IQ_MMA8
}
#undef IQ_MMA
#undef IQ_MMA_D

/* Two floats rounded to operands, nearest even, the even one in the low half. */
template <int OPERAND> __device__ __forceinline__ uint32_t iq_operands(float even, float odd)
{
    uint32_t pair;
    if (OPERAND == IQ_TC_F16)
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(odd), "f"(even));
    else
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(odd), "f"(even));
    return pair;
}
#else
#include "kernels/cuda/shim/mma.h"

static inline void iq__mma(uint32_t k, uint32_t format, uint32_t profile, float (&d)[4],
                           const uint32_t (&a)[4], const uint32_t (&b)[2], const char *file, int line)
{
    struct iq_shim_mma own = {profile,
                              format,
                              k,
                              {a[0], a[1], k == 16 ? a[2] : 0, k == 16 ? a[3] : 0},
                              {b[0], k == 16 ? b[1] : 0},
                              {d[0], d[1], d[2], d[3]},
                              0};
    iq_shim_mma(&own, file, line);
    for (int i = 0; i < 4; i++) d[i] = own.d[i];
}

template <int OPERAND>
static inline void iq_mma16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], uint32_t profile,
                            IQ__AT)
{
    iq__mma(16, OPERAND, profile, d, a, b, file, line);
}

template <int OPERAND>
static inline void iq_mma8(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], uint32_t profile,
                           IQ__AT)
{
    iq__mma(8, OPERAND, profile, d, a, b, file, line);
}

template <int OPERAND> static inline uint32_t iq_operands(float even, float odd)
{
    if (OPERAND == IQ_TC_F16) return iq_f32_to_f16(even) | (uint32_t)iq_f32_to_f16(odd) << 16;
    return iq_f32_to_bf16(even) | (uint32_t)iq_f32_to_bf16(odd) << 16;
}
#endif

#endif
