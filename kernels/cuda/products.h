/* Which tensor-core products a device has: its own generation's, and no others. The shim has all of them. */
#ifndef IQ_CUDA_PRODUCTS_H
#define IQ_CUDA_PRODUCTS_H

#include "kernels/cuda/device.h"
#include "kernels/tensor_core/block.h"

/* The generation whose arithmetic a compute capability has: 8.x (Ampere, Ada) sm80, 9.x (Hopper) sm90, 10.x (Blackwell)
 * sm100. -1: nothing is known of it (enum iq_tc_profile_id otherwise).
 * Sources: the models of A100, A2, A30, L40S and RTX 1000 Ada in the data of arXiv 2512.07004, and arXiv 2511.10909, agree
 * for 8.x; of 12.x (RTX Blackwell) no measured rows are here. */
int iq_cuda_products_of(int major, int minor);

/* Whether the device makes these products ("sm90", "sm90-f16" ...). IQ_NOT_FOUND: there are none of this name.
 * IQ_UNSUPPORTED: it makes others; the sentence says which. */
int iq_cuda_products(const struct iq_cuda *, const char *products, struct iq_err *err);

/* Queues such a product, or says in cuda->err why this device does not make it. profile, format: enum iq_tc_profile_id,
 * enum iq_tc_format. */
int iq__cuda_products_run(struct iq_cuda *, const char *products, unsigned profile, unsigned format,
                          const struct iq_matmul *);

#endif
