/* What the tests of the comparator share: a golden run, a subject with a planted fault, and what comparing them finds. */
#ifndef IQ_TESTS_GOLDEN_COMPARE_CASE_H
#define IQ_TESTS_GOLDEN_COMPARE_CASE_H

#include "golden/compare.h"
#include "tests/golden/store_scratch.h"

/* Opened and closed by Check's fixtures compare_set_up and compare_tear_down. */
extern struct iq_store *store;
void compare_set_up(void);
void compare_tear_down(void);

extern const struct synth BASE; /* the golden run: 24 requests */

/* A planted fault: at an op (and layer, batch size, request, position; -1, for batch 0: any); what it does. */
struct plant {
    const char *op;
    int layer, batch, request, pos, effect;
    float margin;
    uint32_t reuse_from; /* first request with a prefix hit */
};
int strike(void *plant, const struct synth_site *);
/* Batch sizes from 1 to 9, mixed over requests and positions. */
uint32_t batch(void *ctx, uint32_t request, uint32_t pos);

/* Records golden `g` and subject `s` and compares them; freed by the caller. */
struct iq_finding *diff(const struct synth *g, const struct synth *s, enum iq_level gl, enum iq_level sl,
                        iq_vitro_fn *, void *ctx);
/* The same for BASE, and BASE with this fault under other batch sizes. extra: more members of the manifest, or NULL. */
struct iq_finding *diff_planted(struct plant *, enum iq_level, iq_vitro_fn *, const char *extra);
/* Compares what the store holds as `golden` and `subject`. */
struct iq_finding *compare_recorded(iq_vitro_fn *, void *ctx);

#endif
