/* Kernels around a collective: what an element is on the wire. n elements; float32 that is NaN stays one. */
#ifndef IQ_NCCL_PACK_H
#define IQ_NCCL_PACK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* to[i] = from[i] as bf16, rounded to nearest even; and back, exactly. Both queue on the stream, device memory only.
 * IQ_LIMIT: more than a grid has threads for. */
#define IQ__NCCL_PACK(build)                                                                                 \
    int iq__cuda_##build##nccl_narrow(const float *from, uint16_t *to, size_t n, void *stream);              \
    int iq__cuda_##build##nccl_widen(const uint16_t *from, float *to, size_t n, void *stream);
IQ__NCCL_PACK()
IQ__NCCL_PACK(shim_)
#undef IQ__NCCL_PACK

#ifdef __cplusplus
}
#endif

#endif
