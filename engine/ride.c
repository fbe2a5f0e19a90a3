#define _GNU_SOURCE
#include "engine/ride.h"

#include "engine/engine_state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PROMPT_ROWS = 512 }; /* a step's budget whatever the settings: open.c */

struct rider {
    bool aboard, ended;
    struct iq_slots *slots;
    struct iq_step step;
    struct iq_seat seat; /* index, request, ids and blocks are used */
    uint32_t start;      /* as struct iq_entry has it; of the next step */
    uint32_t rows;       /* in the next step */
};

struct iq_ride {
    struct iq_engine *e;
    uint32_t riders, blocks; /* blocks: that the longest sequence has */
    struct rider *rider;
    uint32_t *order; /* (riders) of a pass */
    struct iq_rider *seats;
    struct iq_entry *enter;
    size_t kept_bytes;
};

/* ---- opening ---- */

static uint32_t blocks_of(const struct iq_request *r)
{
    return (r->n_prompt + r->max_tokens + IQ_KV_BLOCK - 1) / IQ_KV_BLOCK;
}

bool iq_ride_can(const struct iq_engine_config *c, const struct iq_request *r, uint32_t requests)
{
    bool whole = r->n_prompt <= PROMPT_ROWS && (!c->chunk || c->chunk >= r->n_prompt);
    if (r->constraint || r->adapter || c->events) return false; /* riders are told nothing of these */
    return requests == 1 && whole && r->max_tokens && !r->score && !c->kv_blocks && !c->trajectory &&
           !c->speculate && (!c->device || !strcmp(c->device, "cpu"));
}

static void *demand_zero(size_t bytes)
{
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return map == MAP_FAILED ? NULL : map;
}

int iq_ride_open(struct iq_engine *e, struct iq_ride **out, struct iq_err *err)
{
    uint32_t riders = e->config.riders;
    const struct iq_model_config *c = &e->model->config;
    const struct iq_request *r = &e->request[0];
    size_t positions = (size_t)r->n_prompt + r->max_tokens;
    *out = NULL;
    struct iq_ride *ride = calloc(1, sizeof *ride);
    if (!ride) return iq_fail(err, IQ_MEMORY, "no memory for riders");
    ride->e = e;
    ride->riders = riders;
    ride->blocks = blocks_of(r);
    ride->rider = calloc(riders, sizeof *ride->rider);
    ride->order = calloc(riders, sizeof *ride->order);
    ride->seats = calloc(riders, sizeof *ride->seats);
    ride->enter = calloc(riders, sizeof *ride->enter);
    ride->kept_bytes = positions * (c->layers + 1) * c->hidden * sizeof(float);
    e->forward.kept = demand_zero(ride->kept_bytes);
    if (!ride->rider || !ride->order || !ride->seats || !ride->enter || !e->forward.kept) {
        iq_ride_close(ride);
        return iq_fail(err, IQ_MEMORY, "no memory for %u riders", riders);
    }
    *out = ride;
    return IQ_OK;
}

void iq_ride_close(struct iq_ride *ride)
{
    if (!ride) return;
    for (uint32_t i = 0; ride->rider && i < ride->riders; i++) iq_ride_leave(ride, i);
    if (ride->e->forward.kept) munmap(ride->e->forward.kept, ride->kept_bytes);
    ride->e->forward.kept = NULL;
    free(ride->rider);
    free(ride->order);
    free(ride->seats);
    free(ride->enter);
    free(ride);
}

/* ---- boarding ---- */

/* Golden's K and V of one block, layers [from, layers), into a rider's own. */
static void copy_block(const struct iq_kv *kv, uint32_t to, uint32_t block, uint32_t from, uint32_t layers)
{
    for (uint32_t l = from; l < layers; l++) {
        const struct iq_kv_layer *c = &kv->layer[l];
        size_t bytes = (size_t)c->kv_heads * c->head_dim * IQ_KV_BLOCK * sizeof(float);
        memcpy(c->k + iq_kv_k_at(c, to, 0), c->k + iq_kv_k_at(c, block, 0), bytes);
        memcpy(c->v + iq_kv_v_at(c, to, 0), c->v + iq_kv_v_at(c, block, 0), bytes);
    }
}

/* Its block table: golden's blocks below its first row, its own from there on. In layers that it does not compute its own
 * hold golden's rows, which later steps read; in the others what lies before its first row. */
static void share_blocks(struct iq_ride *ride, uint32_t i, const struct iq_ride_start *s, uint32_t computed)
{
    const struct iq_engine *e = ride->e;
    struct rider *r = &ride->rider[i];
    const uint32_t *golden = e->schedule.seat[0].blocks;
    uint32_t layers = e->kv.layers, from = s->pos / IQ_KV_BLOCK,
             layer = s->layer == IQ_RIDE_EMBED ? 0 : s->layer;
    for (uint32_t b = 0; b < ride->blocks; b++) {
        r->seat.blocks[b] = b < from ? golden[b] : e->kv.blocks + i * ride->blocks + b;
        if (b < from || b * IQ_KV_BLOCK >= computed) continue;
        bool before = b == from && s->pos % IQ_KV_BLOCK;
        if (!s->last) copy_block(&e->kv, r->seat.blocks[b], golden[b], 0, before ? layers : layer);
        if (s->last && before) copy_block(&e->kv, r->seat.blocks[b], golden[b], layer, layers);
    }
}

int iq_ride_board(struct iq_ride *ride, uint32_t i, const struct iq_ride_start *s,
                  const struct iq_selector *selector, const struct iq_tap *tap, struct iq_err *err)
{
    struct iq_engine *e = ride->e;
    struct rider *r = &ride->rider[i];
    const struct iq_seat *golden = &e->schedule.seat[0];
    uint32_t longest = golden->request->n_prompt + golden->request->max_tokens;
    iq_ride_leave(ride, i);
    IQ_TRY(iq_slots_twin(e->slots, &r->slots, err));
    iq_slots_tap(r->slots, tap);
    iq_slots_arm(r->slots, selector);
    r->seat = *golden;
    r->seat.computed = s->pos < golden->request->n_prompt ? 0 : s->pos;
    r->seat.ids = malloc(longest * sizeof *r->seat.ids);
    r->seat.blocks = malloc(ride->blocks * sizeof *r->seat.blocks);
    if (!r->seat.ids || !r->seat.blocks) {
        iq_ride_leave(ride, i);
        return iq_fail(err, IQ_MEMORY, "no memory for a rider");
    }
    /* The step's last row is the last known token. */
    uint32_t n = golden->request->n_prompt;
    if (s->pos >= n) n = s->pos + 1;
    memcpy(r->seat.ids, golden->ids, n * sizeof *r->seat.ids);
    r->seat.n_ids = n;
    r->step = s->step;
    r->start = s->layer == IQ_RIDE_EMBED ? IQ_START_EMBED : s->layer + 1;
    r->rows = n - s->pos;
    r->aboard = true;
    share_blocks(ride, i, s, n);
    return IQ_OK;
}

void iq_ride_leave(struct iq_ride *ride, uint32_t i)
{
    struct rider *r = &ride->rider[i];
    iq_slots_close(r->slots);
    free(r->seat.ids);
    free(r->seat.blocks);
    *r = (struct rider){.aboard = false};
}

uint64_t iq_ride_step(const struct iq_ride *ride, uint32_t i) { return ride->rider[i].step.step; }

bool iq_ride_ended(const struct iq_ride *ride, uint32_t i, const uint32_t **ids, uint32_t *n)
{
    *ids = ride->rider[i].seat.ids;
    *n = ride->rider[i].seat.n_ids;
    return ride->rider[i].ended;
}

/* ---- a pass ---- */

/* Those that ride, ascending by start: as a pass goes on its rows only grow. */
static uint32_t line_up(struct iq_ride *ride)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < ride->riders; i++) {
        const struct rider *r = &ride->rider[i];
        if (!r->aboard || r->ended) continue;
        uint32_t at = n++;
        for (; at && ride->rider[ride->order[at - 1]].start > r->start; at--)
            ride->order[at] = ride->order[at - 1];
        ride->order[at] = i;
    }
    return n;
}

/* The k-th of a batch: its rows, its seat in the dispatch, golden's cells where it computes none. */
static void seat_rider(struct iq_ride *ride, struct iq_batch *b, uint32_t k, uint32_t i,
                       const struct iq_ride_watch *watch)
{
    struct iq_engine *e = ride->e;
    struct rider *r = &ride->rider[i];
    uint32_t pos = r->seat.n_ids - r->rows, nodes = e->graph.nodes;
    e->seq[k] = (struct iq_seq){b->rows, r->rows, pos, r->seat.blocks};
    ride->seats[k] = (struct iq_rider){r->slots, &r->step, b->rows, r->rows};
    ride->enter[k] = (struct iq_entry){r->start};
    for (uint32_t t = 0; t < r->rows; t++, b->rows++) {
        struct iq_digest *cells = e->recorder.tap.cells + (size_t)b->rows * nodes;
        e->row[b->rows] = iq_seat_row(&r->seat, pos + t, b->rows);
        e->row[b->rows].after = r->seat.n_ids;
        e->row[b->rows].others.top_p = 1; /* there are none */
        e->ids[b->rows] = r->seat.ids[pos + t];
        if (r->start != IQ_START_EMBED)
            memcpy(cells, watch->golden + (size_t)(pos + t) * nodes, nodes * sizeof *cells);
        else
            memset(cells, 0, nodes * sizeof *cells);
    }
    e->predict[b->predicts++] = b->rows - 1;
    b->seqs++;
}

/* As the engine would describe it: one request, one row, all blocks but its own to be had. */
static void next_step(struct rider *r, const struct iq_kv *kv)
{
    r->step.clock_us += IQ_STEP_US + (uint64_t)IQ_TOKEN_US * r->step.tokens;
    r->step.step++;
    r->step.idle_us = 0;
    r->step.tokens = 1;
    r->step.shortest = r->step.longest = r->seat.n_ids;
    r->step.kv_free = kv->blocks - (r->seat.n_ids + IQ_KV_BLOCK - 1) / IQ_KV_BLOCK;
    r->seat.computed = r->seat.n_ids - 1;
    r->start = IQ_START_EMBED;
    r->rows = 1;
}

static int finish_rider(struct iq_ride *ride, const struct iq_batch *b, uint32_t k, uint32_t i,
                        const struct iq_ride_watch *watch, struct iq_err *err)
{
    struct iq_engine *e = ride->e;
    struct rider *r = &ride->rider[i];
    uint32_t first = e->seq[k].first, token = e->forward.got.token[k];
    if (token >= e->model->config.vocab)
        return iq_fail(err, IQ_CRASHED, "step %llu: sample chose token %u; the vocabulary has %u",
                       (unsigned long long)r->step.step, token, e->model->config.vocab);
    for (uint32_t t = 0; t < r->rows; t++) {
        struct iq_digest *cells = e->recorder.tap.cells + (size_t)(first + t) * e->graph.nodes;
        struct iq_position p = iq_recorder_position(&e->recorder, &e->forward, b, &r->step, first + t,
                                                    t + 1 == r->rows ? k + 1 : 0, cells, e->recorder.scratch);
        watch->position(watch->self, i, &p, cells);
    }
    r->seat.ids[r->seat.n_ids++] = token;
    r->ended = iq__engine_ends(e, r->seat.request, token, r->seat.n_ids - r->seat.request->n_prompt) != NULL;
    next_step(r, &e->kv);
    return IQ_OK;
}

int iq_ride_pass(struct iq_ride *ride, uint32_t rows, const struct iq_ride_watch *watch, struct iq_err *err)
{
    struct iq_engine *e = ride->e;
    uint32_t n = line_up(ride);
    if (rows > e->forward.max_rows) rows = e->forward.max_rows;
    for (uint32_t from = 0, to; from < n; from = to) {
        struct iq_batch b = {
            .row = e->row, .ids = e->ids, .seq = e->seq, .predict = e->predict, .enter = ride->enter};
        for (to = from; to < n; to++) {
            const struct rider *r = &ride->rider[ride->order[to]];
            if (to > from && b.rows + r->rows > rows) break;
            seat_rider(ride, &b, to - from, ride->order[to], watch);
        }
        b.step = ride->rider[ride->order[from]].step;
        b.step.captured = 0; /* nothing is padded */
        iq_slots_ride(e->slots, ride->seats, to - from);
        int status = iq_forward_run(&e->forward, &b, err);
        iq_slots_ride(e->slots, NULL, 0);
        IQ_TRY(status);
        for (uint32_t k = 0; k < to - from; k++)
            IQ_TRY(finish_rider(ride, &b, k, ride->order[from + k], watch, err));
    }
    return IQ_OK;
}
