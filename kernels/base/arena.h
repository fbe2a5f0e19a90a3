/* One mapping of huge pages where the system has them, given out piece by piece and freed at once. For what is large,
 * lives long and is read again and again: packed weights, KV blocks. The maximum is fixed at open; nothing is given back
 * singly. Pages are touched by whoever writes first. Not thread-safe: carve in one thread, fill in many. */
#ifndef IQ_BASE_ARENA_H
#define IQ_BASE_ARENA_H

#include "kernels/base/status.h"

struct iq_arena {
    unsigned char *base; /* 2 MiB aligned; contents start as zeros */
    size_t used, max;    /* bytes */
    void *map;           /* what close unmaps */
    size_t mapped;
};

/* Reserves `max` bytes of address space; memory is used as it is touched. IQ_MEMORY, IQ_LIMIT (size overflows). */
int iq_arena_open(size_t max, struct iq_arena *out, struct iq_err *err);
void iq_arena_close(struct iq_arena *); /* safe on a zeroed one, and twice */

/* `bytes` at a multiple of 64, zeroed, valid until close. NULL: fewer than that are left; the arena is unchanged. */
void *iq_arena_take(struct iq_arena *, size_t bytes);

#endif
