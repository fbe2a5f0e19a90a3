/* A child process that runs to its end while the caller waits: no shell, arguments as given, standard input empty.
 * It dies with the caller, also when the caller is killed. Its standard output is kept up to a limit, of its standard
 * error the end. Start children before threads exist.
 *
 * Errors: IQ_NOT_FOUND (no such program), IQ_IO (could not be started), IQ_LIMIT (ran out of time; it was killed).
 * A non-zero exit is no error here: look at exit_code. */
#ifndef IQ_HARNESS_CHILD_H
#define IQ_HARNESS_CHILD_H

#include "kernels/base/buf.h"
#include "kernels/base/status.h"

struct iq_child_spec {
    const char *const *argv; /* NULL-terminated; argv[0] is looked up on PATH */
    const char *cwd;         /* NULL: the caller's */
    const char *env_name;    /* one variable set for it, or NULL */
    const char *env_value;
    int timeout_ms;          /* 0: none */
    void (*tick)(void *ctx); /* about ten times a second while it runs, or NULL */
    void *ctx;
};

struct iq_child_result {
    int exit_code; /* 128 + signal when a signal ended it */
    struct iq_buf out;
    char tail[2048]; /* the end of its standard error, NUL-terminated */
};

/* result->out must be zero-initialised with IQ_BUF(max); what exceeds max is dropped. The caller frees it. */
int iq_child_run(const struct iq_child_spec *, struct iq_child_result *, struct iq_err *);

/* The last non-blank line of text, without line ends and control characters; "" if there is none. */
void iq_last_line(const char *text, char *out, size_t size);

#endif
