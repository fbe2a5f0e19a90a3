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
    iq__k18_k_tail, iq__k12_no_wait, iq__k13_misrouted, iq__k13_one_set, iq__k15_unfair, iq__k21_misassembled,
    iq__k24_shared_identity, iq__k25_held_block, iq__k25_evicts_held, iq__k25_frees_cached,
    iq__k25_partial_move;
/* Apart, in iq_faults_nccl: it stands on kernels/nccl. Not in the table above. */
extern const struct iq_variant iq__k16_nccl_stale;

#endif
