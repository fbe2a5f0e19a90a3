/* A NCCL for tests, on the shim's devices: communicators, groups, collectives and point-to-point in stream order, each rank
 * on memory, streams and events of its own device. Like the real one it reads NCCL_ALGO and NCCL_PROTO when a communicator
 * is opened (Tree: another order than the ring's), refuses two ranks on one device, and only queues. Where the real one
 * would hang (a rank that doesn't take part, a send that nobody receives) it answers invalid usage. */
#ifndef IQ_TESTS_FAKE_NCCL_H
#define IQ_TESTS_FAKE_NCCL_H

#include "kernels/nccl/api.h"

enum { FAKE_FLOATS = 1 << 14 }; /* the largest message */

extern const struct iq_nccl_api fake_nccl;

/* The nth call (1 is the next) of a function of the table answers `code` and does nothing. One at a time; n 0: none. */
void fake_fail(const char *function, int n, int code);
/* What comm_async_error says of every communicator from here on. */
void fake_async(int code);

struct fake_facts {
    int open, opened, aborted;        /* communicators */
    int max_channels;                 /* of the last one; IQ_NCCL_UNSET if nothing was said */
    char algorithm[20], protocol[20]; /* as the last one saw the environment; "" unset */
};
struct fake_facts fake_facts(void);
void fake_forget(void); /* facts, plans */

#endif
