/* Hash tables of the vocabulary and of the merges. */
#include "engine/text/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Power of two that keeps the table at most half full. */
static uint32_t table_size(size_t count)
{
    uint32_t size = 16;
    while (size < 2 * count && size < 1u << 31) size *= 2;
    return size;
}

int iq__vocab_init(struct iq__vocab *v, uint32_t ids, size_t text_cap, struct iq_err *err)
{
    uint32_t size = table_size(ids);
    *v = (struct iq__vocab){.n = ids, .text_cap = text_cap, .mask = size - 1};
    v->text = malloc(text_cap + 1);
    v->at = malloc(((size_t)ids + 1) * sizeof *v->at);
    v->len = calloc((size_t)ids + 1, sizeof *v->len);
    v->slot = calloc(size, sizeof *v->slot);
    v->hidden = calloc(size, sizeof *v->hidden);
    if (!v->text || !v->at || !v->len || !v->slot || !v->hidden)
        return iq_fail(err, IQ_MEMORY, "no memory for a vocabulary of %u tokens", ids);
    memset(v->at, 0xff, ((size_t)ids + 1) * sizeof *v->at);
    return IQ_OK;
}

static uint32_t *slot_of(const struct iq__vocab *v, uint32_t *table, const char *s, size_t len)
{
    for (uint32_t i = (uint32_t)XXH3_64bits(s, len) & v->mask;; i = (i + 1) & v->mask) {
        uint32_t held = table[i];
        if (!held) return &table[i];
        if (v->len[held - 1] == len && !memcmp(v->text + v->at[held - 1], s, len)) return &table[i];
    }
}

static int put(struct iq__vocab *v, uint32_t *table, uint32_t id, const char *s, size_t len, uint32_t *other)
{
    *other = id;
    if (id >= v->n || v->at[id] != UINT32_MAX || len > v->text_cap - v->text_len) return IQ_EXISTS;
    uint32_t *slot = slot_of(v, table, s, len);
    if (*slot) {
        *other = *slot - 1;
        return IQ_EXISTS;
    }
    if (len) memcpy(v->text + v->text_len, s, len);
    v->at[id] = (uint32_t)v->text_len;
    v->len[id] = (uint32_t)len;
    v->text_len += len;
    if (len) *slot = id + 1; /* an empty spelling is never looked up */
    return IQ_OK;
}

int iq__vocab_set(struct iq__vocab *v, uint32_t id, const char *s, size_t len, uint32_t *other)
{
    IQ_TRY(put(v, v->slot, id, s, len, other));
    if (len > v->max_len) v->max_len = (uint32_t)len;
    return IQ_OK;
}

int iq__vocab_set_hidden(struct iq__vocab *v, uint32_t id, const char *s, size_t len)
{
    uint32_t other;
    return put(v, v->hidden, id, s, len, &other);
}

uint32_t iq__vocab_find(const struct iq__vocab *v, const char *s, size_t len)
{
    /* The bound keeps a long run of one letter linear: no longer string is ever hashed. */
    if (len == 0 || len > v->max_len) return IQ_TOKEN_NONE;
    uint32_t held = *slot_of(v, v->slot, s, len);
    return held ? held - 1 : IQ_TOKEN_NONE;
}

uint32_t iq__vocab_find_any(const struct iq__vocab *v, const char *s, size_t len)
{
    uint32_t id = iq__vocab_find(v, s, len), held = len ? *slot_of(v, v->hidden, s, len) : 0;
    return id != IQ_TOKEN_NONE ? id : held ? held - 1 : IQ_TOKEN_NONE;
}

struct iq_span iq__vocab_span(const struct iq__vocab *v, uint32_t id)
{
    if (id >= v->n || v->at[id] == UINT32_MAX) return (struct iq_span){"", 0};
    return (struct iq_span){v->text + v->at[id], v->len[id]};
}

void iq__vocab_free(struct iq__vocab *v)
{
    free(v->text);
    free(v->at);
    free(v->len);
    free(v->slot);
    free(v->hidden);
    *v = (struct iq__vocab){0};
}

int iq__merges_init(struct iq__merges *m, size_t count, struct iq_err *err)
{
    uint32_t size = table_size(count);
    m->slot = malloc(size * sizeof *m->slot);
    if (!m->slot) return iq_fail(err, IQ_MEMORY, "no memory for %zu merges", count);
    for (uint32_t i = 0; i < size; i++) m->slot[i].left = IQ_TOKEN_NONE;
    m->mask = size - 1;
    return IQ_OK;
}

static struct iq__merge *merge_slot(const struct iq__merges *m, uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;
    for (uint32_t i = (uint32_t)(h >> 32) & m->mask;; i = (i + 1) & m->mask) {
        struct iq__merge *s = &m->slot[i];
        if (s->left == IQ_TOKEN_NONE || (s->left == left && s->right == right)) return s;
    }
}

void iq__merges_set(struct iq__merges *m, struct iq__merge merge, bool last_wins)
{
    struct iq__merge *s = merge_slot(m, merge.left, merge.right);
    if (s->left == IQ_TOKEN_NONE || last_wins) *s = merge;
}

const struct iq__merge *iq__merges_find(const struct iq__merges *m, uint32_t left, uint32_t right)
{
    if (left == IQ_TOKEN_NONE || right == IQ_TOKEN_NONE) return NULL;
    const struct iq__merge *s = merge_slot(m, left, right);
    return s->left == IQ_TOKEN_NONE ? NULL : s;
}
