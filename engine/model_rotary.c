/* From a file's rotary settings to the table that the rope op reads. */
#include "engine/model_parts.h"
#include "kernels/rotary.h"

#include <stdlib.h>

/* What a server changes that is set up for longer contexts. */
static int lengthen(const struct iq_model *m, uint32_t factor, struct iq_rotary_spec *s, struct iq_err *err)
{
    if (s->kind == IQ_ROTARY_LONGROPE) {
        s->length = (uint32_t)m->config.rope.original_context + 1;
        return IQ_OK;
    }
    if (s->kind != IQ_ROTARY_NONE || s->freq_factors)
        return iq_fail(err, IQ_UNSUPPORTED,
                       "long factor: the model scales its positions already (%s); leave it at 0",
                       iq_rope_kind_name(m->config.rope.kind));
    s->kind = IQ_ROTARY_LINEAR;
    s->factor = factor;
    return IQ_OK;
}

int iq__model_rotary(struct iq_model *m, uint32_t long_factor, struct iq_err *err)
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
    if (longrope && long_factor)
        s.length = (uint32_t)r->original_context; /* the long factors are the second table's */
    m->tables = long_factor ? 2 : 1;
    size_t table = (size_t)m->positions * c->head_dim;
    m->rotary = malloc(m->tables * table * sizeof *m->rotary);
    if (!m->rotary)
        return iq_fail(err, IQ_MEMORY, "no memory for a rotary table of %u positions", m->positions);
    IQ_TRY(iq_rotary_table(&s, m->positions, m->rotary, &m->rotary_digest, err));
    if (!long_factor) return IQ_OK;
    IQ_TRY(lengthen(m, long_factor, &s, err));
    return iq_rotary_table(&s, m->positions, m->rotary + table, &m->long_digest, err);
}
