/* What a variant may use while it runs: threads and scratch memory. One per engine (or per test); not shared between
 * threads. */
#ifndef IQ_EXEC_H
#define IQ_EXEC_H

#include "kernels/base/pool.h"

#include <stddef.h>
#include <stdint.h>

struct iq_cuda; /* kernels/cuda/device.h */

struct iq_exec {
    struct iq_pool *pool; /* borrowed; NULL: the calling thread alone */
    /* Borrowed; NULL: ops run here. Otherwise the pointers in their arguments are the device's, and ops queue their work. */
    struct iq_cuda *cuda;
    void *scratch; /* owned */
    size_t scratch_cap;
};

/* `bytes` of 64-byte aligned memory, contents undefined, valid until the next call of this function. NULL: no memory. */
void *iq_exec_scratch(struct iq_exec *, size_t bytes);
void iq_exec_close(struct iq_exec *); /* frees the scratch; the pool stays its owner's */

#endif
