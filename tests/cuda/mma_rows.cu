#include "tests/cuda/mma_rows.h"

#include "kernels/cuda/mma.h"

enum bug { NONE, LANE_MISSING, LANE_ASTRAY };

template <int FORMAT, int BUG> static __global__ void mma_rows(struct mma_rows r)
{
    const uint32_t lane = threadIdx.x, g = lane / 4, t = lane % 4, half = MMA_K / 2;
    const uint32_t *a = (const uint32_t *)(r.a + (size_t)blockIdx.x * MMA_M * MMA_K) + g * half + t;
    const uint32_t *b = (const uint32_t *)(r.b + (size_t)blockIdx.x * MMA_N * MMA_K) + g * half + t;
    float *d = r.d + (size_t)blockIdx.x * MMA_M * MMA_N + g * MMA_N + 2 * t;
    const uint32_t ra[4] = {a[0], a[8 * half], a[4], a[8 * half + 4]}, rb[2] = {b[0], b[4]};
    float rd[4] = {d[0], d[1], d[8 * MMA_N], d[8 * MMA_N + 1]};
    const uint32_t profile = BUG == LANE_ASTRAY && lane == 7 ? r.profile + 1 : r.profile;
    if (BUG != LANE_MISSING || lane != 7) {
        if (r.k == 8)
            iq_mma8<FORMAT>(rd, ra, rb, profile);
        else
            iq_mma16<FORMAT>(rd, ra, rb, profile);
    }
    d[0] = rd[0], d[1] = rd[1], d[8 * MMA_N] = rd[2], d[8 * MMA_N + 1] = rd[3];
}

template <int BUG> static int launch(const struct mma_rows *r, void *stream)
{
    void (*const kernel[])(struct mma_rows) = {mma_rows<IQ_TC_BF16, BUG>, mma_rows<IQ_TC_F16, BUG>};
    iq_cuda_launch(kernel[r->format], dim3(r->tiles), dim3(IQ_WARP), 0, (cudaStream_t)stream, *r);
    return 0;
}

int IQ_CUDA_NAME(mma_rows)(const struct mma_rows *r, void *stream) { return launch<NONE>(r, stream); }

#ifndef __CUDACC__ /* a GPU would hang, or not */
int iq__cuda_shim_mma_lane_missing(const struct mma_rows *r, void *stream)
{
    return launch<LANE_MISSING>(r, stream);
}
int iq__cuda_shim_mma_lane_astray(const struct mma_rows *r, void *stream)
{
    return launch<LANE_ASTRAY>(r, stream);
}
#endif
