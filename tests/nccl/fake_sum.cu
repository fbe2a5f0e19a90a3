#include "kernels/arith.h"
#include "kernels/cuda/launchers.h"
#include "tests/nccl/fake_sum.h"

static __global__ void copy(uint16_t *to, const uint16_t *from, size_t n)
{
    size_t i = iq_thread_index();
    if (i < n) to[i] = from[i];
}

void fake_copy(void *to, const void *from, size_t halves, void *stream)
{
    iq_cuda_launch(copy, dim3((unsigned)(halves / 128 + 1)), dim3(128), 0, (cudaStream_t)stream,
                   (uint16_t *)to, (const uint16_t *)from, halves);
}

static __device__ float element(const char *from, size_t i, int bf16)
{
    return bf16 ? iq_bf16_to_f32(((const uint16_t *)from)[i]) : ((const float *)from)[i];
}

static __global__ void sum(char *to, const char *from, size_t stride, size_t n, int ranks, int ring, int bf16)
{
    size_t i = iq_thread_index(), share = (n + (size_t)ranks - 1) / (size_t)ranks;
    if (i >= n) return;
    int start = ring ? (int)(i / share + 1) % ranks : ranks - 1, step = ring ? 1 : ranks - 1;
    float acc = element(from + (size_t)start * stride, i, bf16);
    for (int k = 1; k < ranks; k++) {
        acc += element(from + (size_t)((start + k * step) % ranks) * stride, i, bf16);
        if (bf16) acc = iq_bf16_to_f32(iq_f32_to_bf16(acc));
    }
    if (bf16)
        ((uint16_t *)to)[i] = iq_f32_to_bf16(acc);
    else
        ((float *)to)[i] = acc;
}

void fake_sum(void *to, const void *from, size_t stride, size_t n, int ranks, int ring, int bf16,
              void *stream)
{
    iq_cuda_launch(sum, dim3((unsigned)(n / 128 + 1)), dim3(128), 0, (cudaStream_t)stream, (char *)to,
                   (const char *)from, stride, n, ranks, ring, bf16);
}
