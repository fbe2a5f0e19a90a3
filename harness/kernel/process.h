/* The process of a user's kernel, seen from the trial: started, called in lockstep, watched, ended.
 *
 * It gets no descriptor of ours but what wire.h says, writes to standard error whatever it prints, and dies with us. While it
 * works its time and its memory are looked at; what exceeds a limit is killed. */
#ifndef IQ_HARNESS_KERNEL_PROCESS_H
#define IQ_HARNESS_KERNEL_PROCESS_H

#include "harness/kernel/wire.h"
#include "kernels/base/buf.h"

#include <sys/types.h>

struct iq_kernel_limits {
    uint32_t timeout_ms; /* of a call */
    uint32_t memory_mb;  /* that it may have for itself, beyond what it began with */
};
#define IQ_KERNEL_LIMITS ((struct iq_kernel_limits){.timeout_ms = 10000, .memory_mb = 2048})

struct iq_kernel_process {
    pid_t pid, owner; /* owner: who started it; nobody else may use it */
    int socket;
    struct iq_abi_memory memory;
    struct iq_kernel_limits limits;
    size_t began_with; /* bytes, before the first call */
    int64_t looked;    /* ms, when its memory was last read */
};

/* What to start: a shared library, or a program with its arguments in a folder. */
struct iq_kernel_program {
    const char *file;        /* NULL: argv */
    const char *const *argv; /* NULL-terminated */
    const char *dir;
};

/* Starts it and takes its listing, JSON, into `listing` (IQ_BUF). IQ_ABI: it was refused, by itself or by a limit; the sentence
 * begins with what happened, not with a name. On error nothing runs. */
int iq_kernel_process_start(const struct iq_kernel_program *, const struct iq_kernel_limits *,
                            struct iq_kernel_process *out, struct iq_buf *listing, struct iq_err *err);
/* One call. IQ_OK: *declined tells whether it did it. IQ_CRASHED: the sentence's end ("was killed by signal 11 ..."); the
 * process is gone. IQ_MEMORY: ours. */
int iq_kernel_process_call(struct iq_kernel_process *, const struct iq_abi_kind *, const struct iq_abi_laid *,
                           struct iq_abi_call *, bool *declined, struct iq_err *err);
/* Kills it, if it is ours. Safe on zeros and on a half-started one. */
void iq_kernel_process_end(struct iq_kernel_process *);

#endif
