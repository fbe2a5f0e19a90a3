/* The lists of a dispatch to experts: what follows from the owners of all slots. Internal to kernels and faults. */
#ifndef IQ_MOE_LISTS_H
#define IQ_MOE_LISTS_H

#include "kernels/ops/moe.h"

/* Fills a->first and a->list from a->owner: a counting sort, so that an expert's slots stand by ascending row. An owner
 * that is no expert of the layer has no list. */
void iq_moe_lists(const struct iq_moe_dispatch *a);

#endif
