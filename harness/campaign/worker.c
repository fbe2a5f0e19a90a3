#define _GNU_SOURCE
#include "harness/campaign/worker.h"

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

static int tell_row(struct worker *w, const struct iq_armed_trial *t, const struct iq_seen *seen,
                    struct iq_err *err)
{
    struct iq_answer a;
    memset(&a, 0, sizeof a);
    a.said = IQ_SAID_ROW;
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
    IQ_TRY(iq_context_open(g, context, w->ready->model[e], w->ready->prompts, &w->context, err));
    w->has_context = true;
    return IQ_OK;
}

static int by_site(const void *a, const void *b)
{
    const struct iq_armed_trial *x = a, *y = b;
    if (x->site != y->site) return x->site < y->site ? -1 : 1;
    return x->at.index < y->at.index ? -1 : 1;
}

/* The engine walks golden's way once; trials branch off where their first fault can fire. */
static int branch_off(struct worker *w, const struct iq_armed_trial *t, uint32_t n, struct iq_err *err)
{
    const struct iq_scout *s = &w->context.scout;
    struct iq_engine *engine = NULL;
    int status = iq_context_engine(&w->context, &engine, err);
    for (uint32_t i = 0; i < n && status == IQ_OK; i++) {
        struct iq_seen seen;
        bool more = true;
        if (t[i].site == s->n) {
            iq_isolated_none(&w->context, &seen);
            status = tell_row(w, &t[i], &seen, err);
            continue;
        }
        uint64_t step = s->seen[t[i].site].step.step;
        while (iq_engine_stats(engine)->steps < step && more && status == IQ_OK)
            status = iq_engine_step(engine, &more, err);
        if (status == IQ_OK) status = iq_isolated_run(w->ready->grid, &w->context, engine, &t[i], &seen, err);
        if (status == IQ_OK) status = tell_row(w, &t[i], &seen, err);
    }
    iq_engine_close(engine);
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
        status = branch_off(w, t, n, err);
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
