#include "engine/schedule.h"

#include <string.h>

static uint32_t min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }

uint32_t iq_schedule_waiting(const struct iq_schedule *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n; i++)
        n += s->seat[i].state == IQ_WAITING && s->seat[i].request->arrive_us <= s->clock_us;
    return n;
}

uint32_t iq_seat_end(const struct iq_seat *seat)
{
    uint32_t cancel = seat->request->cancel_after;
    return cancel ? min_u32(seat->n_ids, cancel) : seat->n_ids;
}

/* What control ops see of the step that is being formed. */
static void look(const struct iq_schedule *s)
{
    s->site->batch = s->n_running;
    s->site->clock_us = s->clock_us;
    s->site->running = s->n_running;
    s->site->kv_free = iq_kv_available(s->kv);
    s->site->evictions = s->kv->evictions;
    s->site->moves = s->kv->moves;
}

static uint32_t blocks_of(uint32_t positions) { return (positions + IQ_KV_BLOCK - 1) / IQ_KV_BLOCK; }

int iq_schedule_trim(struct iq_schedule *s, struct iq_seat *seat, struct iq_err *err)
{
    look(s);
    while (seat->n_blocks > blocks_of(seat->computed)) {
        struct iq_row row = iq_seat_row(seat, --seat->n_blocks * IQ_KV_BLOCK, 0);
        IQ_TRY(iq_kv_drop(s->kv, &row, seat->blocks[seat->n_blocks], false, err));
    }
    return IQ_OK;
}

int iq_schedule_release(struct iq_schedule *s, struct iq_seat *seat, enum iq_state to, struct iq_err *err)
{
    bool cancelled = to == IQ_DONE && !strcmp(seat->finish, "cancelled");
    look(s);
    for (uint32_t i = 0; i < seat->n_blocks; i++) {
        struct iq_row row = iq_seat_row(seat, i * IQ_KV_BLOCK, 0);
        IQ_TRY(iq_kv_drop(s->kv, &row, seat->blocks[i], cancelled, err));
    }
    seat->n_blocks = 0;
    for (uint32_t i = 0, kept = 0, n = s->n_running; i < n; i++) {
        if (s->running[i] == seat)
            s->n_running--;
        else
            s->running[kept++] = s->running[i];
    }
    seat->state = to;
    if (to == IQ_DONE) s->done++;
    return IQ_OK;
}

static int preempt(struct iq_schedule *s, struct iq_seat *seat, struct iq_err *err)
{
    IQ_TRY(iq_schedule_release(s, seat, IQ_WAITING, err));
    seat->computed = seat->n_draft = 0;
    seat->attempt++;
    s->preemptions++;
    for (uint32_t i = 0; i < s->shares; i++) /* it may have been given a share of this very step */
        if (s->share[i].seat == seat) {
            memmove(&s->share[i], &s->share[i + 1], (s->shares - i - 1) * sizeof *s->share);
            s->shares--;
            break;
        }
    return IQ_OK;
}

/* Blocks for positions up to `positions`; preempts the request admitted last while there are none. *room false: the
 * request itself was preempted. */
static int reserve(struct iq_schedule *s, struct iq_seat *seat, uint32_t positions, bool *room,
                   struct iq_err *err)
{
    uint32_t block;
    *room = false;
    while (seat->n_blocks < blocks_of(positions)) {
        struct iq_row row = iq_seat_row(seat, seat->n_blocks * IQ_KV_BLOCK, 0);
        look(s);
        IQ_TRY(iq_kv_take(s->kv, &row, seat->n_blocks, &block, err));
        if (block != UINT32_MAX) {
            seat->blocks[seat->n_blocks++] = block;
            continue;
        }
        struct iq_seat *last = s->running[s->n_running - 1];
        IQ_TRY(preempt(s, last, err));
        if (last == seat) return IQ_OK;
    }
    *room = true;
    return IQ_OK;
}

static uint32_t wanted(const struct iq_schedule *s, const struct iq_seat *seat)
{
    uint32_t lacking = iq_seat_end(seat) - seat->computed, chunk = s->config->chunk;
    if (seat->request->score) lacking = min_u32(lacking, s->score_chunk);
    return chunk ? min_u32(lacking, chunk) : lacking;
}

/* Drafts that get rows behind `ends` positions, `most` of them: those that push nobody out. */
static uint32_t drafts(const struct iq_schedule *s, const struct iq_seat *seat, uint32_t ends, uint32_t most)
{
    uint32_t n = min_u32(seat->n_draft, most), blocks = seat->n_blocks + iq_kv_available(s->kv);
    while (n && blocks_of(ends + n) > blocks) n--;
    return n;
}

/* Rows for `tokens` of the request's, and within `left` for its drafts. *room false: it was preempted for want of room for
 * itself. */
static int give(struct iq_schedule *s, struct iq_seat *seat, uint32_t tokens, uint32_t left, bool *room,
                struct iq_err *err)
{
    IQ_TRY(reserve(s, seat, seat->computed + tokens, room, err));
    if (*room) {
        uint32_t ends = seat->computed + tokens;
        seat->n_draft = drafts(s, seat, ends, left - tokens);
        tokens += seat->n_draft;
        IQ_TRY(reserve(s, seat, ends + seat->n_draft, room, err));
    }
    if (*room) s->share[s->shares++] = (struct iq_share){.seat = seat, .tokens = tokens};
    s->event[s->events++] = (struct iq_share){.seat = seat, .tokens = *room ? tokens : 0};
    return IQ_OK;
}

static int arrive(struct iq_schedule *s, struct iq_seat *seat, struct iq_err *err)
{
    look(s);
    return seat->arrived ? IQ_OK : s->arrive(s->ctx, seat, err);
}

static int admit(struct iq_schedule *s, struct iq_seat *seat, struct iq_err *err)
{
    seat->state = IQ_RUNNING;
    s->running[s->n_running++] = seat;
    return s->admit(s->ctx, seat, err);
}

/* ---- who rides ---- */

/* The running requests, in order of admission. */
static uint32_t line_up_running(struct iq_schedule *s)
{
    memcpy(s->lineup, s->running, s->n_running * sizeof *s->lineup);
    return s->n_running;
}

static bool before(const struct iq_seat *a, const struct iq_seat *b)
{
    uint64_t x = a->request->arrive_us, y = b->request->arrive_us;
    return x < y || (x == y && a < b);
}

/* The waiting requests that come next: earliest arrival, then lowest index. */
static uint32_t line_up_waiting(struct iq_schedule *s)
{
    enum { MOST = 8 }; /* at a time: a step seldom takes more, and each costs a look at all */
    uint32_t n = 0, most = min_u32(s->config->batch - s->n_running, MOST);
    for (uint32_t i = 0; i < s->n; i++) {
        struct iq_seat *w = &s->seat[i];
        uint32_t at = n;
        if (w->state != IQ_WAITING || (s->hold && !w->attempt) || (n == most && !before(w, s->lineup[n - 1])))
            continue;
        if (n == most) at--;
        for (; at && before(w, s->lineup[at - 1]); at--) s->lineup[at] = s->lineup[at - 1];
        s->lineup[at] = w;
        n += n < most;
    }
    return n;
}

/* s->pick for the first n of the lineup. */
static int decide(struct iq_schedule *s, uint32_t n, bool joining, uint32_t budget, struct iq_err *err)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct iq_seat *seat = s->lineup[i];
        s->form_seat[i] = (struct iq_form_seat){.request = seat->index,
                                                .session = seat->request->session,
                                                .lacking = wanted(s, seat),
                                                .arrive_us = seat->request->arrive_us};
    }
    const struct iq_form args = {
        .joining = joining, .n = n, .budget = budget, .seat = s->form_seat, .pick = s->pick};
    const struct iq_row row = iq_seat_row(s->lineup[0], 0, 0);
    look(s);
    return iq_control_run(s->kv->control, IQ_OP_FORM, &row, &args, err);
}

/* The seat of a decision; NULL: nobody, or one that can't be meant. */
static struct iq_seat *picked(const struct iq_schedule *s, uint32_t n, uint32_t i, enum iq_state state)
{
    struct iq_seat *seat = s->pick[i].seat < n ? s->lineup[s->pick[i].seat] : NULL;
    bool shared = false;
    for (uint32_t k = 0; k < s->shares; k++) shared |= s->share[k].seat == seat;
    return seat && seat->state == state && !shared && s->pick[i].tokens ? seat : NULL;
}

static int ride(struct iq_schedule *s, uint32_t *left, struct iq_err *err)
{
    uint32_t n = line_up_running(s);
    bool room;
    if (n) IQ_TRY(decide(s, n, false, *left, err));
    for (uint32_t i = 0; i < n && *left; i++) {
        struct iq_seat *seat = picked(s, n, i, IQ_RUNNING);
        if (!seat) continue;
        uint32_t tokens = min_u32(min_u32(wanted(s, seat), s->pick[i].tokens), *left);
        IQ_TRY(give(s, seat, tokens, *left, &room, err));
        if (room) *left -= s->share[s->shares - 1].tokens;
    }
    return IQ_OK;
}

/* One who waits joins, if there is room. *joined false: nobody else does in this step. */
static int join(struct iq_schedule *s, struct iq_seat *seat, uint32_t most, uint32_t *left, bool *joined,
                struct iq_err *err)
{
    *joined = false;
    if (seat->request->arrive_us > s->clock_us) {
        if (s->n_running) return IQ_OK;
        s->clock_us = seat->request->arrive_us; /* nothing else to do: time jumps */
    }
    IQ_TRY(arrive(s, seat, err));
    /* Room for the whole of what is known, so that an admission does not lead straight to a preemption. */
    if (s->n_running && iq_kv_available(s->kv) < blocks_of(seat->n_ids)) return IQ_OK;
    IQ_TRY(admit(s, seat, err));
    uint32_t tokens = min_u32(min_u32(wanted(s, seat), most), *left);
    IQ_TRY(give(s, seat, tokens, *left, joined, err));
    if (*joined) *left -= s->share[s->shares - 1].tokens;
    return IQ_OK;
}

static int form_greedily(struct iq_schedule *s, struct iq_err *err)
{
    uint32_t left = s->budget;
    IQ_TRY(ride(s, &left, err));
    uint64_t preemptions = s->preemptions;
    for (bool joined = true; joined && left && s->n_running < s->config->batch;) {
        uint32_t n = line_up_waiting(s);
        joined = false;
        if (n) IQ_TRY(decide(s, n, true, left, err));
        for (uint32_t i = 0; i < n && left && s->preemptions == preemptions; i++) {
            struct iq_seat *seat = picked(s, n, i, IQ_WAITING);
            if (!seat) continue;
            IQ_TRY(join(s, seat, s->pick[i].tokens, &left, &joined, err));
            if (!joined) return IQ_OK;
        }
    }
    return IQ_OK;
}

/* ---- a recorded trajectory: [[[request, tokens], ...], ...] ---- */

static int recorded_share(const struct iq_schedule *s, const cJSON *pair, uint64_t *request, uint64_t *tokens,
                          struct iq_err *err)
{
    *request = *tokens = 0;
    if (!cJSON_IsArray(pair) || cJSON_GetArraySize(pair) != 2)
        return iq_fail(err, IQ_FORMAT, "expected pairs [request, tokens]");
    if (s->events == 2 * s->config->batch)
        return iq_fail(err, IQ_FORMAT, "more pairs than a batch of %u can make", s->config->batch);
    IQ_TRY(iq_json_item_u64(pair->child, 0, s->n - 1, "request", request, err));
    return iq_json_item_u64(pair->child->next, 0, s->budget, "tokens", tokens, err);
}

/* It asked for what it lacked, and no one could be preempted for it but itself. */
static int give_up_recorded(struct iq_schedule *s, struct iq_seat *seat, uint32_t left, struct iq_err *err)
{
    bool shared = false, room = true;
    for (uint32_t i = 0; i < s->shares; i++) shared |= s->share[i].seat == seat;
    if (seat->state == IQ_RUNNING && !shared && left)
        IQ_TRY(give(s, seat, min_u32(wanted(s, seat), left), left, &room, err));
    if (!room) return IQ_OK;
    return iq_fail(err, IQ_MISMATCH, "preempts request %u, but it does not run or has room (--kv-blocks)",
                   seat->index);
}

static int give_recorded(struct iq_schedule *s, const cJSON *pair, uint32_t *left, struct iq_err *err)
{
    uint64_t request, tokens;
    IQ_TRY(recorded_share(s, pair, &request, &tokens, err));
    struct iq_seat *seat = &s->seat[request];
    if (!tokens) return give_up_recorded(s, seat, *left, err);
    if (seat->state == IQ_WAITING) {
        if (s->n_running == s->config->batch)
            return iq_fail(err, IQ_MISMATCH, "needs a batch of more than %u (--batch)", s->config->batch);
        if (seat->request->arrive_us > s->clock_us) s->clock_us = seat->request->arrive_us;
        IQ_TRY(arrive(s, seat, err));
        IQ_TRY(admit(s, seat, err));
    }
    for (uint32_t i = 0; i < s->shares; i++)
        if (s->share[i].seat == seat) return iq_fail(err, IQ_FORMAT, "names request %u twice", seat->index);
    uint32_t lacking = iq_seat_end(seat) - seat->computed, most = lacking + seat->n_draft;
    bool room;
    if (seat->state == IQ_DONE || tokens > most || tokens > *left)
        return iq_fail(err, IQ_MISMATCH, "gives request %u %llu tokens, but it lacks %u%s", seat->index,
                       (unsigned long long)tokens, seat->state == IQ_DONE ? 0 : lacking,
                       lacking == 1 && tokens > 1 ? " and has not as many drafts (--speculate)" : "");
    IQ_TRY(give(s, seat, min_u32((uint32_t)tokens, lacking), (uint32_t)tokens, &room, err));
    if (!room || s->share[s->shares - 1].tokens != tokens)
        return iq_fail(err, IQ_MISMATCH, "does not fit the KV cache (--kv-blocks)");
    *left -= (uint32_t)tokens;
    return IQ_OK;
}

static int form_recorded(struct iq_schedule *s, struct iq_err *err)
{
    const char *name = s->config->trajectory_name ? s->config->trajectory_name : "trajectory";
    const cJSON *step = cJSON_GetArrayItem(s->config->trajectory, (int)s->step), *pair;
    uint32_t left = s->budget, pairs = 0;
    if (!cJSON_IsArray(s->config->trajectory) || (step && !cJSON_IsArray(step)))
        return iq_fail(err, IQ_FORMAT, "%s: step %u: expected a list of steps, each a list of pairs", name,
                       s->step);
    if (!step)
        return iq_fail(err, IQ_MISMATCH, "%s: it ends before step %u, yet %u of %u requests are not done",
                       name, s->step, s->n - s->done, s->n);
    cJSON_ArrayForEach(pair, step)
    {
        int status = give_recorded(s, pair, &left, err);
        if (status != IQ_OK) {
            iq_err_prefix(err, "%s: step %u, pair %u: ", name, s->step, pairs);
            return status;
        }
        pairs++;
    }
    return s->shares ? IQ_OK : iq_fail(err, IQ_FORMAT, "%s: step %u is empty", name, s->step);
}

int iq_schedule_form(struct iq_schedule *s, struct iq_err *err)
{
    s->shares = s->events = 0;
    if (s->done == s->n) return IQ_OK;
    IQ_TRY(s->config->trajectory ? form_recorded(s, err) : form_greedily(s, err));
    if (!s->shares) return iq_fail(err, IQ_INTERNAL, "the scheduler formed an empty step");
    return IQ_OK;
}

bool iq_schedule_drained(const struct iq_schedule *s)
{
    bool drained = !s->n_running;
    for (uint32_t i = 0; i < s->n; i++) drained &= s->seat[i].state != IQ_WAITING || !s->seat[i].attempt;
    return drained;
}

void iq_schedule_advance(struct iq_schedule *s, uint32_t rows)
{
    s->clock_us += IQ_STEP_US + (uint64_t)IQ_TOKEN_US * rows;
    s->step++;
}
