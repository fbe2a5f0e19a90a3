/* Standard output: one buffered writer. A write that fails (disk full, pipe closed) is remembered, later writes do
 * nothing, and iq_out_flush reports it with errno's sentence. Not thread-safe: the command's thread writes. */
#ifndef IQ_HARNESS_OUT_H
#define IQ_HARNESS_OUT_H

#include "kernels/base/buf.h"
#include "kernels/base/status.h"

#include <stddef.h>

enum { IQ_OUT_BUFFER = 1 << 16 };

struct iq_out {
    int fd;
    int error;        /* errno of the first write that failed, 0 if none did */
    const char *name; /* for errors: "standard output" */
    size_t used;
    char bytes[IQ_OUT_BUFFER];
};

void iq_out_open(struct iq_out *, int fd, const char *name);
void iq_out_put(struct iq_out *, const void *bytes, size_t n);
void iq_out_printf(struct iq_out *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A finished buffer and a newline, written out at once, so that a reader of JSON lines gets whole lines while the run
 * goes on. IQ_MEMORY when the buffer had failed. */
int iq_out_line(struct iq_out *, const struct iq_buf *, struct iq_err *);
/* IQ_OK, IQ_FULL (no space left) or IQ_IO. */
int iq_out_flush(struct iq_out *, struct iq_err *);

#endif
