/* Near ties: prompts at whose end a model's two best tokens are nearly equal, found by search.
 *
 * What decisive answers hide (another order of a sum, another precision, a slightly other weight) turns such an answer, or at
 * least moves its margin. Candidates are drawn off the distribution (golden/canary/canary.h, odd prompts), each behind a front of
 * whole questions, and run golden; a prompt is cut where its margin is smallest. Then the search narrows. A round changes
 * single tokens of a tie's front, each of which moves the margin a little, and then tries those changes together whose effects
 * should take the margin to nothing. The narrowest of all stays. A tie is at the first token of an answer (computed
 * with the prompt) or at a later one (computed by itself), where all before it are decided clearly. Each kind of prompt and
 * place keeps as many.
 *
 * The result is a function of model, seed and numbers alone: golden margins depend on no batch, thread or device.
 * Ownership: iq_ties_free frees. Errors: the engine's; IQ_USAGE for a model whose context is too short.
 */
#ifndef IQ_HARNESS_TIES_H
#define IQ_HARNESS_TIES_H

#include "golden/canary/canary.h"
#include "harness/plan/settings.h"

struct iq_tie_search {
    uint32_t count, candidates, rounds, max_tokens; /* max_tokens: of an answer, the tie's included */
    uint64_t seed;
    float max_margin; /* narrowed until as many as are wanted are at most this wide */
};

struct iq_tie {
    float margin; /* of golden's token over the rival */
    enum iq_canary_odd kind;
    bool later;                  /* not at the answer's first token */
    uint32_t index;              /* of the candidate that it came from */
    uint32_t *ids;               /* (n) all tokens in front of the tie: the prompt, then the answer so far */
    uint32_t n, n_prompt, front; /* front: of the prompt's tokens, those that narrowing may change */
    uint32_t best, rival;        /* golden's token at the tie, and the one that it would be instead */
};

struct iq_ties {
    struct iq_tie *tie; /* (n) by kind, place and candidate */
    uint32_t n;
};

int iq_ties_search(const struct iq_model *, const struct iq_settings *, const struct iq_tie_search *,
                   struct iq_ties *, struct iq_err *err);
void iq_ties_free(struct iq_ties *);
/* As JSON lines, which plan/prompts.h reads. IQ_MEMORY. */
int iq_ties_write(const struct iq_ties *, const struct iq_model *, struct iq_buf *, struct iq_err *err);

#endif
