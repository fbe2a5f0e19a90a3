/* A worker: one thread, one context at a time, trials one after the other, each in a process of its own that is forked where
 * golden stands when the trial's first fault can fire. It is itself forked from the zygote and never runs a wrong variant.
 *
 * Talk with the coordinator: datagrams over a socket pair, so that nothing is ever half said. */
#ifndef IQ_HARNESS_WORKER_H
#define IQ_HARNESS_WORKER_H

#include "harness/campaign/context.h"

enum { IQ_JOB_TRIALS = 256, IQ_TALK_MAX = 8192 };

/* What the zygote made ready and every worker inherits. */
struct iq_ready {
    const struct iq_grid *grid;
    struct iq_prompts *prompts;
    const char *model_path;
    struct iq_model **model;   /* (grid->engines), shared where the cut is the same */
    struct iq_digest campaign; /* its id, once it is known */
    bool alone;                /* every trial in a process of its own */
};

/* To a worker. */
struct iq_job {
    struct iq_digest campaign;
    uint32_t context, n;
    uint32_t index[IQ_JOB_TRIALS]; /* of trials of this context, ascending */
};

/* From a worker (and from the zygote: see zygote.h). */
enum iq_said { IQ_SAID_ROW, IQ_SAID_DONE, IQ_SAID_FAILED };
struct iq_answer {
    uint32_t said;
    uint32_t aboard; /* the trial rode with others */
    struct iq_trial_row row;
    struct iq_err err; /* failed: the campaign can't go on */
};

/* Until the socket closes. Returns the process's exit status. */
int iq_worker_run(struct iq_ready *, int fd);

#endif
