/* Operands decoded, written once over vector primitives and compiled once per instruction set by the file that includes
 * this after a vec_ISA.h and
 *   v_half(p)        VL halves at p, as floats
 *   v_round_f16(v)   floats rounded to half precision, nearest even, NaN stays NaN
 *   t_set1(i) t_max(a, b)        32-bit lanes
 *   t_if_equal(x, y, i, e)       i where x == y, else e; y and i are numbers
 *   t_if_nan(v, i, e)            i where v is NaN, else e
 */
#ifndef IQ_TENSOR_CORE_EXPAND_H
#define IQ_TENSOR_CORE_EXPAND_H

#include "kernels/arith.h"
#include "kernels/tensor_core/tile.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

typedef int32_t vs __attribute__((vector_size(4 * VL)));
typedef int16_t v16 __attribute__((vector_size(2 * VL), aligned(2), may_alias));

INLINE vf rounded(const int format, vf v)
{
    if (format == IQ_TC_F16) return v_round_f16(v);
    vi u = (vi)v, r = (u + 0x7fffu + (u >> 16 & 1u)) & 0xffff0000u;
    return (vf)t_if_nan(v, 0x7fff0000, r);
}

/* Biased as float32's; a subnormal operand has its format's least exponent. */
INLINE vs exponents(const int format, vf v)
{
    const int least = format == IQ_TC_F16 ? IQ__TC_BIAS - 14 : 1;
    vs mag = (vs)v & 0x7fffffff, stored = mag >> 23, e = t_max(stored, t_set1(least));
    return t_if_equal(mag, 0, IQ__TC_ZERO, t_if_equal(stored, 255, IQ__TC_SPECIAL, e));
}

INLINE void decode_row(const int format, const float *x, uint32_t n, uint32_t room, float *value,
                       int16_t *exponent)
{
    for (uint32_t i = 0; i < room; i += VL) { /* room is a multiple of 8 */
        float in[VL] = {0}, out[VL];
        const uint32_t here = room - i < VL ? room - i : VL;
        int16_t e[VL];
        if (i < n) memcpy(in, x + i, (n - i < VL ? n - i : VL) * sizeof *in);
        vf v = rounded(format, v_load(in));
        v_store(out, v);
        *(v16 *)e = __builtin_convertvector(exponents(format, v) - IQ__TC_BIAS, v16);
        memcpy(value + i, out, here * sizeof *out);
        memcpy(exponent + i, e, here * sizeof *e);
    }
}

static void row(enum iq_tc_format format, const float *x, uint32_t n, uint32_t room, float *value,
                int16_t *exponent)
{
    if (format == IQ_TC_F16)
        decode_row(IQ_TC_F16, x, n, room, value, exponent);
    else
        decode_row(IQ_TC_BF16, x, n, room, value, exponent);
}

/* ---- weights: a piece of the panel's outputs, as the file's exact values (matrix.h says how they lie) ---- */

typedef float piece[IQ_PANEL]; /* a column of struct iq__tc_weights, from the piece's first output on */
enum { EACH = IQ__TC_PIECE, QUANT = 32, EACH_V = EACH / VL };
typedef int8_t v8 __attribute__((vector_size(VL), aligned(1), may_alias));

INLINE void halves(const uint8_t *p, vf *out)
{
    UNROLL for (int v = 0; v < EACH_V; v++) out[v] = v_half((const uint16_t *)p + v * VL);
}

/* q of column k of 32, of the v-th outputs; `q` stands at the first output's nibbles of the block. */
INLINE vs nibble(const uint8_t *q, int k, int v)
{
    return (vs)(v_loadi(q + 4 * (k / 8 * IQ_PANEL + v * VL)) >> 4 * (k % 8) & 15u);
}

INLINE vf number(vs i) { return __builtin_convertvector(i, vf); }

static void expand_f32(const uint8_t *p, uint32_t n, uint32_t first, piece *out)
{
    for (uint32_t k = 0; k < n; k++) memcpy(out[k], p + 4 * (k * IQ_PANEL + first), sizeof(float[EACH]));
}

static void expand_f16(const uint8_t *p, uint32_t n, uint32_t first, piece *out)
{
    vf h[EACH_V];
    for (uint32_t k = 0; k < n; k++) {
        halves(p + 2 * (k * IQ_PANEL + first), h);
        UNROLL for (int v = 0; v < EACH_V; v++) v_store(out[k] + v * VL, h[v]);
    }
}

static void expand_bf16(const uint8_t *p, uint32_t n, uint32_t first, piece *out)
{
    for (uint32_t k = 0; k < n; k++) {
        const uint8_t *d = p + 4 * (k / 2 * IQ_PANEL + first);
        const uint32_t up = k % 2 ? 0 : 16;
        UNROLL for (int v = 0; v < EACH_V; v++)
            v_store(out[k] + v * VL, (vf)(v_loadi(d + 4 * v * VL) << up & 0xffff0000u));
    }
}

static void expand_q8_0(const uint8_t *p, uint32_t n, uint32_t first, piece *out)
{
    vf d[EACH_V];
    for (; n; n -= QUANT, p += 34 * IQ_PANEL, out += QUANT) {
        halves(p + 2 * first, d);
        for (int k = 0; k < QUANT; k++) {
            const uint8_t *q = p + (2 + k) * IQ_PANEL + first;
            UNROLL for (int v = 0; v < EACH_V; v++)
                v_store(out[k] + v * VL, v_mul(d[v], __builtin_convertvector(*(const v8 *)(q + v * VL), vf)));
        }
    }
}

static void expand_q4_0(const uint8_t *p, uint32_t n, uint32_t first, piece *out)
{
    vf d[EACH_V];
    for (; n; n -= QUANT, p += 18 * IQ_PANEL, out += QUANT) {
        halves(p + 2 * first, d);
        for (int k = 0; k < QUANT; k++)
            UNROLL for (int v = 0; v < EACH_V; v++)
                v_store(out[k] + v * VL, v_mul(d[v], number(nibble(p + 2 * IQ_PANEL + 4 * first, k, v) - 8)));
    }
}

static void expand_q4_1(const uint8_t *p, uint32_t n, uint32_t first, piece *out)
{
    vf d[EACH_V], m[EACH_V];
    for (; n; n -= QUANT, p += 20 * IQ_PANEL, out += QUANT) {
        halves(p + 2 * first, d);
        halves(p + 2 * (IQ_PANEL + first), m);
        for (int k = 0; k < QUANT; k++)
            UNROLL for (int v = 0; v < EACH_V; v++) v_store(
                out[k] + v * VL, v_fma(number(nibble(p + 4 * IQ_PANEL + 4 * first, k, v)), d[v], m[v]));
    }
}

static void (*const expand[IQ_FORMATS])(const uint8_t *, uint32_t, uint32_t, piece *) = {
    [IQ_F32] = expand_f32,   [IQ_F16] = expand_f16,   [IQ_BF16] = expand_bf16,
    [IQ_Q8_0] = expand_q8_0, [IQ_Q4_0] = expand_q4_0, [IQ_Q4_1] = expand_q4_1};

/* Rounds the values in place and finds their exponents. */
INLINE void decode_weights(const int format, uint32_t columns, uint32_t first, struct iq__tc_weights *w)
{
    for (uint32_t k = 0; k < columns; k += 2)
        for (uint32_t j = first; j < first + EACH; j += VL) {
            vf even = rounded(format, v_load(&w->value[k][j])),
               odd = rounded(format, v_load(&w->value[k + 1][j]));
            v_store(&w->value[k][j], even);
            v_store(&w->value[k + 1][j], odd);
            vs pair = (exponents(format, even) & 0xffff) | exponents(format, odd) << 16;
            memcpy(w->exponent[k / 2][j], &pair, sizeof pair);
        }
}

static void weights(enum iq_tc_format format, enum iq_format stored, const uint8_t *columns, uint32_t n,
                    uint32_t room, uint32_t first, struct iq__tc_weights *w)
{
    expand[stored](columns, n, first, (piece *)&w->value[0][first]);
    for (uint32_t k = n; k < room; k++) memset(&w->value[k][first], 0, sizeof(float[EACH]));
    if (format == IQ_TC_F16)
        decode_weights(IQ_TC_F16, room, first, w);
    else
        decode_weights(IQ_TC_BF16, room, first, w);
}

#endif
