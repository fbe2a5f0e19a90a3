/* A plan: which faults strike, and how the engine is run meanwhile.
 *
 * {"faults": [{"op", "variant", "params", "when", "rate", "seed", "per", "name"}, ...], "engine": {settings}, "seed": n}
 * Faults stand in order: in each row the last that covers it wins, so that a workaround (a golden variant) goes last.
 */
#ifndef IQ_HARNESS_PLAN_H
#define IQ_HARNESS_PLAN_H

#include "faults/faultset.h"
#include "harness/plan/settings.h"

struct iq_plan {
    struct iq_fault *fault; /* (n) */
    size_t n;
    uint64_t seed;
};

/* Reads a plan; settings that its "engine" names override *settings (NULL: "engine" is checked and dropped).
 * Registers variants as needed. On error *out is empty. */
int iq_plan_parse(const cJSON *, const char *where, struct iq_plan *out, struct iq_settings *settings,
                  struct iq_err *err);
int iq_plan_load(const char *path, struct iq_plan *out, struct iq_settings *settings, struct iq_err *err);
/* IQ_UNSUPPORTED: a variant has no form for the device on which its op would run. Control ops run on the host always. */
int iq_plan_check_device(const struct iq_plan *, const struct iq_settings *, struct iq_err *err);
/* IQ_UNSUPPORTED: a fault whose op the kind of run in hand has not, or, in training, that asks about requests. */
int iq_plan_check_ops(const struct iq_plan *, bool training, struct iq_err *err);
void iq_plan_free(struct iq_plan *);
/* Canonical: faults and seed, every default written out; reads back as the same plan. */
void iq_plan_write(const struct iq_plan *, struct iq_jw *);

#endif
