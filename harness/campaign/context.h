/* A context: one group of prompts under one setting of the engine, its golden run kept, and engines that stand where golden
 * stood. Lives in a worker, which has no threads. */
#ifndef IQ_HARNESS_CONTEXT_H
#define IQ_HARNESS_CONTEXT_H

#include "harness/campaign/grid.h"
#include "harness/campaign/scout.h"
#include "harness/campaign/witness.h"
#include "harness/plan/prompts.h"

struct iq_context {
    uint32_t index;
    const struct iq_model *model;
    struct iq_settings settings;
    struct iq_engine_config config;
    struct iq_request *request; /* (requests) of this group, numbered from 0 */
    uint32_t requests;
    struct iq_engine *engine; /* that ran golden */
    struct iq_golden golden;
    struct iq_scout scout;
};

/* Runs golden. The prompts are tokenised, and outlive the context. */
int iq_context_open(const struct iq_grid *, uint32_t index, const struct iq_model *,
                    const struct iq_prompts *, struct iq_context *out, struct iq_err *err);
void iq_context_close(struct iq_context *);
/* Another engine, before its first step. */
int iq_context_engine(const struct iq_context *, struct iq_engine **out, struct iq_err *err);

#endif
