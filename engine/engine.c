/* A step of the engine: rows, forward, what the rows predict. */
#include "engine/engine_state.h"

#include "kernels/ops/mask.h"
#include "kernels/tensor_core/block.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#if defined __SSE__
#include <xmmintrin.h>
#endif

/* ---- a step ---- */

/* Golden bits need nearest even and subnormals: a library linked with fast-math may have taken both away. */
static int check_mode(struct iq_err *err)
{
#if defined __SSE__
    unsigned mxcsr = _mm_getcsr();
    if (mxcsr & 0xe040)
        return iq_fail(
            err, IQ_MISMATCH, "the floating-point mode changed (MXCSR %04x): a loaded library set %s", mxcsr,
            mxcsr & 0x6000 ? "another rounding mode" : "flush-to-zero; was it linked with -ffast-math?");
#endif
    (void)err;
    return IQ_OK;
}

uint32_t iq_engine_captured(uint32_t batch)
{
    uint32_t c = 1;
    while (c < batch) c = c < 8 ? c * 2 : c + 8;
    return c;
}

/* What the seat's next token may be; NULL: any. i: among the predicting rows. */
static const uint64_t *mask_of(struct iq_engine *e, struct iq_seat *seat, uint32_t i)
{
    const struct iq_request *r = seat->request;
    uint32_t vocab = e->model->config.vocab, done = seat->n_ids - r->n_prompt;
    if (!r->constraint) return NULL;
    uint64_t *allow = e->allow + (size_t)i * iq_mask_words(vocab);
    seat->blocked =
        !iq_constraint_allow(r->constraint, e->model->tokenizer, seat->ids + r->n_prompt, done, vocab, allow);
    return allow;
}

static void make_batch(struct iq_engine *e, struct iq_batch *b)
{
    const struct iq_schedule *s = &e->schedule;
    bool decode_only = true, masked = false;
    *b = (struct iq_batch){.row = e->row, .ids = e->ids, .seq = e->seq, .predict = e->predict};
    for (uint32_t i = 0; i < s->shares; i++) {
        struct iq_seat *seat = s->share[i].seat;
        e->seq[b->seqs++] = (struct iq_seq){b->rows, s->share[i].tokens, seat->computed, seat->blocks};
        decode_only &= s->share[i].tokens == 1 + seat->n_draft;
        for (uint32_t t = 0; t < s->share[i].tokens; t++, b->rows++) {
            uint32_t pos = seat->computed + t;
            bool known = pos < seat->n_ids, last = pos + 1 >= seat->n_ids;
            e->row[b->rows] = iq_seat_row(seat, pos, b->rows);
            e->row[b->rows].after = seat->computed + s->share[i].tokens;
            e->ids[b->rows] = known ? seat->ids[pos] : seat->draft[pos - seat->n_ids];
            e->of_row[b->rows] = seat;
            e->adapter[b->rows] = seat->request->adapter;
            if (!last && !seat->request->score) continue;
            e->allow_row[b->predicts] = last ? mask_of(e, seat, b->predicts) : NULL;
            masked |= e->allow_row[b->predicts] != NULL;
            e->predict[b->predicts++] = b->rows;
        }
    }
    for (uint32_t r = b->rows; r < e->forward.max_rows; r++) e->adapter[r] = NULL;           /* padding */
    for (uint32_t i = b->predicts; i < e->forward.max_predicts; i++) e->allow_row[i] = NULL; /* padding */
    b->adapter = e->adapter;
    b->allow = masked ? e->allow_row : NULL;
    e->step.batch = s->shares;
    e->step.captured = e->config.captured && decode_only ? iq_engine_captured(b->rows) : s->shares;
    e->step.tokens = b->rows;
    iq__engine_note(e);
    iq__engine_neighbours(e, b->rows);
    b->step = e->step;
}

/* Negative log-likelihood of a token: double, plain; a report, never an input to anything golden. */
static double nll(const float *logits, uint32_t vocab, uint32_t token)
{
    double most = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < vocab; i++) most = logits[i] > most ? (double)logits[i] : most;
    for (uint32_t i = 0; i < vocab; i++) sum += exp((double)logits[i] - most);
    return most + log(sum) - (double)logits[token];
}

static int finish(struct iq_engine *e, struct iq_seat *seat, const char *why, struct iq_err *err)
{
    seat->finish = why;
    if (!e->config.untraced) seat->chain = iq_recorder_chain(seat);
    return iq_schedule_release(&e->schedule, seat, IQ_DONE, err);
}

/* The candidates of the i-th predicting row, with the logits that the model gave them. */
static void keep_candidates(const struct iq_forward *f, uint32_t i, uint32_t *id, float *logit)
{
    uint32_t vocab = f->model->config.vocab;
    const uint32_t *found = f->got.ids + (size_t)i * f->k;
    const float *logits = f->got.logits + (size_t)i * vocab;
    for (uint32_t c = 0; c < f->k; c++) {
        id[c] = found[c];
        logit[c] = found[c] < vocab ? logits[found[c]] : NAN; /* a faulty top-k makes ids up */
    }
}

const char *iq__engine_ends(const struct iq_engine *e, const struct iq_request *r, uint32_t token, uint32_t n)
{
    if (r->max_tokens && !r->ignore_stop && iq_tokenizer_is_eog(e->model->tokenizer, token)) return "stop";
    return n >= r->max_tokens ? "length" : NULL;
}

/* The token that follows the i-th predicting row joins its request. */
static void append(struct iq_engine *e, struct iq_seat *seat, uint32_t i, uint32_t token)
{
    const struct iq_forward *f = &e->forward;
    const struct iq_request *r = seat->request;
    uint32_t done = seat->n_ids - r->n_prompt;
    if (done == r->max_tokens) return; /* only prefilled */
    if (seat->blocked || token >= f->model->config.vocab) return;
    size_t at = (size_t)done * f->k;
    keep_candidates(f, i, seat->top_id + at, seat->top_logit + at);
    seat->ids[seat->n_ids++] = token;
    e->stats.generated++;
}

/* Why the tokens that have joined it are its last, or NULL; token: what the last row chose. */
static const char *ends(const struct iq_engine *e, const struct iq_seat *seat, uint32_t token)
{
    const struct iq_request *r = seat->request;
    uint32_t made = seat->n_ids - r->n_prompt;
    if (seat->blocked) return "blocked";
    /* A faulty sampler: there is no such token to go on with. The position keeps what was chosen. */
    if (token >= e->model->config.vocab) return "invalid";
    if (r->max_tokens && r->constraint && !iq_constraint_open(r->constraint, seat->ids + r->n_prompt, made))
        return "stop";
    return iq__engine_ends(e, r, token, made);
}

/* After its tokens have joined it; `known`: ids that it had before. */
static int end(struct iq_engine *e, struct iq_seat *seat, uint32_t known, struct iq_err *err)
{
    const struct iq_request *r = seat->request;
    const char *why = seat->computed >= known ? ends(e, seat, seat->chosen[seat->computed - known]) : NULL;
    if (!why && r->cancel_after && seat->computed == r->cancel_after) why = "cancelled";
    return why ? finish(e, seat, why, err) : IQ_OK;
}

static void score(struct iq_engine *e, const struct iq_batch *b)
{
    const struct iq_forward *f = &e->forward;
    uint32_t vocab = e->model->config.vocab;
    for (uint32_t i = 0; i < b->predicts; i++) {
        const struct iq_row *row = &b->row[b->predict[i]];
        struct iq_seat *seat = e->of_row[b->predict[i]];
        if (!seat->nll || row->pos + 1 >= seat->request->n_prompt) continue;
        seat->nll[row->pos + 1] = nll(f->got.logits + (size_t)i * vocab, vocab, seat->ids[row->pos + 1]);
    }
}

static int apply(struct iq_engine *e, const struct iq_batch *b, struct iq_err *err)
{
    uint32_t next = 0;
    score(e, b);
    for (uint32_t i = 0; i < b->seqs; i++) {
        const struct iq_seq *q = &b->seq[i];
        struct iq_seat *seat = e->of_row[q->first];
        uint32_t before = seat->computed, known = seat->n_ids;
        seat->computed += seat->kept;
        for (; next < b->predicts && b->predict[next] < q->first + q->rows; next++) {
            uint32_t follows = q->pos + (b->predict[next] - q->first) + 1;
            if (follows >= known && follows <= seat->computed)
                append(e, seat, next, seat->chosen[follows - known]);
        }
        iq__engine_publish(e, seat, before);
        IQ_TRY(end(e, seat, known, err));
    }
    return IQ_OK;
}

static void set_number(cJSON *params, const char *key, double value)
{
    cJSON *item = cJSON_GetObjectItemCaseSensitive(params, key);
    if (item && cJSON_IsNumber(item))
        cJSON_SetNumberValue(item, value);
    else if (!item)
        cJSON_AddNumberToObject(params, key, value);
}

/* The parameters as the caller gave them, but for what the engine made of the request: how it sampled if that is not what
 * was asked, and a pool that is not the first. NULL: nothing is to be added. */
static char *params_that_ran(const struct iq_seat *seat)
{
    const struct iq_request *a = seat->asked, *r = seat->request;
    bool same = a->seed == r->seed && a->temperature == r->temperature && a->top_p == r->top_p &&
                a->min_p == r->min_p && a->top_k == r->top_k;
    cJSON *params = same && !seat->pool ? NULL : cJSON_Parse(a->params);
    if (!params) return NULL;
    if (!same) {
        set_number(params, "seed", (double)r->seed);
        set_number(params, "temperature", (double)r->temperature);
        set_number(params, "top_k", r->top_k);
        set_number(params, "top_p", (double)r->top_p);
        set_number(params, "min_p", (double)r->min_p);
    }
    if (seat->pool) set_number(params, "pool", seat->pool);
    char *text = cJSON_PrintUnformatted(params);
    cJSON_Delete(params);
    return text;
}

static int report(struct iq_engine *e, const struct iq_seat *seat, struct iq_err *err)
{
    const struct iq_sink *sink = e->recorder.sink;
    if (!sink || !sink->done) return IQ_OK;
    char *params = params_that_ran(seat);
    struct iq_buf text = IQ_BUF((size_t)1 << 26);
    int status = iq_tokenizer_decode(e->model->tokenizer, seat->ids + seat->request->n_prompt,
                                     seat->n_ids - seat->request->n_prompt, IQ_DECODE_SKIP, &text, err);
    struct iq_request_end end = {.request = seat->index,
                                 .id = seat->request->id,
                                 .params = params ? params : seat->request->params,
                                 .text = text.data ? text.data : "",
                                 .finish = seat->finish,
                                 .ids = seat->ids,
                                 .n_ids = seat->n_ids,
                                 .n_prompt = seat->request->n_prompt,
                                 .chain = seat->chain};
    if (status == IQ_OK && (status = sink->done(sink->self, &end)) != IQ_OK)
        iq_fail(err, status, "request %s could not be recorded: %s", seat->request->id,
                iq_status_text(status));
    iq_buf_free(&text);
    cJSON_free(params);
    return status;
}

static int report_done(struct iq_engine *e, const struct iq_batch *b, struct iq_err *err)
{
    for (uint32_t i = 0; i < b->seqs; i++) {
        const struct iq_seat *seat = e->of_row[b->seq[i].first];
        if (seat->state == IQ_DONE) IQ_TRY(report(e, seat, err));
    }
    return IQ_OK;
}

int iq_engine_cancel(struct iq_engine *e, uint32_t request, struct iq_err *err)
{
    if (request >= e->n)
        return iq_fail(err, IQ_USAGE, "request %u can't be cancelled: there are %u", request, e->n);
    struct iq_seat *seat = &e->schedule.seat[request];
    if (seat->state == IQ_DONE) return IQ_OK;
    IQ_TRY(finish(e, seat, "cancelled", err));
    return report(e, seat, err);
}

static void log_step(struct iq_engine *e)
{
    const struct iq_schedule *s = &e->schedule;
    iq_buf_put(&e->trajectory, s->step ? ",[" : "[", s->step ? 2 : 1);
    for (uint32_t i = 0; i < s->events; i++)
        iq_buf_printf(&e->trajectory, "%s[%u,%u]", i ? "," : "", (uint32_t)(s->event[i].seat - s->seat),
                      s->event[i].tokens);
    iq_buf_put(&e->trajectory, "]", 1);
}

/* The pool is compacted every config.defragment steps; what the seats hold moves along. */
static int defragment(struct iq_engine *e, const struct iq_step *step, struct iq_err *err)
{
    struct iq_schedule *s = &e->schedule;
    uint32_t every = e->config.defragment;
    if (!every || (step->step + 1) % every) return IQ_OK;
    uint32_t *moved = malloc(e->kv.blocks * sizeof *moved);
    if (!moved) return iq_fail(err, IQ_MEMORY, "no memory to move %u KV blocks", e->kv.blocks);
    int status = iq_kv_compact(&e->kv, moved, err);
    for (uint32_t i = 0; i < s->n_running; i++)
        for (uint32_t b = 0; b < s->running[i]->n_blocks; b++)
            s->running[i]->blocks[b] = moved[s->running[i]->blocks[b]];
    free(moved);
    return status == IQ_OK ? iq_recorder_look(&e->recorder, s->running, s->n_running, step, err) : status;
}

int iq_engine_step(struct iq_engine *e, bool *more, struct iq_err *err)
{
    struct iq_batch b;
    *more = false;
    IQ_TRY(check_mode(err));
    e->step.step = e->stats.steps;
    e->step.clock_us = e->schedule.clock_us;
    e->ended_us = e->schedule.clock_us;
    if (e->uses.weights) IQ_TRY(iq__engine_weights_change(e, err));
    IQ_TRY(iq_schedule_form(&e->schedule, err));
    e->stats.preemptions = e->schedule.preemptions;
    if (!e->schedule.shares) return IQ_OK;
    log_step(e);
    make_batch(e, &b);
    IQ_TRY(iq_forward_run(&e->forward, &b, err));
    IQ_TRY(iq__engine_verify(e, &b, err));
    IQ_TRY(iq_recorder_step(&e->recorder, &e->forward, &b, e->of_row, err));
    IQ_TRY(iq_recorder_look(&e->recorder, e->schedule.running, e->schedule.n_running, &b.step, err));
    IQ_TRY(iq_kv_land_late(&e->kv, err));
    IQ_TRY(apply(e, &b, err));
    IQ_TRY(iq__engine_draft(e, &b, err));
    IQ_TRY(defragment(e, &b.step, err));
    iq_schedule_advance(&e->schedule, b.rows);
    e->stats.steps++;
    e->stats.tokens += b.rows;
    e->stats.graphs = e->forward.graph_launches;
    e->stats.clock_us = e->schedule.clock_us;
    e->stats.moves = e->kv.moves;
    *more = e->schedule.done < e->n;
    return report_done(e, &b, err);
}

/* ---- results ---- */

const struct iq_node *iq_engine_nodes(const struct iq_engine *e, uint32_t *n)
{
    *n = e->graph.nodes;
    return e->graph.node;
}

const struct iq_variant *iq_engine_variant(const struct iq_engine *e, enum iq_op_id op)
{
    return iq_slots_at(e->slots, op, IQ_NO_LAYER, 0)->variant;
}

bool iq_engine_has(const struct iq_engine *e, enum iq_op_id op)
{
    return iq_graph_has(&e->model->config, e->uses, op);
}

const struct iq_cuda *iq_engine_device(const struct iq_engine *e) { return e->cuda; }

void iq_engine_libraries(const struct iq_engine *e, struct iq_jw *w)
{
    iq_jw_begin(w, '{');
    for (unsigned i = 0; e->cuda && i < IQ_CUDA_LIBRARIES && e->cuda->library[i]; i++) {
        const struct iq_cuda_library *l = e->cuda->library[i];
        if (l->report) iq_jw_key(w, l->name), l->report(e->cuda, w);
    }
    iq_jw_end(w, '}');
}

struct iq_digest iq_engine_contract(const struct iq_engine *e)
{
    struct iq_buf text = IQ_BUF(1 << 16);
    const struct iq_model *m = e->model;
    char rotary[IQ_DIGEST_HEX];
    iq_digest_hex(m->rotary_digest, rotary);
    iq_buf_printf(&text, "ieee %d unit %d %u %u chunk %d keys %d lanes %d act %d kv f32 rotary %s",
                  IQ_CONTRACT_VERSION, IQ_UNIT, m->attn_unit, m->ffn_unit, IQ_CHUNK, IQ_KEY_CHUNK,
                  IQ_VECTOR_LANES, e->config.act, rotary);
    if (m->tables > 1) {
        iq_digest_hex(m->long_digest, rotary);
        iq_buf_printf(&text, " long from %u rotary %s", e->config.long_from, rotary);
    }
    const struct iq_model_config *c = &m->config;
    if (c->experts)
        iq_buf_printf(&text, " experts %u active %u%s", c->experts, c->active,
                      c->renormalise ? " renormalised" : "");
    char products[80];
    if (e->config.products)
        iq_buf_printf(&text, " products %s", iq_tc_arithmetic(e->config.products, products, sizeof products));
    for (int op = 0; op < IQ_OPS; op++) {
        if (!iq_engine_has(e, (enum iq_op_id)op)) continue;
        iq_buf_printf(&text, " %s:%s", iq_op_name((unsigned)op), iq_op_kind((enum iq_op_id)op)->name);
        for (const char *const *p = iq_op_points((enum iq_op_id)op); *p; p++) iq_buf_printf(&text, ".%s", *p);
    }
    struct iq_digest d = iq_digest_bytes(text.data, text.len);
    iq_buf_free(&text);
    return d;
}

void iq_engine_arm(struct iq_engine *e, const struct iq_selector *selector)
{
    iq_slots_arm(e->slots, selector);
    iq_slots_arm(e->control_slots, selector);
}

void iq_engine_record(struct iq_engine *e, const struct iq_sink *sink) { e->recorder.sink = sink; }

const struct iq_output *iq_engine_output(const struct iq_engine *e, uint32_t request)
{
    struct iq_seat *s = &e->schedule.seat[request];
    s->output = (struct iq_output){.ids = s->ids,
                                   .n_ids = s->n_ids,
                                   .n_prompt = s->request->n_prompt,
                                   .finish = s->finish,
                                   .chain = s->chain,
                                   .position = s->position,
                                   .positions = s->known,
                                   .top = e->config.top,
                                   .top_id = s->top_id,
                                   .top_logit = s->top_logit,
                                   .nll = s->nll,
                                   .cached = s->cached,
                                   .attempts = s->attempt,
                                   .drafted = s->all_drafted,
                                   .accepted = s->all_accepted};
    return &s->output;
}

const struct iq_engine_stats *iq_engine_stats(const struct iq_engine *e) { return &e->stats; }

int iq_engine_trajectory(const struct iq_engine *e, struct iq_jw *w)
{
    struct iq_buf all = IQ_BUF(e->trajectory.len + 3);
    iq_buf_printf(&all, "[%s]", e->trajectory.data ? e->trajectory.data : "");
    if (!all.failed) iq_jw_raw(w, all.data);
    int failed = all.failed || e->trajectory.failed;
    iq_buf_free(&all);
    return failed ? IQ_MEMORY : IQ_OK;
}
