/* A plan that is ready to strike a trainer, or an engine in this process: its selector and the counts of what fired. Lives where
 * it was opened: the trainer or engine borrows pointers into it. */
#ifndef IQ_HARNESS_ARMED_H
#define IQ_HARNESS_ARMED_H

#include "engine/train/train.h"
#include "harness/plan/plan.h"
#include "harness/report/fired_report.h"

struct iq_armed {
    struct iq_plan plan;
    struct iq_faultset *set;
    struct iq_selector selector;
    struct iq_tap tap;      /* of a trainer */
    struct iq_sink sink;    /* of an engine */
    struct iq_fired *fired; /* (plan.n) */
};

/* From a file, or from the text of a plan that is called `where`. On error it is empty. IQ_UNSUPPORTED: an op that training
 * has not. iq_armed_close frees; safe on zeros. */
int iq_armed_load(const char *path, struct iq_armed *, struct iq_err *err);
int iq_armed_parse(const char *text, const char *where, struct iq_armed *, struct iq_err *err);
/* For an engine; its settings override those here. */
int iq_armed_load_engine(const char *path, struct iq_settings *, struct iq_armed *, struct iq_err *err);
void iq_armed_close(struct iq_armed *);
/* A line on standard error for each fault that never fired or changed no bit. */
void iq_armed_say(const struct iq_armed *);
void iq_armed_options(const struct iq_armed *, struct iq_train_options *);
/* Of faults and seed, in canonical form. */
struct iq_digest iq_armed_digest(const struct iq_armed *);

#endif
