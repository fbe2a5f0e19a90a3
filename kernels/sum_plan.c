#include "kernels/sum_plan.h"

/* A tree over n leaves holds at most one open left sibling per level, and the newest sum. */
static uint32_t tree_depth(uint32_t n)
{
    uint32_t depth = 0;
    while (n > 1) n = iq_tree_left(n), depth++;
    return depth;
}

uint32_t iq__sum_levels(uint32_t k, uint32_t unit)
{
    return tree_depth(iq__ceil_div(k, unit)) + tree_depth(iq__ceil_div(unit < k ? unit : k, IQ_CHUNK)) + 1;
}

void iq__sum_plan(uint32_t k, uint32_t unit, struct iq__sum_step *step)
{
    uint32_t steps = iq__sum_steps(k, unit), depth = 0;
    for (uint32_t s = 0; s < steps; s++) {
        step[s] = iq__sum_step_at(k, unit, s);
        step[s].depth = (uint16_t)depth;
        depth += 1 - step[s].pops;
    }
}
