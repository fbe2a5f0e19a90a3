#define _GNU_SOURCE
#include "harness/campaign/guarded.h"

#include "kernels/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static rlim_t address_space(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f && fscanf(f, "%lu", &pages) != 1) pages = 0;
    if (f) fclose(f);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static _Noreturn void become(const struct iq_guarded *g, pid_t parent, int out)
{
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGINT, SIGALRM};
    struct rlimit none = {0, 0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) signal(fatal[i], SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    setrlimit(RLIMIT_CORE, &none);
    struct rlimit space = {0, 0};
    space.rlim_cur = space.rlim_max = address_space() + ((rlim_t)g->mib << 20);
    setrlimit(RLIMIT_AS, &space);
    _exit(g->work(g->self, out) ? 1 : 0);
}

/* Reads until the child closes its end; false: out of time. */
static bool hear(const struct iq_guarded *g, int in, char *bytes, size_t room, size_t *n)
{
    int64_t end = iq_clock_ms() + (int64_t)g->seconds * 1000;
    char more;
    *n = 0;
    for (;;) {
        struct pollfd p = {.fd = in, .events = POLLIN};
        int64_t left = end - iq_clock_ms();
        if (left <= 0) return false;
        int ready = poll(&p, 1, left > 1000 ? 1000 : (int)left);
        if (ready <= 0) continue;
        ssize_t r = *n < room ? read(in, bytes + *n, room - *n) : read(in, &more, 1);
        if (r < 0 && errno == EINTR) continue;
        if (r <= 0) return true;
        *n += (size_t)r;
        if (g->steady) end = iq_clock_ms() + (int64_t)g->seconds * 1000;
    }
}

static int ended(const struct iq_guarded *g, int how, bool in_time, size_t n, size_t room, struct iq_err *err)
{
    if (!in_time) return iq_fail(err, IQ_CRASHED, "it did not end within %u s and was killed", g->seconds);
    if (WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL)
        return iq_fail(err, IQ_LIMIT, "it was killed by signal %d (%s)", SIGKILL, strsignal(SIGKILL));
    if (WIFSIGNALED(how))
        return iq_fail(err, IQ_CRASHED, "it was killed by signal %d (%s)", WTERMSIG(how),
                       strsignal(WTERMSIG(how)));
    if (WEXITSTATUS(how) || n != room)
        return iq_fail(err, IQ_CRASHED, "it ended with status %d and %s", WEXITSTATUS(how),
                       n == room ? "all said" : "not all said");
    return IQ_OK;
}

int iq_guarded_run(const struct iq_guarded *g, void *bytes, size_t room, size_t *got, struct iq_err *err)
{
    int ends[2], how = 0;
    *got = 0;
    if (pipe2(ends, O_CLOEXEC)) return iq_fail(err, IQ_IO, "no pipe for a trial: %s", strerror(errno));
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        close(ends[0]);
        become(g, parent, ends[1]);
    }
    int failed = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return iq_fail(err, IQ_MEMORY, "a trial's process can't be started: %s", strerror(failed));
    }
    bool in_time = hear(g, ends[0], bytes, room, got);
    if (!in_time) kill(pid, SIGKILL);
    close(ends[0]);
    while (waitpid(pid, &how, 0) < 0 && errno == EINTR) {}
    return ended(g, how, in_time, *got, room, err);
}

int iq_guarded_write(int out, const void *bytes, size_t n)
{
    for (const char *p = bytes; n;) {
        ssize_t w = write(out, p, n);
        if (w < 0 && errno == EINTR) continue;
        if (w < 0) return -1;
        p += w;
        n -= (size_t)w;
    }
    return 0;
}
