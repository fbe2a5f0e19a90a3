/* The one door to CUDA: kernels name no other header of it. nvcc gets the CUDA runtime; any other C++ compiler gets the
 * shim, which runs each thread of a kernel as a fiber on the CPU. Written so that one source serves both:
 *   IQ_SHARED(type, name, n)         an array of the block
 *   IQ_SHARED_DYNAMIC(type, name)    the array whose bytes the launch gives
 *   iq_cuda_launch(kernel, grid, block, shared_bytes, stream, args...)
 * Build with -fmad=false -ftz=false -prec-div=true -prec-sqrt=true (nvcc), -ffp-contract=off (both): kernels/arith.h. */
#ifndef IQ_CUDA_CUDA_H
#define IQ_CUDA_CUDA_H

#ifdef __CUDACC__
#include <cuda_runtime.h>

#define IQ_SHARED(type, name, n) __shared__ type name[n]
#define IQ_SHARED_DYNAMIC(type, name)                                                                        \
    extern __shared__ __align__(16) unsigned char iq_dynamic_[];                                             \
    type *name = reinterpret_cast<type *>(iq_dynamic_)

/* What a block may have without being asked for; more must be allowed to a kernel first. */
#define IQ_SHARED_DEFAULT (48u << 10)

template <class... Params, class... Args>
static inline void iq_cuda_launch(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared,
                                  cudaStream_t stream, const Args &...args)
{
    if (shared > IQ_SHARED_DEFAULT)
        (void)cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    kernel<<<grid, block, shared, stream>>>(args...);
}
#else
#include "kernels/cuda/shim/shim.h"

#ifndef __grid_constant__
#define __grid_constant__
#endif
#endif

#define IQ_WARP      32
#define IQ_ALL_LANES 0xffffffffu

/* Names of what a build exports: one process may hold the device's kernels and the shim's. */
#ifdef __CUDACC__
#define IQ_CUDA_NAME(name) iq__cuda_##name
#else
#define IQ_CUDA_NAME(name) iq__cuda_shim_##name
#endif

#endif
