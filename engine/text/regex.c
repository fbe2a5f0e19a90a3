/* Split patterns over PCRE2. tokenizer.json's patterns are Oniguruma's, so what the two read differently is
 * written out: \s is White_Space (PCRE2's takes U+180E too), \w is Unicode's word character (PCRE2's takes
 * all numbers and leaves marks out), \h is a hex digit, ^ and $ stand at lines, (?m) is PCRE2's (?s). */
#include "engine/text/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

/* Steps of the matcher for one search, over and above a few a byte. A runaway pattern meets it in under a
 * second. */
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
    {'Q', "Q", "Q"}, /* PCRE2 would start and end a quotation */
    {'E', "E", "E"},
};

struct translation {
    const char *pattern, *where;
    size_t len, at;
    bool in_class;
    struct iq_buf *out;
    struct iq_err *err;
};

static int unsupported(const struct translation *t, const char *what)
{
    return iq_fail(t->err, IQ_UNSUPPORTED, "%s: pattern '%.*s': %s at byte %zu is not supported", t->where,
                   (int)(t->len < 200 ? t->len : 200), t->pattern, what, t->at);
}

static void put(struct translation *t, const char *s, size_t n) { iq_buf_put(t->out, s, n); }

/* Copies n bytes of the pattern. */
static void keep(struct translation *t, size_t n)
{
    put(t, t->pattern + t->at, n);
    t->at += n;
}

static bool starts(const struct translation *t, const char *text)
{
    size_t n = strlen(text);
    return t->len - t->at >= n && !memcmp(t->pattern + t->at, text, n);
}

static int escape(struct translation *t)
{
    char letter = t->pattern[t->at + 1];
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++) {
        if (escapes[i].letter != letter) continue;
        const char *text = t->in_class ? escapes[i].in_class : escapes[i].outside;
        if (!text) return unsupported(t, "a negated escape inside [...]");
        put(t, text, strlen(text));
        t->at += 2;
        return IQ_OK;
    }
    if (letter != 'u') return keep(t, 2), IQ_OK;
    if (t->len - t->at < 6) return unsupported(t, "\\u without four digits");
    put(t, "\\x{", 3);
    put(t, t->pattern + t->at + 2, 4);
    put(t, "}", 1);
    t->at += 6;
    return IQ_OK;
}

/* Inside [...]: sets in sets and intersections have another meaning in PCRE2. */
static int class_char(struct translation *t)
{
    if (starts(t, "[:")) {
        const char *end = memchr(t->pattern + t->at, ']', t->len - t->at);
        keep(t, end ? (size_t)(end - (t->pattern + t->at)) + 1 : t->len - t->at);
        return IQ_OK;
    }
    if (starts(t, "[")) return unsupported(t, "a set inside [...]");
    if (starts(t, "&&")) return unsupported(t, "&& inside [...]");
    t->in_class = !starts(t, "]");
    return keep(t, 1), IQ_OK;
}

static void class_start(struct translation *t)
{
    t->in_class = true;
    keep(t, starts(t, "[^") ? 2 : 1);
    if (!starts(t, "]")) return;
    put(t, "\\]", 2); /* a literal one in both */
    t->at++;
}

/* {low,high}: {,n} is {0,n}, and a plus behind repeats the whole where PCRE2 would make it possessive. */
static int interval(struct translation *t)
{
    const char *s = t->pattern + t->at, *close = memchr(s, '}', t->len - t->at);
    size_t n = close ? (size_t)(close - s) : 0, comma = strcspn(s, ",}");
    bool counts = n > 1 && !(n == 2 && comma == 1); /* {,} is text */
    for (size_t i = 1; i < n; i++) counts &= (s[i] >= '0' && s[i] <= '9') || i == comma;
    if (!counts) return keep(t, 1), IQ_OK;
    if (t->len - t->at > n + 1 && s[n + 1] == '+') {
        if (comma == 1 || (comma == 2 && (s[1] == '0' || (s[1] == '1' && comma < n)))) {
            put(t, s[1] == '1' ? "+" : "*", 1);
            t->at += n + 2;
            return IQ_OK;
        }
        return unsupported(t, "a repeated interval");
    }
    if (comma == 1) {
        put(t, "{0", 2);
        t->at++;
    }
    return keep(t, n + 1 - (comma == 1)), IQ_OK;
}

/* (?m...) lets the dot match newlines, as (?s...) does in PCRE2. */
static void group_flags(struct translation *t)
{
    size_t n = 2;
    while (t->at + n < t->len && strchr("imx-", t->pattern[t->at + n]) && t->pattern[t->at + n]) n++;
    bool flags = t->at + n < t->len && (t->pattern[t->at + n] == ':' || t->pattern[t->at + n] == ')');
    for (size_t i = 0; i < n; i++, t->at++) {
        char c = t->pattern[t->at];
        put(t, flags && c == 'm' ? "s" : &c, 1);
    }
}

static int translate(struct translation *t)
{
    while (t->at < t->len) {
        if (t->pattern[t->at] == '\\' && t->at + 1 < t->len)
            IQ_TRY(escape(t));
        else if (t->in_class)
            IQ_TRY(class_char(t));
        else if (starts(t, "["))
            class_start(t);
        else if (starts(t, "{"))
            IQ_TRY(interval(t));
        else if (starts(t, "(?"))
            group_flags(t);
        else
            keep(t, 1);
    }
    if (!t->out->failed) return IQ_OK;
    return iq_fail(t->err, IQ_LIMIT, "%s: a split pattern of %zu bytes is too long", t->where, t->len);
}

/* Newlines are \n alone, whatever PCRE2 was built with. */
static pcre2_code *compile(const struct iq_buf *text, int *code)
{
    const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context) return NULL;
    PCRE2_SIZE at;
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_code *re = pcre2_compile((PCRE2_SPTR)text->data, text->len, options, code, &at, context);
    pcre2_compile_context_free(context);
    if (re) pcre2_jit_compile(re, PCRE2_JIT_COMPLETE); /* without it the interpreter serves */
    return re;
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
    struct translation t = {.pattern = pattern, .where = where, .len = len, .out = &text, .err = err};
    int status = translate(&t), code = 0;
    struct iq__regex *re = status == IQ_OK ? calloc(1, sizeof *re) : NULL;
    if (status == IQ_OK && (!re || !(re->pattern = strndup(pattern, len))))
        status = iq_fail(err, IQ_MEMORY, "%s: no memory for a split pattern", where);
    if (status == IQ_OK && !(re->code = compile(&text, &code))) {
        PCRE2_UCHAR why[160] = "no memory";
        if (code) pcre2_get_error_message(code, why, sizeof why);
        status = iq_fail(err, IQ_FORMAT, "%s: the split pattern '%.200s' can't be compiled: %s", where,
                         re->pattern, (char *)why);
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
