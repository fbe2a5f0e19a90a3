/* The catalogue of wrong variants, one family per file. Each is a constant record that says what really
 * happened, where it was published, and what must break. Parameters are numbers with ranges; `inquest
 * doctor` and plan errors list them. */
#ifndef IQ_FAMILIES_H
#define IQ_FAMILIES_H

#include "kernels/op.h"

/* Registers all of them; kernels must be registered first (iq_kernels_register). Idempotent. */
int iq_faults_register(struct iq_err *);
/* The table itself, NULL-terminated. */
const struct iq_variant *const *iq_faults_all(void);

extern const struct iq_variant iq__k1_coarse_bin, iq__k2_shard_merge, iq__k3_threshold_precision,
    iq__k10_foreign_block, iq__k15_reduction_order, iq__k15_ring, iq__k15_backwards, iq__k15_unfused,
    iq__k15_reseed, iq__k16_stale_reduce, iq__k17_low_precision, iq__k17_bf16_state, iq__k17_bf16_operands,
    iq__k18_k_tail;
/* The sampler, and what a batch keeps by row. */
extern const struct iq_variant iq__k5_token_shift, iq__k5_fall_through, iq__k6_rare_script,
    iq__k20_shared_seed, iq__k20_twice_tempered, iq__k20_ties_admitted, iq__k20_unstable_ties,
    iq__k27_neighbour_parameters, iq__k27_neighbour_temperature, iq__k26_neighbour_mask,
    iq__k23_partial_update, iq__k23_wrong_copy;
extern const struct iq_variant iq__k1_bucket_overflow, iq__k1_cleared_histogram, iq__k1_index_bias,
    iq__k1_expert_bias, iq__k4_row_wrap, iq__k4_norm_wrap, iq__k4_input_wrap, iq__k4_kv_wrap,
    iq__k7_split_combine, iq__k14_first_of_block, iq__k14_shared_counts, iq__k14_half_candidates,
    iq__k14_uneven_ranks, iq__k18_batch_stride, iq__k19_matmul, iq__k19_add, iq__k19_rmsnorm,
    iq__k19_attention, iq__k19_kv_write, iq__k19_all_reduce, iq__k28_matmul, iq__k28_rmsnorm,
    iq__k28_attention, iq__k28_add, iq__k28_all_reduce, iq__k28_swiglu, iq__k28_temper, iq__k8_shared_scale,
    iq__k8_null_block, iq__k9_frozen_input, iq__k9_warmup_skipped, iq__k11_kv_fp8, iq__k11_kv_scale_lost,
    iq__k12_unwritten_tail, iq__k15_norm_block, iq__k15_tile_by_tokens, iq__k15_split_by_batch;
extern const struct iq_variant iq__k12_no_wait, iq__k13_misrouted, iq__k13_one_set, iq__k15_unfair,
    iq__k21_misassembled, iq__k24_shared_identity, iq__k25_held_block, iq__k25_evicts_held,
    iq__k25_frees_cached, iq__k25_partial_move;
extern const struct iq_variant iq__k22_first_unchecked, iq__k22_keep_rejected, iq__k22_draft_stream;
/* Apart, in iq_faults_nccl: it stands on kernels/nccl. Not in the table above. */
extern const struct iq_variant iq__k16_nccl_stale;

#endif
