#define _GNU_SOURCE
#include "harness/campaign/crew.h"

#include "kernels/base/grow.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DEATHS = 200 }; /* in a row: then it is not chance that kills workers */

static int by_context(const void *a, const void *b)
{
    const struct iq_todo *x = a, *y = b;
    if (x->context != y->context) return x->context < y->context ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

int iq_crew_open(struct iq_crew *c, bool (*wanted)(void *self, uint32_t index), struct iq_err *err)
{
    const struct iq_grid *g = c->ready->grid;
    c->hand = calloc(c->hands, sizeof *c->hand);
    c->todo = malloc((g->trials ? g->trials : 1) * sizeof *c->todo);
    if (!c->hand || !c->todo) return iq_fail(err, IQ_MEMORY, "no memory for %u trials", g->trials);
    for (uint32_t i = 0; i < c->hands; i++) c->hand[i].fd = -1;
    for (uint32_t i = 0; i < g->trials; i++)
        if (wanted(c->self, i)) c->todo[c->n_todo++] = (struct iq_todo){iq_grid_trial(g, i).context, i};
    qsort(c->todo, c->n_todo, sizeof *c->todo, by_context);
    return IQ_OK;
}

/* ---- losses ---- */

/* A worker is gone: what it had not told is to be done again. */
static int lose(struct iq_crew *c, struct iq_hand *h, struct iq_err *err)
{
    for (uint32_t i = 0; h->busy && i < h->job.n; i++) {
        if (h->done[i]) continue;
        IQ_TRY(iq_grow(&c->again, &c->cap_again, c->n_again + 1, sizeof *c->again, err));
        c->again[c->n_again++] = (struct iq_todo){h->job.context, h->job.index[i]};
    }
    if (h->fd >= 0) close(h->fd);
    h->fd = -1;
    h->busy = false;
    if (++c->deaths < DEATHS) return IQ_OK;
    return iq_fail(err, IQ_CRASHED, "%d workers died one after the other, and no trial ended in between",
                   DEATHS);
}

/* The zygote is gone, and every worker with it. */
static int begin_again(struct iq_crew *c, struct iq_err *err)
{
    struct iq_hello hello;
    for (uint32_t i = 0; i < c->hands; i++)
        if (c->hand[i].fd >= 0) IQ_TRY(lose(c, &c->hand[i], err));
    iq_zygote_end(&c->zygote);
    return iq_zygote_start(c->ready, &c->zygote, &hello, err);
}

static int hire(struct iq_crew *c, struct iq_hand *h, struct iq_err *err)
{
    int status = iq_zygote_worker(&c->zygote, &h->fd, &h->pid, err);
    for (unsigned tries = 0; status == IQ_CRASHED && tries < DEATHS; tries++) {
        status = begin_again(c, err);
        if (status == IQ_OK) status = iq_zygote_worker(&c->zygote, &h->fd, &h->pid, err);
    }
    return status;
}

/* ---- dealing ---- */

/* The next trials of one context: fewer where few are left, so that all hands have some. */
static void next_job(struct iq_crew *c, struct iq_job *j)
{
    memset(j, 0, sizeof *j);
    bool again = c->n_again > 0;
    size_t left = again ? c->n_again : c->n_todo - c->next;
    size_t most = left / (2 * (size_t)c->hands) + 1;
    if (most > IQ_JOB_TRIALS) most = IQ_JOB_TRIALS;
    if (again) qsort(c->again, c->n_again, sizeof *c->again, by_context);
    const struct iq_todo *t = again ? c->again : c->todo + c->next;
    while (j->n < most && j->n < left && t[j->n].context == t[0].context) {
        j->index[j->n] = t[j->n].index;
        j->n++;
    }
    j->context = t[0].context;
    j->campaign = c->ready->campaign;
    if (again)
        memmove(c->again, c->again + j->n, (c->n_again -= j->n) * sizeof *c->again);
    else
        c->next += j->n;
}

static int deal(struct iq_crew *c, struct iq_hand *h, struct iq_err *err)
{
    if (h->busy || (!c->n_again && c->next == c->n_todo)) return IQ_OK;
    if (h->fd < 0) IQ_TRY(hire(c, h, err));
    if (!c->n_again && c->next == c->n_todo) return IQ_OK;
    next_job(c, &h->job);
    memset(h->done, 0, sizeof h->done);
    h->busy = true;
    if (send(h->fd, &h->job, sizeof h->job, MSG_NOSIGNAL) == (ssize_t)sizeof h->job) return IQ_OK;
    return lose(c, h, err);
}

/* ---- hearing ---- */

static int hear_row(struct iq_crew *c, struct iq_hand *h, const struct iq_trial_row *r, struct iq_err *err)
{
    for (uint32_t i = 0; i < h->job.n; i++) {
        if (h->job.index[i] != r->index || h->done[i]) continue;
        h->done[i] = 1;
        c->deaths = 0;
        return c->row(c->self, r, err);
    }
    return iq_fail(err, IQ_INTERNAL, "a worker told of trial %u, which it was not given", r->index);
}

static int hear(struct iq_crew *c, struct iq_hand *h, bool *heard, struct iq_err *err)
{
    struct iq_answer a;
    ssize_t n = recv(h->fd, &a, sizeof a, MSG_DONTWAIT);
    *heard = n == (ssize_t)sizeof a;
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return IQ_OK;
    if (n != (ssize_t)sizeof a) return lose(c, h, err);
    c->aboard += a.said == IQ_SAID_ROW && a.aboard;
    if (a.said == IQ_SAID_ROW) return hear_row(c, h, &a.row, err);
    if (a.said == IQ_SAID_DONE) return h->busy = false, IQ_OK;
    a.err.text[sizeof a.err.text - 1] = 0;
    return iq_fail(err, a.err.status ? a.err.status : IQ_INTERNAL, "%s", a.err.text);
}

int iq_crew_turn(struct iq_crew *c, int ms, bool *more, struct iq_err *err)
{
    struct pollfd *p = calloc(c->hands + 1u, sizeof *p);
    if (!p) return iq_fail(err, IQ_MEMORY, "no memory to wait");
    int status = IQ_OK;
    for (uint32_t i = 0; i < c->hands && status == IQ_OK; i++) status = deal(c, &c->hand[i], err);
    for (uint32_t i = 0; i < c->hands; i++)
        p[i] = (struct pollfd){.fd = c->hand[i].busy ? c->hand[i].fd : -1, .events = POLLIN};
    if (status == IQ_OK) poll(p, c->hands, ms);
    for (uint32_t i = 0; i < c->hands && status == IQ_OK; i++)
        for (bool heard = p[i].revents != 0; heard && status == IQ_OK && c->hand[i].busy;)
            status = hear(c, &c->hand[i], &heard, err);
    free(p);
    *more = c->n_again || c->next < c->n_todo;
    for (uint32_t i = 0; i < c->hands; i++) *more |= c->hand[i].busy;
    return status;
}

void iq_crew_close(struct iq_crew *c)
{
    for (uint32_t i = 0; c->hand && i < c->hands; i++)
        if (c->hand[i].fd >= 0) close(c->hand[i].fd);
    iq_zygote_end(&c->zygote);
    free(c->hand);
    free(c->todo);
    free(c->again);
}
