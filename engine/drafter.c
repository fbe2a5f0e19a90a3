#include "engine/drafter.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 256 }; /* of one of its steps, or a row a request */

static uint32_t min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* ---- opening ---- */

static int same_vocabulary(const struct iq_model *draft, const struct iq_model *target, struct iq_err *err)
{
    uint32_t n = target->config.vocab;
    if (draft->config.vocab != n)
        return iq_fail(err, IQ_MISMATCH, "draft model: its vocabulary has %u tokens, the model's %u",
                       draft->config.vocab, n);
    for (uint32_t i = 0; i < n && draft->tokenizer && target->tokenizer; i++) {
        struct iq_span a = iq_tokenizer_spelling(draft->tokenizer, i),
                       b = iq_tokenizer_spelling(target->tokenizer, i);
        if (a.len != b.len || (a.len && memcmp(a.data, b.data, a.len)))
            return iq_fail(err, IQ_MISMATCH,
                           "draft model: token %u is \"%.*s\", the model's \"%.*s\"; expected one vocabulary",
                           i, (int)min_u32((uint32_t)a.len, 40), a.len ? a.data : "",
                           (int)min_u32((uint32_t)b.len, 40), b.len ? b.data : "");
    }
    return IQ_OK;
}

static int set_golden(struct iq_drafter *d, const char *isa, struct iq_err *err)
{
    for (int op = 0; op < IQ_OPS; op++)
        IQ_TRY(iq_slots_golden(d->slots, iq_variant_golden(iq_op_kind((enum iq_op_id)op)->name, isa), err));
    return IQ_OK;
}

static int open_parts(struct iq_drafter *d, const struct iq_drafter_options *o, struct iq_err *err)
{
    const struct iq_model_config *c = &o->model->config;
    uint32_t tp = o->model->tp, experts = o->model->expert_parallel;
    uint32_t rows = ROWS > o->batch ? ROWS : o->batch, blocks;
    d->lane_blocks = (o->longest + IQ_KV_BLOCK - 1) / IQ_KV_BLOCK;
    IQ_TRY(same_vocabulary(o->model, o->target, err));
    IQ_TRY(iq_slots_open(c->layers, tp > experts ? tp : experts, &d->slots, err));
    IQ_TRY(set_golden(d, o->isa, err));
    IQ_TRY(iq_graph_open(o->model, (struct iq_uses){0}, IQ_LEVEL_CHAIN, d->slots, &d->graph, err));
    if (__builtin_mul_overflow(d->lane_blocks, o->batch, &blocks)) blocks = UINT32_MAX;
    IQ_TRY(iq_kv_open(blocks, 0, c->layers, c->kv_heads, c->head_dim, 0, NULL, &d->kv, err));
    d->forward = (struct iq_forward){.model = o->model,
                                     .graph = &d->graph,
                                     .slots = d->slots,
                                     .kv = &d->kv,
                                     .exec = {.pool = o->pool},
                                     .act = o->act,
                                     .max_rows = rows,
                                     .max_predicts = o->batch,
                                     .max_seqs = o->batch,
                                     .k = o->k,
                                     .max_context = o->longest};
    IQ_TRY(iq_forward_open(&d->forward, err));
    d->row = calloc(rows, sizeof *d->row);
    d->seq = calloc(o->batch, sizeof *d->seq);
    d->ids = calloc(rows, sizeof *d->ids);
    d->predict = calloc(o->batch, sizeof *d->predict);
    d->of_predict = calloc(o->batch, sizeof(struct iq_guess *));
    d->lane = calloc(o->batch, sizeof(struct iq_seat *));
    d->table = calloc(blocks, sizeof *d->table);
    if (!d->row || !d->seq || !d->ids || !d->predict || !d->of_predict || !d->lane || !d->table)
        return iq_fail(err, IQ_MEMORY, "no memory for a step");
    for (uint32_t i = 0; i < blocks; i++) d->table[i] = i;
    return IQ_OK;
}

int iq_drafter_open(struct iq_drafter *d, const struct iq_drafter_options *o, struct iq_err *err)
{
    *d = (struct iq_drafter){.model = o->model, .batch = o->batch};
    int status = open_parts(d, o, err);
    if (status == IQ_OK) return IQ_OK;
    iq_drafter_close(d);
    return status == IQ_MISMATCH ? status : iq_err_prefix(err, "draft model: ");
}

void iq_drafter_close(struct iq_drafter *d)
{
    free(d->row);
    free(d->seq);
    free(d->ids);
    free(d->predict);
    free(d->of_predict);
    free(d->lane);
    free(d->table);
    iq_forward_close(&d->forward);
    iq_kv_close(&d->kv);
    iq_graph_close(&d->graph);
    iq_slots_close(d->slots);
    *d = (struct iq_drafter){0};
}

/* ---- guessing ---- */

void iq_drafter_forget(struct iq_drafter *d, struct iq_seat *seat)
{
    if (seat->draft_lane) d->lane[seat->draft_lane - 1] = NULL;
    seat->draft_lane = seat->draft_computed = 0;
}

/* A lane of the cache for each request that runs: there are as many. */
static void take_lane(struct iq_drafter *d, struct iq_seat *seat)
{
    for (uint32_t i = 0; !seat->draft_lane && i < d->batch; i++)
        if (!d->lane[i]) d->lane[i] = seat, seat->draft_lane = i + 1;
}

/* The rows of one request in a step: what the model has not seen of its ids and guesses, as far as there is room. */
static void add(struct iq_drafter *d, struct iq_batch *b, struct iq_guess *g)
{
    struct iq_seat *seat = g->seat;
    const struct iq_request *r = seat->request;
    uint32_t known = seat->n_ids + g->made, from = seat->draft_computed;
    uint32_t n = min_u32(known - from, d->forward.max_rows - b->rows);
    if (!n) return;
    const uint32_t *blocks = d->table + (size_t)(seat->draft_lane - 1) * d->lane_blocks;
    d->seq[b->seqs++] = (struct iq_seq){b->rows, n, from, blocks};
    for (uint32_t pos = from; pos < from + n; pos++, b->rows++) {
        d->row[b->rows] = (struct iq_row){.request = seat->index,
                                          .pos = pos,
                                          .context = pos + 1,
                                          .top_k = r->top_k,
                                          .temperature = r->temperature,
                                          .top_p = r->top_p,
                                          .min_p = r->min_p,
                                          .seed = r->seed};
        d->ids[b->rows] = pos < seat->n_ids ? seat->ids[pos] : g->id[pos - seat->n_ids];
    }
    seat->draft_computed += n;
    if (seat->draft_computed < known) return;
    d->of_predict[b->predicts] = g;
    d->predict[b->predicts++] = b->rows - 1;
}

/* Another token is asked for, and the draft model has positions left for what comes before it. */
static bool wants(const struct iq_drafter *d, const struct iq_guess *g)
{
    return g->made < g->asked && g->seat->n_ids + g->made <= d->model->positions;
}

int iq_drafter_guess(struct iq_drafter *d, struct iq_guess *guess, uint32_t n, struct iq_err *err)
{
    for (uint32_t i = 0; i < n; i++) {
        struct iq_seat *seat = guess[i].seat;
        guess[i].made = 0;
        take_lane(d, seat);
        /* Guesses that were not accepted are no part of the ids. */
        seat->draft_computed = min_u32(seat->draft_computed, seat->computed);
    }
    for (;;) {
        struct iq_batch b = {.row = d->row, .ids = d->ids, .seq = d->seq, .predict = d->predict};
        for (uint32_t i = 0; i < n; i++)
            if (wants(d, &guess[i])) add(d, &b, &guess[i]);
        if (!b.rows) return IQ_OK;
        b.step = (struct iq_step){.batch = b.seqs, .captured = b.seqs, .tokens = b.rows, .tp = d->model->tp};
        int status = iq_forward_run(&d->forward, &b, err);
        if (status != IQ_OK) return iq_err_prefix(err, "draft model: ");
        for (uint32_t i = 0; i < b.predicts; i++) {
            struct iq_guess *g = d->of_predict[i];
            g->id[g->made++] = d->forward.got.token[i];
        }
    }
}
