/* What the two collectives share. Internal to kernels/nccl. */
#ifndef IQ_NCCL_COLLECTIVE_H
#define IQ_NCCL_COLLECTIVE_H

#include "kernels/nccl/world.h"

/* A call's pieces by rank: ranks are numbered 0, 1 ... in the order in which the pieces name them. */
struct iq__nccl_call {
    const struct iq_all_reduce *a;
    struct iq_exec *x;
    struct iq__nccl_world *world;
    int ranks;
    size_t elements; /* of a piece */
    uint32_t name[IQ_NCCL_RANKS],
        pieces[IQ_NCCL_RANKS];      /* the rank's number in the pieces; how many it has */
    uint8_t rank[IQ_REDUCE_PIECES]; /* of each piece */
};

/* Checks the call, opens its communicators. */
int iq__nccl_call_open(struct iq__nccl_call *, struct iq_exec *, const struct iq_all_reduce *,
                       const struct iq_nccl_options *);
/* Sums n pieces, as a balanced tree in their order, into `to` (rows, a->n), dense: a copy if n is 1. */
int iq__nccl_sum(struct iq__nccl_call *, const struct iq_piece *, uint32_t n, float *to);
/* Scratch of the engine's device for `floats`. */
int iq__nccl_scratch(struct iq__nccl_call *, size_t floats, float **out);
/* To the rank's own device, on its stream. */
int iq__nccl_ship(struct iq__nccl_call *, int rank, void *to, const void *from, size_t bytes);

#endif
