/* From a file's rotary settings to the table that the rope op reads. */
#include "engine/model_parts.h"
#include "kernels/rotary.h"

#include <stdlib.h>

int iq__model_rotary(struct iq_model *m, struct iq_err *err)
{
    const struct iq_model_config *c = &m->config;
    const struct iq_rope_config *r = &c->rope;
    bool longrope = r->kind == IQ_ROPE_LONGROPE, factors = r->kind == IQ_ROPE_FACTORS;
    struct iq_rotary_spec s = {.kind = factors ? IQ_ROTARY_NONE : (uint32_t)r->kind,
                               .rotary = c->head_dim,
                               .base = r->theta,
                               .factor = r->factor,
                               .context = (uint32_t)c->context,
                               .original_context = (uint32_t)r->original_context,
                               .length = m->positions,
                               .low_freq_factor = r->low_freq_factor,
                               .high_freq_factor = r->high_freq_factor,
                               .beta_fast = r->beta_fast,
                               .beta_slow = r->beta_slow,
                               .mscale = r->mscale,
                               .mscale_all_dim = r->mscale_all_dim,
                               .no_truncate = !r->truncate,
                               .attention_factor = r->attention_factor,
                               .short_factor = longrope ? r->short_factor : NULL,
                               .long_factor = longrope ? r->long_factor : NULL,
                               .freq_factors = factors ? r->short_factor : NULL};
    m->rotary = malloc((size_t)m->positions * c->head_dim * sizeof *m->rotary);
    if (!m->rotary)
        return iq_fail(err, IQ_MEMORY, "no memory for a rotary table of %u positions", m->positions);
    return iq_rotary_table(&s, m->positions, m->rotary, &m->rotary_digest, err);
}
