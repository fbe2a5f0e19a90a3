#include "harness/campaign/aboard.h"

#include "harness/campaign/guarded.h"
#include "kernels/view.h"

#include <stdlib.h>
#include <string.h>

/* ---- where a trial joins ---- */

/* A workaround puts golden's bits back, which are the row's own. */
static bool can_ride(const struct iq_fault *f)
{
    const struct iq_kind *kind = f->op == IQ_OP_NONE ? f->kind : iq_op_kind((enum iq_op_id)f->op);
    return iq_view_can(kind) && (f->variant->flags & (IQ_V_ROW_LOCAL | IQ_V_GOLDEN | IQ_V_REFERENCE));
}

/* Which row it strikes, or whether, may depend on how many there are in a call: then all of a step come along. */
static bool needs_all(const struct iq_plan *p)
{
    for (size_t i = 0; i < p->n; i++) {
        struct iq_buf text = IQ_BUF(1 << 20);
        struct iq_jw w = IQ_JW(&text);
        iq_fault_json(&p->fault[i], &w);
        bool all =
            (p->fault[i].variant->flags & IQ_V_COUNTS_ROWS) || !text.data || strstr(text.data, "\"arg.");
        iq_buf_free(&text);
        if (all) return true;
    }
    return false;
}

bool iq_aboard_start(const struct iq_context *c, const struct iq_armed_trial *t, struct iq_ride_start *out)
{
    const struct iq_scout *s = &c->scout;
    if (!c->ride || t->blind || t->site == s->n) return false;
    for (size_t i = 0; i < t->plan.n; i++)
        if (!can_ride(&t->plan.fault[i])) return false;
    const struct iq_scouted *first = &s->seen[t->site];
    uint32_t layers = c->model->config.layers, prompt = c->request[0].n_prompt;
    *out = (struct iq_ride_start){.step = first->step,
                                  .layer = first->site.op == IQ_OP_EMBED      ? IQ_RIDE_EMBED
                                           : first->site.layer == IQ_NO_LAYER ? layers
                                                                              : first->site.layer};
    uint32_t last = prompt - 1 + (uint32_t)first->step.step; /* the step's last row */
    out->pos = first->step.step ? last : iq_scout_least(s, &t->selector, t->site);
    if (!first->step.step && needs_all(&t->plan)) out->pos = 0;
    if (out->pos > last) return false;
    out->last = last + 2 - prompt >= c->request[0].max_tokens;
    return true;
}

/* ---- the ride, in a process of its own ---- */

/* What comes back for each trial. */
struct told {
    uint32_t trial, pad;
    struct iq_seen seen;
};

struct seat {
    struct iq_witness witness;
    struct iq_tap tap;
    uint32_t trial; /* UINT32_MAX: free */
};

struct ride {
    const struct iq_context *context;
    const struct iq_armed_trial *const *trial;
    uint32_t n;
    struct seat *seat;
    int pipe;
};

static int on_fired(void *self, const struct iq_site *site, const struct iq_firing *f)
{
    (void)site;
    iq_witness_fired(self, f);
    return IQ_OK;
}

static void on_position(void *self, uint32_t rider, const struct iq_position *p,
                        const struct iq_digest *cells)
{
    struct ride *r = self;
    struct iq_witness *w = &r->seat[rider].witness;
    const struct iq_golden *g = w->golden;
    const struct iq_golden_request *golden = &g->request[0];
    uint32_t node = UINT32_MAX;
    if (p->pos < golden->positions) {
        const struct iq_digest *want = golden->cell + (size_t)p->pos * g->nodes;
        for (uint32_t i = 0; i < g->nodes && node == UINT32_MAX; i++)
            if (!iq_digest_is_zero(cells[i]) && !iq_digest_equal(want[i], cells[i])) node = i;
    }
    iq_witness_position(w, p, node);
}

static int board(struct ride *r, uint32_t i, uint32_t trial, struct iq_err *err)
{
    const struct iq_armed_trial *t = r->trial[trial];
    struct seat *seat = &r->seat[i];
    struct iq_ride_start start;
    if (!iq_aboard_start(r->context, t, &start)) return IQ_INTERNAL;
    IQ_TRY(iq_witness_open(&seat->witness, &r->context->golden, err));
    seat->tap = (struct iq_tap){.self = &seat->witness, .fired = on_fired};
    seat->trial = trial;
    return iq_ride_board(r->context->ride, i, &start, &t->selector, &seat->tap, err);
}

static void clear(struct ride *r, uint32_t i)
{
    iq_ride_leave(r->context->ride, i);
    iq_witness_free(&r->seat[i].witness);
    r->seat[i].trial = UINT32_MAX;
}

/* A rider that has its last token, or is golden again for good, tells and gets off. */
static int get_off(struct ride *r, uint32_t i)
{
    struct seat *seat = &r->seat[i];
    const struct iq_scout *s = &r->context->scout;
    const struct iq_selector *selector = &r->trial[seat->trial]->selector;
    struct told told;
    const uint32_t *ids;
    uint32_t n_ids;
    bool ended = iq_ride_ended(r->context->ride, i, &ids, &n_ids);
    size_t later = iq_scout_step(s, iq_ride_step(r->context->ride, i));
    if (!ended && (seat->witness.differing || iq_scout_find(s, selector, later) != s->n)) return IQ_OK;
    if (ended) iq_witness_ended(&seat->witness, 0, ids, n_ids);
    memset(&told, 0, sizeof told);
    told.trial = seat->trial;
    iq_seen_of(&seat->witness, &told.seen);
    clear(r, i);
    return iq_guarded_write(r->pipe, &told, sizeof told) ? IQ_IO : IQ_OK;
}

/* Who is aboard; the seats are free then. */
static uint32_t empty_seats(struct ride *r, uint32_t list[IQ_RIDERS_MAX])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->context->riders; i++) {
        if (r->seat[i].trial == UINT32_MAX) continue;
        list[n++] = r->seat[i].trial;
        clear(r, i);
    }
    return n;
}

static uint32_t aboard(const struct ride *r)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->context->riders; i++) n += r->seat[i].trial != UINT32_MAX;
    return n;
}

/* Trials of a list. Where a pass fails, one of those aboard has made it fail (no token can be sampled ...): they begin again in
 * two halves, until it is alone, and that one is left for a process of its own. */
static int ride(struct ride *r, const uint32_t *list, uint32_t n, struct iq_err *err)
{
    const struct iq_context *c = r->context;
    const struct iq_ride_watch watch = {
        .self = r, .golden = c->golden.request[0].cell, .position = on_position};
    for (uint32_t next = 0; next < n || aboard(r);) {
        uint32_t again[IQ_RIDERS_MAX] = {0};
        for (uint32_t i = 0; i < c->riders && next < n; i++)
            if (r->seat[i].trial == UINT32_MAX) IQ_TRY(board(r, i, list[next++], err));
        if (iq_ride_pass(c->ride, IQ_ABOARD_ROWS, &watch, err) != IQ_OK) {
            uint32_t m = empty_seats(r, again);
            if (m > 1) IQ_TRY(ride(r, again, m / 2, err));
            if (m > 1) IQ_TRY(ride(r, again + m / 2, m - m / 2, err));
            continue;
        }
        for (uint32_t i = 0; i < c->riders; i++)
            if (r->seat[i].trial != UINT32_MAX) IQ_TRY(get_off(r, i));
    }
    return IQ_OK;
}

static int work(void *self, int out)
{
    struct ride r = *(const struct ride *)self;
    struct iq_err err = {0};
    r.pipe = out;
    r.seat = calloc(r.context->riders, sizeof *r.seat);
    uint32_t *list = calloc((size_t)r.n + 1, sizeof *list);
    if (!r.seat || !list) {
        free(r.seat);
        free(list);
        return 1;
    }
    for (uint32_t i = 0; i < r.context->riders; i++) r.seat[i].trial = UINT32_MAX;
    for (uint32_t i = 0; i < r.n; i++) list[i] = i;
    int failed = ride(&r, list, r.n, &err) != IQ_OK;
    free(r.seat);
    free(list);
    return failed;
}

int iq_aboard_run(const struct iq_grid *g, const struct iq_context *c,
                  const struct iq_armed_trial *const *trial, uint32_t n, struct iq_seen *seen, bool *told,
                  struct iq_err *err)
{
    struct ride r = {.context = c, .trial = trial, .n = n};
    struct iq_guarded guarded = {
        .seconds = g->seconds, .mib = g->mib, .steady = true, .work = work, .self = &r};
    struct told *heard = malloc(n * sizeof *heard);
    struct iq_err how;
    size_t got = 0;
    if (!heard) return iq_fail(err, IQ_MEMORY, "no memory for what %u trials say", n);
    int status = iq_guarded_run(&guarded, heard, n * sizeof *heard, &got, &how);
    if (status == IQ_CRASHED || status == IQ_LIMIT) status = IQ_OK; /* who did it shows when they run alone */
    for (size_t i = 0; i < got / sizeof *heard; i++) {
        if (heard[i].trial >= n) continue;
        seen[heard[i].trial] = heard[i].seen;
        told[heard[i].trial] = true;
    }
    free(heard);
    return status == IQ_OK ? IQ_OK : iq_fail(err, status, "%s", how.text);
}
