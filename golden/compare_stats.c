/* Counts of guilt by op and by attributes of the batch, and the trigger that they show. */
#include "golden/compare_state.h"
#include "kernels/base/grow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TUPLES = 1 << 20, SET_MAX = 64 };

static size_t slot_find(const struct iq__stats *s, const uint32_t value[IQ_ATTRS])
{
    uint64_t h = 0;
    for (int i = 0; i < IQ_ATTRS; i++) h = (h ^ value[i]) * 0x9e3779b97f4a7c15u;
    size_t i = (size_t)(h >> 32) & (s->n_slots - 1);
    while (s->slot[i] && memcmp(s->tuple[s->slot[i] - 1].value, value, IQ_ATTRS * sizeof *value))
        i = (i + 1) & (s->n_slots - 1);
    return i;
}

static int slots_grow(struct iq__stats *s, struct iq_err *err)
{
    uint32_t *old = s->slot;
    s->n_slots = s->n_slots ? 2 * s->n_slots : 64;
    if (!(s->slot = calloc(s->n_slots, sizeof *s->slot))) {
        s->slot = old;
        s->n_slots /= 2;
        return iq_fail(err, IQ_MEMORY, "no memory to count differences");
    }
    free(old);
    for (size_t t = 0; t < s->n_tuples; t++) s->slot[slot_find(s, s->tuple[t].value)] = (uint32_t)t + 1;
    return IQ_OK;
}

int iq__stats_tuple(struct iq__stats *s, const struct iq_position *p, bool decode, uint32_t *out,
                    struct iq_err *err)
{
    const uint32_t value[IQ_ATTRS] = {[IQ_ATTR_BATCH] = p->batch,
                                      [IQ_ATTR_TOKENS] = p->tokens,
                                      [IQ_ATTR_PHASE] = decode,
                                      [IQ_ATTR_ATTEMPT] = p->attempt};
    if (2 * (s->n_tuples + 1) > s->n_slots) IQ_TRY(slots_grow(s, err));
    size_t i = slot_find(s, value);
    if (!s->slot[i]) {
        if (s->n_tuples >= TUPLES)
            return iq_fail(err, IQ_LIMIT, "more than %d combinations of batch and tokens", TUPLES);
        IQ_TRY(iq_grow(&s->tuple, &s->cap_tuples, s->n_tuples + 1, sizeof *s->tuple, err));
        memcpy(s->tuple[s->n_tuples++].value, value, sizeof value);
        s->slot[i] = (uint32_t)s->n_tuples;
    }
    *out = s->slot[i] - 1;
    return IQ_OK;
}

int iq__stats_op(struct iq__stats *s, const char *op, const char *kind, uint32_t *out, struct iq_err *err)
{
    for (size_t i = 0; i < s->n_ops; i++)
        if (!strcmp(s->op[i].op, op)) return *out = (uint32_t)i, IQ_OK;
    IQ_TRY(iq_grow(&s->op, &s->cap_ops, s->n_ops + 1, sizeof *s->op, err));
    struct iq__op *o = &s->op[s->n_ops];
    memcpy(o->op, op, strnlen(op, sizeof o->op - 1));
    memcpy(o->kind, kind, strnlen(kind, sizeof o->kind - 1));
    *out = (uint32_t)s->n_ops++;
    return IQ_OK;
}

int iq__stats_add(struct iq__stats *s, uint32_t op, uint32_t tuple, uint64_t evaluated, uint64_t guilty,
                  struct iq_err *err)
{
    struct iq__op *o = &s->op[op];
    IQ_TRY(iq_grow(&o->count, &o->cap, (size_t)tuple + 1, sizeof *o->count, err));
    o->count[tuple].evaluated += evaluated;
    o->count[tuple].guilty += guilty;
    o->total += guilty;
    if (guilty && o->last_position != s->position) {
        o->last_position = s->position;
        o->count[tuple].positions++;
    }
    return IQ_OK;
}

int iq__stats_spread(struct iq__stats *s, uint32_t prefix, struct iq_err *err)
{
    for (size_t o = 0; o < s->n_ops; o++) {
        if (!s->op[o].total) continue;
        for (size_t t = 0; t < s->n_tuples; t++) {
            const struct iq__tuple *u = &s->tuple[t];
            uint64_t n = o == prefix ? u->reused
                                     : (u->clean[0] + u->clean[1]) * s->op[o].cells[0] +
                                           u->clean[1] * s->op[o].cells[1];
            if (n) IQ_TRY(iq__stats_add(s, (uint32_t)o, (uint32_t)t, n, 0, err));
        }
    }
    return IQ_OK;
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = ((const struct iq_bucket *)a)->value, y = ((const struct iq_bucket *)b)->value;
    return (x > y) - (x < y);
}

/* Counts of one op by one attribute, ascending; *positions: guilty ones. */
static int buckets_make(const struct iq__stats *s, const struct iq__op *o, enum iq_attr attr,
                        struct iq_trigger *t, uint64_t *positions, struct iq_err *err)
{
    size_t n = 0, live = s->n_tuples < o->cap ? s->n_tuples : o->cap;
    *positions = 0;
    if (!(t->bucket = calloc(live ? live : 1, sizeof *t->bucket)))
        return iq_fail(err, IQ_MEMORY, "no memory for a trigger");
    for (size_t i = 0; i < live; i++) {
        if (!o->count[i].evaluated) continue;
        t->bucket[n++] =
            (struct iq_bucket){s->tuple[i].value[attr], o->count[i].evaluated, o->count[i].guilty, false};
        *positions += o->count[i].positions;
    }
    qsort(t->bucket, n, sizeof *t->bucket, by_value);
    for (size_t i = 0; i < n; i++) {
        struct iq_bucket *last = t->n_buckets ? &t->bucket[t->n_buckets - 1] : NULL;
        if (last && last->value == t->bucket[i].value) {
            last->evaluated += t->bucket[i].evaluated;
            last->guilty += t->bucket[i].guilty;
        } else {
            t->bucket[t->n_buckets++] = t->bucket[i];
        }
    }
    return IQ_OK;
}

/* Does the set of values with guilty cells say anything: is there an outside, and is it no accident that it is clean? */
static bool separates(struct iq_trigger *t, uint64_t positions, double least)
{
    double in = 0, all = 0, guilty = 0;
    size_t set = 0;
    for (size_t i = 0; i < t->n_buckets; i++) {
        struct iq_bucket *b = &t->bucket[i];
        b->in = b->guilty > 0;
        set += b->in;
        all += (double)b->evaluated;
        in += b->in ? (double)b->evaluated : 0;
        guilty += (double)b->guilty;
    }
    t->rate = in > 0 ? guilty / in : 0;
    t->chance = all > 0 ? pow(in / all, (double)positions) : 1;
    return set < t->n_buckets && set <= SET_MAX && t->chance < least;
}

int iq__stats_trigger(const struct iq__stats *s, const struct iq__op *o, double chance,
                      struct iq_trigger *out, struct iq_err *err)
{
    uint64_t positions;
    *out = (struct iq_trigger){.found = false};
    for (int attr = 0; attr < IQ_ATTRS; attr++) {
        struct iq_trigger t = {.attr = (enum iq_attr)attr};
        int rc = buckets_make(s, o, t.attr, &t, &positions, err);
        t.found = !rc && separates(&t, positions, chance);
        if (rc || t.found) {
            free(out->bucket);
            *out = t;
            return rc;
        }
        if (attr == IQ_ATTR_BATCH)
            *out = t; /* shown even when it tells nothing */
        else
            free(t.bucket);
    }
    const char *why = out->n_buckets < 2
                          ? "only one batch size was seen; record the subject at others too"
                          : "neither batch, tokens, phase nor attempt separates guilty cells from clean ones";
    memcpy(out->reason, why, strlen(why));
    return IQ_OK;
}

void iq__stats_free(struct iq__stats *s)
{
    for (size_t i = 0; i < s->n_ops; i++) {
        free(s->op[i].count);
        free(s->op[i].layer);
    }
    free(s->op);
    free(s->tuple);
    free(s->slot);
}
