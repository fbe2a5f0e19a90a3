/* What a fault and a tap need of rows: a copy of them aside, and afterwards a look at what has changed. A block a row. */
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/sequences.h"

enum { ROWS_THREADS = 128 };

static __global__ void rows_save(struct iq_cuda_rows a)
{
    const uint32_t *from = (const uint32_t *)a.x + blockIdx.x * a.ld;
    uint32_t *to = a.saved + blockIdx.x * a.stride + a.at;
    for (uint32_t i = threadIdx.x; i < a.n; i += blockDim.x) to[i] = from[i];
}

static __global__ void rows_settle(struct iq_cuda_rows a)
{
    uint32_t r = blockIdx.x;
    uint32_t *now = (uint32_t *)a.x + r * a.ld;
    const uint32_t *saved = a.saved + r * a.stride + a.at;
    bool won = a.won[r / 32] >> r % 32 & 1;
    for (uint32_t i = threadIdx.x; i < a.n; i += blockDim.x) {
        if (!won)
            now[i] = saved[i];
        else if (now[i] != saved[i])
            atomicOr(a.changed + r, 1u);
    }
}

/* Rows of K (point 0) or V of the cache, as kv_write stored them, into a.saved. */
static __global__ void rows_kv(struct iq_kv_write w, struct iq_kv_layer cache, unsigned point,
                               struct iq_cuda_rows a)
{
    uint32_t r = blockIdx.x, dim = cache.head_dim;
    const struct iq_seq *s = iq_seq_of(w.seq, w.seqs, r);
    if (!s) return;
    uint32_t pos = s->pos + (r - s->first), block = s->blocks[pos / IQ_KV_BLOCK], slot = pos % IQ_KV_BLOCK;
    for (uint32_t i = threadIdx.x; i < w.kv_heads * dim; i += blockDim.x) {
        uint32_t d = i % dim;
        size_t at = ((size_t)block * cache.kv_heads + w.kv_head0 + i / dim) * dim * IQ_KV_BLOCK;
        float f =
            point == 0 ? cache.k[at + (size_t)d * IQ_KV_BLOCK + slot] : cache.v[at + (size_t)slot * dim + d];
        a.saved[r * a.stride + a.at + i] = iq_f32_bits(f);
    }
}

int IQ_CUDA_NAME(rows_save)(const struct iq_cuda_rows *a, iq_cuda_stream stream)
{
    unsigned grid;
    IQ_TRY(iq_cuda_grid(a->rows, &grid));
    if (grid == 0) return IQ_OK;
    iq_cuda_launch(rows_save, dim3(grid), dim3(ROWS_THREADS), 0, (cudaStream_t)stream, *a);
    return IQ_OK;
}

int IQ_CUDA_NAME(rows_settle)(const struct iq_cuda_rows *a, iq_cuda_stream stream)
{
    unsigned grid;
    IQ_TRY(iq_cuda_grid(a->rows, &grid));
    if (grid == 0) return IQ_OK;
    iq_cuda_launch(rows_settle, dim3(grid), dim3(ROWS_THREADS), 0, (cudaStream_t)stream, *a);
    return IQ_OK;
}

int IQ_CUDA_NAME(rows_kv)(const struct iq_cuda_rows *a, const struct iq_kv_write *w, unsigned point,
                          iq_cuda_stream stream)
{
    unsigned grid;
    IQ_TRY(iq_cuda_grid(a->rows, &grid));
    if (grid == 0) return IQ_OK;
    iq_cuda_launch(rows_kv, dim3(grid), dim3(ROWS_THREADS), 0, (cudaStream_t)stream, *w, *w->cache, point,
                   *a);
    return IQ_OK;
}
