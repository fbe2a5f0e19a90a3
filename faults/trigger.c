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
    size_t lo = 0, hi = t->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (t->set[mid] == v) return true;
        if (t->set[mid] < v)
            lo = mid + 1;
        else
            hi = mid;
    }
    return false;
}

static bool holds(const struct iq__test *t, bool present, uint64_t v)
{
    bool yes = false;
    if (present && t->form == IQ__SET) yes = in_set(t, v);
    if (present && t->form == IQ__MOD) yes = in_set(t, v % t->mod);
    if (present && t->form == IQ__RANGE) yes = (!t->has_lo || v >= t->lo) && (!t->has_hi || v <= t->hi);
    return yes != t->negate;
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
    for (size_t i = 0; i < t->n - t->rows; i++) {
        const struct iq__test *c = &t->test[i];
        uint64_t v = 0;
        bool present = true;
        if (c->field)
            present = c->field->get(site, 0, &v);
        else
            v = t->kind->field(args, c->arg);
        if (!holds(c, present, v)) return false;
    }
    return true;
}

bool iq_trigger_has_rows(const struct iq_when *t) { return t->rows != 0; }

bool iq_trigger_row(const struct iq_when *t, const struct iq_site *site, uint32_t r)
{
    for (size_t i = t->n - t->rows; i < t->n; i++) {
        uint64_t v = 0;
        bool present = t->test[i].field->get(site, r, &v);
        if (!holds(&t->test[i], present, v)) return false;
    }
    return true;
}
