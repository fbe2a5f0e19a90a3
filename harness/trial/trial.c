#define _GNU_SOURCE
#include "harness/trial/trial.h"

#include "harness/trial/trial_process.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct coordinator {
    const struct iq_trial *trial;
    const struct iq_trial_events *events;
    int reply; /* to the trial */
};

static int on_begin(void *self, const char *manifest, const struct iq_node *nodes, uint32_t n_nodes,
                    enum iq_level level, const char *name, struct iq_sink *sink, struct iq_err *err)
{
    struct coordinator *c = self;
    uint32_t n = c->trial->prompts->n;
    unsigned char *skip = calloc(n ? n : 1, 1);
    int status = IQ_OK;
    (void)name;
    *sink = (struct iq_sink){0};
    if (!skip) return iq_fail(err, IQ_MEMORY, "no memory for %u requests", n);
    if (c->events->begin)
        status = c->events->begin(c->events->self, manifest, nodes, n_nodes, level, sink, skip, n, err);
    if (status == IQ_OK && iq__write_all(c->reply, skip, n))
        status = iq_fail(err, IQ_CRASHED, "the trial died before its first step");
    free(skip);
    return status;
}

static int on_progress(void *self, const struct iq_wire_progress *p)
{
    const struct iq_trial_events *e = ((struct coordinator *)self)->events;
    return e->progress ? e->progress(e->self, p) : IQ_OK;
}

/* Notes are lines for the user; those that start with a mark are something else. */
static int on_note(void *self, const char *text)
{
    const struct iq_trial_events *e = ((struct coordinator *)self)->events;
    if (text[0] == IQ__TRAJECTORY_MARK) return e->trajectory ? e->trajectory(e->self, text + 1) : IQ_OK;
    if (text[0] == IQ__SLEPT_MARK && e->slept) {
        char *why;
        size_t fault = strtoul(text + 1, &why, 10);
        return e->slept(e->self, fault, why + (*why == ' '));
    }
    if (text[0] == IQ__SLEPT_MARK) return IQ_OK;
    if (text[0] == IQ__LIBRARIES_MARK) return e->libraries ? e->libraries(e->self, text + 1) : IQ_OK;
    return e->line ? e->line(e->self, text) : IQ_OK;
}

/* How the trial ended, if not by its own word. */
static int reap(pid_t pid, int status, struct iq_err *err)
{
    int how;
    while (waitpid(pid, &how, 0) < 0)
        if (errno != EINTR)
            return iq_fail(err, IQ_INTERNAL, "the trial can't be waited for: %s", strerror(errno));
    if (WIFSIGNALED(how))
        return iq_fail(err, IQ_CRASHED, "the trial was killed by signal %d (%s)", WTERMSIG(how),
                       strsignal(WTERMSIG(how)));
    if (status == IQ_OK && WEXITSTATUS(how))
        return iq_fail(err, IQ_CRASHED, "the trial ended with status %d", WEXITSTATUS(how));
    return status;
}

int iq_trial_run(const struct iq_trial *t, const struct iq_trial_events *events, struct iq_err *err)
{
    int up[2], down[2];
    if (pipe2(up, O_CLOEXEC)) return iq_fail(err, IQ_IO, "no pipe for the trial: %s", strerror(errno));
    if (pipe2(down, O_CLOEXEC)) {
        close(up[0]);
        close(up[1]);
        return iq_fail(err, IQ_IO, "no pipe for the trial: %s", strerror(errno));
    }
    pid_t coordinator = getpid(), pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a coordinator that is killed takes its trial along */
        if (getppid() != coordinator) _exit(1);
        close(up[0]);
        close(down[1]);
        _exit(iq__trial_process(t, up[1], down[0]));
    }
    int failed = errno;
    close(up[1]);
    close(down[0]);
    int status = IQ_OK;
    if (pid < 0)
        status = iq_fail(err, IQ_MEMORY, "the trial's process can't be started: %s", strerror(failed));
    struct coordinator c = {t, events, down[1]};
    struct iq_wire_handler h = {.self = &c, .begin = on_begin, .progress = on_progress, .note = on_note};
    if (pid > 0) {
        status = iq_wire_serve(up[0], &h, 0, err);
        if (status != IQ_OK && status != IQ_CRASHED)
            kill(pid, SIGKILL); /* the coordinator gave up: so must the trial */
        struct iq_err died = {0};
        int reaped = reap(pid, status, status == IQ_OK || status == IQ_CRASHED ? err : &died);
        if (status == IQ_OK || status == IQ_CRASHED) status = reaped;
    }
    close(up[0]);
    close(down[1]);
    return status;
}
