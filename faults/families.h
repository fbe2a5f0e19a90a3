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
    iq__k24_shared_identity, iq__k23_partial_update, iq__k23_wrong_copy;
/* Apart, in iq_faults_nccl: it stands on kernels/nccl. Not in the table above. */
extern const struct iq_variant iq__k16_nccl_stale;

#endif
