#define _GNU_SOURCE
#include "kernels/base/arena.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE = 2 << 20, LINE = 64 };

int iq_arena_open(size_t max, struct iq_arena *out, struct iq_err *err)
{
    *out = (struct iq_arena){0};
    if (max > SIZE_MAX / 2)
        return iq_fail(err, IQ_LIMIT, "arena: %zu bytes are more than an address space has", max);
    size_t whole = (max + HUGE - 1) / HUGE * HUGE, mapped = whole + HUGE;
    void *map =
        mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return iq_fail(err, IQ_MEMORY, "arena: %zu bytes could not be mapped: %s", mapped, strerror(errno));
    unsigned char *base = (unsigned char *)(((uintptr_t)map + HUGE - 1) / HUGE * HUGE);
    madvise(base, whole, MADV_HUGEPAGE); /* advice: without huge pages it's slower, nothing else */
    *out = (struct iq_arena){.base = base, .max = max, .map = map, .mapped = mapped};
    return IQ_OK;
}

void iq_arena_close(struct iq_arena *a)
{
    if (a->map) munmap(a->map, a->mapped);
    *a = (struct iq_arena){0};
}

void *iq_arena_take(struct iq_arena *a, size_t bytes)
{
    size_t at = (a->used + LINE - 1) / LINE * LINE;
    if (at > a->max || bytes > a->max - at) return NULL;
    a->used = at + bytes;
    return a->base + at;
}
