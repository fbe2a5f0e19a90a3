/* Inside the forward pass: its files. */
#ifndef IQ_ENGINE_FORWARD_PARTS_H
#define IQ_ENGINE_FORWARD_PARTS_H

#include "engine/forward.h"

/* A step as it is walked. */
struct iq__walk {
    const struct iq_batch *batch;
    uint32_t rows, seqs, predicts; /* of the arguments: the batch's, or padded to a captured size */
    bool padded;
    bool mask;   /* a row forbids tokens */
    bool temper; /* a row asks for a temperature that is neither 0 nor 1 */
};

/* That sampling found nothing to take in a row. Returns IQ_CRASHED. */
static inline int iq__forward_no_token(const struct iq_step *step, struct iq_err *err)
{
    return iq_fail(err, IQ_CRASHED, "step %llu: no token can be sampled: a row's logits are all NaN",
                   (unsigned long long)step->step);
}

/* A walk under way. */
struct iq__pass {
    struct iq_forward *f;
    const struct iq_batch *b;
    const struct iq__walk *w;
    uint32_t layer;
    uint32_t rows, known;     /* of the ops that follow; without padding */
    const struct iq_row *row; /* (known) */
    const struct iq_seq *seq; /* where the op, or whoever asks about it, can read them */
    uint32_t seqs;
    struct iq_err *err;
};

/* A dispatch, with a sentence if it fails. */
int iq__pass_run(const struct iq__pass *, enum iq_op_id, uint32_t rank, const void *args);
/* What a failing op says of itself: on a device there is a sentence. */
const char *iq__pass_reason(const struct iq__pass *, int status);
/* Digest of the whole rows that several ranks wrote together; with one rank its slot has done it. */
int iq__pass_tap(const struct iq__pass *, enum iq_op_id, unsigned point, const float *y, size_t ld, size_t n);
int iq__pass_norm(const struct iq__pass *, enum iq_op_id, const float *x, size_t ldx, const float *weight,
                  uint32_t groups, uint32_t n, float *y, size_t ldy);
/* res[!from] = res[from] + b. */
int iq__pass_add(const struct iq__pass *, enum iq_op_id, int from, const float *b);

/* What adapters add to `parts` products of x beside one another, from `target` on: *y, whose rows have the stride of base's,
 * which it is where the run has no adapters. */
int iq__forward_adapt(const struct iq__pass *, enum iq_op_id, enum iq_target target, uint32_t parts,
                      const float *x, size_t ldx, const float *base, size_t ldb, const float **y);

/* The feed-forward part of a layer as a mixture of experts: from its norm's output in h to the combined rows in sum. */
int iq__forward_experts(const struct iq__pass *);

/* Every op of the step in order: they run, or (on a device, planning) say what is watched. */
int iq__forward_walk(struct iq_forward *, const struct iq__walk *, struct iq_err *);

/* A step on a device: what the host says goes there, the step runs, what it learns comes back. */
int iq__forward_on_device(struct iq_forward *, struct iq__walk *, struct iq_err *);
void iq__forward_captured_close(struct iq_forward *);

#endif
