/* The rules of sampling (kernels/ops/sampling.h) that are formulas: shared by the reference and the fast
 * variants. */
#ifndef IQ_CPU_SAMPLE_RULES_H
#define IQ_CPU_SAMPLE_RULES_H

#include "kernels/arith.h"
#include "kernels/base/rng.h"
#include "kernels/base/status.h"
#include "kernels/ops/sampling.h"

#include <stdbool.h>

typedef unsigned __int128 iq_u128;

#define IQ_SAMPLE_ONE 0x1p40 /* the weight of the largest logit */

IQ_HD uint64_t iq__sample_weight(float logit, float max)
{
    if (logit == max) return (uint64_t)IQ_SAMPLE_ONE; /* also where both are infinite */
    return (uint64_t)(IQ_SAMPLE_ONE * iq_exp_double((double)logit - (double)max));
}

/* A probability in units of 2^-32: floor, clamped to [0, 1]; NaN as 0. */
IQ_HD uint64_t iq__sample_fixed(float p)
{
    return p >= 1.0f ? (uint64_t)1 << 32 : p > 0.0f ? (uint64_t)((double)p * 0x1p32) : 0;
}

/* min-p: the least weight that stays; the largest weight is 2^40. */
IQ_HD uint64_t iq__sample_least(float min_p) { return iq__sample_fixed(min_p) << 8; }

/* top-p: a token stays while the sum of the weights before it, times 2^32, is below this. Off at 1 (and for
 * NaN, which is no probability): everything stays. At 0 one token stays. */
IQ_HD iq_u128 iq__sample_limit(float top_p, uint64_t total)
{
    iq_u128 limit = (iq_u128)(top_p < 1.0f ? iq__sample_fixed(top_p) : (uint64_t)1 << 32) * total;
    return limit ? limit : 1;
}

/* The point in [0, total) that the row's draw falls on. */
IQ_HD uint64_t iq__sample_point(uint64_t seed, uint32_t pos, uint64_t total)
{
    return (uint64_t)((iq_u128)iq_draw(seed, pos, IQ_DRAW_SAMPLE) * total >> 64);
}

/* Checks the row's candidates and settles a greedy row. */
IQ_HD int iq__sample_begin(const struct iq_sample *a, uint32_t r, bool *greedy)
{
    const uint32_t *ids = a->ids + (size_t)r * a->k;
    *greedy = !(a->temperature[r] > 0.0f);
    if (a->top_k[r] > a->k) return IQ_SHAPE;
    uint32_t n = *greedy ? 1 : a->top_k[r];
    if (n > a->k || a->vocab == 0) return IQ_NOT_FOUND;
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] >= a->vocab) return IQ_MISMATCH;
    if (!*greedy) return IQ_OK;
    float best = a->values[(size_t)r * a->k];
    if (best != best) return IQ_NOT_FOUND;
    a->token[r] = ids[0];
    return IQ_OK;
}

#endif
