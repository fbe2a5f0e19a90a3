#define _GNU_SOURCE
#include "harness/campaign/worker.h"

#include "harness/campaign/aboard.h"
#include "harness/campaign/isolated.h"
#include "harness/campaign/verdict.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct worker {
    struct iq_ready *ready;
    int fd;
    struct iq_context context;
    bool has_context;
    struct iq_verdicts verdicts;
};

static int say(const struct worker *w, const struct iq_answer *a, struct iq_err *err)
{
    ssize_t n;
    do n = send(w->fd, a, sizeof *a, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof *a ? IQ_OK : iq_fail(err, IQ_IO, "the coordinator is gone");
}

static int tell_row(struct worker *w, const struct iq_armed_trial *t, const struct iq_seen *seen, bool aboard,
                    struct iq_err *err)
{
    struct iq_answer a;
    memset(&a, 0, sizeof a);
    a.said = IQ_SAID_ROW;
    a.aboard = aboard;
    IQ_TRY(iq_verdict_row(&w->verdicts, w->ready, &w->context, t, seen, &a.row, err));
    return say(w, &a, err);
}

static int enter(struct worker *w, uint32_t context, struct iq_err *err)
{
    const struct iq_grid *g = w->ready->grid;
    if (w->has_context && w->context.index == context) return IQ_OK;
    if (w->has_context) iq_context_close(&w->context);
    w->has_context = false;
    uint32_t load, prompt, e = 0;
    const struct iq_settings *s;
    iq_grid_context(g, context, &s, &load, &prompt);
    while (&g->engine[e] != s) e++;
    IQ_TRY(iq_context_open(g, context, w->ready->model[e], w->ready->prompts, w->ready->alone, &w->context,
                           err));
    w->has_context = true;
    return IQ_OK;
}

static int by_site(const void *a, const void *b)
{
    const struct iq_armed_trial *x = a, *y = b;
    if (x->site != y->site) return x->site < y->site ? -1 : 1;
    return x->at.index < y->at.index ? -1 : 1;
}

/* What a job's trials have shown. */
struct shown {
    struct iq_armed_trial *t;
    const struct iq_armed_trial **aboard;
    struct iq_seen *seen;
    bool *told;
    uint32_t n;
};

/* Those that can ride do. */
static int ride(struct worker *w, struct shown *s, struct iq_err *err)
{
    struct iq_ride_start start;
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n; i++)
        if (iq_aboard_start(&w->context, &s->t[i], &start)) s->aboard[n++] = &s->t[i];
    if (!n) return IQ_OK;
    IQ_TRY(iq_aboard_run(w->ready->grid, &w->context, s->aboard, n, s->seen, s->told, err));
    for (uint32_t i = 0; i < n; i++) {
        if (!s->told[i]) continue;
        IQ_TRY(tell_row(w, s->aboard[i], &s->seen[i], true, err));
        s->t[s->aboard[i] - s->t].told = true;
    }
    return IQ_OK;
}

/* The others: the engine walks golden's way once, and they branch off where their first fault can fire. */
static int branch_off(struct worker *w, struct shown *all, struct iq_err *err)
{
    const struct iq_scout *s = &w->context.scout;
    struct iq_engine *engine = NULL;
    int status = IQ_OK;
    for (uint32_t i = 0; i < all->n && status == IQ_OK; i++) {
        const struct iq_armed_trial *t = &all->t[i];
        struct iq_seen seen;
        bool more = true;
        if (t->told) continue;
        if (t->site == s->n) {
            iq_isolated_none(&w->context, &seen);
            status = tell_row(w, t, &seen, false, err);
            continue;
        }
        if (!engine) status = iq_context_engine(&w->context, &engine, err);
        uint64_t step = s->seen[t->site].step.step;
        while (status == IQ_OK && iq_engine_stats(engine)->steps < step && more)
            status = iq_engine_step(engine, &more, err);
        if (status == IQ_OK) status = iq_isolated_run(w->ready->grid, &w->context, engine, t, &seen, err);
        if (status == IQ_OK) status = tell_row(w, t, &seen, false, err);
    }
    iq_engine_close(engine);
    return status;
}

static int run_trials(struct worker *w, struct iq_armed_trial *t, uint32_t n, struct iq_err *err)
{
    struct shown s = {.t = t,
                      .n = n,
                      .aboard = calloc((size_t)n + 1, sizeof(struct iq_armed_trial *)),
                      .seen = calloc((size_t)n + 1, sizeof *s.seen),
                      .told = calloc((size_t)n + 1, sizeof *s.told)};
    int status = s.aboard && s.seen && s.told ? ride(w, &s, err)
                                              : iq_fail(err, IQ_MEMORY, "no memory for %u trials", n);
    if (status == IQ_OK) status = branch_off(w, &s, err);
    free(s.aboard);
    free(s.seen);
    free(s.told);
    return status;
}

static int run_job(struct worker *w, const struct iq_job *j, struct iq_err *err)
{
    uint32_t n = 0;
    IQ_TRY(enter(w, j->context, err));
    struct iq_armed_trial *t = calloc(j->n ? j->n : 1, sizeof *t);
    if (!t) return iq_fail(err, IQ_MEMORY, "no memory for %u trials", j->n);
    int status = IQ_OK;
    for (; n < j->n && status == IQ_OK; n++)
        status = iq_armed_trial_open(w->ready->grid, &w->context, j->index[n], &t[n], err);
    if (status == IQ_OK) {
        qsort(t, n, sizeof *t, by_site);
        status = run_trials(w, t, n, err);
    }
    for (uint32_t i = 0; i < n; i++) iq_armed_trial_close(&t[i]);
    free(t);
    return status;
}

int iq_worker_run(struct iq_ready *ready, int fd)
{
    struct worker w = {.ready = ready, .fd = fd};
    struct iq_answer a;
    struct iq_job j;
    int status = IQ_OK;
    while (status == IQ_OK) {
        struct iq_err err = {0};
        ssize_t n = recv(fd, &j, sizeof j, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n != (ssize_t)sizeof j || j.n > IQ_JOB_TRIALS) break; /* the coordinator has ended */
        ready->campaign = j.campaign;
        status = run_job(&w, &j, &err);
        memset(&a, 0, sizeof a);
        a.said = status == IQ_OK ? IQ_SAID_DONE : IQ_SAID_FAILED;
        a.err = err;
        if (say(&w, &a, &err) != IQ_OK) break;
    }
    if (w.has_context) iq_context_close(&w.context);
    iq_verdicts_free(&w.verdicts);
    return status != IQ_OK;
}
