/* route, moe_dispatch, all_to_all, combine. */
#include "kernels/arith.h"
#include "kernels/cpu/topk_order.h"
#include "kernels/cuda/lanes.h"
#include "kernels/cuda/launchers.h"
#include "kernels/ops/moe.h"

enum { ROW_THREADS = 256, LIST_THREADS = 256, LIST_WARPS = LIST_THREADS / IQ_WARP };

/* ---- route: a warp a row ---- */

__device__ __forceinline__ uint64_t warp_min(uint64_t value)
{
#pragma unroll
    for (int half = IQ_WARP / 2; half; half /= 2) {
        unsigned long long other = __shfl_xor_sync(IQ_ALL_LANES, (unsigned long long)value, half);
        value = other < value ? other : value;
    }
    return value;
}

/* The first entry of the row after `last`, in every lane. */
__device__ __forceinline__ uint64_t next_best(const float *logit, uint32_t experts, bool any, uint64_t last)
{
    uint64_t best = UINT64_MAX;
    for (uint32_t e = threadIdx.x; e < experts; e += IQ_WARP) {
        uint64_t own = iq__topk_entry(logit[e], e);
        if ((!any || own > last) && own < best) best = own;
    }
    return warp_min(best);
}

/* The expert of slot `lane` by ascending id, of the k that lanes 0 to k - 1 hold in any order. */
__device__ __forceinline__ uint32_t sorted(uint32_t id, uint32_t k)
{
    uint32_t at = 0, mine = 0;
    for (uint32_t s = 0; s < k; s++) at += __shfl_sync(IQ_ALL_LANES, id, (int)s) < id;
    for (uint32_t s = 0; s < k; s++) {
        unsigned holder = __ballot_sync(IQ_ALL_LANES, threadIdx.x < k && at == s);
        uint32_t found = __shfl_sync(IQ_ALL_LANES, id, __ffs((int)holder) - 1);
        if (threadIdx.x == s) mine = found;
    }
    return mine;
}

static __global__ void route(struct iq_route a)
{
    const float *logit = a.logits + blockIdx.x * a.ld;
    uint32_t lane = threadIdx.x, id = UINT32_MAX, best = 0;
    uint64_t last = 0;
    for (uint32_t s = 0; s < a.k; s++) {
        last = next_best(logit, a.experts, s > 0, last);
        if (s == 0) best = (uint32_t)last;
        if (lane == s) id = (uint32_t)last;
    }
    id = sorted(id, a.k);
    float max = logit[best], own = lane < a.k ? iq_exp(logit[id] - max) : 0.0f, sum = 0.0f;
    if (a.renormalise) {
        sum = __shfl_sync(IQ_ALL_LANES, own, 0);
        for (uint32_t s = 1; s < a.k; s++) sum = sum + __shfl_sync(IQ_ALL_LANES, own, (int)s);
    } else {
        for (uint32_t e = lane; e < a.experts; e += IQ_WARP) sum = sum + iq_exp(logit[e] - max);
        sum = __shfl_sync(IQ_ALL_LANES, iq_warp_fold(sum), 0);
    }
    if (lane < a.k) {
        a.expert[(size_t)blockIdx.x * a.k + lane] = id;
        a.weight[(size_t)blockIdx.x * a.k + lane] = iq_canonical(own / sum);
    }
}

int IQ_CUDA_NAME(route)(const struct iq_route *a, iq_cuda_stream stream)
{
    unsigned grid;
    if (a->k > a->experts) return IQ_SHAPE;
    if (a->experts > IQ_EXPERTS || a->k > IQ_EXPERT_SLOTS) return IQ_LIMIT;
    IQ_TRY(iq_cuda_grid(a->rows, &grid));
    if (grid == 0 || a->k == 0) return IQ_OK;
    iq_cuda_launch(route, dim3(grid), dim3(IQ_WARP), 0, (cudaStream_t)stream, *a);
    return IQ_OK;
}

/* ---- moe_dispatch ---- */

static __global__ void moe_owners(struct iq_moe_dispatch a)
{
    uint64_t at = iq_thread_index();
    if (at >= (uint64_t)a.rows * a.k) return;
    a.owner[at] = a.expert[at] < a.experts ? a.expert[at] : IQ_SLOT_DROPPED;
}

/* The sum of what the block's threads hold, and *before: of what those before this one hold. `warps`: shared memory. */
__device__ __forceinline__ uint32_t block_count(bool mine, uint32_t *before, uint32_t *warps)
{
    uint32_t lane = threadIdx.x % IQ_WARP, warp = threadIdx.x / IQ_WARP, all = 0;
    unsigned some = __ballot_sync(IQ_ALL_LANES, mine);
    if (lane == 0) warps[warp] = (uint32_t)__popc((int)some);
    __syncthreads();
    *before = (uint32_t)__popc((int)(some & ((1u << lane) - 1)));
    for (uint32_t w = 0; w < LIST_WARPS; w++) {
        if (w < warp) *before += warps[w];
        all += warps[w];
    }
    __syncthreads();
    return all;
}

/* A block an expert: it counts the slots of the experts before its own, then lists its own by ascending slot. No atomics:
 * the order of arrival would be the list's. */
static __global__ void __launch_bounds__(LIST_THREADS) moe_lists(struct iq_moe_dispatch a)
{
    IQ_SHARED(uint32_t, warps, LIST_WARPS);
    uint32_t slots = a.rows * a.k, e = blockIdx.x, at = 0, before;
    for (uint32_t begin = 0; begin < slots; begin += LIST_THREADS) {
        uint32_t i = begin + threadIdx.x;
        at += block_count(i < slots && a.owner[i] < e, &before, warps);
    }
    if (threadIdx.x == 0) a.first[e] = at;
    for (uint32_t begin = 0; begin < slots && e < a.experts; begin += LIST_THREADS) {
        uint32_t i = begin + threadIdx.x;
        bool mine = i < slots && a.owner[i] == e;
        uint32_t all = block_count(mine, &before, warps);
        if (mine) a.list[at + before] = i;
        at += all;
    }
}

int IQ_CUDA_NAME(moe_lists)(const struct iq_moe_dispatch *a, iq_cuda_stream stream)
{
    if (a->experts > IQ_EXPERTS || a->k > IQ_EXPERT_SLOTS) return IQ_LIMIT;
    /* one block more: where the last list ends */
    iq_cuda_launch(moe_lists, dim3(a->experts + 1), dim3(LIST_THREADS), 0, (cudaStream_t)stream, *a);
    return IQ_OK;
}

int IQ_CUDA_NAME(moe_dispatch)(const struct iq_moe_dispatch *a, iq_cuda_stream stream)
{
    unsigned grid;
    if (a->experts > IQ_EXPERTS || a->k > IQ_EXPERT_SLOTS) return IQ_LIMIT;
    IQ_TRY(iq_cuda_grid(((uint64_t)a->rows * a->k + ROW_THREADS - 1) / ROW_THREADS, &grid));
    if (grid) iq_cuda_launch(moe_owners, dim3(grid), dim3(ROW_THREADS), 0, (cudaStream_t)stream, *a);
    return IQ_CUDA_NAME(moe_lists)(a, stream);
}

/* ---- all_to_all, combine: a thread an element ---- */

static __global__ void all_to_all(struct iq_all_to_all a)
{
    uint64_t i = iq_thread_index();
    if (i >= (uint64_t)a.rows * a.k * a.n) return;
    uint64_t at = i / a.n;
    float from = a.back ? a.x[i] : a.x[at / a.k * a.ldx + i % a.n];
    a.y[i] = a.owner[at] == IQ_SLOT_DROPPED ? 0.0f : from;
}

int IQ_CUDA_NAME(all_to_all)(const struct iq_all_to_all *a, iq_cuda_stream stream)
{
    unsigned grid;
    if (a->ranks == 0 || a->experts % a->ranks) return IQ_SHAPE;
    IQ_TRY(iq_cuda_grid(((uint64_t)a->rows * a->k * a->n + ROW_THREADS - 1) / ROW_THREADS, &grid));
    if (grid == 0) return IQ_OK;
    iq_cuda_launch(all_to_all, dim3(grid), dim3(ROW_THREADS), 0, (cudaStream_t)stream, *a);
    return IQ_OK;
}

static __global__ void combine(struct iq_combine a)
{
    uint64_t at = iq_thread_index();
    if (at >= (uint64_t)a.rows * a.n) return;
    size_t r = at / a.n, i = at % a.n;
    bool any = false;
    float y = 0.0f;
    for (size_t s = r * a.k; s < (r + 1) * a.k; s++) {
        if (a.owner[s] == IQ_SLOT_DROPPED) continue;
        float term = a.x[s * a.n + i];
        y = any ? IQ_FMAF(a.weight[s], term, y) : a.weight[s] * term;
        any = true;
    }
    a.y[r * a.ldy + i] = iq_act_round(y, a.act);
}

int IQ_CUDA_NAME(combine)(const struct iq_combine *a, iq_cuda_stream stream)
{
    unsigned grid;
    if (a->k > IQ_EXPERT_SLOTS) return IQ_LIMIT;
    IQ_TRY(iq_cuda_grid(((uint64_t)a->rows * a->n + ROW_THREADS - 1) / ROW_THREADS, &grid));
    if (grid == 0) return IQ_OK;
    iq_cuda_launch(combine, dim3(grid), dim3(ROW_THREADS), 0, (cudaStream_t)stream, *a);
    return IQ_OK;
}
