/* Weights that change while an engine runs: an update in place, or a sleep and a wake-up. Part by part (what lies outside the
 * layers, then each layer) through the weights op, and digested from memory when it has run. */
#include "kernels/ops/weights.h"
#include "engine/engine_state.h"
#include "kernels/base/grow.h"

#include <stdlib.h>
#include <string.h>

/* ---- the pieces of a part, in one order ---- */

struct pieces {
    const struct iq_model *to, *from, *before; /* before NULL: zeros */
    struct iq_weights_piece *at;
    uint32_t n;
    size_t cap;
};

static int put(struct pieces *p, const void *to, const void *from, const void *before, size_t bytes,
               struct iq_err *err)
{
    if (!to || !bytes) return IQ_OK;
    IQ_TRY(iq_grow(&p->at, &p->cap, (size_t)p->n + 1, sizeof *p->at, err));
    p->at[p->n++] = (struct iq_weights_piece){(void *)(uintptr_t)to, from, p->before ? before : NULL, bytes};
    return IQ_OK;
}

static int matrix(struct pieces *p, const struct iq_matrix *to, const struct iq_matrix *from,
                  const struct iq_matrix *before, struct iq_err *err)
{
    return put(p, to->data, from->data, before->data, to->panels * to->panel_bytes, err);
}

/* The same members of the three structs. */
#define MATRIX(p, to, from, before, member)                                                                  \
    IQ_TRY(matrix(p, &(to)->member, &(from)->member, &(before)->member, err))
#define VECTOR(p, to, from, before, member, n)                                                               \
    IQ_TRY(put(p, (to)->member, (from)->member, (before)->member, (n) * sizeof(float), err))

static int outside(struct pieces *p, struct iq_err *err)
{
    const struct iq_model *b = p->before ? p->before : p->from;
    MATRIX(p, p->to, p->from, b, embed);
    if (!p->to->config.tied) MATRIX(p, p->to, p->from, b, head);
    VECTOR(p, p->to, p->from, b, final_norm, p->to->config.hidden);
    return IQ_OK;
}

static int rank_pieces(struct pieces *p, const struct iq_rank_weights *to, const struct iq_rank_weights *from,
                       const struct iq_rank_weights *before, struct iq_err *err)
{
    MATRIX(p, to, from, before, q);
    MATRIX(p, to, from, before, k);
    MATRIX(p, to, from, before, v);
    MATRIX(p, to, from, before, gate);
    MATRIX(p, to, from, before, up);
    for (int i = 0; i < IQ_SHARD_NODES; i++) {
        MATRIX(p, to, from, before, out[i]);
        MATRIX(p, to, from, before, down[i]);
    }
    return IQ_OK;
}

static int layer(struct pieces *p, uint32_t l, struct iq_err *err)
{
    const struct iq_model_config *c = &p->to->config;
    const struct iq_layer_weights *to = &p->to->layer[l], *from = &p->from->layer[l];
    const struct iq_layer_weights *before = p->before ? &p->before->layer[l] : from;
    for (uint32_t r = 0; r < p->to->tp; r++)
        IQ_TRY(rank_pieces(p, &to->rank[r], &from->rank[r], &before->rank[r], err));
    if (c->experts) MATRIX(p, to, from, before, experts.router);
    for (uint32_t e = 0; e < c->experts; e++) {
        MATRIX(p, to, from, before, experts.gate[e]);
        MATRIX(p, to, from, before, experts.up[e]);
        MATRIX(p, to, from, before, experts.down[e]);
    }
    VECTOR(p, to, from, before, attn_norm, c->hidden);
    VECTOR(p, to, from, before, ffn_norm, c->hidden);
    VECTOR(p, to, from, before, q_norm, c->head_dim);
    VECTOR(p, to, from, before, k_norm, c->head_dim);
    VECTOR(p, to, from, before, q_bias, c->heads * c->head_dim);
    VECTOR(p, to, from, before, k_bias, c->kv_heads * c->head_dim);
    VECTOR(p, to, from, before, v_bias, c->kv_heads * c->head_dim);
    return IQ_OK;
}

/* ---- changing them ---- */

static int run(struct iq_engine *e, uint16_t l, enum iq_weights_action action, const struct pieces *p,
               struct iq_err *err)
{
    static const struct iq_row nobody = {.phase = IQ_DECODE};
    struct iq_weights args = {.action = action, .version = e->step.weights, .pieces = p->n, .piece = p->at};
    struct iq_site site = {.op = IQ_OP_WEIGHTS,
                           .layer = l,
                           .prev_op = IQ_OP_NONE,
                           .next_op = IQ_OP_NONE,
                           .step = &e->step,
                           .row = &nobody,
                           .rows = 1,
                           .slot = iq_slots_at(e->slots, IQ_OP_WEIGHTS, l, 0)};
    int status = iq_dispatch(&e->forward.exec, &site, &args);
    return status == IQ_OK ? IQ_OK
                           : iq_fail(err, status, "step %llu: the weights could not be changed: %s",
                                     (unsigned long long)e->step.step, iq_status_text(status));
}

static int digest(const struct pieces *p, struct iq_digest *out, struct iq_err *err)
{
    struct iq_digest *d = calloc((size_t)p->n + 1, sizeof *d);
    if (!d) return iq_fail(err, IQ_MEMORY, "no memory for the digests of %u weights", p->n);
    for (uint32_t i = 0; i < p->n; i++) d[i] = iq_digest_bytes(p->at[i].to, p->at[i].bytes);
    *out = iq_digest_list(d, p->n);
    free(d);
    return IQ_OK;
}

/* Part 0 lies outside the layers; event NULL: it is only digested. */
static int part(struct iq_engine *e, uint32_t i, const struct iq_weights_event *event, struct iq_err *err)
{
    struct pieces p = {.to = &e->upload.model, .from = e->loaded};
    uint16_t l = i ? (uint16_t)(i - 1) : IQ_NO_LAYER;
    if (event && event->from) p.from = event->from, p.before = e->loaded;
    int status = i ? layer(&p, i - 1, err) : outside(&p, err);
    if (status == IQ_OK && event && !event->from) status = run(e, l, IQ_WEIGHTS_DROP, &p, err);
    if (status == IQ_OK && event) status = run(e, l, IQ_WEIGHTS_LOAD, &p, err);
    if (status == IQ_OK) status = digest(&p, &e->weights[i], err);
    free(p.at);
    return status;
}

static int parts(struct iq_engine *e, const struct iq_weights_event *event, struct iq_err *err)
{
    for (uint32_t i = 0; i <= e->model->config.layers; i++) IQ_TRY(part(e, i, event, err));
    return IQ_OK;
}

int iq__engine_weights_change(struct iq_engine *e, struct iq_err *err)
{
    e->schedule.hold = false;
    for (; e->event < e->config.events && e->stats.steps >= e->config.event[e->event].step; e->event++) {
        const struct iq_weights_event *event = &e->config.event[e->event];
        e->schedule.hold = !iq_schedule_drained(&e->schedule);
        if (e->schedule.hold) return IQ_OK;
        IQ_TRY(parts(e, event, err));
        e->stats.updates++;
        if (!event->from) continue;
        e->loaded = event->from;
        e->step.weights++;
        /* What is cached was computed by others: who waits gets an identity anew. */
        for (uint32_t s = 0; s < e->schedule.n; s++) e->schedule.seat[s].arrived = false;
    }
    return IQ_OK;
}

/* ---- opening ---- */

static bool same_shape(const struct iq_model *a, const struct iq_model *b)
{
    const struct iq_model_config *x = &a->config, *y = &b->config;
    const struct iq_matrix *p = &a->layer[0].rank[0].q, *q = &b->layer[0].rank[0].q;
    return x->layers == y->layers && x->hidden == y->hidden && x->ffn == y->ffn && x->heads == y->heads &&
           x->kv_heads == y->kv_heads && x->head_dim == y->head_dim && x->vocab == y->vocab &&
           x->experts == y->experts && x->tied == y->tied && x->qkv_bias == y->qkv_bias &&
           x->qk_norm == y->qk_norm && a->tp == b->tp && a->arena.used == b->arena.used &&
           p->format == q->format && iq_digest_equal(a->rotary_digest, b->rotary_digest);
}

int iq__engine_weights_open(struct iq_engine *e, struct iq_err *err)
{
    for (uint32_t i = 0; i < e->config.events; i++) {
        const struct iq_weights_event *event = &e->config.event[i];
        if (i && event->step < event[-1].step)
            return iq_fail(err, IQ_USAGE, "weights: step %u stands behind step %u", event->step,
                           event[-1].step);
        if (event->from && !same_shape(e->model, event->from))
            return iq_fail(
                err, IQ_MISMATCH,
                "weights: the model of step %u has another shape, weight format or rotary table; an update "
                "in place needs the same",
                event->step);
    }
    if (e->cuda)
        return iq_fail(err, IQ_UNSUPPORTED,
                       "weights that change are not built for --device %s; use --device cpu",
                       e->config.device);
    IQ_TRY(iq_upload_open(e->model, NULL, &e->upload, err));

    e->weights = calloc((size_t)e->model->config.layers + 1, sizeof *e->weights);
    if (!e->weights) return iq_fail(err, IQ_MEMORY, "no memory for the digests of the weights");
    return parts(e, NULL, err);
}
