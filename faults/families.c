#include "faults/families.h"

static const struct iq_variant *const all[] = {
    &iq__k1_coarse_bin,
    &iq__k2_shard_merge,
    &iq__k3_threshold_precision,
    &iq__k5_token_shift,
    &iq__k5_fall_through,
    &iq__k6_rare_script,
    &iq__k10_foreign_block,
    &iq__k15_reduction_order,
    &iq__k15_ring,
    &iq__k15_backwards,
    &iq__k15_unfused,
    &iq__k15_reseed,
    &iq__k16_stale_reduce,
    &iq__k17_low_precision,
    &iq__k17_bf16_state,
    &iq__k17_bf16_operands,
    &iq__k18_k_tail,
    &iq__k20_shared_seed,
    &iq__k26_neighbour_mask,
    &iq__k24_shared_identity,
    &iq__k23_partial_update,
    &iq__k23_wrong_copy,
    &iq__k20_twice_tempered,
    &iq__k20_ties_admitted,
    &iq__k20_unstable_ties,
    &iq__k27_neighbour_parameters,
    &iq__k27_neighbour_temperature,
    NULL,
};

const struct iq_variant *const *iq_faults_all(void) { return all; }

int iq_faults_register(struct iq_err *err)
{
    for (size_t i = 0; all[i]; i++)
        if (iq_variant_find(all[i]->kind, all[i]->name) != all[i]) IQ_TRY(iq_variant_register(all[i], err));
    return IQ_OK;
}
