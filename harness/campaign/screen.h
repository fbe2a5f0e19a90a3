/* A campaign on a terminal: its table as it fills, and the bar with the time left below. Nothing where standard error is no
 * terminal. */
#ifndef IQ_HARNESS_CAMPAIGN_SCREEN_H
#define IQ_HARNESS_CAMPAIGN_SCREEN_H

#include "harness/campaign/table.h"
#include "harness/cli/progress.h"

struct iq_screen {
    struct iq_table table;
    struct iq_progress bar;
    bool on;
    uint32_t lines; /* of the table that stand on the screen */
    uint64_t drawn_ns, total, done;
};

/* With the rows that are there already. */
int iq_screen_open(struct iq_screen *, struct iq_store *, const char *campaign, const char *manifest,
                   bool quiet, struct iq_err *err);
void iq_screen_begin(struct iq_screen *, uint64_t trials);
void iq_screen_row(struct iq_screen *, const struct iq_trial_row *);
void iq_screen_draw(struct iq_screen *);
void iq_screen_end(struct iq_screen *); /* the screen is clean again */
void iq_screen_close(struct iq_screen *);

#endif
