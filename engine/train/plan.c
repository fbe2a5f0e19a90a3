#include "engine/train/plan.h"

/* Chains of a unit: an empty one has one, too. */
static uint32_t chunks(uint32_t length) { return length > IQ_CHUNK ? iq__ceil_div(length, IQ_CHUNK) : 1; }

uint32_t iq__train_steps(const struct iq_train_product *p)
{
    uint32_t steps = 0;
    if (!p->units) return iq__sum_steps(p->k, p->unit);
    for (uint32_t u = 0; u < p->n_units; u++) steps += chunks(p->units[u]);
    return steps;
}

uint32_t iq__train_levels(const struct iq_train_product *p)
{
    return iq__sum_levels(p->units ? p->n_units * p->unit : p->k, p->unit);
}

void iq__train_plan(const struct iq_train_product *p, struct iq__sum_step *step)
{
    uint32_t k = 0, depth = 0;
    if (!p->units) {
        iq__sum_plan(p->k, p->unit, step);
        return;
    }
    for (uint32_t u = 0; u < p->n_units; u++)
        for (uint32_t c = 0, n = chunks(p->units[u]), left = p->units[u]; c < n; c++, step++) {
            uint32_t width = left < IQ_CHUNK ? left : IQ_CHUNK, pops = iq__nodes_ending_at(c, n);
            if (c == n - 1) pops += iq__nodes_ending_at(u, p->n_units);
            *step = (struct iq__sum_step){k, width, (uint16_t)depth, (uint16_t)pops};
            depth += 1 - pops;
            k += width;
            left -= width;
        }
}
