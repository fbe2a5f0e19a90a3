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

/* Every op of the step in order: they run, or (on a device, planning) say what is watched. */
int iq__forward_walk(struct iq_forward *, const struct iq__walk *, struct iq_err *);

/* A step on a device: what the host says goes there, the step runs, what it learns comes back. */
int iq__forward_on_device(struct iq_forward *, struct iq__walk *, struct iq_err *);
void iq__forward_captured_close(struct iq_forward *);

#endif
