/* One fault: from JSON, to JSON, as a sentence. */
#include "faults/faultset.h"
#include "faults/trigger_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const per_words[] = {[IQ_PER_CALL] = "call",
                                        [IQ_PER_ROW] = "row",
                                        [IQ_PER_REQUEST] = "request",
                                        [IQ_PER_SESSION] = "session",
                                        NULL};

void iq_fault_free(struct iq_fault *f)
{
    free(f->name);
    free(f->params);
    free(f->ramp);
    iq_trigger_free(f->when);
    *f = (struct iq_fault){.op = IQ_OP_NONE};
}

bool iq_fault_is_workaround(const struct iq_fault *f)
{
    return !(f->variant->flags & (IQ_V_FAULTY | IQ_V_BENIGN));
}

bool iq_fault_draws(const struct iq_fault *f) { return f->ramp || f->rate < 1; }

bool iq_fault_asks_rows(const struct iq_fault *f)
{
    return iq_trigger_has_rows(f->when) || (f->per != IQ_PER_CALL && iq_fault_draws(f));
}

/* Ops first: where an op and its kind share a name ("topk") they mean the same. */
static int parse_op(const char *name, const char *where, struct iq_fault *f, struct iq_err *err)
{
    int op = iq_op_find(name);
    f->op = op < 0 ? IQ_OP_NONE : (unsigned)op;
    f->kind = op < 0 ? iq_kind_find(name) : iq_op_kind((enum iq_op_id)op);
    if (f->kind) return IQ_OK;
    const char *known[2 * IQ_ALL_OPS + 1];
    size_t n = 0;
    for (unsigned i = 0; i < IQ_ALL_OPS; i++) known[n++] = iq_op_name(i);
    for (unsigned i = 0; i < IQ_ALL_OPS; i++) {
        const char *kind = iq_op_kind((enum iq_op_id)i)->name;
        size_t at = 0;
        while (at < n && strcmp(known[at], kind)) at++;
        if (at == n) known[n++] = kind;
    }
    known[n] = NULL;
    return iq_not_among("op or kind", name, known, where, IQ_NOT_FOUND, err);
}

static int parse_variant(const char *name, const char *where, struct iq_fault *f, struct iq_err *err)
{
    enum { LISTED = 256 };
    const char *known[LISTED + 1];
    size_t n = 0;
    f->variant = iq_variant_find(f->kind->name, name);
    if (f->variant) return IQ_OK;
    const struct iq_variant *v;
    for (size_t i = 0; (v = iq_variant_at(i)) && n < LISTED; i++)
        if (!strcmp(v->kind, f->kind->name)) known[n++] = v->name;
    known[n] = NULL;
    char what[64];
    snprintf(what, sizeof what, "variant of %s", f->kind->name);
    return iq_not_among(what, name, known, where, IQ_NOT_FOUND, err);
}

static size_t count_params(const struct iq_variant *v)
{
    size_t n = 0;
    while (v->params && v->params[n].name) n++;
    return n;
}

static int parse_params(const cJSON *obj, const char *where, struct iq_fault *f, struct iq_err *err)
{
    const struct iq_variant *v = f->variant;
    size_t n = count_params(v);
    char full[320];
    snprintf(full, sizeof full, "%s: `params`", where);
    if (obj && cJSON_IsNull(obj)) obj = NULL;
    const char **known = calloc(n + 1, sizeof *known);
    f->params = n ? calloc(1, v->params_size) : NULL;
    if (!known || (n && !f->params)) {
        free(known);
        return iq_fail(err, IQ_MEMORY, "%s: no memory for parameters", where);
    }
    for (size_t i = 0; i < n; i++) known[i] = v->params[i].name;
    int status = obj ? iq_json_known(obj, known, full, err) : IQ_OK;
    for (size_t i = 0; i < n && !status; i++) {
        double *value = (double *)((char *)f->params + v->params[i].offset);
        *value = v->params[i].def;
        if (obj)
            status =
                iq_json_f64_opt(obj, v->params[i].name, v->params[i].lo, v->params[i].hi, full, value, err);
    }
    free(known);
    return status;
}

static int parse_per(const cJSON *obj, const char *where, struct iq_fault *f, struct iq_err *err)
{
    const char *word = per_words[IQ_PER_CALL];
    IQ_TRY(iq_json_str_opt(obj, "per", where, &word, err));
    for (int i = 0; per_words[i]; i++)
        if (!strcmp(word, per_words[i])) {
            f->per = (enum iq_per)i;
            return IQ_OK;
        }
    return iq_not_among("`per`", word, per_words, where, IQ_FORMAT, err);
}

static int parse_rate(const cJSON *obj, const char *where, struct iq_fault *f, struct iq_err *err)
{
    const cJSON *rate = cJSON_GetObjectItemCaseSensitive(obj, "rate");
    char full[320];
    f->rate = 1;
    if (!rate || cJSON_IsNull(rate) || cJSON_IsNumber(rate))
        return iq_json_f64_opt(obj, "rate", 0, 1, where, &f->rate, err);
    snprintf(full, sizeof full, "%s: `rate`", where);
    IQ_TRY(iq_ramp_parse(rate, full, &f->ramp, err));
    f->rate = iq_ramp_most(f->ramp);
    return IQ_OK;
}

static int parse(const cJSON *obj, const char *where, struct iq_fault *f, struct iq_err *err)
{
    static const char *const known[] = {"name", "op",   "variant", "params", "when",
                                        "rate", "seed", "per",     NULL};
    const char *op, *variant, *name = NULL;
    char full[320], made[160];
    IQ_TRY(iq_json_known(obj, known, where, err));
    IQ_TRY(iq_json_str(obj, "op", where, &op, err));
    IQ_TRY(iq_json_str(obj, "variant", where, &variant, err));
    IQ_TRY(iq_json_str_opt(obj, "name", where, &name, err));
    IQ_TRY(parse_op(op, where, f, err));
    IQ_TRY(parse_variant(variant, where, f, err));
    IQ_TRY(parse_params(cJSON_GetObjectItemCaseSensitive(obj, "params"), where, f, err));
    snprintf(full, sizeof full, "%s: `when`", where);
    const cJSON *when = cJSON_GetObjectItemCaseSensitive(obj, "when");
    IQ_TRY(iq_trigger_parse(when, full, f->kind, &f->when, err));
    IQ_TRY(parse_rate(obj, where, f, err));
    IQ_TRY(iq_json_u64_opt(obj, "seed", 0, UINT64_C(1) << 53, where, &f->seed, err));
    IQ_TRY(parse_per(obj, where, f, err));
    snprintf(made, sizeof made, "%s/%s", op, variant);
    f->name = strdup(name ? name : made);
    return f->name ? IQ_OK : iq_fail(err, IQ_MEMORY, "%s: no memory for the name", where);
}

int iq_fault_parse(const cJSON *obj, const char *where, struct iq_fault *out, struct iq_err *err)
{
    *out = (struct iq_fault){.op = IQ_OP_NONE};
    int status = parse(obj, where, out, err);
    if (status) iq_fault_free(out);
    return status;
}

int iq_fault_param(const struct iq_fault *f, const char *name, double *out)
{
    *out = 0;
    for (size_t i = 0; i < count_params(f->variant); i++)
        if (!strcmp(f->variant->params[i].name, name)) {
            memcpy(out, (const char *)f->params + f->variant->params[i].offset, sizeof *out);
            return IQ_OK;
        }
    return IQ_NOT_FOUND;
}

static const char *place(const struct iq_fault *f)
{
    return f->op == IQ_OP_NONE ? f->kind->name : iq_op_name(f->op);
}

void iq_fault_json(const struct iq_fault *f, struct iq_jw *w)
{
    iq_jw_begin(w, '{');
    iq_jw_key(w, "name");
    iq_jw_str(w, f->name);
    iq_jw_key(w, "op");
    iq_jw_str(w, place(f));
    iq_jw_key(w, "variant");
    iq_jw_str(w, f->variant->name);
    iq_jw_key(w, "params");
    iq_jw_begin(w, '{');
    for (size_t i = 0; i < count_params(f->variant); i++) {
        double v;
        iq_fault_param(f, f->variant->params[i].name, &v);
        iq_jw_key(w, f->variant->params[i].name);
        iq_jw_f64(w, v);
    }
    iq_jw_end(w, '}');
    iq_jw_key(w, "when");
    iq_trigger_json(f->when, w);
    iq_jw_key(w, "rate");
    if (f->ramp)
        iq_ramp_json(f->ramp, w);
    else
        iq_jw_f64(w, f->rate);
    iq_jw_key(w, "seed");
    iq_jw_u64(w, f->seed);
    iq_jw_key(w, "per");
    iq_jw_str(w, per_words[f->per]);
    iq_jw_end(w, '}');
}

void iq_fault_explain(const struct iq_fault *f, struct iq_buf *b)
{
    iq_buf_printf(b, "%s%s is replaced by %s", f->op == IQ_OP_NONE ? "every " : "", place(f),
                  f->variant->name);
    for (size_t i = 0; i < count_params(f->variant); i++) {
        double v;
        iq_fault_param(f, f->variant->params[i].name, &v);
        iq_buf_printf(b, "%s%s %g", i ? ", " : " (", f->variant->params[i].name, v);
    }
    iq_buf_printf(b, "%s ", count_params(f->variant) ? ")" : "");
    iq_trigger_explain(f->when, b);
    if (!iq_fault_draws(f)) return;
    iq_buf_printf(b, ", with a probability ");
    if (f->ramp)
        iq_ramp_explain(f->ramp, b);
    else
        iq_buf_printf(b, "of %g", f->rate);
    iq_buf_printf(b, ", drawn once per %s", per_words[f->per]);
    if (f->ramp && f->per == IQ_PER_REQUEST) iq_buf_printf(b, " as it arrives");
    if (f->ramp && f->per == IQ_PER_SESSION) iq_buf_printf(b, " as its first request arrives");
}
