/* A tensor core for the shim: the warp-wide product of kernels/cuda/mma.h, computed by kernels/tensor_core/block.h.
 *
 * All 32 lanes meet in it, at one source line, with the same product in mind; otherwise it is a finding, as for every warp
 * operation. What the other lanes hold of D is computed when the last lane comes. */
#ifndef IQ_CUDA_SHIM_MMA_H
#define IQ_CUDA_SHIM_MMA_H

#include "kernels/cuda/shim/device.h"

/* What a lane brings: the registers of mma.sync.m16n8k16 (m16n8k8: a[0], a[1], b[0]). */
struct iq_shim_mma {
    uint32_t profile, format, k; /* enum iq_tc_profile_id, enum iq_tc_format, 8 or 16 */
    uint32_t a[4], b[2];
    float d[4];    /* the accumulator; out: the result */
    unsigned lane; /* filled in */
};

extern "C" void iq_shim_mma(struct iq_shim_mma *, const char *file, int line);

#endif
