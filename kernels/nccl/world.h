/* Communicators of one device's collectives, with the streams and buffers of the other ranks. Internal to kernels/nccl. */
#ifndef IQ_NCCL_WORLD_H
#define IQ_NCCL_WORLD_H

#include "kernels/cuda/device.h"
#include "kernels/nccl/nccl.h"

/* Rank 0 is the engine's: its device, its stream, and buffers of the engine's scratch. */
struct iq__nccl_rank {
    int device;
    void *comm, *stream;
    void *event; /* rank 0: the messages stand ready; others: this rank is done */
    struct iq_cuda_room room;
};

struct iq__nccl_world {
    struct iq__nccl_world *next;
    const struct iq_nccl_api *api;
    struct iq_cuda *cuda;
    struct iq_nccl_options options; /* of a communicator: algorithm, protocol, channels */
    int ranks, home;                /* home: the engine's device */
    bool failed; /* to be aborted when the next call comes, or at the end: never in a capture */
    struct iq__nccl_rank rank[IQ_NCCL_RANKS];
};

/* Found or opened. On failure cuda->err has the sentence. */
int iq__nccl_world(struct iq_cuda *, int ranks, const struct iq_nccl_options *, struct iq__nccl_world **out);
/* At least `bytes` on the rank's own device, valid until the next call for this rank (in stream order). */
int iq__nccl_buffer(struct iq__nccl_world *, int rank, size_t bytes, void **out);
/* A code of NCCL as a status, its sentence in cuda->err. rank: whose communicator was asked, -1 none. */
int iq__nccl_done(struct iq__nccl_world *, int code, int rank, const char *what);
/* The other ranks' streams wait for the engine's; the engine's waits for theirs. */
int iq__nccl_fork(struct iq__nccl_world *);
int iq__nccl_join(struct iq__nccl_world *);

#endif
