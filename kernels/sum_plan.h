/* The contract's sum over K as a stack program: a list of chunks in ascending k; after each chunk's chain of fma, `pops`
 * additions of what lies on the stack (left operand) to the chunk's sum (right operand), then a push. The last push is
 * the result. K is units, a unit is chunks of IQ_CHUNK; both lists are folded by the tree that halves (arith.h). */
#ifndef IQ_SUM_PLAN_H
#define IQ_SUM_PLAN_H

#include <stdint.h>

struct iq__sum_step {
    uint32_t k0, kc;      /* the chunk: columns k0 .. k0 + kc */
    uint16_t depth, pops; /* entries on the stack before the chunk; additions after it */
};

/* Steps of a sum over k columns. k and unit at least 1. */
uint32_t iq__sum_steps(uint32_t k, uint32_t unit);
void iq__sum_plan(uint32_t k, uint32_t unit, struct iq__sum_step *steps);
/* Entries that the stack never exceeds. */
uint32_t iq__sum_levels(uint32_t k, uint32_t unit);

#endif
