/* The configuration as a Hugging Face folder's JSON files tell it; its rotary part is in rope_hf.c. */
#include "engine/files/config_parts.h"
#include "kernels/ops/moe.h"

#include <stdio.h>
#include <string.h>

struct source {
    struct iq_model_file *m;
    const cJSON *config;
    const char *where;
    struct iq_err *err;
};

static int integer(struct source *s, const char *key, uint64_t lo, uint64_t hi, uint64_t *out)
{
    iq_model_json_use(s->config, key);
    return iq_json_u64_opt(s->config, key, lo, hi, s->where, out, s->err);
}

static int flag(struct source *s, const char *key, bool *out)
{
    iq_model_json_use(s->config, key);
    return iq_json_bool_opt(s->config, key, s->where, out, s->err);
}

static bool is_there(const cJSON *item) { return item && !cJSON_IsNull(item); }

static int architecture(struct source *s, struct iq_model_config *c)
{
    static const char suffix[] = "ForCausalLM";
    const char *type, *act = "silu";
    char where[400];
    iq_model_json_use(s->config, "model_type");
    IQ_TRY(iq_json_str(s->config, "model_type", s->where, &type, s->err));
    snprintf(where, sizeof where, "%.300s: `model_type`", s->where);
    IQ_TRY(iq__arch_find(type, strlen(type), where, &c->arch, s->err));
    const cJSON *list = iq_model_json_use(s->config, "architectures");
    const cJSON *first = cJSON_IsArray(list) ? list->child : NULL;
    if (first) {
        size_t n = cJSON_IsString(first) ? strlen(first->valuestring) : 0;
        if (n < sizeof suffix || strcmp(first->valuestring + n - (sizeof suffix - 1), suffix))
            return iq_fail(s->err, IQ_UNSUPPORTED,
                           "%s: `architectures`: found \"%.60s\", expected a causal language model (...%s)",
                           s->where, n ? first->valuestring : "?", suffix);
    }
    iq_model_json_use(s->config, "hidden_act");
    IQ_TRY(iq_json_str_opt(s->config, "hidden_act", s->where, &act, s->err));
    if (strcmp(act, "silu") && strcmp(act, "swish"))
        return iq_fail(s->err, IQ_UNSUPPORTED, "%s: `hidden_act`: found \"%.40s\", expected silu", s->where,
                       act);
    if (is_there(cJSON_GetObjectItemCaseSensitive(s->config, "quantization_config")))
        return iq_fail(s->err, IQ_UNSUPPORTED,
                       "%s: `quantization_config`: quantised safetensors are not read; expected F32, F16 or "
                       "BF16 weights",
                       s->where);
    return IQ_OK;
}

static int sizes(struct source *s, struct iq_model_config *c)
{
    uint64_t v;
    for (size_t i = 0; i < iq__sizes_n; i++) {
        iq_model_json_use(s->config, iq__sizes[i].hf);
        IQ_TRY(iq_json_u64(s->config, iq__sizes[i].hf, iq__sizes[i].least, iq__sizes[i].most, s->where, &v,
                           s->err));
        *(uint32_t *)((char *)c + iq__sizes[i].field) = (uint32_t)v;
    }
    iq_model_json_use(s->config, "vocab_size");
    IQ_TRY(iq_json_u64(s->config, "vocab_size", 1, IQ__MOST_VOCAB, s->where, &v, s->err));
    c->vocab = (uint32_t)v;
    iq_model_json_use(s->config, "max_position_embeddings");
    IQ_TRY(iq_json_u64(s->config, "max_position_embeddings", 1, IQ__MOST_CONTEXT, s->where, &c->context,
                       s->err));
    v = c->heads;
    if (c->arch != IQ_ARCH_LLAMA && !cJSON_GetObjectItemCaseSensitive(s->config, "num_key_value_heads"))
        return iq_fail(s->err, IQ_FORMAT, "%s: `num_key_value_heads` is missing, expected an integer or null",
                       s->where);
    IQ_TRY(integer(s, "num_key_value_heads", 1, IQ__MOST_HEADS, &v));
    c->kv_heads = (uint32_t)v;
    v = 0;
    IQ_TRY(integer(s, "head_dim", 2, IQ__MOST_HEAD_DIM, &v));
    if (!v && c->arch == IQ_ARCH_QWEN3) v = 128; /* that class's default, not the quotient */
    c->head_dim = (uint32_t)v;
    c->norm_eps = 1e-6;
    iq_model_json_use(s->config, "rms_norm_eps");
    return iq_json_f64_opt(s->config, "rms_norm_eps", 0, 1, s->where, &c->norm_eps, s->err);
}

/* Newer versions of transformers have one name for both classes. */
static int count_experts(struct source *s, struct iq_model_config *c, uint64_t *out)
{
    const char *key = "num_local_experts";
    if (c->arch == IQ_ARCH_QWEN3MOE && !cJSON_GetObjectItemCaseSensitive(s->config, key)) key = "num_experts";
    iq_model_json_use(s->config, key);
    return iq_json_u64(s->config, key, 1, IQ_EXPERTS, s->where, out, s->err);
}

/* Qwen3-MoE may have dense layers; only models of experts alone are built. */
static int dense_layers(struct source *s)
{
    uint64_t step = 1;
    IQ_TRY(integer(s, "decoder_sparse_step", 1, 1 << 20, &step));
    const cJSON *list = iq_model_json_use(s->config, "mlp_only_layers");
    if (step != 1 || (is_there(list) && (!cJSON_IsArray(list) || list->child)))
        return iq_fail(s->err, IQ_UNSUPPORTED,
                       "%s: `%s` asks for layers without experts, which is not built beside layers with them",
                       s->where, step != 1 ? "decoder_sparse_step" : "mlp_only_layers");
    return IQ_OK;
}

static int experts(struct source *s, struct iq_model_config *c)
{
    uint64_t experts, active, ffn;
    if (!iq__arch_has_experts(c->arch)) return IQ_OK;
    IQ_TRY(count_experts(s, c, &experts));
    iq_model_json_use(s->config, "num_experts_per_tok");
    IQ_TRY(iq_json_u64(s->config, "num_experts_per_tok", 1, IQ_EXPERT_SLOTS, s->where, &active, s->err));
    c->experts = (uint32_t)experts;
    c->active = (uint32_t)active;
    c->renormalise = c->arch == IQ_ARCH_MIXTRAL;
    if (c->arch == IQ_ARCH_MIXTRAL) return IQ_OK;
    IQ_TRY(dense_layers(s));
    IQ_TRY(flag(s, "norm_topk_prob", &c->renormalise)); /* absent: the class's default, false */
    iq_model_json_use(s->config, "moe_intermediate_size");
    IQ_TRY(iq_json_u64(s->config, "moe_intermediate_size", 1, IQ__MOST_FFN, s->where, &ffn, s->err));
    c->ffn = (uint32_t)ffn;
    return IQ_OK;
}

/* Which layers have the window, from `layer_types`: all full, or full ones first and sliding ones after. */
static int layer_types(struct source *s, struct iq_model_config *c, const cJSON *list)
{
    const cJSON *item;
    uint32_t layer = 0, first = c->layers;
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != (int)c->layers)
        return iq_fail(s->err, IQ_FORMAT, "%s: `layer_types` is no list of %u layers", s->where, c->layers);
    cJSON_ArrayForEach(item, list)
    {
        const char *type = cJSON_IsString(item) ? item->valuestring : "?";
        bool sliding = !strcmp(type, "sliding_attention");
        if (!sliding && strcmp(type, "full_attention"))
            return iq_fail(
                s->err, IQ_UNSUPPORTED,
                "%s: `layer_types`[%u]: found \"%.40s\", expected full_attention or sliding_attention",
                s->where, layer, type);
        if (sliding && first == c->layers) first = layer;
        if (!sliding && first < c->layers)
            return iq_fail(s->err, IQ_UNSUPPORTED,
                           "%s: `layer_types`[%u]: full attention after a sliding layer; only a tail of "
                           "sliding layers is built",
                           s->where, layer);
        layer++;
    }
    c->window_layer = first;
    return IQ_OK;
}

static int window(struct source *s, struct iq_model_config *c)
{
    if (c->arch == IQ_ARCH_LLAMA) return IQ_OK; /* the class has no window; its key stays unread */
    const cJSON *item = iq_model_json_use(s->config, "sliding_window");
    IQ_TRY(integer(s, "sliding_window", 1, IQ__MOST_CONTEXT, &c->window));
    if (c->arch == IQ_ARCH_MIXTRAL) return IQ_OK;
    if (c->arch == IQ_ARCH_MISTRAL) {
        if (item) return IQ_OK;
        c->window = 4096; /* the class's default; null means none */
        if (c->context > c->window)
            iq_model_file_add_note(
                s->m, "%s does not name `sliding_window`: transformers' default of 4096 holds", s->where);
        return IQ_OK;
    }
    bool used = false;
    bool all = c->arch == IQ_ARCH_QWEN3MOE; /* the class has no max_window_layers */
    uint64_t from = all ? 0 : 28;
    if (!item) c->window = 4096;
    IQ_TRY(flag(s, "use_sliding_window", &used));
    if (!all) IQ_TRY(integer(s, "max_window_layers", 0, 1 << 20, &from));
    if (!used) c->window = 0;
    c->window_layer = (uint32_t)from;
    const cJSON *list = iq_model_json_use(s->config, "layer_types");
    return is_there(list) ? layer_types(s, c, list) : IQ_OK;
}

static int biases(struct source *s, struct iq_model_config *c)
{
    bool attention = false, mlp = false;
    bool qk_norm = iq__arch_has_qk_norm(c->arch);
    if (c->arch == IQ_ARCH_LLAMA || qk_norm) IQ_TRY(flag(s, "attention_bias", &attention));
    if (c->arch == IQ_ARCH_LLAMA) IQ_TRY(flag(s, "mlp_bias", &mlp));
    if (attention || mlp)
        return iq_fail(
            s->err, IQ_UNSUPPORTED,
            "%s: `%s` is true: the output projection or the feed-forward part has a bias, which is not built",
            s->where, attention ? "attention_bias" : "mlp_bias");
    c->qkv_bias = c->arch == IQ_ARCH_QWEN2;
    c->qk_norm = qk_norm;
    return IQ_OK;
}

/* An id, a list of ids, or nothing. */
static int stops(struct source *s, struct iq_model_config *c, const cJSON *object, const char *file,
                 bool *any)
{
    char where[400];
    const cJSON *item = iq_model_json_use(object, "eos_token_id"), *one;
    snprintf(where, sizeof where, "%.300s: `eos_token_id`", file);
    *any = is_there(item);
    if (!*any) return IQ_OK;
    for (one = cJSON_IsArray(item) ? item->child : item; one; one = cJSON_IsArray(item) ? one->next : NULL) {
        uint64_t id;
        IQ_TRY(iq_json_item_u64(one, 0, UINT32_MAX, where, &id, s->err));
        iq__stop_add(s->m, c, where, id);
    }
    return IQ_OK;
}

/* generation_config.json is what transformers obeys when it generates; config.json stands in for it. */
static int tokens(struct source *s, struct iq_model_config *c)
{
    const cJSON *generation;
    bool any = false;
    uint64_t bos = UINT64_MAX;
    IQ_TRY(iq_model_json(s->m, "generation_config.json", &generation, s->err));
    if (generation) IQ_TRY(stops(s, c, generation, "generation_config.json", &any));
    if (!any) IQ_TRY(stops(s, c, s->config, s->where, &any));
    bool classic = c->arch == IQ_ARCH_LLAMA || c->arch == IQ_ARCH_MISTRAL ||
                   c->arch == IQ_ARCH_MIXTRAL; /* these classes default to 1 and 2 */
    if (!any && classic && !cJSON_GetObjectItemCaseSensitive(s->config, "eos_token_id"))
        iq__stop_add(s->m, c, "eos_token_id", 2);
    const cJSON *item = iq_model_json_use(s->config, "bos_token_id");
    if (!item && classic) bos = 1;
    IQ_TRY(integer(s, "bos_token_id", 0, UINT32_MAX, &bos));
    if (bos < c->vocab) c->bos = (int64_t)bos;
    return IQ_OK;
}

int iq__config_hf(struct iq_model_file *m, struct iq_model_config *c, struct iq_err *err)
{
    char where[400];
    const char *dtype = "";
    snprintf(where, sizeof where, "%.380s/config.json", iq_model_file_name(m));
    struct source s = {.m = m, .where = where, .err = err};
    IQ_TRY(iq_model_json(m, "config.json", &s.config, err));
    if (!s.config) return iq_fail(err, IQ_NOT_FOUND, "%s: is missing", where);
    IQ_TRY(architecture(&s, c));
    IQ_TRY(sizes(&s, c));
    IQ_TRY(experts(&s, c));
    IQ_TRY(window(&s, c));
    IQ_TRY(biases(&s, c));
    if (c->arch == IQ_ARCH_MIXTRAL) c->rope.theta = 1e6; /* the class's default */
    IQ_TRY(iq__rope_hf(s.config, where, c, err));
    IQ_TRY(tokens(&s, c));
    IQ_TRY(flag(&s, "tie_word_embeddings", &c->tied));
    const char *key = iq_model_json_use(s.config, "dtype") ? "dtype" : "torch_dtype";
    iq_model_json_use(s.config, key);
    IQ_TRY(iq_json_str_opt(s.config, key, where, &dtype, err));
    snprintf(c->dtype, sizeof c->dtype, "%.15s", dtype);
    return IQ_OK;
}
