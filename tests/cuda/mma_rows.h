/* Tensor-core instructions one by one, for tests: on the GPU, or on the shim. */
#ifndef IQ_TESTS_CUDA_MMA_ROWS_H
#define IQ_TESTS_CUDA_MMA_ROWS_H

#include <stdint.h>

enum { MMA_M = 16, MMA_N = 8, MMA_K = 16 };

struct mma_rows {
    uint32_t tiles, profile, format, k; /* enum iq_tc_profile_id, enum iq_tc_format, 16 or 8 */
    const uint16_t *a;                  /* (tiles, MMA_M, MMA_K), device memory, as the rest */
    const uint16_t *b;                  /* (tiles, MMA_N, MMA_K) */
    float *d;                           /* (tiles, MMA_M, MMA_N): accumulators in, results out */
};

#ifdef __cplusplus
extern "C" {
#endif
/* A warp, which is a block, a tile. */
int iq__cuda_mma_rows(const struct mma_rows *, void *stream);
int iq__cuda_shim_mma_rows(const struct mma_rows *, void *stream);
/* Wrong on purpose, for the shim: one lane stays away; one lane means another profile. */
int iq__cuda_shim_mma_lane_missing(const struct mma_rows *, void *stream);
int iq__cuda_shim_mma_lane_astray(const struct mma_rows *, void *stream);
#ifdef __cplusplus
}
#endif

#endif
