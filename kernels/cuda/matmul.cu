/* matmul under the contract `ieee`: a block makes a tile of ROWS rows by OUTS x 32 outputs.
 *
 * The chunks of K are shared out among the block's warps, a chunk a warp, in waves. A lane keeps one chain of fma in a
 * register for each of its ROWS x OUTS results; weights come straight from the packed panel, 32 outputs side by side in
 * each load, and are used for all rows; x comes from shared memory, the same word for all lanes. After a wave the block
 * folds the wave's sums in ascending order into a stack of open tree nodes (kernels/sum_plan.h), so that shared memory
 * does not grow with K. One launch serves all parts of a format and all rows. */
#include "kernels/cuda/matmul_parts.h"
#include "kernels/cuda/weights.h"
#include "kernels/sum_plan.h"

enum {
    ALIGNED = 8,                /* k that are taken together */
    STRIDE = IQ_CHUNK + ALIGNED /* of a row of x in shared memory: chunks may begin off the alignment */
};

struct product {
    uint32_t rows, parts, levels, act;
    uint32_t row_tiles; /* neighbouring blocks share weights rather than rows: they are the larger part */
    const float *x;
    size_t ldx;
    struct iq_part part[IQ_MATMUL_PARTS];
};

/* A warp's chunk: columns k0 .. k0 + kc of ROWS rows from row0 into `xs`, where column k stands at k - k0 + k0 % 8. */
template <int ROWS>
__device__ __forceinline__ void load_x(const struct product &a, const struct iq_part &p, uint32_t row0,
                                       struct iq__sum_step step, float *xs, uint32_t lane)
{
    uint32_t shift = step.k0 % ALIGNED;
    const float *x = a.x + (size_t)row0 * a.ldx + p.x_at + step.k0;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        for (uint32_t i = lane; i < step.kc; i += IQ_WARP)
            xs[r * STRIDE + shift + i] = row0 + r < a.rows ? x[r * a.ldx + i] : 0.0f;
}

/* One k for all results of the lane. */
template <int FORMAT, int ROWS, int OUTS>
__device__ __forceinline__ void one_k(const uint8_t *panel, uint32_t j, uint32_t k, const float *xs,
                                      float acc[ROWS][OUTS])
{
#pragma unroll
    for (int o = 0; o < OUTS; o++) {
        float w = iq_weight<FORMAT>(panel, k, j + o * IQ_WARP);
#pragma unroll
        for (int r = 0; r < ROWS; r++) acc[r][o] = IQ_FMAF(xs[r * STRIDE], w, acc[r][o]);
    }
}

template <int FORMAT, int ROWS, int OUTS>
__device__ __forceinline__ void eight_k(const uint8_t *panel, uint32_t j, uint32_t k, const float *xs,
                                        float acc[ROWS][OUTS])
{
    float w[OUTS][8];
#pragma unroll
    for (int o = 0; o < OUTS; o++) iq_weights8<FORMAT>(panel, k, j + o * IQ_WARP, w[o]);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const float4 a = *(const float4 *)(xs + r * STRIDE), b = *(const float4 *)(xs + r * STRIDE + 4);
        const float x[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int o = 0; o < OUTS; o++) acc[r][o] = IQ_FMAF(x[i], w[o][i], acc[r][o]);
    }
}

/* The sums of one chunk, into sums[r][o]. */
template <int FORMAT, int ROWS, int OUTS>
__device__ __forceinline__ void chunk_sums(const uint8_t *panel, uint32_t j, struct iq__sum_step step,
                                           const float *xs, float *sums, uint32_t lane)
{
    float acc[ROWS][OUTS];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int o = 0; o < OUTS; o++) acc[r][o] = 0.0f;
    uint32_t k = step.k0, end = step.k0 + step.kc;
    xs += step.k0 % ALIGNED;
    for (; k < end && k % ALIGNED; k++, xs++) one_k<FORMAT, ROWS, OUTS>(panel, j, k, xs, acc);
    for (; end - k >= ALIGNED; k += ALIGNED, xs += ALIGNED) eight_k<FORMAT, ROWS, OUTS>(panel, j, k, xs, acc);
    for (; k < end; k++, xs++) one_k<FORMAT, ROWS, OUTS>(panel, j, k, xs, acc);
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int o = 0; o < OUTS; o++) sums[(r * OUTS + o) * IQ_WARP + lane] = acc[r][o];
}

template <int FORMAT, int ROWS, int OUTS, int WARPS>
static __global__ void __launch_bounds__(WARPS *IQ_WARP, 2) matmul(const __grid_constant__ struct product a)
{
    enum { TILE = ROWS * OUTS * IQ_WARP, SPLIT = IQ_PANEL / (OUTS * IQ_WARP) };
    IQ_SHARED_DYNAMIC(float, shared);
    float *sums = shared + WARPS * ROWS * STRIDE, *stack = sums + WARPS * TILE; /* (levels, TILE) */
    uint32_t lane = threadIdx.x % IQ_WARP, warp = threadIdx.x / IQ_WARP;
    uint32_t tile = blockIdx.x / a.row_tiles, row0 = blockIdx.x % a.row_tiles * ROWS;
    const struct iq_part &p = iq_part_of(a.part, &tile);
    uint32_t j0 = tile % SPLIT * (OUTS * IQ_WARP), steps = iq__sum_steps(p.k, p.unit), depth = 0;
    const uint8_t *panel = p.data + tile / SPLIT * p.panel_bytes;

    for (uint32_t wave = 0; wave < steps; wave += WARPS) {
        uint32_t s = wave + warp;
        if (s < steps) { /* the same for all lanes */
            struct iq__sum_step step = iq__sum_step_at(p.k, p.unit, s);
            float *xs = shared + warp * ROWS * STRIDE;
            load_x<ROWS>(a, p, row0, step, xs, lane);
            __syncwarp();
            chunk_sums<FORMAT, ROWS, OUTS>(panel, j0 + lane, step, xs, sums + warp * TILE, lane);
        }
        __syncthreads();
        uint32_t begin = depth;
        for (uint32_t i = threadIdx.x; i < TILE; i += WARPS * IQ_WARP) {
            depth = begin;
            for (uint32_t w = 0; w < WARPS && wave + w < steps; w++) {
                float sum = sums[w * TILE + i];
                for (uint32_t pops = iq__sum_step_at(p.k, p.unit, wave + w).pops; pops; pops--)
                    sum = stack[--depth * TILE + i] + sum;
                stack[depth++ * TILE + i] = sum;
            }
        }
        __syncthreads();
    }

    for (uint32_t i = threadIdx.x; i < TILE; i += WARPS * IQ_WARP) {
        uint32_t r = row0 + i / (OUTS * IQ_WARP);
        uint32_t n = tile / SPLIT * IQ_PANEL + j0 + i % (OUTS * IQ_WARP);
        if (r >= a.rows || n >= p.n) continue;
        float y = stack[i];
        if (p.bias) y = y + p.bias[n];
        p.y[r * p.ldy + n] = iq_act_round(y, a.act);
    }
}

/* How a number of rows is cut. Few rows wait for memory: narrow tiles give more blocks. Many rows wait for arithmetic:
 * wide ones use each weight and each x more often. */
typedef void matmul_kernel(struct product);
struct shape {
    uint32_t rows, outs, warps; /* of a tile; warps of its block */
    matmul_kernel *kernel[IQ_FORMATS];
};

#define SHAPE(rows, outs, warps)                                                                             \
    {                                                                                                        \
        rows, outs, warps,                                                                                   \
        {                                                                                                    \
            matmul<IQ_F32, rows, outs, warps>, matmul<IQ_F16, rows, outs, warps>,                            \
                matmul<IQ_BF16, rows, outs, warps>, matmul<IQ_Q8_0, rows, outs, warps>,                      \
                matmul<IQ_Q4_0, rows, outs, warps>, matmul<IQ_Q4_1, rows, outs, warps>                       \
        }                                                                                                    \
    }
static const struct shape narrow[] = {SHAPE(1, 1, 8), SHAPE(4, 1, 8), SHAPE(8, 1, 8)}, wide = SHAPE(16, 2, 4);

/* Blocks below which a wide tile would leave much of a GPU without work. */
static const uint64_t WIDE_FROM = 128;

static const struct shape *shape_of(const struct iq_matmul *m)
{
    const struct shape *s = narrow, *last = narrow + sizeof narrow / sizeof *narrow - 1;
    if (m->rows > last->rows && iq_parts_blocks(m, wide.rows, wide.outs * IQ_WARP) >= WIDE_FROM) return &wide;
    while (s < last && s->rows < m->rows) s++;
    return s;
}

/* The parts of one format; false: there is none. */
static bool gather(const struct iq_matmul *m, uint32_t format, const struct shape *s, struct product *out)
{
    *out = product();
    out->rows = m->rows, out->row_tiles = iq_tiles(m->rows, s->rows), out->act = m->act, out->x = m->x,
    out->ldx = m->ldx;
    out->parts = iq_parts_gather(m, format, s->outs * IQ_WARP, out->part);
    for (uint32_t i = 0; i < out->parts; i++) {
        uint32_t levels = iq__sum_levels(out->part[i].k, out->part[i].unit);
        out->levels = levels > out->levels ? levels : out->levels;
    }
    return out->parts > 0;
}

int IQ_CUDA_NAME(matmul)(const struct iq_matmul *m, iq_cuda_stream stream)
{
    if (m->parts > IQ_MATMUL_PARTS) return IQ_LIMIT;
    if (m->rows == 0) return IQ_OK;
    const struct shape *s = shape_of(m);
    for (uint32_t format = 0; format < IQ_FORMATS; format++) {
        struct product a;
        unsigned grid;
        if (!gather(m, format, s, &a)) continue;
        IQ_TRY(iq_cuda_grid((uint64_t)a.part[a.parts - 1].tiles * a.row_tiles, &grid));
        size_t tile = (size_t)s->rows * s->outs * IQ_WARP;
        size_t floats = s->warps * (s->rows * (size_t)STRIDE + tile) + a.levels * tile;
        iq_cuda_launch(s->kernel[format], dim3(grid), dim3(s->warps * IQ_WARP), floats * sizeof(float),
                       (cudaStream_t)stream, a);
    }
    return IQ_OK;
}
