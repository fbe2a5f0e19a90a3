/* A plan that is ready to strike a trainer: its selector and the counts of what fired. Lives where it was opened: the trainer
 * borrows pointers into it. */
#ifndef IQ_HARNESS_ARMED_H
#define IQ_HARNESS_ARMED_H

#include "engine/train/train.h"
#include "harness/plan/plan.h"
#include "harness/report/fired_report.h"

struct iq_armed {
    struct iq_plan plan;
    struct iq_faultset *set;
    struct iq_selector selector;
    struct iq_tap tap;
    struct iq_fired *fired; /* (plan.n) */
};

/* From a file, or from the text of a plan that is called `where`. On error it is empty. IQ_UNSUPPORTED: an op that training
 * has not. iq_armed_close frees; safe on zeros. */
int iq_armed_load(const char *path, struct iq_armed *, struct iq_err *err);
int iq_armed_parse(const char *text, const char *where, struct iq_armed *, struct iq_err *err);
void iq_armed_close(struct iq_armed *);
void iq_armed_options(const struct iq_armed *, struct iq_train_options *);
/* Of faults and seed, in canonical form. */
struct iq_digest iq_armed_digest(const struct iq_armed *);

#endif
