/* Values of packed weights (kernels/matrix.h) in a kernel: one, or eight along k, of output j of a panel. Values are
 * the ones of kernels/matrix.c. */
#ifndef IQ_CUDA_WEIGHTS_H
#define IQ_CUDA_WEIGHTS_H

#include "kernels/arith.h"
#include "kernels/cuda/cuda.h"
#include "kernels/matrix.h"

/* float16 to float32, exact. One instruction on a device; a NaN is made canonical after it. */
__device__ __forceinline__ float iq_half(uint16_t h)
{
#ifdef __CUDA_ARCH__
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return iq_canonical(f);
#else
    return iq_f16_to_f32(h);
#endif
}

__device__ __forceinline__ uint16_t iq_load16(const uint8_t *p) { return *(const uint16_t *)p; }
__device__ __forceinline__ uint32_t iq_load32(const uint8_t *p) { return *(const uint32_t *)p; }

/* What the elements of a quantised block share. */
struct iq_scale {
    float d, m;
};

/* Bytes of a panel's block of 32 k, and of the halves that open it. */
template <int FORMAT> struct iq_block {
    static const uint32_t head = (FORMAT == IQ_Q4_1 ? 4 : 2) * IQ_PANEL;
    static const uint32_t bytes = head + (FORMAT == IQ_Q8_0 ? 32 : 16) * IQ_PANEL;
};

template <int FORMAT> __device__ __forceinline__ iq_scale iq_scale_at(const uint8_t *block, uint32_t j)
{
    iq_scale s = {iq_half(iq_load16(block + 2 * j)), 0.0f};
    if (FORMAT == IQ_Q4_1) s.m = iq_half(iq_load16(block + 2 * (IQ_PANEL + j)));
    return s;
}

template <int FORMAT> __device__ __forceinline__ float iq_dequant(iq_scale s, int q)
{
    if (FORMAT == IQ_Q4_1) return IQ_FMAF(s.d, (float)q, s.m);
    return s.d * (float)(FORMAT == IQ_Q4_0 ? q - 8 : q);
}

/* w[0..7] = values k .. k + 7 of output j; k is a multiple of 8, and all eight exist. */
template <int FORMAT>
__device__ __forceinline__ void iq_weights8(const uint8_t *panel, uint32_t k, uint32_t j, float w[8])
{
    if (FORMAT == IQ_F32) {
        const uint8_t *p = panel + 4 * ((size_t)k * IQ_PANEL + j);
#pragma unroll
        for (int i = 0; i < 8; i++) w[i] = *(const float *)(p + 4 * i * IQ_PANEL);
    } else if (FORMAT == IQ_F16) {
        const uint8_t *p = panel + 2 * ((size_t)k * IQ_PANEL + j);
#pragma unroll
        for (int i = 0; i < 8; i++) w[i] = iq_half(iq_load16(p + 2 * i * IQ_PANEL));
    } else if (FORMAT == IQ_BF16) {
        const uint8_t *p = panel + 4 * ((size_t)(k / 2) * IQ_PANEL + j);
#pragma unroll
        for (int i = 0; i < 8; i += 2) {
            uint32_t pair = iq_load32(p + 2 * i * IQ_PANEL);
            w[i] = iq_bits_f32(pair << 16);
            w[i + 1] = iq_bits_f32(pair & 0xffff0000u);
        }
    } else {
        const uint8_t *block = panel + (size_t)(k / 32) * iq_block<FORMAT>::bytes;
        const uint8_t *q = block + iq_block<FORMAT>::head;
        iq_scale s = iq_scale_at<FORMAT>(block, j);
        if (FORMAT == IQ_Q8_0) {
#pragma unroll
            for (int i = 0; i < 8; i++)
                w[i] = iq_dequant<FORMAT>(s, *(const int8_t *)(q + (k % 32 + i) * IQ_PANEL + j));
        } else {
            uint32_t nibbles = iq_load32(q + 4 * (k % 32 / 8 * IQ_PANEL + j));
#pragma unroll
            for (int i = 0; i < 8; i++) w[i] = iq_dequant<FORMAT>(s, (int)(nibbles >> 4 * i & 15));
        }
    }
}

/* Value k of output j. */
template <int FORMAT> __device__ __forceinline__ float iq_weight(const uint8_t *panel, uint32_t k, uint32_t j)
{
    if (FORMAT == IQ_F32) return *(const float *)(panel + 4 * ((size_t)k * IQ_PANEL + j));
    if (FORMAT == IQ_F16) return iq_half(iq_load16(panel + 2 * ((size_t)k * IQ_PANEL + j)));
    if (FORMAT == IQ_BF16)
        return iq_bits_f32((uint32_t)iq_load16(panel + 4 * ((size_t)(k / 2) * IQ_PANEL + j) + 2 * (k % 2))
                           << 16);
    const uint8_t *block = panel + (size_t)(k / 32) * iq_block<FORMAT>::bytes;
    const uint8_t *q = block + iq_block<FORMAT>::head;
    iq_scale s = iq_scale_at<FORMAT>(block, j);
    if (FORMAT == IQ_Q8_0) return iq_dequant<FORMAT>(s, *(const int8_t *)(q + k % 32 * IQ_PANEL + j));
    return iq_dequant<FORMAT>(s, (int)(iq_load32(q + 4 * (k % 32 / 8 * IQ_PANEL + j)) >> 4 * (k % 8) & 15));
}

#endif
