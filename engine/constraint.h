/* What a request may generate: texts that it must not contain, and texts of which its answer is one.
 *
 * Both are over token ids. A bad word of one token is never chosen; of a longer one the last token is not chosen where the
 * ones before it stand at the end of what was generated. `allowed` is a list of answers, read as a trie: what was generated
 * is the beginning of one, and the next token goes on in it. Where an answer is complete the request may end by any token
 * that ends a generation; where none is longer it has ended.
 * Ownership: everything is the caller's. Constant.
 */
#ifndef IQ_ENGINE_CONSTRAINT_H
#define IQ_ENGINE_CONSTRAINT_H

#include "engine/text/tokenizer.h"

struct iq_words {
    const uint32_t *ids; /* those of word i begin at first[i] and end before first[i + 1] */
    const uint32_t *first;
    uint32_t n;
};

struct iq_constraint {
    struct iq_words bad, allowed; /* n 0: none */
};

/* Whether there is an answer that goes on after the tokens that were generated. Without `allowed`: true. */
bool iq_constraint_open(const struct iq_constraint *, const uint32_t *generated, uint32_t n);
/* Sets the bits (iq_mask_words(vocab)) of the tokens that may follow, and returns how many there are. */
uint32_t iq_constraint_allow(const struct iq_constraint *, const struct iq_tokenizer *,
                             const uint32_t *generated, uint32_t n, uint32_t vocab, uint64_t *allow);

#endif
