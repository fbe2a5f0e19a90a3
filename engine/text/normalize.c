/* NFC, NFD, NFKC and NFKD. utf8proc's own pass sorts combining marks by swapping neighbours, which is
 * quadratic in a run of them: a prompt of 1 MB of accents would take half an hour. Here runs are sorted in n
 * log n. */
#include "engine/text/tokenizer_parts.h"
#include "kernels/base/grow.h"
#include "kernels/base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { LONGEST_DECOMPOSITION = 32 }; /* the longest of Unicode has 18 characters */

struct mark {
    uint32_t class, at;
    int32_t cp;
};

static int by_class(const void *a, const void *b)
{
    const struct mark *x = a, *y = b;
    if (x->class != y->class) return x->class < y->class ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static uint32_t combining_class(int32_t cp) { return (uint32_t)utf8proc_get_property(cp)->combining_class; }

/* Canonical order: each run of marks stands by combining class, equal ones as they came. */
static int sort_run(int32_t *cp, size_t n, struct iq_err *err)
{
    size_t i = 1;
    while (i < n && combining_class(cp[i - 1]) <= combining_class(cp[i])) i++;
    if (i >= n) return IQ_OK;
    struct mark *marks = malloc(n * sizeof *marks);
    if (!marks) return iq_fail(err, IQ_MEMORY, "no memory to normalize a run of %zu marks", n);
    for (i = 0; i < n; i++) marks[i] = (struct mark){combining_class(cp[i]), (uint32_t)i, cp[i]};
    qsort(marks, n, sizeof *marks, by_class);
    for (i = 0; i < n; i++) cp[i] = marks[i].cp;
    free(marks);
    return IQ_OK;
}

static int sort_marks(int32_t *cp, size_t n, struct iq_err *err)
{
    for (size_t i = 0, end; i < n; i = end + (end == i)) {
        for (end = i; end < n && combining_class(cp[end]);) end++;
        if (end > i) IQ_TRY(sort_run(cp + i, end - i, err));
    }
    return IQ_OK;
}

/* Decomposes into *list, whose n characters the caller frees on failure too. */
static int decompose(const char *s, size_t n, int form, int32_t **list, size_t *count, struct iq_err *err)
{
    size_t cap = 0;
    int boundary = 0;
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        i += (size_t)iq_utf8_next(s + i, n - i, &cp);
        IQ_TRY(iq_grow(list, &cap, *count + LONGEST_DECOMPOSITION, sizeof **list, err));
        utf8proc_ssize_t k =
            utf8proc_decompose_char((utf8proc_int32_t)cp, *list + *count, LONGEST_DECOMPOSITION,
                                    (utf8proc_option_t)(form | UTF8PROC_DECOMPOSE), &boundary);
        if (k < 0 || k > LONGEST_DECOMPOSITION)
            return iq_fail(err, IQ_INTERNAL, "Unicode normalization of U+%04X: %s", cp, utf8proc_errmsg(k));
        *count += (size_t)k;
    }
    return IQ_OK;
}

int iq__rewrite_form(const struct iq__step *st, struct iq__scratch *w, const char *s, size_t n, bool first,
                     struct iq_buf *out, struct iq_err *err)
{
    (void)w, (void)first;
    size_t ascii = 0, count = 0;
    int32_t *list = NULL;
    while (ascii < n && (unsigned char)s[ascii] < 0x80) ascii++;
    int status = ascii < n ? decompose(s, n, st->form & ~UTF8PROC_COMPOSE, &list, &count, err) : IQ_OK;
    if (status == IQ_OK) status = sort_marks(list, count, err);
    if (status == IQ_OK && (st->form & UTF8PROC_COMPOSE) && count) {
        utf8proc_ssize_t k =
            utf8proc_normalize_utf32(list, (utf8proc_ssize_t)count, (utf8proc_option_t)st->form);
        if (k < 0)
            status = iq_fail(err, IQ_INTERNAL, "Unicode normalization: %s", utf8proc_errmsg(k));
        else
            count = (size_t)k;
    }
    if (ascii == n) iq_buf_put(out, s, n); /* every form leaves ASCII alone */
    char part[512];
    size_t fill = 0;
    for (size_t i = 0; i < count && status == IQ_OK; i++) {
        if (fill > sizeof part - 4) iq_buf_put(out, part, fill), fill = 0;
        fill += (size_t)iq_utf8_put((uint32_t)list[i], part + fill);
    }
    iq_buf_put(out, part, fill);
    free(list);
    if (status == IQ_OK && out->failed)
        return iq_fail(err, IQ_LIMIT, "the text grows beyond %zu bytes while it is normalized", out->max);
    return status;
}
