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

void iq_schedule_release(struct iq_schedule *s, struct iq_seat *seat, enum iq_state to)
{
    for (uint32_t i = 0; i < seat->n_blocks; i++) iq_kv_drop(s->kv, seat->blocks[i]);
    seat->n_blocks = 0;
    for (uint32_t i = 0, kept = 0, n = s->n_running; i < n; i++) {
        if (s->running[i] == seat)
            s->n_running--;
        else
            s->running[kept++] = s->running[i];
    }
    seat->state = to;
    if (to == IQ_DONE) s->done++;
}

static void preempt(struct iq_schedule *s, struct iq_seat *seat)
{
    iq_schedule_release(s, seat, IQ_WAITING);
    seat->computed = 0;
    seat->attempt++;
    s->preemptions++;
    for (uint32_t i = 0; i < s->shares; i++) /* it may have been given a share of this very step */
        if (s->share[i].seat == seat) {
            memmove(&s->share[i], &s->share[i + 1], (s->shares - i - 1) * sizeof *s->share);
            s->shares--;
            break;
        }
}

/* Blocks for positions up to `positions`; preempts the request admitted last while there are none. False: the request
 * itself was preempted. */
static bool reserve(struct iq_schedule *s, struct iq_seat *seat, uint32_t positions)
{
    uint32_t want = (positions + IQ_KV_BLOCK - 1) / IQ_KV_BLOCK;
    while (seat->n_blocks < want) {
        uint32_t block = iq_kv_take(s->kv);
        if (block != UINT32_MAX) {
            seat->blocks[seat->n_blocks++] = block;
            continue;
        }
        struct iq_seat *last = s->running[s->n_running - 1];
        preempt(s, last);
        if (last == seat) return false;
    }
    return true;
}

static uint32_t wanted(const struct iq_schedule *s, const struct iq_seat *seat)
{
    uint32_t lacking = seat->n_ids - seat->computed, chunk = s->config->chunk;
    if (seat->request->score) lacking = min_u32(lacking, s->score_chunk);
    return chunk ? min_u32(lacking, chunk) : lacking;
}

static bool give(struct iq_schedule *s, struct iq_seat *seat, uint32_t tokens)
{
    bool room = reserve(s, seat, seat->computed + tokens);
    if (room) s->share[s->shares++] = (struct iq_share){.seat = seat, .tokens = tokens};
    s->event[s->events++] = (struct iq_share){.seat = seat, .tokens = room ? tokens : 0};
    return room;
}

/* The waiting request that comes next: earliest arrival, then lowest index. */
static struct iq_seat *next_waiting(struct iq_schedule *s)
{
    struct iq_seat *best = NULL;
    for (uint32_t i = 0; i < s->n; i++) {
        struct iq_seat *w = &s->seat[i];
        if (w->state != IQ_WAITING || (s->hold && !w->attempt)) continue;
        if (!best || w->request->arrive_us < best->request->arrive_us) best = w;
    }
    return best;
}

static int admit(struct iq_schedule *s, struct iq_seat *seat, struct iq_err *err)
{
    seat->state = IQ_RUNNING;
    s->running[s->n_running++] = seat;
    return s->admit(s->ctx, seat, err);
}

static int form_greedily(struct iq_schedule *s, struct iq_err *err)
{
    uint32_t left = s->budget;
    for (uint32_t i = 0; i < s->n_running && left; i++) {
        struct iq_seat *seat = s->running[i];
        uint32_t tokens = min_u32(wanted(s, seat), left);
        if (!give(s, seat, tokens)) break; /* it was the last one */
        left -= tokens;
    }
    uint64_t before = s->preemptions;
    while (left && s->n_running < s->config->batch && s->preemptions == before) {
        struct iq_seat *seat = next_waiting(s);
        if (!seat) break;
        if (seat->request->arrive_us > s->clock_us) {
            if (s->n_running) break;
            s->clock_us = seat->request->arrive_us; /* nothing else to do: time jumps */
        }
        /* Room for the whole of what is known, so that an admission does not lead straight to a preemption. */
        uint32_t need = (seat->n_ids + IQ_KV_BLOCK - 1) / IQ_KV_BLOCK;
        if (s->n_running && iq_kv_available(s->kv) < need) break;
        IQ_TRY(admit(s, seat, err));
        uint32_t tokens = min_u32(wanted(s, seat), left);
        if (!give(s, seat, tokens)) break;
        left -= tokens;
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
    bool shared = false;
    for (uint32_t i = 0; i < s->shares; i++) shared |= s->share[i].seat == seat;
    if (seat->state == IQ_RUNNING && !shared && left && !give(s, seat, min_u32(wanted(s, seat), left)))
        return IQ_OK;
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
        IQ_TRY(admit(s, seat, err));
    }
    for (uint32_t i = 0; i < s->shares; i++)
        if (s->share[i].seat == seat) return iq_fail(err, IQ_FORMAT, "names request %u twice", seat->index);
    uint32_t most = seat->n_ids - seat->computed;
    if (seat->state == IQ_DONE || tokens > most || tokens > *left)
        return iq_fail(err, IQ_MISMATCH, "gives request %u %llu tokens, but it lacks %u", seat->index,
                       (unsigned long long)tokens, seat->state == IQ_DONE ? 0 : most);
    if (!give(s, seat, (uint32_t)tokens))
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
