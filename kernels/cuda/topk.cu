/* topk: a block a row. Descents find the k-th key and, among equal keys, the last id that is in; what is in is gathered in
 * any order; then each finds its place by counting who is before it. */
#include "kernels/arith.h"
#include "kernels/cpu/topk_order.h"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/select.h"

struct topk_keys {
    const float *x;
    __device__ __forceinline__ void operator()(uint32_t i, uint64_t *key, iq_tally *value) const
    {
        *key = iq__topk_key(x[i]);
        *value = 1;
    }
};

/* Ids of one key. */
struct topk_ties {
    const float *x;
    uint32_t tie;
    __device__ __forceinline__ void operator()(uint32_t i, uint64_t *key, iq_tally *value) const
    {
        *key = i;
        *value = iq__topk_key(x[i]) == tie;
    }
};

/* The k best ids of a row into `into`, in no order. */
__device__ __forceinline__ void gather_best(struct iq_select *select, uint32_t *count, const float *x,
                                            uint32_t n, uint32_t k, uint32_t *into)
{
    const struct topk_keys keys = {x};
    struct iq_descent last = iq_select_descend(select, keys, n, 32, k - 1);
    uint32_t tie = (uint32_t)last.key, last_id = UINT32_MAX;
    if (k - last.before < last.size) { /* not all of the last key */
        const struct topk_ties ties = {x, tie};
        last_id = (uint32_t)iq_select_descend(select, ties, n, 32, k - last.before - 1).key;
    }
    if (threadIdx.x == 0) *count = 0;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) {
        uint32_t key = iq__topk_key(x[i]);
        if (key < tie || (key == tie && i <= last_id)) into[atomicAdd(count, 1u)] = i;
    }
    __syncthreads();
}

static __global__ void __launch_bounds__(IQ_SELECT_THREADS) topk(struct iq_topk a)
{
    IQ_SHARED(struct iq_select, select, 1);
    IQ_SHARED(uint64_t, entry, IQ_SELECT_THREADS);
    IQ_SHARED(uint32_t, count, 1);
    const float *x = a.logits + blockIdx.x * a.ld;
    uint32_t *ids = a.ids + (size_t)blockIdx.x * a.k;
    float *values = a.values + (size_t)blockIdx.x * a.k;
    uint32_t *found = (uint32_t *)values; /* until the values are known */
    gather_best(select, count, x, a.vocab, a.k, found);

    for (uint32_t begin = 0; begin < a.k; begin += blockDim.x) {
        uint32_t at = begin + threadIdx.x, id = at < a.k ? found[at] : 0, rank = 0;
        uint64_t own = iq__topk_entry(x[id], id);
        for (uint32_t from = 0; from < a.k; from += blockDim.x) {
            uint32_t other = from + threadIdx.x, n = a.k - from < blockDim.x ? a.k - from : blockDim.x;
            if (other < a.k) entry[threadIdx.x] = iq__topk_entry(x[found[other]], found[other]);
            __syncthreads();
            for (uint32_t i = 0; i < n; i++) rank += entry[i] < own;
            __syncthreads();
        }
        if (at < a.k) ids[rank] = id;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < a.k; i += blockDim.x) values[i] = iq_canonical(x[ids[i]]);
}

int IQ_CUDA_NAME(topk)(const struct iq_topk *a, iq_cuda_stream stream)
{
    unsigned grid;
    if (a->k > a->vocab) return IQ_SHAPE;
    if (a->k == 0) return IQ_OK;
    IQ_TRY(iq_cuda_grid(a->rows, &grid));
    if (grid == 0) return IQ_OK;
    iq_cuda_launch(topk, dim3(grid), dim3(IQ_SELECT_THREADS), 0, (cudaStream_t)stream, *a);
    return IQ_OK;
}
