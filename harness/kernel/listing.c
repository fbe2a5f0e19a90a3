/* What a user's library says of itself: anybody's text, until it has been read here. */
#include "harness/kernel/user_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool good_name(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");
    return n && !s[n] && n <= INQUEST_NAME_MAX;
}

static int read_name(const cJSON *obj, const char *key, const char *at, char out[INQUEST_NAME_MAX + 1],
                     struct iq_err *err)
{
    const char *s;
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(obj, key);
    if (!item || cJSON_IsNull(item))
        return iq_fail(err, IQ_FORMAT, "%s: %s: found NULL, expected a text", at, key);
    IQ_TRY(iq_json_str(obj, key, at, &s, err));
    if (!good_name(s))
        return iq_fail(err, IQ_FORMAT, "%s: %s: found \"%.80s\", expected 1 to %d letters, digits, _ . or -",
                       at, key, s, INQUEST_NAME_MAX);
    snprintf(out, INQUEST_NAME_MAX + 1, "%s", s);
    return IQ_OK;
}

static int read_param(struct iq_user_kernel *k, const cJSON *obj, const char *at, struct iq_err *err)
{
    uint32_t i = k->n_params;
    struct iq_param *p = &k->param[i];
    const char *help = "";
    char where[320];
    *p = (struct iq_param){.def = NAN, .lo = NAN, .hi = NAN, .offset = i * sizeof(double)};
    snprintf(where, sizeof where, "%s: params[%u]", at, i);
    IQ_TRY(read_name(obj, "name", where, k->param_name[i], err));
    IQ_TRY(iq_json_str_opt(obj, "help", where, &help, err));
    IQ_TRY(iq_json_f64_opt(obj, "default", -INFINITY, INFINITY, where, &p->def, err));
    IQ_TRY(iq_json_f64_opt(obj, "min", -INFINITY, INFINITY, where, &p->lo, err));
    IQ_TRY(iq_json_f64_opt(obj, "max", -INFINITY, INFINITY, where, &p->hi, err));
    if (!(p->lo <= p->def && p->def <= p->hi) || !isfinite(p->lo) || !isfinite(p->hi))
        return iq_fail(err, IQ_FORMAT,
                       "%s (%s): found default %g, range %g to %g; expected finite numbers, lo <= def <= hi",
                       where, k->param_name[i], p->def, p->lo, p->hi);
    for (uint32_t other = 0; other < i; other++)
        if (!strcmp(k->param_name[other], k->param_name[i]))
            return iq_fail(err, IQ_FORMAT, "%s: parameter %s is there twice", at, k->param_name[i]);
    snprintf(k->param_help[i], sizeof k->param_help[i], "%s", help);
    p->name = k->param_name[i];
    p->help = k->param_help[i];
    k->n_params++;
    return IQ_OK;
}

static int read_params(struct iq_user_kernel *k, const cJSON *obj, const char *at, struct iq_err *err)
{
    const cJSON *item, *list = cJSON_GetObjectItemCaseSensitive(obj, "params");
    if (!list || cJSON_IsNull(list)) return IQ_OK;
    if (!cJSON_IsArray(list)) return iq_fail(err, IQ_FORMAT, "%s: params: expected a list", at);
    cJSON_ArrayForEach(item, list)
    {
        if (k->n_params == INQUEST_PARAMS_MAX)
            return iq_fail(err, IQ_FORMAT, "%s: more than %d parameters", at, INQUEST_PARAMS_MAX);
        IQ_TRY(read_param(k, item, at, err));
    }
    return IQ_OK;
}

/* Kinds that there are, for the error. */
static int read_kind(struct iq_user_kernel *k, const cJSON *obj, const char *at, struct iq_err *err)
{
    enum { KINDS = 32 };
    char kind[INQUEST_NAME_MAX + 1];
    const char *known[KINDS + 1];
    size_t n = 0;
    IQ_TRY(read_name(obj, "kind", at, kind, err));
    k->kind = iq_abi_kind_find(kind);
    if (k->kind) return IQ_OK;
    for (const struct iq_abi_kind *each = iq_abi_kinds; each->kind && n < KINDS; each++)
        known[n++] = each->kind;
    known[n] = NULL;
    return iq_not_among("kind that a kernel may stand for", kind, known, at, IQ_FORMAT, err);
}

static int check_free(const struct iq_user_library *l, const struct iq_user_kernel *k, const char *at,
                      struct iq_err *err)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (l->kernel[i].kind == k->kind && !strcmp(l->kernel[i].name, k->name))
            return iq_fail(err, IQ_FORMAT, "%s: it lists %s of %s twice", at, k->name, k->kind->kind);
    if (!iq_variant_find(k->kind->kind, k->name)) return IQ_OK;
    return iq_fail(err, IQ_EXISTS,
                   "%s: %s already has a variant that is called %s; give the kernel another name", at,
                   k->kind->kind, k->name);
}

static int read_kernel(struct iq_user_library *l, const cJSON *obj, struct iq_err *err)
{
    static const char *const known[] = {"kind", "name", "what", "flags", "runs", "params", NULL};
    struct iq_user_kernel *k = &l->kernel[l->n];
    uint64_t flags = 0;
    bool runs = true;
    const char *what = "";
    char at[40];
    snprintf(at, sizeof at, "kernels[%u]", l->n);
    *k = (struct iq_user_kernel){.library = l, .index = l->n};
    IQ_TRY(iq_json_known(obj, known, at, err));
    IQ_TRY(read_name(obj, "name", at, k->name, err));
    IQ_TRY(read_kind(k, obj, at, err));
    IQ_TRY(iq_json_str_opt(obj, "what", at, &what, err));
    IQ_TRY(iq_json_u64_opt(obj, "flags", 0, 15, at, &flags, err));
    IQ_TRY(iq_json_bool_opt(obj, "runs", at, &runs, err));
    if (!runs) return iq_fail(err, IQ_FORMAT, "%s (%s): run is NULL", at, k->name);
    if ((flags & INQUEST_FAULTY) && (flags & (INQUEST_BENIGN | INQUEST_GOLDEN)))
        return iq_fail(err, IQ_FORMAT, "%s (%s): flags say both that it is wrong and that it is not", at,
                       k->name);
    IQ_TRY(read_params(k, obj, at, err));
    IQ_TRY(check_free(l, k, at, err));
    k->packed = flags & INQUEST_PACKED;
    snprintf(k->what, sizeof k->what, "%.150s%s[%.60s]%s", what, *what ? " " : "", l->name,
             flags & INQUEST_GOLDEN ? " claims golden's bits" : "");
    k->variant =
        (struct iq_variant){.kind = k->kind->kind,
                            .name = k->name,
                            .device = "cpu",
                            /* What it does to a row may depend on the rows beside it: nobody knows. */
                            .flags = (flags & INQUEST_FAULTY ? IQ_V_FAULTY : IQ_V_BENIGN) | IQ_V_COUPLES_ROWS,
                            .params = k->param,
                            .params_size = k->n_params * sizeof(double),
                            .what = k->what};
    l->n++;
    return IQ_OK;
}

static int read_listing(struct iq_user_library *l, const cJSON *json, struct iq_err *err)
{
    static const char *const known[] = {"abi", "kernels", "float_mode", "error", NULL};
    const char *error = NULL, *mode = "";
    uint64_t abi;
    const cJSON *item, *list = cJSON_GetObjectItemCaseSensitive(json, "kernels");
    IQ_TRY(iq_json_known(json, known, "its listing", err));
    IQ_TRY(iq_json_str_opt(json, "error", "its listing", &error, err));
    if (error) return iq_fail(err, IQ_ABI, "%s", error);
    IQ_TRY(iq_json_u64(json, "abi", 0, UINT32_MAX, "its listing", &abi, err));
    if (abi != INQUEST_ABI)
        return iq_fail(err, IQ_ABI, "found ABI %llu, expected %d", (unsigned long long)abi, INQUEST_ABI);
    IQ_TRY(iq_json_str_opt(json, "float_mode", "its listing", &mode, err));
    snprintf(l->float_mode, sizeof l->float_mode, "%s", mode);
    int n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    if (n < 1 || n > INQUEST_KERNELS_MAX)
        return iq_fail(err, IQ_FORMAT, "lists %d kernels, expected 1 to %d", n, INQUEST_KERNELS_MAX);
    l->kernel = calloc((size_t)n, sizeof *l->kernel);
    if (!l->kernel) return iq_fail(err, IQ_MEMORY, "no memory for %d kernels", n);
    cJSON_ArrayForEach(item, list) IQ_TRY(read_kernel(l, item, err));
    return IQ_OK;
}

int iq__user_listing(struct iq_user_library *l, struct iq_err *err)
{
    cJSON *json;
    IQ_TRY(iq_json_parse(l->listing.data, l->listing.len, "its listing", &json, err));
    int status = read_listing(l, json, err);
    iq_json_free(json);
    return status;
}
