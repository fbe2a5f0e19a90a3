/* What every run keeps of a row of logits, whatever its level: the best IQ_TOP, the margin between the first two, and the
 * probability mass outside them. It reads the row itself: the top-k op may be the one that is wrong. */
#ifndef IQ_SUMMARY_H
#define IQ_SUMMARY_H

#include "kernels/base/cell.h"

/* Fills top_id, top_logit (descending, ties by id; a NaN is never among them; with fewer than IQ_TOP entries the rest stays
 * as it is), margin and tail (a measure, within 4e-6, the same bits with every instruction set; no digest holds it). */
void iq_logits_summary(const float *logits, uint32_t vocab, struct iq_position *);

/* With one instruction set. */
typedef void iq__logits_summary_fn(const float *logits, uint32_t vocab, struct iq_position *);
iq__logits_summary_fn iq__logits_summary_scalar, iq__logits_summary_avx2, iq__logits_summary_avx512;

#endif
