/* A strict JSON reader: no recursion, exact numbers, each key once. */
#include "kernels/base/digest.h"
#include "kernels/base/grow.h"
#include "kernels/base/json.h"
#include "kernels/base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The tree is cJSON's, the parser is ours: cJSON's own cuts numbers at 63 characters, accepts `[01]` and bad UTF-8,
 * recurses by input, and forgets the literal that says whether an integer was exact. */
enum { MAX_DEPTH = 64 };

struct key_mark {
    struct iq_digest digest; /* of the decoded key: "a" and "\u0061" are one key */
    size_t at;
};

struct parser {
    const char *text, *name;
    size_t len, at;
    struct iq_err *err;
    int depth;
    cJSON *open[MAX_DEPTH], *last[MAX_DEPTH]; /* containers, and their last item */
    size_t first_key[MAX_DEPTH];              /* where an object's keys start in `keys` */
    struct key_mark *keys;                    /* of all open objects, a stack */
    size_t n_keys, cap_keys;
    char *key; /* decoded, waiting for its value */
};

static int fail_at(struct parser *p, size_t at, const char *what)
{
    size_t line = 1, start = 0;
    for (size_t i = 0; i < at && i < p->len; i++)
        if (p->text[i] == '\n') line++, start = i + 1;
    return iq_fail(p->err, IQ_FORMAT, "%s:%zu:%zu: %s", p->name, line, at - start + 1, what);
}

static int unexpected(struct parser *p, size_t at, const char *expected)
{
    unsigned char c = at < p->len ? (unsigned char)p->text[at] : 0;
    char what[128], found[24] = "the end of the text";
    if (at < p->len) snprintf(found, sizeof found, c > 0x20 && c < 0x7f ? "'%c'" : "byte 0x%02x", c);
    snprintf(what, sizeof what, "expected %s, found %s", expected, found);
    return fail_at(p, at, what);
}

static int no_memory(struct parser *p)
{
    return iq_fail(p->err, IQ_MEMORY, "%s: no memory for the JSON tree of %zu bytes of text", p->name,
                   p->len);
}

static void skip_space(struct parser *p)
{
    while (p->at < p->len && strchr(" \t\n\r", p->text[p->at]) && p->text[p->at]) p->at++;
}

static int hex4(struct parser *p, size_t at, uint32_t *out)
{
    *out = 0;
    for (size_t i = at; i < at + 4; i++) {
        char c = i < p->len ? p->text[i] : 0;
        int d = c >= '0' && c <= '9'                 ? c - '0'
                : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                     : -1;
        if (d < 0) return unexpected(p, i, "four hex digits after \\u");
        *out = *out << 4 | (uint32_t)d;
    }
    return IQ_OK;
}

/* p->at is at a backslash; appends the character to `out`. */
static int escape(struct parser *p, char **out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    size_t start = p->at;
    char c = start + 1 < p->len ? p->text[start + 1] : 0;
    const char *plain = c ? strchr(from, c) : NULL;
    p->at += 2;
    if (plain) return *(*out)++ = to[plain - from], IQ_OK;
    if (c != 'u') return unexpected(p, start + 1, "one of \"\\/bfnrtu after a backslash");
    uint32_t cp, low;
    IQ_TRY(hex4(p, p->at, &cp));
    p->at += 4;
    if (cp == 0) return fail_at(p, start, "\\u0000 is not taken in a string");
    if (cp >= 0xdc00 && cp < 0xe000) return fail_at(p, start, "a low surrogate stands alone");
    if (cp >= 0xd800 && cp < 0xdc00) {
        if (p->at + 1 >= p->len || p->text[p->at] != '\\' || p->text[p->at + 1] != 'u')
            return fail_at(p, start, "a high surrogate stands alone");
        IQ_TRY(hex4(p, p->at + 2, &low));
        if (low < 0xdc00 || low > 0xdfff) return fail_at(p, start, "a high surrogate stands alone");
        p->at += 6;
        cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
    }
    *out += iq_utf8_put(cp, *out);
    return IQ_OK;
}

/* p->at is at the opening quote. *out is allocated by cJSON_malloc; decoding never makes a string longer. */
static int string(struct parser *p, char **out, size_t *out_len)
{
    size_t start = p->at + 1, end = start;
    *out = NULL;
    while (end < p->len && p->text[end] != '"') end += p->text[end] == '\\' ? 2 : 1;
    if (end >= p->len) return unexpected(p, p->len, "the closing quote of a string");
    char *s = cJSON_malloc(end - start + 1), *w = s;
    if (!s) return no_memory(p);
    int status = IQ_OK;
    for (p->at = start; status == IQ_OK && p->at < end;) {
        unsigned char c = (unsigned char)p->text[p->at];
        uint32_t cp;
        if (c == '\\') {
            status = escape(p, &w);
        } else if (c < 0x20) {
            status = fail_at(p, p->at, "a control character in a string is not escaped");
        } else {
            int n = iq_utf8_next(p->text + p->at, p->len - p->at, &cp);
            if (n < 0) {
                status = unexpected(p, p->at, "UTF-8");
                break;
            }
            memcpy(w, p->text + p->at, (size_t)n);
            w += n;
            p->at += (size_t)n;
        }
    }
    if (status != IQ_OK) {
        cJSON_free(s);
        return status;
    }
    *w = 0;
    *out = s;
    *out_len = (size_t)(w - s);
    p->at = end + 1;
    return IQ_OK;
}

/* Whether a literal of the JSON grammar is mathematically an integer of at most 2^53. */
static bool literal_is_exact_integer(const char *s, size_t n, double value)
{
    const uint64_t most = UINT64_C(1) << 53, large = UINT64_C(1) << 60;
    if (!(fabs(value) <= (double)most)) return false;
    size_t end = 0, point = SIZE_MAX, mantissa = 0;
    for (; end < n && (s[end] | 32) != 'e'; end++) {
        if (s[end] == '.') point = mantissa;
        mantissa += s[end] >= '0' && s[end] <= '9';
    }
    if (point == SIZE_MAX) point = mantissa;
    long exponent = end < n ? strtol(s + end + 1, NULL, 10) : 0; /* saturates; s is NUL-terminated */
    size_t up = exponent > 0 ? (size_t)exponent : 0, down = exponent < 0 ? (size_t)0 - (size_t)exponent : 0;
    uint64_t integer = 0;
    size_t index = 0; /* of the digit: it weighs 10^(point + exponent - 1 - index) */
    for (size_t i = 0; i < end; i++) {
        if (s[i] < '0' || s[i] > '9') continue;
        bool whole = index < point ? point - index > down : index - point < up;
        if (!whole && s[i] != '0') return false;
        if (whole && integer <= large) integer = integer * 10 + (uint64_t)(s[i] - '0');
        index++;
    }
    for (size_t zeros = up > mantissa - point ? up - (mantissa - point) : 0;
         zeros && integer && integer <= large; zeros--)
        integer *= 10;
    return integer <= most;
}

static size_t digits(struct parser *p)
{
    size_t start = p->at;
    while (p->at < p->len && p->text[p->at] >= '0' && p->text[p->at] <= '9') p->at++;
    return p->at - start;
}

static int number(struct parser *p, cJSON *item)
{
    size_t start = p->at;
    p->at += p->text[p->at] == '-';
    size_t lead = p->at;
    if (!digits(p)) return unexpected(p, p->at, "a digit");
    if (p->text[lead] == '0' && p->at - lead > 1) return fail_at(p, lead, "a number has a leading zero");
    if (p->at < p->len && p->text[p->at] == '.') {
        p->at++;
        if (!digits(p)) return unexpected(p, p->at, "a digit after the decimal point");
    }
    if (p->at < p->len && (p->text[p->at] | 32) == 'e') {
        p->at++;
        if (p->at < p->len && (p->text[p->at] == '+' || p->text[p->at] == '-')) p->at++;
        if (!digits(p)) return unexpected(p, p->at, "a digit in the exponent");
    }
    size_t n = p->at - start;
    char small[64], *copy = n < sizeof small ? small : malloc(n + 1);
    if (!copy) return no_memory(p);
    memcpy(copy, p->text + start, n);
    copy[n] = 0;
    double v = strtod(copy, NULL);
    bool exact = literal_is_exact_integer(copy, n, v);
    if (copy != small) free(copy);
    if (!isfinite(v)) return fail_at(p, start, "a number is too large for a double");
    item->type = cJSON_Number | (exact ? IQ__JSON_EXACT : 0);
    item->valuedouble = v;
    item->valueint = v >= INT32_MAX ? INT32_MAX : v <= INT32_MIN ? INT32_MIN : (int)v;
    return IQ_OK;
}

static int by_digest(const void *a, const void *b)
{
    const struct key_mark *x = a, *y = b;
    if (x->digest.hi != y->digest.hi) return x->digest.hi < y->digest.hi ? -1 : 1;
    if (x->digest.lo != y->digest.lo) return x->digest.lo < y->digest.lo ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Sorting keeps a vocabulary of 150,000 keys cheap; digests of 128 bits make a false alarm only by forgery. */
static int close_object(struct parser *p)
{
    size_t first = p->first_key[p->depth - 1], n = p->n_keys - first, at = SIZE_MAX;
    if (n > 1) qsort(p->keys + first, n, sizeof *p->keys, by_digest);
    for (size_t i = first + 1; i < p->n_keys; i++)
        if (iq_digest_equal(p->keys[i - 1].digest, p->keys[i].digest) && p->keys[i].at < at)
            at = p->keys[i].at;
    p->n_keys = first;
    if (at == SIZE_MAX) return IQ_OK;
    char what[160];
    size_t shown = 0, room = p->len - at;
    while (shown < room && shown < 100 && (shown == 0 || p->text[at + shown] != '"')) shown++;
    snprintf(what, sizeof what, "the key %.*s\" stands twice in one object, expected each key once",
             (int)shown, p->text + at);
    return fail_at(p, at, what);
}

static int object_key(struct parser *p)
{
    skip_space(p);
    size_t at = p->at, n = 0;
    if (at >= p->len || p->text[at] != '"') return unexpected(p, at, "a key in quotes");
    IQ_TRY(string(p, &p->key, &n));
    if (iq_grow(&p->keys, &p->cap_keys, p->n_keys + 1, sizeof *p->keys, NULL)) return no_memory(p);
    p->keys[p->n_keys++] = (struct key_mark){iq_digest_bytes(p->key, n), at};
    skip_space(p);
    if (p->at >= p->len || p->text[p->at] != ':') return unexpected(p, p->at, "':' after a key");
    p->at++;
    return IQ_OK;
}

static int word(struct parser *p, cJSON *item)
{
    static const struct {
        const char *text;
        int type;
    } words[] = {{"true", cJSON_True}, {"false", cJSON_False}, {"null", cJSON_NULL}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i].text);
        if (p->len - p->at < n || memcmp(p->text + p->at, words[i].text, n)) continue;
        item->type = words[i].type;
        p->at += n;
        return IQ_OK;
    }
    return unexpected(p, p->at, "a JSON value");
}

/* Hangs an empty item into the tree first, so that a failure later frees it with the tree. */
static cJSON *attach(struct parser *p, cJSON **root)
{
    cJSON *item = cJSON_CreateNull();
    if (!item) return NULL;
    item->string = p->key;
    p->key = NULL;
    if (!p->depth) return *root = item;
    cJSON *parent = p->open[p->depth - 1], **last = &p->last[p->depth - 1];
    if (*last) {
        (*last)->next = item;
        item->prev = *last;
    } else {
        parent->child = item;
    }
    parent->child->prev = item; /* cJSON's habit: the first item points to the last */
    return *last = item;
}

/* Reads one value, or opens a container. */
static int value(struct parser *p, cJSON **root, bool *opened)
{
    *opened = false;
    skip_space(p);
    if (p->at >= p->len) return unexpected(p, p->at, "a JSON value");
    cJSON *item = attach(p, root);
    if (!item) return no_memory(p);
    char c = p->text[p->at];
    if (c == '{' || c == '[') {
        if (p->depth == MAX_DEPTH) return fail_at(p, p->at, "nested deeper than 64");
        item->type = c == '{' ? cJSON_Object : cJSON_Array;
        p->open[p->depth] = item;
        p->last[p->depth] = NULL;
        p->first_key[p->depth++] = p->n_keys;
        p->at++;
        *opened = true;
        return IQ_OK;
    }
    if (c == '"') {
        size_t n;
        IQ_TRY(string(p, &item->valuestring, &n));
        item->type = cJSON_String;
        return IQ_OK;
    }
    return c == '-' || (c >= '0' && c <= '9') ? number(p, item) : word(p, item);
}

static int document(struct parser *p, cJSON **root)
{
    bool opened;
    IQ_TRY(value(p, root, &opened));
    while (p->depth) {
        bool object = p->open[p->depth - 1]->type == cJSON_Object;
        char close = object ? '}' : ']';
        skip_space(p);
        char c = p->at < p->len ? p->text[p->at] : 0;
        if (c == close && c) {
            if (object) IQ_TRY(close_object(p));
            p->at++;
            p->depth--;
            opened = false;
            continue;
        }
        if (!opened && c != ',') return unexpected(p, p->at, object ? "',' or '}'" : "',' or ']'");
        if (!opened) p->at++;
        if (object) IQ_TRY(object_key(p));
        IQ_TRY(value(p, root, &opened));
    }
    skip_space(p);
    return p->at < p->len ? unexpected(p, p->at, "nothing after the JSON value") : IQ_OK;
}

int iq_json_parse(const char *text, size_t len, const char *name, cJSON **out, struct iq_err *err)
{
    *out = NULL;
    struct parser *p = calloc(1, sizeof *p);
    if (!p) return iq_fail(err, IQ_MEMORY, "%s: no memory to parse JSON", name);
    p->text = text;
    p->len = len;
    p->name = name;
    p->err = err;
    cJSON *root = NULL;
    int status = document(p, &root);
    if (status == IQ_OK)
        *out = root;
    else
        cJSON_Delete(root);
    cJSON_free(p->key);
    free(p->keys);
    free(p);
    return status;
}

int iq_json_load(const char *path, size_t max, cJSON **out, struct iq_err *err)
{
    *out = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC), status = IQ_OK;
    if (fd < 0) return iq_fail(err, IQ_IO, "%s: cannot be opened: %s", path, strerror(errno));
    struct iq_buf buf = IQ_BUF(max);
    char piece[1 << 14];
    for (ssize_t n; status == IQ_OK && (n = read(fd, piece, sizeof piece)) != 0;) {
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) status = iq_fail(err, IQ_IO, "%s: read failed: %s", path, strerror(errno));
        if (n > 0 && iq_buf_put(&buf, piece, (size_t)n))
            status =
                iq_fail(err, IQ_LIMIT, "%s: found more than %zu bytes, the most that is read of such a file",
                        path, max);
    }
    close(fd);
    if (status == IQ_OK) status = iq_json_parse(buf.data ? buf.data : "", buf.len, path, out, err);
    iq_buf_free(&buf);
    return status;
}

void iq_json_free(cJSON *tree) { cJSON_Delete(tree); }
