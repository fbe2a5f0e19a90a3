/* The variants of kv_write, attention, all_reduce and prefix. A kind's reference comes before its others. */
#include "kernels/tables.h"

extern const struct iq_variant iq__kv_write_reference, iq__kv_write_scalar;
extern const struct iq_variant iq__attention_reference, iq__attention_scalar;
extern const struct iq_variant iq__all_reduce_reference, iq__all_reduce_scalar;
extern const struct iq_variant iq__prefix_reference;
#if defined __x86_64__
extern const struct iq_variant iq__attention_avx2, iq__attention_avx512;
#endif

const struct iq_variant *const iq__variants_attention[] = {
    &iq__kv_write_reference,
    &iq__kv_write_scalar,
    &iq__attention_reference,
    &iq__attention_scalar,
    &iq__all_reduce_reference,
    &iq__all_reduce_scalar,
    &iq__prefix_reference,
#if defined __x86_64__
    &iq__attention_avx2,
    &iq__attention_avx512,
#endif
    NULL,
};
