#define _GNU_SOURCE
#include "kernels/base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

/* A worker spins this often (a few tens of microseconds) before it sleeps: steps follow each other closely, and a
 * sleep costs more than most ops; yet a waiting engine must not burn a core. */
enum { SPINS = 20000 };

struct iq_pool {
    int threads, cpu[256];
    void (*fn)(void *, int, int);
    void *ctx;
    _Alignas(64) atomic_uint generation; /* odd or even: a new value means new work */
    _Alignas(64) atomic_int pending;     /* workers that have not finished it */
    atomic_int stop, sleepers;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t worker[256];
};

struct start {
    struct iq_pool *pool;
    int part;
};

static inline void relax(void)
{
#if defined __x86_64__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

static unsigned wait_for_work(struct iq_pool *p, unsigned seen)
{
    for (int i = 0; i < SPINS; i++) {
        unsigned now = atomic_load_explicit(&p->generation, memory_order_acquire);
        if (now != seen) return now;
        relax();
    }
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->sleepers, 1);
    while (atomic_load(&p->generation) == seen) pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->sleepers, 1);
    pthread_mutex_unlock(&p->lock);
    return atomic_load(&p->generation);
}

static void *work(void *arg)
{
    struct start s = *(struct start *)arg;
    struct iq_pool *p = s.pool;
    free(arg);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(p->cpu[s.part], &one);
    pthread_setaffinity_np(pthread_self(), sizeof one,
                           &one); /* a wish: where it is refused, speed suffers, bits do not */
    for (unsigned seen = 0;;) {
        seen = wait_for_work(p, seen);
        if (atomic_load(&p->stop)) return NULL;
        p->fn(p->ctx, s.part, p->threads);
        atomic_fetch_sub_explicit(&p->pending, 1, memory_order_release);
    }
}

static void publish(struct iq_pool *p)
{
    atomic_fetch_add(&p->generation, 1);
    if (atomic_load(&p->sleepers)) {
        pthread_mutex_lock(&p->lock);
        pthread_cond_broadcast(&p->wake);
        pthread_mutex_unlock(&p->lock);
    }
}

int iq_pool_open(int threads, struct iq_pool **out, struct iq_err *err)
{
    *out = NULL;
    if (threads < 1 || threads > 256)
        return iq_fail(err, IQ_USAGE, "threads: found %d, expected 1 to 256", threads);
    struct iq_pool *p = aligned_alloc(64, (sizeof *p + 63) / 64 * 64);
    if (!p) return iq_fail(err, IQ_MEMORY, "no memory for a pool of %d threads", threads);
    *p = (struct iq_pool){.threads = 1};
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    sched_getaffinity(0, sizeof allowed, &allowed);
    int cpus[CPU_SETSIZE], n = 0;
    for (int c = 0; c < CPU_SETSIZE; c++)
        if (CPU_ISSET(c, &allowed)) cpus[n++] = c;
    for (int i = 0; i < threads; i++) p->cpu[i] = n ? cpus[i % n] : 0;
    int want = threads;
    for (int i = 1; i < want; i++) {
        struct start *s = malloc(sizeof *s);
        if (s) *s = (struct start){p, i};
        if (!s || pthread_create(&p->worker[i], NULL, work, s)) {
            free(s);
            iq_pool_close(p);
            return iq_fail(err, IQ_MEMORY, "thread %d of %d could not be started", i + 1, want);
        }
        p->threads = i + 1;
    }
    *out = p;
    return IQ_OK;
}

void iq_pool_close(struct iq_pool *p)
{
    if (!p) return;
    atomic_store(&p->stop, 1);
    publish(p);
    for (int i = 1; i < p->threads; i++) pthread_join(p->worker[i], NULL);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

int iq_pool_threads(const struct iq_pool *p) { return p ? p->threads : 1; }

void iq_pool_run(struct iq_pool *p, void (*fn)(void *, int, int), void *ctx)
{
    if (!p || p->threads == 1) {
        fn(ctx, 0, 1);
        return;
    }
    p->fn = fn;
    p->ctx = ctx;
    atomic_store_explicit(&p->pending, p->threads - 1, memory_order_relaxed);
    publish(p);
    fn(ctx, 0, p->threads);
    for (int i = 0; atomic_load_explicit(&p->pending, memory_order_acquire); i++)
        if (i > SPINS)
            sched_yield();
        else
            relax();
}
