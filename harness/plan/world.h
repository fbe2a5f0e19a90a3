/* What each field of a trigger can be under given settings, with a model and prompts or without: the domains with which a
 * plan is checked before anything runs. */
#ifndef IQ_HARNESS_WORLD_H
#define IQ_HARNESS_WORLD_H

#include "engine/files/config.h"
#include "engine/graph.h"
#include "faults/domain.h"
#include "harness/plan/prompts.h"
#include "harness/plan/settings.h"

/* What is known of the prompts: all values of one kind, ascending, each once. */
struct iq_world_values {
    uint64_t *v;
    size_t n;
};

struct iq_plan_world {
    const struct iq_settings *settings;  /* borrowed, as all here */
    const struct iq_model_config *model; /* NULL: any */
    const struct iq_prompts *prompts;    /* tokenised; NULL: any */
    struct iq_world_values session, prompt, temperature, top_k, top_p, min_p, seed, arrived;
    uint64_t context;                         /* the longest that a row can see */
    struct iq_uses uses;                      /* what a prompt may ask for, or does */
    bool temper;                              /* a prompt may have a temperature that is neither 0 nor 1 */
    enum iq_op_id prev[IQ_OPS], next[IQ_OPS]; /* of a model */
    uint64_t neighbour[IQ_OPS];               /* room for a set of words */
};

/* IQ_MEMORY. iq_plan_world_close frees; safe on zeros. */
int iq_plan_world_open(const struct iq_settings *, const struct iq_model_config *, const struct iq_prompts *,
                       struct iq_plan_world *, struct iq_err *err);
void iq_plan_world_close(struct iq_plan_world *);
/* Borrows it. */
struct iq_world iq_plan_world_view(struct iq_plan_world *);
/* Whether the op runs at all; otherwise why it does not. */
bool iq_plan_world_has(const struct iq_plan_world *, enum iq_op_id, const char **why);
/* The domain of one of a kind's operands, by name. */
void iq_plan_world_operand(const struct iq_plan_world *, enum iq_op_id, const char *name, struct iq_domain *);

#endif
