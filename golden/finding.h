/* A finding: what the comparator says about two runs, on two axes and as one label. Made by iq_compare (compare.h),
 * freed by iq_finding_free. Every pointer belongs to the finding. */
#ifndef IQ_GOLDEN_FINDING_H
#define IQ_GOLDEN_FINDING_H

#include "kernels/base/cell.h"
#include "kernels/base/json.h"
#include "kernels/base/status.h"

#include <stdbool.h>

/* Ascending severity within each list where there is one. */
#define IQ_LABEL_MAP(X)                                                                                      \
    X(IDENTICAL, "identical", "masked")                                                                      \
    X(BENIGN, "benign", "benign")                                                                            \
    X(INCONCLUSIVE, "inconclusive", "inconclusive")                                                          \
    X(SUSPECT, "suspect", "possible silent data corruption")                                                 \
    X(REGRESSED, "regressed", "silent data corruption, critical")                                            \
    X(WRONG, "wrong", "silent data corruption")                                                              \
    X(CRASHED, "crashed", "detected unrecoverable error")
enum iq_label {
#define X(name, text, field) IQ_LABEL_##name,
    IQ_LABEL_MAP(X)
#undef X
        IQ_LABELS
};
const char *iq_label_text(int label);
/* The label of a subject that differs from golden, from the two axes. */
enum iq_label iq_label_of(int numerics, int effect);
/* "masked" is said of a finding only when a fault fired: see iq_finding_term. */
const char *iq_label_field_term(int label);
/* For --fail-on: IQ_USAGE lists the names. */
int iq_label_from_name(const char *name, enum iq_label *out, struct iq_err *err);

/* undetermined: nothing was compared bit by bit (another contract, other prompts). */
#define IQ_NUMERICS_MAP(X)                                                                                   \
    X(IDENTICAL, "identical")                                                                                \
    X(WITHIN, "within")                                                                                      \
    X(UNDETERMINED, "undetermined")                                                                          \
    X(OUTSIDE, "outside")                                                                                    \
    X(VIOLATES, "violates")
enum iq_numerics {
#define X(name, text) IQ_NUMERICS_##name,
    IQ_NUMERICS_MAP(X)
#undef X
};
const char *iq_numerics_text(int numerics);

#define IQ_EFFECT_MAP(X)                                                                                     \
    X(NONE, "none")                                                                                          \
    X(TIE_FLIPS, "tie_flips")                                                                                \
    X(DECISIVE_FLIPS, "decisive_flips")                                                                      \
    X(QUALITY_FELL, "quality_fell")                                                                          \
    X(UNDETERMINED, "undetermined")
enum iq_effect {
#define X(name, text) IQ_EFFECT_##name,
    IQ_EFFECT_MAP(X)
#undef X
};
const char *iq_effect_text(int effect);

/* What is known of the weights: verified (file and memory digests equal), claimed (files equal, memory not stated or
 * of another layout), unknown, differ. */
#define IQ_WEIGHTS_MAP(X)                                                                                    \
    X(UNKNOWN, "unknown") X(CLAIMED, "claimed") X(VERIFIED, "verified") X(DIFFER, "differ")
enum iq_weights {
#define X(name, text) IQ_WEIGHTS_##name,
    IQ_WEIGHTS_MAP(X)
#undef X
};
const char *iq_weights_text(int weights);

/* The attributes a trigger may be told in; the words are those of a plan's `when`. */
#define IQ_ATTR_MAP(X)                                                                                       \
    X(BATCH, "batch")                                                                                        \
    X(TOKENS, "tokens")                                                                                      \
    X(PHASE, "phase")                                                                                        \
    X(ATTEMPT, "attempt") X(POS, "pos") X(PROMPT, "prompt") X(STEP, "step")
enum iq_attr {
#define X(name, text) IQ_ATTR_##name,
    IQ_ATTR_MAP(X)
#undef X
        IQ_ATTRS
};
const char *iq_attr_text(int attr);

struct iq_bucket {
    uint32_t value; /* phase: 0 prefill, 1 decode */
    uint64_t evaluated, guilty;
    bool in;                    /* in the trigger's set */
    uint64_t positions, struck; /* that have evaluated cells; that have guilty ones */
};
/* The smallest set of values of one attribute that holds all guilty cells; of all attributes' sets the one that tells
 * guilty from clean positions in the fewest bits (trigger.c). */
struct iq_trigger {
    bool found;
    bool near;         /* not found: the set fits, but chance alone would give one too often */
    enum iq_attr attr; /* neither: buckets are by batch */
    struct iq_bucket *bucket;
    size_t n_buckets;
    bool range;  /* the set has every value that was seen between its least and its greatest */
    double rate; /* guilty of evaluated cells inside the set */
    double hit;  /* positions with a guilty cell, of those inside the set */
    double
        chance; /* that all guilty positions fall into any set of this form if the attribute did not matter */
    char reason[160];
};

struct iq_vitro_result {
    enum iq_numerics numerics;
    char evidence[400]; /* one sentence */
};

/* One guilty op: all its cells whose inputs were equal and whose output was not. */
struct iq_guilty {
    char op[20], kind[20], variant[64];
    int fault;                 /* index in the subject's plan, or -1 */
    uint64_t cells, evaluated; /* guilty of evaluated */
    uint64_t positions;        /* that have a guilty cell */
    uint16_t *layer;           /* ascending; IQ_NO_LAYER last */
    size_t n_layers;
    bool layers_told; /* others were evaluated at the guilty positions and are clean, by no accident */
    bool layers_open; /* at those positions some layer of it had other inputs and could not be judged */
    /* the earliest in the subject's execution order */
    uint32_t request, pos, step, tokens;
    uint16_t node, first_layer, rank, batch;
    char request_id[80];
    struct iq_trigger trigger;
    bool judged; /* in vitro */
    struct iq_vitro_result vitro;
};

/* Exact matches of `expect`. lost: golden's is right, the subject's is not. */
struct iq_answers {
    uint32_t batch; /* of a bucket */
    uint64_t asked, golden_right, subject_right, lost, gained;
};

struct iq_finding {
    enum iq_label label;
    enum iq_numerics numerics;
    enum iq_effect effect;
    char reason[512]; /* one sentence: why this label */
    char golden[40], subject[40];

    /* rungs 0 and 1 */
    bool same_prompts, same_contract;
    enum iq_weights weights;
    char prompts_note[240], weights_note[240], contract_note[240];

    /* rung 2 */
    /* Compared; with a bit that differs; only in golden; only in subject. */
    uint64_t requests, differing, missing, extra;
    uint64_t positions, positions_differing; /* compared; whose digests differ */
    uint64_t healed; /* differing requests whose last compared position is equal again */
    uint64_t nans, invalid_tokens;
    bool has_first;
    char first_request[80], first_op[20];
    uint32_t first_pos;
    uint16_t first_layer;

    /* rungs 3, 4, 6 */
    struct iq_guilty *guilty; /* earliest first */
    size_t n_guilty;
    char guilty_note[240]; /* why there is none, or how to learn more */

    /* rung 5 */
    uint64_t changed;                   /* requests whose generated ids differ */
    uint64_t tie_flips, decisive_flips; /* first flip of each request */
    double worst_margin;                /* largest golden margin of a flip */
    struct iq_answers answers;          /* all */
    /* By the batch of the subject's step that chose an answer's first token, ascending. */
    struct iq_answers *batch;
    size_t n_batches;

    bool show_fired;
    uint64_t planned; /* faults in the subject's plan */
    /* The subject's firing log: records, rows, rows whose bits changed. */
    uint64_t fired, fired_rows, fired_changed;
    char *replay;    /* command line from the subject's manifest, or NULL */
    char crash[400]; /* the subject's message */
};

void iq_finding_free(struct iq_finding *);
/* The field's term for the label, or NULL: identical runs where no fault fired have masked nothing. */
const char *iq_finding_term(const struct iq_finding *);
/* "prefill" or "decode" for a phase; NULL: the value is a number. */
const char *iq_attr_word(int attr, uint32_t value);
/* One JSON object. 64-bit digests as hex strings; absent things as null. */
void iq_finding_json(const struct iq_finding *, struct iq_jw *);

#endif
