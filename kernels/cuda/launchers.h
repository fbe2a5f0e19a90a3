/* The launchers of one build, by name; and what they share. Internal to kernels/cuda. */
#ifndef IQ_CUDA_LAUNCHERS_H
#define IQ_CUDA_LAUNCHERS_H

#include "kernels/base/status.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/launch.h"

#include <stdint.h>

extern "C" {
#define IQ_CUDA_LAUNCHER(name, args) int IQ_CUDA_NAME(name)(const struct args *, iq_cuda_stream)
IQ_CUDA_LAUNCHER(embed, iq_embed);
IQ_CUDA_LAUNCHER(rmsnorm, iq_rmsnorm);
IQ_CUDA_LAUNCHER(matmul, iq_matmul);
IQ_CUDA_LAUNCHER(rope, iq_rope);
IQ_CUDA_LAUNCHER(kv_write, iq_kv_write);
IQ_CUDA_LAUNCHER(attention, iq_attention);
IQ_CUDA_LAUNCHER(all_reduce, iq_all_reduce);
IQ_CUDA_LAUNCHER(add, iq_add);
IQ_CUDA_LAUNCHER(swiglu, iq_swiglu);
IQ_CUDA_LAUNCHER(temper, iq_temper);
IQ_CUDA_LAUNCHER(topk, iq_topk);
IQ_CUDA_LAUNCHER(route, iq_route);
IQ_CUDA_LAUNCHER(moe_dispatch, iq_moe_dispatch);
IQ_CUDA_LAUNCHER(moe_lists, iq_moe_dispatch);
IQ_CUDA_LAUNCHER(all_to_all, iq_all_to_all);
IQ_CUDA_LAUNCHER(grouped_matmul, iq_grouped_matmul);
IQ_CUDA_LAUNCHER(combine, iq_combine);
IQ_CUDA_LAUNCHER(digest, iq_cuda_digest);
IQ_CUDA_LAUNCHER(kv_digest, iq_cuda_kv_digest);
int IQ_CUDA_NAME(attention_split)(const struct iq_attention *, uint32_t context, float *partial,
                                  iq_cuda_stream);
int IQ_CUDA_NAME(sample)(const struct iq_sample *, int32_t *status, iq_cuda_stream);
IQ_CUDA_LAUNCHER(rows_save, iq_cuda_rows);
IQ_CUDA_LAUNCHER(rows_settle, iq_cuda_rows);
int IQ_CUDA_NAME(rows_kv)(const struct iq_cuda_rows *, const struct iq_kv_write *, unsigned point,
                          iq_cuda_stream);
int IQ_CUDA_NAME(products)(const struct iq_matmul *, unsigned profile, unsigned format, iq_cuda_stream);
#undef IQ_CUDA_LAUNCHER
}

/* A grid is one-dimensional: only x may be longer than 65,535. 0 blocks: nothing to do. */
static inline int iq_cuda_grid(uint64_t blocks, unsigned *grid)
{
    *grid = (unsigned)blocks;
    return blocks > INT32_MAX ? IQ_LIMIT : IQ_OK;
}

/* Thread i of the launch's linear numbering. */
__device__ __forceinline__ uint64_t iq_thread_index()
{
    return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

#endif
