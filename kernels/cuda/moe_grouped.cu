/* grouped_matmul: matmul's tiles (matmul_tile.h), each of one expert's slots. How many slots an expert has only the device
 * knows: there are blocks enough for any lists of the call's slots, and those that find no tile end at once. */
#include "kernels/cuda/matmul_parts.h"
#include "kernels/cuda/matmul_tile.h"
#include "kernels/ops/moe.h"

enum {
    TOGETHER = 256,
    DROP_THREADS = 128
}; /* experts of a launch: their pointers are parameters, under 4 KiB */

struct grouped {
    uint32_t experts, n, k, unit, act;
    uint32_t
        row_tiles; /* most that the lists can make; neighbouring blocks share weights rather than slots */
    size_t panel_bytes;
    const float *x;
    float *y;
    const uint32_t *first, *list; /* first: of the launch's first expert */
    const uint8_t *data[TOGETHER];
};

/* Slots that stand side by side in an expert's list. */
struct grouped_tile {
    const struct grouped &a;
    const uint32_t *list; /* from the tile's first on */
    uint32_t slots;
    __device__ __forceinline__ uint32_t k() const { return a.k; }
    __device__ __forceinline__ uint32_t unit() const { return a.unit; }
    __device__ __forceinline__ uint32_t n() const { return a.n; }
    __device__ __forceinline__ uint32_t act() const { return a.act; }
    __device__ __forceinline__ const float *bias() const { return NULL; }
    __device__ __forceinline__ bool has(uint32_t r) const { return r < slots; }
    __device__ __forceinline__ const float *x(uint32_t r) const { return a.x + (size_t)list[r] * a.k; }
    __device__ __forceinline__ float *y(uint32_t r) const { return a.y + (size_t)list[r] * a.n; }
};

/* The expert of the lists' tile *tile, each list cut into tiles of `size`, and which of the expert's it is; a.experts:
 * there are not so many. Whole warps call it: a lane an expert. */
__device__ __forceinline__ uint32_t expert_of(const struct grouped &a, uint32_t size, uint32_t *tile)
{
    uint32_t lane = threadIdx.x % IQ_WARP;
    for (uint32_t begin = 0; begin < a.experts; begin += IQ_WARP) {
        uint32_t e = begin + lane, own = 0, end;
        if (e < a.experts) own = (a.first[e + 1] - a.first[e] + size - 1) / size;
        end = own;
#pragma unroll
        for (int step = 1; step < IQ_WARP; step *= 2) {
            uint32_t lower = __shfl_up_sync(IQ_ALL_LANES, end, step);
            if (lane >= (uint32_t)step) end += lower;
        }
        unsigned past = __ballot_sync(IQ_ALL_LANES, end > *tile);
        if (past) {
            int found = __ffs((int)past) - 1;
            *tile -= __shfl_sync(IQ_ALL_LANES, end - own, found);
            return begin + (uint32_t)found;
        }
        *tile -= __shfl_sync(IQ_ALL_LANES, end, IQ_WARP - 1);
    }
    return a.experts;
}

template <int FORMAT, int ROWS, int OUTS, int WARPS>
static __global__ void __launch_bounds__(WARPS *IQ_WARP, 2)
    grouped_matmul(const __grid_constant__ struct grouped a)
{
    enum { SPLIT = IQ_PANEL / (OUTS * IQ_WARP) };
    IQ_SHARED_DYNAMIC(float, shared);
    uint32_t out_tile = blockIdx.x / a.row_tiles, row_tile = blockIdx.x % a.row_tiles;
    uint32_t e = expert_of(a, ROWS, &row_tile);
    if (e == a.experts) return; /* the whole block */
    uint32_t at = a.first[e] + row_tile * ROWS;
    const struct grouped_tile of = {a, a.list + at, a.first[e + 1] - at};
    iq_tile_product<FORMAT, ROWS, OUTS, WARPS>(of, a.data[e] + out_tile / SPLIT * a.panel_bytes,
                                               out_tile * (OUTS * IQ_WARP), shared);
}

/* Few slots an expert wait for memory, many for arithmetic (matmul.cu). */
typedef void grouped_kernel(struct grouped);
struct shape {
    uint32_t rows, outs, warps; /* of a tile; warps of its block */
    grouped_kernel *kernel[IQ_FORMATS];
};

#define SHAPE(rows, outs, warps)                                                                             \
    {                                                                                                        \
        rows, outs, warps,                                                                                   \
        {                                                                                                    \
            grouped_matmul<IQ_F32, rows, outs, warps>, grouped_matmul<IQ_F16, rows, outs, warps>,            \
                grouped_matmul<IQ_BF16, rows, outs, warps>, grouped_matmul<IQ_Q8_0, rows, outs, warps>,      \
                grouped_matmul<IQ_Q4_0, rows, outs, warps>, grouped_matmul<IQ_Q4_1, rows, outs, warps>       \
        }                                                                                                    \
    }
static const struct shape narrow = SHAPE(4, 1, 8), wide = SHAPE(16, 2, 4);

/* Slots an expert, if all have as many, from which wide tiles pay. */
static const uint64_t WIDE_FROM = 32;

/* Part p for experts [begin, begin + experts) of the rank. */
static int launch_part(const struct iq_grouped_matmul *m, uint32_t p, uint32_t begin, uint32_t experts,
                       cudaStream_t stream)
{
    const struct iq_matrix *w = m->part[p].w + begin;
    const uint64_t slots = (uint64_t)m->rows * m->slots;
    const struct shape *s = slots / m->experts < WIDE_FROM ? &narrow : &wide;
    const uint64_t tiles = slots / s->rows + experts; /* a list's last tile may be short */
    struct grouped a = grouped();
    unsigned grid;
    a.experts = experts, a.n = w->n, a.k = w->k, a.unit = w->unit, a.act = m->act;
    a.row_tiles = (uint32_t)(tiles < slots ? tiles : slots);
    a.panel_bytes = w->panel_bytes, a.x = m->x, a.y = m->part[p].y;
    a.first = m->first + m->expert0 + begin, a.list = m->list;
    for (uint32_t e = 0; e < experts; e++) a.data[e] = w[e].data;
    IQ_TRY(iq_cuda_grid((uint64_t)iq_tiles(w->n, s->outs * IQ_WARP) * a.row_tiles, &grid));
    if (grid == 0) return IQ_OK;
    size_t floats = iq_tile_floats(s->rows, s->outs, s->warps, iq__sum_levels(w->k, w->unit));
    iq_cuda_launch(s->kernel[w->format], dim3(grid), dim3(s->warps * IQ_WARP), floats * sizeof(float), stream,
                   a);
    return IQ_OK;
}

struct drop {
    const uint32_t *owner;
    struct {
        float *y;
        uint32_t n;
    } part[IQ_GROUPED_PARTS];
};

/* A block a slot. */
static __global__ void grouped_drop(struct drop a)
{
    if (a.owner[blockIdx.x] != IQ_SLOT_DROPPED) return;
    for (int p = 0; p < IQ_GROUPED_PARTS; p++)
        for (uint32_t i = threadIdx.x; i < a.part[p].n; i += DROP_THREADS)
            a.part[p].y[(size_t)blockIdx.x * a.part[p].n + i] = 0.0f;
}

static int launch_drop(const struct iq_grouped_matmul *m, cudaStream_t stream)
{
    struct drop a = drop();
    unsigned grid;
    a.owner = m->owner;
    for (uint32_t p = 0; p < m->parts; p++) a.part[p].y = m->part[p].y, a.part[p].n = m->part[p].w->n;
    IQ_TRY(iq_cuda_grid((uint64_t)m->rows * m->slots, &grid));
    if (grid) iq_cuda_launch(grouped_drop, dim3(grid), dim3(DROP_THREADS), 0, stream, a);
    return IQ_OK;
}

int IQ_CUDA_NAME(grouped_matmul)(const struct iq_grouped_matmul *m, iq_cuda_stream stream)
{
    if (m->parts > IQ_GROUPED_PARTS) return IQ_LIMIT;
    for (uint32_t p = 0; p < m->parts; p++)
        for (uint32_t begin = 0; begin < m->experts; begin += TOGETHER) {
            uint32_t left = m->experts - begin, experts = left < TOGETHER ? left : (uint32_t)TOGETHER;
            IQ_TRY(launch_part(m, p, begin, experts, (cudaStream_t)stream));
        }
    return m->expert0 == 0 ? launch_drop(m, (cudaStream_t)stream) : IQ_OK;
}
