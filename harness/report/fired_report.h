/* What a plan's faults did in a run: one line for each that never fired, or fired and changed no bit. */
#ifndef IQ_HARNESS_FIRED_REPORT_H
#define IQ_HARNESS_FIRED_REPORT_H

#include "golden/trace.h"
#include "harness/plan/plan.h"

struct iq_fired {
    uint64_t times, changed; /* dispatches that it took part in; rows that have another bit than golden's */
    char *slept;             /* why it never did, as far as that is known; or NULL. Owned. */
};

/* Adds one record of the firing log to `fired` (n, by fault). */
void iq_fired_add(struct iq_fired *fired, size_t n, const struct iq_firing *);
/* As iq_trial_events.slept tells it. IQ_MEMORY. */
int iq_fired_slept(struct iq_fired *fired, size_t n, size_t fault, const char *why);
void iq_fired_free(struct iq_fired *fired, size_t n); /* the array too */
/* Adds the whole log of a recorded run. */
int iq_fired_read(struct iq_fired *fired, size_t n, const struct iq_trace *, struct iq_err *err);
/* Appends a line a fault without effect, with what it may need where that is known. A workaround is none: it is there
 * so that nothing happens. */
void iq_fired_text(const struct iq_plan *, const struct iq_fired *, struct iq_buf *out);

#endif
