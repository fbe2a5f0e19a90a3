#include "kernels/sum_plan.h"
#include "kernels/arith.h"

static uint32_t ceil_div(uint32_t a, uint32_t b) { return a / b + (a % b != 0); }
static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* In the tree over n leaves: how many nodes are complete once leaf i is, that is, end with it. They are the turns to the
 * right that end the way from the root to the leaf. */
static uint32_t nodes_ending_at(uint32_t i, uint32_t n)
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

uint32_t iq__sum_steps(uint32_t k, uint32_t unit)
{
    return k / unit * ceil_div(unit, IQ_CHUNK) + ceil_div(k % unit, IQ_CHUNK);
}

/* A tree over n leaves holds at most one open left sibling per level, and the newest sum. */
static uint32_t tree_depth(uint32_t n)
{
    uint32_t depth = 0;
    while (n > 1) n = iq_tree_left(n), depth++;
    return depth;
}

uint32_t iq__sum_levels(uint32_t k, uint32_t unit)
{
    return tree_depth(ceil_div(k, unit)) + tree_depth(ceil_div(smaller(unit, k), IQ_CHUNK)) + 1;
}

void iq__sum_plan(uint32_t k, uint32_t unit, struct iq__sum_step *step)
{
    uint32_t units = ceil_div(k, unit), depth = 0;
    for (uint32_t u = 0; u < units; u++) {
        uint32_t begin = u * unit, width = smaller(unit, k - begin), chunks = ceil_div(width, IQ_CHUNK);
        for (uint32_t c = 0; c < chunks; c++) {
            uint32_t pops = nodes_ending_at(c, chunks);
            if (c == chunks - 1) pops += nodes_ending_at(u, units);
            *step++ = (struct iq__sum_step){begin + c * IQ_CHUNK, smaller(IQ_CHUNK, width - c * IQ_CHUNK),
                                            (uint16_t)depth, (uint16_t)pops};
            depth += 1 - pops;
        }
    }
}
