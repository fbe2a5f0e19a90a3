/* Split patterns over PCRE2. tokenizer.json's patterns are Oniguruma's, so what the two read differently is written
 * out: \s is White_Space (PCRE2's takes U+180E too), \w is Unicode's word character (PCRE2's takes all numbers and
 * leaves marks out), \h is a hex digit, ^ and $ stand at lines. */
#include "engine/text/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

/* Steps of the matcher for one search, over and above a few a byte. A runaway pattern meets it in under a second. */
enum {
    MATCH_STEPS = 5000000,
    STEPS_A_BYTE = 16,
    JIT_STACK = 1 << 20,
    HEAP_KIB = 256 << 10,
    PATTERN_MAX = 1 << 16
};

struct iq__regex {
    pcre2_code *code;
    char *pattern;
};

/* `in_class` and `outside`: what an escape becomes inside [...] and outside. NULL: it can't be said there. */
static const struct {
    char letter;
    const char *outside, *in_class;
} escapes[] = {
    {'s', "\\p{White_Space}", "\\p{White_Space}"},
    {'S', "\\P{White_Space}", "\\P{White_Space}"},
    {'w', "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}]", "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"},
    {'W', "[^\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}]", NULL},
    {'d', "\\p{Nd}", "\\p{Nd}"},
    {'D', "\\P{Nd}", "\\P{Nd}"},
    {'h', "[0-9a-fA-F]", "0-9a-fA-F"},
    {'H', "[^0-9a-fA-F]", NULL},
};

static int translate_escape(char letter, bool in_class, struct iq_buf *out)
{
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++) {
        if (escapes[i].letter != letter) continue;
        const char *text = in_class ? escapes[i].in_class : escapes[i].outside;
        return text ? iq_buf_put(out, text, strlen(text)) : -2;
    }
    char plain[2] = {'\\', letter};
    return iq_buf_put(out, plain, 2);
}

static int translate(const char *p, size_t n, const char *where, struct iq_buf *out, struct iq_err *err)
{
    int depth = 0; /* of brackets */
    for (size_t i = 0; i < n; i++) {
        char c = p[i];
        if (c == '\\' && i + 1 < n) {
            if (translate_escape(p[++i], depth > 0, out) == -2)
                return iq_fail(err, IQ_UNSUPPORTED,
                               "%s: pattern '%.*s': \\%c inside [...] is not supported at byte %zu", where,
                               (int)(n < 200 ? n : 200), p, p[i], i);
            continue;
        }
        /* Oniguruma's sets in sets and intersections have another meaning in PCRE2 */
        bool posix = depth > 0 && c == '[' && i + 1 < n && p[i + 1] == ':';
        bool nested = depth > 0 && c == '[' && !posix;
        bool both = depth > 0 && c == '&' && i + 1 < n && p[i + 1] == '&';
        if (nested || both)
            return iq_fail(err, IQ_UNSUPPORTED,
                           "%s: pattern '%.*s': %s inside [...] is not supported at byte %zu", where,
                           (int)(n < 200 ? n : 200), p, nested ? "a set" : "&&", i);
        if (posix) {
            const char *end = memchr(p + i + 2, ']', n - i - 2);
            size_t len = end ? (size_t)(end - (p + i)) + 1 : n - i;
            iq_buf_put(out, p + i, len);
            i += len - 1;
            continue;
        }
        if (c == '[') {
            depth = 1;
            iq_buf_put(out, &c, 1);
            if (i + 1 < n && p[i + 1] == '^') iq_buf_put(out, &p[++i], 1);
            if (i + 1 < n && p[i + 1] == ']') { /* a literal ] in both */
                iq_buf_put(out, "\\]", 2);
                i++;
            }
            continue;
        }
        if (c == ']') depth = 0;
        iq_buf_put(out, &c, 1);
    }
    return out->failed ? iq_fail(err, IQ_LIMIT, "%s: a split pattern of %zu bytes is too long", where, n)
                       : IQ_OK;
}

int iq__regex_new(const char *pattern, size_t len, const char *where, struct iq__regex **out,
                  struct iq_err *err)
{
    *out = NULL;
    if (len > PATTERN_MAX)
        return iq_fail(err, IQ_LIMIT, "%s: a split pattern of %zu bytes; at most %d are taken", where, len,
                       PATTERN_MAX);
    struct iq_buf text = IQ_BUF(64 * (PATTERN_MAX + 1));
    iq_buf_put(&text, "", 0);
    int status = translate(pattern, len, where, &text, err);
    struct iq__regex *re = status == IQ_OK ? calloc(1, sizeof *re) : NULL;
    if (status == IQ_OK && (!re || !(re->pattern = strndup(pattern, len))))
        status = iq_fail(err, IQ_MEMORY, "%s: no memory for a split pattern", where);
    if (status == IQ_OK) {
        int code;
        PCRE2_SIZE at;
        uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
        re->code = pcre2_compile((PCRE2_SPTR)text.data, text.len, options, &code, &at, NULL);
        if (!re->code) {
            PCRE2_UCHAR why[160] = "";
            pcre2_get_error_message(code, why, sizeof why);
            status = iq_fail(err, IQ_FORMAT, "%s: the split pattern '%.200s' can't be compiled: %s", where,
                             re->pattern, (char *)why);
        } else {
            pcre2_jit_compile(re->code, PCRE2_JIT_COMPLETE); /* without it the interpreter serves */
        }
    }
    iq_buf_free(&text);
    if (status == IQ_OK)
        *out = re;
    else
        iq__regex_free(re);
    return status;
}

void iq__regex_free(struct iq__regex *re)
{
    if (!re) return;
    pcre2_code_free(re->code);
    free(re->pattern);
    free(re);
}

static int prepare(struct iq__scratch *w, struct iq_err *err)
{
    if (w->match) return IQ_OK;
    w->context = pcre2_match_context_create(NULL);
    w->stack = pcre2_jit_stack_create(32 << 10, JIT_STACK, NULL); /* NULL where there is no JIT */
    w->match = pcre2_match_data_create(1, NULL);
    if (!w->context || !w->match) return iq_fail(err, IQ_MEMORY, "no memory to match split patterns");
    if (w->stack) pcre2_jit_stack_assign(w->context, NULL, w->stack);
    pcre2_set_heap_limit(w->context, HEAP_KIB);
    return IQ_OK;
}

int iq__regex_next(const struct iq__regex *re, struct iq__scratch *w, const char *text, size_t len,
                   size_t from, size_t *start, size_t *end, bool *found, struct iq_err *err)
{
    *found = false;
    IQ_TRY(prepare(w, err));
    pcre2_set_match_limit(w->context, MATCH_STEPS + STEPS_A_BYTE * (uint32_t)(len - from));
    int n = pcre2_match(re->code, (PCRE2_SPTR)text, len, from, PCRE2_NO_UTF_CHECK, w->match, w->context);
    if (n == PCRE2_ERROR_JIT_STACKLIMIT) /* a deep pattern: the interpreter keeps its stack on the heap */
        n = pcre2_match(re->code, (PCRE2_SPTR)text, len, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, w->match,
                        w->context);
    if (n == PCRE2_ERROR_NOMATCH) return IQ_OK;
    if (n < 0) {
        PCRE2_UCHAR why[160] = "";
        pcre2_get_error_message(n, why, sizeof why);
        return iq_fail(
            err, n == PCRE2_ERROR_NOMEMORY ? IQ_MEMORY : IQ_LIMIT,
            "the split pattern '%.200s' runs away on this text at byte %zu of a piece of %zu (%s): the "
            "text is refused",
            re->pattern, from, len, (char *)why);
    }
    const PCRE2_SIZE *o = pcre2_get_ovector_pointer(w->match);
    *start = o[0];
    *end = o[1] < o[0] ? o[0] : o[1]; /* \K in a lookahead may turn them round */
    if (*start < from) *start = from;
    if (*end < *start) *end = *start;
    *found = true;
    return IQ_OK;
}
