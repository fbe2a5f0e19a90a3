/* JSON text, written in order. */
#include "kernels/base/json.h"
#include "kernels/base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 62 }; /* `first` has 64 bits */

/* What stands before a value or key: nothing after a key or as the first item, else a comma. */
static void separate(struct iq_jw *w)
{
    uint64_t bit = UINT64_C(1) << w->depth;
    if (w->after_key)
        w->after_key = 0;
    else if (w->first & bit)
        w->first &= ~bit;
    else
        iq_buf_put(w->buf, ",", 1);
}

void iq_jw_begin(struct iq_jw *w, char bracket)
{
    separate(w);
    iq_buf_put(w->buf, &bracket, 1);
    if (w->depth == DEEPEST) {
        w->buf->failed = 1;
        return;
    }
    w->first |= UINT64_C(1) << ++w->depth;
}

void iq_jw_end(struct iq_jw *w, char bracket)
{
    if (w->depth) w->depth--;
    w->after_key = 0;
    iq_buf_put(w->buf, &bracket, 1);
}

static void quoted(struct iq_buf *b, const char *s, size_t n)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    size_t done = 0, i = 0; /* s[done..i) needs no escape and is put at once */
    iq_buf_put(b, "\"", 1);
    while (i < n) {
        uint32_t cp;
        int len = iq_utf8_next(s + i, n - i, &cp);
        if (len > 0 && cp >= 0x20 && cp != '"' && cp != '\\') {
            i += (size_t)len;
            continue;
        }
        iq_buf_put(b, s + done, i - done);
        const char *named = len > 0 && cp ? memchr(from, (int)cp, sizeof from - 1) : NULL;
        if (len < 0)
            iq_buf_put(b, "\xef\xbf\xbd", 3);
        else if (named)
            iq_buf_put(b, (char[]){'\\', to[named - from]}, 2);
        else
            iq_buf_printf(b, "\\u%04x", (unsigned)cp);
        i += (size_t)abs(len);
        done = i;
    }
    iq_buf_put(b, s + done, n - done);
    iq_buf_put(b, "\"", 1);
}

void iq_jw_key(struct iq_jw *w, const char *key)
{
    separate(w);
    quoted(w->buf, key, strlen(key));
    iq_buf_put(w->buf, ":", 1);
    w->after_key = 1;
}

void iq_jw_strn(struct iq_jw *w, const char *s, size_t n)
{
    separate(w);
    quoted(w->buf, s, n);
}

void iq_jw_str(struct iq_jw *w, const char *s)
{
    if (s)
        iq_jw_strn(w, s, strlen(s));
    else
        iq_jw_null(w);
}

void iq_jw_u64(struct iq_jw *w, uint64_t v)
{
    separate(w);
    iq_buf_printf(w->buf, "%llu", (unsigned long long)v);
}

void iq_jw_i64(struct iq_jw *w, int64_t v)
{
    separate(w);
    iq_buf_printf(w->buf, "%lld", (long long)v);
}

void iq_jw_f64(struct iq_jw *w, double v)
{
    char text[40] = "null";
    for (int precision = 15; isfinite(v) && precision <= 17; precision++) {
        snprintf(text, sizeof text, "%.*g", precision, v);
        if (strtod(text, NULL) == v) break;
    }
    iq_jw_raw(w, text);
}

void iq_jw_f32(struct iq_jw *w, float v)
{
    char text[40] = "null";
    if (isfinite(v)) snprintf(text, sizeof text, "%.9g", (double)v);
    iq_jw_raw(w, text);
}

void iq_jw_bool(struct iq_jw *w, bool v) { iq_jw_raw(w, v ? "true" : "false"); }

void iq_jw_null(struct iq_jw *w) { iq_jw_raw(w, "null"); }

void iq_jw_hex(struct iq_jw *w, uint64_t hi, uint64_t lo)
{
    separate(w);
    iq_buf_printf(w->buf, "\"%016llx%016llx\"", (unsigned long long)hi, (unsigned long long)lo);
}

void iq_jw_raw(struct iq_jw *w, const char *json)
{
    separate(w);
    iq_buf_put(w->buf, json, strlen(json));
}
