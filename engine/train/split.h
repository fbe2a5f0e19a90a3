/* Cuts independent items over the pool. What an item computes never depends on the cut. Internal to engine/train. */
#ifndef IQ_TRAIN_SPLIT_H
#define IQ_TRAIN_SPLIT_H

#include "kernels/exec.h"

/* Does items [begin, end). `part` numbers the thread, for scratch of its own. */
typedef void iq__train_span_fn(const void *ctx, size_t begin, size_t end, int part);

/* cost: of an item, in about nanoseconds; work too small for a meeting of threads is done by the caller alone. */
void iq__train_split(struct iq_exec *, size_t items, double cost, iq__train_span_fn *, const void *ctx);

#endif
