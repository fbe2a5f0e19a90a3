/* Inside the study of twins. */
#ifndef IQ_HARNESS_TWINS_PARTS_H
#define IQ_HARNESS_TWINS_PARTS_H

#include "engine/train/train.h"
#include "golden/canary/canary.h"
#include "harness/study/twins.h"

/* ---- rows and questions: drawn once, read by all ---- */

enum {
    IQ__TWINS_ROWS = 8,
    IQ__TWINS_LENGTH = IQ_CANARY_SHORTEST,
    IQ__TWINS_TASKS = 2,
    IQ__TWINS_QUESTIONS = 240 * IQ__TWINS_TASKS,
    IQ__TWINS_LONGEST = 64 /* ids of a question and its answer at level 0 */
};

struct iq__twins_question {
    uint32_t id[IQ__TWINS_LONGEST], n, prompt; /* the prompt's ids, the answer's, END */
};

struct iq__twins_material {
    struct iq_train_recipe recipe;
    uint32_t *tokens; /* (steps * ROWS, LENGTH); owned */
    uint8_t *mask;    /* owned */
    struct iq__twins_question question[IQ__TWINS_QUESTIONS];
    uint64_t answers; /* tokens of all answers */
};

int iq__twins_draw(const struct iq_twins_config *, struct iq__twins_material *, struct iq_err *err);

struct iq__twins_score {
    double nll; /* of the answer's tokens, summed */
    bool right;
};
/* logits: (n, vocab), of the question's row. */
struct iq__twins_score iq__twins_judge(const struct iq__twins_question *, const float *logits);

/* ---- copies ---- */

enum { IQ__TWINS_STATES = 3 /* weights, means, squares */ };

struct iq__twins_copy {
    const struct iq_twin_factor *factor;
    struct iq_train_tensor *tensor; /* (tensors); owned, as are state and weights */
    struct iq_digest *state;        /* (steps + 1, STATES, tensors): at first, then after each step */
    float *weights;                 /* (n_weights) at the end */
    size_t n_weights, tensors;
    double loss;
    struct iq__twins_score score[IQ__TWINS_QUESTIONS];
    int status;
    struct iq_err err;
};

/* Fills all of *out but its factor. */
void iq__twins_compare(const struct iq__twins_material *, const struct iq__twins_copy *,
                       const struct iq__twins_copy *reference, struct iq_twin *out);
/* copies and what follows it, once all twins are compared. */
void iq__twins_spread(struct iq_twins *);

#endif
