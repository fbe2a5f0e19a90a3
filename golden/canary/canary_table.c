/* Look-up tables: keys of two letters, unique in a row, with two digits each. */
#include "golden/canary/canary_parts.h"

#include <string.h>

enum { SECOND_LETTERS = 3, TRIES = 32 };

uint32_t iq__table_keys(uint32_t level, struct iq__draws *d)
{
    static const uint8_t lo[IQ_CANARY_LEVELS] = {2, 5, 9}, hi[IQ_CANARY_LEVELS] = {4, 8, 14};
    return iq__between(d, lo[level], hi[level]);
}

/* A key without a value: tries some, with a second letter from the first n of `second`, then takes the next free one. */
static uint32_t fresh_key(const uint8_t value[IQ__KEYS], const char *second, uint32_t n, struct iq__draws *d)
{
    for (int i = 0; i < TRIES; i++) {
        uint32_t first = iq__below(d, 26), key = first * 26 + (uint32_t)(second[iq__below(d, n)] - 'a');
        if (!value[key]) return key;
    }
    uint32_t key = iq__below(d, IQ__KEYS);
    while (value[key]) key = (key + 1) % IQ__KEYS;
    return key;
}

static void put_key(uint32_t key, struct iq__text *t)
{
    iq__put(t, (char)('a' + key / 26));
    iq__put(t, (char)('a' + key % 26));
}

static void put_value(uint32_t value, struct iq__text *t)
{
    iq__put(t, (char)('0' + value / 10));
    iq__put(t, (char)('0' + value % 10));
}

int iq__table_draw(struct iq__tables *all, uint32_t n, enum iq_canary_split split, struct iq__draws *d,
                   struct iq__text *out, struct iq_err *err)
{
    uint8_t value[IQ__KEYS];
    uint16_t key[IQ__TABLE_KEYS];
    if (n > IQ__TABLE_KEYS || all->n + n > IQ__KEYS)
        return iq_fail(err, IQ_INTERNAL, "canary: a table of %u keys, where a row has %u", n, all->n);
    for (int i = 0; i < IQ__DRAWS_MAX; i++) {
        char second[] = "abcdefghijklmnopqrstuvwxyz";
        /* 6 of 10 tables have few second letters: one letter must not be enough to find a key. */
        bool few = iq__below(d, 10) < 6;
        if (few) iq__sample(d, second, 26, SECOND_LETTERS);
        memcpy(value, all->value, sizeof value);
        out->n = 0;
        for (uint32_t k = 0; k < n; k++) {
            key[k] = (uint16_t)fresh_key(value, second, few ? SECOND_LETTERS : 26, d);
            uint32_t v = iq__below(d, 100);
            value[key[k]] = (uint8_t)(v + 1);
            iq__put(out, k ? ',' : 'K');
            put_key(key[k], out);
            put_value(v, out);
        }
        iq__put(out, ';');
        if (iq_canary_split_of(out->s, out->n) != split) continue;
        memcpy(all->value, value, sizeof value);
        for (uint32_t k = 0; k < n; k++) all->key[all->n++] = key[k];
        return IQ_OK;
    }
    return iq_fail(err, IQ_LIMIT, "canary: none of %d tables of %u keys is in split %d", IQ__DRAWS_MAX, n,
                   (int)split);
}

void iq__table_ask(const struct iq__tables *all, uint32_t key, struct iq__question *out)
{
    out->prompt.n = out->answer.n = 0;
    iq__put(&out->prompt, '?');
    put_key(key, &out->prompt);
    put_value(all->value[key] - 1u, &out->answer);
}
