/* The contract's sum over K (DESIGN 3), written to be read. What is fast gives the same bits another way. */
#ifndef IQ_SUM_RULE_H
#define IQ_SUM_RULE_H

#include "kernels/arith.h"

/* No more than one entry per column, and one per unit. */
#define IQ__SUM_ROOM(k) (2 * (k))

/* The tree that halves the list. Depth: log2(n). */
static inline float iq__sum_tree(const float *s, uint32_t n)
{
    if (n == 1) return s[0];
    uint32_t left = iq_tree_left(n);
    return iq__sum_tree(s, left) + iq__sum_tree(s + left, n - left);
}

static inline float iq__sum_chain(const float *x, const float *w, uint32_t k)
{
    float s = 0;
    for (uint32_t i = 0; i < k; i++) s = IQ_FMAF(x[i], w[i], s);
    return s;
}

static inline float iq__sum_unit(const float *x, const float *w, uint32_t k, float *sums)
{
    uint32_t n = 0;
    for (uint32_t k0 = 0; k0 < k; k0 += IQ_CHUNK, n++)
        sums[n] = iq__sum_chain(x + k0, w + k0, k - k0 < IQ_CHUNK ? k - k0 : IQ_CHUNK);
    return iq__sum_tree(sums, n);
}

/* sums: room for IQ__SUM_ROOM(k): the sums of the units, then of the chunks of one. */
static inline float iq__sum_over_k(const float *x, const float *w, uint32_t k, uint32_t unit, float *sums)
{
    uint32_t n = 0, units = (uint32_t)(((uint64_t)k + unit - 1) / unit);
    for (uint64_t k0 = 0; k0 < k; k0 += unit, n++)
        sums[n] = iq__sum_unit(x + k0, w + k0, k - k0 < unit ? (uint32_t)(k - k0) : unit, sums + units);
    return iq__sum_tree(sums, n);
}

#endif
