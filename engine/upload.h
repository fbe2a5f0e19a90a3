/* A model whose weights lie elsewhere: on a device, or in memory of their own that may be written. */
#ifndef IQ_ENGINE_UPLOAD_H
#define IQ_ENGINE_UPLOAD_H

#include "engine/model.h"
#include "kernels/cuda/device.h"

/* The same model by the same struct; but its norms, biases, rotary table and the data of its matrices are device memory,
 * which the host can't read, or memory of the copy. What is not a weight is borrowed from the original. */
struct iq_upload {
    struct iq_model model;
    void *arena, *vectors, *rotary;
    struct iq_cuda *cuda; /* NULL: they are the host's */
};

/* IQ_MEMORY: the device has too little; the sentence says how much it takes. */
int iq_upload_open(const struct iq_model *, struct iq_cuda *, struct iq_upload *, struct iq_err *err);
void iq_upload_close(struct iq_upload *); /* safe on a zeroed one */

#endif
