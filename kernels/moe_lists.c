#include "kernels/moe_lists.h"

#include <string.h>

void iq_moe_lists(const struct iq_moe_dispatch *a)
{
    uint32_t slots = a->rows * a->k, *first = a->first;
    memset(first, 0, (a->experts + (size_t)1) * sizeof *first);
    for (uint32_t i = 0; i < slots; i++)
        if (a->owner[i] < a->experts) first[a->owner[i] + 1]++;
    for (uint32_t e = 0; e < a->experts; e++) first[e + 1] += first[e];
    for (uint32_t i = 0; i < slots; i++) /* first[e] runs to where expert e ends: */
        if (a->owner[i] < a->experts) a->list[first[a->owner[i]]++] = i;
    memmove(first + 1, first, a->experts * sizeof *first); /* where e + 1 begins */
    first[0] = 0;
}
