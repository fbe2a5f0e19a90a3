/* Faults and fault sets: which variant strikes which calls and rows.
 *
 * A fault in a plan is a JSON object
 *     {"name": "topk-drops", "op": "topk", "variant": "coarse_bin", "params": {"bits": 8, "capacity": 512},
 *      "when": {"batch": [3, 7], "tracing": false}, "rate": 0.5, "seed": 7, "per": "request"}
 * op: an op ("down") or a kind ("matmul": every op of it). variant: any registered variant of that kind; a
 * reference or golden variant is a *workaround*: standing later in the list, it wins over the faults before
 * it. Only op and variant are required: when = {}, rate = 1, seed = 0, per = "call", name = "OP/VARIANT".
 * rate: a probability, or one over the clock (ramp.h).
 *
 * Rate: where `when` holds, the fault strikes with this probability, drawn once
 *     per call     (step, op, layer, rank; control ops: request, position)  the whole call
 *     per row      (request, position, attempt, op, layer, rank)  each row by itself
 *     per request  (request)                                  sticky: every call of a request, or none
 *     per session  (session; the request where it is 0)       sticky as a router is
 * by Philox from these, the fault's seed, the set's seed, and the texts of op and variant: never from a row's
 * index, the order of arrival, or the fault's place in the list, so taking another fault away changes no
 * draw. Faults that agree in all of these draw alike: give them other seeds. Rate 1 always strikes, rate 0
 * never.
 *
 * A rate that changes over the clock is that of the step, per call and per row. What is sticky is decided once: a
 * request's draw is compared with the rate when it arrived, a session's with that of its first arrival, so that who was
 * routed wrong stays so, whatever the rate does later.
 */
#ifndef IQ_FAULTSET_H
#define IQ_FAULTSET_H

#include "faults/ramp.h"
#include "faults/trigger.h"
#include "kernels/dispatch.h"

enum iq_per { IQ_PER_CALL, IQ_PER_ROW, IQ_PER_REQUEST, IQ_PER_SESSION };

struct iq_fault {
    char *name;                 /* owned */
    unsigned op;                /* enum iq_op_id, or IQ_OP_NONE: every op of the kind */
    const struct iq_kind *kind; /* borrowed for ever, as is the variant */
    const struct iq_variant *variant;
    void *params;         /* (variant->params_size), owned; NULL if it has no parameters */
    struct iq_when *when; /* owned */
    double rate;          /* 0 to 1; of a ramp the most */
    struct iq_ramp *ramp; /* owned; NULL: the rate is constant */
    uint64_t seed;
    enum iq_per per;
};

/* Reads one fault; `where` names it in errors ("plan.json: faults[2]"). IQ_FORMAT: the field, what was
 * found and what is known; IQ_NOT_FOUND: no such op, kind or variant. On error *out is empty. The caller
 * owns *out: iq_fault_free. */
int iq_fault_parse(const cJSON *, const char *where, struct iq_fault *out, struct iq_err *err);
void iq_fault_free(struct iq_fault *); /* frees what it owns, not the struct; safe on an empty one */
/* True when the variant is neither faulty nor benign: it puts golden's bits back. */
bool iq_fault_is_workaround(const struct iq_fault *);
/* Whether it is drawn at all, and whether it asks about rows: by `when`, or in its draws. */
bool iq_fault_draws(const struct iq_fault *);
bool iq_fault_asks_rows(const struct iq_fault *);
/* Canonical JSON with every default written out; and one sentence. Check buf->failed. */
void iq_fault_json(const struct iq_fault *, struct iq_jw *);
void iq_fault_explain(const struct iq_fault *, struct iq_buf *);
/* A parameter's value by name, for reports; IQ_NOT_FOUND. */
int iq_fault_param(const struct iq_fault *, const char *name, double *out);

struct iq_faultset;

/* The faults are borrowed and stand in plan order: a firing's `fault` is the index here. IQ_MISMATCH:
 * variant and op are of different kinds; IQ_FORMAT: parameter or rate out of range; IQ_UNSUPPORTED: the
 * variant does not run on this machine; IQ_LIMIT: more than IQ_PICKS faults may strike one op. n may be 0. */
int iq_faultset_open(const struct iq_fault *, size_t n, uint64_t seed, struct iq_faultset **out,
                     struct iq_err *err);
void iq_faultset_close(struct iq_faultset *);
/* Whether a fault that is drawn once per request or session is drawn for this row's. */
bool iq_faultset_drawn(const struct iq_faultset *, size_t fault, const struct iq_step *,
                       const struct iq_row *);
/* Whether it strikes calls of the op at all, `when` and rate apart. */
bool iq_fault_at(const struct iq_fault *, enum iq_op_id op);
/* Appends why a fault has not struck so far, as far as the calls tell that asked; nothing where it has, or where its rate
 * is 0. */
void iq_faultset_slept(const struct iq_faultset *, size_t fault, struct iq_buf *);
/* For iq_slots_arm; lives as long as the set. One engine thread at a time. The masks of a pick live until
 * the next pick. */
void iq_faultset_selector(struct iq_faultset *, struct iq_selector *out);

#endif
