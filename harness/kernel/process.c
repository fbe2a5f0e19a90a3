#define _GNU_SOURCE
#include "harness/kernel/process.h"

#include "harness/kernel/host.h"
#include "kernels/base/clock.h"
#include "kernels/base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    TICK_MS = 20,
    START_MS = 60000,
    GRACE_MS = 1000,
    ABOVE = 16 /* descriptors that no plan of numbers needs */
};

/* ---- the other side, before it is itself ---- */

static int place_descriptors(int socket, const struct iq_abi_memory *m)
{
    int from[1 + IQ_ABI_AREAS], null = open("/dev/null", O_RDONLY);
    from[0] = fcntl(socket, F_DUPFD, ABOVE);
    for (int a = 0; a < IQ_ABI_AREAS; a++) from[1 + a] = fcntl(m->area[a].fd, F_DUPFD, ABOVE);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return -1;
    for (int i = 0; i < 1 + IQ_ABI_AREAS; i++)
        if (from[i] < 0 || dup2(from[i], IQ_ABI_FD_SOCKET + i) < 0) return -1;
    return close_range(IQ_ABI_FD_END, UINT_MAX, 0);
}

/* Where Python finds inquest_kernel: beside the binary as it was built, or where it was installed. */
static void set_python_path(void)
{
    char exe[PATH_MAX], path[3 * PATH_MAX];
    const char *old = getenv("PYTHONPATH");
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n <= 0) return;
    exe[n] = 0;
    *strrchr(exe, '/') = 0;
    snprintf(path, sizeof path, "%s/python:%s/../share/inquest/python%s%s", exe, exe, old ? ":" : "",
             old ? old : "");
    setenv("PYTHONPATH", path, 1);
}

static int become(const struct iq_kernel_program *p)
{
    set_python_path();
    setenv("INQUEST_KERNEL", "1", 1);
    if (!chdir(p->dir)) execvp(p->argv[0], (char *const *)p->argv);
    char why[600];
    struct iq_buf b = IQ_BUF(4096);
    struct iq_jw w = IQ_JW(&b);
    snprintf(why, sizeof why, "%.300s cannot be started in %.200s: %s", p->argv[0], p->dir, strerror(errno));
    iq_jw_begin(&w, '{');
    iq_jw_key(&w, "error"), iq_jw_str(&w, why);
    iq_jw_end(&w, '}');
    send(IQ_ABI_FD_SOCKET, b.data, b.len, MSG_NOSIGNAL);
    return 127;
}

static _Noreturn void child(const struct iq_kernel_program *p, pid_t parent, int socket,
                            const struct iq_abi_memory *m)
{
    struct rlimit none = {0, 0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || place_descriptors(socket, m)) _exit(1);
    setpgid(0, 0); /* with all that it starts */
    setrlimit(RLIMIT_CORE, &none);
    for (int s = 1; s < SIGRTMIN; s++) signal(s, SIG_DFL);
    int oom = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (oom >= 0) {
        (void)!write(oom, "1000", 4); /* where memory ends, it is this process that is too much */
        close(oom);
    }
    _exit(p->file ? iq__kernel_host(p->file) : become(p));
}

/* ---- watching ---- */

/* Bytes that the process has for itself: shared pages are ours. 0: it can't be told. */
static size_t memory_of(pid_t pid)
{
    char path[40], text[128];
    unsigned long long all, resident, shared;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) return 0;
    text[n] = 0;
    if (sscanf(text, "%llu %llu %llu", &all, &resident, &shared) != 3 || shared > resident) return 0;
    return (size_t)(resident - shared) * (size_t)sysconf(_SC_PAGESIZE);
}

static bool too_much(struct iq_kernel_process *p)
{
    int64_t ms = iq_clock_ms();
    if (ms - p->looked < TICK_MS) return false;
    p->looked = ms;
    return memory_of(p->pid) > p->began_with + ((size_t)p->limits.memory_mb << 20);
}

/* What it has shared stays, to be looked at. */
static void kill_it(struct iq_kernel_process *p)
{
    if (p->pid > 0 && p->owner == getpid()) {
        kill(-p->pid, SIGKILL);
        kill(p->pid, SIGKILL); /* it may not have its own group yet */
        while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR) {}
    }
    if (p->socket >= 0) close(p->socket);
    p->pid = 0;
    p->socket = -1;
}

/* How it ended, now that its socket has. */
static int buried(struct iq_kernel_process *p, struct iq_err *err)
{
    int how = 0;
    for (int waited = 0;; waited += TICK_MS) { /* it may have closed the socket and live on */
        pid_t got = waitpid(p->pid, &how, WNOHANG);
        if (got == p->pid) break;
        if (got < 0 && errno != EINTR) break;
        if (waited > GRACE_MS) {
            kill_it(p);
            return iq_fail(err, IQ_CRASHED, "closed its socket and did not end");
        }
        poll(NULL, 0, TICK_MS);
    }
    kill(-p->pid, SIGKILL); /* what it started */
    p->pid = 0;
    kill_it(p);
    if (WIFSIGNALED(how))
        return iq_fail(err, IQ_CRASHED, "was killed by signal %d (%s)", WTERMSIG(how),
                       strsignal(WTERMSIG(how)));
    return iq_fail(err, IQ_CRASHED, "ended its process with status %d", WEXITSTATUS(how));
}

/* One packet, within a limit of time. */
static int receive(struct iq_kernel_process *p, uint32_t limit_ms, void *into, size_t room, size_t *got,
                   struct iq_err *err)
{
    struct pollfd fd = {.fd = p->socket, .events = POLLIN};
    int64_t end = iq_clock_ms() + limit_ms;
    for (;;) {
        int ready = poll(&fd, 1, TICK_MS);
        if (ready > 0) {
            ssize_t n = recv(p->socket, into, room, 0);
            /* One that died without reading all that we sent: what it has said itself comes behind the error. */
            if (n < 0 && (errno == EINTR || errno == ECONNRESET)) continue;
            if (n <= 0) return buried(p, err);
            *got = (size_t)n;
        }
        if (too_much(p)) {
            kill_it(p);
            return iq_fail(err, IQ_CRASHED, "used more than %u MiB of memory", p->limits.memory_mb);
        }
        if (ready > 0) return IQ_OK;
        if (iq_clock_ms() < end) continue;
        kill_it(p);
        return iq_fail(err, IQ_CRASHED, "did not return within %g s", limit_ms / 1000.0);
    }
}

/* ---- starting ---- */

static int send_hello(int socket)
{
    struct iq_buf b = IQ_BUF(IQ_ABI_HELLO);
    struct iq_jw w = IQ_JW(&b);
    iq_jw_begin(&w, '{');
    iq_jw_key(&w, "abi"), iq_jw_u64(&w, INQUEST_ABI);
    iq_jw_key(&w, "kinds"), iq_jw_begin(&w, '{');
    for (const struct iq_abi_kind *k = iq_abi_kinds; k->kind; k++) {
        const char *const *const list[] = {k->in, k->out, k->scalar};
        static const char *const key[] = {"in", "out", "scalars"};
        iq_jw_key(&w, k->kind), iq_jw_begin(&w, '{');
        for (int i = 0; i < 3; i++) {
            iq_jw_key(&w, key[i]), iq_jw_begin(&w, '[');
            for (const char *const *n = list[i]; *n; n++) iq_jw_str(&w, *n);
            iq_jw_end(&w, ']');
        }
        iq_jw_end(&w, '}');
    }
    iq_jw_end(&w, '}');
    iq_jw_end(&w, '}');
    bool sent = !b.failed && send(socket, b.data, b.len, MSG_NOSIGNAL) == (ssize_t)b.len;
    iq_buf_free(&b);
    return sent ? 0 : -1;
}

static int start(const struct iq_kernel_program *program, struct iq_kernel_process *p, struct iq_buf *listing,
                 struct iq_err *err)
{
    int pair[2];
    size_t n;
    IQ_TRY(iq_abi_memory_open(&p->memory, err));
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return iq_fail(err, IQ_IO, "no socket for its process: %s", strerror(errno));
    p->socket = pair[0];
    p->owner = getpid();
    p->pid = fork();
    if (p->pid == 0) child(program, p->owner, pair[1], &p->memory);
    int why = errno;
    close(pair[1]);
    if (p->pid < 0) return iq_fail(err, IQ_MEMORY, "its process can't be started: %s", strerror(why));
    send_hello(p->socket); /* one that is dead already says so below */
    char *text = malloc(IQ_ABI_HELLO);
    if (!text) return iq_fail(err, IQ_MEMORY, "no memory for its listing");
    struct iq_err died = {0};
    int status = receive(p, START_MS, text, IQ_ABI_HELLO, &n, &died);
    if (status == IQ_OK && iq_buf_put(listing, text, n))
        status = iq_fail(&died, IQ_MEMORY, "no memory for its listing");
    free(text);
    if (status == IQ_CRASHED)
        return iq_fail(err, IQ_ABI, "%s it %s",
                       program->file ? "while it was loaded" : "before it said what it has", died.text);
    if (status != IQ_OK) return iq_fail(err, status, "%s", died.text);
    p->began_with = memory_of(p->pid);
    return IQ_OK;
}

int iq_kernel_process_start(const struct iq_kernel_program *program, const struct iq_kernel_limits *limits,
                            struct iq_kernel_process *p, struct iq_buf *listing, struct iq_err *err)
{
    *p = (struct iq_kernel_process){.socket = -1, .limits = *limits};
    for (int a = 0; a < IQ_ABI_AREAS; a++) p->memory.area[a].fd = -1;
    int status = start(program, p, listing, err);
    if (status != IQ_OK) iq_kernel_process_end(p);
    return status;
}

void iq_kernel_process_end(struct iq_kernel_process *p)
{
    if (!p->owner) return;
    kill_it(p);
    iq_abi_memory_close(&p->memory);
    *p = (struct iq_kernel_process){.socket = -1};
}

/* ---- calling ---- */

/* The end of a sentence about a death: where it wrote, as far as can be told from what it left behind. */
static void say_where(const struct iq_abi_kind *kind, const struct iq_abi_laid *laid, struct iq_err *err)
{
    char where[160], text[sizeof err->text];
    struct iq_abi_last_words w;
    memcpy(&w, laid->memory->area[IQ_ABI_OUT].base, sizeof w);
    snprintf(text, sizeof text, "%s", err->text);
    if (iq_abi_strayed(kind, laid, where, sizeof where))
        iq_fail(err, IQ_CRASHED, "%.200s and %s", where, text);
    else if (w.address && iq_abi_locate(kind, laid, w.base, w.address, where, sizeof where))
        iq_fail(err, IQ_CRASHED, "%s as it touched memory %s", text, where);
    else if (w.address)
        iq_fail(err, IQ_CRASHED, "%s at address %#llx", text, (unsigned long long)w.address);
}

int iq_kernel_process_call(struct iq_kernel_process *p, const struct iq_abi_kind *kind,
                           const struct iq_abi_laid *laid, struct iq_abi_call *call, bool *declined,
                           struct iq_err *err)
{
    struct iq_abi_answer answer;
    size_t n = 0;
    char where[160];
    *declined = false;
    memset(laid->memory->area[IQ_ABI_OUT].base, 0, sizeof(struct iq_abi_last_words));
    for (int a = 0; a < IQ_ABI_AREAS; a++) call->area_bytes[a] = laid->memory->area[a].cap;
    send(p->socket, call, sizeof *call, MSG_NOSIGNAL); /* one that is dead already says so below */
    int status = receive(p, p->limits.timeout_ms, &answer, sizeof answer, &n, err);
    if (status != IQ_OK) {
        say_where(kind, laid, err);
        return status;
    }
    if (iq_abi_strayed(kind, laid, where, sizeof where)) return iq_fail(err, IQ_CRASHED, "%s", where);
    if (n != sizeof answer || answer.magic != IQ_ABI_MAGIC || answer.status > IQ_ABI_FAILED)
        return iq_fail(err, IQ_CRASHED, "wrote something else than an answer into its socket (%zu bytes)", n);
    answer.why[sizeof answer.why - 1] = 0;
    if (answer.status == IQ_ABI_FAILED) return iq_fail(err, IQ_CRASHED, "%s", answer.why);
    *declined = answer.status == IQ_ABI_DECLINED;
    if (!*declined && iq_abi_unwritten(kind, laid, where, sizeof where))
        return iq_fail(err, IQ_CRASHED, "%s", where);
    return IQ_OK;
}
