/* prefix: which cached KV blocks may serve the head of a prompt. A control op: hashes and lengths in, block ids out;
 * the engine applies the decision. A block's key is the chained digest of all tokens up to its end together with the
 * model, adapter and position settings. */
#ifndef IQ_OPS_PREFIX_H
#define IQ_OPS_PREFIX_H

#include "kernels/base/digest.h"

struct iq_prefix_entry {
    struct iq_digest key; /* all zero: free slot */
    uint32_t block, used; /* used: tick of last use */
};

struct iq_prefix {
    uint32_t request, tokens;    /* prompt length */
    uint32_t wanted;             /* whole blocks that may be reused: at least one token is always computed */
    const struct iq_digest *key; /* (wanted) of the prompt's blocks, in order */
    /* An open-addressed table of `capacity` (a power of two) slots, probed linearly from key.lo. */
    const struct iq_prefix_entry *entry;
    uint32_t capacity;
    uint32_t *hits;   /* blocks found: a leading run */
    uint32_t *blocks; /* (wanted) their ids; the rest is set to UINT32_MAX */
};

#endif
