/* The manifest: everything that may decide a run's bits, as one JSON text. The run's id is its hash. */
#ifndef IQ_HARNESS_MANIFEST_H
#define IQ_HARNESS_MANIFEST_H

#include "harness/plan/plan.h"
#include "harness/plan/prompts.h"
#include "harness/plan/updates.h"

struct iq_manifest_parts {
    const char *model_path;
    const struct iq_model *model;
    const struct iq_engine *engine;
    const struct iq_settings *settings;
    const struct iq_prompts *prompts;
    const struct iq_plan *plan;       /* NULL: golden */
    const char *golden;               /* run id of the golden that it is compared with, or NULL */
    const struct iq_updates *updates; /* of the weights, or NULL */
    const char *trajectory;           /* digest of the recorded steps that it follows, or NULL */
    const char *draft_path;           /* the model that guesses tokens, or NULL */
    const struct iq_model *draft;
};

/* Appends the JSON. IQ_MEMORY. */
int iq_manifest_write(const struct iq_manifest_parts *, struct iq_buf *, struct iq_err *err);

#endif
