/* The variants of matmul and embed. The slowest first: golden takes the last one that this machine can run. */
#include "kernels/tables.h"

const struct iq_variant *const iq__variants_matmul[] = {
    &iq__matmul_reference, &iq__matmul_scalar,
#if defined __x86_64__
    &iq__matmul_avx2,      &iq__matmul_avx512,
#endif
    &iq__embed_reference,  NULL,
};
