/* What can't be: a test against what its field can be, and fields against each other. */
#include "faults/domain.h"
#include "faults/trigger_parts.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- domains ---- */

struct iq_domain iq_domain_any(void) { return (struct iq_domain){.hi = UINT64_MAX, .none = true}; }
struct iq_domain iq_domain_nothing(void) { return (struct iq_domain){.lo = 1, .none = true}; }
struct iq_domain iq_domain_range(uint64_t lo, uint64_t hi) { return (struct iq_domain){.lo = lo, .hi = hi}; }
struct iq_domain iq_domain_set(const uint64_t *set, size_t n)
{
    if (!n) return iq_domain_nothing();
    return (struct iq_domain){.lo = set[0], .hi = set[n - 1], .set = set, .n = n};
}
uint64_t iq_domain_float(float f) { return iq__float_key(f); }

/* ---- one test ---- */

/* The first value of a remainder that is not below lo; UINT64_MAX: there is none. */
static uint64_t first_of(uint64_t rest, uint64_t mod, uint64_t lo)
{
    uint64_t up = (rest + mod - lo % mod) % mod;
    return lo > UINT64_MAX - up ? UINT64_MAX : lo + up;
}

/* Whether the form holds for a value in [lo, hi]. */
static bool some_in(const struct iq__test *t, uint64_t lo, uint64_t hi)
{
    if (lo > hi) return false;
    size_t at = iq__set_at(t, lo);
    switch (t->form) {
    case IQ__SET:
        return at < t->n && t->set[at] <= hi;
    case IQ__RANGE:
        return (!t->has_lo || hi >= t->lo) && (!t->has_hi || lo <= t->hi);
    case IQ__MOD:
        for (size_t i = 0; i < t->n; i++)
            if (first_of(t->set[i], t->mod, lo) <= hi) return true;
        return false;
    case IQ__CROSSES: /* what is crossed is above what was, and not above what is */
        at = iq__set_at(t, 1);
        return at < t->n && t->set[at] <= hi;
    }
    return true;
}

/* Whether it holds for every value in [lo, hi]. */
static bool all_in(const struct iq__test *t, uint64_t lo, uint64_t hi)
{
    enum { TRIED = 4096 };
    uint64_t more = hi - lo;
    if (t->form == IQ__CROSSES) return false; /* a step may leave a context where it is as it begins */
    if (t->form == IQ__RANGE) return (!t->has_lo || lo >= t->lo) && (!t->has_hi || hi <= t->hi);
    if (t->form == IQ__MOD && t->n == t->mod) return true;
    if (more >= TRIED) {
        size_t at = iq__set_at(t, lo);
        return t->form == IQ__SET && more < t->n - at && t->set[at + more] == hi;
    }
    for (uint64_t i = 0; i <= more; i++)
        if (!some_in(t, lo + i, lo + i)) return false;
    return true;
}

/* Whether the test can hold of what the field can be. */
static bool possible(const struct iq__test *t, const struct iq_domain *d)
{
    if (d->none && t->negate) return true;
    if (d->lo > d->hi) return false;
    for (size_t i = 0; i < d->n; i++)
        if (some_in(t, d->set[i], d->set[i]) != t->negate) return true;
    if (d->set) return false;
    return t->negate ? !all_in(t, d->lo, d->hi) : some_in(t, d->lo, d->hi);
}

/* ---- what is said ---- */

static void say_domain(const struct iq__test *t, const struct iq_domain *d, struct iq_buf *b)
{
    enum { SAID = 6 };
    if (d->lo > d->hi)
        iq_buf_printf(b, "it has no value there");
    else if (d->set) {
        iq_buf_printf(b, "it is ");
        for (size_t i = 0; i < d->n && i < SAID; i++) {
            if (i) iq_buf_printf(b, i + 1 == d->n ? " or " : ", ");
            iq__trigger_say_value(t, d->set[i], b);
        }
        if (d->n > SAID) iq_buf_printf(b, " or one of %zu more", d->n - SAID);
    } else {
        iq_buf_printf(b, d->hi == UINT64_MAX ? "it is at least " : "it is ");
        iq__trigger_say_value(t, d->lo, b);
        if (d->hi != d->lo && d->hi != UINT64_MAX) {
            iq_buf_printf(b, d->hi - d->lo == 1 && iq__test_type(t) == IQ_TRIGGER_INTEGER ? " or " : " to ");
            iq__trigger_say_value(t, d->hi, b);
        }
    }
    if (d->why[0]) iq_buf_printf(b, " (%s)", d->why);
}

static const char *name_of(const struct iq_when *w, const struct iq__test *t, char text[80])
{
    if (t->field) return t->field->name;
    snprintf(text, 80, "%s.%s", t->value ? "value" : "arg",
             t->value ? t->value->name : w->kind->fields[t->arg]);
    return text;
}

/* ---- fields against each other ---- */

/* Integers of a step and its rows: a <= b + c. */
static const struct relation {
    const char *a, *b;
    int c;
} relations[] = {
    {"batch", "captured", 0},   {"batch", "tokens", 0},        {"batch", "max_batch", 0},
    {"batch", "running", 0},    {"running", "concurrency", 0}, {"waiting", "concurrency", 0},
    {"finished", "started", 0}, {"padding", "captured", -1},   {"others", "batch", -1},
    {"batch", "others", 1},     {"share", "tokens", 0},        {"pos", "context", -1},
    {"context", "pos", 1},      {"context", "longest", 0},     {"shortest", "longest", 0},
    {"cached", "context", -1},  {"cached", "longest", 0},      {"kv_free", "kv_blocks", 0},
    {"row", "rows", -1},        {"generated", "context", -1},  {"splits", "context", 0},
    {"rows", "tokens", 0},
};
enum { RELATIONS = sizeof relations / sizeof *relations, FIELDS = 2 * RELATIONS };

struct bounds {
    const char *name[FIELDS];
    uint64_t lo[FIELDS], hi[FIELDS];
    size_t n;
};

static size_t bound_at(struct bounds *b, const char *name)
{
    for (size_t i = 0; i < b->n; i++)
        if (!strcmp(b->name[i], name)) return i;
    b->name[b->n] = name;
    b->lo[b->n] = 0;
    b->hi[b->n] = UINT64_MAX;
    return b->n++;
}

static uint64_t plus(uint64_t v, int c)
{
    if (c < 0) return v == UINT64_MAX ? v : v > (uint64_t)-c ? v - (uint64_t)-c : 0;
    return v > UINT64_MAX - (uint64_t)c ? UINT64_MAX : v + (uint64_t)c;
}

/* What a test alone leaves of a field's interval. */
static void narrow(const struct iq__test *t, uint64_t *lo, uint64_t *hi)
{
    uint64_t from = *lo, to = *hi;
    if (t->form == IQ__RANGE && !t->negate) {
        from = t->has_lo ? t->lo : from;
        to = t->has_hi ? t->hi : to;
    } else if (t->form == IQ__RANGE) {
        if (t->has_lo && !t->has_hi) to = t->lo ? t->lo - 1 : 0;
        if (t->has_hi && !t->has_lo) from = t->hi == UINT64_MAX ? t->hi : t->hi + 1;
    } else if (t->form == IQ__SET && !t->negate)
        from = t->set[0], to = t->set[t->n - 1];
    *lo = from > *lo ? from : *lo;
    *hi = to < *hi ? to : *hi;
}

static void say_bounds(const struct bounds *b, size_t i, struct iq_buf *out)
{
    iq_buf_printf(out, "%s ", b->name[i]);
    if (b->lo[i] == b->hi[i])
        iq_buf_printf(out, "is %" PRIu64, b->lo[i]);
    else if (b->hi[i] == UINT64_MAX)
        iq_buf_printf(out, "is at least %" PRIu64, b->lo[i]);
    else if (b->lo[i])
        iq_buf_printf(out, "is from %" PRIu64 " to %" PRIu64, b->lo[i], b->hi[i]);
    else
        iq_buf_printf(out, "is at most %" PRIu64, b->hi[i]);
}

/* Narrows both sides; true: nothing is left, and why. */
static bool apply(struct bounds *b, const struct relation *r, bool *changed, struct iq_buf *why)
{
    size_t x = bound_at(b, r->a), y = bound_at(b, r->b);
    uint64_t hi = plus(b->hi[y], r->c), lo = plus(b->lo[x], -r->c);
    if ((r->c < 0 && b->hi[y] < (uint64_t)-r->c) || b->lo[x] > hi) {
        say_bounds(b, x, why);
        iq_buf_printf(why, ", and where ");
        say_bounds(b, y, why);
        iq_buf_printf(why, " it can't be");
        return true;
    }
    if (hi < b->hi[x]) b->hi[x] = hi, *changed = true;
    if (lo > b->lo[y]) b->lo[y] = lo, *changed = true;
    return false;
}

static bool contradict(const struct iq_when *w, enum iq_op_id op, const struct iq_world *world,
                       struct iq_buf *why)
{
    struct bounds b = {.n = 0};
    for (size_t i = 0; i < RELATIONS; i++) bound_at(&b, relations[i].a), bound_at(&b, relations[i].b);
    for (size_t i = 0; i < b.n; i++) {
        struct iq_domain d = iq_domain_any();
        world->domain(world->self, op, b.name[i], &d);
        if (d.lo <= d.hi && !d.none) b.lo[i] = d.lo, b.hi[i] = d.hi;
        for (size_t t = 0; t < w->n; t++)
            if (w->test[t].field && !strcmp(w->test[t].field->name, b.name[i]))
                narrow(&w->test[t], &b.lo[i], &b.hi[i]);
    }
    for (size_t round = 0; round < RELATIONS; round++) {
        bool changed = false;
        for (size_t i = 0; i < RELATIONS; i++)
            if (apply(&b, &relations[i], &changed, why)) return true;
        if (!changed) break;
    }
    for (size_t i = 0; i < b.n; i++)
        for (size_t t = 0; t < w->n; t++) {
            const struct iq__test *c = &w->test[t];
            struct iq_domain left = iq_domain_range(b.lo[i], b.hi[i]);
            if (!c->field || strcmp(c->field->name, b.name[i]) || c->negate || possible(c, &left)) continue;
            iq__trigger_say_test(w, c, why);
            iq_buf_printf(why, ", but beside the other fields ");
            say_domain(c, &left, why);
            return true;
        }
    return false;
}

bool iq_trigger_never(const struct iq_when *w, enum iq_op_id op, const struct iq_world *world,
                      struct iq_buf *why)
{
    for (size_t i = 0; i < w->n; i++) {
        const struct iq__test *t = &w->test[i];
        struct iq_domain d = iq_domain_any();
        char text[80];
        world->domain(world->self, op, name_of(w, t, text), &d);
        if (possible(t, &d)) continue;
        iq__trigger_say_test(w, t, why);
        iq_buf_printf(why, ", but ");
        say_domain(t, &d, why);
        return true;
    }
    return world->forward(world->self, op) && contradict(w, op, world, why);
}

/* ---- covering ---- */

static bool same_field(const struct iq__test *a, const struct iq__test *b)
{
    return a->field == b->field && a->value == b->value && a->arg == b->arg;
}

static bool same_set(const struct iq__test *a, const struct iq__test *b)
{
    return a->n == b->n && (!a->n || !memcmp(a->set, b->set, a->n * sizeof *a->set));
}

/* Whether `wide` holds wherever `narrow`, of the same field, does. */
static bool test_covers(const struct iq__test *wide, const struct iq__test *narrow)
{
    bool alike = wide->form == narrow->form && wide->negate == narrow->negate;
    if (alike && wide->form == IQ__RANGE && !wide->negate)
        return (!wide->has_lo || (narrow->has_lo && narrow->lo >= wide->lo)) &&
               (!wide->has_hi || (narrow->has_hi && narrow->hi <= wide->hi));
    if (alike && wide->has_lo == narrow->has_lo && wide->has_hi == narrow->has_hi && wide->lo == narrow->lo &&
        wide->hi == narrow->hi && wide->mod == narrow->mod && same_set(wide, narrow))
        return true;
    if (narrow->form != IQ__SET || narrow->negate || wide->form == IQ__CROSSES) return false;
    for (size_t i = 0; i < narrow->n; i++)
        if (some_in(wide, narrow->set[i], narrow->set[i]) == wide->negate) return false;
    return true;
}

bool iq_trigger_covers(const struct iq_when *wide, const struct iq_when *narrow)
{
    for (size_t i = 0; i < wide->n; i++) {
        bool found = false;
        for (size_t j = 0; j < narrow->n && !found; j++)
            found =
                same_field(&wide->test[i], &narrow->test[j]) && test_covers(&wide->test[i], &narrow->test[j]);
        if (!found) return false;
    }
    return true;
}
