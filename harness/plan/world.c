#include "harness/plan/world.h"

#include "engine/graph.h"
#include "kernels/ops/kv.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- prompts ---- */

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t temperature_of(const struct iq_request *r) { return iq_domain_float(r->temperature); }
static uint64_t top_p_of(const struct iq_request *r) { return iq_domain_float(r->top_p); }
static uint64_t min_p_of(const struct iq_request *r) { return iq_domain_float(r->min_p); }
static uint64_t top_k_of(const struct iq_request *r) { return r->top_k; }
static uint64_t session_of(const struct iq_request *r) { return r->session; }
static uint64_t seed_of(const struct iq_request *r) { return r->seed; }
static uint64_t prompt_of(const struct iq_request *r) { return r->n_prompt; }
static uint64_t arrived_of(const struct iq_request *r) { return r->arrive_us / 1000; }

static int gather(const struct iq_prompts *p, uint64_t (*of)(const struct iq_request *),
                  struct iq_world_values *out, struct iq_err *err)
{
    out->v = calloc((size_t)p->n + 1, sizeof *out->v);
    if (!out->v) return iq_fail(err, IQ_MEMORY, "no memory for %u prompts", p->n);
    for (uint32_t i = 0; i < p->n; i++) out->v[i] = of(&p->request[i]);
    qsort(out->v, p->n, sizeof *out->v, by_value);
    for (uint32_t i = 0; i < p->n; i++)
        if (!out->n || out->v[i] != out->v[out->n - 1]) out->v[out->n++] = out->v[i];
    return IQ_OK;
}

/* The longest context of any request: the last token that it generates is never fed. */
static uint64_t longest(const struct iq_prompts *p)
{
    uint64_t most = 1;
    for (uint32_t i = 0; i < p->n; i++) {
        const struct iq_request *r = &p->request[i];
        uint64_t context = (uint64_t)r->n_prompt + (r->max_tokens ? r->max_tokens - 1 : 0);
        most = context > most ? context : most;
    }
    return most;
}

static int take_prompts(struct iq_plan_world *w, struct iq_err *err)
{
    const struct iq_prompts *p = w->prompts;
    IQ_TRY(gather(p, session_of, &w->session, err));
    IQ_TRY(gather(p, prompt_of, &w->prompt, err));
    IQ_TRY(gather(p, temperature_of, &w->temperature, err));
    IQ_TRY(gather(p, top_k_of, &w->top_k, err));
    IQ_TRY(gather(p, top_p_of, &w->top_p, err));
    IQ_TRY(gather(p, min_p_of, &w->min_p, err));
    IQ_TRY(gather(p, seed_of, &w->seed, err));
    IQ_TRY(gather(p, arrived_of, &w->arrived, err));
    w->context = longest(p);
    w->temper = w->uses.mask = w->uses.adapters = false;
    for (uint32_t i = 0; i < p->n; i++) {
        w->temper |= p->request[i].temperature != 0 && p->request[i].temperature != 1;
        w->uses.mask |= p->request[i].constraint != NULL;
        w->uses.adapters |= p->request[i].adapter != NULL;
    }
    return IQ_OK;
}

int iq_plan_world_open(const struct iq_settings *settings, const struct iq_model_config *model,
                       const struct iq_prompts *prompts, struct iq_plan_world *w, struct iq_err *err)
{
    *w = (struct iq_plan_world){
        .settings = settings, .model = model, .prompts = prompts, .temper = true, .uses = {true, true, true}};
    w->context = settings->positions              ? settings->positions
                 : model && model->context < 8192 ? model->context
                                                  : 8192;
    if (!settings->positions && !model) w->context = UINT32_MAX;
    int status = prompts ? take_prompts(w, err) : IQ_OK;
    /* Where no prompt is known, the neighbours of a run that has nothing but its model. */
    if (model) iq_graph_neighbours(model, prompts ? w->uses : (struct iq_uses){0}, w->prev, w->next);
    if (status != IQ_OK) iq_plan_world_close(w);
    return status;
}

void iq_plan_world_close(struct iq_plan_world *w)
{
    free(w->session.v), free(w->prompt.v), free(w->temperature.v), free(w->top_k.v);
    free(w->top_p.v), free(w->min_p.v), free(w->seed.v), free(w->arrived.v);
    *w = (struct iq_plan_world){0};
}

/* ---- ops ---- */

static bool in_layers(enum iq_op_id op)
{
    return op == IQ_OP_WEIGHTS || (op >= IQ_OP_ATTN_NORM && op <= IQ_OP_FFN_ADD);
}
static bool in_head(enum iq_op_id op) { return op >= IQ_OP_FINAL_NORM && op <= IQ_OP_SAMPLE; }

/* Control ops that only some settings need. */
static const char *control_lacks(const struct iq_settings *s, enum iq_op_id op)
{
    if (op == IQ_OP_PLACE && !s->long_factor) return "there is one pool (--long-factor)";
    if (op == IQ_OP_KV_EVICT && !s->prefix_cache) return "the prefix cache is off";
    if (op == IQ_OP_KV_LAND && !(s->prefix_cache && s->remote_kv))
        return "prefixes are not remote (--remote-kv, and the prefix cache on)";
    if ((op == IQ_OP_DRAFT || op == IQ_OP_ACCEPT || op == IQ_OP_ROLLBACK) && !s->speculate)
        return "nothing is drafted (--speculate)";
    if (op == IQ_OP_KV_MOVE && !s->defragment) return "KV blocks are never moved (--defragment)";
    return NULL;
}

bool iq_plan_world_has(const struct iq_plan_world *w, enum iq_op_id op, const char **why)
{
    *why = op >= IQ_OPS ? control_lacks(w->settings, op) : NULL;
    if (op >= IQ_OPS) return !*why;
    const struct iq_uses all = {true, true, true};
    if (w->model && !iq_graph_has(w->model, all, op))
        *why = op == IQ_OP_Q_NORM || op == IQ_OP_K_NORM ? "the model has no norms of q and k"
               : w->model->experts                      ? "the model is a mixture of experts"
                                                        : "the model has no experts";
    if (op == IQ_OP_PREFIX && !w->settings->prefix_cache) *why = "the prefix cache is off";
    if (op == IQ_OP_MASK && !w->uses.mask) *why = "no prompt has bad_words or allowed";
    if (!strcmp(iq_op_kind(op)->name, "lora") && !w->uses.adapters) *why = "no prompt has an adapter";
    if (op == IQ_OP_TEMPER && !w->temper) *why = "every prompt has a temperature of 0 or 1";
    return !*why;
}

static uint32_t ranks_of(const struct iq_plan_world *w, enum iq_op_id op)
{
    switch (op) {
    case IQ_OP_QKV:
    case IQ_OP_ATTENTION:
    case IQ_OP_ATTN_OUT:
    case IQ_OP_GATE_UP:
    case IQ_OP_DOWN:
        return w->settings->tp;
    case IQ_OP_EXPERT_GATE_UP:
    case IQ_OP_EXPERT_DOWN:
        return w->settings->expert_parallel;
    default:
        return 1;
    }
}

/* ---- fields ---- */

__attribute__((format(printf, 4, 5))) static void range(struct iq_domain *d, uint64_t lo, uint64_t hi,
                                                        const char *why, ...)
{
    va_list ap;
    *d = iq_domain_range(lo, hi);
    va_start(ap, why);
    vsnprintf(d->why, sizeof d->why, why, ap);
    va_end(ap);
}

static void values(struct iq_domain *d, const struct iq_world_values *v)
{
    *d = iq_domain_set(v->v, v->n);
    snprintf(d->why, sizeof d->why, "the prompts");
}

struct asked {
    struct iq_plan_world *w;
    const struct iq_settings *s;
    enum iq_op_id op;
    struct iq_domain *d;
    uint64_t requests, batch; /* most of both; UINT32_MAX: nobody knows */
};

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static void batch_range(const struct asked *a)
{
    if (a->batch < a->s->batch)
        range(a->d, 1, a->batch, "%u prompts", a->w->prompts->n);
    else
        range(a->d, 1, a->batch, "--batch %u", a->s->batch);
}

/* Rows of a step: longest prompt or chunk, 512, or a batch; whichever is most. */
static uint64_t most_tokens(const struct asked *a)
{
    const struct iq_world_values *p = &a->w->prompt;
    uint64_t chunk = a->s->chunk ? a->s->chunk : a->w->prompts && p->n ? p->v[p->n - 1] : a->w->context;
    uint64_t rows = chunk > 512 ? chunk : 512;
    return rows > a->s->batch ? rows : a->s->batch;
}

static bool step_field(const struct asked *a, const char *name)
{
    const struct iq_settings *s = a->s;
    struct iq_domain *d = a->d;
    struct iq_engine_config c;
    iq_settings_engine(s, &c);
    const struct {
        const char *name;
        uint64_t lo, hi;
        const char *why;
    } plain[] = {
        {"tp", s->tp, s->tp, "--tp"},
        {"expert_parallel", s->expert_parallel, s->expert_parallel, "--expert-parallel"},
        {"max_batch", s->batch, s->batch, "--batch"},
        {"chunk", s->chunk, s->chunk, "--chunk"},
        {"tracing", c.level >= IQ_LEVEL_OPS, c.level >= IQ_LEVEL_OPS, "--level"},
        {"dtype", c.act, c.act, "--dtype"},
        {"profile", s->products, s->products, "--products"},
        {"block_size", IQ_KV_BLOCK, IQ_KV_BLOCK, ""},
        {"hour", 0, 23, ""},
        {"tokens", 1, most_tokens(a),
         s->chunk        ? "--chunk"
         : a->w->prompts ? "the prompts"
                         : ""},
        {"running", 1, a->batch, "--batch"},
        {"shortest", 1, a->w->context, a->w->prompts ? "the prompts" : ""},
        {"longest", 1, a->w->context, a->w->prompts ? "the prompts" : ""},
        {"waiting", 0, a->requests - 1, "the prompts"},
        {"concurrency", 1, a->requests, "the prompts"},
        {"started", 1, a->requests, "the prompts"},
        {"finished", 0, a->requests - 1, "the prompts"},
        {"padding", 0, s->captured ? 7 : 0, s->captured ? "--captured" : "no --captured"},
    };
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (!strcmp(plain[i].name, name)) return range(d, plain[i].lo, plain[i].hi, "%s", plain[i].why), true;
    if (!strcmp(name, "batch") || (!strcmp(name, "captured") && !s->captured))
        batch_range(a);
    else if (!strcmp(name, "captured"))
        range(d, 1, iq_engine_captured((uint32_t)least(a->batch * (1 + s->speculate), most_tokens(a))),
              "--captured with --batch %u", s->batch);
    else if ((!strcmp(name, "hits") || !strcmp(name, "hit_tokens") || !strcmp(name, "evictions")) &&
             !s->prefix_cache)
        range(d, 0, 0, "no prefix cache");
    else if (!strcmp(name, "kv_blocks") && s->kv_blocks)
        range(d, s->kv_blocks, s->kv_blocks, "--kv-blocks");
    else if (!strcmp(name, "moves") && !s->defragment)
        range(d, 0, 0, "no --defragment");
    else if (!strcmp(name, "kv_free") && s->kv_blocks)
        range(d, 0, s->kv_blocks, "--kv-blocks");
    else
        return false;
    return true;
}

/* Neighbours in the head depend on what the step's rows ask for. */
static void neighbour(const struct asked *a, bool before)
{
    struct iq_plan_world *w = a->w;
    enum iq_op_id known = before ? w->prev[a->op] : w->next[a->op];
    size_t n = 0;
    if (in_head(a->op) && a->op != IQ_OP_FINAL_NORM) {
        for (uint64_t op = IQ_OP_LM_HEAD; op <= IQ_OP_SAMPLE; op++)
            if (op != a->op && (op != IQ_OP_TEMPER || w->temper) && (op != IQ_OP_MASK || w->uses.mask))
                w->neighbour[n++] = op;
        if (before && a->op == IQ_OP_LM_HEAD) w->neighbour[0] = IQ_OP_FINAL_NORM, n = 1;
        if (!before && a->op == IQ_OP_SAMPLE) n = 0;
        *a->d = iq_domain_set(w->neighbour, n);
    } else if (a->op == IQ_OP_PREFIX)
        *a->d = before ? iq_domain_nothing() : iq_domain_range(IQ_OP_EMBED, IQ_OP_EMBED);
    else if (w->model)
        *a->d = (unsigned)known == IQ_OP_NONE ? iq_domain_nothing() : iq_domain_range(known, known);
}

static bool place_field(const struct asked *a, const char *name)
{
    struct iq_domain *d = a->d;
    uint32_t ranks = ranks_of(a->w, a->op);
    if (!strcmp(name, "op"))
        *d = iq_domain_range(a->op, a->op);
    else if (!strcmp(name, "layer") && !in_layers(a->op)) {
        *d = iq_domain_nothing();
        snprintf(d->why, sizeof d->why, "%s lies outside the layers", iq_op_name(a->op));
    } else if (!strcmp(name, "layer") && a->w->model) {
        range(d, 0, a->w->model->layers - 1, "the model has %u layers", a->w->model->layers);
        d->none = a->op == IQ_OP_WEIGHTS; /* a part lies outside the layers */
    } else if (!strcmp(name, "rank"))
        range(d, 0, ranks - 1, "%u rank%s of %s", ranks, ranks == 1 ? "" : "s", iq_op_name(a->op));
    else if (!strcmp(name, "prev_op") || !strcmp(name, "next_op"))
        neighbour(a, name[0] == 'p');
    else if (!strcmp(name, "device")) {
        bool there = a->s->device && iq_variant_find(iq_op_kind(a->op)->name, "cuda");
        range(d, there, there, "--device");
    } else if (!strcmp(name, "rows") && a->op == IQ_OP_PREFIX)
        range(d, 1, 1, "one request a call");
    else if (!strcmp(name, "rows"))
        range(d, 1, most_tokens(a), "%s", a->s->chunk ? "--chunk" : "");
    else
        return false;
    return true;
}

/* What every prompt's request has, in the step or beside the row. */
static bool prompt_field(const struct asked *a, const char *name)
{
    const struct iq_plan_world *w = a->w;
    const struct {
        const char *name;
        const struct iq_world_values *v;
    } of[] = {{"session", &w->session}, {"prompt", &w->prompt}, {"temperature", &w->temperature},
              {"top_k", &w->top_k},     {"top_p", &w->top_p},   {"min_p", &w->min_p},
              {"seed", &w->seed}};
    const char *own = strncmp(name, "others_", 7) ? name : name + 7;
    if (own != name && a->batch == 1) return *a->d = iq_domain_nothing(), true;
    for (size_t i = 0; w->prompts && i < sizeof of / sizeof *of; i++)
        if (!strcmp(of[i].name, own)) {
            values(a->d, of[i].v);
            if (own != name) a->d->none = true;
            return true;
        }
    if (!strcmp(own, "temperature"))
        range(a->d, iq_domain_float(0), iq_domain_float(100), "what a request may ask for");
    else if (!strcmp(own, "top_p") || !strcmp(own, "min_p"))
        range(a->d, iq_domain_float(0), iq_domain_float(1), "what a request may ask for");
    else
        return false;
    a->d->none = own != name;
    return true;
}

static bool row_field(const struct asked *a, const char *name)
{
    const struct iq_plan_world *w = a->w;
    const char *prompts = w->prompts ? "the prompts" : "";
    uint64_t context = w->context, first = in_head(a->op) && w->prompts && w->prompt.n ? w->prompt.v[0] : 1;
    bool prefix = a->op == IQ_OP_PREFIX, scored = false;
    for (uint32_t i = 0; w->prompts && i < w->prompts->n; i++) scored |= w->prompts->request[i].score;
    if (scored) first = 1;
    const struct {
        const char *name;
        uint64_t lo, hi;
        const char *why;
    } plain[] = {
        {"request", 0, a->requests - 1, prompts},
        {"ordinal", 0, a->requests - 1, prompts},
        {"pos", prefix ? 0 : first - 1, prefix ? 0 : context - 1, prompts},
        {"context", prefix ? 1 : first, context, prompts},
        {"cached", 0, a->s->prefix_cache && !prefix ? context : 0,
         a->s->prefix_cache ? prompts : "no prefix cache"},
        {"generated", 0, context - 1, prompts},
        {"splits", 1, (context + IQ_KEY_CHUNK - 1) / IQ_KEY_CHUNK, prompts},
        {"session_hash", 0, UINT32_MAX, ""},
        {"pool", 0, a->s->long_factor ? 1 : 0, a->s->long_factor ? "--long-factor" : "no --long-factor"},
        {"others", 0, prefix ? 0 : a->batch - 1, "--batch"},
        {"row", 0, prefix ? 0 : most_tokens(a) - 1, ""},
        {"draft", 0, a->s->speculate, a->s->speculate ? "--speculate" : "no --speculate"},
        {"share", 1, most_tokens(a), ""},
    };
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (!strcmp(plain[i].name, name))
            return range(a->d, plain[i].lo, plain[i].hi, "%s", plain[i].why), true;
    if (!strcmp(name, "phase") && prefix) return range(a->d, IQ_PREFILL, IQ_PREFILL, "a lookup"), true;
    if (!strcmp(name, "arrived_ms") && w->prompts && !a->s->arrivals) return values(a->d, &w->arrived), true;
    return prompt_field(a, name);
}

static void domain(void *self, enum iq_op_id op, const char *name, struct iq_domain *out)
{
    struct iq_plan_world *w = self;
    struct asked a = {.w = w, .s = w->settings, .op = op, .d = out};
    if (op >= IQ_OPS) { /* training tells of none of it, and of decisions little is known before */
        if (!strcmp(name, "op")) *out = iq_domain_range(op, op);
        bool nowhere = !strcmp(name, "layer") || !strcmp(name, "prev_op") || !strcmp(name, "next_op");
        if (nowhere && iq_op_is_control(op)) *out = iq_domain_nothing();
        return;
    }
    a.requests = w->prompts ? w->prompts->n : UINT32_MAX;
    a.batch = least(a.requests, w->settings->batch);
    if (!strncmp(name, "arg.", 4))
        iq_plan_world_operand(w, op, name + 4, out);
    else if (!place_field(&a, name) && !row_field(&a, name))
        step_field(&a, name);
}

static bool forward(void *self, enum iq_op_id op)
{
    (void)self;
    return op != IQ_OP_PREFIX && op < IQ_OPS;
}

struct iq_world iq_plan_world_view(struct iq_plan_world *w)
{
    return (struct iq_world){.self = w, .domain = domain, .forward = forward};
}
