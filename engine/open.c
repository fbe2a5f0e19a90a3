/* Opening and closing an engine: requests are checked, memory is sized by them. */
#include "engine/engine_state.h"
#include "kernels/cuda/products.h"
#include "kernels/ops/mask.h"

#include <stdlib.h>
#include <string.h>

enum { BUDGET = 512, SCORE_ROWS = 32 }; /* rows of a step; rows in a step of one prompt that is scored */

static uint32_t longest(const struct iq_request *r) { return iq__engine_prompt(r) + r->max_tokens; }

static int check_words(const struct iq_engine *e, const struct iq_request *r, const struct iq_words *w,
                       const char *field, struct iq_err *err)
{
    uint32_t vocab = e->model->config.vocab;
    for (uint32_t i = 0; i < w->n; i++) {
        if (w->first[i] == w->first[i + 1])
            return iq_fail(err, IQ_USAGE, "request %s: %s %u has no tokens", r->id, field, i);
        for (uint32_t t = w->first[i]; t < w->first[i + 1]; t++)
            if (w->ids[t] >= vocab)
                return iq_fail(err, IQ_LIMIT, "request %s: %s %u has token %u; the vocabulary has %u", r->id,
                               field, i, w->ids[t], vocab);
    }
    return IQ_OK;
}

static int check_adapter(const struct iq_engine *e, const struct iq_request *r, struct iq_err *err)
{
    const char *device = e->config.device;
    if (!r->adapter || !device || !strcmp(device, "cpu")) return IQ_OK;
    return iq_fail(err, IQ_UNSUPPORTED,
                   "request %s: adapters are not built for --device %s; use --device cpu", r->id, device);
}

static int check_constraint(const struct iq_engine *e, const struct iq_request *r, struct iq_err *err)
{
    const char *device = e->config.device;
    if (!r->constraint) return IQ_OK;
    if (device && strcmp(device, "cpu"))
        return iq_fail(err, IQ_UNSUPPORTED,
                       "request %s: bad_words and allowed are not built for --device %s; use --device cpu",
                       r->id, device);
    IQ_TRY(check_words(e, r, &r->constraint->bad, "bad_words", err));
    return check_words(e, r, &r->constraint->allowed, "allowed", err);
}

static int check_request(const struct iq_engine *e, const struct iq_request *r, struct iq_err *err)
{
    const struct iq_model *m = e->model;
    if (!r->n_prompt) return iq_fail(err, IQ_USAGE, "request %s: the prompt has no tokens", r->id);
    uint32_t prompt = iq__engine_prompt(r);
    if (prompt > m->positions || r->max_tokens > m->positions - prompt)
        return iq_fail(err, IQ_LIMIT,
                       "request %s: %u prompt tokens and %u to generate; this model is open for %u positions",
                       r->id, prompt, r->max_tokens, m->positions);
    if (r->special > r->n_prompt || (r->truncate && r->truncate <= r->special))
        return iq_fail(
            err, IQ_USAGE,
            "request %s: truncate: found %u, expected more than the %u tokens that open its prompt", r->id,
            r->truncate, r->special);
    for (uint32_t i = 0; i < r->n_prompt; i++)
        if (r->prompt[i] >= m->config.vocab)
            return iq_fail(err, IQ_LIMIT, "request %s: prompt token %u is %u; the vocabulary has %u", r->id,
                           i, r->prompt[i], m->config.vocab);
    if (!(r->temperature >= 0 && r->temperature <= 100) || !(r->top_p > 0 && r->top_p <= 1) ||
        !(r->min_p >= 0 && r->min_p <= 1))
        return iq_fail(err, IQ_USAGE,
                       "request %s: temperature %g, top_p %g, min_p %g; expected 0 to 100, (0, 1], [0, 1]",
                       r->id, (double)r->temperature, (double)r->top_p, (double)r->min_p);
    IQ_TRY(check_adapter(e, r, err));
    return check_constraint(e, r, err);
}

/* Sizes that follow from the requests: the longest, all that are scored, the largest top_k. */
static int survey(struct iq_engine *e, uint32_t *blocks, struct iq_err *err)
{
    uint32_t most = 0, needed = 0, top_k = 0, longest_prompt = 0;
    bool scored = false;
    for (uint32_t i = 0; i < e->n; i++) {
        const struct iq_request *r = &e->request[i];
        IQ_TRY(check_request(e, r, err));
        scored |= r->score;
        e->uses.mask |= r->constraint != NULL;
        e->uses.adapters |= r->adapter != NULL;
        if (longest(r) > most) most = longest(r);
        if (r->top_k > top_k) top_k = r->top_k;
        if (iq__engine_prompt(r) > longest_prompt) longest_prompt = iq__engine_prompt(r);
    }
    needed = (most + IQ_KV_BLOCK - 1) / IQ_KV_BLOCK;
    *blocks = e->config.kv_blocks ? e->config.kv_blocks
                                  : needed * (e->config.batch < e->n ? e->config.batch : e->n);
    if (!e->config.kv_blocks && e->config.prefix_cache)
        *blocks *= 2;          /* room for prefixes that nobody holds */
    if (!*blocks) *blocks = 1; /* no requests at all */
    if (*blocks < needed)
        return iq_fail(err, IQ_LIMIT, "--kv-blocks %u: the longest request needs %u blocks of %u positions",
                       *blocks, needed, IQ_KV_BLOCK);
    uint32_t vocab = e->model->config.vocab, k = e->config.top > top_k ? e->config.top : top_k;
    if (k < IQ_TOP) k = IQ_TOP;
    e->forward.k = k < vocab ? k : vocab;
    e->config.top = e->forward.k;
    uint32_t rows = e->config.chunk ? e->config.chunk : longest_prompt;
    if (rows < BUDGET) rows = BUDGET;
    if (rows < e->config.batch) rows = e->config.batch;
    e->schedule.budget = rows;
    /* Rows that predict in a step of decodes: each request's last token and its drafts. */
    uint32_t decodes = e->config.batch * (1 + e->config.speculate);
    if (decodes > rows) decodes = rows;
    uint32_t padded = e->config.captured ? iq_engine_captured(decodes) : decodes;
    if (padded < e->config.riders) padded = e->config.riders;
    e->forward.max_rows = rows > padded ? rows : padded;
    e->forward.max_predicts = scored ? e->config.batch * SCORE_ROWS : padded;
    if (e->forward.max_predicts < padded) e->forward.max_predicts = padded;
    e->forward.max_seqs = padded;
    e->forward.max_blocks = needed * e->config.batch;
    e->forward.max_context = most;
    e->schedule.score_chunk = SCORE_ROWS;
    return IQ_OK;
}

static int open_seats(struct iq_engine *e, struct iq_err *err)
{
    struct iq_schedule *s = &e->schedule;
    s->seat = calloc(e->n ? e->n : 1, sizeof *s->seat);
    s->running = calloc(e->config.batch, sizeof(struct iq_seat *));
    s->share = calloc(e->config.batch, sizeof *s->share);
    s->lineup = calloc(e->config.batch, sizeof(struct iq_seat *));
    s->form_seat = calloc(e->config.batch, sizeof *s->form_seat);
    s->pick = calloc(e->config.batch, sizeof *s->pick);
    s->event = calloc(2 * (size_t)e->config.batch, sizeof *s->event);
    if (!s->seat || !s->running || !s->share || !s->event || !s->lineup || !s->form_seat || !s->pick)
        return iq_fail(err, IQ_MEMORY, "no memory for %u requests", e->n);
    s->n = e->n;
    for (uint32_t i = 0; i < e->n; i++) {
        struct iq_seat *seat = &s->seat[i];
        const struct iq_request *r = &e->request[i];
        size_t most = longest(r), blocks = (most + IQ_KV_BLOCK - 1) / IQ_KV_BLOCK;
        *seat = (struct iq_seat){.asked = r,
                                 .request = &seat->own,
                                 .own = *r,
                                 .index = r->index,
                                 .n_ids = iq__engine_prompt(r),
                                 .finish = ""};
        seat->ids = calloc((size_t)r->n_prompt + r->max_tokens, sizeof *seat->ids);
        seat->blocks = calloc(blocks, sizeof *seat->blocks);
        seat->key = calloc(blocks, sizeof *seat->key);
        seat->draft = calloc(e->config.speculate + 1, sizeof *seat->draft);
        seat->chosen = calloc(e->config.speculate + 1, sizeof *seat->chosen);
        seat->position = calloc(most, sizeof *seat->position);
        if (!e->config.untraced) seat->kv = calloc(most, sizeof *seat->kv);
        seat->top_id = calloc((size_t)r->max_tokens * e->config.top + 1, sizeof *seat->top_id);
        seat->top_logit = calloc((size_t)r->max_tokens * e->config.top + 1, sizeof *seat->top_logit);
        if (r->score) seat->nll = calloc(r->n_prompt, sizeof *seat->nll);
        if (!seat->ids || !seat->blocks || !seat->key || !seat->position || !seat->draft || !seat->chosen ||
            !seat->top_id || !seat->top_logit || (!e->config.untraced && !seat->kv) ||
            (r->score && !seat->nll))
            return iq_fail(err, IQ_MEMORY, "no memory for request %s", r->id);
        memcpy(seat->ids, r->prompt, r->n_prompt * sizeof *seat->ids);
    }
    return IQ_OK;
}

/* Control ops run on the host whatever the device. */
static int set_golden(struct iq_engine *e, struct iq_err *err)
{
    for (int op = 0; op < IQ_OPS; op++) {
        const struct iq_kind *kind = iq_op_kind((enum iq_op_id)op);
        const struct iq_variant *v = e->cuda ? iq_variant_find(kind->name, "cuda") : NULL;
        IQ_TRY(iq_slots_golden(e->slots, v ? v : iq_variant_golden(kind->name, e->config.isa), err));
    }
    const char *products = e->config.products;
    if (!products) return IQ_OK;
    if (e->model->config.experts)
        return iq_fail(
            err, IQ_UNSUPPORTED,
            "products: \"%s\" is not built for experts, whose products are grouped; leave it at ieee",
            products);
    if (e->cuda) IQ_TRY(iq_cuda_products(e->cuda, products, err));
    const struct iq_variant *v =
        e->cuda ? iq_variant_products_cuda(products) : iq_variant_products(products, e->config.isa);
    if (!v) return iq_fail(err, IQ_NOT_FOUND, "products: \"%s\" is not known", products);
    return iq_slots_arithmetic(e->slots, v, err);
}

static int open_device(struct iq_engine *e, struct iq_err *err)
{
    const char *device = e->config.device;
    bool shim = device && !strcmp(device, "cuda-shim");
    if (!device || !strcmp(device, "cpu")) return IQ_OK;
    if (!shim && strcmp(device, "cuda"))
        return iq_fail(err, IQ_USAGE, "device: found \"%s\", expected cpu, cuda or cuda-shim", device);
    if (e->model->config.head_dim > IQ_CUDA_HEAD_DIM)
        return iq_fail(err, IQ_UNSUPPORTED,
                       "%s: heads of %u elements; its attention takes at most %d; use --device cpu", device,
                       e->model->config.head_dim, IQ_CUDA_HEAD_DIM);
    IQ_TRY(iq_cuda_open(shim, 0, &e->cuda, err));
    return iq_upload_open(e->model, e->cuda, &e->upload, err);
}

static int open_speculation(struct iq_engine *e, struct iq_err *err)
{
    const struct iq_engine_config *c = &e->config;
    if (!c->speculate)
        return c->draft ? iq_fail(err, IQ_USAGE, "a draft model guesses nothing without --speculate N")
                        : IQ_OK;
    if (e->uses.mask || e->uses.adapters || e->uses.weights)
        return iq_fail(err, IQ_UNSUPPORTED,
                       "--speculate with bad_words, allowed, adapters or weights that change is not built");
    e->guess = calloc(c->batch, sizeof *e->guess);
    e->guessed = calloc((size_t)c->batch * c->speculate, sizeof *e->guessed);
    if (!e->guess || !e->guessed) return iq_fail(err, IQ_MEMORY, "no memory for drafts");
    const struct iq_drafter_options o = {.model = c->draft,
                                         .target = e->model,
                                         .batch = c->batch,
                                         .longest = e->forward.max_context,
                                         .k = e->forward.k,
                                         .act = c->act,
                                         .isa = c->isa,
                                         .pool = e->pool};
    return c->draft ? iq_drafter_open(&e->drafter, &o, err) : IQ_OK;
}

static int open_parts(struct iq_engine *e, struct iq_err *err)
{
    const struct iq_model_config *c = &e->model->config;
    uint32_t blocks;
    IQ_TRY(survey(e, &blocks, err));
    e->uses.weights = e->config.events != 0;
    IQ_TRY(open_device(e, err));
    IQ_TRY(iq_pool_open((int)e->config.threads, &e->pool, err));
    uint32_t tp = e->model->tp, experts = e->model->expert_parallel;
    IQ_TRY(iq_slots_open(c->layers, tp > experts ? tp : experts, &e->slots, err));
    IQ_TRY(iq_slots_open_control(&e->control_slots, err));
    e->control = (struct iq_control){&e->forward.exec, e->control_slots, &e->step};
    IQ_TRY(set_golden(e, err));
    IQ_TRY(iq_graph_open(e->model, e->uses, e->config.level, e->slots, &e->graph, err));
    uint32_t spare = e->config.riders * ((e->forward.max_context + IQ_KV_BLOCK - 1) / IQ_KV_BLOCK);
    IQ_TRY(iq_kv_open(blocks, spare, c->layers, c->kv_heads, c->head_dim,
                      e->config.untraced ? 0 : e->graph.kepts, e->cuda, &e->kv, err));
    e->kv.control = &e->control;
    e->loaded = e->model;
    if (e->uses.weights) IQ_TRY(iq__engine_weights_open(e, err));
    e->forward.model = e->cuda || e->uses.weights ? &e->upload.model : e->model;
    e->forward.padded = e->config.captured;
    e->forward.graphs = e->cuda && e->config.level != IQ_LEVEL_TENSORS;
    e->forward.traced = e->config.level >= IQ_LEVEL_OPS;
    e->forward.graph = &e->graph;
    e->forward.slots = e->slots;
    e->forward.kv = &e->kv;
    e->forward.exec.pool = e->pool;
    e->forward.exec.cuda = e->cuda;
    e->forward.act = e->config.act;
    e->forward.masks = e->uses.mask;
    e->forward.adapters = e->uses.adapters;
    IQ_TRY(iq_forward_open(&e->forward, err));
    IQ_TRY(open_speculation(e, err));
    e->schedule.config = &e->config;
    e->schedule.kv = &e->kv;
    e->schedule.site = &e->step;
    e->schedule.arrive = iq__engine_arrive;
    e->schedule.admit = iq__engine_admit;
    e->schedule.ctx = e;
    IQ_TRY(open_seats(e, err));
    uint32_t rows = e->forward.max_rows;
    e->row = calloc(rows, sizeof *e->row);
    e->seq = calloc(e->forward.max_seqs, sizeof *e->seq);
    e->of_row = calloc(rows, sizeof(struct iq_seat *));
    e->ids = calloc(rows, sizeof *e->ids);
    e->predict = calloc(rows, sizeof *e->predict);
    e->adapter = calloc(rows, sizeof(const struct iq_adapter *));
    e->allow_row = calloc(e->forward.max_predicts, sizeof(const uint64_t *));
    if (e->uses.mask)
        e->allow = calloc((size_t)e->forward.max_predicts * iq_mask_words(c->vocab), sizeof *e->allow);
    if (!e->row || !e->seq || !e->of_row || !e->ids || !e->predict || !e->adapter || !e->allow_row ||
        (e->uses.mask && !e->allow))
        return iq_fail(err, IQ_MEMORY, "no memory for a step");
    e->recorder.graph = &e->graph;
    e->recorder.kv = &e->kv;
    e->recorder.pool = e->pool;
    e->recorder.level = e->config.level;
    e->recorder.untraced = e->config.untraced;
    e->recorder.weights = e->weights;
    if (!e->config.untraced) {
        IQ_TRY(iq_recorder_open(&e->recorder, rows, err));
        iq_slots_tap(e->slots, &e->recorder.tap);
        iq_slots_tap(e->control_slots, &e->recorder.tap);
    }
    iq__engine_describe(e);
    IQ_TRY(iq__engine_sessions(e, err));
    e->contract = iq_engine_contract(e);
    return IQ_OK;
}

int iq_engine_open(const struct iq_model *m, const struct iq_engine_config *config,
                   const struct iq_request *request, uint32_t n, struct iq_engine **out, struct iq_err *err)
{
    *out = NULL;
    if (config->batch < 1 || config->batch > 4096)
        return iq_fail(err, IQ_USAGE, "batch: found %u, expected 1 to 4096", config->batch);
    if (config->speculate > IQ_DRAFT_MAX)
        return iq_fail(err, IQ_USAGE, "speculate: found %u, expected 0 to %d", config->speculate,
                       IQ_DRAFT_MAX);
    struct iq_engine *e = calloc(1, sizeof *e);
    if (!e) return iq_fail(err, IQ_MEMORY, "no memory for an engine");
    e->config = *config;
    e->model = m;
    e->request = request;
    e->n = n;
    e->trajectory = IQ_BUF((size_t)1 << 30);
    int status = open_parts(e, err);
    if (status != IQ_OK) {
        iq_engine_close(e);
        return status;
    }
    *out = e;
    return IQ_OK;
}

void iq_engine_close(struct iq_engine *e)
{
    if (!e) return;
    for (uint32_t i = 0; e->schedule.seat && i < e->schedule.n; i++) {
        struct iq_seat *s = &e->schedule.seat[i];
        free(s->ids);
        free(s->blocks);
        free(s->key);
        free(s->position);
        free(s->draft);
        free(s->chosen);
        free(s->kv);
        free(s->top_id);
        free(s->top_logit);
        free(s->nll);
    }
    free(e->schedule.seat);
    free(e->schedule.running);
    free(e->schedule.share);
    free(e->schedule.event);
    free(e->schedule.lineup);
    free(e->schedule.form_seat);
    free(e->schedule.pick);
    free(e->row);
    free(e->seq);
    free(e->of_row);
    free(e->ids);
    free(e->predict);
    free(e->guess);
    free(e->guessed);
    iq_drafter_close(&e->drafter);
    free(e->weights);
    free(e->adapter);
    free(e->allow_row);
    free(e->allow);
    iq_recorder_close(&e->recorder);
    iq_forward_close(&e->forward);
    iq_kv_close(&e->kv);
    iq_graph_close(&e->graph);
    iq_slots_close(e->slots);
    iq_slots_close(e->control_slots);
    iq_upload_close(&e->upload);
    iq_cuda_close(e->cuda);
    iq_pool_close(e->pool);
    iq_buf_free(&e->trajectory);
    free(e);
}
