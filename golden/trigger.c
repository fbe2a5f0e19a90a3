/* The search for a trigger: which values of which attribute hold all guilty positions of an op.
 *
 * Every attribute is a candidate. Its predicate is the set of values that have a guilty position, or, for attributes
 * that run on (position, prompt length, step), the range from the least to the greatest; none is guilty outside. The
 * candidates are weighed by description length in bits: which of the inside's positions are guilty (0 when all are),
 * and which predicate of its form it is. So one that leaves innocent positions inside loses to a clean one, and of two
 * clean ones the simpler wins. Positions are counted, not cells: the cells of one position share their fate. */
#include "golden/compare_state.h"
#include "kernels/base/grow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SET_MAX = 64 };
static const double NEAR = 0.2;         /* more chance than this is not worth a word */
static const double RANGE_SPARES = 0.5; /* a range says something when it leaves out half of the innocent */

static bool runs_on(enum iq_attr a) { return a == IQ_ATTR_POS || a == IQ_ATTR_PROMPT || a == IQ_ATTR_STEP; }

static int by_value(const void *a, const void *b)
{
    uint32_t x = ((const struct iq_bucket *)a)->value, y = ((const struct iq_bucket *)b)->value;
    return (x > y) - (x < y);
}

/* Counts of one op by one attribute, ascending. */
static int buckets_make(const struct iq__attr *a, const struct iq__op *o, struct iq_trigger *t,
                        struct iq_err *err)
{
    const struct iq__count *count = o->count[t->attr];
    size_t live = a->n < o->cap[t->attr] ? a->n : o->cap[t->attr];
    if (!(t->bucket = calloc(live ? live : 1, sizeof *t->bucket)))
        return iq_fail(err, IQ_MEMORY, "no memory for a trigger");
    for (size_t i = 0; i < live; i++)
        if (count[i].evaluated)
            t->bucket[t->n_buckets++] = (struct iq_bucket){.value = a->value[i].value,
                                                           .evaluated = count[i].evaluated,
                                                           .guilty = count[i].guilty,
                                                           .positions = count[i].positions,
                                                           .struck = count[i].struck};
    qsort(t->bucket, t->n_buckets, sizeof *t->bucket, by_value);
    return IQ_OK;
}

/* Bits to say which k of n, by their number. */
static double choose_bits(double n, double k)
{
    return (lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)) / log(2);
}

struct sides {
    double in, all, struck;              /* positions */
    double cells_in, guilty;             /* cells */
    size_t set, lowest, highest, values; /* values in; index of the first and the last; in all */
};

static struct sides split(struct iq_trigger *t, bool range)
{
    struct sides s = {.values = t->n_buckets, .lowest = t->n_buckets};
    for (size_t i = 0; i < t->n_buckets; i++) {
        if (!t->bucket[i].guilty) continue;
        if (s.lowest == t->n_buckets) s.lowest = i;
        s.highest = i;
    }
    for (size_t i = 0; i < t->n_buckets; i++) {
        struct iq_bucket *b = &t->bucket[i];
        b->in = range ? i >= s.lowest && i <= s.highest : b->guilty > 0;
        s.all += (double)b->positions;
        s.struck += (double)b->struck;
        s.guilty += (double)b->guilty;
        if (!b->in) continue;
        s.set++;
        s.in += (double)b->positions;
        s.cells_in += (double)b->evaluated;
    }
    return s;
}

/* Bits to say which of all predicates of this form it is: any set of values, or a range of them. */
static double form_bits(const struct sides *s, bool range)
{
    bool whole = s->set == s->highest - s->lowest + 1; /* no value is missing between */
    double n = (double)s->values, range_bits = log2(n * (n + 1) / 2);
    double set_bits = choose_bits(n, (double)s->set);
    return range || (whole && range_bits < set_bits) ? range_bits : set_bits;
}

static bool in_set(const struct iq_trigger *t, uint32_t value)
{
    const struct iq_bucket key = {.value = value}, *b;
    b = bsearch(&key, t->bucket, t->n_buckets, sizeof key, by_value);
    return b && b->in;
}

/* The rows of a step may share their fate: what is the same for a whole step is weighed by steps. */
static void steps_count(const struct iq__stats *s, const struct iq__op *o, const struct iq_trigger *t,
                        struct sides *out)
{
    const struct iq__attr *steps = &s->attr[IQ_ATTR_STEP];
    out->in = out->all = out->struck = 0;
    for (size_t i = 0; i < steps->n && i < o->cap[IQ_ATTR_STEP]; i++) {
        const struct iq__value *v = &steps->value[i];
        const struct iq__count *c = &o->count[IQ_ATTR_STEP][i];
        uint32_t value = t->attr == IQ_ATTR_BATCH    ? v->batch
                         : t->attr == IQ_ATTR_TOKENS ? v->tokens
                                                     : v->value;
        if (!c->evaluated) continue;
        out->all++;
        out->struck += c->struck > 0;
        out->in += in_set(t, value);
    }
}

/* Makes `t` the candidate of its attribute; *bits: its description length. False: it says nothing. */
static bool candidate(const struct iq__stats *stats, const struct iq__op *o, struct iq_trigger *t,
                      double least, double *bits)
{
    bool range = runs_on(t->attr);
    struct sides s = split(t, range);
    if (!s.set || s.set == s.values || !(s.all > 0)) return false;
    double form = form_bits(&s, range);
    t->rate = s.cells_in > 0 ? s.guilty / s.cells_in : 0;
    t->hit = s.in > 0 ? s.struck / s.in : 0;
    *bits = choose_bits(s.in, s.struck) + form;
    t->range = s.set == s.highest - s.lowest + 1;
    if (range && s.all - s.in < RANGE_SPARES * (s.all - s.struck)) return false;
    if (t->attr == IQ_ATTR_BATCH || t->attr == IQ_ATTR_TOKENS || t->attr == IQ_ATTR_STEP)
        steps_count(stats, o, t, &s);
    /* Fisher: all that is guilty inside, among all ways to place it; times the predicates of this form. */
    t->chance = fmin(1, exp2(choose_bits(s.in, s.struck) - choose_bits(s.all, s.struck) + form));
    t->near = t->range || s.set <= SET_MAX;
    return t->near && t->chance < least;
}

/* Why none was found. */
static void reason_say(const struct iq__stats *s, struct iq_trigger *t)
{
    if (t->near) {
        snprintf(t->reason, sizeof t->reason,
                 "by chance alone some set of its kind fits in %.2g of all cases; record more steps",
                 t->chance);
        return;
    }
    const char *why = "neither batch, tokens, phase, attempt, position, prompt length nor step separates "
                      "guilty cells from clean ones";
    if (t->n_buckets < 2 && s->attr[IQ_ATTR_BATCH].n < 2)
        why = "only one batch size was seen; record the subject at others too";
    else if (t->n_buckets < 2)
        why = "the op's inputs were golden's at one batch size only, and nothing else separates guilty cells "
              "from clean ones";
    snprintf(t->reason, sizeof t->reason, "%s", why);
}

int iq__stats_trigger(const struct iq__stats *s, const struct iq__op *o, double chance,
                      struct iq_trigger *out, struct iq_err *err)
{
    double best = INFINITY;
    *out = (struct iq_trigger){.found = false};
    for (int attr = 0; attr < IQ_ATTRS; attr++) {
        struct iq_trigger t = {.attr = (enum iq_attr)attr};
        double bits = INFINITY;
        int rc = buckets_make(&s->attr[attr], o, &t, err);
        if (rc) return rc;
        t.found = candidate(s, o, &t, chance, &bits);
        t.near &= t.found || t.chance <= NEAR;
        /* The buckets by batch are shown even when they tell nothing. */
        bool better = t.found ? !out->found || bits < best : !out->found && t.near && bits < best;
        if (better || attr == IQ_ATTR_BATCH) {
            struct iq_trigger worse = *out;
            best = t.near ? bits : INFINITY;
            *out = t;
            t = worse;
        }
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): each is out's or freed here; the analyzer loses the swap */
        free(t.bucket);
    }
    if (!out->found) reason_say(s, out);
    return IQ_OK;
}

/* Layers: at positions with a guilty cell, other layers of the op had golden's inputs too and gave golden's output. */
bool iq__stats_layers(const struct iq__op *o, uint64_t struck, double chance)
{
    double in = 0, all = 0, layers = 0, set = 0;
    for (size_t l = 0; l < o->cap_beside; l++) {
        const struct iq__beside *b = &o->beside[l];
        all += (double)b->evaluated;
        in += b->guilty ? (double)b->evaluated : 0;
        layers += b->evaluated > 0;
        set += b->guilty > 0;
    }
    if (!(set > 0) || set == layers) return false;
    return exp2((double)struck * log2(in / all) + choose_bits(layers, set)) < chance;
}
