/* Control ops over requests: the token ids that the model sees of a prompt, the pool of engines that serves it, what its
 * KV may be shared with, and who rides in a step. Plain numbers in, decisions out; the engine applies them. */
#ifndef IQ_OPS_REQUESTS_H
#define IQ_OPS_REQUESTS_H

#include "kernels/base/digest.h"

struct iq_sampling {
    uint64_t seed;
    float temperature, top_p, min_p;
    uint32_t top_k;
};

/* The prompt as the model sees it. Longer than `truncate` (0: no limit) it loses its oldest tokens, but not its first
 * `special` ones; it samples as the request asked. */
struct iq_assemble {
    uint32_t request;
    uint32_t n;             /* tokens of the prompt, at least 1 */
    uint32_t special;       /* tokens before its first message: the beginning of a sequence ... */
    const uint32_t *prompt; /* (n) */
    const uint32_t *part;   /* (parts) where its messages begin, ascending */
    uint32_t parts;
    uint32_t truncate; /* more than `special` */
    struct iq_sampling asked;
    uint32_t *ids, *n_ids; /* (n); what is not used is UINT32_MAX */
    struct iq_sampling *sampling;
};

/* The pool that serves a request: pool 0, or pool 1, whose position settings are made for long contexts, from more than
 * `limit` tokens on. */
struct iq_place {
    uint32_t request, session;
    uint32_t tokens; /* prompt and answer, at most */
    uint32_t pools, limit;
    uint32_t *pool; /* below `pools` */
};

/* What K and V depend on beside the tokens before them; all zero: nothing of its kind. */
enum {
    IQ_IDENTITY_WEIGHTS,
    IQ_IDENTITY_CONTRACT,
    IQ_IDENTITY_POSITIONS,
    IQ_IDENTITY_ADAPTER,
    IQ_IDENTITY_TENANT,
    IQ_IDENTITY_PARTS
};

/* The root of a request's prefix keys: over all parts, so that KV is shared between equals only. */
struct iq_identity {
    uint32_t request;
    struct iq_digest part[IQ_IDENTITY_PARTS];
    struct iq_digest *root;
};

struct iq_form_seat {
    uint32_t request, session;
    uint32_t lacking; /* tokens that it may take in this step */
    uint32_t zero;
    uint64_t arrive_us;
};
struct iq_form_pick {
    uint32_t seat, tokens; /* index; most tokens of the step that it gets */
};

/* Who rides in a step, in which order, and with how many tokens: of the running requests, then (joining) of those that
 * wait. Both stand in order of admission or arrival, and are taken so while the budget lasts; who joins may have what is
 * left, since a prefix hit may spare it tokens. */
struct iq_form {
    uint32_t joining; /* 0 or 1 */
    uint32_t n, budget;
    const struct iq_form_seat *seat; /* (n) */
    struct iq_form_pick *pick;       /* (n); those not used are UINT32_MAX, 0 */
};

#endif
