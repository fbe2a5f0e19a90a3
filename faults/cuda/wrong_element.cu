/* K1 by shifted values, K16 and K17: a thread an element. */
#include "faults/cuda/launch_faults.h"
#include "faults/round_rules.h"
#include "kernels/cuda/launchers.h"

enum { THREADS = 256 };

static int grid_of(uint64_t elements, unsigned *grid)
{
    return iq_cuda_grid(elements / THREADS + (elements % THREADS != 0), grid);
}

/* ---- K1 ---- */

static __global__ void k1_shift(const __grid_constant__ struct iq_topk a, float step, float *made)
{
    uint64_t i = iq_thread_index();
    uint32_t column = (uint32_t)(i % a.vocab);
    if (i < (uint64_t)a.rows * a.vocab)
        made[i] = a.logits[i / a.vocab * a.ld + column] - (float)column * step;
}

int IQ_CUDA_NAME(k1_shift)(const struct iq_topk *a, float step, float *made, iq_cuda_stream stream)
{
    unsigned grid;
    IQ_TRY(grid_of((uint64_t)a->rows * a->vocab, &grid));
    if (grid == 0) return IQ_OK;
    iq_cuda_launch(k1_shift, dim3(grid), dim3(THREADS), 0, (cudaStream_t)stream, *a, step, made);
    return IQ_OK;
}

static __global__ void k1_values(const __grid_constant__ struct iq_topk a)
{
    uint64_t i = iq_thread_index();
    if (i < (uint64_t)a.rows * a.k) a.values[i] = iq_canonical(a.logits[i / a.k * a.ld + a.ids[i]]);
}

int IQ_CUDA_NAME(k1_values)(const struct iq_topk *a, iq_cuda_stream stream)
{
    unsigned grid;
    IQ_TRY(grid_of((uint64_t)a->rows * a->k, &grid));
    if (grid == 0) return IQ_OK;
    iq_cuda_launch(k1_values, dim3(grid), dim3(THREADS), 0, (cudaStream_t)stream, *a);
    return IQ_OK;
}

/* ---- K16 ---- */

static __global__ void k16_deliver(struct iq__stale_rule rule, struct iq__stale_piece piece,
                                   struct iq__stale_state *state)
{
    uint64_t i = iq_thread_index(), at = piece.at + i;
    if (i >= (uint64_t)piece.rows * piece.n) return;
    bool late = iq__stale_is_late(rule, state->round, at / IQ__STALE_LINE);
    if (iq__stale_lands(rule, late, at)) state->mailbox[at] = piece.x[i / piece.n * piece.ldx + i % piece.n];
}

int IQ_CUDA_NAME(k16_deliver)(struct iq__stale_rule rule, struct iq__stale_piece piece,
                              struct iq__stale_state *state, iq_cuda_stream stream)
{
    unsigned grid;
    IQ_TRY(grid_of((uint64_t)piece.rows * piece.n, &grid));
    if (grid == 0) return IQ_OK;
    iq_cuda_launch(k16_deliver, dim3(grid), dim3(THREADS), 0, (cudaStream_t)stream, rule, piece, state);
    return IQ_OK;
}

static __global__ void k16_next(struct iq__stale_state *state) { state->round++; }

int IQ_CUDA_NAME(k16_next)(struct iq__stale_state *state, iq_cuda_stream stream)
{
    iq_cuda_launch(k16_next, dim3(1), dim3(1), 0, (cudaStream_t)stream, state);
    return IQ_OK;
}

/* ---- K17 ---- */

static __global__ void k17(const float *x, size_t ldx, uint32_t rows, size_t width, uint32_t bits, float *low)
{
    uint64_t i = iq_thread_index();
    if (i < rows * width) low[i] = iq__rounded(x[i / width * ldx + i % width], bits);
}

int IQ_CUDA_NAME(k17)(const float *x, size_t ldx, uint32_t rows, size_t width, uint32_t bits, float *low,
                      iq_cuda_stream stream)
{
    unsigned grid;
    IQ_TRY(grid_of(rows * (uint64_t)width, &grid));
    if (grid == 0) return IQ_OK;
    iq_cuda_launch(k17, dim3(grid), dim3(THREADS), 0, (cudaStream_t)stream, x, ldx, rows, width, bits, low);
    return IQ_OK;
}
