#include "kernels/arith.h"
#include "kernels/cuda/launchers.h"
#include "kernels/nccl/pack.h"

enum { PACK_THREADS = 256 };

static __global__ void narrow(const float *from, uint16_t *to, size_t n)
{
    size_t i = iq_thread_index();
    if (i < n) to[i] = iq_f32_to_bf16(from[i]);
}

static __global__ void widen(const uint16_t *from, float *to, size_t n)
{
    size_t i = iq_thread_index();
    if (i < n) to[i] = iq_bf16_to_f32(from[i]);
}

template <class From, class To>
static int run(void (*kernel)(const From *, To *, size_t), const From *from, To *to, size_t n, void *stream)
{
    unsigned grid;
    if (!n) return IQ_OK;
    IQ_TRY(iq_cuda_grid((n - 1) / PACK_THREADS + 1, &grid));
    iq_cuda_launch(kernel, dim3(grid), dim3(PACK_THREADS), 0, (cudaStream_t)stream, from, to, n);
    return IQ_OK;
}

int IQ_CUDA_NAME(nccl_narrow)(const float *from, uint16_t *to, size_t n, void *stream)
{
    return run(narrow, from, to, n, stream);
}

int IQ_CUDA_NAME(nccl_widen)(const uint16_t *from, float *to, size_t n, void *stream)
{
    return run(widen, from, to, n, stream);
}
