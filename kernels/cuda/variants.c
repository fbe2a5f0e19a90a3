/* Golden's variants on a device: each queues the kernel of its kind. One record serves the GPU and the shim; which build of
 * the kernels runs is the device's business. */
#include "kernels/cuda/device.h"
#include "kernels/exec.h"
#include "kernels/tables.h"

#include <string.h>

#define KIND(kind)                                                                                           \
    static int run_##kind(struct iq_exec *x, const struct iq_site *site, const void *args,                   \
                          const void *params, void *state)                                                   \
    {                                                                                                        \
        struct iq_cuda *c = x->cuda;                                                                         \
        (void)site, (void)params, (void)state;                                                               \
        return iq_cuda_launched(c, c->kernels->kind(args, c->stream), #kind);                                \
    }                                                                                                        \
    VARIANT(kind)
#define VARIANT(called)                                                                                      \
    static const struct iq_variant called = {                                                                \
        .kind = #called, .name = "cuda", .device = "cuda", .flags = IQ_V_GOLDEN, .run = run_##called};

KIND(embed)
KIND(rmsnorm)
KIND(matmul)
KIND(rope)
KIND(kv_write)
KIND(all_reduce)
KIND(add)
KIND(swiglu)
KIND(temper)
KIND(topk)
KIND(route)
KIND(moe_dispatch)
KIND(all_to_all)
KIND(grouped_matmul)
KIND(combine)

/* Few rows leave most of a GPU without work; where each sees several chunks of keys, a block takes a chunk. */
static const uint32_t SPLIT_ROWS = 16, SPLIT_CHUNKS = 3;

static int run_attention(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                         void *state)
{
    const struct iq_attention *a = args;
    struct iq_cuda *c = x->cuda;
    (void)site, (void)params, (void)state;
    if (a->rows > SPLIT_ROWS || iq_cuda_attention_chunks(c->context) < SPLIT_CHUNKS)
        return iq_cuda_launched(c, c->kernels->attention(a, c->stream), "attention");
    float *partial = iq_cuda_scratch(c, iq_cuda_attention_floats(a, c->context) * sizeof *partial);
    if (!partial) return IQ_MEMORY;
    return iq_cuda_launched(c, c->kernels->attention_split(a, c->context, partial, c->stream), "attention");
}
VARIANT(attention)

static int run_sample(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                      void *state)
{
    struct iq_cuda *c = x->cuda;
    (void)site, (void)params, (void)state;
    return iq_cuda_launched(c, c->kernels->sample(args, c->sample_status, c->stream), "sample");
}
VARIANT(sample)

const struct iq_variant *const iq__variants_cuda[] = {
    &embed,  &rmsnorm, &matmul, &rope,  &kv_write,     &attention,  &all_reduce,     &add,     &swiglu,
    &temper, &topk,    &sample, &route, &moe_dispatch, &all_to_all, &grouped_matmul, &combine, NULL};
