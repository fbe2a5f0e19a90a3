/* matmul with tensor-core products (kernels/tensor_core): x and W rounded to bf16 or fp16, each output one accumulator
 * that takes the blocks of K in ascending order. K is never split and never reordered, so the bits are those of the
 * CPU's variant of the same profile.
 *
 * A block makes a tile of rows by outputs. It goes through K in stages: while the warps multiply one stage out of shared
 * memory, each thread already holds the next in registers, as operands. Weights are read once a tile, coalesced: 32 or 64
 * outputs side by side of the packed panel. Shared memory holds pairs of neighbours along K, as the instruction wants
 * them, in rows whose strides make every access of a warp free of conflicts. One launch serves all parts of a format.
 *
 * Columns past K are zeros: their products are dropped. But a block of nothing but such columns would turn an accumulator
 * of -0 into +0, so it is never run: on sm80, whose blocks are 8 products, an odd number of blocks ends with the shorter
 * instruction. */
#include "kernels/cuda/matmul_parts.h"
#include "kernels/cuda/mma.h"
#include "kernels/cuda/weights.h"

struct product {
    uint32_t rows, act, profile;
    uint32_t block;     /* products of a block: 8 or 16 */
    uint32_t row_tiles; /* neighbouring blocks share weights rather than rows: they are the larger part */
    const float *x;
    size_t ldx;
    struct iq_part part[IQ_MATMUL_PARTS];
};

/* How a tile is shared out: a warp makes m x n products of 16 rows by 8 outputs, warps_m x warps_n warps are a block. Few
 * rows wait for memory: narrow tiles make more blocks, and a stage is long. Many rows wait for arithmetic: wide tiles use
 * what they fetched more often. */
struct narrow {
    enum { M = 1, N = 1, WARPS_M = 1, WARPS_N = 4, COLUMNS = 128, BLOCKS = 4 };
};
struct wide {
    enum { M = 2, N = 4, WARPS_M = 2, WARPS_N = 2, COLUMNS = 32, BLOCKS = 4 };
};

template <class S> struct sizes {
    enum {
        ROWS = 16 * S::M * S::WARPS_M,
        OUTS = 8 * S::N * S::WARPS_N,
        THREADS = IQ_WARP * S::WARPS_M * S::WARPS_N,
        PAIRS = S::COLUMNS / 2,
        X_STRIDE =
            PAIRS + 4,       /* of a row; an odd number of fours: eight rows by four pairs fall on 32 banks */
        W_STRIDE = OUTS + 8, /* of a pair of columns; 8 mod 32: four pairs by eight outputs do */
        X_EACH = ROWS * PAIRS / THREADS,
        W_EACH = OUTS * S::COLUMNS / 8 / THREADS, /* eights along K of an output */
        X_BUFFER = ROWS * X_STRIDE,
        W_BUFFER = PAIRS * W_STRIDE
    };
    static_assert(ROWS * PAIRS % THREADS == 0 && OUTS * S::COLUMNS % (8 * THREADS) == 0,
                  "no thread is left over");
    static_assert(IQ_PANEL % OUTS == 0, "a tile lies in one panel");
};

/* A tile of a part: where its operands come from. */
struct tile {
    const float *x; /* the tile's first row, the part's first column */
    size_t ldx;
    uint32_t rows; /* that exist */
    const uint8_t *panel;
    uint32_t j0, k; /* first output in the panel; columns of the part */
};

/* A stage as a thread holds it. */
template <class S> struct fetched {
    uint32_t x[sizes<S>::X_EACH], w[sizes<S>::W_EACH][4];
};

/* Eight weights k .. k + 7 of output j as operands; all exist. */
template <int FORMAT, int OPERAND>
__device__ __forceinline__ void eight(const uint8_t *panel, uint32_t k, uint32_t j, uint32_t (&out)[4])
{
    if (FORMAT == IQ_BF16 && OPERAND == IQ_TC_BF16) { /* the panel holds just these pairs */
#pragma unroll
        for (int i = 0; i < 4; i++) out[i] = iq_load32(panel + 4 * ((size_t)(k / 2 + i) * IQ_PANEL + j));
    } else if (FORMAT == IQ_F16 && OPERAND == IQ_TC_F16) {
        const uint8_t *p = panel + 2 * ((size_t)k * IQ_PANEL + j);
#pragma unroll
        for (int i = 0; i < 4; i++)
            out[i] = iq_load16(p + 4 * i * IQ_PANEL) | (uint32_t)iq_load16(p + (4 * i + 2) * IQ_PANEL) << 16;
    } else {
        float w[8];
        iq_weights8<FORMAT>(panel, k, j, w);
#pragma unroll
        for (int i = 0; i < 4; i++) out[i] = iq_operands<OPERAND>(w[2 * i], w[2 * i + 1]);
    }
}

/* Where columns end among the eight. */
template <int FORMAT, int OPERAND>
__device__ __forceinline__ void some(const struct tile &t, uint32_t k, uint32_t j, uint32_t (&out)[4])
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint32_t c = k + 2 * i;
        const float even = c < t.k ? iq_weight<FORMAT>(t.panel, c, j) : 0.0f;
        const float odd = c + 1 < t.k ? iq_weight<FORMAT>(t.panel, c + 1, j) : 0.0f;
        out[i] = iq_operands<OPERAND>(even, odd);
    }
}

/* FULL: the stage has all its columns. */
template <int FORMAT, int OPERAND, class S, bool FULL>
__device__ __forceinline__ void fetch(const struct tile &t, uint32_t k0, struct fetched<S> &f)
{
    typedef sizes<S> Z;
#pragma unroll
    for (int u = 0; u < Z::W_EACH; u++) {
        const uint32_t i = threadIdx.x + u * Z::THREADS, j = t.j0 + i % Z::OUTS, k = k0 + i / Z::OUTS * 8;
        if (FULL || k + 8 <= t.k)
            eight<FORMAT, OPERAND>(t.panel, k, j, f.w[u]);
        else
            some<FORMAT, OPERAND>(t, k, j, f.w[u]);
    }
#pragma unroll
    for (int u = 0; u < Z::X_EACH; u++) {
        const uint32_t i = threadIdx.x + u * Z::THREADS, r = i / Z::PAIRS, k = k0 + i % Z::PAIRS * 2;
        const float *x = t.x + r * t.ldx + k;
        const float even = r < t.rows && (FULL || k < t.k) ? x[0] : 0.0f;
        const float odd = r < t.rows && (FULL || k + 1 < t.k) ? x[1] : 0.0f;
        f.x[u] = iq_operands<OPERAND>(even, odd);
    }
}

template <class S> __device__ __forceinline__ void put(const struct fetched<S> &f, uint32_t *xs, uint32_t *ws)
{
    typedef sizes<S> Z;
#pragma unroll
    for (int u = 0; u < Z::W_EACH; u++) {
        const uint32_t i = threadIdx.x + u * Z::THREADS;
#pragma unroll
        for (int p = 0; p < 4; p++) ws[(i / Z::OUTS * 4 + p) * Z::W_STRIDE + i % Z::OUTS] = f.w[u][p];
    }
#pragma unroll
    for (int u = 0; u < Z::X_EACH; u++) {
        const uint32_t i = threadIdx.x + u * Z::THREADS;
        xs[i / Z::PAIRS * Z::X_STRIDE + i % Z::PAIRS] = f.x[u];
    }
}

/* One step of 16 columns for the warp; `half`: only the first eight of them are there. xs and ws stand at the lane's
 * first operands. */
template <int OPERAND, class S>
__device__ __forceinline__ void step(const uint32_t *xs, const uint32_t *ws, bool half, uint32_t profile,
                                     float (&d)[S::M][S::N][4])
{
    typedef sizes<S> Z;
    uint32_t a[S::M][4], b[S::N][2];
#pragma unroll
    for (int m = 0; m < S::M; m++)
#pragma unroll
        for (int i = 0; i < 4; i++) a[m][i] = xs[(16 * m + i % 2 * 8) * Z::X_STRIDE + i / 2 * 4];
#pragma unroll
    for (int n = 0; n < S::N; n++)
#pragma unroll
        for (int i = 0; i < 2; i++) b[n][i] = ws[4 * i * Z::W_STRIDE + 8 * n];
#pragma unroll
    for (int m = 0; m < S::M; m++)
#pragma unroll
        for (int n = 0; n < S::N; n++) {
            if (half)
                iq_mma8<OPERAND>(d[m][n], a[m], b[n], profile);
            else
                iq_mma16<OPERAND>(d[m][n], a[m], b[n], profile);
        }
}

/* A lane's results: d[0], d[1] of one row, d[2], d[3] of the row 8 further down. */
template <class S>
__device__ __forceinline__ void write(const struct product &a, const struct iq_part &p, uint32_t row0,
                                      uint32_t n0, const float (&d)[S::M][S::N][4])
{
#pragma unroll
    for (int m = 0; m < S::M; m++)
#pragma unroll
        for (int n = 0; n < S::N; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const uint32_t r = row0 + 16 * m + i / 2 * 8, o = n0 + 8 * n + i % 2;
                if (r >= a.rows || o >= p.n) continue;
                float y = d[m][n][i];
                if (p.bias) y = y + p.bias[o];
                p.y[r * p.ldy + o] = iq_act_round(y, a.act);
            }
}

template <int FORMAT, int OPERAND, class S>
static __global__ void __launch_bounds__(sizes<S>::THREADS, S::BLOCKS)
    products(const __grid_constant__ struct product a)
{
    typedef sizes<S> Z;
    enum { SPLIT = IQ_PANEL / Z::OUTS, COLUMNS = S::COLUMNS };
    IQ_SHARED(uint32_t, xs, 2 * Z::X_BUFFER);
    IQ_SHARED(uint32_t, ws, 2 * Z::W_BUFFER);
    const uint32_t lane = threadIdx.x % IQ_WARP, warp = threadIdx.x / IQ_WARP, g = lane / 4, t = lane % 4;
    const uint32_t m0 = warp / S::WARPS_N * 16 * S::M, o0 = warp % S::WARPS_N * 8 * S::N;
    const uint32_t row0 = blockIdx.x % a.row_tiles * Z::ROWS;
    uint32_t number = blockIdx.x / a.row_tiles;
    const struct iq_part &p = iq_part_of(a.part, &number);
    const struct tile own = {a.x + (size_t)row0 * a.ldx + p.x_at,
                             a.ldx,
                             a.rows - row0,
                             p.data + number / SPLIT * p.panel_bytes,
                             number % SPLIT * Z::OUTS,
                             p.k};
    const uint32_t *xl = xs + (m0 + g) * Z::X_STRIDE + t, *wl = ws + t * Z::W_STRIDE + o0 + g;
    uint32_t k0 = 0, buffer = 0;
    struct fetched<S> next;
    float d[S::M][S::N][4];
#pragma unroll
    for (int m = 0; m < S::M; m++)
#pragma unroll
        for (int n = 0; n < S::N; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) d[m][n][i] = 0.0f;

    fetch<FORMAT, OPERAND, S, false>(own, 0, next);
    put<S>(next, xs, ws);
    /* Stages that are full and followed by a full one: no condition comes between the loads and the products. */
    for (; p.k - k0 >= 2 * COLUMNS; k0 += COLUMNS, buffer ^= 1) {
        __syncthreads(); /* this buffer is full, and the other one is read no more */
        fetch<FORMAT, OPERAND, S, true>(own, k0 + COLUMNS, next);
#pragma unroll
        for (int s = 0; s < COLUMNS / 16; s++)
            step<OPERAND, S>(xl + buffer * Z::X_BUFFER + s * 8,
                             wl + buffer * Z::W_BUFFER + s * 8 * Z::W_STRIDE, false, a.profile, d);
        put<S>(next, xs + (buffer ^ 1) * Z::X_BUFFER, ws + (buffer ^ 1) * Z::W_BUFFER);
    }
    for (; k0 < p.k; k0 += COLUMNS, buffer ^= 1) {
        __syncthreads();
        const bool more = p.k - k0 > COLUMNS;
        if (more) fetch<FORMAT, OPERAND, S, false>(own, k0 + COLUMNS, next);
        for (uint32_t s = 0; s < COLUMNS / 16 && k0 + 16 * s < p.k; s++)
            step<OPERAND, S>(xl + buffer * Z::X_BUFFER + s * 8,
                             wl + buffer * Z::W_BUFFER + s * 8 * Z::W_STRIDE,
                             p.k - k0 - 16 * s <= a.block && a.block < 16, a.profile, d);
        if (more) put<S>(next, xs + (buffer ^ 1) * Z::X_BUFFER, ws + (buffer ^ 1) * Z::W_BUFFER);
    }
    write<S>(a, p, row0 + m0 + g, number / SPLIT * IQ_PANEL + own.j0 + o0 + 2 * t, d);
}

typedef void products_kernel(struct product);
struct shape {
    uint32_t rows, outs, threads;
    products_kernel *kernel[2][IQ_FORMATS]; /* [enum iq_tc_format] */
};

#define FORMATS(operand, s)                                                                                  \
    {                                                                                                        \
        products<IQ_F32, operand, s>, products<IQ_F16, operand, s>, products<IQ_BF16, operand, s>,           \
            products<IQ_Q8_0, operand, s>, products<IQ_Q4_0, operand, s>, products<IQ_Q4_1, operand, s>      \
    }
#define SHAPE(s)                                                                                             \
    {                                                                                                        \
        sizes<s>::ROWS, sizes<s>::OUTS, sizes<s>::THREADS, { FORMATS(IQ_TC_BF16, s), FORMATS(IQ_TC_F16, s) } \
    }
static const struct shape few = SHAPE(narrow), many = SHAPE(wide);

/* Blocks below which a wide tile would leave much of a GPU without work. */
static const uint64_t WIDE_FROM = 128;

int IQ_CUDA_NAME(products)(const struct iq_matmul *m, unsigned profile, unsigned operand,
                           iq_cuda_stream stream)
{
    if (m->parts > IQ_MATMUL_PARTS || profile >= IQ_TC_PROFILES || operand > IQ_TC_F16) return IQ_LIMIT;
    if (m->rows == 0) return IQ_OK;
    const bool large = m->rows > few.rows && iq_parts_blocks(m, many.rows, many.outs) >= WIDE_FROM;
    const struct shape *s = large ? &many : &few;
    for (uint32_t format = 0; format < IQ_FORMATS; format++) {
        struct product a = product();
        unsigned grid;
        const uint32_t parts = iq_parts_gather(m, format, s->outs, a.part);
        if (parts == 0) continue;
        a.rows = m->rows, a.row_tiles = iq_tiles(m->rows, s->rows), a.act = m->act;
        a.x = m->x, a.ldx = m->ldx;
        a.profile = profile, a.block = iq_tc_profiles[profile].products;
        IQ_TRY(iq_cuda_grid((uint64_t)a.part[parts - 1].tiles * a.row_tiles, &grid));
        products_kernel *tensor_products = s->kernel[operand][format];
        iq_cuda_launch(tensor_products, dim3(grid), dim3(s->threads), 0, (cudaStream_t)stream, a);
    }
    return IQ_OK;
}
