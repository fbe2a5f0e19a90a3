/* A folder for one test, removed at its end; and small helpers that golden's tests share. */
#ifndef IQ_TESTS_GOLDEN_STORE_SCRATCH_H
#define IQ_TESTS_GOLDEN_STORE_SCRATCH_H

#include "tests/golden/synth.h"

#include <check.h>

struct scratch {
    char dir[64], store[96], file[96];
};
/* The running test's own folder, and the last error: scratch_on_disk or scratch_in_memory makes them anew before each
 * test, scratch_drop removes the folder behind it. */
extern struct scratch dir;
extern struct iq_err err;
void scratch_on_disk(void);
void scratch_in_memory(void); /* where there is a memory disk, for many small writes */
void scratch_drop(void);

/* Creates the store where there is none; aborts the test on failure. max_bytes 0: no limit. */
struct iq_store *scratch_open(const struct scratch *, uint64_t max_bytes);
/* Begins a run of `synth`'s graph at this level; manifest NULL: `synth`'s own. Aborts the test on failure. */
struct iq_writer *scratch_begin(struct iq_store *, const struct synth *, const char *manifest, enum iq_level,
                                const char *name);
/* From IQ_TEST_SEED or the clock; prints the variable that repeats it. */
uint64_t scratch_seed(void);

#define OK(call)                                                                                             \
    do {                                                                                                     \
        struct iq_err *e_ = &err;                                                                            \
        int rc_ = (call);                                                                                    \
        ck_assert_msg(rc_ == IQ_OK, "%s: %s: %s", #call, iq_status_text(rc_), e_->text);                     \
    } while (0)

#endif
