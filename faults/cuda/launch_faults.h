/* Launchers of the wrong variants' kernels, for IQ_CUDA_PICK: as kernels/cuda/launch.h's, they put kernels on a
 * stream and neither wait nor allocate. Pointers are device memory. IQ_OK, or IQ_LIMIT before anything was
 * launched. */
#ifndef IQ_LAUNCH_FAULTS_H
#define IQ_LAUNCH_FAULTS_H

#include "faults/stale_rules.h"
#include "kernels/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* rule: the family's (faults/topk_rules.h), read before the call returns; room: (rows, entries). k at least 1. */
typedef int iq__topk_launch(const struct iq_topk *, const void *rule, uint64_t *room, size_t entries,
                            iq_cuda_stream);

#define IQ__BUILD(prefix)                                                                                    \
    iq__topk_launch iq__##prefix##_k1, iq__##prefix##_k2, iq__##prefix##_k3;                                 \
    int iq__##prefix##_k16_deliver(struct iq__stale_rule, struct iq__stale_piece, struct iq__stale_state *,  \
                                   iq_cuda_stream);                                                          \
    int iq__##prefix##_k16_next(struct iq__stale_state *, iq_cuda_stream);                                   \
    int iq__##prefix##_k1_shift(const struct iq_topk *, float step, float *made, iq_cuda_stream);            \
    int iq__##prefix##_k1_values(const struct iq_topk *, iq_cuda_stream);                                    \
    /* low: (rows, width) of x, row stride ldx */                                                            \
    int iq__##prefix##_k17(const float *x, size_t ldx, uint32_t rows, size_t width, uint32_t bits,           \
                           float *low, iq_cuda_stream);
IQ__BUILD(cuda)
IQ__BUILD(cuda_shim)
#undef IQ__BUILD

#ifdef __cplusplus
}
#endif

#endif
