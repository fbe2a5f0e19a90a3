/* topk and sample.
 *
 * topk: the k largest logits of each row, descending, ties by ascending id. NaN logits sort last. Vocabulary is cut
 * into `shards` equal parts (tensor-parallel ranks); golden's result does not depend on it.
 * sample: greedy (temperature 0) takes candidate 0. Otherwise integers decide: w = floor(2^40 * E(l - max)) with E the
 * pinned double exp, over the candidates if top_k > 0, else over the whole row; min-p and top-p cut by weight (ties by
 * ascending id); the draw is Philox(seed, position, sample) scaled to the sum of what is left.
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
