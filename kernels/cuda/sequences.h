/* Which sequence a row belongs to. */
#ifndef IQ_CUDA_SEQUENCES_H
#define IQ_CUDA_SEQUENCES_H

#include "kernels/cuda/cuda.h"
#include "kernels/ops/kv.h"

/* The sequence that covers row r, or NULL: the row is padding. Sequences stand in the order of their rows. */
__device__ __forceinline__ const struct iq_seq *iq_seq_of(const struct iq_seq *seq, uint32_t seqs, uint32_t r)
{
    uint32_t lo = 0, hi = seqs; /* the last one that begins at or before r */
    while (lo < hi) {
        uint32_t middle = lo + (hi - lo) / 2;
        if (seq[middle].first <= r)
            lo = middle + 1;
        else
            hi = middle;
    }
    if (lo == 0) return NULL;
    const struct iq_seq *s = &seq[lo - 1];
    return r - s->first < s->rows ? s : NULL;
}

#endif
