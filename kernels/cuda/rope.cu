/* rope: a block a row; its threads share the pairs of all heads of q and k, and what lies past `rotary`. */
#include "kernels/arith.h"
#include "kernels/cuda/launchers.h"

enum { ROPE_THREADS = 128 };

__device__ __forceinline__ void rotate(const struct iq_rope &a, const float *table, const float *x, float *y,
                                       uint32_t i)
{
    uint32_t half = a.rotary / 2;
    if (i >= half) { /* not rotated */
        uint32_t at = a.rotary + (i - half);
        y[at] = iq_act_round(x[at], a.act);
        return;
    }
    uint32_t first = a.interleaved ? 2 * i : i, second = a.interleaved ? 2 * i + 1 : i + half;
    float cosine = table[2 * i], sine = table[2 * i + 1];
    y[first] = iq_act_round(IQ_FMAF(x[first], cosine, -(x[second] * sine)), a.act);
    y[second] = iq_act_round(IQ_FMAF(x[second], cosine, x[first] * sine), a.act);
}

static __global__ void rope(const __grid_constant__ struct iq_rope a)
{
    size_t r = blockIdx.x;
    const float *table = a.table + (size_t)a.pos[r] * a.rotary;
    uint32_t items = a.dim - a.rotary / 2; /* of a head: pairs, then single elements */
    for (int p = 0; p < 2; p++) {
        const float *x = a.part[p].x + r * a.part[p].ldx;
        float *y = a.part[p].y + r * a.part[p].ldy;
        for (uint32_t at = threadIdx.x; at < a.part[p].heads * items; at += blockDim.x) {
            size_t head = (size_t)(at / items) * a.dim;
            rotate(a, table, x + head, y + head, at % items);
        }
    }
}

int IQ_CUDA_NAME(rope)(const struct iq_rope *a, iq_cuda_stream stream)
{
    unsigned grid;
    IQ_TRY(iq_cuda_grid(a->rows, &grid));
    if (grid == 0) return IQ_OK;
    iq_cuda_launch(rope, dim3(grid), dim3(ROPE_THREADS), 0, (cudaStream_t)stream, *a);
    return IQ_OK;
}
