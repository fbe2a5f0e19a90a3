/* What triggers see of the engine and of a step's rows (kernels/site.h). Nothing golden reads it. */
#include "engine/engine_state.h"
#include "kernels/tensor_core/block.h"

#include <stdlib.h>
#include <string.h>

/* 0: ieee, then the products in the order of their names' list. */
static uint32_t products_of(const char *name)
{
    static const char *const known[] = {
#define X(id, text, ...) text,
        IQ_TC_PRODUCTS_MAP(X)
#undef X
            NULL};
    for (uint32_t i = 0; name && known[i]; i++)
        if (!strcmp(known[i], name)) return i + 1;
    return 0;
}

void iq__engine_describe(struct iq_engine *e)
{
    struct iq_step *s = &e->step;
    s->tp = e->model->tp;
    s->expert_parallel = e->model->expert_parallel;
    s->act = e->config.act;
    s->products = products_of(e->config.products);
    s->tracing = e->config.level >= IQ_LEVEL_OPS && !e->config.unseen;
    s->start_s = e->config.start_s;
    s->kv_blocks = e->kv.blocks;
    s->max_batch = e->config.batch;
    s->chunk = e->config.chunk;
}

void iq__engine_note(struct iq_engine *e)
{
    struct iq_step *s = &e->step;
    s->clock_us = e->schedule.clock_us;
    s->idle_us = s->clock_us - e->ended_us;
    s->evictions = e->kv.evictions;
    s->moves = e->kv.moves;
    s->kv_free = iq_kv_available(&e->kv);
    s->running = e->schedule.n_running;
    s->waiting = iq_schedule_waiting(&e->schedule);
    s->finished = e->schedule.done;
    s->preempted = (uint32_t)e->schedule.preemptions;
    s->hit_tokens = (uint32_t)e->stats.hits;
}

struct iq_row iq_seat_row(const struct iq_seat *seat, uint32_t pos, uint32_t cell)
{
    const struct iq_request *r = seat->request;
    return (struct iq_row){.request = seat->index,
                           .session = r->session,
                           .pos = pos,
                           .context = pos + 1,
                           .prompt = r->n_prompt,
                           .cached = seat->cached,
                           .phase = pos < r->n_prompt ? IQ_PREFILL : IQ_DECODE,
                           .attempt = seat->attempt,
                           .cell = cell,
                           .draft = seat->n_draft,
                           .top_k = r->top_k,
                           .temperature = r->temperature,
                           .top_p = r->top_p,
                           .min_p = r->min_p,
                           .seed = r->seed,
                           .ordinal = seat->ordinal,
                           .before = seat->computed,
                           .arrived_us = r->arrive_us,
                           .session_us = seat->session_us,
                           .pool = seat->pool,
                           .tenant = r->tenant,
                           .masked = r->constraint != NULL,
                           .adapter = r->adapter ? r->adapter->number : 0};
}

/* ---- neighbours ---- */

/* The most unusual of a number over the shares but one: the best, who has it, and the best of the others. */
struct extreme {
    double first, second;
    uint32_t owner;
};

static void offer(struct extreme *x, double v, uint32_t share)
{
    if (!(v <= x->first)) {
        x->second = x->first;
        *x = (struct extreme){v, x->second, share};
    } else if (v > x->second)
        x->second = v;
}

static double without(const struct extreme *x, uint32_t share)
{
    return x->owner == share ? x->second : x->first;
}

void iq__engine_neighbours(struct iq_engine *e, uint32_t rows)
{
    const struct iq_schedule *s = &e->schedule;
    /* Largest temperature and min_p; smallest top_p and top_k, so of what falls as they rise. */
    struct extreme temperature = {0, 0, UINT32_MAX}, min_p = temperature;
    struct extreme top_p = {-1, -1, UINT32_MAX}, top_k = {0, 0, UINT32_MAX};
    e->step.longest = 0;
    e->step.shortest = s->shares ? UINT32_MAX : 0;
    for (uint32_t i = 0; i < s->shares; i++) {
        const struct iq_request *r = s->share[i].seat->request;
        uint32_t context = s->share[i].seat->computed + s->share[i].tokens;
        offer(&temperature, (double)r->temperature, i);
        offer(&min_p, (double)r->min_p, i);
        offer(&top_p, -(double)r->top_p, i);
        offer(&top_k, r->top_k ? 0x1p32 - r->top_k : 0, i);
        e->step.longest = context > e->step.longest ? context : e->step.longest;
        e->step.shortest = context < e->step.shortest ? context : e->step.shortest;
    }
    for (uint32_t r = 0, share = 0; r < rows; r++) {
        share += r > 0 && e->of_row[r] != e->of_row[r - 1];
        double k = without(&top_k, share);
        e->row[r].others = (struct iq_others){.n = s->shares - 1,
                                              .top_k = k > 0 ? (uint32_t)(0x1p32 - k) : 0,
                                              .temperature = (float)without(&temperature, share),
                                              .top_p = -(float)without(&top_p, share),
                                              .min_p = (float)without(&min_p, share)};
    }
}

/* ---- sessions ---- */

static int by_session(const void *a, const void *b)
{
    const struct iq_seat *x = *(struct iq_seat *const *)a, *y = *(struct iq_seat *const *)b;
    const struct iq_request *p = x->request, *q = y->request;
    if (p->session != q->session) return p->session < q->session ? -1 : 1;
    return (p->arrive_us > q->arrive_us) - (p->arrive_us < q->arrive_us);
}

int iq__engine_sessions(struct iq_engine *e, struct iq_err *err)
{
    struct iq_seat **order = calloc((size_t)e->n + 1, sizeof(struct iq_seat *));
    if (!order) return iq_fail(err, IQ_MEMORY, "no memory for %u requests", e->n);
    for (uint32_t i = 0; i < e->n; i++) order[i] = &e->schedule.seat[i];
    qsort(order, e->n, sizeof(struct iq_seat *), by_session);
    for (uint32_t i = 0; i < e->n; i++) {
        const struct iq_request *r = order[i]->request;
        bool more = i > 0 && r->session && r->session == order[i - 1]->request->session;
        order[i]->session_us = more ? order[i - 1]->session_us : r->arrive_us;
    }
    free(order);
    return IQ_OK;
}
