/* Attention over keys that are cut into splits, whose partial results are combined: by families that combine them wrongly, or
 * in another order. On the host. */
#ifndef IQ_SPLIT_ATTENTION_H
#define IQ_SPLIT_ATTENTION_H

#include "kernels/ops/kv.h"

#include <stdbool.h>

struct iq__split_row {
    const struct iq_attention *a;
    const struct iq_seq *seq;
    uint32_t at, first, keys; /* row; its keys lie in [first, keys) */
};

/* Row i of a sequence. */
struct iq__split_row iq__split_row(const struct iq_attention *, const struct iq_seq *, uint32_t i);
/* Whether the row's keys lie in more than one split; splits begin at absolute multiples of `split`. */
bool iq__is_split(const struct iq__split_row *, uint32_t split);

struct iq__split_rule {
    uint32_t split;
    bool unscaled; /* partial sums are added as they are, without a common maximum */
    bool lost;     /* the last split is left out */
};

/* Writes the row's outputs, all heads. part: (head_dim) floats of room. */
void iq__split_attend(const struct iq__split_row *, const struct iq__split_rule *, float *part);

#endif
