/* Inside a trial: what runs in its process, and the pipe's small words. */
#ifndef IQ_HARNESS_TRIAL_PROCESS_H
#define IQ_HARNESS_TRIAL_PROCESS_H

#include "harness/trial/trial.h"

#include <fcntl.h>
#include <signal.h>

#define IQ__TRAJECTORY_MARK 1
#define IQ__LIBRARIES_MARK  2
#define IQ__SLEPT_MARK      3

/* Runs the whole trial: records to `out`, the coordinator's reply from `in`. Returns the process's exit status. */
int iq__trial_process(const struct iq_trial *, int out, int in);
/* 0, or -1 when the other side is gone. */
int iq__write_all(int fd, const void *bytes, size_t n);

#endif
