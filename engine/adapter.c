#include "engine/adapter.h"

#include "engine/files/model_file.h"
#include "kernels/matrix.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char weights_name[] = "adapter_model.safetensors", config_name[] = "adapter_config.json";
static const char *const targets[IQ_TARGETS + 1] = {
    "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
    "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj",    NULL};

struct loading {
    const struct iq_model *m;
    const char *path;
    struct iq_model_file *file;
    struct iq_adapter *a;
    double alpha;
    bool by_root; /* scale is alpha / sqrt(rank) */
};

static void dims(const struct iq_model_config *c, unsigned target, uint32_t *n, uint32_t *k)
{
    uint32_t qw = c->heads * c->head_dim, kw = c->kv_heads * c->head_dim;
    const uint32_t of[IQ_TARGETS][2] = {{qw, c->hidden},    {kw, c->hidden},     {kw, c->hidden},
                                        {c->hidden, qw},    {c->ffn, c->hidden}, {c->ffn, c->hidden},
                                        {c->hidden, c->ffn}};
    *n = of[target][0];
    *k = of[target][1];
}

/* ---- adapter_config.json ---- */

/* What would change the result and is not built: absent, null, false and empty are fine. */
static bool asks(const cJSON *v)
{
    return v && !cJSON_IsNull(v) && !cJSON_IsFalse(v) &&
           !((cJSON_IsArray(v) || cJSON_IsObject(v)) && !v->child);
}

static int read_config(struct loading *l, struct iq_err *err)
{
    static const char *const refused[] = {"use_dora",
                                          "fan_in_fan_out",
                                          "modules_to_save",
                                          "rank_pattern",
                                          "alpha_pattern",
                                          "megatron_config",
                                          "use_qalora",
                                          "target_parameters",
                                          "alora_invocation_tokens",
                                          NULL};
    const cJSON *c;
    char where[512];
    const char *type = NULL, *bias = "none";
    IQ_TRY(iq_model_json(l->file, config_name, &c, err));
    snprintf(where, sizeof where, "%.400s/%s", l->path, config_name);
    if (!c) return iq_fail(err, IQ_NOT_FOUND, "%s: not there; expected a folder as PEFT writes it", where);
    IQ_TRY(iq_json_str_opt(c, "peft_type", where, &type, err));
    IQ_TRY(iq_json_str_opt(c, "bias", where, &bias, err));
    IQ_TRY(iq_json_bool_opt(c, "use_rslora", where, &l->by_root, err));
    if (type && strcmp(type, "LORA"))
        return iq_fail(err, IQ_UNSUPPORTED, "%s: peft_type: found \"%.40s\", expected \"LORA\"", where, type);
    if (strcmp(bias, "none"))
        return iq_fail(err, IQ_UNSUPPORTED, "%s: bias: found \"%.40s\", expected \"none\"", where, bias);
    for (int i = 0; refused[i]; i++)
        if (asks(cJSON_GetObjectItemCaseSensitive(c, refused[i])))
            return iq_fail(err, IQ_UNSUPPORTED, "%s: %s is not built; expected it absent, false or empty",
                           where, refused[i]);
    const cJSON *alpha = cJSON_GetObjectItemCaseSensitive(c, "lora_alpha");
    if (!alpha) return iq_fail(err, IQ_FORMAT, "%s: lora_alpha is missing", where);
    return iq_json_f64_opt(c, "lora_alpha", -1e6, 1e6, where, &l->alpha, err);
}

/* ---- tensors ---- */

static int shape_fails(const struct loading *l, const struct iq_tensor *t, const char *expected,
                       struct iq_err *err)
{
    return iq_fail(err, IQ_MISMATCH, "%s/%s: `%s`: found %s of %llu x %llu (rank %d), expected %s", l->path,
                   weights_name, t->name, t->type, (unsigned long long)t->dim[0],
                   (unsigned long long)t->dim[1], t->rank, expected);
}

static int check_pair(const struct loading *l, const struct iq_tensor *a, const struct iq_tensor *b,
                      uint32_t n, uint32_t k, struct iq_err *err)
{
    char expected[96];
    snprintf(expected, sizeof expected, "F32, F16 or BF16 of rank x %u, rank from 1 to %d", k, IQ_LORA_RANK);
    if (a->format == IQ_FORMAT_NONE || a->rank != 2 || a->dim[1] != k || !a->dim[0] ||
        a->dim[0] > IQ_LORA_RANK)
        return shape_fails(l, a, expected, err);
    snprintf(expected, sizeof expected, "F32, F16 or BF16 of %u x %llu", n, (unsigned long long)a->dim[0]);
    if (b->format == IQ_FORMAT_NONE || b->rank != 2 || b->dim[0] != n || b->dim[1] != a->dim[0])
        return shape_fails(l, b, expected, err);
    return IQ_OK;
}

/* Where row i of Hugging Face's queries or keys stands when neighbours are rotated together instead of halves. */
static uint32_t paired(uint32_t i, uint32_t d)
{
    uint32_t in = i % d;
    return i - in + in % (d / 2) * 2 + in / (d / 2);
}

static void widen(const struct iq_tensor *t, uint32_t heads_of, float *to)
{
    uint32_t n = (uint32_t)t->dim[0], k = (uint32_t)t->dim[1];
    size_t bytes = iq_format_row_bytes(t->format, k);
    for (uint32_t i = 0; i < n; i++)
        iq_format_row_to_f32(t->format, (const uint8_t *)t->bytes + i * bytes, k,
                             to + (size_t)(heads_of ? paired(i, heads_of) : i) * k);
}

/* The two tensors of a place; NULL: it is not adapted. */
static int find_pair(struct loading *l, uint32_t layer, unsigned target, const struct iq_tensor *t[2],
                     struct iq_err *err)
{
    char name[160];
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "base_model.model.model.layers.%u.%s.lora_%c.weight", layer,
                 targets[target], "AB"[i]);
        t[i] = iq_model_tensor_find(l->file, name);
    }
    if (!t[0] == !t[1]) return IQ_OK;
    return iq_fail(err, IQ_NOT_FOUND, "%s/%s: `%s` has no lora_%c beside it", l->path, weights_name,
                   t[t[0] ? 0 : 1]->name, t[0] ? 'B' : 'A');
}

/* Measures all places (to NULL), or fills them. */
static int walk(struct loading *l, float *to, size_t *floats, struct iq_err *err)
{
    const struct iq_model_config *c = &l->m->config;
    *floats = 0;
    for (uint32_t layer = 0; layer < c->layers; layer++)
        for (unsigned target = 0; target < IQ_TARGETS; target++) {
            const struct iq_tensor *t[2];
            uint32_t n, k;
            dims(c, target, &n, &k);
            IQ_TRY(find_pair(l, layer, target, t, err));
            if (!t[0]) continue;
            IQ_TRY(check_pair(l, t[0], t[1], n, k, err));
            uint32_t rank = (uint32_t)t[0]->dim[0];
            if (to) {
                bool pairs = target <= IQ_TARGET_K && c->rope.pairing == IQ_PAIR_NEIGHBOURS;
                float *a = to + *floats, *b = a + (size_t)rank * k;
                widen(t[0], 0, a);
                widen(t[1], pairs ? c->head_dim : 0, b);
                double scale = l->alpha / (l->by_root ? sqrt(rank) : rank);
                l->a->pair[(size_t)layer * IQ_TARGETS + target] =
                    (struct iq_lora_pair){a, b, rank, (float)scale};
            }
            *floats += (size_t)rank * (k + n);
        }
    return IQ_OK;
}

/* Every tensor must be one that was used: an adapter of which a part is left out is another adapter. */
static int check_used(const struct loading *l, struct iq_err *err)
{
    for (size_t i = 0; i < iq_model_tensor_count(l->file); i++) {
        const struct iq_tensor *t = iq_model_tensor_at(l->file, i);
        if (!t->used)
            return iq_fail(
                err, IQ_UNSUPPORTED,
                "%s/%s: tensor `%s` is not lora_A or lora_B of q, k, v, o, gate, up or down in a layer of "
                "this model (%u layers)",
                l->path, weights_name, t->name, l->m->config.layers);
    }
    return IQ_OK;
}

static int load(struct loading *l, struct iq_err *err)
{
    const struct iq_model_config *c = &l->m->config;
    struct iq_adapter *a = l->a;
    size_t floats;
    IQ_TRY(iq_model_file_open_tensors(l->path, weights_name, &l->file, err));
    IQ_TRY(read_config(l, err));
    if (c->experts)
        return iq_fail(err, IQ_UNSUPPORTED, "%s: adapters are not built for mixtures of experts", l->path);
    IQ_TRY(walk(l, NULL, &floats, err));
    IQ_TRY(check_used(l, err));
    if (!floats) return iq_fail(err, IQ_FORMAT, "%s/%s: no tensors in it", l->path, weights_name);
    a->weights = malloc(floats * sizeof *a->weights);
    a->pair = calloc((size_t)c->layers * IQ_TARGETS, sizeof *a->pair);
    if (!a->weights || !a->pair)
        return iq_fail(err, IQ_MEMORY, "%s: no memory for %zu weights", l->path, floats);
    IQ_TRY(walk(l, a->weights, &floats, err));
    struct iq_digest d[2] = {iq_digest_bytes(a->weights, floats * sizeof *a->weights),
                             iq_digest_bytes(&l->alpha, sizeof l->alpha)};
    d[1].lo ^= l->by_root;
    a->digest = iq_digest_list(d, 2);
    return iq_model_file_sha256(l->file, 0, a->sha256, err);
}

int iq_adapter_open(const char *name, const char *path, const struct iq_model *m, struct iq_adapter **out,
                    struct iq_err *err)
{
    struct loading l = {.m = m, .path = path, .a = calloc(1, sizeof *l.a)};
    *out = NULL;
    if (l.a) l.a->name = strdup(name);
    int status = l.a && l.a->name ? load(&l, err) : iq_fail(err, IQ_MEMORY, "adapter %s: no memory", name);
    if (status != IQ_OK) iq_err_prefix(err, "adapter %s: ", name);
    iq_model_file_close(l.file);
    if (status == IQ_OK)
        *out = l.a;
    else
        iq_adapter_close(l.a);
    return status;
}

void iq_adapter_close(struct iq_adapter *a)
{
    if (!a) return;
    free(a->name);
    free(a->pair);
    free(a->weights);
    free(a);
}
