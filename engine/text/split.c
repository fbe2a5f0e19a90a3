#define _GNU_SOURCE /* memmem */
/* Splitter steps over the pieces of a text. */
#include "engine/text/tokenizer_parts.h"
#include "kernels/base/grow.h"
#include "kernels/base/utf8.h"

#include <stdlib.h>
#include <string.h>

const char iq__pattern_gpt2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static int put_piece(struct iq__pieces *p, size_t at, size_t len, struct iq_err *err)
{
    if (!len) return IQ_OK;
    IQ_TRY(iq_grow(&p->piece, &p->cap, p->n + 1, sizeof *p->piece, err));
    p->piece[p->n++] = (struct iq__piece){(uint32_t)at, (uint32_t)len};
    return IQ_OK;
}

int iq__steps_add_split(struct iq__steps *steps, const char *pattern, enum iq__behavior behavior, bool invert,
                        struct iq_err *err)
{
    struct iq__step *st;
    IQ_TRY(iq__steps_add(steps, &st, err));
    st->split = iq__split_pattern;
    st->behavior = behavior;
    st->invert = invert;
    return iq__regex_new(pattern, strlen(pattern), "the built-in splitter", &st->regex, err);
}

/* Cuts one piece: takes alternating runs and matches, in order, and joins them as the behaviour says. */
struct cutter {
    const struct iq__step *st;
    struct iq__pieces *out;
    size_t base;    /* of the piece in the text */
    size_t at, end; /* the part that waits, empty if none */
    bool waits, previous_match;
};

static int flush(struct cutter *c, struct iq_err *err)
{
    bool waits = c->waits;
    c->waits = false;
    return waits ? put_piece(c->out, c->base + c->at, c->end - c->at, err) : IQ_OK;
}

static int cut(struct cutter *c, size_t at, size_t end, bool match, struct iq_err *err)
{
    match ^= c->st->invert;
    bool join = false, drop = false, before = c->previous_match;
    switch (c->st->behavior) {
    case IQ__ISOLATED:
        break;
    case IQ__REMOVED:
        drop = match;
        break;
    case IQ__WITH_PREVIOUS:
        join = match && !before;
        break;
    case IQ__CONTIGUOUS:
        join = match == before;
        break;
    /* Hugging Face walks backwards: a match joins what follows it unless that is a match too. Of a run of
     * matches only the last has such a follower. */
    case IQ__WITH_NEXT:
        join = before && !match;
        break;
    }
    c->previous_match = match;
    if (join && c->waits) {
        c->end = end;
        return IQ_OK;
    }
    IQ_TRY(flush(c, err));
    if (drop) return IQ_OK;
    c->at = at;
    c->end = end;
    c->waits = true;
    return IQ_OK;
}

static int next_literal(const struct iq__step *st, const char *s, size_t n, size_t from, size_t *b, size_t *e,
                        bool *found)
{
    const char *hit = st->find_len && from < n ? memmem(s + from, n - from, st->find, st->find_len) : NULL;
    *found = hit != NULL;
    if (hit) {
        *b = (size_t)(hit - s);
        *e = *b + st->find_len;
    }
    return IQ_OK;
}

static int cut_piece(const struct iq__step *st, struct iq__scratch *w, const char *s, size_t n, size_t base,
                     struct iq__pieces *out, struct iq_err *err)
{
    struct cutter c = {.st = st, .out = out, .base = base};
    size_t prev = 0, from = 0, last_end = SIZE_MAX, b = 0, e = 0;
    while (from <= n) {
        bool found;
        if (st->regex)
            IQ_TRY(iq__regex_next(st->regex, w, s, n, from, &b, &e, &found, err));
        else
            IQ_TRY(next_literal(st, s, n, from, &b, &e, &found));
        if (!found) break;
        if (b == e && e == last_end) { /* an empty match right behind the last one: step on a character */
            uint32_t cp;
            from += from < n ? (size_t)iq_utf8_next(s + from, n - from, &cp) : 1;
            continue;
        }
        if (b > prev) IQ_TRY(cut(&c, prev, b, false, err));
        IQ_TRY(cut(&c, b, e, true, err));
        prev = from = last_end = e;
    }
    if (prev < n) IQ_TRY(cut(&c, prev, n, false, err));
    return flush(&c, err);
}

int iq__split_pattern(const struct iq__step *st, struct iq__scratch *w, const struct iq__pieces *in,
                      struct iq__pieces *out, struct iq_err *err)
{
    for (size_t i = 0; i < in->n; i++)
        IQ_TRY(
            cut_piece(st, w, in->text.data + in->piece[i].at, in->piece[i].len, in->piece[i].at, out, err));
    return IQ_OK;
}

static void clear(struct iq__pieces *p, size_t limit)
{
    p->text.len = 0;
    p->text.failed = 0;
    p->text.max = limit;
    p->n = 0;
}

/* A rewriting step makes a new text, piece by piece. */
static int rewrite_pieces(const struct iq__step *st, struct iq__scratch *w, struct iq__pieces *in,
                          struct iq__pieces *out, bool first, struct iq_err *err)
{
    for (size_t i = 0; i < in->n; i++) {
        size_t at = out->text.len;
        IQ_TRY(st->rewrite(st, w, in->text.data + in->piece[i].at, in->piece[i].len,
                           first && in->piece[i].at == 0, &out->text, err));
        IQ_TRY(put_piece(out, at, out->text.len - at, err));
    }
    return IQ_OK;
}

int iq__split_run(const struct iq__steps *steps, struct iq__scratch *w, const char *text, size_t len,
                  bool first, struct iq_err *err)
{
    clear(&w->a, w->limit);
    iq_buf_put(&w->a.text, text, len);
    if (w->a.text.failed) return iq_fail(err, IQ_MEMORY, "no memory for a text of %zu bytes", len);
    IQ_TRY(put_piece(&w->a, 0, len, err));
    for (size_t i = 0; i < steps->n; i++) {
        const struct iq__step *st = &steps->step[i];
        clear(&w->b, w->limit);
        if (st->split) {
            IQ_TRY(st->split(st, w, &w->a, &w->b, err));
            struct iq_buf swap = w->b.text; /* the text itself is the same */
            w->b.text = w->a.text;
            w->a.text = swap;
        } else {
            IQ_TRY(rewrite_pieces(st, w, &w->a, &w->b, first, err));
        }
        struct iq__pieces swap = w->a;
        w->a = w->b;
        w->b = swap;
    }
    return IQ_OK;
}
