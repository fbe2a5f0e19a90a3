/* Triggers at work: does this one hold at a site, for a row? */
#include "faults/trigger_parts.h"

#include <stdlib.h>

void iq_trigger_free(struct iq_when *t)
{
    if (!t) return;
    for (size_t i = 0; i < t->n; i++) free(t->test[i].set);
    free(t);
}

static bool in_set(const struct iq__test *t, uint64_t v)
{
    size_t at = iq__set_at(t, v);
    return at < t->n && t->set[at] == v;
}

static bool holds(const struct iq__test *t, bool present, uint64_t v)
{
    bool yes = false;
    if (present && t->form == IQ__SET) yes = in_set(t, v);
    if (present && t->form == IQ__MOD) yes = in_set(t, v % t->mod);
    if (present && t->form == IQ__RANGE) yes = (!t->has_lo || v >= t->lo) && (!t->has_hi || v <= t->hi);
    return yes != t->negate;
}

static bool crosses(const struct iq__test *t, const struct iq_site *site, uint32_t r)
{
    uint64_t before, after;
    t->field->span(site, r, &before, &after);
    size_t at = iq__set_at(t, before + 1);
    bool yes = at < t->n && t->set[at] <= after;
    return yes != t->negate;
}

static bool value_holds(const struct iq__test *t, const struct iq_site *site, const void *args, uint32_t r)
{
    double d = t->value->of(site, args, r);
    bool number = t->value->type == IQ_VALUE_NUMBER;
    return holds(t, d == d, d != d ? 0 : number ? iq__number_key(d) : (uint64_t)d);
}

bool iq__test_holds(const struct iq_when *t, const struct iq__test *c, const struct iq_site *site,
                    const void *args, uint32_t r)
{
    uint64_t v = 0;
    if (c->form == IQ__CROSSES) return crosses(c, site, r);
    if (c->value) return value_holds(c, site, args, r);
    if (!c->field) return holds(c, true, t->kind->field(args, c->arg));
    bool present = c->field->get(site, r, &v);
    return holds(c, present, v);
}

bool iq_trigger_may(const struct iq_when *t, enum iq_op_id op)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct iq__test *c = &t->test[i];
        if (c->field && !strcmp(c->field->name, "op") && !holds(c, true, op)) return false;
    }
    return true;
}

bool iq_trigger_call(const struct iq_when *t, const struct iq_site *site, const void *args)
{
    for (size_t i = 0; i < t->n - t->rows; i++)
        if (!iq__test_holds(t, &t->test[i], site, args, 0)) return false;
    return true;
}

bool iq_trigger_has_rows(const struct iq_when *t) { return t->rows != 0; }

bool iq_trigger_row(const struct iq_when *t, const struct iq_site *site, const void *args, uint32_t r)
{
    for (size_t i = t->n - t->rows; i < t->n; i++)
        if (!iq__test_holds(t, &t->test[i], site, args, r)) return false;
    return true;
}

const char *iq_trigger_reads(const struct iq_when *t)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->test[i].value && t->test[i].value->reads) return t->test[i].value->name;
    return NULL;
}
