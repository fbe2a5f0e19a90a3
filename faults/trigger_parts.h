/* What trigger*.c share, and what fault_parse.c shares with them. */
#ifndef IQ_TRIGGER_PARTS_H
#define IQ_TRIGGER_PARTS_H

#include "faults/trigger.h"

#include <string.h>

enum iq__form { IQ__SET, IQ__RANGE, IQ__MOD };

struct iq__test {
    const struct iq_trigger_field *field; /* NULL: arg `arg` of the trigger's kind, an integer */
    unsigned arg;
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

static inline enum iq_trigger_type iq__test_type(const struct iq__test *t)
{
    return t->field ? t->field->type : IQ_TRIGGER_INTEGER;
}
static inline enum iq_trigger_level iq__test_level(const struct iq__test *t)
{
    return t->field ? t->field->level : IQ_TRIGGER_ARGS;
}

#endif
