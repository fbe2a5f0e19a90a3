/* A micro-batch back through the model: forward's ops in the opposite order. m->dx is the gradient of the residual stream. */
#include "engine/train/parts.h"

static int norm_back(struct iq_train *t, const struct iq__train_part *part, const float *x, const float *w,
                     float *dw)
{
    struct iq_train_norm_back a = {.rows = part->sequences * part->length,
                                   .unit = part->length,
                                   .n = t->recipe.hidden,
                                   .eps = (float)t->recipe.norm_eps,
                                   .x = x,
                                   .w = w,
                                   .dy = t->memory.dh,
                                   .dx = t->memory.dx,
                                   .dw = dw};
    return t->ops->norm_back(&t->exec, &a);
}

static int feed_forward_back(struct iq_train *t, const struct iq__train_part *part, uint32_t i,
                             float *gradient)
{
    const struct iq_train_recipe *r = &t->recipe;
    const struct iq__train_layer *l = &t->layer[i];
    const struct iq__train_memory *m = &t->memory;
    const struct iq__train_feed dense = {m->rows, NULL, l->h2, l->w_gate_up, l->w_down, l->gate_up, l->act};
    IQ_TRY(iq__train_residual(t, part, 2 * i + 1, NULL, m->dx, m->dbranch));
    if (r->experts)
        IQ_TRY(iq__train_experts_back(t, part, l, gradient));
    else
        IQ_TRY(iq__train_feed_back(t, part, &dense, m->dbranch, m->dh, gradient + l->at_gate_up,
                                   gradient + l->at_down));
    return norm_back(t, part, l->middle, l->ffn_norm, gradient + l->at_ffn_norm);
}

static int attention_back(struct iq_train *t, const struct iq__train_part *part, uint32_t i, float *gradient)
{
    const struct iq_train_recipe *r = &t->recipe;
    const struct iq__train_layer *l = &t->layer[i];
    struct iq__train_memory *m = &t->memory;
    const size_t rows = m->rows, d = r->hidden, q = t->width.q, kv = t->width.kv;
    struct iq_train_attention_back attend = {.sequences = part->sequences,
                                             .unit = part->length,
                                             .heads = r->heads,
                                             .kv_heads = r->kv_heads,
                                             .dim = r->head_dim,
                                             .scale = t->scale,
                                             .q = l->qkv,
                                             .k = l->qkv + q,
                                             .v = l->qkv + q + kv,
                                             .y = l->attended,
                                             .dy = m->dattended,
                                             .dq = m->dqkv,
                                             .dk = m->dqkv + q,
                                             .dv = m->dqkv + q + kv,
                                             .ld = t->width.qkv};
    /* q's heads and k's lie side by side and turn alike. */
    struct iq_train_rope_back turn = {.rows = (uint32_t)rows,
                                      .unit = part->length,
                                      .heads = r->heads + r->kv_heads,
                                      .dim = r->head_dim,
                                      .table = t->rotary,
                                      .dx = m->dqkv,
                                      .ld = t->width.qkv};
    IQ_TRY(iq__train_residual(t, part, 2 * i, NULL, m->dx, m->dbranch));
    IQ_TRY(iq__train_weight_back(t, part, NULL, m->dbranch, l->attended, d, q, gradient + l->at_out));
    IQ_TRY(iq__train_input_back(t, rows, m->dbranch, l->w_out, d, q, m->dattended));
    IQ_TRY(t->ops->attention_back(&t->exec, &attend));
    IQ_TRY(t->ops->rope_back(&t->exec, &turn));
    IQ_TRY(iq__train_weight_back(t, part, NULL, m->dqkv, l->h, t->width.qkv, d, gradient + l->at_qkv));
    IQ_TRY(iq__train_input_back(t, rows, m->dqkv, l->w_qkv, t->width.qkv, d, m->dh));
    return norm_back(t, part, l->x, l->attn_norm, gradient + l->at_attn_norm);
}

int iq__train_backward(struct iq_train *t, const struct iq__train_part *part, float *gradient)
{
    const struct iq_train_recipe *r = &t->recipe;
    struct iq__train_memory *m = &t->memory;
    struct iq_train_embed_back embed = {.rows = (uint32_t)m->rows,
                                        .unit = part->length,
                                        .vocab = r->vocab,
                                        .n = r->hidden,
                                        .ids = part->tokens,
                                        .dx = m->dx,
                                        .dtable = gradient};
    IQ_TRY(iq__train_weight_back(t, part, NULL, m->logits, m->normed, r->vocab, r->hidden,
                                 gradient + t->at_head));
    IQ_TRY(iq__train_input_back(t, m->rows, m->logits, t->w_head, r->vocab, r->hidden, m->dh));
    for (size_t i = 0; i < m->rows * r->hidden; i++) m->dx[i] = 0.0f; /* nothing comes from behind the norm */
    IQ_TRY(norm_back(t, part, m->final, t->w_final_norm, gradient + t->at_final_norm));
    for (uint32_t i = r->layers; i-- > 0;) {
        t->at_layer = (uint16_t)i;
        IQ_TRY(feed_forward_back(t, part, i, gradient));
        IQ_TRY(attention_back(t, part, i, gradient));
    }
    t->at_layer = IQ_NO_LAYER;
    return t->ops->embed_back(&t->exec, &embed);
}
