/* A micro-batch through the model: the engine's ops, in their order. What backward reads again stays in the layers. */
#include "engine/train/parts.h"
#include "kernels/arith.h"
#include "kernels/ops/rmsnorm.h"
#include "kernels/ops/rope.h"

#include <string.h>

static int norm(struct iq_train *t, size_t rows, const float *x, const float *weight, float *y)
{
    const uint32_t n = t->recipe.hidden;
    struct iq_rmsnorm a = {.rows = (uint32_t)rows,
                           .groups = 1,
                           .n = n,
                           .act = IQ_ACT_F32,
                           .eps = (float)t->recipe.norm_eps,
                           .x = x,
                           .weight = weight,
                           .y = y,
                           .ldx = n,
                           .ldy = n};
    return t->norm->run(&t->exec, NULL, &a, NULL, NULL);
}

/* q and k turned from m->raw into the layer's qkv; v copied. */
static int turn(struct iq_train *t, size_t rows, float *qkv)
{
    const struct iq_train_recipe *r = &t->recipe;
    const size_t ld = t->width.qkv, k = t->width.q, v = k + t->width.kv;
    const float *raw = t->memory.raw;
    struct iq_rope a = {.rows = (uint32_t)rows,
                        .dim = r->head_dim,
                        .rotary = r->head_dim,
                        .act = IQ_ACT_F32,
                        .pos = t->memory.pos,
                        .table = t->rotary,
                        .part = {{r->heads, raw, qkv, ld, ld}, {r->kv_heads, raw + k, qkv + k, ld, ld}}};
    for (size_t i = 0; i < rows; i++) memcpy(qkv + i * ld + v, raw + i * ld + v, t->width.kv * sizeof *qkv);
    return t->rope->run(&t->exec, NULL, &a, NULL, NULL);
}

static int attend(struct iq_train *t, const struct iq__train_part *part, size_t rows, const float *qkv,
                  float *y)
{
    const struct iq_train_recipe *r = &t->recipe;
    const struct iq__train_memory *m = &t->memory;
    const size_t ld = t->width.qkv;
    uint32_t own = (part->length + IQ_KV_BLOCK - 1) / IQ_KV_BLOCK;
    struct iq_kv_layer cache = {m->cache_k, m->cache_v, part->sequences * own, r->kv_heads, r->head_dim};
    struct iq_kv_write w = {.rows = (uint32_t)rows,
                            .kv_heads = r->kv_heads,
                            .k = qkv + t->width.q,
                            .v = qkv + t->width.q + t->width.kv,
                            .ldk = ld,
                            .ldv = ld,
                            .cache = &cache,
                            .seq = m->seq,
                            .seqs = part->sequences};
    struct iq_attention a = {.rows = (uint32_t)rows,
                             .heads = r->heads,
                             .kv_heads = r->kv_heads,
                             .act = IQ_ACT_F32,
                             .scale = t->scale,
                             .q = qkv,
                             .y = y,
                             .ldq = ld,
                             .ldy = t->width.q,
                             .cache = &cache,
                             .seq = m->seq,
                             .seqs = part->sequences};
    IQ_TRY(t->kv_write->run(&t->exec, NULL, &w, NULL, NULL));
    return t->attention->run(&t->exec, NULL, &a, NULL, NULL);
}

static int block(struct iq_train *t, const struct iq__train_part *part, uint32_t i, float *next)
{
    const struct iq_train_recipe *r = &t->recipe;
    const struct iq__train_layer *l = &t->layer[i];
    struct iq__train_memory *m = &t->memory;
    const size_t rows = m->rows, d = r->hidden, group = (size_t)r->heads / r->kv_heads * r->head_dim;
    const struct iq__train_feed dense = {rows, NULL, l->h2, l->w_gate_up, l->w_down, l->gate_up, l->act};
    t->at_layer = (uint16_t)i;
    IQ_TRY(norm(t, rows, l->x, l->attn_norm, l->h));
    IQ_TRY(iq__train_apply(t, rows, l->h, l->w_qkv, t->width.qkv, d, IQ_UNIT, m->raw));
    IQ_TRY(turn(t, rows, l->qkv));
    IQ_TRY(attend(t, part, rows, l->qkv, l->attended));
    IQ_TRY(iq__train_apply(t, rows, l->attended, l->w_out, d, t->width.q, group, m->branch));
    IQ_TRY(iq__train_residual(t, part, 2 * i, l->x, m->branch, l->middle));
    IQ_TRY(norm(t, rows, l->middle, l->ffn_norm, l->h2));
    IQ_TRY(r->experts ? iq__train_experts(t, l) : iq__train_feed(t, &dense, m->branch));
    return iq__train_residual(t, part, 2 * i + 1, l->middle, m->branch, next);
}

int iq__train_forward(struct iq_train *t, const struct iq__train_part *part)
{
    const struct iq_train_recipe *r = &t->recipe;
    struct iq__train_memory *m = &t->memory;
    const size_t d = r->hidden;
    for (size_t i = 0; i < m->rows; i++)
        memcpy(t->layer[0].x + i * d, t->w + part->tokens[i] * d, d * sizeof *t->w);
    for (uint32_t i = 0; i < r->layers; i++)
        IQ_TRY(block(t, part, i, i + 1 < r->layers ? t->layer[i + 1].x : m->final));
    t->at_layer = IQ_NO_LAYER;
    IQ_TRY(norm(t, m->rows, m->final, t->w_final_norm, m->normed));
    return iq__train_apply(t, m->rows, m->normed, t->w_head, r->vocab, d, IQ_UNIT, m->logits);
}
