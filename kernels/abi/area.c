#define _GNU_SOURCE
#include "kernels/abi/area.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FIRST = 1 << 16, ALIGN = 64 };

int iq_abi_area_open(const char *name, struct iq_abi_area *a, struct iq_err *err)
{
    *a = (struct iq_abi_area){.fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING), .cap = FIRST};
    /* What has been mapped here must stay, whatever the other side does. */
    bool ok =
        a->fd >= 0 && !ftruncate(a->fd, FIRST) && !fcntl(a->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL);
    if (ok) a->base = mmap(NULL, FIRST, PROT_READ | PROT_WRITE, MAP_SHARED, a->fd, 0);
    if (ok && a->base != MAP_FAILED) return IQ_OK;
    int why = errno;
    a->base = NULL;
    iq_abi_area_close(a);
    return iq_fail(err, IQ_MEMORY, "no memory to share with a kernel: %s", strerror(why));
}

void iq_abi_area_close(struct iq_abi_area *a)
{
    if (a->base) munmap(a->base, a->cap);
    if (a->fd >= 0) close(a->fd);
    *a = (struct iq_abi_area){.fd = -1};
}

size_t iq_abi_area_take(struct iq_abi_area *a, size_t bytes)
{
    size_t at = (a->used + ALIGN - 1) / ALIGN * ALIGN, end, cap = a->cap;
    if (__builtin_add_overflow(at, bytes, &end)) return SIZE_MAX;
    while (cap < end)
        if (__builtin_mul_overflow(cap, (size_t)2, &cap)) return SIZE_MAX;
    if (cap > a->cap) {
        if (ftruncate(a->fd, (off_t)cap)) return SIZE_MAX;
        void *base = mremap(a->base, a->cap, cap, MREMAP_MAYMOVE);
        if (base == MAP_FAILED) return SIZE_MAX;
        a->base = base;
        a->cap = cap;
    }
    a->used = end;
    return at;
}
