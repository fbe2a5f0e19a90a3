#include "tests/golden/compare_case.h"

#include <string.h>

struct iq_store *store;

void compare_set_up(void)
{
    scratch_in_memory();
    store = scratch_open(&dir, 0);
}

void compare_tear_down(void)
{
    iq_store_close(store);
    scratch_drop();
}

const struct synth BASE = {
    .layers = 3, .requests = 24, .prompt = 5, .generate = 20, .group = 4, .seed = 9, .label = "golden"};

int strike(void *ctx, const struct synth_site *s)
{
    const struct plant *p = ctx;
    if (!p->op || strcmp(p->op, s->node->op)) return 0;
    if (p->layer >= 0 && p->layer != s->node->layer) return 0;
    if (p->batch && (uint32_t)p->batch != s->batch) return 0;
    if (p->request >= 0 && (uint32_t)p->request != s->request) return 0;
    if (p->pos >= 0 && (uint32_t)p->pos != s->pos) return 0;
    return p->effect;
}

uint32_t batch(void *ctx, uint32_t request, uint32_t pos)
{
    (void)ctx;
    return 1 + (request * 5 + pos / 3) % 9;
}

static float margin(void *ctx, uint32_t request, uint32_t pos)
{
    (void)request, (void)pos;
    return ctx ? ((const struct plant *)ctx)->margin : 1.0f;
}

struct iq_finding *compare_recorded(iq_vitro_fn *vitro, void *ctx)
{
    struct iq_trace a, b;
    struct iq_finding *f;
    OK(iq_store_verify(store, &(struct iq_store_tally){0}, &err));
    OK(iq_store_trace(store, "golden", &a, &err));
    OK(iq_store_trace(store, "subject", &b, &err));
    OK(iq_compare(&a, &b, NULL, vitro, ctx, &f, &err));
    iq_trace_close(&a);
    iq_trace_close(&b);
    return f;
}

struct iq_finding *diff(const struct synth *g, const struct synth *s, enum iq_level gl, enum iq_level sl,
                        iq_vitro_fn *vitro, void *ctx)
{
    OK(synth_record(g, store, gl, IQ_WRITE_GOLDEN, "golden", &err));
    OK(synth_record(s, store, sl, IQ_WRITE_TRIAL, "subject", &err));
    return compare_recorded(vitro, ctx);
}

struct iq_finding *diff_planted(struct plant *p, enum iq_level level, iq_vitro_fn *vitro, const char *extra)
{
    struct synth g = BASE, s = BASE;
    static struct plant none;
    none = (struct plant){.margin = p->margin};
    g.margin = s.margin = margin;
    g.ctx = &none;
    s.ctx = p;
    s.label = "subject";
    s.batch = batch;
    s.strike = strike;
    s.extra = extra;
    return diff(&g, &s, level, level, vitro, p);
}
