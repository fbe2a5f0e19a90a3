#define _GNU_SOURCE /* close_range, pipe2 */
/* Jinja templates in a child: python3 with the script above, the request on its standard input. The child is
 * a fresh process each time, so a template that fails leaves nothing behind for the next request. */
#include "engine/text/chat_parts.h"
#include "kernels/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMEOUT_MS = 5000, MEMORY = 1 << 30 };

#define ADVICE                                                                                               \
    "this model's chat template needs Python 3 with jinja2 (Debian: apt-get install python3-jinja2): "       \
    "install it, "                                                                                           \
    "or give the prompt as it is with --raw"

/* python3 on PATH, which is searched here because only plain system calls are safe between fork and exec. */
static bool find_python(char *path, size_t size)
{
    const char *dirs = getenv("PATH");
    if (!dirs) dirs = "/usr/local/bin:/usr/bin:/bin";
    for (const char *p = dirs; *p; p += strcspn(p, ":"), p += *p == ':') {
        int n = (int)strcspn(p, ":");
        if (n && snprintf(path, size, "%.*s/python3", n, p) < (int)size && !access(path, X_OK)) return true;
    }
    return false;
}

/* The parent's environment holds what is no business of a template; what finds the modules is passed on. */
static void make_environment(char *env[8], struct iq_buf *text)
{
    static const char *const keep[] = {"PATH", "HOME", "PYTHONPATH", "LD_LIBRARY_PATH"};
    static char utf8[] = "LC_ALL=C.UTF-8", seed[] = "PYTHONHASHSEED=0", quiet[] = "PYTHONDONTWRITEBYTECODE=1";
    size_t at[4], n = 0, kept = 0;
    for (size_t i = 0; i < 4; i++) {
        const char *value = getenv(keep[i]);
        if (!value) continue;
        at[kept++] = text->len;
        iq_buf_printf(text, "%s=%s", keep[i], value);
        iq_buf_put(text, "", 1);
    }
    for (size_t i = 0; i < kept && !text->failed; i++) env[n++] = text->data + at[i];
    env[n++] = utf8;
    env[n++] = seed;
    env[n++] = quiet;
    env[n] = NULL;
}

static void become_python(const char *path, int in, int out, char *const env[])
{
    char *const argv[] = {(char *)"python3", (char *)"-c", (char *)iq__jinja_script, NULL};
    struct rlimit memory = {MEMORY, MEMORY}, cpu = {TIMEOUT_MS / 1000 + 1, TIMEOUT_MS / 1000 + 1},
                  none = {0, 0};
    int null = open("/dev/null", O_WRONLY);
    in = fcntl(in, F_DUPFD, 10); /* where the parent has no standard files these may be 0 to 2 themselves */
    out = fcntl(out, F_DUPFD, 10);
    null = fcntl(null, F_DUPFD, 10);
    setpgid(0, 0);
    setrlimit(RLIMIT_AS, &memory);
    setrlimit(RLIMIT_CPU, &cpu);
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGPIPE, SIG_DFL);
    if (null < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(null, 2) < 0) _exit(126);
    close_range(3, ~0u, 0);
    execve(path, argv, env);
    _exit(127);
}

/* Feeds the request and collects the answer until the child closes its output. */
static int talk(int to, int from, const char *request, size_t len, struct iq_buf *answer, struct iq_err *err)
{
    int64_t end = iq_clock_ms() + TIMEOUT_MS;
    size_t sent = 0;
    char part[16384];
    for (;;) {
        struct pollfd fds[2] = {{from, POLLIN, 0}, {sent < len ? to : -1, POLLOUT, 0}};
        int64_t left = end - iq_clock_ms();
        if (left <= 0 || (poll(fds, 2, (int)left) == 0))
            return iq_fail(err, IQ_LIMIT, "the chat template took more than %d s and was stopped",
                           TIMEOUT_MS / 1000);
        if (fds[1].revents) {
            ssize_t n = send(to, request + sent, len - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
            if (n > 0) sent += (size_t)n;
            if (n < 0 && errno != EAGAIN && errno != EINTR) sent = len; /* it died: its output tells */
            if (sent == len) shutdown(to, SHUT_WR);
        }
        if (!fds[0].revents) continue;
        ssize_t n = read(from, part, sizeof part);
        if (n == 0) return IQ_OK;
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return iq_fail(err, IQ_IO, "reading from the chat template's process: %s", strerror(errno));
        if (n > 0 && iq_buf_put(answer, part, (size_t)n))
            return iq_fail(err, IQ_LIMIT, "the chat template printed more than %zu bytes and was stopped",
                           answer->max);
    }
}

static int understand(const struct iq_buf *answer, struct iq_buf *out, struct iq_err *err)
{
    const char *text = answer->len ? answer->data + 1 : "";
    switch (answer->len ? answer->data[0] : 0) {
    case 'K':
        if (iq_buf_put(out, text, answer->len - 1) == 0) return IQ_OK;
        return iq_fail(err, IQ_LIMIT, "no room for %zu bytes of rendered text", answer->len - 1);
    case 'R':
        return iq_fail(err, IQ_USAGE, "the chat template refuses these messages: %s", text);
    case 'E':
        return iq_fail(err, IQ_FORMAT, "the chat template fails: %s", text);
    case 'J':
        return iq_fail(err, IQ_UNSUPPORTED, ADVICE " (%s)", text);
    default:
        return iq_fail(
            err, IQ_LIMIT,
            "the chat template's process ended without an answer (out of memory or time?): give the prompt "
            "as it is with --raw");
    }
}

int iq__jinja_render(const char *request, size_t len, struct iq_buf *out, struct iq_err *err)
{
    char path[4096];
    char *env[8];
    int in[2], from[2];
    if (!find_python(path, sizeof path)) return iq_fail(err, IQ_UNSUPPORTED, ADVICE " (no python3 on PATH)");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in))
        return iq_fail(err, IQ_IO, "a socket for the chat template: %s", strerror(errno));
    if (pipe2(from, O_CLOEXEC)) {
        int why = errno;
        close(in[0]);
        close(in[1]);
        return iq_fail(err, IQ_IO, "a pipe for the chat template: %s", strerror(why));
    }
    struct iq_buf env_text = IQ_BUF(1 << 20), answer = IQ_BUF(IQ_CHAT_MAX + 1);
    make_environment(env, &env_text);
    pid_t pid = fork();
    if (pid == 0) become_python(path, in[1], from[1], env);
    close(in[1]);
    close(from[1]);
    int status;
    if (pid < 0) {
        status = iq_fail(err, IQ_IO, "a process for the chat template: %s", strerror(errno));
    } else {
        status = talk(in[0], from[0], request, len, &answer, err);
        kill(pid, SIGKILL); /* it has said all, or has said too much */
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {}
    }
    close(in[0]);
    close(from[0]);
    if (status == IQ_OK) status = understand(&answer, out, err);
    iq_buf_free(&answer);
    iq_buf_free(&env_text);
    return status;
}
