#define _GNU_SOURCE
#include "harness/cli/out.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void iq_out_open(struct iq_out *o, int fd, const char *name)
{
    o->fd = fd;
    o->error = 0;
    o->name = name;
    o->used = 0;
}

static void write_all(struct iq_out *o, const char *bytes, size_t n)
{
    while (n && !o->error) {
        ssize_t done = write(o->fd, bytes, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) {
            o->error = done < 0 ? errno : EIO;
            return;
        }
        bytes += done;
        n -= (size_t)done;
    }
}

static void drain(struct iq_out *o)
{
    write_all(o, o->bytes, o->used);
    o->used = 0;
}

void iq_out_put(struct iq_out *o, const void *bytes, size_t n)
{
    if (o->error) return;
    if (n > sizeof o->bytes - o->used) drain(o);
    if (n > sizeof o->bytes) {
        write_all(o, bytes, n);
        return;
    }
    memcpy(o->bytes + o->used, bytes, n);
    o->used += n;
}

void iq_out_printf(struct iq_out *o, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = NULL;
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0) {
        if (!o->error) o->error = ENOMEM;
        return;
    }
    iq_out_put(o, text, (size_t)n);
    free(text);
}

int iq_out_line(struct iq_out *o, const struct iq_buf *line, struct iq_err *err)
{
    if (line->failed)
        return iq_fail(err, IQ_MEMORY, "%s: a line outgrew its %zu bytes or memory ran out", o->name,
                       line->max);
    iq_out_put(o, line->data, line->len);
    iq_out_put(o, "\n", 1);
    return iq_out_flush(o, err);
}

int iq_out_flush(struct iq_out *o, struct iq_err *err)
{
    drain(o);
    if (!o->error) return IQ_OK;
    int full = o->error == ENOSPC || o->error == EDQUOT || o->error == EFBIG;
    return iq_fail(err, full ? IQ_FULL : IQ_IO, "%s could not be written: %s; what was printed is incomplete",
                   o->name, strerror(o->error));
}
