/* matmul under the contract `ieee`: one launch serves all parts of a format and all rows, a block a tile of them. */
#include "kernels/cuda/matmul_parts.h"
#include "kernels/cuda/matmul_tile.h"

struct product {
    uint32_t rows, parts, levels, act;
    uint32_t row_tiles; /* neighbouring blocks share weights rather than rows: they are the larger part */
    const float *x;
    size_t ldx;
    struct iq_part part[IQ_MATMUL_PARTS];
};

/* Neighbouring rows of a part. */
struct product_tile {
    const struct product &a;
    const struct iq_part &p;
    uint32_t row0;
    __device__ __forceinline__ uint32_t k() const { return p.k; }
    __device__ __forceinline__ uint32_t unit() const { return p.unit; }
    __device__ __forceinline__ uint32_t n() const { return p.n; }
    __device__ __forceinline__ uint32_t act() const { return a.act; }
    __device__ __forceinline__ const float *bias() const { return p.bias; }
    __device__ __forceinline__ bool has(uint32_t r) const { return row0 + r < a.rows; }
    __device__ __forceinline__ const float *x(uint32_t r) const
    {
        return a.x + (size_t)row0 * a.ldx + p.x_at + r * a.ldx;
    }
    __device__ __forceinline__ float *y(uint32_t r) const { return p.y + (row0 + r) * p.ldy; }
};

template <int FORMAT, int ROWS, int OUTS, int WARPS>
static __global__ void __launch_bounds__(WARPS *IQ_WARP, 2) matmul(const __grid_constant__ struct product a)
{
    enum { SPLIT = IQ_PANEL / (OUTS * IQ_WARP) };
    IQ_SHARED_DYNAMIC(float, shared);
    uint32_t tile = blockIdx.x / a.row_tiles;
    const struct iq_part &p = iq_part_of(a.part, &tile);
    const struct product_tile of = {a, p, blockIdx.x % a.row_tiles * ROWS};
    iq_tile_product<FORMAT, ROWS, OUTS, WARPS>(of, p.data + tile / SPLIT * p.panel_bytes,
                                               tile * (OUTS * IQ_WARP), shared);
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
        size_t floats = iq_tile_floats(s->rows, s->outs, s->warps, a.levels);
        iq_cuda_launch(s->kernel[format], dim3(grid), dim3(s->warps * IQ_WARP), floats * sizeof(float),
                       (cudaStream_t)stream, a);
    }
    return IQ_OK;
}
