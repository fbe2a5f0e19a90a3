/* Look-up tables: keys of two letters, unique in a row, with two digits each. */
#include "golden/canary/canary_parts.h"

#include <string.h>

uint32_t iq__table_keys(uint32_t level, struct iq__draws *d)
{
    static const uint8_t lo[IQ_CANARY_LEVELS] = {2, 5, 9}, hi[IQ_CANARY_LEVELS] = {4, 8, 14};
    return iq__between(d, lo[level], hi[level]);
}

/* A key that ends in this letter and has no value: there is one while the row has fewer than 26 tables. */
static uint32_t fresh_key(const uint8_t value[IQ__KEYS], char last, struct iq__draws *d)
{
    uint32_t first = iq__below(d, 26), second = (uint32_t)(last - 'a');
    while (value[first * 26 + second]) first = (first + 1) % 26;
    return first * 26 + second;
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
    if (n > IQ__TABLE_KEYS || all->tables == IQ__TABLES)
        return iq_fail(err, IQ_INTERNAL, "canary: a table of %u keys, where a row has %u tables", n,
                       all->tables);
    for (int i = 0; i < IQ__DRAWS_MAX; i++) {
        /* Keys of a table differ in their last letters: a model finds one as it finds what to copy next. Where both letters
         * mattered, two of three trained models stayed at half of the answers. */
        char last[] = "abcdefghijklmnopqrstuvwxyz";
        iq__sample(d, last, 26, n);
        memcpy(value, all->value, sizeof value);
        out->n = 0;
        for (uint32_t k = 0; k < n; k++) {
            key[k] = (uint16_t)fresh_key(value, last[k], d);
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
        all->tables++;
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
