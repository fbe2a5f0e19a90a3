#include "harness/campaign/witness.h"

#include "golden/compare.h"
#include "kernels/base/grow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- golden ---- */

int iq_golden_open(struct iq_golden *g, const struct iq_node *node, uint32_t nodes, uint32_t requests,
                   struct iq_err *err)
{
    *g = (struct iq_golden){.node = node, .nodes = nodes, .requests = requests};
    g->request = calloc(requests, sizeof *g->request);
    return g->request ? IQ_OK : iq_fail(err, IQ_MEMORY, "no memory for golden's %u requests", requests);
}

void iq_golden_free(struct iq_golden *g)
{
    for (uint32_t i = 0; g->request && i < g->requests; i++) {
        free(g->request[i].position);
        free(g->request[i].cell);
        free(g->request[i].ids);
    }
    free(g->request);
    *g = (struct iq_golden){0};
}

static int golden_row(void *self, const struct iq_cell *c, struct iq_digest d, const void *bytes, size_t n)
{
    struct iq_golden *g = self;
    struct iq_golden_request *r = &g->request[c->request];
    (void)bytes;
    (void)n;
    IQ_TRY(iq_grow(&r->cell, &r->cap_cells, ((size_t)c->pos + 1) * g->nodes, sizeof *r->cell, NULL));
    r->cell[(size_t)c->pos * g->nodes + c->node] = d;
    return IQ_OK;
}

static int golden_position(void *self, const struct iq_position *p)
{
    struct iq_golden_request *r = &((struct iq_golden *)self)->request[p->request];
    IQ_TRY(iq_grow(&r->position, &r->cap, (size_t)p->pos + 1, sizeof *r->position, NULL));
    r->position[p->pos] = *p;
    if (p->pos >= r->positions) r->positions = (size_t)p->pos + 1;
    return IQ_OK;
}

static int golden_done(void *self, const struct iq_request_end *e)
{
    struct iq_golden_request *r = &((struct iq_golden *)self)->request[e->request];
    r->ids = malloc(e->n_ids * sizeof *r->ids);
    if (!r->ids) return IQ_MEMORY;
    memcpy(r->ids, e->ids, e->n_ids * sizeof *r->ids);
    r->n_ids = e->n_ids;
    r->n_prompt = e->n_prompt;
    return IQ_OK;
}

struct iq_sink iq_golden_sink(struct iq_golden *g)
{
    return (struct iq_sink){.self = g, .row = golden_row, .position = golden_position, .done = golden_done};
}

/* ---- a subject ---- */

int iq_witness_open(struct iq_witness *w, const struct iq_golden *g, struct iq_err *err)
{
    *w = (struct iq_witness){.golden = g,
                             .row_node = UINT32_MAX,
                             .first = UINT64_MAX,
                             .first_request = UINT32_MAX,
                             .first_pos = UINT32_MAX,
                             .first_seen = UINT32_MAX};
    w->request = calloc(g->requests, sizeof *w->request);
    return w->request ? IQ_OK : iq_fail(err, IQ_MEMORY, "no memory to watch %u requests", g->requests);
}

void iq_witness_free(struct iq_witness *w)
{
    free(w->request);
    w->request = NULL;
}

static int on_row(void *self, const struct iq_cell *c, struct iq_digest d, const void *bytes, size_t n)
{
    struct iq_witness *w = self;
    const struct iq_golden_request *r = &w->golden->request[c->request];
    (void)bytes;
    (void)n;
    if (w->row_node != UINT32_MAX || c->pos >= r->positions) return IQ_OK;
    if (!iq_digest_equal(r->cell[(size_t)c->pos * w->golden->nodes + c->node], d)) w->row_node = c->node;
    return IQ_OK;
}

static bool is_nan(const struct iq_position *p)
{
    bool bad = isnan(p->tail) || isnan(p->margin);
    for (int i = 0; i < IQ_TOP; i++) bad |= isnan(p->top_logit[i]);
    return p->has_logits && bad;
}

/* The op of a guilty cell: control ops are told by what they did. */
static void accuse(struct iq_witness *w, const struct iq_position *p, uint32_t node, const char *control)
{
    uint64_t order = (uint64_t)p->step << 16 | node;
    struct iq_trial_row *r = &w->row;
    if (order >= w->first) return;
    w->first = order;
    r->guilty_step = p->step;
    r->guilty_layer = control ? IQ_NO_LAYER : w->golden->node[node].layer;
    r->guilty_rank = control ? IQ_WHOLE : w->golden->node[node].rank;
    snprintf(r->guilty_op, sizeof r->guilty_op, "%.19s", control ? control : w->golden->node[node].op);
    w->guilty_rows = p->tokens;
    w->guilty_batch = p->batch;
    w->guilty_request = p->request;
    w->guilty_pos = p->pos;
}

/* A chain that differs although no cell does: what the head made of it. */
static const char *head_of(const struct iq_position *g, const struct iq_position *p)
{
    if (!iq_digest_equal(g->logits, p->logits)) return "lm_head";
    return iq_digest_equal(g->candidates, p->candidates) ? "sample" : "topk";
}

static void differs(struct iq_witness *w, const struct iq_position *g, const struct iq_position *p,
                    uint32_t node)
{
    w->differing += !w->request[p->request].differs;
    w->request[p->request].differs = true;
    if (w->first_seen == UINT32_MAX || p->step < w->first_seen ||
        (p->step == w->first_seen && p->request < w->first_request)) {
        w->first_seen = p->step;
        w->first_request = p->request;
        w->first_pos = p->pos;
    }
    const char *control = iq_digest_equal(g->body, p->body) ? NULL : iq_cell_answers(p->state);
    if (control)
        accuse(w, p, 0, control);
    else if (node != UINT32_MAX)
        accuse(w, p, node, NULL);
    else if (p->has_logits && g->has_logits)
        accuse(w, p, 0xffff, head_of(g, p));
}

void iq_witness_position(struct iq_witness *w, const struct iq_position *p, uint32_t node)
{
    const struct iq_golden_request *r = &w->golden->request[p->request];
    const struct iq_position *g = p->pos < r->positions ? &r->position[p->pos] : NULL;
    struct iq_digest d = iq_position_digest(p);
    w->nans += is_nan(p);
    if (!g || g->token != p->token || !iq_digest_equal(iq_position_digest(g), d))
        w->bits = iq_digest_chain(w->bits, p->token, d);
    if (w->request[p->request].parted) return;
    if (!g || g->token != p->token) {
        w->request[p->request].parted = true;
        if (!w->request[p->request].differs && g) { /* the right token was not passed on */
            w->differing++;
            w->request[p->request].differs = true;
            accuse(w, p, 0, "token");
        }
        return;
    }
    if (iq_digest_equal(iq_position_digest(g), d)) return;
    differs(w, g, p, node);
    if (!p->has_logits || !g->has_logits || p->next == g->next || w->request[p->request].changed) return;
    w->request[p->request].changed = true;
    if (g->margin <= IQ_POLICY_DEFAULT.tie_margin)
        w->tie_flips++;
    else
        w->decisive_flips++;
}

static int on_position(void *self, const struct iq_position *p)
{
    struct iq_witness *w = self;
    iq_witness_position(w, p, w->row_node);
    w->row_node = UINT32_MAX;
    return IQ_OK;
}

void iq_witness_fired(struct iq_witness *w, const struct iq_firing *f)
{
    w->fired++;
    w->rows += f->rows;
    w->rows_changed += f->rows_changed;
    if (f->fault < 256) w->fired_faults[f->fault / 64] |= UINT64_C(1) << f->fault % 64;
}

static int on_fired(void *self, const struct iq_firing *f)
{
    iq_witness_fired(self, f);
    return IQ_OK;
}

void iq_witness_ended(struct iq_witness *w, uint32_t request, const uint32_t *ids, uint32_t n_ids)
{
    const struct iq_golden_request *g = &w->golden->request[request];
    uint32_t least = g->n_ids < n_ids ? g->n_ids : n_ids, most = g->n_ids < n_ids ? n_ids : g->n_ids;
    uint32_t changed = most - least;
    for (uint32_t i = g->n_prompt; i < least; i++) changed += g->ids[i] != ids[i];
    w->request[request].tokens_changed = changed;
    w->changed += changed != 0;
}

static int on_done(void *self, const struct iq_request_end *e)
{
    iq_witness_ended(self, e->request, e->ids, e->n_ids);
    return IQ_OK;
}

struct iq_sink iq_witness_sink(struct iq_witness *w)
{
    return (struct iq_sink){
        .self = w, .row = on_row, .position = on_position, .fired = on_fired, .done = on_done};
}

void iq_witness_row(const struct iq_witness *w, struct iq_trial_row *out)
{
    *out = w->row;
    if (w->first == UINT64_MAX) out->guilty_layer = IQ_NO_LAYER, out->guilty_rank = IQ_WHOLE;
    out->bits = w->bits;
    out->fired = w->fired;
    out->rows = w->rows;
    out->rows_changed = w->rows_changed;
    out->requests = w->golden->requests;
    out->requests_changed = w->changed;
    out->request = w->first_request;
    out->pos = w->first_pos;
    for (uint32_t i = 0; i < w->golden->requests; i++) {
        out->tokens += w->golden->request[i].n_ids - w->golden->request[i].n_prompt;
        out->tokens_changed += w->request[i].tokens_changed;
    }
    out->effect = (uint16_t)(w->decisive_flips ? IQ_EFFECT_DECISIVE_FLIPS
                             : w->tie_flips    ? IQ_EFFECT_TIE_FLIPS
                             : w->changed      ? IQ_EFFECT_UNDETERMINED
                                               : IQ_EFFECT_NONE);
}
