#include "tests/engine/rig.h"

#include "kernels/base/rng.h"
#include "tests/files/scratch.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t iq_rig_draw(uint64_t seed, uint64_t i) { return iq_draw(seed, i, IQ_DRAW_DATA); }

uint64_t iq_rig_seed(void)
{
    const char *s = getenv("IQ_TEST_SEED");
    return s ? strtoull(s, NULL, 0) : 20261130;
}

uint32_t iq_rig_only_case(void)
{
    const char *s = getenv("IQ_TEST_CASE");
    return s ? (uint32_t)strtoul(s, NULL, 0) : UINT32_MAX;
}

const char *iq_rig_real_model(void)
{
    const char *path = getenv("IQ_TEST_MODEL");
    if (path && *path) return path;
    printf("skipped: IQ_TEST_MODEL does not name SmolLM2-135M-Instruct.Q4_1.gguf\n");
    exit(77);
}

struct iq_model *iq_rig_model(const char *path, uint32_t tp) { return iq_rig_model_experts(path, tp, 1); }

struct iq_model *iq_rig_model_experts(const char *path, uint32_t tp, uint32_t expert_parallel)
{
    const struct iq_model_options o = {
        .tp = tp, .expert_parallel = expert_parallel, .threads = 2, .weights = true};
    struct iq_err err = {0};
    struct iq_model *m;
    int status = iq_kernels_register(&err);
    if (status == IQ_OK) status = iq_model_open(path, &o, &m, &err);
    ck_assert_msg(status == IQ_OK, "%s", err.text);
    return m;
}

/* ---- references ---- */

const char *iq_rig_data(const char *name)
{
    static char path[4096];
    const char *dir = getenv("IQ_TEST_DATA");
    snprintf(path, sizeof path, "%s/%s", dir ? dir : "tests/data", name);
    return path;
}

uint32_t iq_rig_lines(const char *name, cJSON **line, uint32_t most)
{
    struct iq_err err = {0};
    size_t len;
    uint32_t n = 0;
    char *text = iq_slurp(iq_rig_data(name), &len);
    for (char *at = strtok(text, "\n"); at && n < most; at = strtok(NULL, "\n"), n++)
        ck_assert_msg(iq_json_parse(at, strlen(at), name, &line[n], &err) == IQ_OK, "%s", err.text);
    free(text);
    return n;
}

double iq_rig_number(const cJSON *list, int i) { return cJSON_GetArrayItem(list, i)->valuedouble; }

/* ---- requests ---- */

static uint32_t below(uint64_t draw, uint32_t n) { return n ? (uint32_t)(draw % n) : 0; }

static void sampling(uint64_t seed, struct iq_request *r)
{
    static const float temperatures[] = {0, 0.3f, 1, 1.7f}, top_ps[] = {1, 0.9f, 0.5f}, min_ps[] = {0, 0.05f};
    static const uint32_t top_ks[] = {0, 1, 5, 40};
    r->temperature = temperatures[below(iq_rig_draw(seed, 0), 4)];
    r->top_p = top_ps[below(iq_rig_draw(seed, 1), 3)];
    r->min_p = min_ps[below(iq_rig_draw(seed, 2), 2)];
    r->top_k = top_ks[below(iq_rig_draw(seed, 3), 4)];
    r->seed = iq_rig_draw(seed, 4);
}

struct iq_rig_set iq_rig_set_make(uint64_t seed, const struct iq_rig_shape *s)
{
    enum { STEMS = 3 };
    struct iq_rig_set set = {.n = s->n};
    set.request = calloc(s->n, sizeof *set.request);
    set.tokens = calloc((size_t)s->n * s->longest, sizeof *set.tokens);
    set.id = calloc(s->n, sizeof *set.id);
    for (uint32_t i = 0; i < s->n; i++) {
        uint64_t own = iq_rig_draw(seed, 1000 + i);
        uint32_t *t = set.tokens + (size_t)i * s->longest, stem = below(iq_rig_draw(own, 0), STEMS);
        uint32_t shared = s->stem / 2 + below(iq_rig_draw(own, 1), s->stem / 2 + 1),
                 len = 1 + below(iq_rig_draw(own, 2), s->longest);
        for (uint32_t p = 0; p < len; p++)
            t[p] = below(p < shared ? iq_rig_draw(seed + 1 + stem, p) : iq_rig_draw(own, 10 + p), s->vocab);
        /* A third of the prompts leave their stem by one token: not the same prefix from there on. */
        if (iq_rig_draw(own, 4) % 3 == 0 && shared) {
            uint32_t *odd = &t[below(iq_rig_draw(own, 5), shared < len ? shared : len)];
            *odd = (*odd + 1) % s->vocab;
        }
        snprintf(set.id[i], sizeof set.id[i], "r%u", i);
        set.request[i] =
            (struct iq_request){.index = i,
                                .id = set.id[i],
                                .params = "{}",
                                .prompt = t,
                                .n_prompt = len,
                                .max_tokens = s->answer / 2 + below(iq_rig_draw(own, 3), s->answer / 2 + 1),
                                .top_p = 1};
        if (s->sampled) sampling(own, &set.request[i]);
    }
    return set;
}

void iq_rig_set_free(struct iq_rig_set *s)
{
    free(s->request);
    free(s->tokens);
    free(s->id);
    *s = (struct iq_rig_set){0};
}

/* ---- a run ---- */

static int on_row(void *self, const struct iq_cell *cell, struct iq_digest d, const void *bytes, size_t n)
{
    struct iq_rig *g = self;
    return g->also.row ? g->also.row(g->also.self, cell, d, bytes, n) : IQ_OK;
}

static int on_position(void *self, const struct iq_position *p)
{
    struct iq_rig *g = self;
    if (p->state == IQ_CELL_COMPUTED && p->batch > g->seen.batch) g->seen.batch = p->batch;
    return g->also.position ? g->also.position(g->also.self, p) : IQ_OK;
}

static int on_fired(void *self, const struct iq_firing *f)
{
    struct iq_rig *g = self;
    g->seen.fired++;
    g->seen.rows += f->rows;
    g->seen.changed += f->rows_changed;
    if (f->batch < 64) g->seen.batches_fired[f->batch]++;
    return g->also.fired ? g->also.fired(g->also.self, f) : IQ_OK;
}

static int on_done(void *self, const struct iq_request_end *e)
{
    struct iq_rig *g = self;
    return g->also.done ? g->also.done(g->also.self, e) : IQ_OK;
}

static void look(struct iq_rig *g, const struct iq_site *site)
{
    bool prefill = false, decode = false;
    g->seen.tempered += site->op == IQ_OP_TEMPER;
    if (site->op != IQ_OP_EMBED) return; /* once a step, and with all its rows */
    g->seen.clock_us = site->step->clock_us;
    g->seen.padded += site->step->captured > site->step->batch;
    for (uint32_t r = 0; r < site->rows; r++) {
        const struct iq_row *row = &site->row[r];
        prefill |= row->phase == IQ_PREFILL;
        decode |= row->phase == IQ_DECODE;
        bool starts = r == 0 || site->row[r - 1].request != row->request;
        if (starts && row->phase == IQ_PREFILL && row->pos > row->cached && !row->attempt) g->seen.chunks++;
    }
    g->seen.mixed += prefill && decode;
}

static int on_pick(void *self, const struct iq_site *site, const void *args, struct iq_pick out[IQ_PICKS])
{
    struct iq_rig *g = self;
    look(g, site);
    if (!g->faults || !g->faults->may_strike(g->faults->self, (enum iq_op_id)site->op)) return 0;
    return g->faults->pick(g->faults->self, site, args, out);
}

static bool always(void *self, enum iq_op_id op)
{
    (void)self, (void)op;
    return true;
}

void iq_rig_open(struct iq_rig *g, const struct iq_model *m, const struct iq_engine_config *config,
                 const struct iq_request *request, uint32_t n, const struct iq_selector *faults, bool watch)
{
    struct iq_err err = {0};
    *g = (struct iq_rig){.request = request, .n = n, .faults = faults};
    g->sink = (struct iq_sink){g, on_row, on_position, on_fired, on_done};
    g->spy = (struct iq_selector){g, on_pick, always};
    int status = iq_engine_open(m, config, request, n, &g->engine, &err);
    ck_assert_msg(status == IQ_OK, "%s", err.text);
    iq_engine_record(g->engine, &g->sink);
    iq_engine_arm(g->engine, watch ? &g->spy : faults);
}

void iq_rig_go(struct iq_rig *g)
{
    struct iq_err err = {0};
    int status = IQ_OK;
    for (bool more = true; more && status == IQ_OK;) status = iq_engine_step(g->engine, &more, &err);
    ck_assert_msg(status == IQ_OK, "%s", err.text);
}

void iq_rig_run(struct iq_rig *g, const struct iq_model *m, const struct iq_engine_config *config,
                const struct iq_request *request, uint32_t n, const struct iq_selector *faults, bool watch)
{
    iq_rig_open(g, m, config, request, n, faults, watch);
    iq_rig_go(g);
}

void iq_rig_close(struct iq_rig *g)
{
    iq_engine_close(g->engine);
    g->engine = NULL;
}

const struct iq_output *iq_rig_output(const struct iq_rig *g, uint32_t i)
{
    return iq_engine_output(g->engine, i);
}

/* ---- comparing ---- */

/* What a position predicted; where it was computed is its run's own affair. */
static bool position_same(const struct iq_position *a, const struct iq_position *b)
{
    if (!iq_digest_equal(a->body, b->body) || a->token != b->token || a->has_logits != b->has_logits)
        return false;
    if (!a->has_logits) return true;
    return a->next == b->next && iq_digest_equal(a->logits, b->logits) &&
           iq_digest_equal(a->candidates, b->candidates) && !memcmp(a->top_id, b->top_id, sizeof a->top_id) &&
           !memcmp(a->top_logit, b->top_logit, sizeof a->top_logit) && !memcmp(&a->margin, &b->margin, 4) &&
           !memcmp(&a->tail, &b->tail, 4);
}

bool iq_rig_same(const struct iq_rig *a, uint32_t i, const struct iq_rig *b, uint32_t j, char why[256])
{
    const struct iq_output *x = iq_rig_output(a, i), *y = iq_rig_output(b, j);
    uint32_t top = x->top < y->top ? x->top : y->top, made = x->n_ids - x->n_prompt;
    why[0] = 0;
    for (uint32_t p = 0; p < x->positions && p < y->positions; p++)
        if (!position_same(&x->position[p], &y->position[p])) {
            snprintf(why, 256,
                     "position %u of %u (prompt %u): body %s, logits %s, attempt %u and %u, batch %u and %u",
                     p, x->positions, x->n_prompt,
                     iq_digest_equal(x->position[p].body, y->position[p].body) ? "equal" : "differs",
                     iq_digest_equal(x->position[p].logits, y->position[p].logits) ? "equal" : "differ",
                     x->position[p].attempt, y->position[p].attempt, x->position[p].batch,
                     y->position[p].batch);
            return false;
        }
    if (x->n_ids != y->n_ids || memcmp(x->ids, y->ids, x->n_ids * sizeof *x->ids) ||
        strcmp(x->finish, y->finish))
        snprintf(why, 256, "tokens: %u ids (%s) and %u ids (%s)", x->n_ids, x->finish, y->n_ids, y->finish);
    else if (x->positions != y->positions || !iq_digest_equal(x->chain, y->chain))
        snprintf(why, 256, "chain over %u and %u positions", x->positions, y->positions);
    for (uint32_t s = 0; s < made && !why[0]; s++)
        if (memcmp(x->top_id + (size_t)s * x->top, y->top_id + (size_t)s * y->top, top * sizeof *x->top_id) ||
            memcmp(x->top_logit + (size_t)s * x->top, y->top_logit + (size_t)s * y->top,
                   top * sizeof *x->top_logit))
            snprintf(why, 256, "candidates of step %u", s);
    return !why[0];
}

uint32_t iq_rig_differing(const struct iq_rig *a, const struct iq_rig *b)
{
    char why[256];
    uint32_t n = 0;
    for (uint32_t j = 0; j < b->n; j++)
        for (uint32_t i = 0; i < a->n; i++)
            if (a->request[i].index == b->request[j].index) n += !iq_rig_same(a, i, b, j, why);
    return n;
}

/* ---- errors against exact arithmetic ---- */

static double log2_ceil(double n) { return n > 1 ? ceil(log2(n)) : 0; }

/* Roundings on the longest path of one product over k columns in units of `unit`: a chain, then trees. */
static double product(double k, double unit)
{
    double chain = k < 128 ? k : 128;
    return chain + log2_ceil(unit / 128) + log2_ceil(k / unit);
}

/* On the longest path to the residual row after `layers` layers at a position that sees `keys` keys. */
double iq_rig_roundings(const struct iq_model_config *c, double layers, double keys)
{
    double group = c->heads / c->kv_heads * (double)c->head_dim, seen = keys < 256 ? keys : 256;
    double norm = c->hidden / 32.0 + 5 + 6;
    double scores = product(c->head_dim, c->head_dim) + 1 + 2; /* scale; subtract, exp */
    double attention = scores + seen + 3 * ceil(keys / 256) + 1;
    double block =
        norm + product(c->hidden, 128) + 3 + attention + product(c->heads * (double)c->head_dim, group) + 1;
    double ffn = norm + product(c->hidden, 128) + 4 + product(c->ffn, 128) + 1;
    if (c->experts)
        ffn += product(c->hidden, 128) + 2 + c->active + 1 + c->active; /* router, weights, combine */
    return layers * (block + ffn);
}

double iq_rig_bound(double roundings) { return 2 * sqrt(roundings) * 0x1p-24; }

double iq_rig_logit_bound(const struct iq_model_config *c, double keys, double largest)
{
    double n = iq_rig_roundings(c, c->layers, keys) + c->hidden / 32.0 + 11 + product(c->hidden, 128);
    return iq_rig_bound(n) * largest;
}
