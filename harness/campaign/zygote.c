#define _GNU_SOURCE
#include "harness/campaign/zygote.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_MS = 500 }; /* for a zygote that is to end by itself */

/* ---- a descriptor over a socket ---- */

union room { /* aligned as the system wants it */
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
};

static int send_fd(int socket, int fd)
{
    char word = 'w';
    struct iovec v = {&word, 1};
    union room room;
    memset(&room, 0, sizeof room);
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = room.bytes, .msg_controllen = sizeof room.bytes};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    return sendmsg(socket, &m, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

/* -1: the other side is gone. */
static int receive_fd(int socket)
{
    char word;
    struct iovec v = {&word, 1};
    union room room;
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = room.bytes, .msg_controllen = sizeof room.bytes};
    ssize_t n;
    int fd = -1;
    do n = recvmsg(socket, &m, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n <= 0) return -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) memcpy(&fd, CMSG_DATA(c), sizeof fd);
    return fd;
}

/* ---- the zygote's process ---- */

static bool same_cut(const struct iq_settings *a, const struct iq_settings *b)
{
    return a->tp == b->tp && a->expert_parallel == b->expert_parallel && a->positions == b->positions;
}

static int open_models(struct iq_ready *r, struct iq_err *err)
{
    const struct iq_grid *g = r->grid;
    struct iq_settings all;
    iq_settings_init(&all); /* packing may use every core; its threads end with it */
    r->model = calloc(g->engines, sizeof(struct iq_model *));
    if (!r->model) return iq_fail(err, IQ_MEMORY, "no memory for %u models", g->engines);
    for (uint32_t e = 0; e < g->engines; e++) {
        struct iq_model_options o;
        for (uint32_t k = 0; k < e && !r->model[e]; k++)
            if (same_cut(&g->engine[k], &g->engine[e])) r->model[e] = r->model[k];
        if (r->model[e]) continue;
        iq_settings_model(&g->engine[e], &o);
        o.threads = all.threads;
        IQ_TRY(iq_model_open(r->model_path, &o, &r->model[e], err));
    }
    return IQ_OK;
}

/* The contract of the first settings: an engine is opened for its word. */
static int contract_of(struct iq_ready *r, struct iq_digest *out, struct iq_err *err)
{
    struct iq_engine_config c;
    struct iq_engine *e;
    struct iq_settings s = r->grid->engine[0];
    if (!s.batch) s.batch = 1;
    iq_settings_engine(&s, &c);
    IQ_TRY(iq_engine_open(r->model[0], &c, r->prompts->request, 1, &e, err));
    *out = iq_engine_contract(e);
    iq_engine_close(e);
    return IQ_OK;
}

static int make_ready(struct iq_ready *r, struct iq_hello *h, struct iq_err *err)
{
    IQ_TRY(open_models(r, err));
    IQ_TRY(iq_prompts_tokenize(r->prompts, r->model[0], err));
    IQ_TRY(contract_of(r, &h->contract, err));
    memcpy(h->sha256, r->model[0]->sha256, sizeof h->sha256);
    h->prompts = iq_prompts_digest(r->prompts);
    return IQ_OK;
}

static _Noreturn void serve(struct iq_ready *r, int fd)
{
    struct iq_hello h;
    struct iq_err err = {0};
    memset(&h, 0, sizeof h);
    int status = make_ready(r, &h, &err);
    h.err = err;
    h.err.status = status;
    if (send(fd, &h, sizeof h, MSG_NOSIGNAL) != (ssize_t)sizeof h || status != IQ_OK) _exit(1);
    for (int worker; (worker = receive_fd(fd)) >= 0; close(worker)) {
        pid_t zygote = getpid(), pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != zygote) _exit(1);
            close(fd);
            _exit(iq_worker_run(r, worker));
        }
        while (waitpid(-1, NULL, WNOHANG) > 0) {} /* workers that are gone: their sockets have said so */
        if (send(fd, &pid, sizeof pid, MSG_NOSIGNAL) != (ssize_t)sizeof pid) break;
    }
    while (waitpid(-1, NULL, 0) > 0) {} /* their sockets are closed: they end, and their time is counted */
    _exit(0);
}

/* ---- the coordinator's side ---- */

static ssize_t receive(int fd, void *bytes, size_t n)
{
    ssize_t r;
    do r = recv(fd, bytes, n, 0);
    while (r < 0 && errno == EINTR);
    return r;
}

int iq_zygote_start(struct iq_ready *ready, struct iq_zygote *z, struct iq_hello *h, struct iq_err *err)
{
    int ends[2];
    *z = (struct iq_zygote){.fd = -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
        return iq_fail(err, IQ_IO, "no socket for the zygote: %s", strerror(errno));
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        close(ends[0]);
        serve(ready, ends[1]);
    }
    int failed = errno;
    close(ends[1]);
    z->fd = ends[0];
    z->pid = pid;
    if (pid < 0) {
        iq_zygote_end(z);
        return iq_fail(err, IQ_MEMORY, "the zygote can't be started: %s", strerror(failed));
    }
    if (receive(z->fd, h, sizeof *h) != (ssize_t)sizeof *h) {
        iq_zygote_end(z);
        return iq_fail(err, IQ_CRASHED, "the process that opens the model died");
    }
    if (h->err.status == IQ_OK) return IQ_OK;
    iq_zygote_end(z);
    *err = h->err;
    return err->status;
}

int iq_zygote_worker(struct iq_zygote *z, int *fd, pid_t *pid, struct iq_err *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
        return iq_fail(err, IQ_IO, "no socket for a worker: %s", strerror(errno));
    bool ok = !send_fd(z->fd, ends[1]) && receive(z->fd, pid, sizeof *pid) == (ssize_t)sizeof *pid;
    close(ends[1]);
    *fd = ends[0];
    if (ok && *pid > 0) return IQ_OK;
    close(ends[0]);
    *fd = -1;
    return ok ? iq_fail(err, IQ_MEMORY, "a worker can't be started: no memory for another process")
              : iq_fail(err, IQ_CRASHED, "the zygote is gone");
}

void iq_zygote_end(struct iq_zygote *z)
{
    if (z->fd >= 0) close(z->fd);
    z->fd = -1;
    if (z->pid <= 0) return;
    bool gone = false;
    for (int i = 0; i < PATIENCE_MS && !gone; i++)
        if (!(gone = waitpid(z->pid, NULL, WNOHANG) == z->pid)) usleep(1000);
    if (!gone) kill(z->pid, SIGKILL);
    while (!gone && waitpid(z->pid, NULL, 0) < 0 && errno == EINTR) {}
    z->pid = 0;
}
