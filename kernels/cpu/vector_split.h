/* Splits element-wise and row-wise work over the pool. Internal to kernels/cpu. */
#ifndef IQ_CPU_VECTOR_SPLIT_H
#define IQ_CPU_VECTOR_SPLIT_H

#include "kernels/exec.h"

/* Does columns [from, to) of row r. */
typedef void iq__span_fn(const void *args, uint32_t r, uint32_t from, uint32_t to);

/* Covers (rows, n) with spans; a span starts at a multiple of `piece` columns and ends at the next one or at n.
 * From `worth` elements on the pool shares them, below it the calling thread does them all. */
void iq__vector_split(struct iq_exec *x, uint32_t rows, uint32_t n, uint32_t piece, uint64_t worth,
                      iq__span_fn *span, const void *args);

#endif
