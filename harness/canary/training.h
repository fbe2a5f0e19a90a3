/* A canary's training run: rows from golden/canary, steps by engine/train, checkpoints on the way.
 *
 * A run that was broken off, by a kill too, goes on from its last checkpoint to the same bits. SIGINT and SIGTERM end it after
 * the step in hand, with a checkpoint. */
#ifndef IQ_HARNESS_CANARY_TRAINING_H
#define IQ_HARNESS_CANARY_TRAINING_H

#include "harness/canary/recipe.h"

#include <stdbool.h>

/* The steps since the last report. */
struct iq_canary_report {
    uint32_t step;          /* steps done in all */
    double loss;            /* mean of the steps */
    double norm, rate;      /* of the last step */
    uint64_t targets, hits; /* answers' tokens; those that had the largest logit */
    double tokens_s;
    struct iq_digest digest; /* of the trainer, now */
    const char *golden;      /* the shipped run's digest of this step; NULL: it is not on record */
};

struct iq_canary_training {
    const struct iq_canary_recipe *recipe;
    struct iq_train_options options;
    const char *checkpoint; /* path; read where it is there, written every `every` steps and at the end */
    uint32_t until;         /* steps to be done in all; at most the recipe's */
    uint32_t every;
    /* Called after every `every` steps and after the last; a status other than IQ_OK ends the run. */
    int (*report)(void *ctx, const struct iq_canary_report *, struct iq_err *);
    void *ctx;
};

/* Trains, or goes on. The trainer is the caller's to close, and is there after an error in a step too. *interrupted: a signal
 * ended it. IQ_MISMATCH: the checkpoint is of another recipe. */
int iq_canary_train(const struct iq_canary_training *, struct iq_train **out, bool *interrupted,
                    struct iq_err *);

enum { IQ_CANARY_STEP_IDS = 2048 }; /* at most, in a step */

/* The rows of a step as the trainer takes them. tokens, mask: (IQ_CANARY_STEP_IDS), which the batch borrows. seed: of the
 * data. */
int iq_canary_batch(uint64_t seed, uint32_t step, uint32_t steps, uint32_t *tokens, uint8_t *mask,
                    struct iq_train_batch *, struct iq_err *);

#endif
