/* Engines in tests: a set of requests, run to the end under one configuration, with everything seen that a property
 * needs as proof that it was put to the test. Failures stop the test. */
#ifndef IQ_TESTS_ENGINE_RIG_H
#define IQ_TESTS_ENGINE_RIG_H

#include "engine/engine.h"

/* A pure function of (seed, i): tests draw from this alone. */
uint64_t iq_rig_draw(uint64_t seed, uint64_t i);
/* IQ_TEST_SEED, or a fixed seed; IQ_TEST_CASE, or UINT32_MAX: all cases. */
uint64_t iq_rig_seed(void);
uint32_t iq_rig_only_case(void);

/* The model file that IQ_TEST_MODEL names; without it: says so and exits 77. */
const char *iq_rig_real_model(void);
struct iq_model *iq_rig_model(const char *path, uint32_t tp);
struct iq_model *iq_rig_model_experts(const char *path, uint32_t tp, uint32_t expert_parallel);

/* The lines of a file of JSON lines in tests/data, `most` of them; the caller frees each. */
uint32_t iq_rig_lines(const char *name, cJSON **line, uint32_t most);
/* The path of a file in tests/data, until the next call. */
const char *iq_rig_data(const char *name);
double iq_rig_number(const cJSON *list, int i); /* the i-th item */

struct iq_rig_set {
    struct iq_request *request; /* (n) */
    uint32_t n;
    uint32_t *tokens;
    char (*id)[12];
};
struct iq_rig_shape {
    uint32_t n, vocab, longest,
        answer;    /* requests; ids below; prompt tokens; tokens to generate, both at most */
    uint32_t stem; /* prompts share heads of up to this many tokens */
    bool sampled;  /* temperatures, top_k, top_p, min_p of many kinds */
};
struct iq_rig_set iq_rig_set_make(uint64_t seed, const struct iq_rig_shape *);
void iq_rig_set_free(struct iq_rig_set *);

/* What a run showed. */
struct iq_rig_seen {
    uint32_t batch; /* largest of a computed position */
    uint32_t padded, mixed,
        chunks;        /* watched: steps with captured > batch; prompts beside decodes; prompts in parts */
    uint32_t tempered; /* watched: calls of the temper op */
    uint32_t fired, rows, changed; /* firing log: records, rows, rows with another bit */
    uint32_t batches_fired[64];    /* records by batch */
    uint64_t clock_us;             /* virtual time of the last step, watched */
};

struct iq_rig {
    struct iq_engine *engine;
    const struct iq_request *request;
    uint32_t n;
    struct iq_rig_seen seen;
    const struct iq_selector *faults;
    struct iq_sink also; /* gets every record too */
    struct iq_sink sink;
    struct iq_selector spy;
};

/* faults NULL: none. watch: every dispatch goes through a selector that picks nothing of its own. Between opening and
 * going, `also` may be set. */
void iq_rig_open(struct iq_rig *, const struct iq_model *, const struct iq_engine_config *,
                 const struct iq_request *, uint32_t n, const struct iq_selector *faults, bool watch);
void iq_rig_go(struct iq_rig *);
/* Both, with no other sink. */
void iq_rig_run(struct iq_rig *, const struct iq_model *, const struct iq_engine_config *,
                const struct iq_request *, uint32_t n, const struct iq_selector *faults, bool watch);
void iq_rig_close(struct iq_rig *);
const struct iq_output *iq_rig_output(const struct iq_rig *, uint32_t i);

/* True when request i of `a` and request j of `b` have the same tokens, chain, positions and candidates. `why` says
 * what differs first. */
bool iq_rig_same(const struct iq_rig *a, uint32_t i, const struct iq_rig *b, uint32_t j, char why[256]);
/* Requests of `b`, matched by index, whose answers are not `a`'s. */
uint32_t iq_rig_differing(const struct iq_rig *a, const struct iq_rig *b);

/* ---- errors against exact arithmetic ----
 *
 * A value's error comes from the float32 roundings on its path: n on the longest one, counted from the contract's chains
 * and trees (28,000 for SmolLM2's 30 layers at 590 keys). Roundings of both signs add like a random walk, not like a
 * worst case (Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, SIAM J. Sci. Comput. 41, 2019):
 * one is uniform within u = 2^-24 of its value, so that n of them have the deviation sqrt(n / 3) u. The bound is
 * 2 sqrt(n) u, 3.5 deviations, relative to the length of the vector that they disturb; for a logit, to the largest of its
 * row. That takes the network's condition for 1: every branch is normed and added to a stream that is larger. It is no
 * proof, but it can fail: an F16 KV cache errs 100 times more, activations of 8 bits 5,000 times more, and a wrong
 * frequency, window, bias or norm shows in the first digit. */
double iq_rig_roundings(const struct iq_model_config *, double layers, double keys); /* to a residual row */
double iq_rig_bound(double roundings);
double iq_rig_logit_bound(const struct iq_model_config *, double keys, double largest);

#endif
