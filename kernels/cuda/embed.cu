/* embed: a block a row; the row of the packed table is read at its own place in each line. */
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/weights.h"

enum { EMBED_THREADS = 128 };

struct embed_table {
    const uint8_t *data;
    size_t panel_bytes;
    uint32_t n, k;
};

template <int FORMAT> static __global__ void embed(struct iq_embed e, struct embed_table t)
{
    uint32_t id = e.ids[blockIdx.x];
    if (id >= t.n) return; /* the engine has checked; padding of a captured batch may hold anything */
    const uint8_t *panel = t.data + id / IQ_PANEL * t.panel_bytes;
    float *y = e.y + blockIdx.x * e.ldy;
    for (uint32_t k = threadIdx.x; k < t.k; k += blockDim.x)
        y[k] = iq_act_round(iq_weight<FORMAT>(panel, k, id % IQ_PANEL), e.act);
}

typedef void embed_kernel(struct iq_embed, struct embed_table);
static embed_kernel *const embed_of[IQ_FORMATS] = {embed<IQ_F32>,  embed<IQ_F16>,  embed<IQ_BF16>,
                                                   embed<IQ_Q8_0>, embed<IQ_Q4_0>, embed<IQ_Q4_1>};

int IQ_CUDA_NAME(embed)(const struct iq_embed *e, iq_cuda_stream stream)
{
    const struct iq_matrix *m = e->table;
    struct embed_table t = {m->data, m->panel_bytes, m->n, m->k};
    unsigned grid;
    IQ_TRY(iq_cuda_grid(e->rows, &grid));
    if (grid == 0) return IQ_OK;
    iq_cuda_launch(embed_of[m->format], dim3(grid), dim3(EMBED_THREADS), 0, (cudaStream_t)stream, *e, t);
    return IQ_OK;
}
