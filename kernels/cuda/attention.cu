/* attention: a block makes up to QUERIES (row, head) pairs that share a KV head, so that a key and a value are read once
 * for all of them. Keys come in the contract's chunks (absolute multiples of IQ_KEY_CHUNK), a thread a key: one dot
 * product per query. Then a warp weighs a query (the vector rule's lanes are its own), and a thread an element mixes
 * values, keys ascending, and merges with what earlier chunks left. Masked keys are skipped, never filled in.
 *
 * With few rows and long contexts that is too few blocks for a GPU. Then a block makes a single chunk, whose maximum, sum and
 * elements go to memory, and a second kernel merges them, ascending: the same operations on the same values. */
#include "kernels/cuda/lanes.h"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/sequences.h"
#include "kernels/sum_plan.h"

enum {
    THREADS = IQ_KEY_CHUNK, /* a thread a key */
    WARPS = THREADS / IQ_WARP,
    MERGE_THREADS = 128,
    OPEN = 2, /* open nodes of a dot product's tree, at most: IQ_CUDA_HEAD_DIM is four chunks */
    HEAD = IQ_CUDA_PARTIAL_HEAD
};

struct view {
    struct iq_attention a;
    struct iq_kv_layer cache;
    uint32_t group;         /* query heads of a KV head */
    uint32_t heads, splits; /* of these in a block; blocks that share a KV head's group */
    uint32_t rows;          /* rows of a block, at most */
    uint32_t chunks;        /* of the longest context, where a block makes one of them */
    float *partial;         /* (rows, query heads, chunks, HEAD + head_dim): maximum, sum, elements */
};

/* What a block works on: rows of one sequence, heads of one group. */
struct work {
    const uint32_t *blocks;
    uint32_t queries, heads; /* query t: row t / heads, head t % heads */
    uint32_t pos, row, head, kv_head;
};

/* The keys that position pos sees. */
__device__ __forceinline__ uint32_t keys_end(uint32_t pos) { return pos + 1; }
__device__ __forceinline__ uint32_t keys_begin(const struct iq_attention &a, uint32_t pos)
{
    return a.window && pos + 1 > a.window ? pos + 1 - a.window : 0;
}

/* A query's own keys, and its running maximum and sum. */
struct query {
    uint32_t lo, hi;  /* keys that it sees */
    float max, sum;   /* of the chunks so far */
    float old, fresh; /* what the merge multiplies: earlier chunks, this chunk */
};

__device__ __forceinline__ bool sees(const struct query &q, uint32_t key)
{
    return key >= q.lo && key < q.hi;
}

__device__ __forceinline__ const float *key_at(const struct iq_kv_layer &c, const struct work &w,
                                               uint32_t key)
{
    size_t block = (size_t)w.blocks[key / IQ_KV_BLOCK] * c.kv_heads + w.kv_head;
    return c.k + block * c.head_dim * IQ_KV_BLOCK + key % IQ_KV_BLOCK;
}

/* dot[t] = q[t] . k by the contract's sum over head_dim. q: (QUERIES, dim) in shared memory. */
template <int QUERIES>
__device__ __forceinline__ void dots(const float *q, const float *k, uint32_t dim, float dot[QUERIES])
{
    float open[OPEN][QUERIES];
    uint32_t chunks = (dim + IQ_CHUNK - 1) / IQ_CHUNK, depth = 0;
    for (uint32_t c = 0; c < chunks; c++) {
        uint32_t end = (c + 1) * IQ_CHUNK < dim ? (c + 1) * IQ_CHUNK : dim;
#pragma unroll
        for (int t = 0; t < QUERIES; t++) dot[t] = 0.0f;
#pragma unroll 8
        for (uint32_t d = c * IQ_CHUNK; d < end; d++) {
            float x = k[(size_t)d * IQ_KV_BLOCK];
#pragma unroll
            for (int t = 0; t < QUERIES; t++) dot[t] = IQ_FMAF(q[t * dim + d], x, dot[t]);
        }
        for (uint32_t pops = iq__nodes_ending_at(c, chunks); pops; pops--) {
            depth--;
#pragma unroll
            for (int t = 0; t < QUERIES; t++) dot[t] = (depth ? open[1][t] : open[0][t]) + dot[t];
        }
        if (c + 1 == chunks) return;
#pragma unroll
        for (int t = 0; t < QUERIES; t++)
            if (depth)
                open[1][t] = dot[t];
            else
                open[0][t] = dot[t];
        depth++;
    }
}

/* Takes a chunk's maximum and sum in; gives what the elements are merged with. */
__device__ __forceinline__ void merge(struct query *q, float max, float sum)
{
    float top = iq_max(q->max, max);
    q->old = iq_exp(q->max - top);
    q->fresh = iq_exp(max - top);
    q->sum = IQ_FMAF(q->sum, q->old, sum * q->fresh);
    q->max = top;
}

/* One warp: the weights of a query's keys [lo, hi) of the chunk replace their scores in w[key % IQ_KEY_CHUNK]; the query's
 * state takes the chunk in; `fresh`: it has none yet. */
__device__ __forceinline__ void weigh(struct query *q, float *w, uint32_t lo, uint32_t hi, bool fresh,
                                      uint32_t lane)
{
    uint32_t begin = lo / IQ_KEY_CHUNK * IQ_KEY_CHUNK;
    float max = iq_bits_f32(0xff800000u), sum = 0.0f;
    for (uint32_t key = begin + lane; key < hi; key += IQ_WARP)
        if (key >= lo) max = iq_max(max, w[key - begin]);
    max = iq_warp_max(max);
    for (uint32_t key = begin + lane; key < hi; key += IQ_WARP)
        if (key >= lo) {
            float weight = iq_exp(w[key - begin] - max);
            w[key - begin] = weight;
            sum = sum + weight;
        }
    sum = iq_warp_fold(sum);
    if (lane != 0) return;
    if (fresh) {
        q->max = max;
        q->sum = sum;
    } else {
        merge(q, max, sum);
    }
}

/* Element e of two queries: their sums over the keys of [lo, hi) that each sees, merged into out[0] and out[dim];
 * ALONE: they are all that the block makes. */
template <bool ALONE>
__device__ __forceinline__ void mix(const struct iq_kv_layer &c, const struct work &work,
                                    const struct query *q, const float *w, uint32_t lo, uint32_t hi,
                                    uint32_t e, uint32_t n, float *out)
{
    const struct query a = q[0], b = q[n - 1]; /* n 1: the second is the first again, and is not stored */
    const float *wb = w + (n - 1) * IQ_KEY_CHUNK;
    float sum_a = 0.0f, sum_b = 0.0f;
    for (uint32_t key = lo; key < hi;) {
        size_t block = (size_t)work.blocks[key / IQ_KV_BLOCK] * c.kv_heads + work.kv_head;
        const float *v = c.v + (block * IQ_KV_BLOCK + key % IQ_KV_BLOCK) * c.head_dim + e;
        uint32_t end = key / IQ_KV_BLOCK * IQ_KV_BLOCK + IQ_KV_BLOCK;
        end = end < hi ? end : hi;
#pragma unroll 8
        for (; key < end; key++, v += c.head_dim) {
            if (sees(a, key)) sum_a = IQ_FMAF(w[key % IQ_KEY_CHUNK], *v, sum_a);
            if (sees(b, key)) sum_b = IQ_FMAF(wb[key % IQ_KEY_CHUNK], *v, sum_b);
        }
    }
    if (a.lo < hi && a.hi > lo) *out = ALONE || a.lo >= lo ? sum_a : IQ_FMAF(*out, a.old, sum_a * a.fresh);
    if (n == 1) return;
    out += c.head_dim;
    if (b.lo < hi && b.hi > lo) *out = ALONE || b.lo >= lo ? sum_b : IQ_FMAF(*out, b.old, sum_b * b.fresh);
}

/* What a block made alone. */
__device__ __forceinline__ void put_partial(const struct view &v, const struct work &work,
                                            const struct query *query, const float *out, uint32_t chunk)
{
    uint32_t dim = v.cache.head_dim, begin = chunk * IQ_KEY_CHUNK;
    for (uint32_t i = threadIdx.x; i < work.queries * dim; i += THREADS) {
        uint32_t t = i / dim, e = i % dim;
        if (query[t].lo >= begin + IQ_KEY_CHUNK || query[t].hi <= begin) continue;
        size_t cell = (size_t)(work.row + t / work.heads) * v.a.heads + work.head + t % work.heads;
        float *to = v.partial + (cell * v.chunks + chunk) * (HEAD + dim);
        to[HEAD + e] = out[i];
        if (e == 0) {
            to[0] = query[t].max;
            to[1] = query[t].sum;
        }
    }
}

/* One segment: its queries from q to y, or one chunk of them to v.partial. Shared memory: q (QUERIES, dim), out (QUERIES, dim), w (QUERIES, chunk). */
template <int QUERIES, bool ALONE>
__device__ __forceinline__ void attend(const struct view &v, const struct work &work, struct query *query,
                                       float *shared, uint32_t chunk)
{
    const struct iq_attention &a = v.a;
    uint32_t dim = v.cache.head_dim, lane = threadIdx.x % IQ_WARP, warp = threadIdx.x / IQ_WARP;
    float *q = shared, *out = q + QUERIES * dim, *w = out + QUERIES * dim;
    for (uint32_t i = threadIdx.x; i < QUERIES * dim; i += THREADS) {
        uint32_t t = i / dim;
        size_t at =
            (work.row + t / work.heads) * a.ldq + (size_t)(work.head + t % work.heads) * dim + i % dim;
        q[i] = t < work.queries ? a.q[at] : 0.0f;
    }
    if (threadIdx.x < work.queries) {
        uint32_t pos = work.pos + threadIdx.x / work.heads;
        struct query fresh = {keys_begin(a, pos), keys_end(pos), 0.0f, 0.0f, 0.0f, 0.0f};
        query[threadIdx.x] = fresh;
    }
    __syncthreads();
    uint32_t first = query[0].lo, last = query[work.queries - 1].hi;

    uint32_t begin = ALONE ? chunk * IQ_KEY_CHUNK : first / IQ_KEY_CHUNK * IQ_KEY_CHUNK;
    if (ALONE && begin + IQ_KEY_CHUNK <= first) begin = last; /* nobody sees it */
    for (; begin < last; begin += IQ_KEY_CHUNK) {
        uint32_t lo = begin > first ? begin : first;
        uint32_t hi = begin + IQ_KEY_CHUNK < last ? begin + IQ_KEY_CHUNK : last, key = begin + threadIdx.x;
        if (key >= lo && key < hi) {
            float dot[QUERIES];
            dots<QUERIES>(q, key_at(v.cache, work, key), dim, dot);
#pragma unroll
            for (uint32_t t = 0; t < QUERIES; t++)
                if (t < work.queries && sees(query[t], key))
                    w[t * IQ_KEY_CHUNK + threadIdx.x] = dot[t] * a.scale;
        }
        __syncthreads();
        for (uint32_t t = warp; t < work.queries; t += WARPS) {
            uint32_t from = query[t].lo > lo ? query[t].lo : lo, to = query[t].hi < hi ? query[t].hi : hi;
            if (from < to)
                weigh(&query[t], w + t * IQ_KEY_CHUNK, from, to, ALONE || from == query[t].lo, lane);
        }
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < (work.queries + 1) / 2 * dim; i += THREADS) {
            uint32_t t = i / dim * 2, n = work.queries - t < 2 ? 1 : 2;
            mix<ALONE>(v.cache, work, query + t, w + t * IQ_KEY_CHUNK, lo, hi, i % dim, n,
                       out + t * dim + i % dim);
        }
        __syncthreads();
        if (ALONE) {
            put_partial(v, work, query, out, chunk);
            break;
        }
    }
    for (uint32_t i = threadIdx.x; !ALONE && i < work.queries * dim; i += THREADS) {
        uint32_t t = i / dim;
        size_t at =
            (work.row + t / work.heads) * a.ldy + (size_t)(work.head + t % work.heads) * dim + i % dim;
        a.y[at] = iq_act_round(out[i] / query[t].sum, a.act);
    }
    __syncthreads();
}

template <int QUERIES, bool ALONE>
static __global__ void __launch_bounds__(THREADS, 2) attention(const __grid_constant__ struct view v)
{
    IQ_SHARED(struct query, query, QUERIES);
    IQ_SHARED_DYNAMIC(float, shared);
    uint32_t parts = v.a.kv_heads * v.splits, part = blockIdx.x % parts, at = part % v.splits * v.heads;
    uint32_t group = blockIdx.x / parts, chunk = ALONE ? group % v.chunks : 0;
    uint32_t row = (ALONE ? group / v.chunks : group) * v.rows;
    uint32_t end = row + v.rows < v.a.rows ? row + v.rows : v.a.rows;
    struct work w;
    w.kv_head = v.a.kv_head0 + part / v.splits;
    w.head = part / v.splits * v.group + at;
    w.heads = v.group - at < v.heads ? v.group - at : v.heads;
    while (row < end) {
        const struct iq_seq *s = iq_seq_of(v.a.seq, v.a.seqs, row);
        if (!s) { /* padding */
            row++;
            continue;
        }
        uint32_t stop = s->first + s->rows < end ? s->first + s->rows : end;
        w.blocks = s->blocks;
        w.row = row;
        w.pos = s->pos + (row - s->first);
        w.queries = (stop - row) * w.heads;
        attend<QUERIES, ALONE>(v, w, query, shared, chunk);
        row = stop;
    }
}

/* A block a row and head: merges the chunks that were made alone. */
static __global__ void attention_merge(const __grid_constant__ struct view v)
{
    uint32_t row = blockIdx.x / v.a.heads, head = blockIdx.x % v.a.heads, dim = v.cache.head_dim;
    const struct iq_seq *s = iq_seq_of(v.a.seq, v.a.seqs, row);
    if (!s) return;
    uint32_t pos = s->pos + (row - s->first), first = keys_begin(v.a, pos) / IQ_KEY_CHUNK;
    uint32_t last = (keys_end(pos) - 1) / IQ_KEY_CHUNK;
    const float *cell = v.partial + (size_t)blockIdx.x * v.chunks * (HEAD + dim);
    for (uint32_t e = threadIdx.x; e < dim; e += blockDim.x) {
        const float *p = cell + (size_t)first * (HEAD + dim);
        struct query q = {0, 0, p[0], p[1], 0.0f, 0.0f};
        float out = p[HEAD + e];
        for (uint32_t chunk = first + 1; chunk <= last; chunk++) {
            p += HEAD + dim;
            merge(&q, p[0], p[1]);
            out = IQ_FMAF(out, q.old, p[HEAD + e] * q.fresh);
        }
        v.a.y[row * v.a.ldy + (size_t)head * dim + e] = iq_act_round(out / q.sum, v.a.act);
    }
}

typedef void attention_kernel(struct view);
static const struct {
    uint32_t queries;
    attention_kernel *kernel, *alone;
} attentions[] = {{4, attention<4, false>, attention<4, true>}, {8, attention<8, false>, attention<8, true>}};

/* context 0: whole contexts in a block. */
static int launch(const struct iq_attention *a, uint32_t context, float *partial, iq_cuda_stream stream)
{
    if (a->rows == 0 || a->heads == 0) return IQ_OK;
    if (a->kv_heads == 0 || a->heads % a->kv_heads || a->seqs == 0) return IQ_SHAPE;
    if (a->cache->head_dim > IQ_CUDA_HEAD_DIM) return IQ_UNSUPPORTED;
    struct view v = {*a,     *a->cache, a->heads / a->kv_heads, 0, 0, 0, iq_cuda_attention_chunks(context),
                     partial};
    /* Where each sequence has a single row, blocks of several rows would do them one after another. */
    uint32_t span = a->rows / a->seqs ? a->rows / a->seqs : 1;
    const auto &pick = attentions[(uint64_t)span * v.group > attentions[0].queries];
    v.heads = v.group < pick.queries ? v.group : pick.queries;
    v.splits = (v.group - 1) / v.heads + 1;
    v.rows = pick.queries / v.heads < span ? pick.queries / v.heads : span;
    unsigned grid, cells;
    uint64_t blocks = (uint64_t)((a->rows - 1) / v.rows + 1) * a->kv_heads * v.splits;
    IQ_TRY(iq_cuda_grid((uint64_t)a->rows * a->heads, &cells));
    if (blocks > UINT32_MAX) return IQ_LIMIT;
    IQ_TRY(iq_cuda_grid(blocks * (context ? v.chunks : 1), &grid));
    size_t bytes = (size_t)pick.queries * (2 * v.cache.head_dim + IQ_KEY_CHUNK) * sizeof(float);
    iq_cuda_launch(context ? pick.alone : pick.kernel, dim3(grid), dim3(THREADS), bytes, (cudaStream_t)stream,
                   v);
    if (context)
        iq_cuda_launch(attention_merge, dim3(cells), dim3(MERGE_THREADS), 0, (cudaStream_t)stream, v);
    return IQ_OK;
}

int IQ_CUDA_NAME(attention)(const struct iq_attention *a, iq_cuda_stream stream)
{
    return launch(a, 0, NULL, stream);
}

int IQ_CUDA_NAME(attention_split)(const struct iq_attention *a, uint32_t context, float *partial,
                                  iq_cuda_stream stream)
{
    return context ? launch(a, context, partial, stream) : IQ_SHAPE;
}
