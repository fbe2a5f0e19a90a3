#include "harness/trial/judge.h"

#include "harness/plan/variants.h"
#include "kernels/arith.h"
#include "kernels/vitro.h"

#include <stdio.h>
#include <string.h>

enum { ROWS_MAX = 64, OUTPUTS_MAX = 512 }; /* operands large enough for any tile, small enough for a blink */
enum { PADDING = 3 };
enum { SAMPLER_ROWS = 12 }; /* with something to take from one another, whatever the batch was */

static int read_dims(const cJSON *model, struct iq_judge *j, struct iq_err *err)
{
    const struct {
        const char *key;
        uint64_t *out;
    } dims[] = {{"hidden", &j->hidden},     {"ffn", &j->ffn},
                {"heads", &j->heads},       {"kv_heads", &j->kv_heads},
                {"head_dim", &j->head_dim}, {"vocab", &j->vocab},
                {"experts", &j->experts},   {"active_experts", &j->active}};
    const char *weights = "f32";
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        IQ_TRY(iq_json_u64_opt(model, dims[i].key, 1, 1 << 22, "manifest: model", dims[i].out, err));
    IQ_TRY(iq_json_str_opt(model, "weights", "manifest: model", &weights, err));
    snprintf(j->weights, sizeof j->weights, "%s", weights);
    return IQ_OK;
}

static int read_manifest(const cJSON *m, struct iq_judge *j, struct iq_err *err)
{
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(m, "model");
    const cJSON *engine = cJSON_GetObjectItemCaseSensitive(m, "engine");
    const cJSON *plan = cJSON_GetObjectItemCaseSensitive(m, "plan");
    iq_settings_init(&j->settings);
    if (cJSON_IsObject(model)) IQ_TRY(read_dims(model, j, err));
    if (engine) IQ_TRY(iq_settings_json(engine, "manifest: engine", &j->settings, err));
    int status = plan ? iq_plan_parse(plan, "manifest: plan", &j->plan, NULL, err) : IQ_OK;
    if (status == IQ_OK || !cJSON_GetObjectItemCaseSensitive(plan, "libraries")) return status;
    j->unread = *err;
    return IQ_OK;
}

int iq_judge_open(const char *manifest, size_t len, struct iq_judge *j, struct iq_err *err)
{
    cJSON *json;
    *j = (struct iq_judge){0};
    IQ_TRY(iq_variants_register(err));
    IQ_TRY(iq_json_parse(manifest, len, "manifest", &json, err));
    int status = read_manifest(json, j, err);
    iq_json_free(json);
    return status;
}

void iq_judge_close(struct iq_judge *j) { iq_plan_free(&j->plan); }

static uint32_t most(uint64_t v, uint32_t limit) { return (uint32_t)(v < limit ? v : limit); }

/* Fewer rows where there are many; odd stays odd, and what is left behind a tile of up to 16 rows stays as it is. */
static uint32_t rows_like(uint32_t tokens)
{
    return tokens <= ROWS_MAX ? tokens : ROWS_MAX - 16 + tokens % 16;
}

static enum iq_format weights_format(const char *name)
{
    for (int f = 0; f < IQ_FORMATS; f++)
        if (!strcmp(iq_format_info((enum iq_format)f)->name, name)) return (enum iq_format)f;
    return IQ_F32;
}

enum {
    CONTEXT = 600,
    SEEN_ROWS = 8,
    SEEN_GROUPS = 2
}; /* of attention: several chunks of keys, some of the heads */

/* Ops that are no sum over K. */
static bool other_shape(const struct iq_judge *j, const struct iq_suspect *s, uint32_t group,
                        struct iq_vitro_shape *out)
{
    if (!strcmp(s->kind, "attention") || !strcmp(s->kind, "kv_write")) {
        out->rows = most(s->tokens, SEEN_ROWS);
        out->kv_heads = most(j->kv_heads, SEEN_GROUPS);
        out->head_dim = (uint32_t)j->head_dim;
        out->heads = group / out->head_dim * out->kv_heads;
        out->context = CONTEXT;
        return true;
    }
    if (!strcmp(s->kind, "rmsnorm") || !strcmp(s->kind, "add")) {
        bool head = !strcmp(s->op, "q_norm") || !strcmp(s->op, "k_norm");
        out->n = (uint32_t)(head ? j->head_dim : j->hidden);
        return true;
    }
    if (strcmp(s->kind, "route") && strcmp(s->kind, "moe_dispatch") && strcmp(s->kind, "all_to_all") &&
        strcmp(s->kind, "combine"))
        return false;
    out->rows = most(s->tokens, 1024); /* some of these go wrong past 256 */
    out->experts = (uint32_t)j->experts;
    out->k = (uint32_t)j->active;
    out->n = most(j->hidden, OUTPUTS_MAX);
    out->ranks = j->settings.expert_parallel;
    return out->experts && out->k;
}

/* The shape of an op in this model; false: its kind has no test in vitro, or the manifest does not tell. */
static bool shape_of(const struct iq_judge *j, const struct iq_suspect *s, struct iq_vitro_shape *out)
{
    if (!j->hidden || !j->ffn || !j->heads || !j->kv_heads || !j->head_dim || !j->vocab) return false;
    uint32_t group = (uint32_t)(j->heads / j->kv_heads * j->head_dim),
             qw = (uint32_t)(j->heads * j->head_dim);
    uint32_t ffn_unit = iq_ffn_unit((uint32_t)j->ffn),
             ffn_units = ((uint32_t)j->ffn + ffn_unit - 1) / ffn_unit;
    *out = (struct iq_vitro_shape){.rows = rows_like(s->tokens),
                                   .unit = IQ_UNIT,
                                   .format = weights_format(j->weights),
                                   .act = j->settings.dtype,
                                   .ranks = j->settings.tp,
                                   .shards = j->settings.tp};
    const struct {
        const char *op;
        uint64_t k, n;
        uint32_t unit, units;
    } shapes[] = {{"qkv", j->hidden, qw, IQ_UNIT, 0},
                  {"attn_out", qw, j->hidden, group, 0},
                  {"gate_up", j->hidden, j->ffn, IQ_UNIT, 0},
                  {"down", j->ffn, j->hidden, ffn_unit, 0},
                  {"lm_head", j->hidden, j->vocab, IQ_UNIT, 0},
                  {"attn_reduce", 0, j->hidden, 0, (uint32_t)j->kv_heads},
                  {"router", j->hidden, j->experts, IQ_UNIT, 0},
                  {"ffn_reduce", 0, j->hidden, 0, ffn_units}};
    bool sampler = !strcmp(s->op, "sample") || !strcmp(s->op, "temper") || !strcmp(s->op, "mask");
    if (sampler || !strcmp(s->op, "topk")) {
        out->rows = sampler ? SAMPLER_ROWS : rows_like(s->batch);
        out->vocab = (uint32_t)j->vocab;
        out->k =
            j->settings.logits > IQ_TOP ? most(j->settings.logits, out->vocab) : most(IQ_TOP, out->vocab);
        return true;
    }
    if (other_shape(j, s, group, out)) return true;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if (strcmp(shapes[i].op, s->op) || !shapes[i].n) continue;
        out->k = (uint32_t)shapes[i].k;
        out->n = most(shapes[i].n, OUTPUTS_MAX);
        out->unit = shapes[i].unit;
        out->units = shapes[i].units;
        out->padding = j->settings.captured ? PADDING : 0;
        return true;
    }
    return false;
}

static enum iq_numerics verdict(const struct iq_vitro_report *r)
{
    if (!r->exact_equal || !r->invariant_ok) return IQ_NUMERICS_VIOLATES;
    if (r->identical) return IQ_NUMERICS_IDENTICAL;
    return r->within_bound ? IQ_NUMERICS_WITHIN : IQ_NUMERICS_OUTSIDE;
}

static void explain(const struct iq_vitro_report *r, const char *variant, struct iq_vitro_result *out)
{
    switch (out->numerics) {
    case IQ_NUMERICS_VIOLATES:
        snprintf(out->evidence, sizeof out->evidence, "%s", r->first);
        return;
    case IQ_NUMERICS_IDENTICAL:
        snprintf(out->evidence, sizeof out->evidence, "%s gave the reference's bits on all made-up data",
                 variant);
        return;
    default:
        snprintf(out->evidence, sizeof out->evidence,
                 "%s gave the exact results on exact data; on random data its error is %.3g times the bound "
                 "that holds for any order of float32 sums",
                 variant, r->worst);
    }
}

/* What the comparator has proved when it calls a control op guilty (compare.h); NULL: the op is none of these. */
static const char *control_proof(const char *op)
{
    static const struct {
        const char *op, *proof;
    } known[] = {
        {"prefix",
         "a prefix hit attached K and V that no request computed for these tokens (hit must equal miss)"},
        {"weights",
         "the weights in memory are not the file's: their digest is not golden's, which loaded the same "
         "file"},
        {"assemble",
         "the same request became other prompt ids or sampling parameters than in golden (what is asked "
         "must be what the model sees)"},
        {"place",
         "the same request was served by another pool than in golden: its position settings are not those "
         "for its length"},
        {"kv_land", "K and V of a prefix hit were read before they had landed (hit must equal miss)"},
        {"kv_move", "K and V are others since their block was moved (a copy must equal its source)"},
        {"kv_alloc", "a block was handed out while another request held it: K and V that it reads are others "
                     "than it wrote"},
        {"kv_evict", "a block was evicted while a request held it: K and V that it reads are others than it "
                     "wrote"},
        {"kv_free", "a block was freed while it was still held or cached: K and V that are read there are "
                    "others than were written"},
        {"accept", "a drafted token was passed on that is not the one which the model chose there"},
        {"rollback", "a position keeps K and V that were computed for a rejected draft, not for its token"},
        {"identity", "a prefix hit attached K and V that were computed under other settings (a key must tell "
                     "them apart)"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].op, op)) return known[i].proof;
    return NULL;
}

int iq_judge_suspect(void *ctx, const struct iq_suspect *s, struct iq_vitro_result *out, struct iq_err *err)
{
    struct iq_judge *j = ctx;
    struct iq_vitro_shape shape;
    struct iq_vitro_report report;
    const struct iq_variant *variant = iq_variant_find(s->kind, s->variant);
    const void *params = NULL;
    struct iq_exec x = {0};
    if (control_proof(s->op)) {
        out->numerics = IQ_NUMERICS_VIOLATES;
        snprintf(out->evidence, sizeof out->evidence, "%s", control_proof(s->op));
        return IQ_OK;
    }
    if (s->fault >= 0 && (size_t)s->fault < j->plan.n) {
        variant = j->plan.fault[s->fault].variant;
        params = j->plan.fault[s->fault].params;
    }
    /* A device does not outlive a fork, and who judges forks trials: what has a form for the host is judged in that form. */
    if (!variant || !strcmp(variant->device, "cuda") || !shape_of(j, s, &shape)) return IQ_UNSUPPORTED;
    int status = iq_vitro(&x, variant, params, &shape, 1, &report, err);
    iq_exec_close(&x);
    if (status == IQ_CRASHED) { /* a user's kernel, whose process is not this one */
        out->numerics = IQ_NUMERICS_VIOLATES;
        snprintf(out->evidence, sizeof out->evidence, "%s",
                 *iq_user_failure() ? iq_user_failure() : "it crashed on made-up data");
        return IQ_OK;
    }
    if (status != IQ_OK) return status == IQ_SHAPE ? IQ_UNSUPPORTED : status;
    out->numerics = verdict(&report);
    explain(&report, variant->name, out);
    return IQ_OK;
}
