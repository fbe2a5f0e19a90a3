/* The variants of matmul by NVIDIA's libraries: subjects, never golden. Registered by the harness, one by one. */
#ifndef IQ_CUBLAS_VARIANTS_H
#define IQ_CUBLAS_VARIANTS_H

#include "kernels/op.h"

extern const struct iq_variant *const iq_cublas_variants[]; /* NULL-terminated */

#endif
