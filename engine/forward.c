#include "engine/forward_parts.h"

#include "kernels/cuda/watch.h"
#include "kernels/ops/embed.h"
#include "kernels/ops/mask.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/reduce.h"
#include "kernels/ops/rope.h"
#include "kernels/ops/sampling.h"
#include "kernels/ops/vector.h"

#include <math.h>
#include <string.h>

/* ---- a pass ---- */

static int attention(const struct iq__pass *p, const float *q, size_t ldq)
{
    struct iq_forward *f = p->f;
    const struct iq_model *m = f->model;
    const struct iq_model_config *c = &m->config;
    uint32_t group = c->heads / c->kv_heads;
    for (uint32_t r = 0; r < m->tp; r++) {
        uint32_t kv0 = m->attn[r].unit, kvs = m->attn[r].units;
        size_t at = (size_t)kv0 * group * c->head_dim;
        struct iq_attention a = {.rows = p->rows,
                                 .heads = kvs * group,
                                 .kv_heads = kvs,
                                 .kv_head0 = kv0,
                                 .act = f->act,
                                 .window = c->window && p->layer >= c->window_layer ? (uint32_t)c->window : 0,
                                 .scale = (float)(1.0 / sqrt((double)c->head_dim)),
                                 .q = q + at,
                                 .y = f->h + at,
                                 .ldq = ldq,
                                 .ldy = f->ld_h,
                                 .cache = &f->kv->layer[p->layer],
                                 .seq = p->seq,
                                 .seqs = p->seqs};
        IQ_TRY(iq__pass_run(p, IQ_OP_ATTENTION, r, &a));
    }
    return iq__pass_tap(p, IQ_OP_ATTENTION, 0, f->h, f->ld_h, (size_t)c->heads * c->head_dim);
}

/* A row-parallel product over every rank's tree nodes, and the reduction that finishes the tree. */
static int reduced(const struct iq__pass *p, enum iq_op_id product, enum iq_op_id reduce, const float *x,
                   size_t ldx)
{
    struct iq_forward *f = p->f;
    const struct iq_model *m = f->model;
    const struct iq_layer_weights *w = &m->layer[p->layer];
    uint32_t hidden = m->config.hidden, n = 0;
    bool attn = product == IQ_OP_ATTN_OUT;
    struct iq_piece piece[IQ_REDUCE_PIECES];
    for (uint32_t r = 0; r < m->tp; r++) {
        const struct iq_shard *s = attn ? &m->attn[r] : &m->ffn[r];
        const struct iq_matrix *matrix = attn ? w->rank[r].out : w->rank[r].down;
        struct iq_matmul a = {.rows = p->rows, .parts = s->nodes, .act = IQ_ACT_F32, .x = x, .ldx = ldx};
        uint32_t x_at = s->unit * (attn ? m->attn_unit : m->ffn_unit);
        for (uint32_t i = 0; i < s->nodes; i++, n++) {
            float *y = f->part + (size_t)n * f->max_rows * hidden;
            a.part[i] = (struct iq_matmul_part){.w = &matrix[i], .y = y, .ldy = hidden, .x_at = x_at};
            piece[n] = (struct iq_piece){s->node[i].unit, s->node[i].units, r, y, hidden};
            x_at += matrix[i].k;
        }
        IQ_TRY(iq__pass_run(p, product, r, &a));
    }
    struct iq_all_reduce a = {.rows = p->rows,
                              .n = hidden,
                              .units = attn ? m->attn_units : m->ffn_units,
                              .pieces = n,
                              .act = f->act,
                              .piece = piece,
                              .y = f->sum,
                              .ldy = hidden};
    return iq__pass_run(p, reduce, 0, &a);
}

static int qkv(const struct iq__pass *p)
{
    struct iq_forward *f = p->f;
    const struct iq_model *m = f->model;
    const struct iq_model_config *c = &m->config;
    const struct iq_layer_weights *w = &m->layer[p->layer];
    size_t group = c->heads / c->kv_heads, d = c->head_dim, qw = c->heads * d, kw = c->kv_heads * d;
    for (uint32_t r = 0; r < m->tp; r++) {
        size_t kv_at = m->attn[r].unit * d, q_at = kv_at * group;
        const struct iq_rank_weights *k = &w->rank[r];
        struct iq_matmul a = {
            .rows = p->rows,
            .parts = 3,
            .act = f->act,
            .x = f->h,
            .ldx = f->ld_h,
            .part = {
                {&k->q, w->q_bias ? w->q_bias + q_at : NULL, f->wide + q_at, f->ld_wide, 0},
                {&k->k, w->k_bias ? w->k_bias + kv_at : NULL, f->wide + qw + kv_at, f->ld_wide, 0},
                {&k->v, w->v_bias ? w->v_bias + kv_at : NULL, f->wide + qw + kw + kv_at, f->ld_wide, 0}}};
        IQ_TRY(iq__pass_run(p, IQ_OP_QKV, r, &a));
    }
    IQ_TRY(iq__pass_tap(p, IQ_OP_QKV, 0, f->wide, f->ld_wide, qw));
    IQ_TRY(iq__pass_tap(p, IQ_OP_QKV, 1, f->wide + qw, f->ld_wide, kw));
    return iq__pass_tap(p, IQ_OP_QKV, 2, f->wide + qw + kw, f->ld_wide, kw);
}

static int attention_block(const struct iq__pass *p)
{
    struct iq_forward *f = p->f;
    const struct iq_model *m = f->model;
    const struct iq_model_config *c = &m->config;
    const struct iq_layer_weights *w = &m->layer[p->layer];
    uint32_t d = c->head_dim, qw = c->heads * d, kw = c->kv_heads * d;
    IQ_TRY(
        iq__pass_norm(p, IQ_OP_ATTN_NORM, f->res[0], c->hidden, w->attn_norm, 1, c->hidden, f->h, f->ld_h));
    const float *wide, *out;
    IQ_TRY(qkv(p));
    IQ_TRY(iq__forward_adapt(p, IQ_OP_LORA_QKV, IQ_TARGET_Q, 3, f->h, f->ld_h, f->wide, f->ld_wide, &wide));
    const float *q = wide, *k = wide + qw, *v = wide + qw + kw;
    size_t ldq = f->ld_wide, ldk = f->ld_wide;
    if (c->qk_norm) { /* h is free again: the projections have read it */
        float *qn = f->h, *kn = f->sum;
        IQ_TRY(iq__pass_norm(p, IQ_OP_Q_NORM, q, ldq, w->q_norm, c->heads, d, qn, f->ld_h));
        IQ_TRY(iq__pass_norm(p, IQ_OP_K_NORM, k, ldk, w->k_norm, c->kv_heads, d, kn, kw));
        q = qn, ldq = f->ld_h, k = kn, ldk = kw;
    }
    struct iq_rope a = {
        .rows = p->rows,
        .dim = d,
        .rotary = d,
        .interleaved = c->rope.pairing == IQ_PAIR_NEIGHBOURS,
        .act = f->act,
        .pos = f->op_in.pos,
        .table = m->rotary,
        .tables = m->tables,
        .span = m->positions,
        .part = {{c->heads, q, f->mid, ldq, f->ld_mid}, {c->kv_heads, k, f->mid + qw, ldk, f->ld_mid}}};
    IQ_TRY(iq__pass_run(p, IQ_OP_ROPE, 0, &a));
    struct iq_kv_write kv = {.rows = p->rows,
                             .kv_heads = c->kv_heads,
                             .kv_head0 = 0,
                             .k = f->mid + qw,
                             .v = v,
                             .ldk = f->ld_mid,
                             .ldv = f->ld_wide,
                             .cache = &f->kv->layer[p->layer],
                             .seq = p->seq,
                             .seqs = p->seqs};
    IQ_TRY(iq__pass_run(p, IQ_OP_KV_WRITE, 0, &kv));
    IQ_TRY(attention(p, f->mid, f->ld_mid));
    IQ_TRY(reduced(p, IQ_OP_ATTN_OUT, IQ_OP_ATTN_REDUCE, f->h, f->ld_h));
    IQ_TRY(iq__forward_adapt(p, IQ_OP_LORA_OUT, IQ_TARGET_O, 1, f->h, f->ld_h, f->sum, c->hidden, &out));
    return iq__pass_add(p, IQ_OP_ATTN_ADD, 0, out);
}

static int dense(const struct iq__pass *p, const float **out)
{
    struct iq_forward *f = p->f;
    const struct iq_model *m = f->model;
    const struct iq_rank_weights *w = m->layer[p->layer].rank;
    uint32_t ffn = m->config.ffn;
    for (uint32_t r = 0; r < m->tp; r++) {
        size_t at = (size_t)m->ffn[r].unit * m->ffn_unit;
        struct iq_matmul a = {.rows = p->rows,
                              .parts = 2,
                              .act = f->act,
                              .x = f->h,
                              .ldx = f->ld_h,
                              .part = {{&w[r].gate, NULL, f->wide + at, f->ld_wide, 0},
                                       {&w[r].up, NULL, f->wide + ffn + at, f->ld_wide, 0}}};
        IQ_TRY(iq__pass_run(p, IQ_OP_GATE_UP, r, &a));
    }
    IQ_TRY(iq__pass_tap(p, IQ_OP_GATE_UP, 0, f->wide, f->ld_wide, ffn));
    IQ_TRY(iq__pass_tap(p, IQ_OP_GATE_UP, 1, f->wide + ffn, f->ld_wide, ffn));
    const float *wide;
    IQ_TRY(iq__forward_adapt(p, IQ_OP_LORA_GATE_UP, IQ_TARGET_GATE, 2, f->h, f->ld_h, f->wide, f->ld_wide,
                             &wide));
    struct iq_swiglu a = {.rows = p->rows,
                          .n = ffn,
                          .act = f->act,
                          .gate = wide,
                          .up = wide + ffn,
                          .y = f->mid,
                          .ldg = f->ld_wide,
                          .ldu = f->ld_wide,
                          .ldy = f->ld_mid};
    IQ_TRY(iq__pass_run(p, IQ_OP_ACT, 0, &a));
    IQ_TRY(reduced(p, IQ_OP_DOWN, IQ_OP_FFN_REDUCE, f->mid, f->ld_mid));
    return iq__forward_adapt(p, IQ_OP_LORA_DOWN, IQ_TARGET_DOWN, 1, f->mid, f->ld_mid, f->sum,
                             f->model->config.hidden, out);
}

static int ffn_block(const struct iq__pass *p)
{
    struct iq_forward *f = p->f;
    const struct iq_model_config *c = &f->model->config;
    const float *weight = f->model->layer[p->layer].ffn_norm;
    IQ_TRY(iq__pass_norm(p, IQ_OP_FFN_NORM, f->res[1], c->hidden, weight, 1, c->hidden, f->h, f->ld_h));
    const float *out = f->sum;
    IQ_TRY(c->experts ? iq__forward_experts(p) : dense(p, &out));
    return iq__pass_add(p, IQ_OP_FFN_ADD, 1, out);
}

/* n rows of `width` floats, where the ops run. */
static int copy_rows(const struct iq__pass *p, float *to, const float *from, size_t n, size_t width)
{
    struct iq_cuda *c = p->f->exec.cuda;
    size_t bytes = n * width * sizeof *to;
    if (!c) return (void)memcpy(to, from, bytes), IQ_OK;
    if (iq_cuda_step_planning(c)) return IQ_OK;
    return iq_cuda_done(c, c->api->memcpy_async(to, from, bytes, IQ_CUDA_ON_DEVICE, c->stream),
                        "copying rows");
}

/* The rows that predict, side by side: run by run of neighbours. In a padded step all do. */
static int gather(const struct iq__pass *p)
{
    const struct iq_forward *f = p->f;
    const uint32_t *predict = p->b->predict;
    size_t hidden = f->model->config.hidden;
    if (p->w->padded) return copy_rows(p, f->head_in, f->res[0], p->w->predicts, hidden);
    for (uint32_t i = 0, n; i < p->b->predicts; i += n) {
        for (n = 1; i + n < p->b->predicts && predict[i + n] == predict[i] + n;) n++;
        IQ_TRY(copy_rows(p, f->head_in + i * hidden, f->res[0] + predict[i] * hidden, n, hidden));
    }
    return IQ_OK;
}

static int head(struct iq__pass *p)
{
    struct iq_forward *f = p->f;
    const struct iq_model *m = f->model;
    const struct iq_inputs *in = &f->op_in;
    const struct iq_results *out = &f->op_out;
    uint32_t hidden = m->config.hidden, vocab = m->config.vocab, n = p->w->predicts;
    int copied = gather(p);
    if (copied != IQ_OK)
        return iq_fail(p->err, copied, "step %llu: %s", (unsigned long long)p->b->step.step,
                       iq__pass_reason(p, copied));
    p->rows = n;
    p->known = p->b->predicts;
    p->row = f->predict_row;
    p->layer = IQ_NO_LAYER;
    float *normed = f->head_in + (size_t)f->max_predicts * hidden;
    IQ_TRY(iq__pass_norm(p, IQ_OP_FINAL_NORM, f->head_in, hidden, m->final_norm, 1, hidden, normed, hidden));
    struct iq_matmul a = {.rows = n,
                          .parts = 1,
                          .act = IQ_ACT_F32,
                          .x = normed,
                          .ldx = hidden,
                          .part = {{&m->head, NULL, out->logits, vocab, 0}}};
    IQ_TRY(iq__pass_run(p, IQ_OP_LM_HEAD, 0, &a));
    const float *logits = out->logits;
    if (p->w->mask) {
        struct iq_mask mask = {n, vocab, logits, p->b->allow, out->masked, vocab, vocab};
        IQ_TRY(iq__pass_run(p, IQ_OP_MASK, 0, &mask));
        logits = out->masked;
    }
    if (p->w->temper) {
        struct iq_temper t = {n, vocab, logits, in->temperature, out->tempered, vocab, vocab};
        IQ_TRY(iq__pass_run(p, IQ_OP_TEMPER, 0, &t));
        logits = out->tempered;
    }
    struct iq_topk t = {n, vocab, f->k, m->tp, logits, vocab, out->ids, out->values};
    IQ_TRY(iq__pass_run(p, IQ_OP_TOPK, 0, &t));
    struct iq_sample s = {n,           vocab,           f->k,     logits,          vocab,     out->ids,
                          out->values, in->predict_pos, in->seed, in->temperature, in->top_p, in->min_p,
                          in->top_k,   out->token};
    return iq__pass_run(p, IQ_OP_SAMPLE, 0, &s);
}

/* Row r's place in what is kept. */
static float *kept_at(const struct iq__pass *p, uint32_t r, uint32_t layer)
{
    const struct iq_model_config *c = &p->f->model->config;
    return p->f->kept + ((size_t)p->b->row[r].pos * (c->layers + 1) + layer) * c->hidden;
}

/* Before `layer`: sequences that begin here join; a pass of golden leaves its residual behind. */
static void meet(struct iq__pass *p, uint32_t layer)
{
    struct iq_forward *f = p->f;
    const struct iq_batch *b = p->b;
    size_t hidden = f->model->config.hidden;
    if (!f->kept) return;
    for (uint32_t r = 0; !b->enter && r < b->rows; r++)
        memcpy(kept_at(p, r, layer), f->res[0] + r * hidden, hidden * sizeof *f->kept);
    for (; b->enter && p->seqs < b->seqs && b->enter[p->seqs].start == layer + 1; p->seqs++) {
        for (uint32_t i = 0; i < b->seq[p->seqs].rows; i++, p->rows++)
            memcpy(f->res[0] + p->rows * hidden, kept_at(p, p->rows, layer), hidden * sizeof *f->kept);
        p->known = p->rows;
    }
}

/* The rows that begin with their token. */
static void enter(struct iq__pass *p)
{
    const struct iq_batch *b = p->b;
    if (!b->enter) return;
    p->rows = p->seqs = 0;
    for (; p->seqs < b->seqs && b->enter[p->seqs].start == IQ_START_EMBED; p->seqs++)
        p->rows += b->seq[p->seqs].rows;
    p->known = p->rows;
}

int iq__forward_walk(struct iq_forward *f, const struct iq__walk *w, struct iq_err *err)
{
    const struct iq_model *m = f->model;
    const struct iq_batch *b = w->batch;
    bool there = f->exec.cuda && !iq_cuda_step_planning(f->exec.cuda);
    struct iq__pass p = {.f = f,
                         .b = b,
                         .w = w,
                         .rows = w->rows,
                         .known = b->rows,
                         .row = b->row,
                         .seq = there ? f->op_in.seq : b->seq,
                         .seqs = there ? w->seqs : b->seqs,
                         .layer = IQ_NO_LAYER,
                         .err = err};
    enter(&p);
    struct iq_embed e = {p.rows, f->act, f->op_in.ids, &m->embed, f->res[0], m->config.hidden};
    if (p.rows) IQ_TRY(iq__pass_run(&p, IQ_OP_EMBED, 0, &e));
    for (p.layer = 0; p.layer < m->config.layers; p.layer++) {
        meet(&p, p.layer);
        if (!p.rows) continue;
        IQ_TRY(attention_block(&p));
        IQ_TRY(ffn_block(&p));
    }
    meet(&p, m->config.layers);
    iq_slots_ride_head(f->slots, true);
    int status = b->predicts ? head(&p) : IQ_OK;
    iq_slots_ride_head(f->slots, false);
    return status;
}

/* ---- a step ---- */

/* Rows up to the captured size, which nobody reads. */
static void pad(struct iq_forward *f, struct iq__walk *w)
{
    const struct iq_batch *b = w->batch;
    struct iq_inputs *in = &f->in;
    w->padded = f->padded && b->step.captured >= b->rows && b->predicts == b->rows;
    if (!w->padded) return;
    w->rows = w->seqs = w->predicts = b->step.captured;
    for (uint32_t r = b->rows; r < w->rows; r++) {
        in->ids[r] = in->pos[r] = in->predict_pos[r] = in->top_k[r] = 0;
        in->temperature[r] = in->min_p[r] = 0;
        in->top_p[r] = 1;
        in->seed[r] = 0;
    }
}

/* What the ops are told of the rows, and of those that predict. */
static void tell(struct iq_forward *f, struct iq__walk *w)
{
    const struct iq_batch *b = w->batch;
    struct iq_inputs *in = &f->in;
    memcpy(in->ids, b->ids, b->rows * sizeof *in->ids);
    for (uint32_t r = 0; r < b->rows; r++) in->pos[r] = b->row[r].pool * f->model->positions + b->row[r].pos;
    for (uint32_t i = 0; i < b->predicts; i++) {
        const struct iq_row *row = &b->row[b->predict[i]];
        f->predict_row[i] = *row;
        in->predict_pos[i] = row->pos;
        in->temperature[i] = row->temperature;
        in->top_p[i] = row->top_p;
        in->min_p[i] = row->min_p;
        in->top_k[i] =
            row->top_k < f->k ? row->top_k : f->k; /* k is smaller only where it is the vocabulary */
        in->seed[i] = row->seed;
        w->temper |= row->temperature != 0 && row->temperature != 1;
    }
    w->mask = b->allow != NULL;
    f->masked = w->mask;
    f->tempered = w->temper;
}

int iq_forward_run(struct iq_forward *f, const struct iq_batch *b, struct iq_err *err)
{
    struct iq__walk w = {.batch = b, .rows = b->rows, .seqs = b->seqs, .predicts = b->predicts};
    tell(f, &w);
    pad(f, &w);
    return f->exec.cuda ? iq__forward_on_device(f, &w, err) : iq__forward_walk(f, &w, err);
}
