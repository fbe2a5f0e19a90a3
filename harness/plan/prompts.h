/* Prompts: what a run asks, from a JSON-lines file, one text, or a recorded run.
 *
 * A line is {"id": "q1", "messages": [{"role": "user", "content": "..."}]}, or "prompt" (raw text: no template), or
 * "ids" (token ids), with optional max_tokens, seed, temperature, top_k, top_p, min_p, session, arrive_ms, ignore_stop,
 * expect (the exact answer), bad_words, allowed (prompt_words.h), adapter (a name), cancel_after (the caller goes away after so
 * many tokens, prompt included), truncate (a longer prompt loses its oldest tokens) and tenant (whose it is: prefixes are not
 * shared between tenants). Unknown fields are errors. Ids are unique.
 * Near ties (harness/canary/ties.h) have "tie" too: what golden does with this model. It changes nothing of a run.
 * Life cycle: read the lines, then tokenise with a model. Ownership: iq_prompts_free frees all; requests borrow from it.
 */
#ifndef IQ_HARNESS_PROMPTS_H
#define IQ_HARNESS_PROMPTS_H

#include "harness/plan/adapters.h"
#include "harness/plan/prompt_words.h"

#include "engine/engine.h"

/* What a line leaves unsaid. */
struct iq_prompt_defaults {
    uint32_t max_tokens;
    double temperature, top_p, min_p;
    uint64_t top_k, seed;
    bool raw;   /* a chat model without a usable template: messages are refused, --prompt is raw text */
    bool score; /* score prompts instead of generating */
};

/* Where golden's two best tokens are nearly equal. */
struct iq_prompt_tie {
    struct iq_ids ids; /* golden's answer up to the tie, its token included; none: the prompt has no tie */
    uint32_t rival;    /* the token that it would be instead */
    float margin;      /* its logit is so much less */
    char model[IQ_SHA256_HEX]; /* whose tie it is */
};

struct iq_prompt {
    char *id, *params;   /* params: canonical JSON of what follows */
    cJSON *messages;     /* or NULL */
    char *text;          /* raw text, or NULL */
    struct iq_ids ids;   /* token ids: given, or after tokenising */
    struct iq_ids parts; /* where its messages begin, after tokenising */
    struct iq_request request;
    struct iq_prompt_words words; /* what the answer may be */
    char *adapter;                /* its name, or NULL */
    char *expect;                 /* or NULL */
    struct iq_prompt_tie tie;
};

struct iq_prompts {
    struct iq_prompt *prompt;
    uint32_t n;
    size_t cap;
    struct iq_adapters adapters; /* that requests may name; opened as the prompts are tokenised */
    struct iq_request *request;  /* (n) after tokenising */
};

int iq_prompts_read(const char *path, const struct iq_prompt_defaults *, struct iq_prompts *,
                    struct iq_err *err);
/* Lines that are parsed already, as a list of objects, which is used up: their messages move into the prompts. */
int iq_prompts_list(cJSON *list, const char *where, const struct iq_prompt_defaults *, struct iq_prompts *,
                    struct iq_err *err);
/* One prompt by text: a chat question, or raw text when defaults->raw or defaults->score. */
int iq_prompts_one(const char *text, const struct iq_prompt_defaults *, struct iq_prompts *,
                   struct iq_err *err);
/* One of a recorded run: token ids and the params that this module wrote then. */
int iq_prompts_recorded(const char *id, const char *params, const uint32_t *ids, uint32_t n,
                        struct iq_prompts *, struct iq_err *err);
/* Token ids of every prompt, the adapters, and the requests. */
int iq_prompts_tokenize(struct iq_prompts *, const struct iq_model *, struct iq_err *err);
void iq_prompts_free(struct iq_prompts *);
/* Over ids, tokens and params, in order: what makes two prompt sets the same. */
struct iq_digest iq_prompts_digest(const struct iq_prompts *);

#endif
