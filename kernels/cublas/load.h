/* Opening cuBLAS; internal to kernels/cublas and its tests. */
#ifndef IQ_CUBLAS_LOAD_H
#define IQ_CUBLAS_LOAD_H

#include "kernels/cublas/api.h"
#include "kernels/cuda/search.h"

/* Fills the table from the first of the folders that holds both libraries in a version that we know, 13 before 12. They
 * stay open for ever: they hold threads and device state. *out->name is the file (owned for ever). Errors as
 * iq_cublas_api's. */
int iq__cublas_load(const struct iq_cuda_folders *, struct iq_cublas_api *out, struct iq_err *err);

#endif
