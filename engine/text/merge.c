/* The merge engine: BPE by ranked merges, and SentencePiece BPE by scores of the joined token. Both keep the
 * symbols in a linked list and the candidates in a heap ordered by (priority, position): O(n log n) for a
 * piece of n. */
#include "engine/text/tokenizer_parts.h"
#include "kernels/base/grow.h"
#include "kernels/base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NIL UINT32_MAX

static int symbol_put(struct iq__scratch *w, uint32_t id, size_t at, size_t len, struct iq_err *err)
{
    IQ_TRY(iq_grow(&w->symbol, &w->cap_symbols, w->n_symbols + 1, sizeof *w->symbol, err));
    uint32_t i = (uint32_t)w->n_symbols++;
    w->symbol[i] = (struct iq__symbol){id, (uint32_t)at, (uint32_t)len, i ? i - 1 : NIL, NIL};
    if (i) w->symbol[i - 1].next = i;
    return IQ_OK;
}

static int heap_push(struct iq__scratch *w, struct iq__candidate c, struct iq_err *err)
{
    IQ_TRY(iq_grow(&w->heap, &w->cap_heap, w->n_heap + 1, sizeof *w->heap, err));
    size_t i = w->n_heap++;
    for (; i && w->heap[(i - 1) / 2].key > c.key; i = (i - 1) / 2) w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = c;
    return IQ_OK;
}

static struct iq__candidate heap_pop(struct iq__scratch *w)
{
    struct iq__candidate top = w->heap[0], last = w->heap[--w->n_heap];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < w->n_heap; i = child) {
        if (child + 1 < w->n_heap && w->heap[child + 1].key < w->heap[child].key) child++;
        if (last.key <= w->heap[child].key) break;
        w->heap[i] = w->heap[child];
    }
    w->heap[i] = last;
    return top;
}

/* Larger scores first: the bits of a float in an order that integers share, reversed. */
static uint32_t score_priority(float score)
{
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    bits = bits >> 31 ? ~bits : bits | 0x80000000u;
    return ~bits;
}

/* Considers joining symbol `left` with its successor. */
static int consider(const struct iq_tokenizer *t, struct iq__scratch *w, const char *s, uint32_t left,
                    struct iq_err *err)
{
    if (left == NIL || w->symbol[left].next == NIL) return IQ_OK;
    const struct iq__symbol *a = &w->symbol[left], *b = &w->symbol[a->next];
    uint32_t priority, id;
    if (t->by_score) {
        id = iq__vocab_find(&t->vocab, s + a->at, (size_t)a->len + b->len);
        if (id == IQ_TOKEN_NONE) return IQ_OK;
        priority = score_priority(t->scores[id]);
    } else {
        const struct iq__merge *m = iq__merges_find(&t->merges, a->id, b->id);
        if (!m) return IQ_OK;
        priority = m->rank;
        id = m->id;
    }
    struct iq__candidate c = {(uint64_t)priority << 32 | left, left, a->len + b->len, id};
    return heap_push(w, c, err);
}

static int merge_all(const struct iq_tokenizer *t, struct iq__scratch *w, const char *s, struct iq_err *err)
{
    w->n_heap = 0;
    for (uint32_t i = 0; i + 1 < w->n_symbols; i++) IQ_TRY(consider(t, w, s, i, err));
    while (w->n_heap) {
        struct iq__candidate c = heap_pop(w);
        struct iq__symbol *a = &w->symbol[c.left];
        /* Stale when either half has been merged since: symbols only grow, so the joined length tells. */
        if (!a->len || a->next == NIL || a->len + w->symbol[a->next].len != c.len) continue;
        struct iq__symbol *b = &w->symbol[a->next];
        a->id = c.id;
        a->len = c.len;
        a->next = b->next;
        b->len = 0;
        if (a->next != NIL) w->symbol[a->next].prev = c.left;
        IQ_TRY(consider(t, w, s, a->prev, err));
        IQ_TRY(consider(t, w, s, c.left, err));
    }
    return IQ_OK;
}

/* The id of one character, with the word-inner prefix and the word-end suffix that the file may name. */
static uint32_t char_token(const struct iq_tokenizer *t, const char *s, size_t n, uint32_t cp, bool first,
                           bool last)
{
    bool prefix = t->prefix && !first, suffix = t->suffix && last;
    if (!prefix && !suffix) {
        if (cp < 512) return t->char_id[cp];
        return iq__vocab_find(&t->vocab, s, n);
    }
    char joined[512 + 4]; /* the loader bounds both affixes to 255 bytes */
    int len = snprintf(joined, sizeof joined, "%s%.*s%s", prefix ? t->prefix : "", (int)n, s,
                       suffix ? t->suffix : "");
    return iq__vocab_find(&t->vocab, joined, (size_t)len);
}

static int unknown_id(const struct iq_tokenizer *t, uint32_t *id, struct iq_err *err)
{
    *id = iq__vocab_find(&t->vocab, t->unk_spelling, strlen(t->unk_spelling));
    if (*id != IQ_TOKEN_NONE) return IQ_OK;
    return iq_fail(
        err, IQ_FORMAT,
        "%s: the text needs model.unk_token '%s', which the vocabulary lacks: add it, or remove it", t->name,
        t->unk_spelling);
}

/* All bytes of a character have tokens. */
static bool bytes_known(const struct iq_tokenizer *t, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (t->byte_id[(unsigned char)s[i]] == IQ_TOKEN_NONE) return false;
    return true;
}

/* Hugging Face's rule for characters without a token: their bytes if all have one; else unk, which is written
 * when the next known character comes (so it may follow byte tokens that stood behind it); else nothing. */
static int start_symbols(const struct iq_tokenizer *t, struct iq__scratch *w, const char *s, size_t n,
                         struct iq_err *err)
{
    uint32_t unk = IQ_TOKEN_NONE;
    size_t unk_at = 0, unk_len = 0;
    w->n_symbols = 0;
    for (size_t i = 0, len; i < n; i += len) {
        uint32_t cp;
        len = (size_t)iq_utf8_next(s + i, n - i, &cp);
        uint32_t id = char_token(t, s + i, len, cp, i == 0, i + len == n);
        if (id != IQ_TOKEN_NONE || t->keep_unknown) {
            if (unk_len) IQ_TRY(symbol_put(w, unk, unk_at, unk_len, err));
            unk_len = 0;
            IQ_TRY(symbol_put(w, id, i, len, err));
        } else if (t->byte_fallback && bytes_known(t, s + i, len)) {
            for (size_t k = 0; k < len; k++)
                IQ_TRY(symbol_put(w, t->byte_id[(unsigned char)s[i + k]], i + k, 1, err));
        } else if (t->unk_spelling) {
            if (unk_len && !t->fuse_unk) {
                IQ_TRY(symbol_put(w, unk, unk_at, unk_len, err));
                unk_len = 0;
            }
            if (!unk_len) {
                IQ_TRY(unknown_id(t, &unk, err));
                unk_at = i;
            }
            unk_len += len;
        }
    }
    return unk_len ? symbol_put(w, unk, unk_at, unk_len, err) : IQ_OK;
}

/* llama.cpp's rule for BPE symbols without a token: each byte of the mapped text that is itself a token. */
static int put_bytes_as_text(const struct iq_tokenizer *t, const char *s, size_t n, struct iq_ids *out,
                             struct iq_err *err)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t id = iq__vocab_find(&t->vocab, s + i, 1);
        if (id < t->n_ids) IQ_TRY(iq_ids_put(out, id, err));
    }
    return IQ_OK;
}

static int encode_by_score(const struct iq_tokenizer *t, struct iq__scratch *w, const char *s, size_t n,
                           struct iq_ids *out, struct iq_err *err)
{
    w->n_symbols = 0;
    for (size_t i = 0, len; i < n; i += len) {
        uint32_t cp;
        len = (size_t)iq_utf8_next(s + i, n - i, &cp);
        IQ_TRY(symbol_put(w, iq__vocab_find(&t->vocab, s + i, len), i, len, err));
    }
    IQ_TRY(merge_all(t, w, s, err));
    for (uint32_t i = 0; i != NIL; i = w->symbol[i].next) {
        const struct iq__symbol *a = &w->symbol[i];
        if (a->id != IQ_TOKEN_NONE) {
            IQ_TRY(iq_ids_put(out, a->id, err));
            continue;
        }
        for (uint32_t k = a->at; k < a->at + a->len; k++) {
            uint32_t id = t->byte_id[(unsigned char)s[k]];
            if (id == IQ_TOKEN_NONE) id = t->unk;
            if (id != IQ_TOKEN_NONE) IQ_TRY(iq_ids_put(out, id, err));
        }
    }
    return IQ_OK;
}

int iq__model_encode(const struct iq_tokenizer *t, struct iq__scratch *w, const char *s, size_t n,
                     struct iq_ids *out, struct iq_err *err)
{
    if (n == 0) return IQ_OK;
    if (t->by_score) return encode_by_score(t, w, s, n, out, err);
    if (t->ignore_merges) {
        uint32_t id = iq__vocab_find(&t->vocab, s, n);
        if (id < t->n_ids) return iq_ids_put(out, id, err);
    }
    IQ_TRY(start_symbols(t, w, s, n, err));
    if (!w->n_symbols) return IQ_OK;
    IQ_TRY(merge_all(t, w, s, err));
    for (uint32_t i = 0; i != NIL; i = w->symbol[i].next) {
        const struct iq__symbol *a = &w->symbol[i];
        if (a->id < t->n_ids)
            IQ_TRY(iq_ids_put(out, a->id, err));
        else
            IQ_TRY(put_bytes_as_text(t, s + a->at, a->len, out, err));
    }
    return IQ_OK;
}

void iq__scratch_free(struct iq__scratch *w)
{
    free(w->symbol);
    free(w->heap);
    free(w->a.piece);
    free(w->b.piece);
    iq_buf_free(&w->a.text);
    iq_buf_free(&w->b.text);
    iq_buf_free(&w->normal);
    iq_buf_free(&w->swap);
    pcre2_match_data_free(w->match);
    pcre2_match_context_free(w->context);
    if (w->stack) pcre2_jit_stack_free(w->stack);
}
