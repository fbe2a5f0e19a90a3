/* What trigger*.c share, and what fault_parse.c shares with them. */
#ifndef IQ_TRIGGER_PARTS_H
#define IQ_TRIGGER_PARTS_H

#include "faults/trigger.h"

#include <string.h>

enum iq__form { IQ__SET, IQ__RANGE, IQ__MOD, IQ__CROSSES };

struct iq__test {
    const struct iq_trigger_field *field; /* NULL: one of the trigger's kind: */
    const struct iq_value *value;         /* what it can tell of its numbers; NULL: */
    unsigned arg;                         /* its field of this index, an integer */
    enum iq__form form;
    bool negate, has_lo, has_hi;
    uint64_t lo, hi, mod;
    uint64_t *set; /* (n), sorted, no repeats; owned */
    size_t n;
};

struct iq_when {
    const struct iq_kind *kind;
    size_t n, rows; /* tests; how many of them are of row level: they stand last */
    struct iq__test test[];
};

/* Float32 as an integer that orders alike; both zeros are one value. */
static inline uint64_t iq__float_key(float f)
{
    uint32_t u;
    if (f == 0) f = 0;
    memcpy(&u, &f, sizeof u);
    return u >> 31 ? ~u : u | 0x80000000u;
}

static inline float iq__key_float(uint64_t key)
{
    uint32_t u = key >> 31 ? (uint32_t)key & 0x7fffffffu : ~(uint32_t)key;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* The same for a double. */
static inline uint64_t iq__number_key(double d)
{
    uint64_t u;
    if (d == 0) d = 0;
    memcpy(&u, &d, sizeof u);
    return u >> 63 ? ~u : u | UINT64_C(1) << 63;
}

static inline double iq__key_number(uint64_t key)
{
    uint64_t u = key >> 63 ? key & ~(UINT64_C(1) << 63) : ~key;
    double d;
    memcpy(&d, &u, sizeof d);
    return d;
}

static inline enum iq_trigger_type iq__test_type(const struct iq__test *t)
{
    if (t->field) return t->field->type;
    if (!t->value || t->value->type == IQ_VALUE_COUNT) return IQ_TRIGGER_INTEGER;
    return t->value->type == IQ_VALUE_NUMBER ? IQ_TRIGGER_NUMBER : IQ_TRIGGER_BOOL;
}

/* Whether it is asked row by row; otherwise once a call. */
static inline bool iq__test_of_row(const struct iq__test *t)
{
    return t->field ? t->field->level == IQ_TRIGGER_ROW : t->value && !t->value->call;
}

/* The index of the first of the set that is not below v; n: all are. */
static inline size_t iq__set_at(const struct iq__test *t, uint64_t v)
{
    size_t lo = 0, hi = t->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (t->set[mid] < v)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Whether a test holds: for row r, or for the call where it is not of row level. */
bool iq__test_holds(const struct iq_when *, const struct iq__test *, const struct iq_site *, const void *args,
                    uint32_t r);
/* Words of trigger_text.c: a value as people write it; "batch is 3 or 7". */
void iq__trigger_say_value(const struct iq__test *, uint64_t, struct iq_buf *);
void iq__trigger_say_test(const struct iq_when *, const struct iq__test *, struct iq_buf *);

#endif
