#include "golden/compare_state.h"
#include "kernels/base/grow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- rung 0: which requests are the same question ---- */

struct known {
    char *id;
    uint32_t request;
    bool met;
};
struct table {
    struct known *at;
    size_t n, cap;
};

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct known *)a)->id, ((const struct known *)b)->id);
}

static void table_free(struct table *t)
{
    for (size_t i = 0; i < t->n; i++) free(t->at[i].id);
    free(t->at);
}

static int table_fill(struct table *t, const struct iq_trace *g, struct iq_err *err)
{
    struct iq_request_end e;
    int rc;
    for (uint32_t at = 0; (rc = g->request(g->self, at, &e, err)) == IQ_OK;) {
        IQ_TRY(iq_grow(&t->at, &t->cap, t->n + 1, sizeof *t->at, err));
        t->at[t->n] = (struct known){.id = strdup(e.id), .request = e.request};
        if (!t->at[t->n].id) return iq_fail(err, IQ_MEMORY, "no memory for the list of requests");
        t->n++;
        if ((at = e.request + 1) == 0) break;
    }
    if (rc && rc != IQ_NOT_FOUND) return rc;
    if (t->n) qsort(t->at, t->n, sizeof *t->at, by_id);
    for (size_t i = 1; i < t->n; i++)
        if (!strcmp(t->at[i].id, t->at[i - 1].id))
            return iq_fail(err, IQ_FORMAT,
                           "run %s: two requests have the id '%.80s'; ids must differ to be compared", g->id,
                           t->at[i].id);
    return IQ_OK;
}

/* What is served of a request beside its prompt: the pool that a router chose, and how it samples. */
enum served { SERVED_SAME, SERVED_ELSEWHERE, SERVED_OTHERWISE };

static enum served served_judge(const struct iq_request_end *g, const struct iq_request_end *s)
{
    if (!strcmp(g->params, s->params)) return SERVED_SAME;
    cJSON *a = cJSON_Parse(g->params), *b = cJSON_Parse(s->params);
    cJSON_DeleteItemFromObjectCaseSensitive(a, "pool");
    cJSON_DeleteItemFromObjectCaseSensitive(b, "pool");
    bool elsewhere = a && b && cJSON_Compare(a, b, 1);
    cJSON_Delete(a);
    cJSON_Delete(b);
    return elsewhere ? SERVED_ELSEWHERE : SERVED_OTHERWISE;
}

/* Whether both runs were asked the same. `op`: the decision that made something else of it, when both manifests state one
 * set of prompts; c->body: none did. */
static bool prompts_judge(struct iq__compare *c, const struct iq_request_end *g,
                          const struct iq_request_end *s, uint32_t *op)
{
    struct iq_finding *f = c->f;
    char note[sizeof f->prompts_note] = "";
    enum served served = served_judge(g, s);
    *op = c->assemble;
    if (g->n_prompt != s->n_prompt) {
        snprintf(note, sizeof note, "request '%.60s': golden's prompt has %u tokens, the subject's %u", s->id,
                 g->n_prompt, s->n_prompt);
    } else if (g->n_prompt && memcmp(g->ids, s->ids, 4 * (size_t)g->n_prompt)) {
        uint32_t i = 0;
        while (g->ids[i] == s->ids[i]) i++;
        snprintf(note, sizeof note, "request '%.60s': prompt token %u is %u in golden and %u in the subject",
                 s->id, i, g->ids[i], s->ids[i]);
    } else if (served == SERVED_OTHERWISE) {
        snprintf(note, sizeof note, "request '%.60s': its sampling parameters differ", s->id);
    } else if (served == SERVED_ELSEWHERE) {
        snprintf(note, sizeof note, "request '%.60s': another pool serves it", s->id);
        *op = c->place;
    }
    if (!*note) {
        *op = c->body;
        return true;
    }
    if (f->same_prompts && !*f->prompts_note)
        snprintf(f->prompts_note, sizeof f->prompts_note, "%s%.200s", c->same_asked ? "as asked, but " : "",
                 note);
    if (c->same_asked) return true;
    f->same_prompts = false;
    *op = c->body;
    return false;
}

/* ---- rung 2: chains ---- */

/* C of every position; they stay different once they differ, so the first difference is found by halving. */
static int chain_first(struct iq__compare *c, const struct iq_position *g, const struct iq_position *s,
                       size_t n, size_t *first)
{
    if (2 * n > c->chain_cap) {
        free(c->chain);
        c->chain_cap = 0;
        if (!(c->chain = malloc(2 * n * sizeof *c->chain)))
            return iq_fail(c->err, IQ_MEMORY, "no memory for %zu chains", n);
        c->chain_cap = 2 * n;
    }
    struct iq_digest cg = {0, 0}, cs = {0, 0};
    for (size_t i = 0; i < n; i++) {
        c->chain[2 * i] = cg = iq_digest_chain(cg, g[i].token, iq_position_digest(&g[i]));
        c->chain[2 * i + 1] = cs = iq_digest_chain(cs, s[i].token, iq_position_digest(&s[i]));
    }
    size_t lo = 0, hi = n; /* all below lo are equal, hi differs or is n */
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (iq_digest_equal(c->chain[2 * mid], c->chain[2 * mid + 1]))
            lo = mid + 1;
        else
            hi = mid;
    }
    *first = lo;
    return IQ_OK;
}

static bool position_equal(const struct iq_position *g, const struct iq_position *s)
{
    return g->token == s->token && g->has_logits == s->has_logits && iq_digest_equal(g->body, s->body) &&
           (!g->has_logits || (iq_digest_equal(g->logits, s->logits) &&
                               iq_digest_equal(g->candidates, s->candidates) && g->next == s->next));
}

static void first_note(struct iq__compare *c, const char *id, const struct iq_position *s, uint32_t pos)
{
    uint64_t key = (uint64_t)(s ? s->step : UINT32_MAX) << 16;
    struct iq_finding *f = c->f;
    if (f->has_first && key >= c->first_key) return;
    f->has_first = true;
    c->first_key = key;
    snprintf(f->first_request, sizeof f->first_request, "%s", id);
    f->first_pos = pos;
    f->first_layer = IQ_NO_LAYER;
}

/* ---- rung 5: tokens ---- */

static bool is_nan(const struct iq_position *p)
{
    bool bad = isnan(p->tail) || isnan(p->margin);
    for (int i = 0; i < IQ_TOP; i++) bad |= isnan(p->top_logit[i]);
    return p->has_logits && bad;
}

static void health_note(struct iq__compare *c, const struct iq_position *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        c->f->nans += is_nan(&p[i]);
        c->f->invalid_tokens += p[i].has_logits && c->vocab && p[i].next >= c->vocab;
    }
}

/* The first token that was chosen otherwise, weighed by golden's margin there. */
static void flip_note(struct iq__compare *c, const struct iq_request_end *ge, const struct iq_request_end *se,
                      const struct iq_position *g, size_t n)
{
    uint32_t least = ge->n_ids < se->n_ids ? ge->n_ids : se->n_ids, i = ge->n_prompt;
    while (i < least && ge->ids[i] == se->ids[i]) i++;
    if (i == least && ge->n_ids == se->n_ids) return;
    c->f->changed++;
    if (i == least) return; /* one stopped earlier on the same path */
    double margin = i && i - 1 < n && g[i - 1].has_logits ? g[i - 1].margin : INFINITY;
    if (margin > c->f->worst_margin && isfinite(margin)) c->f->worst_margin = margin;
    if (margin <= c->policy->tie_margin)
        c->f->tie_flips++;
    else
        c->f->decisive_flips++;
}

/* ---- one request ---- */

static int positions_get(const struct iq_trace *t, uint32_t request, const struct iq_position **p, size_t *n,
                         struct iq_err *err)
{
    int rc = t->positions(t->self, request, p, n, err);
    if (rc == IQ_NOT_FOUND) *n = 0;
    return rc == IQ_NOT_FOUND ? IQ_OK : rc;
}

static int digests_compare(struct iq__compare *c, const struct iq_request_end *e, const struct iq_position *g,
                           size_t gn, const struct iq_position *s, size_t sn)
{
    struct iq_finding *f = c->f;
    size_t n = gn < sn ? gn : sn, first = n, at = n;
    uint64_t before = f->positions_differing;
    IQ_TRY(chain_first(c, g, s, n, &first));
    f->positions += n;
    for (size_t i = 0; i < n; i++) {
        if (position_equal(&g[i], &s[i])) continue;
        f->positions_differing++;
        if (at == n) at = i; /* candidates and the choice are not in the chain: they may differ before it */
    }
    if (at > first) at = first;
    if (at < n || gn != sn) {
        f->differing++;
        f->healed += f->positions_differing > before && n && position_equal(&g[n - 1], &s[n - 1]);
        first_note(c, e->id, at < n ? &s[at] : NULL, (uint32_t)at);
    }
    return iq__cells_request(c, e, g, s, n);
}

/* A request of which a decision made something else: its answers are compared, its positions are not. */
static int asked_compare(struct iq__compare *c, uint32_t op, const struct iq_request_end *g,
                         const struct iq_request_end *s, const struct iq_position *gp, size_t gn,
                         const struct iq_position *sp, size_t sn)
{
    uint32_t made = s->n_ids - s->n_prompt;
    if (op == c->place)
        flip_note(c, g, s, gp, gn);
    else
        c->f->changed += g->n_ids - g->n_prompt != made ||
                         (made && memcmp(g->ids + g->n_prompt, s->ids + s->n_prompt, 4 * (size_t)made));
    IQ_TRY(iq__answers_request(c, g, s, sp, sn));
    c->f->differing++;
    if (!gn || !sn) return IQ_OK;
    first_note(c, s->id, &sp[0], 0);
    return iq__cells_asked(c, op, true, s, &gp[0], &sp[0]);
}

static int request_compare(struct iq__compare *c, uint32_t gr, const struct iq_request_end *s)
{
    struct iq_request_end g;
    const struct iq_position *gp, *sp;
    size_t gn, sn;
    uint32_t op;
    int rc = c->g->request(c->g->self, gr, &g, c->err);
    if (rc == IQ_NOT_FOUND) return iq_fail(c->err, IQ_FORMAT, "run %s: request %u is gone", c->g->id, gr);
    IQ_TRY(rc);
    if (!prompts_judge(c, &g, s, &op)) return IQ_OK;
    IQ_TRY(positions_get(c->g, g.request, &gp, &gn, c->err));
    IQ_TRY(positions_get(c->s, s->request, &sp, &sn, c->err));
    c->f->requests++;
    health_note(c, gp, gn);
    health_note(c, sp, sn);
    if (op != c->body) return asked_compare(c, op, &g, s, gp, gn, sp, sn);
    for (int i = 0; i < 2 && c->same_asked && gn && sn; i++)
        IQ_TRY(iq__cells_asked(c, i ? c->place : c->assemble, false, s, &gp[0], &sp[0]));
    flip_note(c, &g, s, gp, gn);
    IQ_TRY(iq__answers_request(c, &g, s, sp, sn));
    if (!c->f->same_contract) return IQ_OK;
    return digests_compare(c, s, gp, gn, sp, sn);
}

static int requests_compare(struct iq__compare *c, struct table *t)
{
    struct iq_request_end e;
    int rc;
    for (uint32_t at = 0; (rc = c->s->request(c->s->self, at, &e, c->err)) == IQ_OK;) {
        struct known key = {.id = (char *)e.id},
                     *k = t->n ? bsearch(&key, t->at, t->n, sizeof key, by_id) : NULL;
        uint32_t next = e.request + 1;
        if (k && k->met)
            return iq_fail(c->err, IQ_FORMAT,
                           "run %s: two requests have the id '%.80s'; ids must differ to be compared",
                           c->s->id, e.id);
        if (k) {
            k->met = true;
            IQ_TRY(request_compare(c, k->request, &e));
        } else {
            c->f->extra++;
        }
        if ((at = next) == 0) break;
    }
    for (size_t i = 0; i < t->n; i++) c->f->missing += !t->at[i].met;
    return rc == IQ_NOT_FOUND ? IQ_OK : rc;
}

/* ---- rung 4 ---- */

static int vitro_judge(struct iq__compare *c, iq_vitro_fn *vitro, void *ctx)
{
    for (size_t i = 0; vitro && i < c->f->n_guilty && i < c->policy->max_vitro; i++) {
        struct iq_guilty *g = &c->f->guilty[i];
        struct iq_suspect s = {g->op,   g->kind,   g->variant, g->request_id, g->first_layer,
                               g->rank, g->node,   g->batch,   g->request,    g->pos,
                               g->step, g->tokens, g->fault};
        struct iq_err why = {0};
        int rc = vitro(ctx, &s, &g->vitro, &why);
        g->judged = rc == IQ_OK;
        if (rc == IQ_UNSUPPORTED)
            snprintf(g->vitro.evidence, sizeof g->vitro.evidence, "%.390s",
                     *why.text ? why.text : "this op can't be run by itself");
        else if (rc)
            return iq_fail(c->err, rc, "in vitro, op %s: %.500s", g->op, why.text);
    }
    return IQ_OK;
}

static int fired_sum(struct iq__compare *c)
{
    struct iq_firing r;
    int rc;
    c->f->show_fired = c->policy->show_fired;
    while ((rc = c->s->firing(c->s->self, c->f->fired, &r, c->err)) == IQ_OK) {
        c->f->fired++;
        c->f->fired_rows += r.rows;
        c->f->fired_changed += r.rows_changed;
    }
    return rc == IQ_NOT_FOUND ? IQ_OK : rc;
}

static void first_finish(struct iq__compare *c)
{
    struct iq_finding *f = c->f;
    if (f->n_guilty) {
        const struct iq_guilty *g = &f->guilty[0];
        f->has_first = true;
        memcpy(f->first_request, g->request_id, sizeof f->first_request);
        memcpy(f->first_op, g->op, sizeof f->first_op);
        f->first_pos = g->pos;
        f->first_layer = g->first_layer;
    }
}

static int compare_run(struct iq__compare *c, iq_vitro_fn *vitro, void *ctx)
{
    struct table t = {0};
    IQ_TRY(iq__compare_manifests(c));
    IQ_TRY(iq__cells_open(c));
    int rc = table_fill(&t, c->g, c->err);
    if (!rc) rc = requests_compare(c, &t);
    table_free(&t);
    IQ_TRY(rc);
    IQ_TRY(iq__cells_finish(c));
    IQ_TRY(iq__compare_variants(c));
    first_finish(c);
    IQ_TRY(vitro_judge(c, vitro, ctx));
    return fired_sum(c);
}

int iq_compare(const struct iq_trace *golden, const struct iq_trace *subject, const struct iq_policy *policy,
               iq_vitro_fn *vitro, void *ctx, struct iq_finding **out, struct iq_err *err)
{
    struct iq_policy standard = IQ_POLICY_DEFAULT;
    struct iq_err none = {0};
    *out = NULL;
    if (golden->self == subject->self)
        return iq_fail(err, IQ_USAGE, "a trace can't be compared with itself: open it twice");
    struct iq__compare c = {
        .g = golden, .s = subject, .policy = policy ? policy : &standard, .err = err ? err : &none};
    if (!(c.f = calloc(1, sizeof *c.f))) return iq_fail(err, IQ_MEMORY, "no memory for a finding");
    c.f->same_prompts = true;
    snprintf(c.f->golden, sizeof c.f->golden, "%s", golden->id);
    snprintf(c.f->subject, sizeof c.f->subject, "%s", subject->id);
    int rc = compare_run(&c, vitro, ctx);
    if (c.f->same_prompts && !c.f->requests && (c.f->missing || c.f->extra)) {
        c.f->same_prompts = false;
        snprintf(c.f->prompts_note, sizeof c.f->prompts_note, "no request is in both runs");
    }
    if (!rc) iq__finding_judge(c.f, c.g, c.s, c.ops);
    iq__cells_close(&c);
    free(c.chain);
    if (rc) {
        iq_finding_free(c.f);
        return rc;
    }
    *out = c.f;
    return IQ_OK;
}
