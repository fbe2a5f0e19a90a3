/* A block's tile of a product under the contract `ieee`: ROWS rows by OUTS x 32 outputs of one panel.
 *
 * The chunks of K are shared out among the block's warps, a chunk a warp, in waves. A lane keeps one chain of fma in a
 * register for each of its ROWS x OUTS results; weights come straight from the packed panel, 32 outputs side by side in
 * each load, and are used for all rows; x comes from shared memory, the same word for all lanes. After a wave the block
 * folds the wave's sums in ascending order into a stack of open tree nodes (kernels/sum_plan.h), so that shared memory
 * does not grow with K. */
#ifndef IQ_CUDA_MATMUL_TILE_H
#define IQ_CUDA_MATMUL_TILE_H

#include "kernels/cuda/launchers.h"
#include "kernels/cuda/weights.h"
#include "kernels/matrix.h"
#include "kernels/sum_plan.h"

enum {
    IQ_TILE_ALIGNED = 8, /* k that are taken together */
    IQ_TILE_STRIDE =
        IQ_CHUNK + IQ_TILE_ALIGNED /* of a row of x in shared memory: chunks may begin off the alignment */
};

/* Floats of shared memory for a tree of `levels`. */
static inline size_t iq_tile_floats(uint32_t rows, uint32_t outs, uint32_t warps, uint32_t levels)
{
    size_t tile = (size_t)rows * outs * IQ_WARP;
    return warps * (rows * (size_t)IQ_TILE_STRIDE + tile) + levels * tile;
}

/* What a tile is of comes from an object of a class Tile, whose functions read the launch's parameters where they stand:
 *   k() unit() n() act() bias()   of the product; bias: of all outputs, or NULL
 *   has(r)                        is there a row r in the tile?
 *   x(r) y(r)                     where its columns and its outputs begin
 *
 * A warp's chunk: columns k0 .. k0 + kc of ROWS rows into `xs`, where column k stands at k - k0 + k0 % 8. */
template <int ROWS, class Tile>
__device__ __forceinline__ void iq_tile_load(const Tile &tile, struct iq__sum_step step, float *xs,
                                             uint32_t lane)
{
    uint32_t shift = step.k0 % IQ_TILE_ALIGNED;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        for (uint32_t i = lane; i < step.kc; i += IQ_WARP)
            xs[r * IQ_TILE_STRIDE + shift + i] = tile.has(r) ? tile.x(r)[step.k0 + i] : 0.0f;
}

/* One k for all results of the lane. */
template <int FORMAT, int ROWS, int OUTS>
__device__ __forceinline__ void iq_tile_one_k(const uint8_t *panel, uint32_t j, uint32_t k, const float *xs,
                                              float acc[ROWS][OUTS])
{
#pragma unroll
    for (int o = 0; o < OUTS; o++) {
        float w = iq_weight<FORMAT>(panel, k, j + o * IQ_WARP);
#pragma unroll
        for (int r = 0; r < ROWS; r++) acc[r][o] = IQ_FMAF(xs[r * IQ_TILE_STRIDE], w, acc[r][o]);
    }
}

template <int FORMAT, int ROWS, int OUTS>
__device__ __forceinline__ void iq_tile_eight_k(const uint8_t *panel, uint32_t j, uint32_t k, const float *xs,
                                                float acc[ROWS][OUTS])
{
    float w[OUTS][8];
#pragma unroll
    for (int o = 0; o < OUTS; o++) iq_weights8<FORMAT>(panel, k, j + o * IQ_WARP, w[o]);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const float4 a = *(const float4 *)(xs + r * IQ_TILE_STRIDE),
                     b = *(const float4 *)(xs + r * IQ_TILE_STRIDE + 4);
        const float x[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int o = 0; o < OUTS; o++) acc[r][o] = IQ_FMAF(x[i], w[o][i], acc[r][o]);
    }
}

/* The sums of one chunk, into sums[r][o]. */
template <int FORMAT, int ROWS, int OUTS>
__device__ __forceinline__ void iq_tile_chunk(const uint8_t *panel, uint32_t j, struct iq__sum_step step,
                                              const float *xs, float *sums, uint32_t lane)
{
    float acc[ROWS][OUTS];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int o = 0; o < OUTS; o++) acc[r][o] = 0.0f;
    uint32_t k = step.k0, end = step.k0 + step.kc;
    xs += step.k0 % IQ_TILE_ALIGNED;
    for (; k < end && k % IQ_TILE_ALIGNED; k++, xs++) iq_tile_one_k<FORMAT, ROWS, OUTS>(panel, j, k, xs, acc);
    for (; end - k >= IQ_TILE_ALIGNED; k += IQ_TILE_ALIGNED, xs += IQ_TILE_ALIGNED)
        iq_tile_eight_k<FORMAT, ROWS, OUTS>(panel, j, k, xs, acc);
    for (; k < end; k++, xs++) iq_tile_one_k<FORMAT, ROWS, OUTS>(panel, j, k, xs, acc);
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int o = 0; o < OUTS; o++) sums[(r * OUTS + o) * IQ_WARP + lane] = acc[r][o];
}

/* All of it. panel: that of output out0, the tile's first. */
template <int FORMAT, int ROWS, int OUTS, int WARPS, class Tile>
__device__ __forceinline__ void iq_tile_product(const Tile &tile, const uint8_t *panel, uint32_t out0,
                                                float *shared)
{
    enum { TILE = ROWS * OUTS * IQ_WARP };
    float *sums = shared + WARPS * ROWS * IQ_TILE_STRIDE, *stack = sums + WARPS * TILE; /* (levels, TILE) */
    uint32_t lane = threadIdx.x % IQ_WARP, warp = threadIdx.x / IQ_WARP;
    uint32_t steps = iq__sum_steps(tile.k(), tile.unit()), depth = 0;

    for (uint32_t wave = 0; wave < steps; wave += WARPS) {
        uint32_t s = wave + warp;
        if (s < steps) { /* the same for all lanes */
            struct iq__sum_step step = iq__sum_step_at(tile.k(), tile.unit(), s);
            float *xs = shared + warp * ROWS * IQ_TILE_STRIDE;
            iq_tile_load<ROWS>(tile, step, xs, lane);
            __syncwarp();
            iq_tile_chunk<FORMAT, ROWS, OUTS>(panel, out0 % IQ_PANEL + lane, step, xs, sums + warp * TILE,
                                              lane);
        }
        __syncthreads();
        uint32_t begin = depth;
        for (uint32_t i = threadIdx.x; i < TILE; i += WARPS * IQ_WARP) {
            depth = begin;
            for (uint32_t w = 0; w < WARPS && wave + w < steps; w++) {
                float sum = sums[w * TILE + i];
                for (uint32_t pops = iq__sum_step_at(tile.k(), tile.unit(), wave + w).pops; pops; pops--)
                    sum = stack[--depth * TILE + i] + sum;
                stack[depth++ * TILE + i] = sum;
            }
        }
        __syncthreads();
    }

    for (uint32_t i = threadIdx.x; i < TILE; i += WARPS * IQ_WARP) {
        uint32_t r = i / (OUTS * IQ_WARP), n = out0 + i % (OUTS * IQ_WARP);
        if (!tile.has(r) || n >= tile.n()) continue;
        float y = stack[i];
        if (tile.bias()) y = y + tile.bias()[n];
        tile.y(r)[n] = iq_act_round(y, tile.act());
    }
}

#endif
