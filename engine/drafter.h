/* A smaller model that guesses what the model will choose (kernels/ops/speculate.h: draft).
 *
 * It has a KV cache of its own and goes through its own golden ops, on the CPU and unrecorded: its guesses are nobody's
 * answer. It draws by the requests' seeds and positions as the model does, so that two models that agree draw the same
 * token. What it computed for guesses that were rejected it computes again.
 *
 * A request's place in the cache is its seat's (draft_*); the scheduler knows nothing of it.
 */
#ifndef IQ_ENGINE_DRAFTER_H
#define IQ_ENGINE_DRAFTER_H

#include "engine/forward.h"
#include "engine/schedule.h"

struct iq_drafter {
    const struct iq_model *model;
    struct iq_slots *slots;
    struct iq_graph graph;
    struct iq_kv kv;
    struct iq_forward forward;
    uint32_t batch;
    struct iq_row *row; /* (rows of a step), as ids and predict; seq: (batch) */
    struct iq_seq *seq;
    uint32_t *ids, *predict;
    struct iq_guess **of_predict; /* (batch) */
    struct iq_seat **lane;        /* (batch) whose part of the cache it is, or NULL */
    uint32_t *table, lane_blocks; /* (batch, lane_blocks) the block table of each */
};

/* What is asked for one request. */
struct iq_guess {
    struct iq_seat *seat;
    uint32_t asked, made;
    uint32_t *id; /* (asked) */
};

struct iq_drafter_options {
    const struct iq_model *model, *target;
    uint32_t batch, longest, k; /* requests at once; positions of a request; candidates, as the target's */
    enum iq_act act;
    const char *isa;
    struct iq_pool *pool;
};

/* IQ_MISMATCH: another vocabulary than the target's. The options' pointers are borrowed. */
int iq_drafter_open(struct iq_drafter *, const struct iq_drafter_options *, struct iq_err *err);
void iq_drafter_close(struct iq_drafter *);
/* Guesses for n requests at once, n at most the batch; fewer than asked for where its positions end. */
int iq_drafter_guess(struct iq_drafter *, struct iq_guess *, uint32_t n, struct iq_err *err);
/* The request does not run any more. */
void iq_drafter_forget(struct iq_drafter *, struct iq_seat *);

#endif
