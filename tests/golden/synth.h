/* A synthetic run: a small graph whose cells are hashes of their inputs, so that a planted difference spreads exactly
 * as a real one would (through the residual stream, through KV to later positions, through tokens). */
#ifndef IQ_TESTS_GOLDEN_SYNTH_H
#define IQ_TESTS_GOLDEN_SYNTH_H

#include "golden/store.h"

enum { SYNTH_VOCAB = 1000 };
/* What a strike does: another digest; another next token; the digest strikes on nothing else. */
enum { STRIKE = 1, FLIP = 2, ECHO = 4 };

struct synth_site {
    const struct iq_node *node;
    uint32_t node_index, request, pos, batch, step, tokens;
    bool reused, prefill;
};
struct synth {
    uint32_t layers, requests, first_request, prompt, generate;
    uint32_t group; /* requests that run side by side */
    uint64_t seed;
    const char *label; /* goes into the manifest, so into the run id */
    const char *extra; /* more manifest members, starting with a comma; or NULL */
    int (*strike)(void *ctx, const struct synth_site *);
    uint32_t (*batch)(void *ctx, uint32_t request, uint32_t pos);
    uint32_t (*reuse)(void *ctx, uint32_t request); /* positions that are prefix hits */
    float (*margin)(void *ctx, uint32_t request, uint32_t pos);
    bool (*skip)(void *ctx, uint32_t request);
    void *ctx;
    bool contents; /* hand bytes to the sink */
    bool share;    /* all requests have one prompt */
    float nan_at;  /* > 0: the logits of that position are NaN */
};

/* 5 requests of 45 positions, 2 layers: for tests that do not care. */
extern const struct synth SYNTH_SMALL;

struct iq_node *synth_nodes(const struct synth *, uint32_t *n); /* free it */
char *synth_manifest(const struct synth *);                     /* free it */
/* Runs it into a sink, request groups interleaved position by position. The sink's first failure is returned. */
int synth_run(const struct synth *, const struct iq_sink *);
/* Records it whole: begin, run, finish. */
int synth_record(const struct synth *, struct iq_store *, enum iq_level, enum iq_write_mode, const char *name,
                 struct iq_err *);

#endif
