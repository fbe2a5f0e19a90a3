/* What each room of kernels hands to the registry: its table of variants (NULL-terminated, a kind's reference first)
 * and its kinds. Internal to kernels. */
#ifndef IQ_TABLES_H
#define IQ_TABLES_H

#include "kernels/op.h"

extern const struct iq_variant *const iq__variants_attention[];
extern const struct iq_kind iq__kind_kv_write, iq__kind_attention, iq__kind_all_reduce, iq__kind_prefix;

extern const struct iq_variant *const iq__variants_sampling[];
extern const struct iq_kind iq__kind_topk, iq__kind_sample, iq__kind_mask;

extern const struct iq_variant *const iq__variants_matmul[]; /* and embed */
extern const struct iq_variant iq__matmul_reference, iq__matmul_scalar, iq__matmul_avx2, iq__matmul_avx512;
extern const struct iq_variant iq__embed_reference;
extern const struct iq_variant *const iq__variants_tensor_core[];
extern const struct iq_kind iq__kind_matmul, iq__kind_embed;

extern const struct iq_variant *const iq__variants_vector[];
extern const struct iq_kind iq__kind_rmsnorm, iq__kind_rope, iq__kind_add, iq__kind_swiglu, iq__kind_temper;

extern const struct iq_variant *const iq__variants_lora[];
extern const struct iq_kind iq__kind_lora;

extern const struct iq_variant *const iq__variants_weights[];
extern const struct iq_kind iq__kind_weights;

extern const struct iq_variant *const iq__variants_moe[];
extern const struct iq_variant iq__grouped_matmul_reference, iq__grouped_matmul_scalar,
    iq__grouped_matmul_avx2, iq__grouped_matmul_avx512;
extern const struct iq_kind iq__kind_route, iq__kind_moe_dispatch, iq__kind_all_to_all,
    iq__kind_grouped_matmul, iq__kind_combine;

extern const struct iq_variant *const iq__variants_speculate[];
extern const struct iq_kind iq__kind_draft, iq__kind_accept, iq__kind_rollback;

extern const struct iq_variant *const iq__variants_train[];
extern const struct iq_kind iq__kind_seed, iq__kind_product, iq__kind_adamw;

extern const struct iq_variant *const iq__variants_blocks[], *const iq__variants_requests[];
extern const struct iq_kind iq__kind_kv_alloc, iq__kind_kv_evict, iq__kind_kv_free, iq__kind_kv_land,
    iq__kind_kv_move;
extern const struct iq_kind iq__kind_assemble, iq__kind_place, iq__kind_identity, iq__kind_form;

extern const struct iq_variant *const iq__variants_cuda[];
extern const struct iq_variant *const iq__variants_cuda_products[];

#endif
