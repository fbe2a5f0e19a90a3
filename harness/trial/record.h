/* A trial whose records go into a store. */
#ifndef IQ_HARNESS_RECORD_H
#define IQ_HARNESS_RECORD_H

#include "harness/trial/trial.h"

struct iq_record {
    struct iq_store *store;
    enum iq_write_mode mode; /* golden: every finished request is kept, and a broken-off run resumes */
    const char *name;        /* or NULL */
    bool move_name;          /* the name may be another run's now */
    bool quiet;              /* no progress bar */
};

struct iq_recorded {
    char run[IQ_DIGEST_HEX];
    enum iq_run_state state;
    uint32_t requests, resumed;                    /* in all; of them, committed before */
    char why[sizeof((struct iq_err *)NULL)->text]; /* crashed: the sentence; else "" */
};

/* Runs the trial and publishes it. A trial that dies is published too, as crashed: *out tells. Of `user` (may be NULL)
 * only line, trajectory, slept and libraries are called. Errors: what stopped it; then a trial leaves nothing and a golden its requests. */
int iq_record_run(const struct iq_trial *, const struct iq_record *, const struct iq_trial_events *user,
                  struct iq_recorded *out, struct iq_err *err);

#endif
