#define _GNU_SOURCE /* memmem */
/* The rewriting steps of normalizers, splitters and decoders, and the GPT-2 byte map. */
#include "engine/text/tokenizer_parts.h"
#include "kernels/base/grow.h"
#include "kernels/base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* Printable Latin-1 bytes stand for themselves; the other 68 are U+0100 and up, in order. */
static bool stands_for_itself(unsigned b) { return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b != 0xad); }

uint32_t iq_tokenizer_byte_char(unsigned byte)
{
    if (stands_for_itself(byte)) return byte;
    if (byte <= 0x20) return 0x100 + byte;
    return byte == 0xad ? 0x143 : 0x121 + (byte - 0x7f);
}

int iq__char_byte(uint32_t cp)
{
    if (cp < 0x100) return stands_for_itself(cp) ? (int)cp : -1;
    if (cp <= 0x120) return (int)(cp - 0x100);
    return cp <= 0x142 ? (int)(cp - 0x121 + 0x7f) : cp == 0x143 ? 0xad : -1;
}

int iq__steps_add(struct iq__steps *s, struct iq__step **out, struct iq_err *err)
{
    *out = NULL;
    IQ_TRY(iq_grow(&s->step, &s->cap, s->n + 1, sizeof *s->step, err));
    *out = &s->step[s->n++];
    memset(*out, 0, sizeof **out);
    return IQ_OK;
}

void iq__steps_free(struct iq__steps *s)
{
    for (size_t i = 0; i < s->n; i++) {
        iq__regex_free(s->step[i].regex);
        free(s->step[i].find);
        free(s->step[i].put);
    }
    free(s->step);
    *s = (struct iq__steps){0};
}

int iq__step_text(char **dst, size_t *dst_len, const char *s, size_t n, struct iq_err *err)
{
    *dst = malloc(n + 1);
    if (!*dst) return iq_fail(err, IQ_MEMORY, "no memory for a step of the tokenizer");
    memcpy(*dst, s, n);
    (*dst)[n] = 0;
    *dst_len = n;
    return IQ_OK;
}

static int done(const struct iq_buf *out, struct iq_err *err)
{
    if (!out->failed) return IQ_OK;
    return iq_fail(err, IQ_LIMIT, "the text grows beyond %zu bytes while it is normalized", out->max);
}

int iq__rewrite_prepend(const struct iq__step *st, struct iq__scratch *w, const char *s, size_t n, bool first,
                        struct iq_buf *out, struct iq_err *err)
{
    (void)w;
    bool there = st->not_first && n >= st->put_len && !memcmp(s, st->put, st->put_len);
    if (n && !there && (first || !st->only_first)) iq_buf_put(out, st->put, st->put_len);
    iq_buf_put(out, s, n);
    return done(out, err);
}

int iq__rewrite_replace(const struct iq__step *st, struct iq__scratch *w, const char *s, size_t n, bool first,
                        struct iq_buf *out, struct iq_err *err)
{
    (void)first;
    size_t at = 0;
    if (st->regex) {
        size_t last_end = SIZE_MAX, from = 0;
        while (from <= n) {
            size_t b, e;
            bool found;
            IQ_TRY(iq__regex_next(st->regex, w, s, n, from, &b, &e, &found, err));
            if (!found) break;
            if (b == e && e == last_end) { /* an empty match right behind the last one: step on a character */
                uint32_t cp;
                from += from < n ? (size_t)iq_utf8_next(s + from, n - from, &cp) : 1;
                continue;
            }
            if (b == 0 && e > 0 && !st->put_len) w->cut_front = true;
            iq_buf_put(out, s + at, b - at);
            iq_buf_put(out, st->put, st->put_len);
            at = from = last_end = e;
        }
    } else if (st->find_len) {
        const char *hit;
        while (at < n && (hit = memmem(s + at, n - at, st->find, st->find_len))) {
            if (hit == s && !st->put_len) w->cut_front = true;
            iq_buf_put(out, s + at, (size_t)(hit - s) - at);
            iq_buf_put(out, st->put, st->put_len);
            at = (size_t)(hit - s) + st->find_len;
        }
    }
    iq_buf_put(out, s + at, n - at);
    return done(out, err);
}

int iq__rewrite_lower(const struct iq__step *st, struct iq__scratch *w, const char *s, size_t n, bool first,
                      struct iq_buf *out, struct iq_err *err)
{
    (void)st, (void)w, (void)first;
    for (size_t i = 0, len; i < n; i += len) {
        uint32_t cp;
        char c[4];
        len = (size_t)iq_utf8_next(s + i, n - i, &cp);
        if (cp == 0x130) /* the one character whose lower case is two */
            iq_buf_put(out, "i\xcc\x87", 3);
        else
            iq_buf_put(out, c, (size_t)iq_utf8_put((uint32_t)utf8proc_tolower((utf8proc_int32_t)cp), c));
    }
    return done(out, err);
}

bool iq__is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
           c == 0x3000;
}

int iq__rewrite_strip(const struct iq__step *st, struct iq__scratch *w, const char *s, size_t n, bool first,
                      struct iq_buf *out, struct iq_err *err)
{
    (void)first;
    size_t begin = SIZE_MAX, end = 0;
    for (size_t i = 0, len; i < n; i += len) {
        uint32_t cp;
        len = (size_t)iq_utf8_next(s + i, n - i, &cp);
        if (iq__is_space(cp)) continue;
        if (begin == SIZE_MAX) begin = i;
        end = i + len;
    }
    if (begin == SIZE_MAX) begin = n;
    if (!st->left) begin = 0;
    if (!st->right) end = n;
    if (end > begin) iq_buf_put(out, s + begin, end - begin);
    if (begin > 0) w->cut_front = true;
    return done(out, err);
}

int iq__rewrite_accents(const struct iq__step *st, struct iq__scratch *w, const char *s, size_t n, bool first,
                        struct iq_buf *out, struct iq_err *err)
{
    (void)st, (void)first;
    for (size_t i = 0, len; i < n; i += len) {
        uint32_t cp;
        len = (size_t)iq_utf8_next(s + i, n - i, &cp);
        utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
        if (c != UTF8PROC_CATEGORY_MN && c != UTF8PROC_CATEGORY_MC && c != UTF8PROC_CATEGORY_ME)
            iq_buf_put(out, s + i, len);
        else if (i == 0)
            w->cut_front = true;
    }
    return done(out, err);
}

int iq__rewrite_byte_map(const struct iq__step *st, struct iq__scratch *w, const char *s, size_t n,
                         bool first, struct iq_buf *out, struct iq_err *err)
{
    (void)st, (void)w, (void)first;
    char part[512];
    size_t fill = 0;
    for (size_t i = 0; i < n; i++) {
        if (fill > sizeof part - 4) iq_buf_put(out, part, fill), fill = 0;
        fill += (size_t)iq_utf8_put(iq_tokenizer_byte_char((unsigned char)s[i]), part + fill);
    }
    iq_buf_put(out, part, fill);
    return done(out, err);
}

/* Spaces become `put`; in front of the string it is added where the scheme says and it is not there yet. */
int iq__rewrite_metaspace(const struct iq__step *st, struct iq__scratch *w, const char *s, size_t n,
                          bool first, struct iq_buf *out, struct iq_err *err)
{
    (void)w;
    bool there = n && (s[0] == ' ' || (n >= st->put_len && !memcmp(s, st->put, st->put_len)));
    if (!there && st->left && (first || !st->only_first)) iq_buf_put(out, st->put, st->put_len);
    for (size_t i = 0, run; i < n; i += run) {
        const char *space = memchr(s + i, ' ', n - i);
        run = space ? (size_t)(space - (s + i)) : n - i;
        iq_buf_put(out, s + i, run);
        if (space) iq_buf_put(out, st->put, st->put_len), run++;
    }
    return done(out, err);
}
