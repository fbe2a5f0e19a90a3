/* A plan: which faults strike, and how the engine is run meanwhile.
 *
 * {"faults": [{"op", "variant", "params", "when", "rate", "seed", "per", "name"}, ...], "engine": {settings}, "seed": n,
 *  "libraries": [of users' kernels: harness/kernel/user.h]}
 * Faults stand in order: in each row the last that covers it wins, so that a workaround (a golden variant) goes last.
 */
#ifndef IQ_HARNESS_PLAN_H
#define IQ_HARNESS_PLAN_H

#include "faults/faultset.h"
#include "harness/kernel/user.h"
#include "harness/plan/settings.h"

struct iq_plan {
    struct iq_fault *fault; /* (n) */
    size_t n;
    uint64_t seed;
    struct iq_user_use *library; /* (libraries) */
    size_t libraries;
};

/* Reads a plan; settings that its "engine" names override *settings (NULL: "engine" is checked and dropped).
 * Registers variants as needed, those of its libraries too. On error *out is empty. A plan that is loaded names libraries
 * relative to its folder; one that is parsed, to this process's. */
int iq_plan_parse(const cJSON *, const char *where, struct iq_plan *out, struct iq_settings *settings,
                  struct iq_err *err);
int iq_plan_load(const char *path, struct iq_plan *out, struct iq_settings *settings, struct iq_err *err);
/* IQ_UNSUPPORTED: a variant has no form for the device on which its op would run. Control ops run on the host always. */
int iq_plan_check_device(const struct iq_plan *, const struct iq_settings *, struct iq_err *err);
/* IQ_UNSUPPORTED: a fault whose op the kind of run in hand has not, or, in training, that asks about requests. */
int iq_plan_check_ops(const struct iq_plan *, bool training, struct iq_err *err);
/* One more library, which the command line names. IQ_MEMORY. */
int iq_plan_add_library(struct iq_plan *, const struct iq_user_use *, struct iq_err *err);
/* Reads the libraries of a plan that is read elsewhere (path: its file): their variants are registered, and each entry gets its
 * "sha256", which says what it was without a path. */
int iq_plan_pin_libraries(cJSON *plan, const char *path, struct iq_err *err);
/* Starts the processes of its libraries' kernels, for this process. */
int iq_plan_start(const struct iq_plan *, struct iq_err *err);
void iq_plan_free(struct iq_plan *);
/* Canonical: faults and seed, every default written out; reads back as the same plan. */
void iq_plan_write(const struct iq_plan *, struct iq_jw *);

#endif
