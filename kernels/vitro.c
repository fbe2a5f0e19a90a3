#include "kernels/vitro.h"

#include "kernels/base/rng.h"
#include "kernels/vitro_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 4096, SENTENCE = sizeof((struct iq_vitro_report *)NULL)->first };

/* One trial: the variant under test, its operands, what the reference said. */
struct trial {
    struct iq_exec *exec;
    const struct iq__vitro_kind *how;
    const struct iq_kind *kind;
    const struct iq_variant *variant, *reference;
    const void *params;
    void *state;
    struct iq__vitro data;
    struct iq_step step;
    struct iq_row *row;
    struct iq_site site;
    char *saved,
        *got; /* the reference's rows; one row that is looked at, and what its kind needs to make it */
    size_t row_bytes; /* of all points, one after the other */
    struct iq_vitro_report *report;
    bool failed; /* a failure is in report->first */
};

static const struct iq__vitro_kind *find(const char *kind)
{
    static const struct iq__vitro_kind *const tables[] = {iq__vitro_sums, iq__vitro_kv, iq__vitro_rows,
                                                          iq__vitro_sampling};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct iq__vitro_kind *k = tables[t]; k->kind; k++)
            if (!strcmp(k->kind, kind)) return k;
    return NULL;
}

/* ---- sentences ---- */

/* What element i of a row is called, and how its bits read. */
static void say_element(const struct trial *t, uint32_t i, const char *bits, char *out, size_t n)
{
    bool id = t->how->ids && i < t->data.shape.k;
    uint32_t u;
    float f;
    memcpy(&u, bits, sizeof u);
    memcpy(&f, bits, sizeof f);
    if (id)
        snprintf(out, n, "id %u", u);
    else
        snprintf(out, n, "%.9g", (double)f);
}

/* Where the sentence about a failure goes: the first one stays. */
static char *failure(struct trial *t, char *spare)
{
    char *into = t->failed ? spare : t->report->first;
    t->failed = true;
    return into;
}

static void say_difference(const struct trial *t, bool exact, uint32_t r, const char *want, const char *got,
                           char *out)
{
    uint32_t i = 0;
    char w[40], g[40];
    while (!memcmp(want + 4 * (size_t)i, got + 4 * (size_t)i, 4)) i++;
    say_element(t, i, want + 4 * (size_t)i, w, sizeof w);
    say_element(t, i, got + 4 * (size_t)i, g, sizeof g);
    snprintf(out, SENTENCE, "%s on %s data: row %u element %u: found %s, the reference has %s",
             t->variant->name, exact ? "exact" : "random", r, i, g, w);
}

/* ---- rows ---- */

static const char *row_get(const struct trial *t, uint32_t r)
{
    char *into = t->got;
    size_t n;
    for (unsigned p = 0; (n = t->kind->row_bytes(&t->data.args, p)) != 0; p++, into += n)
        memcpy(into, t->kind->get(&t->data.args, p, r, t->got + t->row_bytes), n);
    return t->got;
}

/* Outputs that a variant leaves out must not look right: every byte becomes 0xff (NaN; an id beyond any
 * vocabulary). */
static void poison(struct trial *t)
{
    memset(t->got, 0xff, t->row_bytes);
    for (uint32_t r = 0; r < t->data.shape.rows; r++)
        for (unsigned p = 0; t->kind->row_bytes(&t->data.args, p); p++)
            t->kind->put(&t->data.args, p, r, t->got);
}

/* ---- judges ---- */

/* A difference on exact data is a failure; on random data it is only worth telling while nothing else was
 * told. */
static void compare(struct trial *t, bool exact)
{
    struct iq_vitro_report *p = t->report;
    char spare[SENTENCE];
    for (uint32_t r = 0; r < t->data.shape.rows; r++) {
        const char *want = t->saved + r * t->row_bytes;
        const char *got = row_get(t, r);
        if (!memcmp(want, got, t->row_bytes)) continue;
        say_difference(t, exact, r, want, got, exact ? failure(t, spare) : p->identical ? p->first : spare);
        p->identical = false;
        if (exact) p->exact_equal = false;
        return;
    }
}

/* On odd data: whether an element is still what it was. Values that cancelled, and subnormals, may be nothing. */
static bool is_kept(const struct trial *t, uint32_t i, const char *want, const char *got)
{
    float a, b;
    if (t->how->ids && i < t->data.shape.k) return !memcmp(want, got, 4);
    memcpy(&a, want, sizeof a);
    memcpy(&b, got, sizeof b);
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    if (isinf(a) || isinf(b)) return a == b;
    return fabsf(a - b) <= 0x1p-10f * fmaxf(fabsf(a), fabsf(b)) + 0x1p-20f;
}

static void compare_odd(struct trial *t)
{
    struct iq_vitro_report *p = t->report;
    for (uint32_t r = 0; r < t->data.shape.rows; r++) {
        const char *want = t->saved + r * t->row_bytes, *got = row_get(t, r);
        for (uint32_t i = 0; 4 * (size_t)i < t->row_bytes; i++) {
            const char *w = want + 4 * (size_t)i, *g = got + 4 * (size_t)i;
            char was[40], is[40];
            if (!memcmp(w, g, 4)) continue;
            p->identical = false;
            if (is_kept(t, i, w, g) || !p->exact_equal) continue;
            p->exact_equal = false;
            say_element(t, i, w, was, sizeof was);
            say_element(t, i, g, is, sizeof is);
            snprintf(p->first, SENTENCE, "%s on odd data: row %u element %u: found %s, the reference has %s",
                     t->variant->name, r, i, is, was);
        }
    }
}

static void check_invariant(struct trial *t)
{
    char spare[SENTENCE];
    struct iq_err err = {0};
    if (!t->kind->check || t->kind->check(&t->data.args, &err) == IQ_OK) return;
    t->report->invariant_ok = false;
    snprintf(failure(t, spare), SENTENCE, "%.40s: %.350s", t->variant->name, err.text);
}

static void check_bound(struct trial *t)
{
    struct iq_vitro_report *p = t->report;
    char spare[SENTENCE];
    for (uint32_t r = 0; r < t->data.shape.rows; r++) {
        const float *y = (const float *)(const void *)row_get(t, r);
        for (uint32_t i = 0; i < t->data.shape.n; i++) {
            double want, bound = t->how->bound(&t->data, r, i, &want), error = fabs((double)y[i] - want);
            double share = error == 0          ? 0
                           : error <= INFINITY ? error / bound
                                               : INFINITY; /* NaN is the worst */
            if (share > p->worst) p->worst = share;
            if (share <= 1) continue;
            p->within_bound = false;
            snprintf(failure(t, spare), SENTENCE,
                     "%s on random data: row %u element %u: found %.9g, expected %.9g within %.3g in any "
                     "order of the sum",
                     t->variant->name, r, i, (double)y[i], want, bound);
        }
    }
}

/* ---- running ---- */

static int call(struct trial *t, bool exact, unsigned n)
{
    const void *args = &t->data.args;
    t->how->fill(&t->data, exact, n);
    if (t->data.shape.odd) iq__vitro_odd(&t->data);
    poison(t);
    IQ_TRY(t->reference->run(t->exec, &t->site, args, NULL, NULL));
    for (uint32_t r = 0; r < t->data.shape.rows; r++)
        memcpy(t->saved + r * t->row_bytes, row_get(t, r), t->row_bytes);
    poison(t);
    IQ_TRY(t->variant->run(t->exec, &t->site, args, t->params, t->state));
    if (t->data.shape.odd) return compare_odd(t), IQ_OK;
    compare(t, exact);
    check_invariant(t);
    if (!exact && t->how->bound) check_bound(t);
    return IQ_OK;
}

static void make_site(struct trial *t)
{
    uint32_t rows = t->data.shape.rows, tp = t->data.shape.ranks ? t->data.shape.ranks : 1;
    t->step = (struct iq_step){.batch = rows, .captured = rows, .tokens = rows, .tp = tp};
    for (uint32_t r = 0; r < rows; r++)
        t->row[r] = (struct iq_row){.request = r, .context = 1, .prompt = 1, .phase = IQ_DECODE, .cell = r};
    if (t->how->rows) t->how->rows(&t->data, t->row);
    t->site = (struct iq_site){.op = (uint16_t)t->how->op,
                               .layer = 0,
                               .prev_op = IQ_OP_NONE,
                               .next_op = IQ_OP_NONE,
                               .step = &t->step,
                               .row = t->row,
                               .rows = rows};
}

/* Parameters as the variant's table has them by default. */
static void *default_params(const struct iq_variant *v)
{
    char *p = calloc(1, v->params_size + 1);
    for (const struct iq_param *f = v->params; p && f && f->name; f++)
        memcpy(p + f->offset, &f->def, sizeof f->def);
    return p;
}

static int run(struct trial *t, struct iq_err *err)
{
    const struct iq_variant *v = t->variant;
    uint32_t rows = t->data.shape.rows;
    IQ_TRY(t->how->make(&t->data, err));
    t->how->fill(&t->data, true, 0); /* a matrix has its shape once it is packed */
    for (unsigned p = 0; t->kind->row_bytes(&t->data.args, p); p++)
        t->row_bytes += t->kind->row_bytes(&t->data.args, p);
    t->saved = malloc(rows * t->row_bytes);
    t->got = malloc(2 * t->row_bytes);
    t->row = calloc(rows, sizeof *t->row);
    t->state = calloc(1, v->state_size + 1);
    if (!t->saved || !t->got || !t->row || !t->state)
        return iq_fail(err, IQ_MEMORY, "in vitro: no memory for outputs");
    make_site(t);
    if ((v->supports && !v->supports(&t->site, &t->data.args)) || (v->usable && !v->usable()))
        return iq_fail(err, IQ_UNSUPPORTED,
                       "in vitro: variant %s of %s does not take this shape on this machine", v->name,
                       v->kind);
    for (int exact = 1; exact >= 0; exact--)
        for (unsigned n = 0; n < (exact ? t->how->exact_calls : t->how->random_calls); n++) {
            int status = call(t, exact, n);
            if (status)
                return iq_fail(err, status, "in vitro: variant %s of %s failed: %s", v->name, v->kind,
                               iq_status_text(status));
        }
    return IQ_OK;
}

int iq_vitro(struct iq_exec *x, const struct iq_variant *v, const void *params,
             const struct iq_vitro_shape *shape, uint64_t seed, struct iq_vitro_report *out,
             struct iq_err *err)
{
    struct iq_err mine;
    if (!err) err = &mine;
    *out = (struct iq_vitro_report){
        .identical = true, .exact_equal = true, .invariant_ok = true, .within_bound = true};
    struct trial t = {
        .exec = x, .variant = v, .report = out, .how = find(v->kind), .kind = iq_kind_find(v->kind)};
    if (!t.how || !t.kind)
        return iq_fail(err, IQ_UNSUPPORTED, "in vitro: kind %s has no test in vitro", v->kind);
    if (!strcmp(v->device, "cuda"))
        return iq_fail(err, IQ_UNSUPPORTED,
                       "in vitro: variant %s of %s runs on a device only; made-up operands are here", v->name,
                       v->kind);
    if (!shape->rows || shape->rows > ROWS_MAX)
        return iq_fail(err, IQ_SHAPE, "in vitro: %u rows, expected 1 to %d", shape->rows, ROWS_MAX);
    t.reference = iq_variant_find(v->kind, "reference");
    if (!t.reference) return iq_fail(err, IQ_NO_REFERENCE, "in vitro: kind %s has no reference", v->kind);
    void *made = params ? NULL : default_params(v);
    t.params = params ? params : made;
    t.data.shape = *shape;
    t.data.seed = iq_mix64(seed);
    int status = t.params ? run(&t, err) : iq_fail(err, IQ_MEMORY, "in vitro: no memory for parameters");
    for (unsigned i = 0; i < t.data.buffers; i++) free(t.data.buffer[i]);
    free(t.saved);
    free(t.got);
    free(t.row);
    free(t.state);
    free(made);
    return status;
}
