/* Collectives over real NCCL communicators, as variants of all_reduce on "cuda".
 *
 * The engine keeps the partial sums of all tensor-parallel ranks on one GPU. With N ranks among a call's pieces a
 * communicator of N is opened in this process, rank 0 on the engine's GPU and each other rank on one of its own; rank r's
 * sums are copied to its GPU, the collective runs over all of them, and rank 0's result is the op's. So NCCL adds, over the
 * links, in the order, with the algorithm and the protocol of a real deployment; only where the sums were computed differs.
 *
 *   nccl         ncclAllReduce, or reduce-scatter and all-gather. Another order of the same sum: benign. An element's order
 *                follows from its place in the message, so from the number of rows: it couples rows.
 *   nccl_gather  send and receive of every piece to rank 0, then golden's tree: golden's bits.
 *
 * Communicators are made at the first call that needs them, one set for each (device, ranks, settings), and live as long as
 * the device. More ranks than GPUs are IQ_UNSUPPORTED: NCCL takes one rank a GPU. On the shim only a table that says so
 * (struct iq_nccl_api) can work. After a failure the communicators are aborted and the next call opens new ones; graphs that
 * hold a collective of the old ones must not run any more.
 *
 * Captured batches: everything is queued on streams that wait for each other by events, so that a collective can stand in
 * a graph with all its GPUs. NCCL supports capture, but advises against it where one thread drives several GPUs ("may
 * result in deadlocks"), so that with more than one rank it is refused unless the parameter `capture` is 1. A step has to
 * run once before it is captured, as everywhere: communicators and buffers cannot be made in a capture.
 *
 * Algorithm and protocol are what NCCL_ALGO and NCCL_PROTO say while a communicator is opened: NCCL 2.28 reads both for
 * each communicator (graph/tuning.cc, ncclTopoTuneModel) and none after that, so that several settings live side by side;
 * the environment is put back at once. NCCL ignores them with one rank. Where nothing is chosen the environment's own
 * values hold, or those of a tuner (tuner/nccl_tuner.c), which decides by message size.
 */
#ifndef IQ_NCCL_NCCL_H
#define IQ_NCCL_NCCL_H

#include "kernels/exec.h"
#include "kernels/nccl/api.h"
#include "kernels/op.h"
#include "kernels/ops/reduce.h"

struct iq_cuda;

enum { IQ_NCCL_LIBRARY, IQ_NCCL_RING, IQ_NCCL_TREE, IQ_NCCL_NVLS, IQ_NCCL_ALGORITHMS };
enum { IQ_NCCL_LL = 1, IQ_NCCL_LL128, IQ_NCCL_SIMPLE, IQ_NCCL_PROTOCOLS };

struct iq_nccl_options {
    unsigned algorithm, protocol; /* as above; 0: the library's choice */
    unsigned channels;            /* 0: the library's choice; else exactly so many thread blocks */
    bool bf16;                    /* sums are rounded to bf16 before they are sent, and at every addition */
    bool scatter;                 /* as a reduce-scatter and an all-gather */
    bool capture;                 /* allow a capture over several GPUs */
};

/* A wrong collective is a right one that sent something else. Both are called on the engine's stream, where they queue
 * kernels and nothing else; a status other than IQ_OK ends the call.
 *   message  for each rank in turn, when its message stands complete in **message (float32, device memory of the engine's
 *            GPU, before any rounding to bf16) and nothing has left. It may change the message, or put the address of
 *            another in place, of iq_nccl_padded(elements) floats.
 *   sent     for each rank, when the collective is queued: every message has been read, and the ones of ranks after the
 *            first still hold what `message` saw (those of the first hold the sum). */
struct iq_nccl_hook {
    void *self;
    int (*message)(void *self, struct iq_exec *, uint32_t rank, float **message, size_t elements);
    int (*sent)(void *self, struct iq_exec *, uint32_t rank, const float *message, size_t elements);
};
#define iq_nccl_padded(elements) ((elements) + IQ_NCCL_RANKS)

/* The variants' work; x->cuda is set. hook may be NULL. On failure cuda->err has the sentence. */
int iq_nccl_all_reduce(struct iq_exec *x, const struct iq_all_reduce *, const struct iq_nccl_options *,
                       const struct iq_nccl_hook *hook);
int iq_nccl_gather(struct iq_exec *x, const struct iq_all_reduce *, bool capture);

/* Both are attached to a device (iq_cuda_attach) that has communicators. After a synchronization: whether one of them has met
 * an error since. IQ_OK where there are none. */
int iq_nccl_check(struct iq_cuda *);
/* Closes all communicators of a device. Safe where there are none, and on a lost device. */
void iq_nccl_close(struct iq_cuda *);

extern const struct iq_variant *const iq_nccl_variants[]; /* NULL-terminated */

#endif
