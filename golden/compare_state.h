/* Inside the comparator. */
#ifndef IQ_GOLDEN_COMPARE_STATE_H
#define IQ_GOLDEN_COMPARE_STATE_H

#include "golden/compare.h"

/* ---- counts by attributes (compare_stats.c) ---- */

/* One value of an attribute, as positions of the run have it. */
struct iq__value {
    uint32_t value;
    uint32_t batch, tokens; /* of a step */
    /* Positions without any difference: that predict nothing, that predict; prefix hits. */
    uint64_t clean[2], reused;
};
struct iq__attr {
    struct iq__value *value;
    size_t n, cap;
    uint32_t *slot; /* hash over values: index + 1 */
    size_t n_slots;
};
/* A position's value of each attribute, by index. */
struct iq__place {
    uint32_t at[IQ_ATTRS];
};
/* Cells that were evaluated, that are guilty; positions that have one. */
struct iq__count {
    uint64_t evaluated, guilty, positions, struck;
};
struct iq__beside {
    uint64_t evaluated, guilty;
};
/* An op by its place's name, over all layers and ranks. */
struct iq__op {
    char op[20], kind[20];
    uint64_t cells[2]; /* compared nodes that each position has; more at positions that predict */
    struct iq__count *count[IQ_ATTRS]; /* by value */
    size_t cap[IQ_ATTRS];
    uint64_t total;               /* guilty cells */
    uint64_t seen, last_position; /* the position that was counted last, and as guilty (ordinal) */
    uint8_t *layer;               /* bit per layer, 8 KiB; NULL until guilty */
    struct iq__beside *beside;    /* by layer: cells at positions that have a guilty one */
    size_t cap_beside;
    struct iq_guilty first; /* earliest guilty cell; positions == 0: none */
};
struct iq__stats {
    struct iq__attr attr[IQ_ATTRS];
    struct iq__op *op;
    size_t n_ops, cap_ops;
    uint64_t position; /* ordinal of the present one, from 1 */
};
int iq__stats_place(struct iq__stats *, const struct iq_position *, uint32_t n_prompt, struct iq__place *out,
                    struct iq_err *err);
/* A position without any difference. */
void iq__stats_clean(struct iq__stats *, const struct iq__place *, bool reused, bool predicts);
int iq__stats_op(struct iq__stats *, const char *op, const char *kind, uint32_t *out, struct iq_err *err);
/* One evaluated cell of the present position. */
int iq__stats_add(struct iq__stats *, uint32_t op, const struct iq__place *, bool guilty, struct iq_err *);
/* One evaluated cell of a layer, at a position where the op has a guilty one. */
int iq__stats_layer(struct iq__stats *, uint32_t op, uint16_t layer, bool guilty, struct iq_err *);
/* Spreads the clean positions over the ops. `prefix`: the op that owns prefix hits. */
int iq__stats_spread(struct iq__stats *, uint32_t prefix, struct iq_err *err);

/* ---- triggers (trigger.c) ---- */

int iq__stats_trigger(const struct iq__stats *, const struct iq__op *, double chance, struct iq_trigger *,
                      struct iq_err *);
/* Whether the layers that have guilty cells are told apart from others that were evaluated beside them. */
bool iq__stats_layers(const struct iq__op *, uint64_t struck, double chance);
void iq__stats_free(struct iq__stats *);

/* ---- one comparison ---- */

/* A body that the subject computed for these tokens (hash of all up to it) and golden did not. */
struct iq__body {
    uint64_t prefix;
    struct iq_digest body;
};
/* K and V that a control op answers for (iq_cell_answers; mostly of a prefix hit), in a body that is not golden's: guilty
 * unless the subject computed just that for the same tokens. */
struct iq__hit {
    struct iq__body is;
    uint32_t op; /* that answers for it */
    struct iq_guilty first;
    struct iq__place place;
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
    uint8_t *verdict;  /* (n_nodes) likewise: 0 not evaluated, 1 clean, 2 guilty */
    uint8_t *kv_dirty; /* (65536) by layer, of the request at hand */
    bool any_dirty;
    uint32_t lm_head, topk, sample, prefix, token, body; /* ops */
    uint32_t assemble, place;                            /* likewise */
    bool same_asked; /* both manifests state one and the same set of prompts, as it was asked */
    uint32_t vocab;  /* 0: unknown */

    struct iq__stats stats;
    struct iq_digest *chain; /* (2, n) of the request at hand */
    size_t chain_cap;
    struct iq__hit *hit;
    size_t n_hits, cap_hits;
    struct iq__body *computed;
    size_t n_computed, cap_computed;
    size_t cap_batches; /* of finding.batch */
    uint64_t first_key; /* step << 16 | node of finding.first while no op is guilty */
};

/* compare_manifest.c: rungs 1 and what the finding takes from manifests; the variant of each guilty op. */
int iq__compare_manifests(struct iq__compare *);
int iq__compare_variants(struct iq__compare *);

/* compare_answers.c: position, n: the subject's. */
int iq__answers_request(struct iq__compare *, const struct iq_request_end *g, const struct iq_request_end *s,
                        const struct iq_position *position, size_t n);

/* compare_cells.c */
int iq__cells_open(struct iq__compare *);
void iq__cells_close(struct iq__compare *);
/* Rung 3 for one request: positions 0 .. n-1 of both. */
int iq__cells_request(struct iq__compare *, const struct iq_request_end *, const struct iq_position *g,
                      const struct iq_position *s, size_t n);
/* Rung 0 for one request: whether `op`, which decides about requests, is guilty of it. */
int iq__cells_asked(struct iq__compare *, uint32_t op, bool guilty, const struct iq_request_end *,
                    const struct iq_position *g, const struct iq_position *s);
/* Guilty ops, their triggers and order, once all requests are through. */
int iq__cells_finish(struct iq__compare *);

/* finding_label.c: numerics, effect, label and the sentence why. `ops`: cells of both were compared. */
void iq__finding_judge(struct iq_finding *, const struct iq_trace *golden, const struct iq_trace *subject,
                       bool ops);

#endif
