/* A folder for one test, removed at its end; and small helpers that golden's tests share. */
#ifndef IQ_TESTS_GOLDEN_SCRATCH_H
#define IQ_TESTS_GOLDEN_SCRATCH_H

#include "tests/golden/synth.h"

#include <check.h>

struct scratch {
    char dir[64], store[96], file[96];
};
void scratch_make(struct scratch *,
                  bool in_memory); /* in_memory: where there is a memory disk, for many small writes */
void scratch_drop(struct scratch *);
struct iq_store *scratch_open(const struct scratch *,
                              uint64_t max_bytes); /* creates; aborts the test on failure */
uint64_t scratch_seed(void); /* from IQ_TEST_SEED or the clock; prints the variable that repeats it */

#define OK(call)                                                                                             \
    do {                                                                                                     \
        struct iq_err *e_ = &err;                                                                            \
        int rc_ = (call);                                                                                    \
        ck_assert_msg(rc_ == IQ_OK, "%s: %s: %s", #call, iq_status_text(rc_), e_->text);                     \
    } while (0)

#endif
