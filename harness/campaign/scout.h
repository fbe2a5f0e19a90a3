/* Where a trial's faults may fire: golden's run remembered as the sites of its dispatches, so that a selector can be asked
 * about each of them without running anything.
 *
 * A trial is golden, to the bit, up to the first site where its selector picks something: there it starts. And a trial whose
 * state is golden's again stays so unless a later site is picked: there it ends. Host predicates see the site and the
 * operands' dims, and both are kept here; nothing else may decide a pick (kernels/dispatch.h).
 */
#ifndef IQ_HARNESS_SCOUT_H
#define IQ_HARNESS_SCOUT_H

#include "kernels/dispatch.h"

struct iq_scouted {
    struct iq_site site; /* its step and rows are copies; the slot is the engine's */
    struct iq_step step;
    size_t args; /* offset into `bytes` */
    size_t rows; /* offset into `row` */
    size_t seqs; /* offset into `bytes`, where the kind has sequences */
};

struct iq_scout {
    struct iq_scouted *seen;
    size_t n, cap;
    struct iq_row *row;
    size_t n_rows, cap_rows;
    char *bytes;
    size_t n_bytes, cap_bytes;
    const struct iq_row *last_row; /* whose copy the last site has */
    uint64_t last_step;
};

/* For iq_engine_arm while golden runs: it looks and picks nothing. */
void iq_scout_selector(struct iq_scout *, struct iq_selector *out);
void iq_scout_free(struct iq_scout *);
/* The first site from `from` on (an index) that the selector picks; scout->n: none. SIZE_MAX: no memory. */
size_t iq_scout_find(const struct iq_scout *, const struct iq_selector *, size_t from);
/* The least position among the rows that the selector picks at sites of the same step, from the site `from` on. */
uint32_t iq_scout_least(const struct iq_scout *, const struct iq_selector *, size_t from);
/* The first site of a step that is `step` or later. */
size_t iq_scout_step(const struct iq_scout *, uint64_t step);

#endif
