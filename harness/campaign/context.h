/* A context: one group of prompts under one setting of the engine, its golden run kept, and engines that stand where golden
 * stood. Lives in a worker, which has no threads. */
#ifndef IQ_HARNESS_CONTEXT_H
#define IQ_HARNESS_CONTEXT_H

#include "engine/ride.h"
#include "harness/campaign/grid.h"
#include "harness/campaign/scout.h"
#include "harness/campaign/witness.h"
#include "harness/plan/prompts.h"

/* Riders at a time; rows in a forward pass: enough that weights are read for many, few enough to stay in cache. */
enum { IQ_RIDERS_MAX = 64, IQ_ABOARD_ROWS = 128 };

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
    struct iq_ride *ride; /* NULL: its trials run by themselves */
    uint32_t riders;
    bool alone;
};

/* Runs golden. The prompts are tokenised, and outlive the context. `alone`: no trial rides with others. */
int iq_context_open(const struct iq_grid *, uint32_t index, const struct iq_model *,
                    const struct iq_prompts *, bool alone, struct iq_context *out, struct iq_err *err);
void iq_context_close(struct iq_context *);
/* Another engine, before its first step. */
int iq_context_engine(const struct iq_context *, struct iq_engine **out, struct iq_err *err);

#endif
