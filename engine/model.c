#include "engine/model.h"

#include "engine/model_parts.h"

#include <stdlib.h>

/* A vector of weights as float32, in memory of the model's own. */
static void vector(struct iq_model *m, const struct iq_tensor *t, float **next, const float **out)
{
    *out = NULL;
    if (!t) return;
    uint32_t n = (uint32_t)t->dim[0];
    iq_format_row_to_f32(t->format, t->bytes, n, *next);
    iq_model_tensor_release(m->file, t);
    *out = *next;
    *next += n;
}

static int load_vectors(struct iq_model *m, struct iq_err *err)
{
    const struct iq_model_config *c = &m->config;
    size_t d = c->head_dim, per_layer = 2 * (size_t)c->hidden + 2 * d + (c->heads + 2 * c->kv_heads) * d;
    m->vectors_bytes = (per_layer * c->layers + c->hidden) * sizeof *m->vectors;
    m->vectors = calloc(1, m->vectors_bytes);
    if (!m->vectors) return iq_fail(err, IQ_MEMORY, "no memory for norm weights and biases");
    float *next = m->vectors;
    vector(m, m->tensors.final_norm, &next, &m->final_norm);
    for (uint32_t l = 0; l < c->layers; l++) {
        const struct iq_layer_tensors *t = &m->tensors.layer[l];
        struct iq_layer_weights *w = &m->layer[l];
        vector(m, t->attn_norm, &next, &w->attn_norm);
        vector(m, t->ffn_norm, &next, &w->ffn_norm);
        vector(m, t->q_norm, &next, &w->q_norm);
        vector(m, t->k_norm, &next, &w->k_norm);
        vector(m, t->q_bias, &next, &w->q_bias);
        vector(m, t->k_bias, &next, &w->k_bias);
        vector(m, t->v_bias, &next, &w->v_bias);
    }
    return IQ_OK;
}

void iq__model_point_experts(struct iq_model *m)
{
    uint32_t experts = m->config.experts;
    for (uint32_t l = 0; l < m->config.layers; l++) {
        struct iq_expert_weights *w = &m->layer[l].experts;
        w->gate = m->expert + (size_t)l * 3 * experts;
        w->up = w->gate + experts;
        w->down = w->up + experts;
    }
}

static int deal_experts(struct iq_model *m, struct iq_err *err)
{
    uint32_t experts = m->config.experts, ranks = m->expert_parallel;
    if (ranks > 1 && !experts)
        return iq_fail(err, IQ_UNSUPPORTED,
                       "expert parallel: found %u ranks, but the model has no experts; leave it at 1", ranks);
    if ((ranks & (ranks - 1)) || (experts && experts % ranks))
        return iq_fail(err, IQ_UNSUPPORTED,
                       "expert parallel: found %u ranks, expected a power of two that divides the model's %u "
                       "experts",
                       ranks, experts);
    if (!experts) return IQ_OK;
    m->expert = calloc((size_t)m->config.layers * 3 * experts, sizeof *m->expert);
    if (!m->expert)
        return iq_fail(err, IQ_MEMORY, "no memory for %u experts in %u layers", experts, m->config.layers);
    iq__model_point_experts(m);
    return IQ_OK;
}

static int shard(struct iq_model *m, struct iq_err *err)
{
    const struct iq_model_config *c = &m->config;
    m->attn_units = c->kv_heads;
    m->attn_unit = c->heads / c->kv_heads * c->head_dim;
    m->ffn_unit = iq_ffn_unit(c->ffn);
    m->ffn_units = (c->ffn + m->ffn_unit - 1) / m->ffn_unit;
    IQ_TRY(iq_shard_plan(m->attn_units, m->tp, "KV groups of the attention output", m->attn, err));
    if (!c->experts) IQ_TRY(iq_shard_plan(m->ffn_units, m->tp, "128-column units of the FFN", m->ffn, err));
    m->layer = calloc(c->layers, sizeof *m->layer);
    if (!m->layer) return iq_fail(err, IQ_MEMORY, "no memory for %u layers", c->layers);
    for (uint32_t l = 0; l < c->layers; l++)
        if (!(m->layer[l].rank = calloc(m->tp, sizeof *m->layer[l].rank)))
            return iq_fail(err, IQ_MEMORY, "no memory for %u ranks", m->tp);
    return deal_experts(m, err);
}

static int load(struct iq_model *m, const char *path, const struct iq_model_options *o, struct iq_err *err)
{
    IQ_TRY(iq_model_file_open(path, &m->file, err));
    IQ_TRY(iq_model_config_read(m->file, &m->config, &m->tensors, err));
    IQ_TRY(iq__model_text(m, err));
    if (iq_tokenizer_vocab(m->tokenizer) > m->config.vocab)
        return iq_fail(err, IQ_MISMATCH, "%s: the tokenizer has %u ids, the embedding only %u rows", path,
                       iq_tokenizer_vocab(m->tokenizer), m->config.vocab);
    uint64_t positions = o->positions ? o->positions : m->config.context < 8192 ? m->config.context : 8192;
    if (positions > m->config.context)
        return iq_fail(err, IQ_LIMIT, "%s: the model's context is %llu positions, asked for %u", path,
                       (unsigned long long)m->config.context, o->positions);
    m->positions = (uint32_t)positions;
    if (!o->weights) return IQ_OK;
    IQ_TRY(iq__model_rotary(m, o->long_factor, err));
    IQ_TRY(shard(m, err));
    IQ_TRY(load_vectors(m, err)); /* first: packing also lets go of what their page faults mapped */
    return iq__model_pack(m, o->threads ? o->threads : 1, err);
}

int iq_model_open(const char *path, const struct iq_model_options *o, struct iq_model **out,
                  struct iq_err *err)
{
    *out = NULL;
    struct iq_model *m = calloc(1, sizeof *m);
    if (!m) return iq_fail(err, IQ_MEMORY, "no memory for a model");
    m->tp = o->tp ? o->tp : 1;
    m->expert_parallel = o->expert_parallel ? o->expert_parallel : 1;
    int status = load(m, path, o, err);
    if (status != IQ_OK) {
        iq_model_close(m);
        return status;
    }
    *out = m;
    return IQ_OK;
}

void iq_model_close(struct iq_model *m)
{
    if (!m) return;
    for (uint32_t l = 0; m->layer && l < m->config.layers; l++) free(m->layer[l].rank);
    free(m->layer);
    free(m->expert);
    free(m->vectors);
    free(m->rotary);
    iq_arena_close(&m->arena);
    iq_chat_free(m->chat);
    iq_tokenizer_free(m->tokenizer);
    iq_model_config_free(&m->config, &m->tensors);
    iq_model_file_close(m->file);
    free(m);
}
