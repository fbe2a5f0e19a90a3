/* What the trainer's tests share: numbers from a seed that is printed when a test fails, small recipes and batches. */
#ifndef IQ_TESTS_TRAIN_RIG_H
#define IQ_TESTS_TRAIN_RIG_H

#include "engine/train/train.h"

#include <check.h>
#include <stdlib.h>

/* IQ_TEST_SEED, or 1. Said in every failure's message. */
uint64_t rig_seed(void);

struct rig_random {
    uint64_t seed, at;
};
uint32_t rig_below(struct rig_random *, uint32_t n);
float rig_float(struct rig_random *); /* -1 to 1 */
/* n floats in new memory, the caller's; about one in 50 a zero of either sign. */
float *rig_floats(struct rig_random *, size_t n);

struct iq_train_recipe rig_recipe(void);  /* two layers, grouped heads, odd sizes */
struct iq_train_recipe rig_experts(void); /* the same with two of five experts */
/* Random tokens, about a third of them asked for; free both arrays. */
struct iq_train_batch rig_batch(struct rig_random *, const struct iq_train_recipe *, uint32_t rows,
                                uint32_t length);
void rig_batch_free(struct iq_train_batch *);

struct iq_train *rig_open(const struct iq_train_recipe *, struct iq_train_options);
/* Steps [from, to) of a run whose batches follow from the step alone. */
void rig_run(struct iq_train *, uint32_t from, uint32_t to);
struct iq_digest rig_train(const struct iq_train_recipe *, struct iq_train_options, uint32_t steps);

#define rig_check_ok(call)                                                                                   \
    do {                                                                                                     \
        struct iq_err err = {0};                                                                             \
        int rig_rc = (call);                                                                                 \
        ck_assert_msg(rig_rc == IQ_OK, "%s: %s", #call, err.text);                                           \
    } while (0)

#endif
