/* Continuous batching: which requests take part in the next step, with how many tokens.
 *
 * A request waits (until it arrives and there is room), runs, and is done. Who rides in a step is decided by the form op:
 * running requests come first, in the order of admission; each gets the tokens that it lacks KV for, at most `chunk` of a prompt and within the step's budget, and
 * behind the last known one its drafts, as far as there is room that nobody holds. When
 * the KV pool runs dry the request admitted last is preempted: its blocks go, and it is computed again from the start,
 * prefix hits permitting. Time is virtual: a step costs IQ_STEP_US + IQ_TOKEN_US per row.
 *
 * The scheduler owns the requests' state; it decides and never computes.
 */
#ifndef IQ_ENGINE_SCHEDULE_H
#define IQ_ENGINE_SCHEDULE_H

#include "engine/engine.h"
#include "engine/kv.h"
#include "kernels/ops/requests.h"

enum { IQ_STEP_US = 1000, IQ_TOKEN_US = 100 };

enum iq_state { IQ_WAITING, IQ_RUNNING, IQ_DONE };

/* A request under way. */
struct iq_seat {
    const struct iq_request *asked;   /* as the caller gave it ... */
    const struct iq_request *request; /* ... and as it is served: &own */
    struct iq_request own;
    bool arrived, landed;         /* landed: its prefix was copied into blocks of its own */
    uint32_t pool;                /* that serves it */
    struct iq_digest root, whose; /* of its prefix keys; what its KV depends on beside tokens */
    uint32_t index;
    enum iq_state state;
    uint32_t *ids, n_ids;       /* prompt, then generated; room for all */
    uint32_t computed;          /* positions with KV */
    uint32_t known;             /* positions recorded so far, over all attempts */
    uint32_t *blocks, n_blocks; /* block table */
    uint32_t *draft, n_draft;   /* tokens that may follow ids: of the next step, or of the one under way */
    uint32_t *chosen;           /* (n_draft + 1) what the step under way adds to ids, as far as it is kept */
    uint32_t kept, accepted;    /* rows of the step under way that stay; drafts among its accepted ones */
    uint32_t all_drafted, all_accepted;
    uint32_t draft_lane, draft_computed; /* of a draft model (drafter.h); lane 0: none */
    struct iq_digest *key;               /* of each whole block of ids so far */
    uint32_t n_keys;
    bool blocked;             /* its constraint leaves no token in the step under way */
    uint32_t cached, attempt; /* prompt tokens reused at the last admission; preemptions */
    struct iq_digest *kv;     /* (positions) K and V as they were written or attached; NULL: not recorded */
    uint32_t lost;            /* times that some were found to be others */
    uint32_t ordinal;         /* requests that were admitted before it */
    uint64_t session_us;      /* when the first request of its session arrives */
    struct iq_position *position;
    uint32_t *top_id;
    float *top_logit;
    double *nll;
    struct iq_digest chain;
    const char *finish;
    struct iq_output output;
};

/* One request's share of a step. */
struct iq_share {
    struct iq_seat *seat;
    uint32_t tokens; /* rows: with those of its drafts */
};

struct iq_schedule {
    const struct iq_engine_config *config;
    struct iq_kv *kv;
    struct iq_seat *seat; /* (n) */
    uint32_t n;
    struct iq_seat **running; /* in order of admission */
    uint32_t n_running, done;
    uint32_t budget, score_chunk; /* rows of a step; most rows of a scored prompt in a step */
    uint64_t clock_us, preemptions;
    struct iq_share *share; /* of the step being formed */
    uint32_t shares;
    /* (batch) of the form op: who might ride, as the op sees them, and what it decided */
    struct iq_seat **lineup;
    struct iq_form_seat *form_seat;
    struct iq_form_pick *pick;
    struct iq_share
        *event; /* (2 * batch) for the trajectory: shares in order, and tokens 0 where a seat gave up */
    uint32_t events;
    uint32_t step;        /* ordinal of the next step, for the trajectory */
    bool hold;            /* no request begins; those that were preempted go on */
    struct iq_step *site; /* of control ops: the step that is being formed */
    /* Called once, when its time has come: what it asks, and who serves it. */
    int (*arrive)(void *ctx, struct iq_seat *, struct iq_err *);
    /* Called when a request is admitted: finds its prefix and sets computed, cached and blocks. */
    int (*admit)(void *ctx, struct iq_seat *, struct iq_err *);
    void *ctx;
};

/* Chooses the shares of the next step and takes the blocks that they need. No shares: every request is done. */
int iq_schedule_form(struct iq_schedule *, struct iq_err *);
/* No request is under way: none runs, none was preempted. */
bool iq_schedule_drained(const struct iq_schedule *);
/* The step took place: moves the clock. */
void iq_schedule_advance(struct iq_schedule *, uint32_t rows);
/* Requests that have arrived and are not in the batch. */
uint32_t iq_schedule_waiting(const struct iq_schedule *);
/* Gives back the blocks behind the last computed position. */
int iq_schedule_trim(struct iq_schedule *, struct iq_seat *, struct iq_err *err);
/* Gives the blocks back; the request is done, or waits again when it was preempted. */
int iq_schedule_release(struct iq_schedule *, struct iq_seat *, enum iq_state to, struct iq_err *err);
/* Most positions that the request is computed for: fewer than its ids where it is cancelled. */
uint32_t iq_seat_end(const struct iq_seat *);
/* The seat's position `pos` as ops and triggers see it. */
struct iq_row iq_seat_row(const struct iq_seat *, uint32_t pos, uint32_t cell);

#endif
