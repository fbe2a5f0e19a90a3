/* A panel holds 64 outputs side by side, k-major; cuBLAS wants rows of k. A block turns a square of 64 outputs and 64
 * columns in shared memory, so that both sides are read and written in long runs. */
#include "kernels/cublas/unpack.h"

#include "kernels/cuda/launchers.h"
#include "kernels/cuda/weights.h"

enum { THREADS = 256, SIDE = 64, TURNED = SIDE + 1 /* a column of the square touches every bank once */ };

template <int ELEMENT> struct element {
    typedef uint16_t type;
};
template <> struct element<IQ_CUBLAS_FLOAT> {
    typedef float type;
};

template <int ELEMENT> __device__ __forceinline__ typename element<ELEMENT>::type store(float f)
{
    if (ELEMENT == IQ_CUBLAS_BFLOAT) return iq_f32_to_bf16(f);
    return iq_f32_to_f16(f);
}
template <> __device__ __forceinline__ float store<IQ_CUBLAS_FLOAT>(float f) { return f; }

struct square {
    const uint8_t *data;
    void *out;
    size_t panel_bytes;
    uint32_t n, k, ld, across; /* across: squares along k */
};

template <int FORMAT, int ELEMENT> static __global__ void unpack(const __grid_constant__ struct square a)
{
    IQ_SHARED(float, turned, SIDE *TURNED);
    typedef typename element<ELEMENT>::type out_type;
    uint32_t panel = blockIdx.x / a.across, k0 = blockIdx.x % a.across * SIDE;
    const uint8_t *p = a.data + panel * a.panel_bytes;
    for (uint32_t i = threadIdx.x; i < SIDE * SIDE / 8; i += THREADS) {
        uint32_t j = i % SIDE, k = i / SIDE * 8;
        float w[8];
        if (k0 + k + 8 <= a.k) {
            iq_weights8<FORMAT>(p, k0 + k, j, w);
        } else {
            for (uint32_t e = 0; e < 8; e++)
                w[e] = k0 + k + e < a.k ? iq_weight<FORMAT>(p, k0 + k + e, j) : 0.0f;
        }
        for (uint32_t e = 0; e < 8; e++) turned[(k + e) * TURNED + j] = w[e];
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < SIDE * SIDE; i += THREADS) {
        uint32_t j = i / SIDE, k = i % SIDE, o = panel * SIDE + j;
        if (o < a.n && k0 + k < a.k)
            ((out_type *)a.out)[(size_t)o * a.ld + k0 + k] = store<ELEMENT>(turned[k * TURNED + j]);
    }
}

template <int ELEMENT> static __global__ void take(const __grid_constant__ struct iq_cublas_take a)
{
    uint64_t i = iq_thread_index(), r = i / a.k, k = i % a.k;
    if (r < a.rows)
        ((typename element<ELEMENT>::type *)a.out)[r * a.ld + k] = store<ELEMENT>(a.x[r * a.ldx + k]);
}

static __global__ void finish(const __grid_constant__ struct iq_cublas_finish a)
{
    uint64_t i = iq_thread_index(), r = i / a.n, o = i % a.n;
    if (r >= a.rows) return;
    float y = a.sum[i];
    if (a.bias) y = y + a.bias[o];
    a.y[r * a.ldy + o] = iq_act_round(y, a.act);
}

typedef void unpack_kernel(struct square);
#define EACH_FORMAT(element)                                                                                 \
    {                                                                                                        \
        unpack<IQ_F32, element>, unpack<IQ_F16, element>, unpack<IQ_BF16, element>,                          \
            unpack<IQ_Q8_0, element>, unpack<IQ_Q4_0, element>, unpack<IQ_Q4_1, element>                     \
    }
static unpack_kernel *const unpackers[IQ_CUBLAS_ELEMENTS][IQ_FORMATS] = {
    EACH_FORMAT(IQ_CUBLAS_FLOAT), EACH_FORMAT(IQ_CUBLAS_BFLOAT), EACH_FORMAT(IQ_CUBLAS_HALF)};
static void (*const takers[IQ_CUBLAS_ELEMENTS])(struct iq_cublas_take) = {
    take<IQ_CUBLAS_FLOAT>, take<IQ_CUBLAS_BFLOAT>, take<IQ_CUBLAS_HALF>};

static uint64_t ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

extern "C" int IQ_CUDA_NAME(cublas_unpack)(const struct iq_cublas_unpack *a, iq_cuda_stream stream)
{
    const struct iq_matrix *w = a->w;
    unsigned grid;
    struct square s = {w->data, a->out, w->panel_bytes, w->n, w->k, a->ld, (uint32_t)ceil_div(w->k, SIDE)};
    IQ_TRY(iq_cuda_grid((uint64_t)w->panels * s.across, &grid));
    if (grid == 0) return IQ_OK;
    iq_cuda_launch(unpackers[a->element][w->format], dim3(grid), dim3(THREADS), 0, (cudaStream_t)stream, s);
    return IQ_OK;
}

extern "C" int IQ_CUDA_NAME(cublas_take)(const struct iq_cublas_take *a, iq_cuda_stream stream)
{
    unsigned grid;
    IQ_TRY(iq_cuda_grid(ceil_div((uint64_t)a->rows * a->k, THREADS), &grid));
    if (grid) iq_cuda_launch(takers[a->element], dim3(grid), dim3(THREADS), 0, (cudaStream_t)stream, *a);
    return IQ_OK;
}

extern "C" int IQ_CUDA_NAME(cublas_finish)(const struct iq_cublas_finish *a, iq_cuda_stream stream)
{
    unsigned grid;
    IQ_TRY(iq_cuda_grid(ceil_div((uint64_t)a->rows * a->n, THREADS), &grid));
    if (grid) iq_cuda_launch(finish, dim3(grid), dim3(THREADS), 0, (cudaStream_t)stream, *a);
    return IQ_OK;
}
