#include "kernels/cuda/launchers.h"

/* Built by nvcc it is iq__cuda_kernels, otherwise iq__cuda_shim_kernels. */
extern "C" const struct iq_cuda_kernels IQ_CUDA_NAME(kernels) = {IQ_CUDA_NAME(embed),
                                                                 IQ_CUDA_NAME(rmsnorm),
                                                                 IQ_CUDA_NAME(matmul),
                                                                 IQ_CUDA_NAME(rope),
                                                                 IQ_CUDA_NAME(kv_write),
                                                                 IQ_CUDA_NAME(attention),
                                                                 IQ_CUDA_NAME(attention_split),
                                                                 IQ_CUDA_NAME(all_reduce),
                                                                 IQ_CUDA_NAME(add),
                                                                 IQ_CUDA_NAME(swiglu),
                                                                 IQ_CUDA_NAME(temper),
                                                                 IQ_CUDA_NAME(topk),
                                                                 IQ_CUDA_NAME(sample),
                                                                 IQ_CUDA_NAME(digest),
                                                                 IQ_CUDA_NAME(kv_digest),
                                                                 IQ_CUDA_NAME(rows_save),
                                                                 IQ_CUDA_NAME(rows_settle),
                                                                 IQ_CUDA_NAME(rows_kv),
                                                                 IQ_CUDA_NAME(products)};
