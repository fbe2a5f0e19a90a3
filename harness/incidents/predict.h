/* What an arm of an incident predicts, and whether a finding bears it out.
 *
 * {"label", "numerics", "effect": a word or a list of words, any of which holds,
 *  "guilty": an op or a list: the ops found guilty, no more and no less ([]: none); "guilty_among": a list that has
 *            every op found guilty, of which there is one,
 *  "variant": the first guilty op's,
 *  "trigger": {"batch": [3, 6]}: this attribute and exactly these values, or null: no trigger is told,
 *  "hidden": whether no bit differs,  "fired": whether a fault fired,  "struck": whether one changed a bit,
 *  "changed", "differing": {"min", "max"}: share of requests whose answers changed, of requests with a bit that differs}
 * At least one field; each is one check.
 */
#ifndef IQ_HARNESS_PREDICT_H
#define IQ_HARNESS_PREDICT_H

#include "golden/finding.h"

struct iq_check {
    const char *field;      /* borrowed for ever */
    char *expected, *found; /* JSON texts, owned */
    bool held;
};
enum { IQ_CHECKS_MAX = 16 };

/* IQ_FORMAT: not a prediction; names the field. */
int iq_predict_read(const cJSON *, const char *where, struct iq_err *err);
/* Checks every field of a prediction that was read; *n of them, each freed by iq_check_free. IQ_MEMORY. */
int iq_predict_check(const cJSON *, const struct iq_finding *, struct iq_check out[IQ_CHECKS_MAX],
                     unsigned *n, struct iq_err *err);
/* The trigger that was found, as a prediction writes it. */
void iq_predict_trigger(const struct iq_finding *, struct iq_jw *);
void iq_check_free(struct iq_check *);

#endif
