/* A trial: one run of the engine, in a process of its own.
 *
 * The trial process opens the model, runs the requests and streams what it records over a pipe; the coordinator (the
 * caller's process) owns the store and prints. So a crash in a kernel is a result and not the end of the harness, and
 * no thread is started before the fork. The trial waits after `begin` for the coordinator's word on which requests are
 * committed already.
 * Errors: the trial's own (its sentence comes over the pipe); IQ_CRASHED when it died: by which signal.
 */
#ifndef IQ_HARNESS_TRIAL_H
#define IQ_HARNESS_TRIAL_H

#include "golden/wire.h"
#include "harness/plan/plan.h"
#include "harness/plan/prompts.h"
#include "harness/plan/updates.h"

enum iq_lines { IQ_LINES_NONE, IQ_LINES_JSON, IQ_LINES_TEXT };

struct iq_trial {
    const char *model;
    const char *model_sha256;         /* the digest that the model must have, or NULL */
    const char *draft, *draft_sha256; /* the same of a model that guesses tokens; NULL: there is none */
    struct iq_settings settings;
    struct iq_prompts *prompts;  /* tokenised by the trial */
    const struct iq_plan *plan;  /* NULL: golden */
    struct iq_updates *updates;  /* of the weights, opened by the trial; NULL: none */
    const char *golden;          /* run id that it will be compared with, or NULL */
    const cJSON *trajectory;     /* recorded steps to follow, or NULL */
    const char *trajectory_name; /* its file, for errors */
    enum iq_lines lines;         /* what iq_trial_events.line gets, per request as it ends */
    bool want_trajectory;        /* events.trajectory is called at the end */
};

struct iq_trial_events {
    void *self;
    /* The run is about to start: where its records go (all NULL: nowhere), and which of n requests to leave out. */
    int (*begin)(void *self, const char *manifest, const struct iq_node *, uint32_t n_nodes, enum iq_level,
                 struct iq_sink *sink, unsigned char *skip, uint32_t n, struct iq_err *);
    int (*progress)(void *self, const struct iq_wire_progress *);
    int (*line)(void *self, const char *text);
    int (*trajectory)(void *self, const char *json);
    /* Why a fault of the plan never struck, as far as the calls tell that asked. */
    int (*slept)(void *self, size_t fault, const char *why);
    int (*libraries)(void *self,
                     const char *json); /* what cuBLAS and the like chose; only where they took part */
};

int iq_trial_run(const struct iq_trial *, const struct iq_trial_events *, struct iq_err *err);

#endif
