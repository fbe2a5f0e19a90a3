/* Forms of the trainer's ops against their references: odd sizes, 1, 2 and 3 threads. Replay with IQ_TEST_SEED. */
#ifndef IQ_TESTS_TRAIN_FORMS_H
#define IQ_TESTS_TRAIN_FORMS_H

#include "tests/train/rig.h"

/* With 1, 2 and 3 threads: each test's own, by the fixture of these two. */
extern struct iq_exec forms_exec[4];
void forms_open(void);
void forms_close(void);

/* `one` is called with the reference's output first, then with every other form's; the bits are compared. */
struct forms_trial {
    struct rig_random random; /* as it stood before: each form draws the same inputs */
    size_t outputs;           /* floats */
    int (*one)(struct iq_exec *, const struct iq_train_ops *, struct rig_random *, float *out);
};
void forms_compare(const char *op, const struct forms_trial *);

struct rig_random forms_start(int round);

#define REPEAT(times) for (int round = 0; round < (times); round++)

#endif
