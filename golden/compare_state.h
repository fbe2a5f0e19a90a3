/* Inside the comparator. */
#ifndef IQ_GOLDEN_COMPARE_STATE_H
#define IQ_GOLDEN_COMPARE_STATE_H

#include "golden/compare.h"

/* ---- counts by attributes (compare_stats.c) ---- */

struct iq__tuple {
    uint32_t value[IQ_ATTRS];
    /* Positions without any difference: that predict nothing, that predict; prefix hits. */
    uint64_t clean[2], reused;
};
struct iq__count {
    uint64_t evaluated, guilty, positions;
};
/* An op by its place's name, over all layers and ranks. */
struct iq__op {
    char op[20], kind[20];
    uint64_t cells[2];       /* compared nodes that each position has; more at positions that predict */
    struct iq__count *count; /* by tuple */
    size_t cap;
    uint64_t total;         /* guilty cells */
    uint64_t last_position; /* the position that was counted last (ordinal + 1) */
    uint8_t *layer;         /* bit per layer, 8 KiB; NULL until guilty */
    struct iq_guilty first; /* earliest guilty cell; positions == 0: none */
};
struct iq__stats {
    struct iq__tuple *tuple;
    size_t n_tuples, cap_tuples;
    uint32_t *slot; /* hash over tuples: index + 1 */
    size_t n_slots;
    struct iq__op *op;
    size_t n_ops, cap_ops;
    uint64_t position; /* ordinal of the present one, from 1 */
};
int iq__stats_tuple(struct iq__stats *, const struct iq_position *, bool decode, uint32_t *out,
                    struct iq_err *);
int iq__stats_op(struct iq__stats *, const char *op, const char *kind, uint32_t *out, struct iq_err *);
int iq__stats_add(struct iq__stats *, uint32_t op, uint32_t tuple, uint64_t evaluated, uint64_t guilty,
                  struct iq_err *);
/* Spreads the clean positions over the ops. `prefix`: the op that owns prefix hits. */
int iq__stats_spread(struct iq__stats *, uint32_t prefix, struct iq_err *);
int iq__stats_trigger(const struct iq__stats *, const struct iq__op *, double chance, struct iq_trigger *,
                      struct iq_err *);
void iq__stats_free(struct iq__stats *);

/* ---- one comparison ---- */

/* A body that the subject computed for these tokens (hash of all up to it) and golden did not. */
struct iq__body {
    uint64_t prefix;
    struct iq_digest body;
};
/* A prefix hit whose body is not golden's: guilty unless the subject computed just that for the same tokens. */
struct iq__hit {
    struct iq__body is;
    struct iq_guilty first;
    uint32_t tuple;
};
struct iq__compare {
    const struct iq_trace *g, *s;
    const struct iq_policy *policy;
    struct iq_finding *f;
    struct iq_err *err;
    bool ops; /* both have cells */

    /* nodes of the subject: their twin in golden or -1; their op; per-position scratch */
    int32_t *twin;
    uint32_t *op_of;
    uint8_t *equal;    /* (n_nodes) of the position at hand */
    uint8_t *kv_dirty; /* (65536) by layer, of the request at hand */
    bool any_dirty;
    uint32_t lm_head, topk, sample, prefix, token, body; /* ops */
    uint32_t vocab;                                      /* 0: unknown */

    struct iq__stats stats;
    struct iq_digest *chain; /* (2, n) of the request at hand */
    size_t chain_cap;
    struct iq__hit *hit;
    size_t n_hits, cap_hits;
    struct iq__body *computed;
    size_t n_computed, cap_computed;
    uint64_t first_key; /* step << 16 | node of finding.first while no op is guilty */
};

/* compare_manifest.c: rungs 1 and what the finding takes from manifests; the variant of each guilty op. */
int iq__compare_manifests(struct iq__compare *);
int iq__compare_variants(struct iq__compare *);

/* compare_cells.c */
int iq__cells_open(struct iq__compare *);
void iq__cells_close(struct iq__compare *);
/* Rung 3 for one request: positions 0 .. n-1 of both. */
int iq__cells_request(struct iq__compare *, const struct iq_request_end *, const struct iq_position *g,
                      const struct iq_position *s, size_t n);
/* Guilty ops, their triggers and order, once all requests are through. */
int iq__cells_finish(struct iq__compare *);

/* finding_label.c: numerics, effect, label and the sentence why. `ops`: cells of both were compared. */
void iq__finding_judge(struct iq_finding *, const struct iq_trace *golden, const struct iq_trace *subject,
                       bool ops);

#endif
