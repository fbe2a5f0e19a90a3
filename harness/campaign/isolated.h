/* Trials in processes of their own, forked from an engine that stands at the step of their first possible firing. */
#ifndef IQ_HARNESS_ISOLATED_H
#define IQ_HARNESS_ISOLATED_H

#include "harness/campaign/worker.h"

/* A trial that is about to run. */
struct iq_armed_trial {
    struct iq_grid_trial at;
    struct iq_plan plan;
    struct iq_faultset *set;
    struct iq_selector selector;
    size_t site; /* in the scout: the first that it picks; its n: none */
    bool
        blind; /* its trigger reads numbers, which only a run has: it begins at the first step and runs to the end */
    bool told; /* its row is with the coordinator */
};
int iq_armed_trial_open(const struct iq_grid *, const struct iq_context *, uint32_t index,
                        struct iq_armed_trial *out, struct iq_err *err);
void iq_armed_trial_close(struct iq_armed_trial *);

/* What a trial's process says of it. */
struct iq_seen {
    struct iq_trial_row row; /* all but id, index, cell, label, numerics */
    uint64_t fired_faults[4];
    uint32_t guilty_rows, guilty_batch, guilty_request, guilty_pos;
    uint32_t nans, crashed;
};
void iq_seen_of(const struct iq_witness *, struct iq_seen *out);
/* Runs it from where `engine` stands (which the caller's copy keeps doing). Crashes and limits are in *out; errors are
 * the harness's. */
int iq_isolated_run(const struct iq_grid *, const struct iq_context *, struct iq_engine *engine,
                    const struct iq_armed_trial *, struct iq_seen *out, struct iq_err *err);
/* A trial whose faults can't fire: golden. */
void iq_isolated_none(const struct iq_context *, struct iq_seen *out);

#endif
