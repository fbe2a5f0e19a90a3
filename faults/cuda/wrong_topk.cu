/* K1, K2, K3: a block a row. */
#include "faults/cuda/launch_faults.h"
#include "faults/topk_rules.h"
#include "kernels/cuda/launchers.h"

#define FAMILY(name)                                                                                         \
    static __global__ void __launch_bounds__(IQ_TEAM_LANES)                                                  \
        name##_topk(const __grid_constant__ struct iq_topk a,                                                \
                    const __grid_constant__ struct iq__##name##_rule rule, uint64_t *room, size_t entries)   \
    {                                                                                                        \
        IQ_SHARED(struct iq__team_room, shared, 1);                                                          \
        struct iq__team team = {threadIdx.x, blockDim.x, shared};                                            \
        iq__##name##_row(team, &a, blockIdx.x, &rule, room + blockIdx.x * entries);                          \
    }                                                                                                        \
    int IQ_CUDA_NAME(name)(const struct iq_topk *a, const void *rule, uint64_t *room, size_t entries,        \
                           iq_cuda_stream stream)                                                            \
    {                                                                                                        \
        unsigned grid;                                                                                       \
        IQ_TRY(iq_cuda_grid(a->rows, &grid));                                                                \
        if (grid == 0) return IQ_OK;                                                                         \
        iq_cuda_launch(name##_topk, dim3(grid), dim3(IQ_TEAM_LANES), 0, (cudaStream_t)stream, *a,            \
                       *(const struct iq__##name##_rule *)rule, room, entries);                              \
        return IQ_OK;                                                                                        \
    }
FAMILY(k1)
FAMILY(k2)
FAMILY(k3)
