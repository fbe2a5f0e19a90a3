/* CUDA for g++: what kernels/cuda/cuda.h includes where nvcc doesn't compile. A kernel is a function that the shim calls
 * once per CUDA thread, each a fiber on one processor.
 *
 *   static __global__ void scale(float *x, float f, uint32_t n)
 *   {
 *       IQ_SHARED(float, tile, 256);          // an array of 256 floats; sizeof and templates work as with __shared__
 *       IQ_SHARED_DYNAMIC(float, rest);       // a pointer to the launch's dynamic shared memory
 *       ...
 *   }
 *   iq_cuda_launch(scale, grid, block, shared_bytes, stream, x, 2.0f, n);
 *
 * The rules, because the shim checks them and a GPU does not:
 *   every thread of a block reaches every __syncthreads(), the same one, before it returns (no early return above it);
 *   a warp operation's mask names the callers, all of them and nobody else; all meet at one source line;
 *   only __syncthreads and __syncwarp order memory: a shuffle or a vote does not;
 *   shared memory holds garbage until it is written; nothing is read past an array's end;
 *   device memory comes from the table's malloc (runtime.h): a kernel never sees a host pointer;
 *   no bare __shared__, no file-scope variables but constants, no float atomics, no inline PTX, no allocation.
 * Kernels are static (both builds may be linked into one program). The last rows of a grid are handled by conditions
 * around loads and stores, not by leaving.
 *
 * A launch is queued on its stream, as on a GPU. It gives 0 or a CUDA error code, which the table's last_error gives too.
 */
#ifndef IQ_CUDA_SHIM_H
#define IQ_CUDA_SHIM_H

#include <utility>

#include "kernels/cuda/shim/device.h"

/* The static byte is the array's identity: each instantiation of a template has its own. */
#define IQ_SHARED(type, name, n)                                                                             \
    static char name##_key;                                                                                  \
    type(&name)[n] =                                                                                         \
        *static_cast<type(*)[n]>(iq_shim_shared(&name##_key, #name, sizeof(type) * (n), alignof(type)))
#define IQ_SHARED_DYNAMIC(type, name) type *name = static_cast<type *>(iq_shim_shared_dynamic())

/* iq_cuda_launch(kernel, grid, block, shared_bytes, stream, args...). Arguments are converted to the kernel's parameters
 * and copied. */
#define iq_cuda_launch(...) iq__shim_launch_as(#__VA_ARGS__, __VA_ARGS__)

typedef void *cudaStream_t;

struct iq_shim_call {
    const char *name; /* up to the first character that no name has */
    const void *kernel;
    void (*invoke)(const void *kernel, void **args); /* runs one thread */
    void **args;                                     /* (args_n) pointers to the parameters */
    const size_t *arg_bytes;                         /* (args_n) */
    uint32_t args_n;
    dim3 grid, block;
    size_t shared_bytes;
};

/* Borrows the call. */
extern "C" int iq_shim_launch(const struct iq_shim_call *call, void *stream);

template <class... P, size_t... I>
__attribute__((no_sanitize("thread"))) static inline void iq__shim_unpack(const void *kernel, void **args,
                                                                          std::index_sequence<I...>)
{
    auto run = reinterpret_cast<void (*)(P...)>(const_cast<void *>(kernel));
    run(*static_cast<P *>(args[I])...);
    (void)args;
}

/* The parameters are read here, out of the race detector's sight: they belong to the host. */
template <class... P>
__attribute__((no_sanitize("thread"))) static void iq__shim_invoke(const void *kernel, void **args)
{
    iq__shim_unpack<P...>(kernel, args, std::index_sequence_for<P...>{});
}

template <class... P>
static int iq__shim_launch_values(const char *name, void (*kernel)(P...), dim3 grid, dim3 block,
                                  size_t shared_bytes, void *stream, P... values)
{
    void *args[] = {const_cast<void *>(static_cast<const void *>(&values))..., nullptr};
    const size_t bytes[] = {sizeof(P)..., 0};
    const struct iq_shim_call call = {name,
                                      reinterpret_cast<const void *>(kernel),
                                      iq__shim_invoke<P...>,
                                      args,
                                      bytes,
                                      sizeof...(P),
                                      grid,
                                      block,
                                      shared_bytes};
    return iq_shim_launch(&call, stream);
}

template <class... P, class... A>
static inline int iq__shim_launch_as(const char *name, void (*kernel)(P...), dim3 grid, dim3 block,
                                     size_t shared_bytes, void *stream, const A &...args)
{
    static_assert(sizeof...(P) == sizeof...(A), "as many arguments as the kernel has parameters");
    return iq__shim_launch_values<P...>(name, kernel, grid, block, shared_bytes, stream,
                                        static_cast<P>(args)...);
}

#endif
