/* A campaign's plan: the grid of its trials.
 *
 * {"faults": [fault | [fault, ...], ...], "engine": {settings}, "load": n, "prompts": FILE | [...], "tokens": n,
 *  "repetitions": n, "seed": n, "limits": {"seconds": n, "mib": n}, "name": text,
 *  "libraries": [of users' kernels: harness/kernel/user.h]}
 *
 * A fault is what a plan of `run` has (faults/faultset.h); a list of them strikes together (a fault and its workaround).
 * Inside faults, engine and for load a value may be
 *     {"each": [value, ...]}     an axis of the grid: all of them, one after the other
 *     {"draw": [least, most]}    an integer of this range, another one in each repetition (faults only)
 *     {"choose": [value, ...]}   one of them, likewise
 * Load is how many prompts are in flight together: prompts are cut into groups of so many, in order; what is left over
 * is not used.
 *
 * A *cell* is one choice on all axes: a line of the report. It has a trial for each group of prompts and each
 * repetition. Trials are numbered: cells in the order of faults, their axes, engine's axes, load; in a cell by group,
 * then by repetition. What a trial is follows from the plan and its number alone. Draws depend on seed, repetition, group
 * and the place of the value in its fault, not on other axes: severities are compared at the same places.
 * A *context* is what golden is computed for once: engine settings, load and group.
 */
#ifndef IQ_HARNESS_GRID_H
#define IQ_HARNESS_GRID_H

#include "harness/plan/plan.h"

struct iq_cell_of_grid {
    uint32_t fault, engine, load; /* load: the number itself */
    uint64_t combo;               /* on the fault's own axes */
    uint32_t first, trials, groups;
    uint32_t context; /* of its first group */
};

struct iq_grid {
    cJSON *plan; /* owned, without prompts */
    uint32_t prompts, tokens, repetitions, seconds, mib;
    uint64_t seed;
    uint32_t engines, cells, trials, contexts;
    struct iq_settings *engine; /* (engines) */
    struct iq_cell_of_grid *cell;
};

/* What a trial is. */
struct iq_grid_trial {
    uint32_t index, cell, group, repetition, context;
    uint64_t seed;
};

/* `plan` is checked and copied; n_prompts: how many there are. `where` names it in errors. `arms`: its faults are to be
 * armed here, and so are parsed (variants are registered as needed); a report does without. */
int iq_grid_open(const cJSON *plan, const char *where, uint32_t n_prompts, bool arms, struct iq_grid *out,
                 struct iq_err *err);
void iq_grid_close(struct iq_grid *);
struct iq_grid_trial iq_grid_trial(const struct iq_grid *, uint32_t index);
/* The trial's faults, ready to be armed; iq_plan_free frees. */
int iq_grid_plan(const struct iq_grid *, uint32_t index, struct iq_plan *out, struct iq_err *err);
/* A context's settings and first prompt; it has `load` prompts. */
void iq_grid_context(const struct iq_grid *, uint32_t context, const struct iq_settings **, uint32_t *load,
                     uint32_t *prompt);
/* For people: the cell's fault, and what sets it apart on each axis ("bits 8, tp 2"; "" where there is no axis). */
void iq_grid_cell_name(const struct iq_grid *, uint32_t cell, struct iq_buf *);
void iq_grid_cell_axes(const struct iq_grid *, uint32_t cell, struct iq_buf *);
/* The fields of a plan that a campaign knows, for errors and help; NULL-terminated. */
extern const char *const iq_grid_fields[];

#endif
