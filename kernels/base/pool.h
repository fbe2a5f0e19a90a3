/* A fixed set of threads that run one function together and meet again. No work stealing: part i of n is always
 * the same slice, so that what a thread touches is repeatable (results never depend on it anyway).
 * Workers are pinned to distinct allowed CPUs and spin briefly before they sleep. The calling thread is part 0.
 * Not re-entrant: one iq_pool_run at a time, from the thread that opened the pool. Open it after fork, never before. */
#ifndef IQ_BASE_POOL_H
#define IQ_BASE_POOL_H

#include "kernels/base/status.h"

struct iq_pool;

int iq_pool_open(int threads, struct iq_pool **out, struct iq_err *err); /* 1 to 256; 1 starts none */
void iq_pool_close(struct iq_pool *);
int iq_pool_threads(const struct iq_pool *); /* 1 for NULL */
/* Calls fn(ctx, part, parts) for part 0 .. parts-1, one per thread, and returns when all are done. NULL pool: one part. */
void iq_pool_run(struct iq_pool *, void (*fn)(void *ctx, int part, int parts), void *ctx);

/* The half-open slice of n items that part p of `parts` owns; sizes differ by at most one. */
static inline void iq_slice(int n, int part, int parts, int *begin, int *end)
{
    int base = n / parts, rest = n % parts;
    *begin = part * base + (part < rest ? part : rest);
    *end = *begin + base + (part < rest);
}

#endif
