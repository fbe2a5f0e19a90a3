/* sample: a block a row, by the rules of kernels/ops/sampling.h. Nothing is sorted: descents over sums of integer weights
 * find where top-p cuts and which token the draw falls on. */
#include "kernels/cpu/sample_rules.h"
#include "kernels/cpu/topk_order.h"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/select.h"

/* The row's set, and what its filters leave: weights of at least `least` that come before (weight, id), weights descending,
 * ids ascending, or are it. */
struct sample_set {
    const float *logit;
    const uint32_t *id; /* NULL: a token's id is its place */
    uint32_t n, last_id;
    float max;
    uint64_t least, last_weight;

    __device__ __forceinline__ uint32_t id_of(uint32_t i) const { return id ? id[i] : i; }
    /* 0: the filters took it away. */
    __device__ __forceinline__ iq_tally weight(uint32_t i) const
    {
        uint64_t w = iq__sample_weight(logit[i], max);
        if (w < least || w < last_weight || (w == last_weight && id_of(i) > last_id)) return 0;
        return w;
    }
};

/* Weights by weight, descending. */
struct sample_by_weight {
    const struct sample_set &set;
    __device__ __forceinline__ void operator()(uint32_t i, uint64_t *key, iq_tally *value) const
    {
        *value = set.weight(i);
        *key = (uint64_t)IQ_SAMPLE_ONE - *value;
    }
};

/* Weights by id. */
struct sample_by_id {
    const struct sample_set &set;
    __device__ __forceinline__ void operator()(uint32_t i, uint64_t *key, iq_tally *value) const
    {
        *value = set.weight(i);
        *key = set.id_of(i);
    }
};

/* Tokens of one weight by id, each counted as one. */
struct sample_ties {
    const struct sample_set &set;
    uint64_t tie;
    __device__ __forceinline__ void operator()(uint32_t i, uint64_t *key, iq_tally *value) const
    {
        *value = set.weight(i) == tie;
        *key = set.id_of(i);
    }
};

struct sample_shared {
    struct iq_select select;
    iq_tally total;
    uint32_t key; /* of the largest logit */
    int32_t status;
    bool greedy;
};

/* The set's largest logit; false: there is none. */
__device__ __forceinline__ bool largest(struct sample_shared *s, struct sample_set *set)
{
    uint32_t key = UINT32_MAX; /* NaN's */
    for (uint32_t i = threadIdx.x; i < set->n; i += blockDim.x) {
        uint32_t other = iq__topk_key(set->logit[i]);
        key = other < key ? other : key;
    }
    key = __reduce_min_sync(IQ_ALL_LANES, key);
    if (threadIdx.x % IQ_WARP == 0) atomicMin(&s->key, key);
    __syncthreads();
    key = s->key;
    set->max = iq_bits_f32(key >> 31 ? key : 0x7fffffffu - key);
    return key != UINT32_MAX;
}

__device__ __forceinline__ iq_tally total_weight(struct sample_shared *s, const struct sample_set &set)
{
    iq_tally own = 0;
    for (uint32_t i = threadIdx.x; i < set.n; i += blockDim.x) own += set.weight(i);
    own = iq_warp_sum(own);
    if (threadIdx.x % IQ_WARP == 0) atomicAdd(&s->total, own);
    __syncthreads();
    return s->total;
}

/* Narrows the set to what top-p leaves of it, whose weights sum up to the result. */
__device__ __forceinline__ iq_tally cut(struct sample_shared *s, struct sample_set *set, float top_p,
                                        iq_tally total)
{
    /* before * 2^32 < limit, in whole weights: before < cut */
    iq_tally cut = (iq_tally)((iq__sample_limit(top_p, total) + 0xffffffffu) >> 32);
    if (cut >= total) return total;
    const struct sample_by_weight weights = {*set};
    struct iq_descent at = iq_select_descend(&s->select, weights, set->n, 48, cut - 1);
    uint64_t tie = (uint64_t)IQ_SAMPLE_ONE - at.key, stay = (cut - at.before + tie - 1) / tie;
    uint32_t last_id = UINT32_MAX;
    if (stay * tie < at.size) {
        const struct sample_ties ties = {*set, tie};
        last_id = (uint32_t)iq_select_descend(&s->select, ties, set->n, 32, stay - 1).key;
    }
    set->last_weight = tie;
    set->last_id = last_id;
    return at.before + stay * tie;
}

static __global__ void __launch_bounds__(IQ_SELECT_THREADS) sample(struct iq_sample a, int32_t *status)
{
    IQ_SHARED(struct sample_shared, shared, 1);
    struct sample_shared *s = shared;
    uint32_t r = blockIdx.x, top_k = a.top_k[r];
    if (threadIdx.x == 0) {
        a.token[r] = UINT32_MAX;
        s->status = iq__sample_begin(&a, r, &s->greedy);
        s->total = 0;
        s->key = UINT32_MAX;
        status[r] = s->status;
    }
    __syncthreads();
    if (s->status != IQ_OK || s->greedy) return; /* the whole block */

    struct sample_set set = {a.logits + r * a.ld, NULL, a.vocab, UINT32_MAX, 0.0f, 1, 0};
    if (top_k) {
        set.logit = a.values + (size_t)r * a.k;
        set.id = a.ids + (size_t)r * a.k;
        set.n = top_k;
    }
    if (!largest(s, &set)) {
        if (threadIdx.x == 0) status[r] = IQ_NOT_FOUND;
        return;
    }
    uint64_t least = iq__sample_least(a.min_p[r]);
    set.least = least ? least : 1;
    iq_tally kept = cut(s, &set, a.top_p[r], total_weight(s, set));
    const struct sample_by_id ids = {set};
    uint64_t point = iq__sample_point(a.seed[r], a.pos[r], kept);
    struct iq_descent drawn = iq_select_descend(&s->select, ids, set.n, 32, point);
    if (threadIdx.x == 0) a.token[r] = (uint32_t)drawn.key;
}

int IQ_CUDA_NAME(sample)(const struct iq_sample *a, int32_t *status, iq_cuda_stream stream)
{
    unsigned grid;
    IQ_TRY(iq_cuda_grid(a->rows, &grid));
    if (grid == 0) return IQ_OK;
    iq_cuda_launch(sample, dim3(grid), dim3(IQ_SELECT_THREADS), 0, (cudaStream_t)stream, *a, status);
    return IQ_OK;
}
