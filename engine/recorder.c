#include "engine/recorder.h"

#include "kernels/summary.h"

#include <stdlib.h>
#include <string.h>

static int on_bytes(void *self, const struct iq_site *site, uint32_t r, uint16_t node, struct iq_digest d,
                    const void *row, size_t n)
{
    struct iq_recorder *rec = self;
    const struct iq_row *at = &site->row[r];
    struct iq_cell cell = {at->request, at->pos, (uint16_t)at->attempt, node, IQ_CELL_COMPUTED, 0};
    return rec->sink && rec->sink->row ? rec->sink->row(rec->sink->self, &cell, d, row, n) : IQ_OK;
}

static int on_fired(void *self, const struct iq_site *site, const struct iq_firing *f)
{
    struct iq_recorder *rec = self;
    (void)site;
    return rec->sink && rec->sink->fired ? rec->sink->fired(rec->sink->self, f) : IQ_OK;
}

int iq_recorder_open(struct iq_recorder *rec, uint32_t max_rows, struct iq_err *err)
{
    size_t cells = (size_t)max_rows * rec->graph->nodes;
    rec->tap = (struct iq_tap){.nodes = rec->graph->nodes, .self = rec, .fired = on_fired};
    if (rec->level == IQ_LEVEL_TENSORS) rec->tap.bytes = on_bytes;
    rec->scratch = calloc((size_t)iq_pool_threads(rec->pool) * rec->graph->chains, sizeof *rec->scratch);
    rec->made = calloc(max_rows, sizeof *rec->made);
    rec->predict = calloc(max_rows, sizeof *rec->predict);
    rec->tap.cells = calloc(cells, sizeof *rec->tap.cells);
    rec->chain_kv = calloc(2 * (size_t)rec->graph->layers, sizeof *rec->chain_kv);
    if (rec->scratch && rec->made && rec->predict && rec->tap.cells && rec->chain_kv) {
        for (uint32_t l = 0; l < rec->graph->layers; l++)
            for (unsigned v = 0; v < 2; v++)
                rec->chain_kv[2 * l + v] = (uint16_t)(iq_graph_node(rec->graph, IQ_OP_KV_WRITE, l) + v);
        return IQ_OK;
    }
    iq_recorder_close(rec);
    return iq_fail(err, IQ_MEMORY, "no memory for the digests of %u rows", max_rows);
}

void iq_recorder_close(struct iq_recorder *rec)
{
    free(rec->scratch);
    free(rec->made);
    free(rec->predict);
    free(rec->tap.cells);
    free(rec->chain_kv);
    rec->chain_kv = NULL;
    rec->scratch = NULL;
    rec->made = NULL;
    rec->predict = NULL;
    rec->tap.cells = NULL;
}

static struct iq_digest body(const struct iq_graph *g, const struct iq_digest *cells,
                             struct iq_digest *scratch)
{
    for (uint32_t i = 0; i < g->chains; i++) scratch[i] = cells[g->chain[i]];
    return iq_digest_list(scratch, g->chains);
}

/* K and V of one position, all layers. scratch: (chains). */
static struct iq_digest kv_of(const struct iq_recorder *rec, const struct iq_digest *cells,
                              struct iq_digest *scratch)
{
    uint32_t n = 2 * rec->graph->layers;
    for (uint32_t i = 0; i < n; i++) scratch[i] = cells[rec->chain_kv[i]];
    return iq_digest_list(scratch, n);
}

/* Cells of one position to the sink: at level ops all, otherwise none (the position's digests say enough). */
static int give_cells(struct iq_recorder *rec, const struct iq_position *p, unsigned state,
                      const struct iq_digest *cells, struct iq_err *err)
{
    if (!rec->sink || !rec->sink->row || rec->level < IQ_LEVEL_OPS) return IQ_OK;
    for (uint32_t n = 0; n < rec->graph->nodes; n++) {
        struct iq_cell cell = {p->request, p->pos, p->attempt, (uint16_t)n, (uint16_t)state, 0};
        if (iq_digest_is_zero(cells[n])) continue;
        int status = rec->sink->row(rec->sink->self, &cell, cells[n], NULL, 0);
        if (status != IQ_OK)
            return iq_fail(err, status, "a cell could not be recorded: %s", iq_status_text(status));
    }
    return IQ_OK;
}

/* First time: recorded. Again, with the same bits: nothing new. Again, with other bits: both enter the chain. */
static int give_position(struct iq_recorder *rec, struct iq_seat *seat, struct iq_position *p,
                         struct iq_err *err)
{
    struct iq_position *known = &seat->position[p->pos];
    if (p->pos < seat->known) {
        if (iq_digest_equal(known->body, p->body)) return IQ_OK;
        struct iq_digest both[2] = {known->body, p->body};
        known->body = iq_digest_list(both, 2);
        known->attempt = p->attempt;
        if (iq_cell_answers(p->state)) known->state = p->state, known->step = p->step;
    } else {
        *known = *p;
        seat->known = p->pos + 1;
    }
    if (!rec->sink || !rec->sink->position) return IQ_OK;
    int status = rec->sink->position(rec->sink->self, known);
    return status == IQ_OK
               ? IQ_OK
               : iq_fail(err, status, "a position could not be recorded: %s", iq_status_text(status));
}

/* How the K and V of an attached position came to be here. */
static uint16_t attached_state(const struct iq_kv *kv, const struct iq_seat *seat, uint32_t pos)
{
    uint32_t i = pos / IQ_KV_BLOCK, block = seat->blocks[i];
    if (kv->spoilt[block]) return kv->spoilt[block];
    if (seat->landed) return IQ_CELL_LANDED;
    bool found = iq_digest_equal(kv->key[block], seat->key[i]); /* else the lookup itself is wrong */
    return found && !iq_digest_equal(kv->whose[block], seat->whose) ? IQ_CELL_MISTAKEN : IQ_CELL_REUSED;
}

/* A prefix's positions; kv: (layers, 2, positions) digests of what the cache holds now. */
static int give_attached(struct iq_recorder *rec, struct iq_seat *seat, const struct iq_step *step,
                         const struct iq_digest *kv, struct iq_err *err)
{
    const struct iq_graph *g = rec->graph;
    for (uint32_t pos = 0; pos < seat->cached; pos++) {
        uint32_t block = seat->blocks[pos / IQ_KV_BLOCK], slot = pos % IQ_KV_BLOCK;
        struct iq_digest *cells = rec->tap.cells; /* row 0 is free between steps */
        const struct iq_digest *kept = rec->kv->cells[block] + (size_t)slot * g->kepts;
        for (uint32_t i = 0; i < g->kepts; i++) cells[g->kept[i]] = kept[i];
        for (uint32_t l = 0; l < g->layers; l++)
            for (unsigned v = 0; v < 2; v++)
                cells[iq_graph_node(g, IQ_OP_KV_WRITE, l) + v] = kv[(2 * (size_t)l + v) * seat->cached + pos];
        struct iq_position p = {.request = seat->index,
                                .pos = pos,
                                .token = seat->ids[pos],
                                .attempt = (uint16_t)(seat->attempt + seat->lost),
                                .state = attached_state(rec->kv, seat, pos),
                                .batch = (uint16_t)step->batch,
                                .step = (uint32_t)step->step,
                                .tokens = step->tokens,
                                .body = body(g, cells, rec->scratch)};
        seat->kv[pos] = kv_of(rec, cells, rec->scratch);
        IQ_TRY(give_cells(rec, &p, p.state, cells, err));
        IQ_TRY(give_position(rec, seat, &p, err));
        memset(cells, 0, g->nodes * sizeof *cells);
    }
    return IQ_OK;
}

int iq_recorder_attached(struct iq_recorder *rec, struct iq_seat *seat, const struct iq_step *step,
                         struct iq_err *err)
{
    if (rec->untraced || !seat->cached) return IQ_OK;
    struct iq_digest *kv = calloc(2 * (size_t)rec->graph->layers * seat->cached, sizeof *kv);
    if (!kv)
        return iq_fail(err, IQ_MEMORY, "no memory for the digests of a prefix of %u tokens", seat->cached);
    int status = iq_kv_digests(rec->kv, seat->blocks, seat->cached, kv, err);
    if (status == IQ_OK) status = give_attached(rec, seat, step, kv, err);
    free(kv);
    return status;
}

/* The digest of a row that an op made of another: most rows are copied, and comparing is cheaper than a digest. */
static struct iq_digest copied(const float *from, struct iq_digest known, const float *row, uint32_t n)
{
    return row == from || !memcmp(row, from, n * sizeof *row) ? known : iq_digest_row(row, n, sizeof *row);
}

static void predicted(const struct iq_recorder *rec, const struct iq_forward *f, uint32_t i,
                      struct iq_digest *cells, struct iq_position *p)
{
    const struct iq_graph *g = rec->graph;
    uint32_t vocab = f->model->config.vocab, top = f->k < IQ_TOP ? f->k : IQ_TOP;
    struct iq_digest *temper = &cells[iq_graph_node(g, IQ_OP_TEMPER, IQ_NO_LAYER)];
    uint32_t candidates[2 * IQ_TOP];
    memcpy(candidates, f->got.ids + (size_t)i * f->k, top * sizeof(uint32_t));
    memcpy(candidates + top, f->got.values + (size_t)i * f->k, top * sizeof(float));
    p->has_logits = 1;
    p->next = f->got.token[i];
    p->logits = cells[iq_graph_node(g, IQ_OP_LM_HEAD, IQ_NO_LAYER)];
    p->candidates = iq_digest_row(candidates, 2 * top, sizeof *candidates);
    size_t at = (size_t)i * vocab;
    const float *logits = f->got.logits + at, *mask = f->masked ? f->got.masked + at : logits;
    struct iq_digest masked = copied(logits, p->logits, mask, vocab);
    if (f->masks) cells[iq_graph_node(g, IQ_OP_MASK, IQ_NO_LAYER)] = masked;
    *temper = copied(mask, masked, f->tempered ? f->got.tempered + at : mask, vocab);
    iq_logits_summary(logits, vocab, p);
    cells[iq_graph_node(g, IQ_OP_TOPK, IQ_NO_LAYER)] = p->candidates;
    cells[iq_graph_node(g, IQ_OP_SAMPLE, IQ_NO_LAYER)] = iq_digest_row(&p->next, 1, sizeof p->next);
}

struct iq_position iq_recorder_position(const struct iq_recorder *rec, const struct iq_forward *f,
                                        const struct iq_batch *b, const struct iq_step *step, uint32_t r,
                                        uint32_t predicts, struct iq_digest *cells, struct iq_digest *scratch)
{
    const struct iq_row *row = &b->row[r];
    struct iq_position p = {.request = row->request,
                            .pos = row->pos,
                            .token = b->ids[r],
                            .attempt = (uint16_t)row->attempt,
                            .state = IQ_CELL_COMPUTED,
                            .batch = (uint16_t)step->batch,
                            .step = (uint32_t)step->step,
                            .tokens = step->tokens,
                            .body = body(rec->graph, cells, scratch)};
    if (predicts) predicted(rec, f, predicts - 1, cells, &p);
    return p;
}

/* ---- the rows of a step ---- */

struct making {
    struct iq_recorder *rec;
    const struct iq_forward *f;
    const struct iq_batch *b;
    struct iq_seat *const *of_row;
};

static void put_weights(const struct iq_recorder *rec, struct iq_digest *cells)
{
    const struct iq_graph *g = rec->graph;
    cells[iq_graph_node(g, IQ_OP_WEIGHTS, IQ_NO_LAYER)] = rec->weights[0];
    for (uint32_t l = 0; l < g->layers; l++) cells[iq_graph_node(g, IQ_OP_WEIGHTS, l)] = rec->weights[1 + l];
}

/* Positions of a slice of the rows, and the digests that go along with their KV. */
static void make_rows(void *ctx, int part, int parts)
{
    const struct making *m = ctx;
    const struct iq_graph *g = m->rec->graph;
    struct iq_digest *scratch = m->rec->scratch + (size_t)part * g->chains;
    int begin, end;
    iq_slice((int)m->b->rows, part, parts, &begin, &end);
    for (int r = begin; r < end; r++) {
        const struct iq_row *row = &m->b->row[r];
        struct iq_digest *cells = m->rec->tap.cells + (size_t)r * g->nodes;
        struct iq_seat *seat = m->of_row[r];
        uint32_t block = seat->blocks[row->pos / IQ_KV_BLOCK];
        uint8_t spoilt = m->rec->kv->spoilt[block];
        struct iq_digest *kept = m->rec->kv->cells[block] + (size_t)(row->pos % IQ_KV_BLOCK) * g->kepts;
        if (m->rec->weights && m->rec->level >= IQ_LEVEL_OPS) put_weights(m->rec, cells);
        /* Two rows may fight for a place in a spoilt block: see keep_spoilt. */
        for (uint32_t i = 0; i < g->kepts && !spoilt; i++) kept[i] = cells[g->kept[i]];
        seat->kv[row->pos] = kv_of(m->rec, cells, scratch);
        struct iq_position p = iq_recorder_position(m->rec, m->f, m->b, &m->b->step, (uint32_t)r,
                                                    m->rec->predict[r], cells, scratch);
        p.attempt = (uint16_t)(p.attempt + seat->lost);
        if (spoilt) p.state = spoilt;
        m->rec->made[r] = p;
    }
}

/* What make_rows leaves, by one thread in the order of the rows. */
static void keep_spoilt(const struct making *m)
{
    const struct iq_graph *g = m->rec->graph;
    for (uint32_t r = 0; r < m->b->rows; r++) {
        uint32_t pos = m->b->row[r].pos, block = m->of_row[r]->blocks[pos / IQ_KV_BLOCK];
        const struct iq_digest *cells = m->rec->tap.cells + (size_t)r * g->nodes;
        struct iq_digest *kept = m->rec->kv->cells[block] + (size_t)(pos % IQ_KV_BLOCK) * g->kepts;
        for (uint32_t i = 0; i < g->kepts && m->rec->kv->spoilt[block]; i++) kept[i] = cells[g->kept[i]];
    }
}

int iq_recorder_step(struct iq_recorder *rec, const struct iq_forward *f, const struct iq_batch *b,
                     struct iq_seat *const *of_row, struct iq_err *err)
{
    if (rec->untraced) return IQ_OK;
    struct making m = {rec, f, b, of_row};
    uint32_t nodes = rec->graph->nodes;
    for (uint32_t i = 0; i < b->predicts; i++) rec->predict[b->predict[i]] = i + 1;
    iq_pool_run(b->rows > 1 ? rec->pool : NULL, make_rows, &m);
    if (rec->kv->n_spoilt) keep_spoilt(&m);
    for (uint32_t i = 0; i < b->predicts; i++) rec->predict[b->predict[i]] = 0;
    for (uint32_t r = 0; r < b->rows; r++) {
        struct iq_digest *cells = rec->tap.cells + (size_t)r * nodes;
        struct iq_seat *seat = of_row[r];
        struct iq_position *p = &rec->made[r];
        uint32_t i = p->pos - seat->computed;
        bool stays = i < seat->kept;
        IQ_TRY(give_cells(rec, p, stays ? p->state : IQ_CELL_REJECTED, cells, err));
        if (stays && seat->n_draft && i > seat->accepted) {
            p->state = IQ_CELL_REJECTED;
            p->token = seat->chosen[i - 1]; /* what stands there now, over the draft's keys and values */
        }
        if (stays) IQ_TRY(give_position(rec, seat, p, err));
        /* At level chain the next step writes every cell that is read, but for those of predictions. */
        if (rec->level >= IQ_LEVEL_OPS) memset(cells, 0, nodes * sizeof *cells);
    }
    return IQ_OK;
}

/* ---- blocks that are spoilt ---- */

/* A look at what a seat holds. */
struct looking {
    struct iq_recorder *rec;
    struct iq_seat *seat;
    const struct iq_step *step;
    bool found; /* something else than was written */
};

/* Position `pos`; kv: (layers, 2) digests of its bytes, `stride` apart. */
static int look_at_position(struct looking *l, uint32_t pos, enum iq_cell_state state,
                            const struct iq_digest *kv, uint32_t stride, struct iq_err *err)
{
    struct iq_recorder *rec = l->rec;
    struct iq_digest *cells = rec->tap.cells; /* row 0 is free between steps */
    uint32_t n = 2 * rec->graph->layers;
    for (uint32_t i = 0; i < n; i++) cells[rec->chain_kv[i]] = kv[(size_t)i * stride];
    struct iq_position p = l->seat->position[pos];
    p.attempt = (uint16_t)(l->seat->attempt + l->seat->lost + 1);
    p.state = (uint16_t)state;
    p.step = (uint32_t)l->step->step;
    p.body = kv_of(rec, cells, rec->scratch);
    int status = IQ_OK;
    if (!iq_digest_equal(p.body, l->seat->kv[pos])) {
        l->found = true;
        l->seat->kv[pos] = p.body;
        status = give_cells(rec, &p, state, cells, err);
        if (status == IQ_OK) status = give_position(rec, l->seat, &p, err);
    }
    for (uint32_t i = 0; i < n; i++) cells[rec->chain_kv[i]] = (struct iq_digest){0};
    return status;
}

static int look_at_block(struct looking *l, uint32_t b, struct iq_err *err)
{
    const struct iq_kv *kv = l->rec->kv;
    uint32_t block = l->seat->blocks[b], first = b * IQ_KV_BLOCK, n = l->seat->computed - first;
    if (n > IQ_KV_BLOCK) n = IQ_KV_BLOCK;
    struct iq_digest *d = calloc(2 * (size_t)kv->layers * n, sizeof *d);
    if (!d) return iq_fail(err, IQ_MEMORY, "no memory for the digests of a KV block");
    int status = iq_kv_digests(kv, &block, n, d, err);
    for (uint32_t i = 0; i < n && status == IQ_OK; i++)
        status = look_at_position(l, first + i, (enum iq_cell_state)kv->spoilt[block], d + i, n, err);
    free(d);
    return status;
}

int iq_recorder_look(struct iq_recorder *rec, struct iq_seat *const *running, uint32_t n,
                     const struct iq_step *step, struct iq_err *err)
{
    if (rec->untraced || !rec->kv->n_spoilt) return IQ_OK;
    for (uint32_t i = 0; i < n; i++) {
        struct looking l = {.rec = rec, .seat = running[i], .step = step};
        for (uint32_t b = 0; b * IQ_KV_BLOCK < l.seat->computed; b++)
            if (rec->kv->spoilt[l.seat->blocks[b]]) IQ_TRY(look_at_block(&l, b, err));
        l.seat->lost += l.found;
    }
    return IQ_OK;
}

struct iq_digest iq_recorder_chain(const struct iq_seat *seat)
{
    struct iq_digest c = {0, 0};
    for (uint32_t p = 0; p < seat->known; p++)
        c = iq_digest_chain(c, seat->position[p].token, iq_position_digest(&seat->position[p]));
    return c;
}
