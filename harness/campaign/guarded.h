/* A piece of work in a process of its own, with limits: what it does to its memory, its time and itself ends there.
 *
 * The caller has no threads. The child inherits everything, copy on write; what it found comes back as bytes. */
#ifndef IQ_HARNESS_GUARDED_H
#define IQ_HARNESS_GUARDED_H

#include "kernels/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct iq_guarded {
    uint32_t seconds, mib; /* limits: of the wall clock; of address space beyond what the caller has */
    bool steady;           /* the clock starts again with whatever it says */
    /* Runs in the child and writes its findings with iq_guarded_write; 0 to be believed. */
    int (*work)(void *self, int out);
    void *self;
};

/* Bytes that came back into `bytes` (room); *got: how many, however it ended. IQ_OK: the work ended well and wrote exactly `room` bytes. IQ_CRASHED: it did not,
 * and err says how in words that don't depend on the machine's mood: a signal, the limit of time, an early end. IQ_LIMIT: it
 * was killed (SIGKILL) by somebody else, which says nothing about it. IQ_MEMORY, IQ_IO: it could not be started. */
int iq_guarded_run(const struct iq_guarded *, void *bytes, size_t room, size_t *got, struct iq_err *err);
int iq_guarded_write(int out, const void *bytes, size_t n); /* 0, or -1 */

#endif
