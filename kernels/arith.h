/* The arithmetic contract `ieee`: one header for C and for CUDA. Golden bits depend on nothing but this (DESIGN 3).
 *
 * Everything is float32, or named double steps, rounded to nearest even with subnormals kept. A product and a sum are
 * fused only where IQ_FMA or IQ_FMAF is written: C is compiled with -ffp-contract=off, CUDA with -fmad=false
 * -prec-div=true -prec-sqrt=true -ftz=false. All functions are static: a file compiled for another instruction set
 * keeps its own copies, and the linker can't mix them.
 *
 * NaN: a float32 output of an op that is NaN has the bits 0x7fffffff, whatever made it (processors disagree about
 * sign and payload). iq_act_round does that as it rounds. As bf16 or fp16 a NaN is 0x7fff.
 * Signed zero: +0 is larger than -0; what starts a sum is +0, and nothing is added for what isn't there: a chain of fma
 * that starts at +0 can be -0 (a negative product of at most 2^-150 in size rounds to it), which a term of +0 would make +0.
 */
#ifndef IQ_ARITH_H
#define IQ_ARITH_H

#include "kernels/base/device.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define IQ_CONTRACT_VERSION 1

enum {
    IQ_UNIT = 128,       /* columns of K in a unit, where a unit is not one KV group's columns */
    IQ_CHUNK = 128,      /* columns in a chain of fma inside a unit */
    IQ_KEY_CHUNK = 256,  /* keys in an attention chunk, at absolute multiples */
    IQ_VECTOR_LANES = 32 /* strided lanes of a vector sum */
};

/* fma, root: one instruction where the processor has it, libm's correctly rounded function elsewhere. */
#ifdef __CUDA_ARCH__
#define IQ_FMAF(a, b, c) __fmaf_rn(a, b, c)
#define IQ_FMA(a, b, c)  __fma_rn(a, b, c)
#define IQ_SQRTF(a)      __fsqrt_rn(a)
#else
#define IQ_FMAF(a, b, c) fmaf(a, b, c)
#define IQ_FMA(a, b, c)  fma(a, b, c)
#define IQ_SQRTF(a)      sqrtf(a)
#endif

#define IQ_NAN_BITS 0x7fffffffu

/* Columns of a unit of the feed-forward's down projection. A small model's are narrower, so that eight ranks find a unit
 * each; whole blocks of the quantised formats in any case. */
IQ_HD uint32_t iq_ffn_unit(uint32_t ffn)
{
    uint32_t eighth = (ffn + 7) / 8, whole = (eighth + 31) / 32 * 32;
    return whole < IQ_UNIT ? whole : (uint32_t)IQ_UNIT;
}

IQ_HD uint32_t iq_f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

IQ_HD float iq_bits_f32(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

IQ_HD uint64_t iq_f64_bits(double d)
{
    uint64_t u;
    memcpy(&u, &d, sizeof u);
    return u;
}

IQ_HD double iq_bits_f64(uint64_t u)
{
    double d;
    memcpy(&d, &u, sizeof d);
    return d;
}

IQ_HD float iq_nan(void) { return iq_bits_f32(IQ_NAN_BITS); }
IQ_HD float iq_canonical(float f) { return f != f ? iq_nan() : f; }

/* ---- 16-bit floats: nearest even, subnormals kept, NaN -> 0x7fff; widening is exact, NaN -> 0x7fffffff ---- */

IQ_HD uint16_t iq_f32_to_bf16(float f)
{
    uint32_t u = iq_f32_bits(f);
    if (f != f) return 0x7fff;
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >>
                      16); /* a carry out of the significand is the right exponent */
}

IQ_HD float iq_bf16_to_f32(uint16_t h) { return iq_canonical(iq_bits_f32((uint32_t)h << 16)); }

IQ_HD uint16_t iq_f32_to_f16(float f)
{
    uint32_t u = iq_f32_bits(f), sign = u >> 16 & 0x8000u, mag = u & 0x7fffffffu;
    if (mag > 0x7f800000u) return 0x7fff;
    if (mag >= 0x477ff000u)
        return (uint16_t)(sign | 0x7c00u); /* 65520 is half way to 2^16: to even, infinity */
    if (mag < 0x38800000u) {
        /* Below 2^-14 the unit is 2^-24: adding 0.5 leaves |f| in these units, rounded by the adder itself. */
        return (uint16_t)(sign | (iq_f32_bits(iq_bits_f32(mag) + 0.5f) - 0x3f000000u));
    }
    return (uint16_t)(sign | ((mag - 0x38000000u + 0xfffu + (mag >> 13 & 1u)) >> 13));
}

IQ_HD float iq_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, mag = h & 0x7fffu;
    if (mag > 0x7c00u) return iq_nan();
    if (mag == 0x7c00u) return iq_bits_f32(sign | 0x7f800000u);
    if (mag >= 0x400u) return iq_bits_f32(sign | ((mag << 13) + 0x38000000u));
    return iq_bits_f32(sign | iq_f32_bits((float)mag * 0x1p-24f));
}

/* ---- rounding of activations at an op's output ---- */

enum iq_act { IQ_ACT_F32, IQ_ACT_BF16, IQ_ACT_F16 };

/* The value that an op's output stores: rounded to the activation type and widened again; NaN is canonical. */
IQ_HD float iq_act_round(float f, uint32_t act)
{
    if (act == IQ_ACT_BF16) return iq_bf16_to_f32(iq_f32_to_bf16(f));
    if (act == IQ_ACT_F16) return iq_f16_to_f32(iq_f32_to_f16(f));
    return iq_canonical(f);
}

IQ_HD void iq_act_round_row(float *row, size_t n, uint32_t act)
{
    for (size_t i = 0; i < n; i++) row[i] = iq_act_round(row[i], act);
}

/* ---- maximum, sums ---- */

/* NaN if either is NaN (canonical), and +0 above -0: then the maximum of a set does not depend on its order. */
IQ_HD float iq_max(float a, float b)
{
    if (a != a || b != b) return iq_nan();
    if (a == b) return iq_bits_f32(iq_f32_bits(a) & iq_f32_bits(b)); /* equal bits, or the two zeros */
    return a > b ? a : b;
}

/* The vector rule: term i (absolute index) went to lane i % 32, each lane ascending from +0; then lanes i and i + 16
 * are added, i and i + 8, 4, 2, 1. An empty lane holds +0, which changes no bit here: what is summed by this rule (squares,
 * exponentials) is never negative, so that no lane is -0, and x + 0 is x for every other x. */
IQ_HD float iq_fold32(float lane[IQ_VECTOR_LANES])
{
    for (int half = IQ_VECTOR_LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) lane[i] = lane[i] + lane[i + half];
    return lane[0];
}

/* The tree over K halves a list of n: the first half has this many. */
IQ_HD uint32_t iq_tree_left(uint32_t n) { return n - n / 2; }

#include "kernels/arith_math.h"

#endif
