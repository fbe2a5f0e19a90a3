#define _GNU_SOURCE
#include "harness/model/child.h"
#include "kernels/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TICK_MS = 100 };

/* Between fork and exec. `report` tells the parent why exec failed; it closes by itself when exec succeeds. */
static _Noreturn void become(const struct iq_child_spec *spec, pid_t parent, int out, int err, int report)
{
    int null = open("/dev/null", O_RDONLY);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent && null >= 0 && dup2(null, 0) == 0 && dup2(out, 1) == 1 && dup2(err, 2) == 2 &&
        (!spec->cwd || !chdir(spec->cwd)) &&
        (!spec->env_name || !setenv(spec->env_name, spec->env_value, 1))) {
        signal(SIGPIPE, SIG_DFL);
        execvp(spec->argv[0], (char *const *)spec->argv);
    }
    int why = errno;
    (void)!write(report, &why, sizeof why);
    _exit(127);
}

static void keep_tail(struct iq_child_result *r, const char *bytes, size_t n)
{
    size_t room = sizeof r->tail - 1, have = strlen(r->tail);
    if (n > room) {
        bytes += n - room;
        n = room;
    }
    if (have + n > room) {
        size_t drop = have + n - room;
        memmove(r->tail, r->tail + drop, have - drop);
        have -= drop;
    }
    memcpy(r->tail + have, bytes, n);
    r->tail[have + n] = 0;
}

/* Reads both pipes until they close. False: out of time. */
static int listen_to(const struct iq_child_spec *spec, int out, int err, struct iq_child_result *r)
{
    struct pollfd fds[2] = {{.fd = out, .events = POLLIN}, {.fd = err, .events = POLLIN}};
    long long end = spec->timeout_ms ? iq_clock_ms() + spec->timeout_ms : 0, ticked = iq_clock_ms();
    char bytes[4096];
    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        poll(fds, 2, TICK_MS);
        for (int i = 0; i < 2; i++) {
            if (fds[i].fd < 0 || !fds[i].revents) continue;
            ssize_t n = read(fds[i].fd, bytes, sizeof bytes);
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0)
                fds[i].fd = -1;
            else if (i == 0)
                iq_buf_put(&r->out, bytes, (size_t)n);
            else
                keep_tail(r, bytes, (size_t)n);
        }
        long long now = iq_clock_ms();
        if (end && now > end) return 0;
        if (spec->tick && now - ticked >= TICK_MS) {
            spec->tick(spec->ctx);
            ticked = now;
        }
    }
    return 1;
}

static void close_pair(int p[2])
{
    if (p[0] >= 0) close(p[0]);
    if (p[1] >= 0) close(p[1]);
    p[0] = p[1] = -1;
}

int iq_child_run(const struct iq_child_spec *spec, struct iq_child_result *r, struct iq_err *err)
{
    int out[2] = {-1, -1}, talk[2] = {-1, -1}, report[2] = {-1, -1}, why = 0, status = 0;
    r->exit_code = 0;
    r->tail[0] = 0;
    pid_t parent = getpid(), pid = -1;
    if (!pipe2(out, O_CLOEXEC) && !pipe2(talk, O_CLOEXEC) && !pipe2(report, O_CLOEXEC)) pid = fork();
    if (pid == 0) become(spec, parent, out[1], talk[1], report[1]);
    if (pid < 0) {
        why = errno;
        close_pair(out), close_pair(talk), close_pair(report);
        return iq_fail(err, IQ_IO, "%s could not be started: %s", spec->argv[0], strerror(why));
    }
    close(out[1]), close(talk[1]), close(report[1]);
    out[1] = talk[1] = report[1] = -1;
    ssize_t told;
    do told = read(report[0], &why, sizeof why);
    while (told < 0 && errno == EINTR);
    int in_time = told == (ssize_t)sizeof why || listen_to(spec, out[0], talk[0], r);
    if (!in_time) kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    close_pair(out), close_pair(talk), close_pair(report);
    if (told == (ssize_t)sizeof why)
        return iq_fail(err, why == ENOENT ? IQ_NOT_FOUND : IQ_IO, "%s could not be started: %s",
                       spec->argv[0], strerror(why));
    if (!in_time)
        return iq_fail(err, IQ_LIMIT, "%s did not end within %d ms and was killed", spec->argv[0],
                       spec->timeout_ms);
    r->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return IQ_OK;
}

void iq_last_line(const char *text, char *out, size_t size)
{
    const char *end = text + strlen(text);
    while (end > text && (unsigned char)end[-1] <= ' ') end--;
    const char *begin = end;
    while (begin > text && begin[-1] != '\n' && begin[-1] != '\r') begin--;
    size_t n = (size_t)(end - begin) < size - 1 ? (size_t)(end - begin) : size - 1;
    for (size_t i = 0; i < n; i++) out[i] = (unsigned char)begin[i] < ' ' ? ' ' : begin[i];
    out[n] = 0;
}
