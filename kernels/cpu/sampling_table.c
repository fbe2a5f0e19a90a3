/* The variants of topk, sample and mask. A kind's reference comes before its others. */
#include "kernels/tables.h"

extern const struct iq_variant iq__topk_reference, iq__topk_scalar, iq__sample_reference, iq__sample_scalar,
    iq__mask_reference;
#if defined __x86_64__
extern const struct iq_variant iq__topk_avx2, iq__topk_avx512, iq__sample_avx2, iq__sample_avx512;
#endif

const struct iq_variant *const iq__variants_sampling[] = {
    &iq__topk_reference,
    &iq__topk_scalar,
    &iq__sample_reference,
    &iq__sample_scalar,
    &iq__mask_reference,
#if defined __x86_64__
    &iq__topk_avx2,
    &iq__topk_avx512,
    &iq__sample_avx2,
    &iq__sample_avx512,
#endif
    NULL,
};
