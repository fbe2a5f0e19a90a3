/* Triggers from JSON. */
#include "faults/trigger_parts.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define ARG_PREFIX   "arg."
#define VALUE_PREFIX "value."

/* ---- names ---- */

static unsigned kind_fields(const struct iq_kind *kind)
{
    unsigned n = 0;
    while (kind && kind->fields && kind->fields[n]) n++;
    return n;
}

static unsigned kind_values(const struct iq_kind *kind)
{
    unsigned n = 0;
    while (kind && kind->values && kind->values[n].name) n++;
    return n;
}

/* All names that may stand in `when` for this kind, in one allocation that the caller frees. */
static const char **known_names(const struct iq_kind *kind)
{
    const struct iq_trigger_field *f = iq_trigger_fields();
    size_t n = 0, bytes = 0, args = kind_fields(kind), values = kind_values(kind);
    while (f[n].name) n++;
    for (size_t i = 0; i < args; i++) bytes += sizeof ARG_PREFIX + strlen(kind->fields[i]);
    for (size_t i = 0; i < values; i++) bytes += sizeof VALUE_PREFIX + strlen(kind->values[i].name);
    const char **known = malloc((n + args + values + 1) * sizeof *known + bytes);
    if (!known) return NULL;
    char *text = (char *)(known + n + args + values + 1);
    for (size_t i = 0; i < n; i++) known[i] = f[i].name;
    for (size_t i = 0; i < args; i++) {
        known[n + i] = text;
        text += sprintf(text, ARG_PREFIX "%s", kind->fields[i]) + 1;
    }
    for (size_t i = 0; i < values; i++) {
        known[n + args + i] = text;
        text += sprintf(text, VALUE_PREFIX "%s", kind->values[i].name) + 1;
    }
    known[n + args + values] = NULL;
    return known;
}

/* Finds the field's place in canonical order: the table, then the kind's operands, its values. Known to exist. */
static size_t name_at(const char *const *known, const char *name)
{
    size_t i = 0;
    while (strcmp(known[i], name)) i++;
    return i;
}

/* ---- values ---- */

static int parse_word(const cJSON *item, const struct iq_trigger_field *f, const char *where, uint64_t *out,
                      struct iq_err *err)
{
    if (!cJSON_IsString(item)) return iq_fail(err, IQ_FORMAT, "%s: expected a word in quotes", where);
    for (*out = 0; f->words[*out]; ++*out)
        if (!strcmp(f->words[*out], item->valuestring)) return IQ_OK;
    return iq_not_among("word of this field", item->valuestring, f->words, where, IQ_FORMAT, err);
}

static int parse_float(const cJSON *item, const char *where, uint64_t *out, struct iq_err *err)
{
    if (!cJSON_IsNumber(item)) return iq_fail(err, IQ_FORMAT, "%s: expected a number", where);
    float f = (float)item->valuedouble;
    if (!isfinite(f))
        return iq_fail(err, IQ_FORMAT, "%s: found %.17g, expected a number in float32's range", where,
                       item->valuedouble);
    *out = iq__float_key(f);
    return IQ_OK;
}

static int parse_number(const cJSON *item, const char *where, uint64_t *out, struct iq_err *err)
{
    if (!cJSON_IsNumber(item)) return iq_fail(err, IQ_FORMAT, "%s: expected a number", where);
    *out = iq__number_key(item->valuedouble);
    return IQ_OK;
}

static int parse_integer(const cJSON *item, const char *where, uint64_t *out, struct iq_err *err)
{
    if (!cJSON_IsString(item)) return iq_json_item_u64(item, 0, UINT64_C(1) << 53, where, out, err);
    const char *s = item->valuestring;
    char *end = NULL;
    errno = 0;
    if (s[0] == '0' && s[1] == 'x' && strspn(s + 2, "0123456789abcdefABCDEF") == strlen(s + 2) && s[2])
        *out = strtoull(s, &end, 16);
    if (!end || *end || errno)
        return iq_fail(
            err, IQ_FORMAT,
            "%s: found \"%.40s\", expected an integer (above 2^53: 1 to 16 hex digits as \"0x...\")", where,
            s);
    return IQ_OK;
}

static int parse_value(const cJSON *item, const struct iq__test *t, const char *where, uint64_t *out,
                       struct iq_err *err)
{
    *out = 0;
    switch (iq__test_type(t)) {
    case IQ_TRIGGER_WORD:
        return parse_word(item, t->field, where, out, err);
    case IQ_TRIGGER_FLOAT:
        return parse_float(item, where, out, err);
    case IQ_TRIGGER_INTEGER:
        return parse_integer(item, where, out, err);
    case IQ_TRIGGER_NUMBER:
        return parse_number(item, where, out, err);
    case IQ_TRIGGER_BOOL:
        break;
    }
    if (!cJSON_IsBool(item)) return iq_fail(err, IQ_FORMAT, "%s: expected true or false", where);
    *out = cJSON_IsTrue(item);
    return IQ_OK;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* A value or a list of values. */
static int parse_set(const cJSON *item, struct iq__test *t, const char *where, struct iq_err *err)
{
    bool list = cJSON_IsArray(item);
    size_t n = list ? (size_t)cJSON_GetArraySize(item) : 1;
    if (!n) return iq_fail(err, IQ_FORMAT, "%s: an empty list holds for nothing, expected values", where);
    t->set = malloc(n * sizeof *t->set);
    if (!t->set) return iq_fail(err, IQ_MEMORY, "%s: no memory for %zu values", where, n);
    for (const cJSON *v = list ? item->child : item; v; v = list ? v->next : NULL)
        IQ_TRY(parse_value(v, t, where, &t->set[t->n++], err));
    qsort(t->set, n, sizeof *t->set, by_value);
    t->n = 1;
    for (size_t i = 1; i < n; i++)
        if (t->set[i] != t->set[t->n - 1]) t->set[t->n++] = t->set[i];
    return IQ_OK;
}

/* ---- forms ---- */

static const cJSON *key_of(const cJSON *obj, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(obj, key);
}

static int parse_range(const cJSON *item, struct iq__test *t, const char *where, struct iq_err *err)
{
    static const char *const known[] = {"min", "max", NULL};
    const cJSON *lo = key_of(item, "min"), *hi = key_of(item, "max");
    IQ_TRY(iq_json_known(item, known, where, err));
    if (iq__test_type(t) == IQ_TRIGGER_WORD || iq__test_type(t) == IQ_TRIGGER_BOOL)
        return iq_fail(err, IQ_FORMAT, "%s: min and max are for numbers; give a value or a list", where);
    t->form = IQ__RANGE;
    t->has_lo = lo != NULL;
    t->has_hi = hi != NULL;
    if (lo) IQ_TRY(parse_value(lo, t, where, &t->lo, err));
    if (hi) IQ_TRY(parse_value(hi, t, where, &t->hi, err));
    if (lo && hi && t->lo > t->hi)
        return iq_fail(err, IQ_FORMAT, "%s: min is above max, so nothing holds; swap them", where);
    return IQ_OK;
}

static int parse_mod(const cJSON *item, struct iq__test *t, const char *where, struct iq_err *err)
{
    static const char *const known[] = {"mod", "is", NULL};
    const cJSON *is = key_of(item, "is");
    IQ_TRY(iq_json_known(item, known, where, err));
    if (iq__test_type(t) != IQ_TRIGGER_INTEGER)
        return iq_fail(err, IQ_FORMAT, "%s: mod is for integer fields", where);
    IQ_TRY(iq_json_u64(item, "mod", 1, UINT64_C(1) << 53, where, &t->mod, err));
    if (!is) return iq_fail(err, IQ_FORMAT, "%s: `is` is missing: the remainder, or a list of them", where);
    t->form = IQ__MOD;
    IQ_TRY(parse_set(is, t, where, err));
    if (t->set[t->n - 1] >= t->mod)
        return iq_fail(err, IQ_FORMAT, "%s: remainder %llu can't occur mod %llu", where,
                       (unsigned long long)t->set[t->n - 1], (unsigned long long)t->mod);
    return IQ_OK;
}

static int parse_crosses(const cJSON *item, struct iq__test *t, const char *where, struct iq_err *err)
{
    static const char *const known[] = {"crosses", NULL};
    IQ_TRY(iq_json_known(item, known, where, err));
    if (!t->field || !t->field->span)
        return iq_fail(err, IQ_FORMAT, "%s: crosses is for `context`; elsewhere use min and max", where);
    t->form = IQ__CROSSES;
    return parse_set(key_of(item, "crosses"), t, where, err);
}

static int parse_test(const cJSON *item, struct iq__test *t, const char *where, struct iq_err *err)
{
    static const char *const keys[] = {"min", "max", "mod", "is", "crosses", "not", NULL};
    static const char *const only_not[] = {"not", NULL};
    for (const cJSON *inner; cJSON_IsObject(item) && (inner = key_of(item, "not")); item = inner) {
        IQ_TRY(iq_json_known(item, only_not, where, err));
        t->negate = !t->negate;
    }
    if (!cJSON_IsObject(item)) return parse_set(item, t, where, err);
    IQ_TRY(iq_json_known(item, keys, where, err));
    if (key_of(item, "mod") || key_of(item, "is")) return parse_mod(item, t, where, err);
    if (key_of(item, "crosses")) return parse_crosses(item, t, where, err);
    if (!item->child)
        return iq_fail(err, IQ_FORMAT, "%s: an empty object; expected min, max, mod with is, crosses, or not",
                       where);
    return parse_range(item, t, where, err);
}

/* ---- the whole ---- */

/* Calls first, rows last; in each, the vocabulary's order. */
static int by_place(const void *a, const void *b)
{
    const struct iq__test *x = a, *y = b;
    bool xr = iq__test_of_row(x), yr = iq__test_of_row(y);
    if (xr != yr) return xr - yr;
    if (x->field || y->field)
        return !y->field ? -1 : !x->field ? 1 : (x->field > y->field) - (x->field < y->field);
    if (x->value || y->value)
        return !y->value ? 1 : !x->value ? -1 : (x->value > y->value) - (x->value < y->value);
    return (x->arg > y->arg) - (x->arg < y->arg);
}

static int parse_fields(const cJSON *when, const char *where, const char *const *known, struct iq_when *t,
                        struct iq_err *err)
{
    const struct iq_trigger_field *fields = iq_trigger_fields();
    size_t table = 0, args = kind_fields(t->kind);
    while (fields[table].name) table++;
    for (const cJSON *item = when->child; item; item = item->next) {
        char full[320];
        size_t at = name_at(known, item->string);
        struct iq__test *test = &t->test[t->n++];
        if (at < table)
            test->field = &fields[at];
        else if (at < table + args)
            test->arg = (unsigned)(at - table);
        else
            test->value = &t->kind->values[at - table - args];
        t->rows += iq__test_of_row(test);
        snprintf(full, sizeof full, "%s: `%s`", where, item->string);
        IQ_TRY(parse_test(item, test, full, err));
    }
    qsort(t->test, t->n, sizeof *t->test, by_place);
    return IQ_OK;
}

int iq_trigger_parse(const cJSON *when, const char *where, const struct iq_kind *kind, struct iq_when **out,
                     struct iq_err *err)
{
    *out = NULL;
    bool empty = !when || cJSON_IsNull(when);
    const char **known = known_names(kind);
    int status = known ? IQ_OK : iq_fail(err, IQ_MEMORY, "%s: no memory", where);
    if (!status && !empty) status = iq_json_known(when, known, where, err);
    size_t n = status || empty ? 0 : (size_t)cJSON_GetArraySize(when);
    struct iq_when *t = status ? NULL : calloc(1, sizeof *t + n * sizeof *t->test);
    if (!status && !t) status = iq_fail(err, IQ_MEMORY, "%s: no memory for %zu fields", where, n);
    if (!status) {
        t->kind = kind;
        if (n) status = parse_fields(when, where, known, t, err);
    }
    free(known);
    if (status) {
        iq_trigger_free(t);
        return status;
    }
    *out = t;
    return IQ_OK;
}
