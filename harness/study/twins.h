/* Twins: one small model trained again and again, each time with one factor freed; how far the copies part, and whether they end
 * up equally good.
 *
 * The model is a Llama block of some 100,000 weights that learns the canary's easiest tasks (golden/canary, level 0) on a fixed
 * pool of rows. `reference` and `again` have nothing freed: their bits are the same. Every other twin runs under one plan
 * (harness/plan/plan.h), which is in its record, or on another number of ranks as well. The seed of the op data orders the pool.
 *
 * Intervals are over questions, of one pair of copies. How much copies differ at all shows in the deviations over those with
 * different bits: a change within these says nothing about the factor.
 *
 * Quality is asked of held-out questions, each alone in a row, with all plans disarmed: the weights are judged, in golden
 * arithmetic. A question is right if greedy decoding gives its answer and END: each of these tokens has the largest logit behind
 * the right ones. Intervals have 95 %.
 *
 * Twins share nothing and run side by side, one a thread; threads change no bit and no number.
 * Units: nats a token; shares from 0 to 1. Ownership: iq_twins_close frees. Errors: IQ_USAGE (a factor that is not known, with
 * the names), IQ_MEMORY, the trainer's. */
#ifndef IQ_HARNESS_TWINS_H
#define IQ_HARNESS_TWINS_H

#include "kernels/base/buf.h"
#include "kernels/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    IQ_TWINS_STEPS_MAX = 10000, /* the pool of rows is in memory */
    IQ_TWINS_LAST = 10,         /* steps whose mean loss is the final one */
    IQ_TWIN_START = -1,         /* the first difference is in the first weights */
    IQ_TWIN_EQUAL = -2          /* there is none */
};

/* A factor, as a row of the table that names them all; name NULL ends. The first two are `reference` and `again`. */
struct iq_twin_factor {
    const char *name, *what; /* "sum-order"; what is freed */
    const char *plan;        /* NULL: none */
    uint32_t ranks;
};
extern const struct iq_twin_factor iq_twin_factors[];

struct iq_twin {
    const struct iq_twin_factor *factor;
    /* The first state that has another bit than the reference's: after the step with this ordinal, as plans count (from 0), or
     * IQ_TWIN_START, IQ_TWIN_EQUAL. There the first tensor, in the model's order: of weights; if these agree, of moments. */
    int64_t step;
    char tensor[32];
    bool moments;
    double distance;  /* norm of the weights' difference over that of the reference's weights */
    double loss;      /* in training: mean of the last steps */
    uint32_t right;   /* of iq_twins.asked */
    double low, high; /* of right / asked */
    double nll;       /* mean over the answers' tokens */
    /* This minus the reference's, over the same questions, with an interval. */
    double right_by, right_by_low, right_by_high;
    double nll_by, nll_by_low, nll_by_high;
};

struct iq_twins {
    struct iq_twin *twin; /* (n): reference, again, then the factors in the table's order */
    size_t n;
    uint32_t steps, asked;
    uint64_t tokens, weights; /* of all answers; of the model */
    bool repeated;            /* again is the reference, to the last bit */
    /* Over the reference and all that have another bit: their number, mean and standard deviation of right / asked and nll. */
    uint32_t copies;
    double right_mean, right_deviation, nll_mean, nll_deviation;
};

struct iq_twins_config {
    uint32_t steps, threads;
    uint64_t seed;             /* of weights, rows, dropout, questions */
    const char *const *factor; /* names of those to train beside the first two, NULL-terminated; NULL: all */
};

int iq_twins_run(const struct iq_twins_config *, struct iq_twins *, struct iq_err *err);
void iq_twins_close(struct iq_twins *);

/* The table: text, or one JSON object. */
void iq_twins_text(const struct iq_twins *, struct iq_buf *);
void iq_twins_json(const struct iq_twins *, struct iq_buf *);

#endif
