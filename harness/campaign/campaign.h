/* The coordinator: owns the store and the screen, cuts the trials into jobs, and keeps workers at them.
 *
 * A worker that is gone is replaced and its trials are dealt out again; so are all when the zygote is. The coordinator's own
 * death loses what was not committed, at most some 64 rows or half a second; the next run goes on. */
#ifndef IQ_HARNESS_CAMPAIGN_H
#define IQ_HARNESS_CAMPAIGN_H

#include "golden/campaign.h"
#include "harness/campaign/grid.h"
#include "harness/plan/prompts.h"

struct iq_campaign_options {
    const char *model, *store;
    const char *plan;       /* its path; prompts' is relative to it */
    uint32_t jobs;          /* workers */
    uint32_t shard, shards; /* this is shard 0 .. shards - 1: trials whose index is shard modulo shards */
    bool resume;
    bool alone; /* every trial in a process of its own: slower, the same rows */
    bool quiet; /* no bar, no table */
};

struct iq_campaign_end {
    struct iq_campaign_info info;
    uint32_t ran, aboard; /* in this run; of them, that shared forward passes */
    double seconds;       /* of them, without opening the model */
};

int iq_campaign_run(const struct iq_campaign_options *, struct iq_campaign_end *out, struct iq_err *err);

#endif
