/* Added tokens: cut out of the text before the model sees it, leftmost first, longest of those that start
 * together. */
#include "engine/text/tokenizer_parts.h"
#include "kernels/base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static int by_text(const void *a, const void *b)
{
    const struct iq__added *x = a, *y = b;
    size_t n = x->text.len < y->text.len ? x->text.len : y->text.len;
    int order = memcmp(x->text.data, y->text.data, n);
    if (order) return order;
    if (x->text.len != y->text.len) return x->text.len > y->text.len ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

void iq__added_sort(struct iq__added_set *set)
{
    if (set->n) qsort(set->token, set->n, sizeof *set->token, by_text);
    uint32_t i = 0;
    for (unsigned b = 0; b < 257; b++) {
        while (i < set->n && (unsigned char)set->token[i].text.data[0] < b) i++;
        set->first[b] = i;
    }
    set->first[256] = set->n;
}

/* The longest token that starts at s, or NULL: the range of tokens that share a prefix with s narrows byte by
 * byte. */
static const struct iq__added *longest(const struct iq__added_set *set, const char *s, size_t n)
{
    uint32_t lo = set->first[(unsigned char)s[0]], hi = set->first[(unsigned char)s[0] + 1];
    const struct iq__added *best = NULL;
    for (size_t depth = 1; lo < hi; depth++) {
        if (set->token[lo].text.len == depth) best = &set->token[lo];
        while (lo < hi && set->token[lo].text.len == depth) lo++; /* of equal ones the first */
        if (depth == n || lo == hi) break;
        unsigned char c = (unsigned char)s[depth];
        uint32_t a = lo, b = hi;
        while (a < b) { /* first token whose byte at depth is >= c */
            uint32_t mid = a + (b - a) / 2;
            if ((unsigned char)set->token[mid].text.data[depth] < c)
                a = mid + 1;
            else
                b = mid;
        }
        lo = a;
        b = hi;
        while (a < b) { /* first one whose byte is > c */
            uint32_t mid = a + (b - a) / 2;
            if ((unsigned char)set->token[mid].text.data[depth] <= c)
                a = mid + 1;
            else
                b = mid;
        }
        hi = a;
    }
    return best;
}

/* Rust's \w: letters, marks, decimal digits, connectors, letter numbers, joiners, and the letters in circles.
 */
static bool is_word(uint32_t c)
{
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        return c == 0x200c || c == 0x200d || (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
               (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
    }
}

/* The character that ends at `at` > floor; *len its length. */
static uint32_t before(const char *s, size_t at, size_t *len)
{
    size_t i = at - 1;
    while (i > 0 && ((unsigned char)s[i] & 0xc0) == 0x80) i--;
    uint32_t cp;
    iq_utf8_next(s + i, at - i, &cp);
    *len = at - i;
    return cp;
}

static bool stands_alone(struct iq_span text, size_t start, size_t stop)
{
    size_t len;
    uint32_t cp;
    if (start > 0 && is_word(before(text.data, start, &len))) return false;
    if (stop == text.len) return true;
    iq_utf8_next(text.data + stop, text.len - stop, &cp);
    return !is_word(cp);
}

int iq__added_split(const struct iq__added_set *set, bool parse_special, struct iq_span text, bool at_start,
                    iq__added_sink *sink, void *ctx, struct iq_err *err)
{
    size_t done = 0, pos = 0;
    while (set->n && pos < text.len) {
        const struct iq__added *hit = longest(set, text.data + pos, text.len - pos);
        if (!hit) {
            pos++;
            continue;
        }
        size_t start = pos, stop = pos + hit->text.len;
        pos = stop; /* a match that is not taken still hides others inside it, as in the field */
        if (hit->special && !parse_special) continue;
        if (hit->single_word && !stands_alone(text, start, stop)) continue;
        for (size_t len; hit->lstrip && start > done && iq__is_space(before(text.data, start, &len));)
            start -= len;
        while (hit->rstrip && stop < text.len) {
            uint32_t cp;
            size_t len = (size_t)iq_utf8_next(text.data + stop, text.len - stop, &cp);
            if (!iq__is_space(cp)) break;
            stop += len;
        }
        if (start > done)
            IQ_TRY(sink(ctx, (struct iq_span){text.data + done, start - done}, IQ_TOKEN_NONE,
                        at_start && done == 0, err));
        IQ_TRY(sink(ctx, (struct iq_span){text.data + start, stop - start}, hit->id, false, err));
        done = stop;
    }
    if (done >= text.len) return IQ_OK;
    return sink(ctx, (struct iq_span){text.data + done, text.len - done}, IQ_TOKEN_NONE,
                at_start && done == 0, err);
}
