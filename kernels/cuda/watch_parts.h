/* Inside the watch: what its files share. watch.c plans and reports, watch_run.c queues. */
#ifndef IQ_CUDA_WATCH_PARTS_H
#define IQ_CUDA_WATCH_PARTS_H

#include "kernels/cuda/watch.h"
#include "kernels/dispatch_parts.h"

/* A pick that won rows of a call. */
struct iq__strike {
    struct iq_pick pick;
    void *state;
    size_t won, changed; /* words: its bits among the masks, its rows among the flags */
};

/* A point of a call that is digested. */
struct iq__digested {
    uint16_t node;
    size_t at; /* its rows among the digests */
};

/* What is watched at one dispatch; empty where nothing is. */
struct iq__call {
    struct iq_site site;
    uint32_t rows; /* of the arguments: the site's and any padding */
    uint32_t strike0, strikes, digested0, digests;
};

/* An array that grows. */
#define LIST(type)                                                                                           \
    struct {                                                                                                 \
        type *at;                                                                                            \
        size_t n, cap;                                                                                       \
    }

/* Device memory and its like on the host, filled one way or the other once a step. */
struct iq__mirror {
    struct iq_cuda_room device;
    char *host; /* page-locked */
    size_t host_bytes, used;
};

struct iq_cuda_step {
    bool planning;
    LIST(struct iq__call) call;
    LIST(struct iq__strike) strike;
    LIST(struct iq__digested) digested;
    LIST(uint32_t) mask;
    size_t next;                               /* call of the next dispatch that runs */
    size_t saved_bytes;                        /* most that a call sets aside */
    struct iq__mirror masks, changed, digests; /* words, words, struct iq_digest */
    struct iq_cuda_room saved;
    void *row; /* host, for level tensors: rows of a point */
    size_t row_bytes;
};

/* Its place on the device; there is one once the plan has asked for any (iq_cuda_step_ready). */
static inline char *iq__mirror_there(const struct iq__mirror *m)
{
    return m->device.block[m->device.blocks - 1];
}

/* A dispatch, or a digest of whole rows, as planned: the next call of the step. IQ_MEMORY; IQ_UNSUPPORTED: a pick's variant
 * has no form for a device. */
int iq__watch_plan(struct iq_exec *, const struct iq_site *, const void *args);
int iq__watch_plan_whole(struct iq_cuda_step *, const struct iq_site *, uint32_t rows, uint16_t node,
                         size_t row_bytes);

#endif
