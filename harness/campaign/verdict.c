#include "harness/campaign/verdict.h"

#include "harness/campaign/guarded.h"
#include "harness/trial/judge.h"
#include "kernels/base/grow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct iq_verdict {
    uint32_t cell, tokens, batch;
    char op[20];
    uint32_t numerics;
};

void iq_verdicts_free(struct iq_verdicts *v)
{
    free(v->known);
    *v = (struct iq_verdicts){0};
}

static bool strikes(const struct iq_fault *f, const char *op)
{
    int id = iq_op_find(op);
    if (f->op != IQ_OP_NONE) return !strcmp(iq_op_name(f->op), op);
    return id >= 0 && f->kind == iq_op_kind((enum iq_op_id)id);
}

/* ---- in vitro, in a process of its own ---- */

struct work {
    struct iq_judge judge;
    struct iq_suspect suspect;
};

static int work(void *self, int out)
{
    struct work *w = self;
    struct iq_vitro_result result = {.numerics = IQ_NUMERICS_OUTSIDE};
    struct iq_err err = {0};
    uint32_t numerics = IQ_NUMERICS_OUTSIDE; /* what nobody judged */
    if (iq_judge_suspect(&w->judge, &w->suspect, &result, &err) == IQ_OK &&
        result.numerics != IQ_NUMERICS_IDENTICAL)
        numerics = result.numerics;
    return iq_guarded_write(out, &numerics, sizeof numerics);
}

static int judge(const struct iq_ready *ready, const struct iq_context *c, struct iq_verdict *v,
                 struct iq_err *err)
{
    const struct iq_model_config *m = &c->model->config;
    struct work w = {
        .judge = {.settings = c->settings,
                  .hidden = m->hidden,
                  .ffn = m->ffn,
                  .heads = m->heads,
                  .kv_heads = m->kv_heads,
                  .head_dim = m->head_dim,
                  .vocab = m->vocab,
                  .experts = m->experts},
        .suspect = {
            .op = v->op, .variant = "", .fault = -1, .tokens = v->tokens, .batch = (uint16_t)v->batch}};
    int op = iq_op_find(v->op);
    w.suspect.kind = op >= 0 ? iq_op_kind((enum iq_op_id)op)->name : "control";
    enum iq_format format = (enum iq_format)c->model->layer[0].rank[0].q.format;
    snprintf(w.judge.weights, sizeof w.judge.weights, "%s", iq_format_info(format)->name);
    IQ_TRY(iq_grid_plan(ready->grid, ready->grid->cell[v->cell].first, &w.judge.plan, err));
    for (size_t i = 0; i < w.judge.plan.n && w.suspect.fault < 0; i++)
        if (strikes(&w.judge.plan.fault[i], v->op)) w.suspect.fault = (int)i;
    struct iq_guarded g = {
        .seconds = ready->grid->seconds, .mib = ready->grid->mib, .work = work, .self = &w};
    struct iq_err how;
    size_t got;
    v->numerics = IQ_NUMERICS_OUTSIDE;
    int status = IQ_LIMIT;
    for (int i = 0; i < 4 && status == IQ_LIMIT; i++)
        status = iq_guarded_run(&g, &v->numerics, sizeof v->numerics, &got, &how);
    iq_plan_free(&w.judge.plan);
    if (status != IQ_OK) v->numerics = IQ_NUMERICS_OUTSIDE;
    return IQ_OK;
}

static int numerics_of(struct iq_verdicts *all, const struct iq_ready *ready, const struct iq_context *c,
                       const struct iq_armed_trial *t, const struct iq_seen *seen, uint32_t *out,
                       struct iq_err *err)
{
    struct iq_verdict v = {.cell = t->at.cell,
                           .tokens = seen->guilty_rows < 64 ? seen->guilty_rows : 64,
                           .batch = seen->guilty_batch < 64 ? seen->guilty_batch : 64};
    memcpy(v.op, seen->row.guilty_op, sizeof v.op);
    for (size_t i = 0; i < all->n; i++) {
        const struct iq_verdict *k = &all->known[i];
        if (k->cell != v.cell || k->tokens != v.tokens || k->batch != v.batch || strcmp(k->op, v.op))
            continue;
        *out = k->numerics;
        return IQ_OK;
    }
    IQ_TRY(judge(ready, c, &v, err));
    IQ_TRY(iq_grow(&all->known, &all->cap, all->n + 1, sizeof *all->known, err));
    all->known[all->n++] = v;
    *out = v.numerics;
    return IQ_OK;
}

/* ---- rows ---- */

static struct iq_digest trial_id(const struct iq_ready *ready, uint32_t index)
{
    struct iq_digest d[2] = {ready->campaign, {0, index}};
    return iq_digest_list(d, 2);
}

static void crash(struct iq_trial_row *r, const struct iq_seen *seen)
{
    r->label = IQ_LABEL_CRASHED;
    r->numerics = IQ_NUMERICS_UNDETERMINED;
    if (!seen->crashed)
        snprintf(r->reason, sizeof r->reason, "%u positions have logits that are not numbers", seen->nans);
    for (char *c = r->reason; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
}

int iq_verdict_row(struct iq_verdicts *all, const struct iq_ready *ready, const struct iq_context *c,
                   const struct iq_armed_trial *t, const struct iq_seen *seen, struct iq_trial_row *r,
                   struct iq_err *err)
{
    bool differs = seen->row.request != UINT32_MAX || seen->row.requests_changed || seen->row.guilty_op[0];
    *r = seen->row;
    r->id = trial_id(ready, t->at.index);
    r->index = t->at.index;
    r->cell = t->at.cell;
    for (size_t i = 0; i < t->plan.n && i < 256; i++)
        if (seen->fired_faults[i / 64] >> i % 64 & 1) r->caught |= strikes(&t->plan.fault[i], r->guilty_op);
    if (seen->crashed || seen->nans) return crash(r, seen), IQ_OK;
    r->label = IQ_LABEL_IDENTICAL;
    r->numerics = IQ_NUMERICS_IDENTICAL;
    if (!differs) return IQ_OK;
    uint32_t numerics = IQ_NUMERICS_OUTSIDE;
    if (r->guilty_op[0]) IQ_TRY(numerics_of(all, ready, c, t, seen, &numerics, err));
    r->numerics = (uint16_t)numerics;
    r->label = (uint16_t)iq_label_of((int)numerics, r->effect);
    return IQ_OK;
}
