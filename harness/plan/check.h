/* A plan before it runs: which of its faults can never fire, and why. Static: nothing is run, and what it has no word
 * against may still not fire. */
#ifndef IQ_HARNESS_PLAN_CHECK_H
#define IQ_HARNESS_PLAN_CHECK_H

#include "harness/plan/plan.h"
#include "harness/plan/world.h"

struct iq_plan_finding {
    struct iq_buf why;              /* why it can never fire; empty: nothing says so */
    const char *op[IQ_ALL_OPS + 1]; /* names of the ops that it may strike; NULL ends */
    /* Of faults that are drawn once per request or session, where prompts are known: how many of how many. */
    uint32_t drawn, of;
};

/* out: (plan->n), zeroed; iq_plan_findings_free. Errors: those of a plan that can't run at all (iq_faultset_open). */
int iq_plan_check(const struct iq_plan *, struct iq_plan_world *, struct iq_plan_finding *out,
                  struct iq_err *err);
void iq_plan_findings_free(struct iq_plan_finding *, size_t n);
/* Whether it is a plan of training: one of its ops is. */
bool iq_plan_trains(const struct iq_plan *);

#endif
