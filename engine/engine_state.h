/* Inside the engine: its state, shared by opening (open.c) and stepping (engine.c). */
#ifndef IQ_ENGINE_ENGINE_STATE_H
#define IQ_ENGINE_ENGINE_STATE_H

#include "engine/drafter.h"
#include "engine/engine.h"
#include "engine/forward.h"
#include "engine/recorder.h"
#include "engine/schedule.h"
#include "engine/upload.h"

struct iq_engine {
    struct iq_engine_config config;
    const struct iq_model *model;
    struct iq_cuda *cuda;    /* NULL: ops run on the CPU */
    struct iq_upload upload; /* the model there; where the weights change, a copy here that is written */
    const struct iq_request *request;
    uint32_t n;
    struct iq_pool *pool;
    struct iq_slots *slots, *control_slots;
    struct iq_control control;
    struct iq_uses uses;
    struct iq_graph graph;
    struct iq_kv kv;
    struct iq_forward forward;
    struct iq_schedule schedule;
    struct iq_recorder recorder;
    struct iq_engine_stats stats;
    struct iq_drafter drafter; /* where config.draft is */
    struct iq_guess *guess;    /* (batch) */
    uint32_t *guessed;         /* (batch, speculate) */
    struct iq_digest contract;
    struct iq_step step;           /* of the step under way */
    uint64_t ended_us;             /* when the one before it ended */
    const struct iq_model *loaded; /* whose weights lie in memory */
    uint32_t event;                /* the next of config.event */
    struct iq_digest *weights;     /* (1 + layers) of what lies outside the layers, and in each; or NULL */
    /* (rows of a step) */
    struct iq_row *row;
    struct iq_seq *seq;
    struct iq_seat **of_row;
    uint32_t *ids, *predict;
    const struct iq_adapter **adapter; /* (rows of a step, and padding) */
    const uint64_t **allow_row;        /* (predicting rows of a step): into allow, or NULL */
    uint64_t *allow; /* (predicting rows of a step, words): where a request has a constraint */
    struct iq_buf trajectory;
};

/* The scheduler's calls, of ctx: the engine. When a request's time has come, once: its prompt, pool and identity. When it
 * joins the batch: finds its prefix through the prefix op. */
int iq__engine_arrive(void *ctx, struct iq_seat *, struct iq_err *);
int iq__engine_admit(void *ctx, struct iq_seat *, struct iq_err *);
/* The seat's blocks that are whole since it had `before` positions become prefixes. */
void iq__engine_publish(struct iq_engine *, struct iq_seat *, uint32_t before);
/* Tokens that are left of a prompt. */
static inline uint32_t iq__engine_prompt(const struct iq_request *r)
{
    return r->truncate && r->truncate < r->n_prompt ? r->truncate : r->n_prompt;
}

/* Opens the copy that is written, where the weights change. */
int iq__engine_weights_open(struct iq_engine *, struct iq_err *err);
/* Between steps: what is due happens once no request is under way; until then none begins. */
int iq__engine_weights_change(struct iq_engine *, struct iq_err *err);

/* What triggers see of the engine: what does not change while it is open; and its state now. */
void iq__engine_describe(struct iq_engine *);
void iq__engine_note(struct iq_engine *);
/* Of all rows of a step: what they have of their neighbours. */
void iq__engine_neighbours(struct iq_engine *, uint32_t rows);
/* When the first request of each seat's session arrives. IQ_MEMORY. */
int iq__engine_sessions(struct iq_engine *, struct iq_err *err);
/* Whether a token, chosen as the n-th of its request, ends it: "stop", "length", or NULL. */
const char *iq__engine_ends(const struct iq_engine *, const struct iq_request *, uint32_t token, uint32_t n);

/* speculate.c. After the forward pass: which rows of each request stay, and the tokens that they choose. */
int iq__engine_verify(struct iq_engine *, const struct iq_batch *, struct iq_err *);
/* After their tokens have joined them: drafts for the next step of the step's requests. */
int iq__engine_draft(struct iq_engine *, const struct iq_batch *, struct iq_err *);

#endif
