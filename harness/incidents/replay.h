/* A replay: an incident's golden runs, then each arm as a trial, compared and held against its prediction.
 *
 * Errors are a broken environment (model, store, disk); a prediction that fails is a result. A trial that crashes is a
 * result too. Ownership: iq_replay_free; the incident must outlive the replay.
 */
#ifndef IQ_HARNESS_REPLAY_H
#define IQ_HARNESS_REPLAY_H

#include "golden/store.h"
#include "harness/incidents/incident.h"
#include "harness/incidents/predict.h"

struct iq_replay_options {
    const char *model; /* path */
    const char *store; /* folder, made if it is not there; NULL: one that is gone when this process ends */
    /* Called after each arm, with its index; may be NULL. */
    void (*told)(void *self, unsigned arm);
    void *self;
};

struct iq_arm_result {
    char run[IQ_DIGEST_HEX];
    struct iq_finding *finding;
    struct iq_check check[IQ_CHECKS_MAX];
    unsigned n_checks;
    bool held;           /* all of them */
    struct iq_buf slept; /* a line for each fault that never struck: why */
};

struct iq_replay {
    const struct iq_incident *incident;
    struct iq_arm_result *arm;     /* (incident->n_arms); those that were run have a finding */
    char (*golden)[IQ_DIGEST_HEX]; /* (incident->n_sets) run ids */
    bool held;                     /* every prediction of every arm */
};

int iq_replay_run(struct iq_incident *, const struct iq_replay_options *, struct iq_replay *,
                  struct iq_err *err);
void iq_replay_free(struct iq_replay *);

#endif
