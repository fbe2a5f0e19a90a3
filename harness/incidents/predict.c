#include "harness/incidents/predict.h"

#include "harness/plan/variants.h"
#include "kernels/op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what fields may hold ---- */

/* Words of one of golden's lists; NULL behind the last. */
typedef const char *word_fn(int i);

static const char *label_word(int i) { return i < IQ_LABELS ? iq_label_text(i) : NULL; }
static const char *numerics_word(int i) { return i <= IQ_NUMERICS_VIOLATES ? iq_numerics_text(i) : NULL; }
static const char *effect_word(int i) { return i <= IQ_EFFECT_UNDETERMINED ? iq_effect_text(i) : NULL; }
static const char *attr_word(int i) { return i < IQ_ATTRS ? iq_attr_text(i) : NULL; }
static const char *variant_word(int i)
{
    const struct iq_variant *v = iq_variant_at((size_t)i);
    return v ? v->name : NULL;
}
/* body: what golden calls the ops before the logits when it has no cells. */
static const char *op_word(int i)
{
    if (i >= (int)IQ_OPS)
        i += (int)(IQ_TRAIN_OPS_END - IQ_OPS); /* those of training are no ops of an answer */
    return i < (int)IQ_ALL_OPS ? iq_op_name((unsigned)i) : i == (int)IQ_ALL_OPS ? "body" : NULL;
}

static bool is_word(const char *s, word_fn *words)
{
    for (int i = 0; words(i); i++)
        if (!strcmp(words(i), s)) return true;
    return false;
}

static int read_word(const cJSON *item, const char *where, word_fn *words, struct iq_err *err)
{
    enum { LISTED = 512 };
    const char *known[LISTED + 1];
    int n = 0;
    if (!cJSON_IsString(item)) return iq_fail(err, IQ_FORMAT, "%s: expected a word in quotes", where);
    if (is_word(item->valuestring, words)) return IQ_OK;
    while (n < LISTED && words(n)) known[n] = words(n), n++;
    known[n] = NULL;
    return iq_not_among("word of this field", item->valuestring, known, where, IQ_FORMAT, err);
}

/* A word, or a list of words. */
static int read_words(const cJSON *v, const char *where, word_fn *words, struct iq_err *err)
{
    const cJSON *item;
    if (!cJSON_IsArray(v)) return read_word(v, where, words, err);
    cJSON_ArrayForEach(item, v) IQ_TRY(read_word(item, where, words, err));
    return IQ_OK;
}

static int read_labels(const cJSON *v, const char *where, struct iq_err *err)
{
    return read_words(v, where, label_word, err);
}
static int read_numerics(const cJSON *v, const char *where, struct iq_err *err)
{
    return read_words(v, where, numerics_word, err);
}
static int read_effects(const cJSON *v, const char *where, struct iq_err *err)
{
    return read_words(v, where, effect_word, err);
}
static int read_ops(const cJSON *v, const char *where, struct iq_err *err)
{
    return read_words(v, where, op_word, err);
}

static int read_variant(const cJSON *v, const char *where, struct iq_err *err)
{
    IQ_TRY(iq_variants_register(err));
    return read_word(v, where, variant_word, err);
}

static int read_bool(const cJSON *v, const char *where, struct iq_err *err)
{
    return cJSON_IsBool(v) ? IQ_OK : iq_fail(err, IQ_FORMAT, "%s: expected true or false", where);
}

static int read_trigger(const cJSON *v, const char *where, struct iq_err *err)
{
    const cJSON *values = v ? v->child : NULL, *item;
    uint64_t n;
    if (cJSON_IsNull(v)) return IQ_OK;
    if (!cJSON_IsObject(v) || !values || values->next || !cJSON_IsArray(values) || !values->child)
        return iq_fail(err, IQ_FORMAT, "%s: expected null, or one attribute with a list of its values",
                       where);
    cJSON name = {.type = cJSON_String, .valuestring = values->string};
    IQ_TRY(read_word(&name, where, attr_word, err));
    bool phase = !strcmp(values->string, iq_attr_text(IQ_ATTR_PHASE));
    cJSON_ArrayForEach(item, values)
    {
        if (phase && cJSON_IsString(item) &&
            (!strcmp(item->valuestring, "prefill") || !strcmp(item->valuestring, "decode")))
            continue;
        if (phase) return iq_fail(err, IQ_FORMAT, "%s: expected \"prefill\" or \"decode\"", where);
        IQ_TRY(iq_json_item_u64(item, 0, UINT32_MAX, where, &n, err));
    }
    return IQ_OK;
}

static int read_share(const cJSON *v, const char *where, struct iq_err *err)
{
    static const char *const known[] = {"min", "max", NULL};
    double lo = 0, hi = 1;
    IQ_TRY(iq_json_known(v, known, where, err));
    IQ_TRY(iq_json_f64_opt(v, "min", 0, 1, where, &lo, err));
    IQ_TRY(iq_json_f64_opt(v, "max", 0, 1, where, &hi, err));
    return v->child && lo <= hi
               ? IQ_OK
               : iq_fail(err, IQ_FORMAT, "%s: expected \"min\", \"max\" or both, min first", where);
}

/* ---- what a finding says of them ---- */

/* Writes what was found as JSON; returns whether it is what `v` says. */
typedef bool check_fn(const cJSON *v, const struct iq_finding *, struct iq_jw *);

static bool among(const cJSON *v, const char *word)
{
    const cJSON *item;
    if (cJSON_IsString(v)) return !strcmp(v->valuestring, word);
    cJSON_ArrayForEach(item, v) if (!strcmp(item->valuestring, word)) return true;
    return false;
}

static bool word_found(const cJSON *v, const char *word, struct iq_jw *w)
{
    iq_jw_str(w, word);
    return among(v, word);
}

static bool check_label(const cJSON *v, const struct iq_finding *f, struct iq_jw *w)
{
    return word_found(v, iq_label_text(f->label), w);
}
static bool check_numerics(const cJSON *v, const struct iq_finding *f, struct iq_jw *w)
{
    return word_found(v, iq_numerics_text(f->numerics), w);
}
static bool check_effect(const cJSON *v, const struct iq_finding *f, struct iq_jw *w)
{
    return word_found(v, iq_effect_text(f->effect), w);
}

static bool found_guilty(const struct iq_finding *f, const char *op)
{
    for (size_t i = 0; i < f->n_guilty; i++)
        if (!strcmp(f->guilty[i].op, op)) return true;
    return false;
}

static bool check_guilty_among(const cJSON *v, const struct iq_finding *f, struct iq_jw *w)
{
    bool held = f->n_guilty > 0;
    iq_jw_begin(w, '[');
    for (size_t i = 0; i < f->n_guilty; i++) {
        iq_jw_str(w, f->guilty[i].op);
        held &= among(v, f->guilty[i].op);
    }
    iq_jw_end(w, ']');
    return held;
}

static bool check_guilty(const cJSON *v, const struct iq_finding *f, struct iq_jw *w)
{
    const cJSON *item;
    bool held = check_guilty_among(v, f, w) || !f->n_guilty;
    if (cJSON_IsString(v)) return held && found_guilty(f, v->valuestring);
    cJSON_ArrayForEach(item, v) held &= found_guilty(f, item->valuestring);
    return held;
}

static bool check_variant(const cJSON *v, const struct iq_finding *f, struct iq_jw *w)
{
    return word_found(v, f->n_guilty ? f->guilty[0].variant : "", w);
}

void iq_predict_trigger(const struct iq_finding *f, struct iq_jw *w)
{
    const struct iq_trigger *t = f->n_guilty && f->guilty[0].trigger.found ? &f->guilty[0].trigger : NULL;
    if (!t) {
        iq_jw_null(w);
        return;
    }
    iq_jw_begin(w, '{');
    iq_jw_key(w, iq_attr_text(t->attr));
    iq_jw_begin(w, '[');
    for (size_t i = 0; i < t->n_buckets; i++) {
        if (!t->bucket[i].in) continue;
        const char *word = iq_attr_word(t->attr, t->bucket[i].value);
        if (word)
            iq_jw_str(w, word);
        else
            iq_jw_u64(w, t->bucket[i].value);
    }
    iq_jw_end(w, ']');
    iq_jw_end(w, '}');
}

static bool names_bucket(const cJSON *values, enum iq_attr attr, const struct iq_bucket *b)
{
    const char *word = iq_attr_word(attr, b->value);
    const cJSON *item;
    cJSON_ArrayForEach(item, values)
    {
        if (cJSON_IsString(item) ? word && !strcmp(item->valuestring, word) : item->valuedouble == b->value)
            return true;
    }
    return false;
}

static bool check_trigger(const cJSON *v, const struct iq_finding *f, struct iq_jw *w)
{
    const struct iq_trigger *t = f->n_guilty && f->guilty[0].trigger.found ? &f->guilty[0].trigger : NULL;
    const cJSON *values = v->child;
    size_t in = 0, named = 0;
    iq_predict_trigger(f, w);
    if (!t || !values) return !t && !values;
    for (size_t i = 0; i < t->n_buckets; i++) {
        if (!t->bucket[i].in) continue;
        in++;
        named += names_bucket(values, t->attr, &t->bucket[i]);
    }
    return !strcmp(values->string, iq_attr_text(t->attr)) && named == in &&
           in == (size_t)cJSON_GetArraySize(values);
}

static bool bool_found(const cJSON *v, bool found, struct iq_jw *w)
{
    iq_jw_bool(w, found);
    return cJSON_IsTrue(v) == found;
}

static bool check_hidden(const cJSON *v, const struct iq_finding *f, struct iq_jw *w)
{
    return bool_found(v, f->label == IQ_LABEL_IDENTICAL, w);
}
static bool check_fired(const cJSON *v, const struct iq_finding *f, struct iq_jw *w)
{
    return bool_found(v, f->fired > 0, w);
}
static bool check_struck(const cJSON *v, const struct iq_finding *f, struct iq_jw *w)
{
    return bool_found(v, f->fired_changed > 0, w);
}

static bool share_found(const cJSON *v, uint64_t part, uint64_t whole, struct iq_jw *w)
{
    double share = whole ? (double)part / (double)whole : 0, lo = 0, hi = 1;
    iq_json_f64_opt(v, "min", 0, 1, "", &lo, NULL);
    iq_json_f64_opt(v, "max", 0, 1, "", &hi, NULL);
    iq_jw_f64(w, share);
    return share >= lo && share <= hi;
}

static bool check_changed(const cJSON *v, const struct iq_finding *f, struct iq_jw *w)
{
    return share_found(v, f->changed, f->requests, w);
}
static bool check_differing(const cJSON *v, const struct iq_finding *f, struct iq_jw *w)
{
    return share_found(v, f->differing, f->requests, w);
}

/* ---- the table ---- */

static const struct rule {
    const char *field;
    int (*read)(const cJSON *, const char *where, struct iq_err *);
    check_fn *check;
} rules[] = {
    {"label", read_labels, check_label},
    {"numerics", read_numerics, check_numerics},
    {"effect", read_effects, check_effect},
    {"guilty", read_ops, check_guilty},
    {"guilty_among", read_ops, check_guilty_among},
    {"variant", read_variant, check_variant},
    {"trigger", read_trigger, check_trigger},
    {"hidden", read_bool, check_hidden},
    {"fired", read_bool, check_fired},
    {"struck", read_bool, check_struck},
    {"changed", read_share, check_changed},
    {"differing", read_share, check_differing},
};
enum { RULES = sizeof rules / sizeof *rules };
_Static_assert((int)RULES <= (int)IQ_CHECKS_MAX, "one check a rule");

int iq_predict_read(const cJSON *predict, const char *where, struct iq_err *err)
{
    const char *known[RULES + 1] = {0};
    char at[512];
    for (int i = 0; i < RULES; i++) known[i] = rules[i].field;
    IQ_TRY(iq_json_known(predict, known, where, err));
    if (!predict->child) return iq_fail(err, IQ_FORMAT, "%s: nothing is predicted", where);
    for (int i = 0; i < RULES; i++) {
        const cJSON *v = cJSON_GetObjectItemCaseSensitive(predict, rules[i].field);
        snprintf(at, sizeof at, "%.400s: %s", where, rules[i].field);
        if (v) IQ_TRY(rules[i].read(v, at, err));
    }
    return IQ_OK;
}

int iq_predict_check(const cJSON *predict, const struct iq_finding *f, struct iq_check out[IQ_CHECKS_MAX],
                     unsigned *n, struct iq_err *err)
{
    *n = 0;
    for (int i = 0; i < RULES; i++) {
        const cJSON *v = cJSON_GetObjectItemCaseSensitive(predict, rules[i].field);
        struct iq_buf b = IQ_BUF(1 << 20);
        struct iq_jw w = IQ_JW(&b);
        if (!v) continue;
        struct iq_check *c = &out[(*n)++];
        *c = (struct iq_check){.field = rules[i].field, .held = rules[i].check(v, f, &w)};
        c->expected = cJSON_PrintUnformatted(v);
        c->found = b.data; /* moved */
        if (!c->expected || b.failed) return iq_fail(err, IQ_MEMORY, "no memory for a prediction");
    }
    return IQ_OK;
}

void iq_check_free(struct iq_check *c)
{
    cJSON_free(c->expected);
    free(c->found);
    *c = (struct iq_check){0};
}
