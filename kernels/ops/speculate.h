/* Speculative decoding: a request's next tokens are guessed, computed in one step beside its last token, and kept as far as
 * the model itself chooses them. Three control ops: ids and lengths in, decisions out; the engine applies them.
 *
 * draft: proposes up to `wanted` tokens that may follow `ids`: what a draft model guessed, where there is one; else what
 * followed the latest earlier place where the last n of the ids stand, for the largest n from `longest` down to 1 that has
 * such a place (prompt lookup); where it reaches the end it goes round. A draft decides how fast a request goes on, never what it says.
 *
 * accept: how many drafts, from the first on, are what the model chose. chosen[i] is what sample took in the row before
 * draft[i], by the request's own seed and that row's position: the draw that a run without speculation makes. So the
 * answer is the same to the bit.
 *
 * rollback: how many positions of the request hold valid KV after the step: all up to the last accepted draft. Those
 * behind it were computed for tokens that are not the request's.
 */
#ifndef IQ_OPS_SPECULATE_H
#define IQ_OPS_SPECULATE_H

#include <stdint.h>

struct iq_draft {
    uint32_t request, vocab, tokens, wanted;
    uint32_t longest;      /* tokens that are looked up, at most */
    const uint32_t *ids;   /* (tokens) */
    const uint32_t *guess; /* (guesses) of a draft model; NULL: there is none */
    uint32_t guesses;
    uint32_t *drafts; /* found, at most wanted */
    uint32_t *draft;  /* (wanted); behind those that were found UINT32_MAX */
};

struct iq_accept {
    uint32_t request, drafts;
    const uint32_t *draft;  /* (drafts) */
    const uint32_t *chosen; /* (drafts + 1) */
    uint32_t *accepted;     /* 0 to drafts */
};

struct iq_rollback {
    uint32_t request, drafts, accepted;
    uint32_t first;  /* position of the last token that was known before the step; the drafts' follow */
    uint32_t *valid; /* first + 1 to first + 1 + drafts */
};

#endif
