#define _GNU_SOURCE
#include "harness/kernel/host.h"

#include "harness/kernel/wire.h"
#include "kernels/base/json.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

enum { PAGE = 65536, TEXT_MAX = 400 };

struct host {
    char *base[IQ_ABI_AREAS]; /* mapped, between pages that nobody may touch */
    size_t bytes[IQ_ABI_AREAS];
    const struct inquest_kernel_library *library;
};

static struct host host;

static int say(const void *bytes, size_t n)
{
    ssize_t sent;
    do sent = send(IQ_ABI_FD_SOCKET, bytes, n, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)n ? 0 : -1;
}

/* ---- memory ---- */

static int map(int area, size_t bytes)
{
    struct host *h = &host;
    int prot = area == IQ_ABI_OUT ? PROT_READ | PROT_WRITE : PROT_READ;
    if (h->bytes[area] == bytes) return 0;
    if (h->base[area]) munmap(h->base[area] - PAGE, h->bytes[area] + 2 * (size_t)PAGE);
    char *room =
        mmap(NULL, bytes + 2 * (size_t)PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    h->base[area] = NULL;
    if (room == MAP_FAILED ||
        mmap(room + PAGE, bytes, prot, MAP_SHARED | MAP_FIXED, IQ_ABI_FD_AREAS + area, 0) == MAP_FAILED)
        return -1;
    h->base[area] = room + PAGE;
    h->bytes[area] = bytes;
    return 0;
}

/* ---- last words ---- */

static void on_fault(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    struct iq_abi_last_words *w = (struct iq_abi_last_words *)host.base[IQ_ABI_OUT];
    if (!w) return;
    w->address = (uint64_t)(uintptr_t)info->si_addr;
    for (int a = 0; a < IQ_ABI_AREAS; a++) w->base[a] = (uint64_t)(uintptr_t)host.base[a];
    /* Returning runs the same instruction again, now without a handler. */
}

/* On a stack of its own: a kernel that recurses without end has none left. */
static void listen_for_faults(void)
{
    static char stack[1 << 16];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction act = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND};
    sigaltstack(&alternate, NULL);
    sigaction(SIGSEGV, &act, NULL);
    sigaction(SIGBUS, &act, NULL);
}

/* ---- listing ---- */

/* Strings of a library are anybody's: no more than this is read. */
static void text(struct iq_jw *w, const char *key, const char *s)
{
    size_t n = 0;
    iq_jw_key(w, key);
    while (s && n < TEXT_MAX && s[n]) n++;
    if (s)
        iq_jw_strn(w, s, n);
    else
        iq_jw_null(w);
}

static void number(struct iq_jw *w, const char *key, double v)
{
    iq_jw_key(w, key);
    iq_jw_f64(w, v);
}

static void list_kernel(struct iq_jw *w, const struct inquest_kernel *k)
{
    iq_jw_begin(w, '{');
    text(w, "kind", k->kind), text(w, "name", k->name), text(w, "what", k->what);
    iq_jw_key(w, "flags"), iq_jw_u64(w, k->flags);
    iq_jw_key(w, "runs"), iq_jw_bool(w, k->run != NULL);
    iq_jw_key(w, "params"), iq_jw_begin(w, '[');
    for (uint32_t i = 0; k->params && i < k->n_params; i++) {
        const struct inquest_param *p = &k->params[i];
        iq_jw_begin(w, '{');
        text(w, "name", p->name), text(w, "help", p->help);
        number(w, "default", p->def), number(w, "min", p->lo), number(w, "max", p->hi);
        iq_jw_end(w, '}');
    }
    iq_jw_end(w, ']');
    iq_jw_end(w, '}');
}

static const char *float_mode(void)
{
#if defined(__x86_64__)
    unsigned mode = _mm_getcsr();
    if (mode & 0x8040) return "flushes subnormals to zero";
    if (mode & 0x6000) return "does not round to nearest";
#endif
    return NULL;
}

static int refuse(const char *why)
{
    struct iq_buf b = IQ_BUF(IQ_ABI_HELLO);
    struct iq_jw w = IQ_JW(&b);
    iq_jw_begin(&w, '{');
    text(&w, "error", why);
    iq_jw_end(&w, '}');
    say(b.data, b.len);
    return 2;
}

static const struct inquest_kernel *kernel_at(uint32_t i)
{
    return (const struct inquest_kernel *)((const char *)host.library->kernels +
                                           (size_t)i * host.library->kernel_size);
}

static int list(void)
{
    struct iq_buf b = IQ_BUF(IQ_ABI_HELLO);
    struct iq_jw w = IQ_JW(&b);
    for (uint32_t i = 0; i < host.library->n_kernels; i++)
        if (kernel_at(i)->n_params > INQUEST_PARAMS_MAX)
            return refuse("has a kernel with more than 16 parameters");
    iq_jw_begin(&w, '{');
    iq_jw_key(&w, "abi"), iq_jw_u64(&w, host.library->abi);
    iq_jw_key(&w, "kernels"), iq_jw_begin(&w, '[');
    for (uint32_t i = 0; i < host.library->n_kernels; i++) list_kernel(&w, kernel_at(i));
    iq_jw_end(&w, ']');
    text(&w, "float_mode", float_mode());
    iq_jw_end(&w, '}');
    if (b.failed) return refuse("its listing is longer than 64 KiB; shorten what it says of its kernels");
    return say(b.data, b.len);
}

static int load(const char *file)
{
    char why[TEXT_MAX];
    void *so = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!so) {
        snprintf(why, sizeof why, "cannot be loaded: %.300s", dlerror());
        return refuse(why);
    }
    const struct inquest_kernel_library *(*kernels)(uint32_t) = NULL;
    *(void **)&kernels = dlsym(so, "inquest_kernels");
    if (!kernels)
        return refuse("exports no function inquest_kernels; see inquest/kernel.h for what it returns");
    const struct inquest_kernel_library *l = kernels(INQUEST_ABI);
    if (!l) return refuse("inquest_kernels(1) returned NULL: it has no kernels for this version of the ABI");
    if (l->abi != INQUEST_ABI) {
        snprintf(why, sizeof why,
                 "found ABI %u, expected %d; build it against this version's inquest/kernel.h", l->abi,
                 INQUEST_ABI);
        return refuse(why);
    }
    if (l->kernel_size < sizeof(struct inquest_kernel) || l->kernel_size > 4096 || l->kernel_size % 8) {
        snprintf(why, sizeof why,
                 "says that struct inquest_kernel has %u bytes, expected %zu or more of a later version",
                 l->kernel_size, sizeof(struct inquest_kernel));
        return refuse(why);
    }
    if (!l->n_kernels || l->n_kernels > INQUEST_KERNELS_MAX || !l->kernels) {
        snprintf(why, sizeof why, "lists %u kernels, expected 1 to %d", l->kernels ? l->n_kernels : 0,
                 INQUEST_KERNELS_MAX);
        return refuse(why);
    }
    host.library = l;
    return list();
}

/* ---- calls ---- */

static void view(const struct iq_abi_operand *o, struct inquest_tensor *t)
{
    *t = (struct inquest_tensor){.dtype = o->dtype, .dims = o->dims};
    if (!o->present) return;
    t->data = host.base[o->area] + o->at;
    memcpy(t->dim, o->dim, sizeof t->dim);
    memcpy(t->stride, o->stride, sizeof t->stride);
}

static int run(const struct iq_abi_call *c)
{
    const struct inquest_kernel *k = kernel_at(c->kernel);
    struct iq_abi_answer answer = {.magic = IQ_ABI_MAGIC};
    struct inquest_tensor in[IQ_ABI_INS], out[IQ_ABI_OUTS];
    for (int a = 0; a < IQ_ABI_AREAS; a++)
        if (map(a, c->area_bytes[a])) return 1;
    for (int i = 0; i < IQ_ABI_INS; i++) view(&c->in[i], &in[i]);
    for (int i = 0; i < IQ_ABI_OUTS; i++) view(&c->out[i], &out[i]);
    struct inquest_call call = {.size = sizeof call,
                                .abi = INQUEST_ABI,
                                .kind = k->kind,
                                .op = c->op,
                                .step = c->step,
                                .layer = c->layer,
                                .rank = c->rank,
                                .batch = c->batch,
                                .rows = c->rows,
                                .act = c->act,
                                .n_in = c->n_in,
                                .n_out = c->n_out,
                                .n_scalars = c->n_scalars,
                                .n_params = c->n_params,
                                .in = in,
                                .out = out,
                                .scalar = c->scalar,
                                .param = c->param};
    int status = k->run(&call);
    answer.status = status == INQUEST_OK         ? IQ_ABI_ANSWERED
                    : status == INQUEST_DECLINED ? IQ_ABI_DECLINED
                                                 : IQ_ABI_FAILED;
    snprintf(answer.why, sizeof answer.why, "returned %d", status);
    return say(&answer, sizeof answer);
}

int iq__kernel_host(const char *file)
{
    static struct iq_abi_call call;
    static char hello[IQ_ABI_HELLO];
    ssize_t n = recv(IQ_ABI_FD_SOCKET, hello, sizeof hello, 0);
    if (n <= 0) return 1;
    listen_for_faults();
    if (load(file)) return 2;
    for (;;) {
        do n = recv(IQ_ABI_FD_SOCKET, &call, sizeof call, 0);
        while (n < 0 && errno == EINTR);
        if (n != (ssize_t)sizeof call || run(&call)) return n != 0;
    }
}
