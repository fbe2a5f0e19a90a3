/* mask: logits of the tokens that a request forbids become -infinity. Between lm_head and temper, only in steps in which a
 * row has a mask, and only in runs in which a request may have one. */
#ifndef IQ_OPS_MASK_H
#define IQ_OPS_MASK_H

#include <stddef.h>
#include <stdint.h>

struct iq_mask {
    uint32_t rows, n;
    const float *x; /* (rows, n) */
    /* (rows) a bit per token, which may be chosen where it is set: bit t % 64 of word t / 64. NULL: all may. */
    const uint64_t *const *allow;
    float *y;
    size_t ldx, ldy; /* row strides, floats */
};

static inline uint32_t iq_mask_words(uint32_t n) { return (n + 63) / 64; }

static inline int iq_mask_allows(const uint64_t *allow, uint32_t token)
{
    return !allow || (allow[token / 64] >> token % 64 & 1);
}

#endif
