/* digest: taps. A block a row; eight lanes a segment of the row, then eight lanes the list of the segments' digests, which
 * stands in shared memory. */
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/sequences.h"
#include "kernels/cuda/xxh3.h"

enum {
    DIGEST_THREADS = 128,
    GROUPS = DIGEST_THREADS / IQ_XXH_LANES,
    SEGMENTS_MAX = 10240 /* of a row: 160 KiB of shared memory, 1.3 million elements */
};

/* Word i of a row from a place in it on. */
template <class Row> struct segment {
    const Row &row;
    uint32_t from;
    __device__ __forceinline__ uint32_t operator()(uint32_t i) const { return row(from + i); }
};

struct digest_list {
    const struct iq_digest *d;
    __device__ __forceinline__ uint32_t operator()(uint32_t i) const { return ((const uint32_t *)d)[i]; }
};

/* Row: a function object, as Words of xxh3.h. All threads of the block call it. */
template <class Row>
__device__ __forceinline__ void digest_row(const Row &row, uint32_t n, struct iq_digest *out)
{
    IQ_SHARED_DYNAMIC(struct iq_digest, list);
    const uint32_t size = IQ_DIGEST_SEGMENT, segments = (n + size - 1) / size;
    for (uint32_t s = threadIdx.x / IQ_XXH_LANES; s < segments; s += GROUPS) {
        const struct segment<Row> words = {
            row, s *size
        };
        struct iq_digest d = iq_xxh_words(words, n - s * size < size ? n - s * size : size);
        if (threadIdx.x % IQ_XXH_LANES == 0) list[s] = d;
    }
    __syncthreads();
    if (threadIdx.x >= IQ_XXH_LANES) return;
    const struct digest_list words = {list};
    struct iq_digest d = iq_xxh_words(words, segments * (uint32_t)(sizeof d / 4));
    if (threadIdx.x == 0) *out = d;
}

struct run_row {
    const uint32_t *x[2];
    uint32_t n; /* of the first */
    __device__ __forceinline__ uint32_t operator()(uint32_t i) const { return i < n ? x[0][i] : x[1][i - n]; }
};

static __global__ void digest(const __grid_constant__ struct iq_cuda_digest a)
{
    size_t r = blockIdx.x;
    const struct run_row row = {
        {(const uint32_t *)a.run[0].x + r * a.run[0].ld, (const uint32_t *)a.run[1].x + r * a.run[1].ld},
        a.run[0].n};
    digest_row(row, a.run[0].n + a.run[1].n, a.out + r);
}

/* A row of K (a head's elements stand IQ_KV_BLOCK apart) or V (side by side) in the cache. */
struct kv_row {
    const uint32_t *x; /* element 0 of the first head */
    uint32_t dim, step;
    __device__ __forceinline__ uint32_t operator()(uint32_t i) const
    {
        return x[(size_t)(i / dim) * dim * IQ_KV_BLOCK + (size_t)(i % dim) * step];
    }
};

static __global__ void kv_digest(struct iq_kv_write a, struct iq_kv_layer cache, unsigned point,
                                 struct iq_digest *out)
{
    uint32_t r = blockIdx.x, dim = cache.head_dim;
    const struct iq_seq *s = iq_seq_of(a.seq, a.seqs, r);
    if (!s) { /* the same for the whole block */
        if (threadIdx.x == 0) out[r].hi = out[r].lo = 0;
        return;
    }
    uint32_t pos = s->pos + (r - s->first), slot = pos % IQ_KV_BLOCK;
    size_t at = ((size_t)s->blocks[pos / IQ_KV_BLOCK] * cache.kv_heads + a.kv_head0) * dim * IQ_KV_BLOCK;
    const float *x = point == 0 ? cache.k + at + slot : cache.v + at + (size_t)slot * dim;
    const struct kv_row row = {(const uint32_t *)x, dim, point == 0 ? (uint32_t)IQ_KV_BLOCK : 1u};
    digest_row(row, a.kv_heads * dim, out + r);
}

/* The shared memory of a row of n elements. */
static int list_bytes(uint64_t n, size_t *bytes)
{
    uint64_t segments = (n + IQ_DIGEST_SEGMENT - 1) / IQ_DIGEST_SEGMENT;
    *bytes = (segments ? segments : 1) * sizeof(struct iq_digest);
    return segments > SEGMENTS_MAX ? IQ_LIMIT : IQ_OK;
}

int IQ_CUDA_NAME(digest)(const struct iq_cuda_digest *a, iq_cuda_stream stream)
{
    unsigned grid;
    size_t bytes;
    IQ_TRY(iq_cuda_grid(a->rows, &grid));
    IQ_TRY(list_bytes((uint64_t)a->run[0].n + a->run[1].n, &bytes));
    if (grid == 0) return IQ_OK;
    iq_cuda_launch(digest, dim3(grid), dim3(DIGEST_THREADS), bytes, (cudaStream_t)stream, *a);
    return IQ_OK;
}

int IQ_CUDA_NAME(kv_digest)(const struct iq_cuda_kv_digest *a, iq_cuda_stream stream)
{
    const struct iq_kv_write *w = a->write;
    unsigned grid;
    size_t bytes;
    IQ_TRY(iq_cuda_grid(w->rows, &grid));
    IQ_TRY(list_bytes((uint64_t)w->kv_heads * w->cache->head_dim, &bytes));
    if (grid == 0) return IQ_OK;
    iq_cuda_launch(kv_digest, dim3(grid), dim3(DIGEST_THREADS), bytes, (cudaStream_t)stream, *w, *w->cache,
                   a->point, a->out);
    return IQ_OK;
}
