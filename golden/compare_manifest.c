/* What two manifests say about whether their runs may be compared. */
#include "golden/compare_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANIFEST_MAX = 64 << 20 };

static int manifest_parse(const struct iq_trace *t, const char *role, cJSON **out, struct iq_err *err)
{
    char name[80];
    snprintf(name, sizeof name, "manifest of %s %.40s", role, t->id);
    if (t->manifest_len > MANIFEST_MAX) return iq_fail(err, IQ_LIMIT, "%s: %zu bytes", name, t->manifest_len);
    return iq_json_parse(t->manifest, t->manifest_len, name, out, err);
}

static const cJSON *model_field(const cJSON *m, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(m, "model"), key);
}

/* Whether two lists of files, adapters or updates of the weights, are of the same contents, in order. */
static bool files_same(const cJSON *g, const cJSON *s, const char *member)
{
    static const char *const keys[] = {"name", "step", "sha256", NULL};
    const cJSON *x = cJSON_GetObjectItemCaseSensitive(g, member),
                *y = cJSON_GetObjectItemCaseSensitive(s, member);
    bool same = cJSON_GetArraySize(x) == cJSON_GetArraySize(y);
    for (x = x ? x->child : NULL, y = y ? y->child : NULL; same && x && y; x = x->next, y = y->next)
        for (int i = 0; keys[i]; i++) {
            const cJSON *a = cJSON_GetObjectItemCaseSensitive(x, keys[i]);
            const cJSON *b = cJSON_GetObjectItemCaseSensitive(y, keys[i]);
            same &= (!a && !b) || (a && b && cJSON_Compare(a, b, 1));
        }
    return same;
}

static void weights_judge(struct iq_finding *f, const cJSON *g, const cJSON *s)
{
    const cJSON *gf = model_field(g, "sha256"), *sf = model_field(s, "sha256");
    const cJSON *gp = model_field(g, "packed"), *sp = model_field(s, "packed");
    const cJSON *gl = model_field(g, "layout"), *sl = model_field(s, "layout");
    bool same_layout = (!gl && !sl) || (gl && sl && cJSON_Compare(gl, sl, 1));
    const char *note = "the files' digests are equal, and those of the weights in memory";
    f->weights = IQ_WEIGHTS_VERIFIED;
    if (!gf || !sf) {
        f->weights = IQ_WEIGHTS_UNKNOWN;
        note = "a manifest does not state the digest of the model's files";
    } else if (!cJSON_Compare(gf, sf, 1)) {
        f->weights = IQ_WEIGHTS_DIFFER;
        note = "the model's files are not the same: compare runs of one model";
    } else if (!files_same(g, s, "adapters")) {
        f->weights = IQ_WEIGHTS_DIFFER;
        note = "the adapters are not the same: compare runs with the same adapters";
    } else if (!files_same(g, s, "updates")) {
        f->weights = IQ_WEIGHTS_DIFFER;
        note = "the weights change at other steps, or to those of other files: compare runs with the same "
               "updates";
    } else if (!gp || !sp) {
        f->weights = IQ_WEIGHTS_CLAIMED;
        note = "the files' digests are equal; a manifest does not state the digest of the weights in memory";
    } else if (!same_layout) {
        f->weights = IQ_WEIGHTS_CLAIMED;
        note = "the files' digests are equal; the weights in memory are laid out differently and can't be "
               "compared";
    } else if (!cJSON_Compare(gp, sp, 1)) {
        f->weights = IQ_WEIGHTS_DIFFER;
        note = "the files are equal, the weights in memory are not: a load or update went wrong";
    }
    snprintf(f->weights_note, sizeof f->weights_note, "%s", note);
}

static void contract_judge(struct iq_finding *f, const cJSON *g, const cJSON *s)
{
    const char *a = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(g, "contract"));
    const char *b = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(s, "contract"));
    f->same_contract = a && b && !strcmp(a, b);
    if (!a || !b)
        snprintf(f->contract_note, sizeof f->contract_note, "the manifest of the %s states no contract",
                 a ? "subject" : "golden run");
    else if (!f->same_contract)
        snprintf(f->contract_note, sizeof f->contract_note,
                 "other contract (golden %.64s, subject %.64s): digests are not comparable; only tokens were "
                 "compared",
                 a, b);
}

int iq__compare_manifests(struct iq__compare *c)
{
    cJSON *g = NULL, *s = NULL;
    int rc = manifest_parse(c->g, "golden", &g, c->err);
    if (!rc) rc = manifest_parse(c->s, "subject", &s, c->err);
    if (!rc) {
        const cJSON *plan = cJSON_GetObjectItemCaseSensitive(s, "plan");
        c->f->planned = (uint64_t)cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(plan, "faults"));
        weights_judge(c->f, g, s);
        contract_judge(c->f, g, s);
        const cJSON *ga = cJSON_GetObjectItemCaseSensitive(g, "prompts");
        const cJSON *engine = cJSON_GetObjectItemCaseSensitive(s, "engine");
        const cJSON *drafts = cJSON_GetObjectItemCaseSensitive(engine, "speculate");
        c->speculates = cJSON_IsNumber(drafts) && drafts->valuedouble > 0;
        c->same_asked = ga && cJSON_Compare(ga, cJSON_GetObjectItemCaseSensitive(s, "prompts"), 1);
        const char *replay = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(s, "replay"));
        if (replay && !(c->f->replay = strdup(replay)))
            rc = iq_fail(c->err, IQ_MEMORY, "no memory for a command line");
    }
    iq_json_free(g);
    iq_json_free(s);
    return rc;
}

static bool of_op(const cJSON *name, const struct iq_guilty *g)
{
    const char *s = cJSON_GetStringValue(name);
    return s && (!strcmp(s, g->op) || !strcmp(s, g->kind));
}

/* What the plan puts at the op, else what the manifest says ran there. */
static void variant_of(const cJSON *m, struct iq_guilty *g)
{
    const cJSON *faults =
                    cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(m, "plan"), "faults"),
                *f;
    const cJSON *variants = cJSON_GetObjectItemCaseSensitive(m, "variants");
    const char *name = NULL;
    int index = 0;
    cJSON_ArrayForEach(f, faults)
    {
        const char *variant = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(f, "variant"));
        if (variant && of_op(cJSON_GetObjectItemCaseSensitive(f, "op"), g)) {
            name = variant;
            g->fault = index;
            break;
        }
        index++;
    }
    if (!name) name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(variants, g->op));
    if (!name) name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(variants, g->kind));
    snprintf(g->variant, sizeof g->variant, "%s", name ? name : "");
}

int iq__compare_variants(struct iq__compare *c)
{
    cJSON *s;
    IQ_TRY(manifest_parse(c->s, "subject", &s, c->err));
    for (size_t i = 0; i < c->f->n_guilty; i++) variant_of(s, &c->f->guilty[i]);
    iq_json_free(s);
    return IQ_OK;
}
