#include "tests/golden/synth.h"

#include "kernels/base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct synth SYNTH_SMALL = {
    .layers = 2, .requests = 5, .prompt = 6, .generate = 40, .group = 3, .seed = 11, .label = "small"};

enum { WIDTH = 8, PER_LAYER = 8, LAYERS_MAX = 40 };

static void node_add(struct iq_node *t, uint32_t *n, const char *op, const char *kind, uint32_t layer,
                     uint16_t flags, int a, int b)
{
    struct iq_node *x = &t[(*n)++];
    memset(x, 0, sizeof *x);
    snprintf(x->op, sizeof x->op, "%s", op);
    snprintf(x->kind, sizeof x->kind, "%s", kind);
    snprintf(x->point, sizeof x->point, "y");
    x->layer = (uint16_t)layer;
    x->rank = IQ_WHOLE;
    x->flags = flags;
    if (a >= 0) x->input[x->inputs++] = (uint16_t)a;
    if (b >= 0) x->input[x->inputs++] = (uint16_t)b;
    x->width = WIDTH;
}

struct iq_node *synth_nodes(const struct synth *s, uint32_t *n)
{
    struct iq_node *t = calloc(s->layers * PER_LAYER + 8, sizeof *t);
    *n = 0;
    node_add(t, n, "embed", "embed", IQ_NO_LAYER, IQ_NODE_CHAIN, -1, -1);
    int x = 0;
    for (uint32_t l = 0; l < s->layers; l++) {
        int base = (int)*n;
        node_add(t, n, "attn_norm", "norm", l, 0, x, -1);
        node_add(t, n, "q", "matmul", l, 0, base, -1);
        node_add(t, n, "k", "matmul", l, IQ_NODE_CHAIN | IQ_NODE_KV, base, -1);
        node_add(t, n, "v", "matmul", l, IQ_NODE_CHAIN | IQ_NODE_KV, base, -1);
        node_add(t, n, "attn", "attention", l, IQ_NODE_READS_KV, base + 1, -1);
        node_add(t, n, "attn_out", "matmul", l, 0, base + 4, -1);
        node_add(t, n, "ffn", "matmul", l, 0, base + 5, -1);
        node_add(t, n, "resid", "add", l, IQ_NODE_CHAIN, x, base + 6);
        x = base + 7;
    }
    int f = (int)*n;
    node_add(t, n, "final_norm", "norm", IQ_NO_LAYER, IQ_NODE_LOGITS, x, -1);
    node_add(t, n, "lm_head", "matmul", IQ_NO_LAYER, IQ_NODE_LOGITS, f, -1);
    t[*n - 1].width = SYNTH_VOCAB;
    node_add(t, n, "temper", "temper", IQ_NO_LAYER, IQ_NODE_LOGITS, f + 1, -1);
    node_add(t, n, "topk", "topk", IQ_NO_LAYER, IQ_NODE_LOGITS, f + 2, -1);
    node_add(t, n, "sample", "sample", IQ_NO_LAYER, IQ_NODE_LOGITS, f + 2, f + 3);
    return t;
}

char *synth_manifest(const struct synth *s)
{
    char *out = malloc(4096);
    snprintf(out, 4096,
             "{\"label\":\"%s\",\"contract\":\"c1\",\"model\":{\"sha256\":\"ab\",\"packed\":\"cd\"},"
             "\"variants\":{\"topk\":\"exact\","
             "\"matmul\":\"portable\"},\"seed\":%llu%s}",
             s->label ? s->label : "run", (unsigned long long)s->seed, s->extra ? s->extra : "");
    return out;
}

struct live {
    uint32_t request, pos, ids[4096], n_ids;
    struct iq_digest kv[LAYERS_MAX], chain;
};
struct sim {
    const struct synth *s;
    const struct iq_sink *sink;
    struct iq_node *nodes;
    uint32_t n;
    struct iq_digest *d, *body;
};

static uint32_t token_of(const struct synth *s, uint32_t request, uint32_t pos, uint64_t history)
{
    uint64_t key = s->seed + 977 * (s->share && pos < s->prompt ? 0 : request + 1);
    return (uint32_t)(iq_draw(key ^ history, pos, IQ_DRAW_DATA) % SYNTH_VOCAB);
}

static int strike_at(const struct sim *m, uint32_t i, const struct live *q, const struct iq_position *p)
{
    if (!m->s->strike) return 0;
    struct synth_site site = {
        &m->nodes[i],         i, q->request, q->pos, p->batch, p->step, p->tokens, p->state == IQ_CELL_REUSED,
        q->pos < m->s->prompt};
    return m->s->strike(m->s->ctx, &site);
}

static void position_cells(struct sim *m, struct live *q, struct iq_position *p, bool *flip)
{
    struct iq_digest in[8];
    size_t nb = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        const struct iq_node *x = &m->nodes[i];
        if ((x->flags & IQ_NODE_LOGITS) && !p->has_logits) continue;
        size_t k = 0;
        in[k++] = (struct iq_digest){m->s->seed, i};
        for (int j = 0; j < x->inputs; j++) in[k++] = m->d[x->input[j]];
        if (!x->inputs) in[k++] = (struct iq_digest){p->token, 1};
        if (x->flags & IQ_NODE_READS_KV) in[k++] = q->kv[x->layer];
        int hit = strike_at(m, i, q, p);
        if (hit & STRIKE) in[k++] = (struct iq_digest){0xbad, hit & ECHO ? 1 : q->pos};
        if (hit & FLIP) *flip = true;
        m->d[i] = iq_digest_list(in, k);
        if (x->flags & IQ_NODE_KV)
            q->kv[x->layer] = iq_digest_list((struct iq_digest[]){q->kv[x->layer], m->d[i]}, 2);
        if ((x->flags & IQ_NODE_CHAIN) && !(x->flags & IQ_NODE_LOGITS)) m->body[nb++] = m->d[i];
    }
    p->body = iq_digest_list(m->body, nb);
}

static int rows_emit(struct sim *m, const struct iq_position *p)
{
    for (uint32_t i = 0; m->sink->row && i < m->n; i++) {
        if ((m->nodes[i].flags & IQ_NODE_LOGITS) && !p->has_logits) continue;
        struct iq_cell c = {p->request, p->pos, p->attempt, (uint16_t)i, p->state, 0};
        float row[SYNTH_VOCAB];
        uint32_t w = m->nodes[i].width;
        if (m->s->contents) {
            for (uint32_t j = 0; j < w; j++) row[j] = (float)((m->d[i].lo >> j % 32) & 0xffff);
            m->d[i] = iq_digest_row(row, w, 4);
        }
        int rc =
            m->sink->row(m->sink->self, &c, m->d[i], m->s->contents ? row : NULL, m->s->contents ? 4 * w : 0);
        if (rc) return rc;
    }
    return IQ_OK;
}

static void logits_fill(struct sim *m, const struct live *q, struct iq_position *p, bool flip)
{
    uint64_t history = 0;
    for (uint32_t i = m->s->prompt; i <= q->pos && i < q->n_ids; i++)
        history = iq_mix64(history + q->ids[i] + 1);
    p->logits = m->d[m->n - 4];
    p->candidates = m->d[m->n - 2];
    p->next = token_of(m->s, q->request, q->pos + 1, history);
    if (flip) p->next = (p->next + 1) % SYNTH_VOCAB;
    p->margin = m->s->margin ? m->s->margin(m->s->ctx, q->request, q->pos) : 1.0f;
    for (int i = 0; i < IQ_TOP; i++) {
        p->top_id[i] = (p->next + (uint32_t)i) % SYNTH_VOCAB;
        p->top_logit[i] = 10.0f - (float)i * p->margin;
    }
    if (m->s->nan_at > 0 && (uint32_t)m->s->nan_at == q->pos) p->top_logit[0] = NAN;
    m->d[m->n - 1] = iq_digest_bytes(&p->next, 4);
}

static int position_run(struct sim *m, struct live *q, uint32_t group)
{
    const struct synth *s = m->s;
    uint32_t reuse = s->reuse ? s->reuse(s->ctx, q->request) : 0;
    bool flip = false;
    struct iq_position p = {.request = q->request,
                            .pos = q->pos,
                            .token = q->ids[q->pos],
                            .state = q->pos < reuse ? IQ_CELL_REUSED : IQ_CELL_COMPUTED};
    p.has_logits = q->pos + 1 >= s->prompt;
    p.batch = (uint16_t)(s->batch ? s->batch(s->ctx, q->request, q->pos) : group);
    p.step = q->pos;
    p.tokens = p.batch;
    position_cells(m, q, &p, &flip);
    if (p.has_logits) logits_fill(m, q, &p, flip);
    int rc = rows_emit(m, &p);
    if (rc) return rc;
    if (s->contents) { /* the rows' digests were made from bytes */
        size_t nb = 0;
        for (uint32_t i = 0; i < m->n; i++)
            if ((m->nodes[i].flags & IQ_NODE_CHAIN) && !(m->nodes[i].flags & IQ_NODE_LOGITS))
                m->body[nb++] = m->d[i];
        p.body = iq_digest_list(m->body, nb);
        if (p.has_logits) p.logits = m->d[m->n - 4], p.candidates = m->d[m->n - 2];
    }
    q->chain = iq_digest_chain(q->chain, p.token, iq_position_digest(&p));
    if (p.has_logits) q->ids[q->n_ids++] = p.next;
    q->pos++;
    return m->sink->position ? m->sink->position(m->sink->self, &p) : IQ_OK;
}

static int request_end(struct sim *m, const struct live *q)
{
    char id[32], text[64], params[96];
    snprintf(id, sizeof id, "q%u", q->request);
    snprintf(text, sizeof text, "answer %u", q->ids[m->s->prompt]);
    snprintf(params, sizeof params, "{\"max_tokens\":%u,\"expect\":\"answer %u\"}", m->s->generate,
             token_of(m->s, q->request, m->s->prompt, 0));
    struct iq_request_end e = {q->request, id,       params,       text,    "length",
                               q->ids,     q->n_ids, m->s->prompt, q->chain};
    return m->sink->done ? m->sink->done(m->sink->self, &e) : IQ_OK;
}

static int group_run(struct sim *m, struct live *live, uint32_t first, uint32_t count)
{
    const struct synth *s = m->s;
    uint32_t total = s->prompt + s->generate - 1;
    memset(live, 0, count * sizeof *live);
    for (uint32_t i = 0; i < count; i++) {
        live[i].request = first + i;
        for (uint32_t p = 0; p < s->prompt; p++) live[i].ids[live[i].n_ids++] = token_of(s, first + i, p, 0);
    }
    for (uint32_t p = 0; p < total; p++)
        for (uint32_t i = 0; i < count; i++) {
            if (s->skip && s->skip(s->ctx, first + i)) continue;
            int rc = position_run(m, &live[i], count);
            if (!rc && p + 1 == total) rc = request_end(m, &live[i]);
            if (rc) return rc;
        }
    return IQ_OK;
}

int synth_run(const struct synth *s, const struct iq_sink *sink)
{
    struct sim m = {.s = s, .sink = sink};
    uint32_t group = s->group ? s->group : 1;
    m.nodes = synth_nodes(s, &m.n);
    m.d = calloc(m.n, sizeof *m.d);
    m.body = calloc(m.n, sizeof *m.body);
    struct live *live = calloc(group, sizeof *live);
    int rc = IQ_OK;
    for (uint32_t r = 0; !rc && r < s->requests; r += group)
        rc = group_run(&m, live, s->first_request + r, s->requests - r < group ? s->requests - r : group);
    free(m.nodes);
    free(m.d);
    free(m.body);
    free(live);
    return rc;
}

int synth_record(const struct synth *s, struct iq_store *store, enum iq_level level, enum iq_write_mode mode,
                 const char *name, struct iq_err *err)
{
    uint32_t n;
    struct iq_node *nodes = synth_nodes(s, &n);
    char *manifest = synth_manifest(s);
    struct iq_writer *w;
    struct iq_write_spec spec = {
        .manifest = manifest, .nodes = nodes, .n_nodes = n, .level = level, .mode = mode, .name = name};
    int rc = iq_store_begin(store, &spec, &w, err);
    free(nodes);
    free(manifest);
    if (rc) return rc;
    struct iq_sink sink = iq_writer_sink(w);
    rc = synth_run(s, &sink);
    if (rc) {
        if (err) *err = *iq_writer_error(w);
        iq_writer_abort(w);
        return rc;
    }
    rc = iq_writer_finish(w, IQ_RUN_COMPLETE, NULL, err);
    if (rc) iq_writer_abort(w);
    return rc;
}
