/* add, swiglu, temper: a thread an element. */
#include "kernels/arith.h"
#include "kernels/cuda/launchers.h"

enum { VECTOR_THREADS = 256 };

/* Blocks of a call of rows x n: a block stays in one row. */
static int vector_grid(uint32_t rows, uint32_t n, unsigned *grid)
{
    return iq_cuda_grid((uint64_t)rows * ((n + (uint64_t)VECTOR_THREADS - 1) / VECTOR_THREADS), grid);
}

/* The thread's element; false: past the row's end. */
__device__ __forceinline__ bool element_of(uint32_t n, uint32_t *r, uint32_t *i)
{
    uint32_t blocks = (n - 1) / VECTOR_THREADS + 1;
    *r = blockIdx.x / blocks;
    *i = blockIdx.x % blocks * VECTOR_THREADS + threadIdx.x;
    return *i < n;
}

static __global__ void add(struct iq_add a)
{
    uint32_t r, i;
    if (element_of(a.n, &r, &i))
        a.y[r * a.ldy + i] = iq_act_round(a.a[r * a.lda + i] + a.b[r * a.ldb + i], a.act);
}

static __global__ void swiglu(struct iq_swiglu a)
{
    uint32_t r, i;
    if (!element_of(a.n, &r, &i)) return;
    float gate = a.gate[r * a.ldg + i], silu = gate / (1.0f + iq_exp(-gate));
    a.y[r * a.ldy + i] = iq_act_round(silu * a.up[r * a.ldu + i], a.act);
}

static __global__ void temper(struct iq_temper a)
{
    uint32_t r, i;
    if (!element_of(a.n, &r, &i)) return;
    float t = a.temperature[r] == 0.0f ? 1.0f : a.temperature[r]; /* x / 1 is x */
    a.y[r * a.ldy + i] = iq_canonical(a.x[r * a.ldx + i] / t);
}

#define VECTOR_LAUNCHER(name)                                                                                \
    int IQ_CUDA_NAME(name)(const struct iq_##name *a, iq_cuda_stream stream)                                 \
    {                                                                                                        \
        unsigned grid;                                                                                       \
        IQ_TRY(vector_grid(a->rows, a->n, &grid));                                                           \
        if (grid == 0) return IQ_OK;                                                                         \
        iq_cuda_launch(name, dim3(grid), dim3(VECTOR_THREADS), 0, (cudaStream_t)stream, *a);                 \
        return IQ_OK;                                                                                        \
    }
VECTOR_LAUNCHER(add)
VECTOR_LAUNCHER(swiglu)
VECTOR_LAUNCHER(temper)
