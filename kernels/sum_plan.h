/* The contract's sum over K as a stack program: a list of chunks in ascending k; after each chunk's chain of fma, `pops`
 * additions of what lies on the stack (left operand) to the chunk's sum (right operand), then a push. The last push is
 * the result. K is units, a unit is chunks of IQ_CHUNK; both lists are folded by the tree that halves (arith.h). */
#ifndef IQ_SUM_PLAN_H
#define IQ_SUM_PLAN_H

#include "kernels/arith.h"

struct iq__sum_step {
    uint32_t k0, kc;      /* the chunk: columns k0 .. k0 + kc */
    uint16_t depth, pops; /* entries on the stack before the chunk; additions after it */
};

IQ_HD uint32_t iq__ceil_div(uint32_t a, uint32_t b) { return a / b + (a % b != 0); }

/* In the tree over n leaves: how many nodes are complete once leaf i is, that is, end with it. They are the turns to the
 * right that end the way from the root to the leaf. */
IQ_HD uint32_t iq__nodes_ending_at(uint32_t i, uint32_t n)
{
    uint32_t nodes = 0;
    while (n > 1) {
        uint32_t left = iq_tree_left(n);
        if (i < left) {
            n = left;
            nodes = 0;
        } else {
            i -= left;
            n -= left;
            nodes++;
        }
    }
    return nodes;
}

/* Steps of a sum over k columns. k and unit at least 1. */
IQ_HD uint32_t iq__sum_steps(uint32_t k, uint32_t unit)
{
    return k / unit * iq__ceil_div(unit, IQ_CHUNK) + iq__ceil_div(k % unit, IQ_CHUNK);
}

/* Step number s on its own; its depth, which is a sum over the steps before it, is 0. */
IQ_HD struct iq__sum_step iq__sum_step_at(uint32_t k, uint32_t unit, uint32_t s)
{
    uint32_t full = iq__ceil_div(unit, IQ_CHUNK), u = s / full, c = s % full, begin = u * unit;
    uint32_t width = unit < k - begin ? unit : k - begin, chunks = iq__ceil_div(width, IQ_CHUNK);
    uint32_t rest = width - c * IQ_CHUNK, chunk = IQ_CHUNK, pops = iq__nodes_ending_at(c, chunks);
    if (c == chunks - 1) pops += iq__nodes_ending_at(u, iq__ceil_div(k, unit));
    struct iq__sum_step step = {begin + c * IQ_CHUNK, rest < chunk ? rest : chunk, 0, (uint16_t)pops};
    return step;
}

#ifdef __cplusplus
extern "C" {
#endif
void iq__sum_plan(uint32_t k, uint32_t unit, struct iq__sum_step *steps);
/* Entries that the stack never exceeds. */
uint32_t iq__sum_levels(uint32_t k, uint32_t unit);
#ifdef __cplusplus
}
#endif

#endif
