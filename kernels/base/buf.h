/* A growing byte buffer that is born with a maximum. Freed by iq_buf_free; zero-initialise with IQ_BUF(max).
 * After a failed append (`failed` set) further appends do nothing: check once, at the end. `data` is always
 * NUL-terminated once something was appended; `len` does not count the NUL. */
#ifndef IQ_BASE_BUF_H
#define IQ_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

struct iq_buf {
    char *data;
    size_t len, cap, max;
    int failed;
};

#define IQ_BUF(maximum) ((struct iq_buf){.max = (maximum)})

int iq_buf_put(struct iq_buf *, const void *bytes, size_t n); /* 0, or -1: maximum or memory */
int iq_buf_printf(struct iq_buf *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void iq_buf_free(struct iq_buf *);

#endif
