#include "kernels/base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int iq_buf_put(struct iq_buf *b, const void *bytes, size_t n)
{
    if (b->failed) return -1;
    if (n > b->max || b->len > b->max - n) return b->failed = 1, -1;
    if (b->len + n + 1 > b->cap) {
        size_t cap = b->cap ? b->cap : 256;
        while (cap < b->len + n + 1) cap *= 2;
        char *grown = realloc(b->data, cap);
        if (!grown) return b->failed = 1, -1;
        b->data = grown;
        b->cap = cap;
    }
    if (n) memcpy(b->data + b->len, bytes, n);
    b->len += n;
    b->data[b->len] = 0;
    return 0;
}

int iq_buf_printf(struct iq_buf *b, const char *fmt, ...)
{
    char small[512];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(small, sizeof small, fmt, ap);
    va_end(ap);
    if (n < 0) return b->failed = 1, -1;
    if ((size_t)n < sizeof small) return iq_buf_put(b, small, (size_t)n);
    char *large = malloc((size_t)n + 1);
    if (!large) return b->failed = 1, -1;
    va_start(ap, fmt);
    vsnprintf(large, (size_t)n + 1, fmt, ap);
    va_end(ap);
    int rc = iq_buf_put(b, large, (size_t)n);
    free(large);
    return rc;
}

void iq_buf_free(struct iq_buf *b)
{
    free(b->data);
    *b = (struct iq_buf){.max = b->max};
}
