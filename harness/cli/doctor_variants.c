/* Which of the really miscompiled variants differ from their reference on this machine, and how: by measurement. */
#include "harness/cli/doctor_variants.h"

#include "harness/plan/variants.h"
#include "kernels/miscompiled/miscompiled.h"
#include "kernels/vitro.h"

#include <stdio.h>
#include <string.h>

/* Sizes at which chains, trees, chunks of keys and bins all come into play. */
static const struct {
    const char *kind;
    struct iq_vitro_shape shape;
} shapes[] = {
    {"topk", {.rows = 8, .k = 40, .vocab = 4096, .shards = 1}},
    {"rmsnorm", {.rows = 8, .n = 576}},
    {"attention", {.rows = 8, .heads = 4, .kv_heads = 2, .head_dim = 32, .context = 600}},
    {"matmul", {.rows = 8, .n = 64, .k = 1536, .unit = 128, .format = IQ_F32}},
    {"all_reduce", {.rows = 8, .n = 576, .units = 12, .ranks = 4}},
};

static const struct iq_vitro_shape *shape_of(const char *kind)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (!strcmp(shapes[i].kind, kind)) return &shapes[i].shape;
    return NULL;
}

static enum iq_differs verdict(const struct iq_vitro_report *plain, const struct iq_vitro_report *odd)
{
    if (!plain->exact_equal || !plain->invariant_ok || !plain->within_bound || !odd->exact_equal)
        return IQ_DIFFERS_WRONG;
    return plain->identical && odd->identical ? IQ_DIFFERS_NEVER : IQ_DIFFERS_BENIGN;
}

int iq_variant_differs(const struct iq_variant *v, struct iq_variant_report *out, struct iq_err *err)
{
    struct iq_exec x = {0};
    const struct iq_vitro_shape *of = shape_of(v->kind);
    struct iq_vitro_report plain, odd;
    *out = (struct iq_variant_report){.differs = IQ_DIFFERS_NOT_HERE};
    if (!of) return iq_fail(err, IQ_UNSUPPORTED, "variant %s: no measurement for kind %s", v->name, v->kind);
    if (v->usable && !v->usable()) return IQ_OK;
    struct iq_vitro_shape shape = *of;
    int status = iq_vitro(&x, v, NULL, &shape, 1, &plain, err);
    shape.odd = true;
    if (status == IQ_OK) status = iq_vitro(&x, v, NULL, &shape, 2, &odd, err);
    iq_exec_close(&x);
    if (status != IQ_OK) return status;
    out->differs = verdict(&plain, &odd);
    bool by_odd = plain.exact_equal && plain.invariant_ok && plain.within_bound && !odd.exact_equal;
    if (out->differs == IQ_DIFFERS_WRONG)
        snprintf(out->first, sizeof out->first, "%s", by_odd ? odd.first : plain.first);
    if (out->differs == IQ_DIFFERS_BENIGN && plain.identical)
        snprintf(out->first, sizeof out->first,
                 "other bits only where NaN, infinities, subnormals or ties are");
    else if (out->differs == IQ_DIFFERS_BENIGN)
        snprintf(out->first, sizeof out->first,
                 "other bits; errors up to %.3g of what any order of sums may make", plain.worst);
    return IQ_OK;
}

const char *iq_differs_text(enum iq_differs d)
{
    static const char *const text[] = {"never", "benign", "wrong", "not here"};
    return text[d];
}

static void write_json(const struct iq_variant *v, const struct iq_variant_report *r, struct iq_jw *w)
{
    iq_jw_begin(w, '{');
    iq_jw_key(w, "variant"), iq_jw_str(w, v->name);
    iq_jw_key(w, "kind"), iq_jw_str(w, v->kind);
    iq_jw_key(w, "what"), iq_jw_str(w, v->what);
    iq_jw_key(w, "differs"), iq_jw_str(w, iq_differs_text(r->differs));
    iq_jw_key(w, "how"), iq_jw_str(w, r->first);
    iq_jw_end(w, '}');
}

int iq_doctor_variants(struct iq_out *out, struct iq_jw *json, struct iq_err *err)
{
    IQ_TRY(iq_variants_register(err));
    if (json) iq_jw_key(json, "miscompiled"), iq_jw_begin(json, '[');
    for (const struct iq_variant *const *v = iq_miscompiled_variants; *v; v++) {
        struct iq_variant_report r;
        IQ_TRY(iq_variant_differs(*v, &r, err));
        if (json)
            write_json(*v, &r, json);
        else
            iq_out_printf(out, "differs   %-20s %-8s %s\n", (*v)->name, iq_differs_text(r.differs),
                          r.first[0] ? r.first : (*v)->what);
    }
    if (json) iq_jw_end(json, ']');
    return IQ_OK;
}
