/* Counts of guilt by op and by attributes of the position. */
#include "golden/compare_state.h"
#include "kernels/base/grow.h"

#include <stdlib.h>
#include <string.h>

enum { VALUES = 1 << 24 };

static size_t slot_find(const struct iq__attr *a, uint32_t value)
{
    size_t i = (size_t)((value * 0x9e3779b97f4a7c15u) >> 32) & (a->n_slots - 1);
    while (a->slot[i] && a->value[a->slot[i] - 1].value != value) i = (i + 1) & (a->n_slots - 1);
    return i;
}

static int slots_grow(struct iq__attr *a, struct iq_err *err)
{
    uint32_t *old = a->slot;
    size_t n = a->n_slots ? 2 * a->n_slots : 64;
    uint32_t *fresh = calloc(n, sizeof *fresh);
    if (!fresh) return iq_fail(err, IQ_MEMORY, "no memory to count differences");
    free(old);
    a->slot = fresh;
    a->n_slots = n;
    for (size_t i = 0; i < a->n; i++) a->slot[slot_find(a, a->value[i].value)] = (uint32_t)i + 1;
    return IQ_OK;
}

static int value_index(struct iq__attr *a, uint32_t value, uint32_t *out, struct iq_err *err)
{
    if (2 * (a->n + 1) > a->n_slots) IQ_TRY(slots_grow(a, err));
    size_t i = slot_find(a, value);
    if (!a->slot[i]) {
        if (a->n >= VALUES)
            return iq_fail(err, IQ_LIMIT, "more than %d values of one attribute of positions", VALUES);
        IQ_TRY(iq_grow(&a->value, &a->cap, a->n + 1, sizeof *a->value, err));
        a->value[a->n++] = (struct iq__value){.value = value};
        a->slot[i] = (uint32_t)a->n;
    }
    *out = a->slot[i] - 1;
    return IQ_OK;
}

int iq__stats_place(struct iq__stats *s, const struct iq_position *p, uint32_t n_prompt,
                    struct iq__place *out, struct iq_err *err)
{
    const uint32_t value[IQ_ATTRS] = {
        [IQ_ATTR_BATCH] = p->batch,     [IQ_ATTR_TOKENS] = p->tokens, [IQ_ATTR_PHASE] = p->pos >= n_prompt,
        [IQ_ATTR_ATTEMPT] = p->attempt, [IQ_ATTR_POS] = p->pos,       [IQ_ATTR_PROMPT] = n_prompt,
        [IQ_ATTR_STEP] = p->step};
    for (int i = 0; i < IQ_ATTRS; i++) IQ_TRY(value_index(&s->attr[i], value[i], &out->at[i], err));
    struct iq__value *step = &s->attr[IQ_ATTR_STEP].value[out->at[IQ_ATTR_STEP]];
    step->batch = p->batch;
    step->tokens = p->tokens;
    return IQ_OK;
}

void iq__stats_clean(struct iq__stats *s, const struct iq__place *p, bool reused, bool predicts)
{
    for (int i = 0; i < IQ_ATTRS; i++) {
        struct iq__value *v = &s->attr[i].value[p->at[i]];
        v->reused += reused;
        v->clean[predicts] += !reused;
    }
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

static int count_add(struct iq__op *o, int attr, uint32_t at, const struct iq__count *more,
                     struct iq_err *err)
{
    IQ_TRY(iq_grow(&o->count[attr], &o->cap[attr], (size_t)at + 1, sizeof *o->count[attr], err));
    struct iq__count *c = &o->count[attr][at];
    c->evaluated += more->evaluated;
    c->guilty += more->guilty;
    c->positions += more->positions;
    c->struck += more->struck;
    return IQ_OK;
}

int iq__stats_add(struct iq__stats *s, uint32_t op, const struct iq__place *p, bool guilty,
                  struct iq_err *err)
{
    struct iq__op *o = &s->op[op];
    const struct iq__count more = {1, guilty, o->seen != s->position,
                                   guilty && o->last_position != s->position};
    o->seen = s->position;
    if (guilty) o->last_position = s->position;
    o->total += guilty;
    for (int i = 0; i < IQ_ATTRS; i++) IQ_TRY(count_add(o, i, p->at[i], &more, err));
    return IQ_OK;
}

int iq__stats_layer(struct iq__stats *s, uint32_t op, uint16_t layer, bool guilty, struct iq_err *err)
{
    struct iq__op *o = &s->op[op];
    IQ_TRY(iq_grow(&o->beside, &o->cap_beside, (size_t)layer + 1, sizeof *o->beside, err));
    o->beside[layer].evaluated++;
    o->beside[layer].guilty += guilty;
    return IQ_OK;
}

int iq__stats_spread(struct iq__stats *s, uint32_t prefix, struct iq_err *err)
{
    for (size_t k = 0; k < s->n_ops; k++) {
        struct iq__op *o = &s->op[k];
        for (int a = 0; o->total && a < IQ_ATTRS; a++)
            for (size_t t = 0; t < s->attr[a].n; t++) {
                const struct iq__value *v = &s->attr[a].value[t];
                uint64_t all = v->clean[0] + v->clean[1];
                struct iq__count more = {.evaluated = all * o->cells[0] + v->clean[1] * o->cells[1],
                                         .positions = o->cells[0]   ? all
                                                      : o->cells[1] ? v->clean[1]
                                                                    : 0};
                if (k == prefix) more.evaluated = more.positions = v->reused;
                if (more.evaluated) IQ_TRY(count_add(o, a, (uint32_t)t, &more, err));
            }
    }
    return IQ_OK;
}

void iq__stats_free(struct iq__stats *s)
{
    for (size_t i = 0; i < s->n_ops; i++) {
        for (int a = 0; a < IQ_ATTRS; a++) free(s->op[i].count[a]);
        free(s->op[i].layer);
        free(s->op[i].beside);
    }
    free(s->op);
    for (int a = 0; a < IQ_ATTRS; a++) {
        free(s->attr[a].value);
        free(s->attr[a].slot);
    }
}
