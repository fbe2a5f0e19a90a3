/* Inside the canary's questions. */
#ifndef IQ_GOLDEN_CANARY_PARTS_H
#define IQ_GOLDEN_CANARY_PARTS_H

#include "golden/canary/canary.h"
#include "kernels/base/rng.h"

/* ---- a stream of draws ---- */

enum iq__stream { IQ__STREAM_PROMPT, IQ__STREAM_ROW, IQ__STREAM_STEP, IQ__STREAM_ODD, IQ__STREAM_FRONT };
/* Philox keyed by the seed; its counter holds purpose, stream, task, level (high to low), block, and the index. */
struct iq__draws {
    uint64_t seed, place, index;
    uint32_t block, left;
    struct iq_philox words;
};
static inline struct iq__draws iq__draws(uint64_t seed, enum iq__stream stream, unsigned task, unsigned level,
                                         uint64_t index)
{
    uint64_t place =
        (uint64_t)IQ_DRAW_DATA << 56 | (uint64_t)stream << 48 | (uint64_t)task << 40 | (uint64_t)level << 32;
    return (struct iq__draws){.seed = seed, .place = place, .index = index};
}
static inline uint32_t iq__next(struct iq__draws *d)
{
    if (!d->left) {
        d->words = iq_philox(d->seed, d->place | d->block++, d->index);
        d->left = 4;
    }
    return d->words.v[4 - d->left--];
}
/* 0 to n - 1; uneven by less than n / 2^32. */
static inline uint32_t iq__below(struct iq__draws *d, uint32_t n)
{
    return (uint32_t)((uint64_t)iq__next(d) * n >> 32);
}
static inline uint32_t iq__between(struct iq__draws *d, uint32_t lo, uint32_t hi)
{
    return lo + iq__below(d, hi - lo + 1);
}
/* Moves k random ones of the n bytes to the front, in random order. */
static inline void iq__sample(struct iq__draws *d, char *bytes, uint32_t n, uint32_t k)
{
    for (uint32_t i = 0; i < k && i + 1 < n; i++) {
        uint32_t j = i + iq__below(d, n - i);
        char c = bytes[i];
        bytes[i] = bytes[j];
        bytes[j] = c;
    }
}

/* ---- texts ---- */

enum { IQ__KEYS = 26 * 26, IQ__TABLE_KEYS = 26, IQ__TABLES = 26, IQ__DRAWS_MAX = 4096 };
struct iq__text {
    uint32_t n;
    char s[5 * IQ__TABLE_KEYS + 4]; /* the longest table, which is longer than any prompt without one */
};
static inline void iq__put(struct iq__text *t, char c)
{
    if (t->n < sizeof t->s) t->s[t->n++] = c;
}
static inline void iq__puts(struct iq__text *t, const char *s)
{
    while (*s) iq__put(t, *s++);
}

struct iq__question {
    struct iq__text prompt, answer;
};
/* One draw of a task other than the look-ups, of any split. */
void iq__question_make(enum iq_canary_id, uint32_t level, struct iq__draws *, struct iq__question *out);
/* Draws until it is in the split. */
int iq__question_draw(enum iq_canary_id, uint32_t level, enum iq_canary_split, struct iq__draws *,
                      struct iq__question *out, struct iq_err *);

/* ---- tables ---- */

/* The tables of one row: its keys in the order in which they came, 26 * first letter + last. */
struct iq__tables {
    uint32_t tables, n;
    uint16_t key[IQ__KEYS];
    uint8_t value[IQ__KEYS]; /* by key: digits + 1, or 0 */
};
/* A further table of n keys: its text, and its keys at the end of the list. n: at most IQ__TABLE_KEYS. A row
 * has at most IQ__TABLES. */
int iq__table_draw(struct iq__tables *, uint32_t n, enum iq_canary_split, struct iq__draws *,
                   struct iq__text *out, struct iq_err *);
/* How many keys a look-up of this level has. */
uint32_t iq__table_keys(uint32_t level, struct iq__draws *);
/* The question for a key of the tables, and its answer. */
void iq__table_ask(const struct iq__tables *, uint32_t key, struct iq__question *out);

/* ---- rows ---- */

/* The ids of a far look-up's prompt in row->id, used of them, and its answer. */
int iq__far_draw(uint32_t level, enum iq_canary_split, struct iq__draws *, struct iq_canary_row *row,
                 struct iq__text *answer, struct iq_err *);

#endif
