/* The zygote: opens the models once, has no threads after that, and forks workers on demand. Their weights are its pages, shared
 * for as long as nobody writes to them: what a trial scribbles over is its own copy.
 *
 * It dies with the coordinator, workers die with it, trials with their worker. */
#ifndef IQ_HARNESS_ZYGOTE_H
#define IQ_HARNESS_ZYGOTE_H

#include "harness/campaign/worker.h"

#include <sys/types.h>

/* Its first word. */
struct iq_hello {
    struct iq_err err; /* status IQ_OK: it is ready */
    char sha256[IQ_SHA256_HEX];
    struct iq_digest contract, prompts; /* of the first engine settings; of tokens and parameters */
};

struct iq_zygote {
    pid_t pid;
    int fd; /* its socket */
};

/* Starts it; `ready` holds grid, prompts and model_path, the rest is made there. Waits for its first word. */
int iq_zygote_start(struct iq_ready *ready, struct iq_zygote *out, struct iq_hello *, struct iq_err *err);
/* A worker, and the coordinator's end of its socket. IQ_CRASHED: the zygote is gone. */
int iq_zygote_worker(struct iq_zygote *, int *fd, pid_t *pid, struct iq_err *err);
void iq_zygote_end(struct iq_zygote *); /* kills and reaps it; safe on one that is dead */

#endif
