/* Inside the forward pass: its files. */
#ifndef IQ_ENGINE_FORWARD_PARTS_H
#define IQ_ENGINE_FORWARD_PARTS_H

#include "engine/forward.h"

/* A step as it is walked. */
struct iq__walk {
    const struct iq_batch *batch;
    uint32_t rows, seqs, predicts; /* of the arguments: the batch's, or padded to a captured size */
    bool padded;
    bool temper; /* a row asks for a temperature that is neither 0 nor 1 */
};

/* That sampling found nothing to take in a row. Returns IQ_CRASHED. */
static inline int iq__forward_no_token(const struct iq_step *step, struct iq_err *err)
{
    return iq_fail(err, IQ_CRASHED, "step %llu: no token can be sampled: a row's logits are all NaN",
                   (unsigned long long)step->step);
}

/* Every op of the step in order: they run, or (on a device, planning) say what is watched. */
int iq__forward_walk(struct iq_forward *, const struct iq__walk *, struct iq_err *);

/* A step on a device: what the host says goes there, the step runs, what it learns comes back. */
int iq__forward_on_device(struct iq_forward *, struct iq__walk *, struct iq_err *);
void iq__forward_captured_close(struct iq_forward *);

#endif
