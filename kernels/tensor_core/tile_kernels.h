/* Blocks of products, written once over vector primitives and compiled once per instruction set by the file that includes
 * this after expand.h and
 *   t_set1 t_max t_add16 t_max16    32-bit lanes, or pairs of 16 bits
 *   t_truncate(v)      floats to integers, toward zero
 *   t_toward_zero(v)   integers to floats, rounded toward zero
 *   t_negative(v)      bit l: lane l has its sign bit set
 *   PIECE_V            vectors of outputs side by side
 * N, the products of a block, is a constant where it is used: all loops over it unroll. */
#ifndef IQ_TENSOR_CORE_TILE_KERNELS_H
#define IQ_TENSOR_CORE_TILE_KERNELS_H

enum { EMAX_LOW = -100, EMAX_HIGH = 126, NOTHING = IQ__TC_ZERO / 2 };

/* Per lane the largest exponent of a block's products, biased. */
INLINE vs largest(const int N, const int16_t *x, const int16_t (*w)[IQ_PANEL][2])
{
    vs top;
    UNROLL for (int i = 0; i < N / 2; i++)
    {
        int32_t pair;
        vs e;
        memcpy(&pair, x + 2 * i, sizeof pair);
        memcpy(&e, w[i], sizeof e);
        e = t_add16(t_set1(pair), e);
        top = i ? t_max16(top, e) : e;
    }
    return t_max(top << 16 >> 16, top >> 16);
}

INLINE vs exponent_of_sum(vf c)
{
    vs mag = (vs)c & 0x7fffffff;
    return t_if_equal(mag, 0, IQ__TC_ZERO, t_max(mag >> 23, t_set1(1)));
}

/* Lanes that float32 can't do; emax biased. Where there is nothing but zeros, it can. */
INLINE uint32_t out_of_range(vs emax)
{
    vs high = EMAX_HIGH + IQ__TC_BIAS - emax, low = emax - (EMAX_LOW + IQ__TC_BIAS), some = NOTHING - emax;
    return t_negative(high | (low & some));
}

static __attribute__((noinline)) vf patched(const struct iq__tc_tile *t, uint32_t row, uint32_t column,
                                            uint32_t output, uint32_t lanes, vf c, vf sum)
{
    for (; lanes; lanes &= lanes - 1) {
        int l = __builtin_ctz(lanes);
        sum[l] = iq_bits_f32(iq__tc_exact(t, row, column, output + (uint32_t)l, iq_f32_bits(c[l])));
    }
    return sum;
}

/* One block of a row, for PIECE_V vectors of outputs from `output` on. */
INLINE void block(const int N, const struct iq__tc_tile *t, uint32_t r, uint32_t column, uint32_t output,
                  vf *c)
{
    const float *x = t->x.value + r * t->x.stride + column;
    const int16_t *xe = t->x.exponent + r * t->x.stride + column;
    const int fraction = t->profile->fraction;
    vs emax[PIECE_V];
    vi sum[PIECE_V]; /* unsigned: it wraps in lanes that are done otherwise */
    vf to_unit[PIECE_V];
    UNROLL for (int v = 0; v < PIECE_V; v++)
    {
        const uint32_t j = output + v * VL;
        vs products = largest(N, xe, (const int16_t(*)[IQ_PANEL][2]) & t->w->exponent[column / 2][j]);
        emax[v] = t_max(products, exponent_of_sum(c[v]));
        vs used = t_max(emax[v], t_set1(EMAX_LOW + IQ__TC_BIAS));
        to_unit[v] = (vf)((vi)(2 * IQ__TC_BIAS + fraction - used) << 23); /* 2^(fraction - emax) */
        sum[v] = (vi)t_set1(0);
    }
    /* Below 2^31: 16 * 255^2 * 2^11, 16 * 2047^2 * 2^5. Only the accumulator can make it more. */
    UNROLL for (int i = 0; i < N; i++)
    {
        const vf a = v_set1(x[i]);
        UNROLL for (int v = 0; v < PIECE_V; v++)
        {
            vf product = v_mul(a, v_load(&t->w->value[column + i][output + v * VL]));
            sum[v] += (vi)t_truncate(v_mul(product, to_unit[v]));
        }
    }
    UNROLL for (int v = 0; v < PIECE_V; v++)
    {
        vi acc = (vi)t_truncate(v_mul(c[v], to_unit[v])), all = sum[v] + acc;
        vi overflow = (sum[v] ^ all) & (acc ^ all);
        vf unit = (vf)((2u * IQ__TC_BIAS << 23) - (vi)to_unit[v]);
        vf next = v_mul(t_toward_zero(all), unit);
        uint32_t hard = out_of_range(emax[v]) | t_negative(overflow);
        if (__builtin_expect(hard, 0)) next = patched(t, r, column, output + v * VL, hard, c[v], next);
        c[v] = next;
    }
}

INLINE void blocks(const int N, const struct iq__tc_tile *t)
{
    for (uint32_t r = 0; r < t->rows; r++)
        for (uint32_t output = t->first; output < t->first + IQ__TC_PIECE; output += PIECE_V * VL) {
            float *sum = t->sum + (size_t)r * IQ_PANEL + output;
            vf c[PIECE_V];
            UNROLL for (int v = 0; v < PIECE_V; v++) c[v] = v_load(sum + v * VL);
            for (uint32_t column = 0; column < t->columns; column += N) block(N, t, r, column, output, c);
            UNROLL for (int v = 0; v < PIECE_V; v++) v_store(sum + v * VL, c[v]);
        }
}

static void tile(const struct iq__tc_tile *t)
{
    if (t->profile->products == 8)
        blocks(8, t);
    else
        blocks(16, t);
}

#endif
