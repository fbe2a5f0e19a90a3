#define _GNU_SOURCE
#include "engine/forward.h"

#include "kernels/ops/embed.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/reduce.h"
#include "kernels/ops/rmsnorm.h"
#include "kernels/ops/rope.h"
#include "kernels/ops/sampling.h"
#include "kernels/ops/vector.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>

/* ---- buffers: one demand-zero map, cut up ---- */

static uint32_t max_u32(uint32_t a, uint32_t b) { return a > b ? a : b; }

static const size_t HUGE_FROM = 32 << 20; /* bytes of activations */

static uint32_t most_pieces(const struct iq_model *m)
{
    uint32_t attn = 0, ffn = 0;
    for (uint32_t r = 0; r < m->tp; r++) {
        attn += m->attn[r].nodes;
        ffn += m->ffn[r].nodes;
    }
    return max_u32(attn, ffn);
}

/* The next `count` elements of the map, 64-byte aligned; with base NULL only the room is counted. */
static void *cut(char *base, size_t *at, size_t count, size_t size)
{
    void *p = base ? base + *at : NULL;
    *at += (count * size + 63) / 64 * 64;
    return p;
}

static size_t lay_out(struct iq_forward *f, char *base)
{
    const struct iq_model_config *c = &f->model->config;
    size_t at = 0, rows = f->max_rows, preds = f->max_predicts, hidden = c->hidden, vocab = c->vocab;
    uint32_t qw = c->heads * c->head_dim, kw = c->kv_heads * c->head_dim;
    f->ld_h = max_u32(c->hidden, qw);
    f->ld_wide = max_u32(qw + 2 * kw, 2 * c->ffn);
    f->ld_mid = max_u32(qw + kw, c->ffn);
    for (int i = 0; i < 2; i++) f->res[i] = cut(base, &at, rows * hidden, sizeof(float));
    f->h = cut(base, &at, rows * f->ld_h, sizeof(float));
    f->wide = cut(base, &at, rows * f->ld_wide, sizeof(float));
    f->mid = cut(base, &at, rows * f->ld_mid, sizeof(float));
    f->part = cut(base, &at, most_pieces(f->model) * rows * hidden, sizeof(float));
    f->sum = cut(base, &at, rows * max_u32(c->hidden, kw), sizeof(float));
    f->pos = cut(base, &at, rows, sizeof(uint32_t));
    f->head_in = cut(base, &at, 2 * preds * hidden, sizeof(float));
    f->logits = cut(base, &at, preds * vocab, sizeof(float));
    f->tempered = cut(base, &at, preds * vocab, sizeof(float));
    f->values = cut(base, &at, preds * f->k, sizeof(float));
    f->ids = cut(base, &at, preds * f->k, sizeof(uint32_t));
    float **one[] = {&f->temperature, &f->top_p, &f->min_p};
    for (size_t i = 0; i < 3; i++) *one[i] = cut(base, &at, preds, sizeof(float));
    uint32_t **word[] = {&f->token, &f->predict_pos, &f->top_k};
    for (size_t i = 0; i < 3; i++) *word[i] = cut(base, &at, preds, sizeof(uint32_t));
    f->seed = cut(base, &at, preds, sizeof(uint64_t));
    f->predict_row = cut(base, &at, preds, sizeof(struct iq_row));
    return at;
}

int iq_forward_open(struct iq_forward *f, struct iq_err *err)
{
    f->map_bytes = lay_out(f, NULL);
    f->map =
        mmap(NULL, f->map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f->map == MAP_FAILED) {
        f->map = NULL;
        return iq_fail(err, IQ_MEMORY,
                       "no memory for the activations of %u rows (%zu MiB); use a smaller --chunk or --batch",
                       f->max_rows, f->map_bytes >> 20);
    }
    /* For few rows a huge page would hold mostly what is not used; measured: 8 MB of 18. */
    if (f->map_bytes >= HUGE_FROM) madvise(f->map, f->map_bytes, MADV_HUGEPAGE);
    lay_out(f, f->map);
    return IQ_OK;
}

void iq_forward_close(struct iq_forward *f)
{
    if (f->map) munmap(f->map, f->map_bytes);
    f->map = NULL;
    iq_exec_close(&f->exec);
}

/* ---- a pass ---- */

struct pass {
    struct iq_forward *f;
    const struct iq_batch *b;
    uint32_t layer;
    uint32_t rows;                      /* of the ops that follow */
    const struct iq_row *row;           /* (rows) */
    enum iq_op_id prev_topk, next_head; /* the head's neighbours in this step: with temper, or without */
    struct iq_err *err;
};

static struct iq_site site_of(const struct pass *p, enum iq_op_id op, uint32_t rank)
{
    const struct iq_graph *g = p->f->graph;
    struct iq_site s = {.op = (uint16_t)op,
                        .layer = (uint16_t)p->layer,
                        .rank = (uint16_t)rank,
                        .prev_op = (uint16_t)(op == IQ_OP_TOPK ? p->prev_topk : g->prev[op]),
                        .next_op = (uint16_t)(op == IQ_OP_LM_HEAD ? p->next_head : g->next[op]),
                        .step = &p->b->step,
                        .row = p->row,
                        .rows = p->rows,
                        .slot = iq_slots_at(p->f->slots, op, p->layer, rank)};
    if (op == IQ_OP_TEMPER) {
        s.prev_op = IQ_OP_LM_HEAD;
        s.next_op = IQ_OP_TOPK;
    }
    return s;
}

static int run(const struct pass *p, enum iq_op_id op, uint32_t rank, const void *args)
{
    struct iq_site site = site_of(p, op, rank);
    int status = iq_dispatch(&p->f->exec, &site, args);
    if (status == IQ_OK) return IQ_OK;
    if (op == IQ_OP_SAMPLE && status == IQ_NOT_FOUND)
        return iq_fail(p->err, IQ_CRASHED, "step %llu: no token can be sampled: a row's logits are all NaN",
                       (unsigned long long)p->b->step.step);
    if (p->layer == IQ_NO_LAYER)
        return iq_fail(p->err, status, "step %llu: %s failed: %s", (unsigned long long)p->b->step.step,
                       iq_op_name(op), iq_status_text(status));
    return iq_fail(p->err, status, "step %llu: %s of layer %u, rank %u failed: %s",
                   (unsigned long long)p->b->step.step, iq_op_name(op), p->layer, rank,
                   iq_status_text(status));
}

/* Digest of what several ranks wrote together; with one rank its slot has done it. */
static int tap_whole(const struct pass *p, enum iq_op_id op, unsigned point, const float *y, size_t ld,
                     size_t n)
{
    const struct iq_graph *g = p->f->graph;
    uint16_t node = (uint16_t)(iq_graph_node(g, op, p->layer) + point);
    struct iq_site site = site_of(p, op, 0);
    if (p->f->model->tp == 1 || !p->b->step.tracing) return IQ_OK;
    return iq_tap_whole(&site, node, y, ld, n);
}

static int norm(const struct pass *p, enum iq_op_id op, const float *x, size_t ldx, const float *weight,
                uint32_t groups, uint32_t n, float *y, size_t ldy)
{
    struct iq_rmsnorm a = {.rows = p->rows,
                           .groups = groups,
                           .n = n,
                           .act = p->f->act,
                           .eps = (float)p->f->model->config.norm_eps,
                           .x = x,
                           .weight = weight,
                           .y = y,
                           .ldx = ldx,
                           .ldy = ldy};
    return run(p, op, 0, &a);
}

static int attention(const struct pass *p, const float *q, size_t ldq)
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
                                 .seq = p->b->seq,
                                 .seqs = p->b->seqs};
        IQ_TRY(run(p, IQ_OP_ATTENTION, r, &a));
    }
    return tap_whole(p, IQ_OP_ATTENTION, 0, f->h, f->ld_h, (size_t)c->heads * c->head_dim);
}

/* A row-parallel product over every rank's tree nodes, and the reduction that finishes the tree. */
static int reduced(const struct pass *p, enum iq_op_id product, enum iq_op_id reduce, const float *x,
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
        uint32_t x_at = s->unit * (attn ? m->attn_unit : IQ_UNIT);
        for (uint32_t i = 0; i < s->nodes; i++, n++) {
            float *y = f->part + (size_t)n * f->max_rows * hidden;
            a.part[i] = (struct iq_matmul_part){.w = &matrix[i], .y = y, .ldy = hidden, .x_at = x_at};
            piece[n] = (struct iq_piece){s->node[i].unit, s->node[i].units, r, y, hidden};
            x_at += matrix[i].k;
        }
        IQ_TRY(run(p, product, r, &a));
    }
    struct iq_all_reduce a = {.rows = p->rows,
                              .n = hidden,
                              .units = attn ? m->attn_units : m->ffn_units,
                              .pieces = n,
                              .act = f->act,
                              .piece = piece,
                              .y = f->sum,
                              .ldy = hidden};
    return run(p, reduce, 0, &a);
}

static int add(const struct pass *p, enum iq_op_id op, int from)
{
    struct iq_forward *f = p->f;
    size_t ld = f->model->config.hidden;
    struct iq_add a = {.rows = p->rows,
                       .n = (uint32_t)ld,
                       .act = f->act,
                       .a = f->res[from],
                       .b = f->sum,
                       .y = f->res[!from],
                       .lda = ld,
                       .ldb = ld,
                       .ldy = ld};
    return run(p, op, 0, &a);
}

static int qkv(const struct pass *p)
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
        IQ_TRY(run(p, IQ_OP_QKV, r, &a));
    }
    IQ_TRY(tap_whole(p, IQ_OP_QKV, 0, f->wide, f->ld_wide, qw));
    IQ_TRY(tap_whole(p, IQ_OP_QKV, 1, f->wide + qw, f->ld_wide, kw));
    return tap_whole(p, IQ_OP_QKV, 2, f->wide + qw + kw, f->ld_wide, kw);
}

static int attention_block(const struct pass *p)
{
    struct iq_forward *f = p->f;
    const struct iq_model *m = f->model;
    const struct iq_model_config *c = &m->config;
    const struct iq_layer_weights *w = &m->layer[p->layer];
    uint32_t d = c->head_dim, qw = c->heads * d, kw = c->kv_heads * d;
    IQ_TRY(norm(p, IQ_OP_ATTN_NORM, f->res[0], c->hidden, w->attn_norm, 1, c->hidden, f->h, f->ld_h));
    IQ_TRY(qkv(p));
    const float *q = f->wide, *k = f->wide + qw, *v = f->wide + qw + kw;
    size_t ldq = f->ld_wide, ldk = f->ld_wide;
    if (c->qk_norm) { /* h is free again: the projections have read it */
        float *qn = f->h, *kn = f->sum;
        IQ_TRY(norm(p, IQ_OP_Q_NORM, q, ldq, w->q_norm, c->heads, d, qn, f->ld_h));
        IQ_TRY(norm(p, IQ_OP_K_NORM, k, ldk, w->k_norm, c->kv_heads, d, kn, kw));
        q = qn, ldq = f->ld_h, k = kn, ldk = kw;
    }
    struct iq_rope a = {
        .rows = p->rows,
        .dim = d,
        .rotary = d,
        .interleaved = c->rope.pairing == IQ_PAIR_NEIGHBOURS,
        .act = f->act,
        .pos = f->pos,
        .table = m->rotary,
        .part = {{c->heads, q, f->mid, ldq, f->ld_mid}, {c->kv_heads, k, f->mid + qw, ldk, f->ld_mid}}};
    IQ_TRY(run(p, IQ_OP_ROPE, 0, &a));
    struct iq_kv_write kv = {.rows = p->rows,
                             .kv_heads = c->kv_heads,
                             .kv_head0 = 0,
                             .k = f->mid + qw,
                             .v = v,
                             .ldk = f->ld_mid,
                             .ldv = f->ld_wide,
                             .cache = &f->kv->layer[p->layer],
                             .seq = p->b->seq,
                             .seqs = p->b->seqs};
    IQ_TRY(run(p, IQ_OP_KV_WRITE, 0, &kv));
    IQ_TRY(attention(p, f->mid, f->ld_mid));
    IQ_TRY(reduced(p, IQ_OP_ATTN_OUT, IQ_OP_ATTN_REDUCE, f->h, f->ld_h));
    return add(p, IQ_OP_ATTN_ADD, 0);
}

static int ffn_block(const struct pass *p)
{
    struct iq_forward *f = p->f;
    const struct iq_model *m = f->model;
    const struct iq_model_config *c = &m->config;
    const struct iq_layer_weights *w = &m->layer[p->layer];
    IQ_TRY(norm(p, IQ_OP_FFN_NORM, f->res[1], c->hidden, w->ffn_norm, 1, c->hidden, f->h, f->ld_h));
    for (uint32_t r = 0; r < m->tp; r++) {
        size_t at = (size_t)m->ffn[r].unit * IQ_UNIT;
        struct iq_matmul a = {.rows = p->rows,
                              .parts = 2,
                              .act = f->act,
                              .x = f->h,
                              .ldx = f->ld_h,
                              .part = {{&w->rank[r].gate, NULL, f->wide + at, f->ld_wide, 0},
                                       {&w->rank[r].up, NULL, f->wide + c->ffn + at, f->ld_wide, 0}}};
        IQ_TRY(run(p, IQ_OP_GATE_UP, r, &a));
    }
    IQ_TRY(tap_whole(p, IQ_OP_GATE_UP, 0, f->wide, f->ld_wide, c->ffn));
    IQ_TRY(tap_whole(p, IQ_OP_GATE_UP, 1, f->wide + c->ffn, f->ld_wide, c->ffn));
    struct iq_swiglu a = {.rows = p->rows,
                          .n = c->ffn,
                          .act = f->act,
                          .gate = f->wide,
                          .up = f->wide + c->ffn,
                          .y = f->mid,
                          .ldg = f->ld_wide,
                          .ldu = f->ld_wide,
                          .ldy = f->ld_mid};
    IQ_TRY(run(p, IQ_OP_ACT, 0, &a));
    IQ_TRY(reduced(p, IQ_OP_DOWN, IQ_OP_FFN_REDUCE, f->mid, f->ld_mid));
    return add(p, IQ_OP_FFN_ADD, 1);
}

/* The rows that predict, side by side, with their sampling parameters. */
static bool gather(struct pass *p)
{
    struct iq_forward *f = p->f;
    const struct iq_batch *b = p->b;
    size_t hidden = f->model->config.hidden;
    bool temper = false;
    for (uint32_t i = 0; i < b->predicts; i++) {
        const struct iq_row *row = &b->row[b->predict[i]];
        memcpy(f->head_in + i * hidden, f->res[0] + b->predict[i] * hidden, hidden * sizeof(float));
        f->predict_row[i] = *row;
        f->predict_pos[i] = row->pos;
        f->temperature[i] = row->temperature;
        f->top_p[i] = row->top_p;
        f->min_p[i] = row->min_p;
        f->top_k[i] =
            row->top_k < f->k ? row->top_k : f->k; /* k is smaller only where it is the vocabulary */
        f->seed[i] = row->seed;
        temper |= row->temperature != 0 && row->temperature != 1;
    }
    return temper;
}

static int head(struct pass *p)
{
    struct iq_forward *f = p->f;
    const struct iq_model *m = f->model;
    uint32_t hidden = m->config.hidden, vocab = m->config.vocab, n = p->b->predicts;
    bool temper = gather(p);
    p->rows = n;
    p->row = f->predict_row;
    p->layer = IQ_NO_LAYER;
    p->prev_topk = temper ? IQ_OP_TEMPER : IQ_OP_LM_HEAD;
    p->next_head = temper ? IQ_OP_TEMPER : IQ_OP_TOPK;
    float *normed = f->head_in + (size_t)f->max_predicts * hidden;
    IQ_TRY(norm(p, IQ_OP_FINAL_NORM, f->head_in, hidden, m->final_norm, 1, hidden, normed, hidden));
    struct iq_matmul a = {.rows = n,
                          .parts = 1,
                          .act = IQ_ACT_F32,
                          .x = normed,
                          .ldx = hidden,
                          .part = {{&m->head, NULL, f->logits, vocab, 0}}};
    IQ_TRY(run(p, IQ_OP_LM_HEAD, 0, &a));
    f->final_logits = f->logits;
    if (temper) {
        struct iq_temper t = {n, vocab, f->logits, f->temperature, f->tempered, vocab, vocab};
        IQ_TRY(run(p, IQ_OP_TEMPER, 0, &t));
        f->final_logits = f->tempered;
    }
    struct iq_topk t = {n, vocab, f->k, m->tp, f->final_logits, vocab, f->ids, f->values};
    IQ_TRY(run(p, IQ_OP_TOPK, 0, &t));
    struct iq_sample s = {n,        vocab,     f->k,           f->final_logits, vocab,
                          f->ids,   f->values, f->predict_pos, f->seed,         f->temperature,
                          f->top_p, f->min_p,  f->top_k,       f->token};
    return run(p, IQ_OP_SAMPLE, 0, &s);
}

int iq_forward_run(struct iq_forward *f, const struct iq_batch *b, struct iq_err *err)
{
    const struct iq_model *m = f->model;
    struct pass p = {.f = f,
                     .b = b,
                     .rows = b->rows,
                     .row = b->row,
                     .layer = IQ_NO_LAYER,
                     .err = err,
                     .prev_topk = IQ_OP_LM_HEAD,
                     .next_head = IQ_OP_TOPK};
    for (uint32_t r = 0; r < b->rows; r++) f->pos[r] = b->row[r].pos;
    struct iq_embed e = {b->rows, f->act, b->ids, &m->embed, f->res[0], m->config.hidden};
    IQ_TRY(run(&p, IQ_OP_EMBED, 0, &e));
    for (p.layer = 0; p.layer < m->config.layers; p.layer++) {
        IQ_TRY(attention_block(&p));
        IQ_TRY(ffn_block(&p));
    }
    return b->predicts ? head(&p) : IQ_OK;
}
