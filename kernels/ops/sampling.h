/* topk and sample.
 *
 * topk: the k largest logits of each row, descending, ties by ascending id. NaN sorts last; -0 and +0 are
 * one value, so that their ids decide; values keep the bits of logits (NaN canonical). The row is cut
 * into `shards` equal parts (tensor-parallel ranks); golden does not depend on it. IQ_SHAPE: k > vocab.
 *
 * sample: greedy (temperature not above 0) takes candidate 0. Otherwise integers decide, in this order:
 *   set     the first top_k candidates, or the whole row where top_k is 0
 *   weight  w = 2^40 where the logit is the set's largest, 0 where it is NaN, else floor(2^40 * E(logit -
 *           largest)), the difference in double, E the pinned double exp (iq_exp_double)
 *   min_p   w stays if w >= floor(min_p * 2^32) * 2^8
 *   top_p   what is left, w descending, ties by ascending id: a token stays if the sum of the weights before
 *           it, times 2^32, is below floor(top_p * 2^32) times the sum that min_p left; the first stays
 *   draw    point = high half of Philox(seed, pos, sample)'s 64 bits times the sum of what is left; by
 *           ascending id, the first token at which the running sum exceeds the point
 * min_p and top_p are clamped to [0, 1]; top_p NaN is off, as is 1; min_p NaN is 0. The order of filters is
 * vLLM's (min_p and top_k commute). A row that can't be drawn gets token UINT32_MAX, and after all rows
 * the first failure is returned: IQ_NOT_FOUND: no candidate, or nothing but NaN. IQ_SHAPE: top_k > k.
 * IQ_MISMATCH: a candidate's id is not below vocab.
 */
#ifndef IQ_OPS_SAMPLING_H
#define IQ_OPS_SAMPLING_H

#include <stddef.h>
#include <stdint.h>

struct iq_topk {
    uint32_t rows, vocab, k, shards; /* k <= vocab */
    const float *logits;             /* (rows, vocab), row stride ld */
    size_t ld;
    uint32_t *ids; /* (rows, k) */
    float *values; /* (rows, k) */
};

struct iq_sample {
    uint32_t rows, vocab, k;
    const float *logits; /* (rows, vocab), tempered, row stride ld */
    size_t ld;
    const uint32_t *ids; /* (rows, k) candidates of topk */
    const float *values; /* (rows, k) */
    const uint32_t *pos; /* (rows) position that predicts */
    const uint64_t *seed;
    const float *temperature, *top_p, *min_p; /* (rows); top_p 1 and min_p 0 are off */
    const uint32_t *top_k;                    /* (rows); 0: off; otherwise <= k */
    uint32_t *token;                          /* (rows) */
};

#endif
