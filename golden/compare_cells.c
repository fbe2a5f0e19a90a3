/* Rung 3: which op made the first wrong thing. */
#include "golden/compare_state.h"
#include "kernels/base/grow.h"

#include <stdlib.h>
#include <string.h>

enum { LAYERS = 65536, ATTEMPTS = 64 };

/* One position of both runs, and what is the same in it. */
struct pair {
    const struct iq_request_end *end;
    const struct iq_position *g, *s;
    const struct iq_digest *gd, *sd; /* cells; NULL: all equal */
    const uint8_t *gs, *ss;
    struct iq__place place;
    uint64_t prefix;
    bool predicts, body, logits, candidates, next; /* predicts: both do; the others: equal */
    bool again; /* a later attempt: its prediction is not the one that the position keeps */
};

static void name_copy(char *out, size_t cap, const char *in)
{
    size_t n = strnlen(in, cap - 1);
    memcpy(out, in, n);
    out[n] = 0;
}

/* ---- set-up ---- */

static int twin_find(const struct iq_trace *g, const struct iq_node *x, uint32_t hint)
{
    for (uint32_t k = 0; k < g->n_nodes; k++) {
        uint32_t i = (hint + k) % g->n_nodes; /* tables are nearly always equal */
        const struct iq_node *y = &g->nodes[i];
        if (y->layer == x->layer && y->rank == x->rank && !strcmp(y->op, x->op) &&
            !strcmp(y->point, x->point))
            return (int)i;
    }
    return -1;
}

/* lm_head, topk and sample are judged by the position's own digests, which every level has. */
static bool by_position(const struct iq__compare *c, uint32_t i)
{
    uint32_t op = c->op_of[i];
    return c->s->nodes[i].rank == IQ_WHOLE && (op == c->lm_head || op == c->topk || op == c->sample);
}

static const char *kind_of(const struct iq__compare *c, const char *op, const char *otherwise)
{
    for (uint32_t i = 0; i < c->s->n_nodes; i++)
        if (!strcmp(c->s->nodes[i].op, op)) return c->s->nodes[i].kind;
    return otherwise;
}

int iq__cells_open(struct iq__compare *c)
{
    uint32_t n = c->s->n_nodes;
    c->ops = c->g->level >= IQ_LEVEL_OPS && c->s->level >= IQ_LEVEL_OPS;
    c->twin = calloc(n, sizeof *c->twin);
    c->op_of = calloc(n, sizeof *c->op_of);
    c->equal = calloc(n, 1);
    c->verdict = calloc(n, 1);
    c->kv_dirty = calloc(LAYERS, 1);
    if (!c->twin || !c->op_of || !c->equal || !c->verdict || !c->kv_dirty)
        return iq_fail(c->err, IQ_MEMORY, "no memory to compare %u nodes", n);
    IQ_TRY(iq__stats_op(&c->stats, "lm_head", kind_of(c, "lm_head", "logits"), &c->lm_head, c->err));
    IQ_TRY(iq__stats_op(&c->stats, "topk", kind_of(c, "topk", "topk"), &c->topk, c->err));
    IQ_TRY(iq__stats_op(&c->stats, "sample", kind_of(c, "sample", "sample"), &c->sample, c->err));
    IQ_TRY(iq__stats_op(&c->stats, "prefix", "control", &c->prefix, c->err));
    IQ_TRY(iq__stats_op(&c->stats, "token", "control", &c->token, c->err));
    IQ_TRY(iq__stats_op(&c->stats, "body", "unknown", &c->body, c->err));
    IQ_TRY(iq__stats_op(&c->stats, "assemble", "control", &c->assemble, c->err));
    IQ_TRY(iq__stats_op(&c->stats, "place", "control", &c->place, c->err));
    for (uint32_t i = 0; i < n; i++) {
        const struct iq_node *x = &c->s->nodes[i];
        if ((c->twin[i] = twin_find(c->g, x, i)) >= 0 && !strcmp(x->op, "lm_head") && x->rank == IQ_WHOLE)
            c->vocab = x->width;
        IQ_TRY(iq__stats_op(&c->stats, x->op, x->kind, &c->op_of[i], c->err));
        if (c->ops && c->twin[i] >= 0 && !(x->flags & IQ_NODE_CONTROL))
            c->stats.op[c->op_of[i]].cells[(x->flags & IQ_NODE_LOGITS) != 0]++;
    }
    if (!c->ops) {
        c->stats.op[c->lm_head].cells[1]++;
        c->stats.op[c->topk].cells[1]++;
        c->stats.op[c->sample].cells[1]++;
    }
    c->stats.op[c->token].cells[0]++;
    c->stats.op[c->body].cells[0] += !c->ops;
    return IQ_OK;
}

void iq__cells_close(struct iq__compare *c)
{
    free(c->twin);
    free(c->op_of);
    free(c->equal);
    free(c->verdict);
    free(c->kv_dirty);
    free(c->hit);
    free(c->computed);
    iq__stats_free(&c->stats);
}

/* ---- guilt ---- */

static struct iq_guilty site_of(const struct pair *p, uint32_t node, uint16_t layer, uint16_t rank)
{
    struct iq_guilty s = {.fault = -1,
                          .positions = 1,
                          .request = p->s->request,
                          .pos = p->s->pos,
                          .step = p->s->step,
                          .tokens = p->s->tokens,
                          .batch = p->s->batch,
                          .node = (uint16_t)node,
                          .first_layer = layer,
                          .rank = rank};
    name_copy(s.request_id, sizeof s.request_id, p->end->id);
    return s;
}

static uint64_t order_of(const struct iq_guilty *s) { return (uint64_t)s->step << 16 | s->node; }

/* `evaluated` cells of one op at this position, one of them guilty or none. */
static int judge(struct iq__compare *c, const struct pair *p, uint32_t op, bool guilty, uint32_t node,
                 uint16_t layer, uint16_t rank)
{
    IQ_TRY(iq__stats_add(&c->stats, op, &p->place, guilty, c->err));
    if (!guilty) return IQ_OK;
    struct iq__op *o = &c->stats.op[op];
    if (!o->layer && !(o->layer = calloc(LAYERS / 8, 1)))
        return iq_fail(c->err, IQ_MEMORY, "no memory to list layers");
    o->layer[layer / 8] |= (uint8_t)(1u << layer % 8);
    if (!o->first.positions || (uint64_t)p->s->step << 16 < order_of(&o->first)) {
        struct iq_guilty now = site_of(p, node, layer, rank);
        if (!o->first.positions || order_of(&now) < order_of(&o->first)) o->first = now;
    }
    return IQ_OK;
}

/* The ops behind the residual stream, where there are no cells: the position's own digests tell them apart. */
static int head_judge(struct iq__compare *c, const struct pair *p, bool head_in)
{
    const uint16_t last = (uint16_t)(c->s->n_nodes < 0xfff0 ? c->s->n_nodes : 0xfff0);
    if (!p->predicts) return IQ_OK;
    if (head_in) IQ_TRY(judge(c, p, c->lm_head, !p->logits, last, IQ_NO_LAYER, IQ_WHOLE));
    if (p->logits) IQ_TRY(judge(c, p, c->topk, !p->candidates, last + 1u, IQ_NO_LAYER, IQ_WHOLE));
    if (p->candidates) IQ_TRY(judge(c, p, c->sample, !p->next, last + 2u, IQ_NO_LAYER, IQ_WHOLE));
    return IQ_OK;
}

static bool inputs_equal(const struct iq__compare *c, const struct iq_node *x)
{
    bool equal = true; /* no inputs: the token, which is equal here */
    for (int j = 0; j < x->inputs; j++) equal &= c->equal[x->input[j]];
    if (x->flags & IQ_NODE_READS_KV) equal &= !c->kv_dirty[x->layer];
    return equal;
}

/* What the position itself says of lm_head, topk and sample. */
static bool position_says(const struct iq__compare *c, const struct pair *p, uint32_t op)
{
    return op == c->lm_head ? p->logits : op == c->topk ? p->candidates : p->next;
}

/* The layers of each op that is guilty at this position: which are, and which were evaluated beside them. */
static int layers_note(struct iq__compare *c)
{
    for (uint32_t i = 0; i < c->s->n_nodes; i++) {
        uint16_t layer = c->s->nodes[i].layer;
        if (!c->verdict[i] || layer == IQ_NO_LAYER) continue;
        if (c->stats.op[c->op_of[i]].last_position != c->stats.position) continue;
        IQ_TRY(iq__stats_layer(&c->stats, c->op_of[i], layer, c->verdict[i] == 2, c->err));
    }
    return IQ_OK;
}

/* All nodes of one position in canonical order; equal[i]: what a reader of node i gets is equal. */
static int nodes_judge(struct iq__compare *c, const struct pair *p)
{
    bool any = false;
    for (uint32_t i = 0; i < c->s->n_nodes; i++) {
        const struct iq_node *x = &c->s->nodes[i];
        int32_t t = c->twin[i];
        bool in = inputs_equal(c, x), own = by_position(c, i);
        bool absent = t < 0 || (x->flags & IQ_NODE_CONTROL) ||
                      ((x->flags & IQ_NODE_LOGITS) && !p->predicts) || (own && p->again) ||
                      (!own && p->gd && (!p->gs[t] || !p->ss[i]));
        bool equal = absent ? in
                     : own  ? position_says(c, p, c->op_of[i])
                            : !p->gd || iq_digest_equal(p->gd[t], p->sd[i]);
        c->equal[i] = equal;
        if ((x->flags & IQ_NODE_KV) && !equal) c->kv_dirty[x->layer] = c->any_dirty = true;
        c->verdict[i] = absent || !in ? 0 : equal ? 1 : 2;
        any |= c->verdict[i] == 2;
        if (c->verdict[i]) IQ_TRY(judge(c, p, c->op_of[i], !equal, i, x->layer, x->rank));
    }
    return any ? layers_note(c) : IQ_OK;
}

/* Without cells: everything before the logits is one op, and after its first difference nothing is known. */
static int body_judge(struct iq__compare *c, const struct pair *p)
{
    if (!c->any_dirty) IQ_TRY(judge(c, p, c->body, !p->body, 0, IQ_NO_LAYER, IQ_WHOLE));
    if (!p->body) c->any_dirty = true;
    return head_judge(c, p, p->body);
}

/* What a control op answers for (a prefix hit, mostly), with another body than golden's: judged at the end, when all that the subject computed is known. */
static int hit_note(struct iq__compare *c, const struct pair *p)
{
    uint32_t op;
    IQ_TRY(iq__stats_op(&c->stats, iq_cell_answers(p->s->state), "control", &op, c->err));
    IQ_TRY(iq_grow(&c->hit, &c->cap_hits, c->n_hits + 1, sizeof *c->hit, c->err));
    c->hit[c->n_hits++] = (struct iq__hit){.is = {p->prefix, p->s->body},
                                           .op = op,
                                           .first = site_of(p, 0, IQ_NO_LAYER, IQ_WHOLE),
                                           .place = p->place};
    bool known = false;
    for (uint32_t i = 0; p->gd && i < c->s->n_nodes; i++) {
        const struct iq_node *x = &c->s->nodes[i];
        int32_t t = c->twin[i];
        if (!(x->flags & IQ_NODE_KV) || t < 0 || !p->gs[t] || !p->ss[i]) continue;
        known = true;
        if (!iq_digest_equal(p->gd[t], p->sd[i])) c->kv_dirty[x->layer] = true;
    }
    if (!known) memset(c->kv_dirty, 1, LAYERS);
    c->any_dirty = true;
    return head_judge(c, p, false);
}

/* The cells of both, the subject's of one attempt. */
static int cells_fetch(struct iq__compare *c, struct pair *p, uint32_t attempt)
{
    p->gd = p->sd = NULL;
    int rc = c->g->cells(c->g->self, p->g->request, p->g->pos, p->g->attempt, &p->gd, &p->gs, c->err);
    if (!rc) rc = c->s->cells(c->s->self, p->s->request, p->s->pos, attempt, &p->sd, &p->ss, c->err);
    if (rc) p->gd = NULL;
    return rc;
}

/* A recomputed position differs when any of its attempts does: each is judged. */
static int attempts_judge(struct iq__compare *c, struct pair *p, bool same)
{
    uint32_t last = p->s->attempt, at = last > ATTEMPTS ? last - ATTEMPTS : 0;
    bool any = false;
    if (same) return nodes_judge(c, p);
    for (; at <= last; at++) {
        int rc = cells_fetch(c, p, at);
        if (rc == IQ_NOT_FOUND) continue;
        IQ_TRY(rc);
        p->again = any;
        any = true;
        IQ_TRY(nodes_judge(c, p));
    }
    return any ? IQ_OK : body_judge(c, p);
}

static int position_judge(struct iq__compare *c, struct pair *p)
{
    bool same = p->body && p->logits && p->candidates && p->next;
    bool reused = iq_cell_answers(p->s->state) != NULL;
    if (same && !c->any_dirty) {
        iq__stats_clean(&c->stats, &p->place, reused, p->predicts);
        return IQ_OK;
    }
    if (reused) {
        int rc = c->ops && !p->body ? cells_fetch(c, p, p->s->attempt) : IQ_NOT_FOUND;
        if (rc && rc != IQ_NOT_FOUND) return rc;
        if (!p->body) return hit_note(c, p);
        iq__stats_clean(&c->stats, &p->place, true, p->predicts);
        return head_judge(c, p, true);
    }
    IQ_TRY(judge(c, p, c->token, false, 0, IQ_NO_LAYER, IQ_WHOLE));
    if (!p->body) {
        IQ_TRY(iq_grow(&c->computed, &c->cap_computed, c->n_computed + 1, sizeof *c->computed, c->err));
        c->computed[c->n_computed++] = (struct iq__body){p->prefix, p->s->body};
    }
    return c->ops ? attempts_judge(c, p, same) : body_judge(c, p);
}

int iq__cells_asked(struct iq__compare *c, uint32_t op, bool guilty, const struct iq_request_end *e,
                    const struct iq_position *g, const struct iq_position *s)
{
    struct pair p = {.end = e, .g = g, .s = s};
    c->stats.position++;
    IQ_TRY(iq__stats_place(&c->stats, s, e->n_prompt, &p.place, c->err));
    return judge(c, &p, op, guilty, 0, IQ_NO_LAYER, IQ_WHOLE);
}

static uint64_t mix(uint64_t h, uint32_t token)
{
    h = (h ^ token) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

int iq__cells_request(struct iq__compare *c, const struct iq_request_end *e, const struct iq_position *g,
                      const struct iq_position *s, size_t n)
{
    uint64_t prefix = 0;
    if (c->any_dirty) memset(c->kv_dirty, 0, LAYERS);
    c->any_dirty = false;
    for (size_t i = 0; i < n; i++) {
        struct pair p = {.end = e, .g = &g[i], .s = &s[i]};
        prefix = mix(prefix, s[i].token);
        c->stats.position++;
        p.prefix = prefix;
        p.predicts = g[i].has_logits && s[i].has_logits;
        p.body = iq_digest_equal(g[i].body, s[i].body);
        p.logits = !p.predicts || iq_digest_equal(g[i].logits, s[i].logits);
        p.candidates = !p.predicts || iq_digest_equal(g[i].candidates, s[i].candidates);
        p.next = !p.predicts || g[i].next == s[i].next;
        IQ_TRY(iq__stats_place(&c->stats, &s[i], e->n_prompt, &p.place, c->err));
        if (g[i].token != s[i].token) {
            /* Another token was chosen before: what follows has other inputs. Or the right one was not passed on. */
            bool chosen = i && g[i - 1].has_logits && s[i - 1].has_logits && g[i - 1].next != s[i - 1].next;
            return chosen ? IQ_OK : judge(c, &p, c->token, true, 0, IQ_NO_LAYER, IQ_WHOLE);
        }
        IQ_TRY(position_judge(c, &p));
    }
    return IQ_OK;
}

/* ---- the end ---- */

static int by_body(const void *a, const void *b) { return memcmp(a, b, sizeof(struct iq__body)); }

static int hits_judge(struct iq__compare *c)
{
    if (c->n_computed) qsort(c->computed, c->n_computed, sizeof *c->computed, by_body);
    for (size_t i = 0; i < c->n_hits; i++) {
        const struct iq__hit *h = &c->hit[i];
        bool guilty =
            !c->n_computed || !bsearch(&h->is, c->computed, c->n_computed, sizeof *c->computed, by_body);
        c->stats.position++;
        IQ_TRY(iq__stats_add(&c->stats, h->op, &h->place, guilty, c->err));
        struct iq_guilty *first = &c->stats.op[h->op].first;
        if (guilty && (!first->positions || order_of(&h->first) < order_of(first))) *first = h->first;
    }
    return IQ_OK;
}

static int by_first(const void *a, const void *b)
{
    uint64_t x = order_of(a), y = order_of(b);
    return (x > y) - (x < y);
}

static int layers_list(const struct iq__op *o, struct iq_guilty *g, struct iq_err *err)
{
    size_t n = 0;
    for (uint32_t l = 0; o->layer && l < LAYERS; l++) n += o->layer[l / 8] >> l % 8 & 1;
    if (!(g->layer = calloc(n ? n : 1, sizeof *g->layer)))
        return iq_fail(err, IQ_MEMORY, "no memory to list layers");
    for (uint32_t l = 0; o->layer && l < LAYERS; l++)
        if (o->layer[l / 8] >> l % 8 & 1) g->layer[g->n_layers++] = (uint16_t)l;
    return IQ_OK;
}

static int op_finish(struct iq__compare *c, const struct iq__op *o)
{
    struct iq_guilty *g = &c->f->guilty[c->f->n_guilty++];
    *g = o->first;
    name_copy(g->op, sizeof g->op, o->op);
    name_copy(g->kind, sizeof g->kind, o->kind);
    g->cells = o->total;
    g->positions = 0;
    for (size_t t = 0; t < o->cap[0]; t++) {
        g->evaluated += o->count[0][t].evaluated;
        g->positions += o->count[0][t].struck;
    }
    IQ_TRY(layers_list(o, g, c->err));
    g->layers_told = iq__stats_layers(o, g->positions, c->policy->trigger_chance);
    for (uint32_t i = 0; i < c->s->n_nodes; i++) {
        uint16_t layer = c->s->nodes[i].layer;
        if (layer != IQ_NO_LAYER && &c->stats.op[c->op_of[i]] == o)
            g->layers_open |= layer >= o->cap_beside || !o->beside[layer].evaluated;
    }
    return iq__stats_trigger(&c->stats, o, c->policy->trigger_chance, &g->trigger, c->err);
}

int iq__cells_finish(struct iq__compare *c)
{
    IQ_TRY(hits_judge(c));
    IQ_TRY(iq__stats_spread(&c->stats, c->prefix, c->err));
    if (!(c->f->guilty = calloc(c->stats.n_ops, sizeof *c->f->guilty)))
        return iq_fail(c->err, IQ_MEMORY, "no memory for the guilty ops");
    for (size_t i = 0; i < c->stats.n_ops; i++)
        if (c->stats.op[i].total) IQ_TRY(op_finish(c, &c->stats.op[i]));
    qsort(c->f->guilty, c->f->n_guilty, sizeof *c->f->guilty, by_first);
    return IQ_OK;
}
