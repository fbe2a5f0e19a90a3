/* kv_write: a block a row, a thread an element of K and of V. */
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/sequences.h"

enum { KV_WRITE_THREADS = 128 };

static __global__ void kv_write(struct iq_kv_write a, struct iq_kv_layer cache)
{
    uint32_t r = blockIdx.x, dim = cache.head_dim;
    const struct iq_seq *s = iq_seq_of(a.seq, a.seqs, r);
    if (!s) return;
    uint32_t pos = s->pos + (r - s->first), block = s->blocks[pos / IQ_KV_BLOCK], slot = pos % IQ_KV_BLOCK;
    for (uint32_t i = threadIdx.x; i < a.kv_heads * dim; i += blockDim.x) {
        uint32_t d = i % dim;
        size_t at = ((size_t)block * cache.kv_heads + a.kv_head0 + i / dim) * dim * IQ_KV_BLOCK;
        cache.k[at + (size_t)d * IQ_KV_BLOCK + slot] = a.k[r * a.ldk + i];
        cache.v[at + (size_t)slot * dim + d] = a.v[r * a.ldv + i];
    }
}

int IQ_CUDA_NAME(kv_write)(const struct iq_kv_write *a, iq_cuda_stream stream)
{
    unsigned grid;
    IQ_TRY(iq_cuda_grid(a->rows, &grid));
    if (grid == 0) return IQ_OK;
    iq_cuda_launch(kv_write, dim3(grid), dim3(KV_WRITE_THREADS), 0, (cudaStream_t)stream, *a, *a->cache);
    return IQ_OK;
}
