/* all_reduce: a thread an element, which follows the steps of the contract's tree over the pieces; the host walks the tree
 * once a call. Open nodes stand in shared memory, each thread's own. */
#include "kernels/arith.h"
#include "kernels/cuda/launchers.h"

enum { REDUCE_THREADS = 128 };

/* Under 4 KiB: what every CUDA takes as parameters. */
struct reduction {
    uint32_t rows, n, pieces, act, levels;
    float *y;
    size_t ldy;
    const float *x[IQ_REDUCE_PIECES];
    uint32_t ldx[IQ_REDUCE_PIECES];
    uint8_t
        joins[IQ_REDUCE_PIECES]; /* after a piece is pushed, so many times the two topmost sums are added */
};

static __global__ void all_reduce(const __grid_constant__ struct reduction a)
{
    IQ_SHARED_DYNAMIC(float, stack); /* (levels, REDUCE_THREADS) */
    uint64_t at = iq_thread_index();
    if (at >= (uint64_t)a.rows * a.n) return;
    size_t r = at / a.n, i = at % a.n;
    float *top = stack + threadIdx.x, sum = 0.0f;
    for (uint32_t p = 0; p < a.pieces; p++) {
        sum = a.x[p][r * a.ldx[p] + i];
        for (uint32_t joins = a.joins[p]; joins; joins--) {
            top -= REDUCE_THREADS;
            sum = *top + sum;
        }
        *top = sum;
        top += REDUCE_THREADS;
    }
    a.y[r * a.ldy + i] = iq_act_round(sum, a.act);
}

/* The pieces under the node over units [unit, unit + units), from piece *p on; *open: nodes that wait for it. A node that
 * is no piece and has a single unit can't be made. Depth: log2(units). */
static int plan_node(const struct iq_all_reduce *a, struct reduction *out, uint32_t unit, uint32_t units,
                     uint32_t open, uint32_t *p)
{
    if (*p == a->pieces || a->piece[*p].unit != unit) return IQ_SHAPE;
    if (a->piece[*p].units == units) {
        if (a->piece[*p].ldx > UINT32_MAX) return IQ_LIMIT;
        out->x[*p] = a->piece[*p].x;
        out->ldx[*p] = (uint32_t)a->piece[*p].ldx;
        out->levels = open + 1 > out->levels ? open + 1 : out->levels;
        ++*p;
        return IQ_OK;
    }
    if (units < 2) return IQ_SHAPE;
    uint32_t half = units - units / 2;
    IQ_TRY(plan_node(a, out, unit, half, open, p));
    IQ_TRY(plan_node(a, out, unit + half, units - half, open + 1, p));
    out->joins[*p - 1]++;
    return IQ_OK;
}

int IQ_CUDA_NAME(all_reduce)(const struct iq_all_reduce *a, iq_cuda_stream stream)
{
    struct reduction out;
    unsigned grid;
    uint32_t p = 0;
    if (a->rows == 0 || a->n == 0) return IQ_OK;
    if (a->pieces > IQ_REDUCE_PIECES) return IQ_SHAPE;
    out = reduction();
    out.rows = a->rows, out.n = a->n, out.pieces = a->pieces, out.act = a->act, out.y = a->y,
    out.ldy = a->ldy;
    IQ_TRY(plan_node(a, &out, 0, a->units, 0, &p));
    if (p != a->pieces) return IQ_SHAPE;
    IQ_TRY(iq_cuda_grid(((uint64_t)a->rows * a->n - 1) / REDUCE_THREADS + 1, &grid));
    iq_cuda_launch(all_reduce, dim3(grid), dim3(REDUCE_THREADS), out.levels * REDUCE_THREADS * sizeof(float),
                   (cudaStream_t)stream, out);
    return IQ_OK;
}
