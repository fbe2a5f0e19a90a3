#define _GNU_SOURCE
#include "tests/files/make_model.h"
#include "kernels/base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 30, ALIGNMENT = 32 };

struct iq_test_spec iq_test_spec_default(void)
{
    return (struct iq_test_spec){.arch = "llama",
                                 .format = IQ_F32,
                                 .embed = IQ_FORMAT_NONE,
                                 .layers = 2,
                                 .hidden = 64,
                                 .ffn = 160,
                                 .heads = 4,
                                 .kv_heads = 2,
                                 .head_dim = 16,
                                 .vocab = 320};
}

struct plan {
    char hf[96], gguf[64]; /* names; in those of a stack a star stands for the expert */
    uint32_t rows, cols;   /* rows 1: a vector; of all matrices of a stack */
    uint32_t stack;        /* matrices in it; 0: it is none */
    uint32_t permute;      /* heads whose rows GGUF's llama kind permutes; 0: none */
    float mean, deviation;
    enum iq_format format;
    bool vector;
};

struct writer {
    const struct iq_test_spec *s;
    uint64_t seed;
    struct plan *t;
    size_t n, cap;
};

static void add(struct writer *w, const char *hf, const char *gguf, int layer, uint32_t rows, uint32_t cols,
                float mean, float deviation)
{
    if (w->n == w->cap) {
        w->cap = w->cap ? w->cap * 2 : 64;
        w->t = realloc(w->t, w->cap * sizeof *w->t);
        if (!w->t) abort();
    }
    struct plan *p = &w->t[w->n++];
    *p = (struct plan){.rows = rows, .cols = cols, .mean = mean, .deviation = deviation, .vector = rows == 0};
    if (p->vector) p->rows = 1;
    char prefix[40] = "", block[24] = "";
    if (layer >= 0)
        snprintf(prefix, sizeof prefix, "model.layers.%d.", layer),
            snprintf(block, sizeof block, "blk.%d.", layer);
    snprintf(p->hf, sizeof p->hf, "%s%s", prefix, hf);
    snprintf(p->gguf, sizeof p->gguf, "%s%s", block, gguf);
    bool vocab = !strcmp(hf, "lm_head.weight") || strstr(hf, "embed_tokens");
    p->format = w->s->hf || !p->vector ? w->s->format : IQ_F32;
    if (!w->s->hf && vocab && w->s->embed != IQ_FORMAT_NONE) p->format = w->s->embed;
    bool neighbours = strncmp(w->s->arch, "qwen", 4);
    if (!w->s->hf && neighbours && strstr(hf, "q_proj")) p->permute = w->s->heads;
    if (!w->s->hf && neighbours && strstr(hf, "k_proj")) p->permute = w->s->kv_heads;
}

static bool is_mixtral(const struct iq_test_spec *s) { return !strcmp(s->arch, "mixtral"); }

/* Folders have a tensor for each expert, GGUF files (but old ones) one for all of them. */
static void list_experts(struct writer *w, int l, float h, float f)
{
    const struct iq_test_spec *s = w->s;
    const struct {
        const char *mixtral, *qwen, *gguf;
        uint32_t rows, cols;
        float deviation;
    } roles[] = {{"w1", "gate_proj", "ffn_gate", s->ffn, s->hidden, h},
                 {"w3", "up_proj", "ffn_up", s->ffn, s->hidden, h},
                 {"w2", "down_proj", "ffn_down", s->hidden, s->ffn, f}};
    const char *block = is_mixtral(s) ? "block_sparse_moe" : "mlp";
    char name[64], gguf[64];
    bool apart = s->hf || s->old_experts;
    snprintf(name, sizeof name, "%s.gate.weight", block);
    add(w, name, "ffn_gate_inp.weight", l, s->experts, s->hidden, 0, 2 * h);
    for (int i = 0; i < 3; i++) {
        const char *role = is_mixtral(s) ? roles[i].mixtral : roles[i].qwen;
        for (uint32_t e = 0; apart && e < s->experts; e++) {
            snprintf(name, sizeof name, "%s.experts.%u.%s.weight", block, e, role);
            snprintf(gguf, sizeof gguf, "%s.%u.weight", roles[i].gguf, e);
            add(w, name, gguf, l, roles[i].rows, roles[i].cols, 0, roles[i].deviation);
        }
        if (apart) continue;
        snprintf(name, sizeof name, "%s.experts.*.%s.weight", block, role);
        snprintf(gguf, sizeof gguf, "%s_exps.weight", roles[i].gguf);
        add(w, name, gguf, l, s->experts * roles[i].rows, roles[i].cols, 0, roles[i].deviation);
        w->t[w->n - 1].stack = s->experts;
    }
}

static void list_tensors(struct writer *w)
{
    const struct iq_test_spec *s = w->s;
    uint32_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    float h = 1 / sqrtf((float)s->hidden), a = 1 / sqrtf((float)q), f = 1 / sqrtf((float)s->ffn);
    bool bias = !strcmp(s->arch, "qwen2"), norms = !strncmp(s->arch, "qwen3", 5);
    add(w, "model.embed_tokens.weight", "token_embd.weight", -1, s->vocab, s->hidden, 0, 2 * h);
    for (int l = 0; l < (int)s->layers; l++) {
        add(w, "input_layernorm.weight", "attn_norm.weight", l, 0, s->hidden, 1, 0.1f);
        add(w, "self_attn.q_proj.weight", "attn_q.weight", l, q, s->hidden, 0, 2 * h);
        add(w, "self_attn.k_proj.weight", "attn_k.weight", l, kv, s->hidden, 0, 2 * h);
        add(w, "self_attn.v_proj.weight", "attn_v.weight", l, kv, s->hidden, 0, h);
        if (bias) {
            add(w, "self_attn.q_proj.bias", "attn_q.bias", l, 0, q, 0, 0.2f);
            add(w, "self_attn.k_proj.bias", "attn_k.bias", l, 0, kv, 0, 0.2f);
            add(w, "self_attn.v_proj.bias", "attn_v.bias", l, 0, kv, 0, 0.2f);
        }
        if (norms) {
            add(w, "self_attn.q_norm.weight", "attn_q_norm.weight", l, 0, s->head_dim, 1, 0.1f);
            add(w, "self_attn.k_norm.weight", "attn_k_norm.weight", l, 0, s->head_dim, 1, 0.1f);
        }
        add(w, "self_attn.o_proj.weight", "attn_output.weight", l, s->hidden, q, 0, a);
        add(w, "post_attention_layernorm.weight", "ffn_norm.weight", l, 0, s->hidden, 1, 0.1f);
        if (s->experts) {
            list_experts(w, l, h, f);
            continue;
        }
        add(w, "mlp.gate_proj.weight", "ffn_gate.weight", l, s->ffn, s->hidden, 0, h);
        add(w, "mlp.up_proj.weight", "ffn_up.weight", l, s->ffn, s->hidden, 0, h);
        add(w, "mlp.down_proj.weight", "ffn_down.weight", l, s->hidden, s->ffn, 0, f);
    }
    if (s->rope_freqs && !s->hf) add(w, "rope_freqs", "rope_freqs.weight", -1, 0, s->head_dim / 2, 4, 1);
    add(w, "model.norm.weight", "output_norm.weight", -1, 0, s->hidden, 1, 0.1f);
    if (!s->tied) add(w, "lm_head.weight", "output.weight", -1, s->vocab, s->hidden, 0, 2 * h);
}

/* Row r of the file is row source(r) of the logical matrix: converters move (i, i + d/2) to (2i, 2i+1) in each head. */
static uint32_t source_row(const struct plan *p, uint32_t r)
{
    if (!p->permute) return r;
    uint32_t d = p->rows / p->permute, head = r / d, j = r % d;
    return head * d + j / 2 + (j & 1) * (d / 2);
}

/* The name of the tensor that holds row r in a folder; its row there. */
static uint32_t name_of_row(const struct plan *p, uint32_t r, char name[112])
{
    const char *star = strchr(p->hf, '*');
    uint32_t rows = p->stack ? p->rows / p->stack : p->rows;
    if (star)
        snprintf(name, 112, "%.*s%u%s", (int)(star - p->hf), p->hf, r / rows, star + 1);
    else
        snprintf(name, 112, "%s", p->hf);
    return source_row(p, r) % rows;
}

static void tensor_data(struct iq_buf *b, const struct plan *p, uint64_t seed)
{
    float *row = malloc(p->cols * sizeof *row);
    if (!row) abort();
    for (uint32_t r = 0; r < p->rows; r++) {
        char name[112];
        uint64_t base = (uint64_t)name_of_row(p, r, name) * p->cols;
        for (uint32_t c = 0; c < p->cols; c++)
            row[c] = iq_test_weight(seed, name, base + c, p->mean, p->deviation);
        iq_test_encode(b, p->format, row, p->cols);
    }
    free(row);
}

static uint64_t tensor_bytes(const struct plan *p)
{
    return p->rows * (uint64_t)iq_format_row_bytes(p->format, p->cols);
}

static void pad(struct iq_buf *b, size_t to)
{
    while (b->len % to && !iq_buf_put(b, "", 1)) {}
}

/* Tensors [begin, end) of the list belong to shard k of n. */
static void part(const struct writer *w, uint32_t k, size_t *begin, size_t *end)
{
    size_t n = w->s->shards > 1 ? w->s->shards : 1;
    *begin = w->n * k / n;
    *end = w->n * (k + 1) / n;
}

/* ---- GGUF ---- */

/* Qwen3-MoE names beside its experts' width one that no layer has. */
static uint32_t dense_ffn(const struct iq_test_spec *s)
{
    return s->experts && !is_mixtral(s) ? s->ffn + 32 : s->ffn;
}

static uint64_t gguf_keys(struct iq_buf *b, const struct iq_test_spec *s)
{
    bool llama = is_mixtral(s) || !strcmp(s->arch, "mistral"), moe = s->experts;
    const char *arch = llama ? "llama" : s->arch;
    char key[80];
    const struct {
        const char *name;
        uint32_t value;
    } sizes[] = {{"block_count", s->layers},
                 {"context_length", s->context ? s->context : 512},
                 {"embedding_length", s->hidden},
                 {"feed_forward_length", dense_ffn(s)},
                 {"attention.head_count", s->heads},
                 {"attention.head_count_kv", s->kv_heads},
                 {"attention.key_length", s->head_dim},
                 {"attention.value_length", s->head_dim},
                 {"rope.dimension_count", s->head_dim},
                 {"vocab_size", s->vocab},
                 {"expert_count", s->experts},
                 {"expert_used_count", s->active},
                 {"expert_feed_forward_length", s->ffn}};
    size_t n = sizeof sizes / sizeof *sizes - (moe ? 0 : 3);
    uint64_t keys = 4 + n;
    iq_test_key_text(b, "general.architecture", arch);
    iq_test_key_text(b, "general.name", "a small random model");
    for (size_t i = 0; i < n; i++) {
        snprintf(key, sizeof key, "%s.%s", arch, sizes[i].name);
        iq_test_key_u32(b, key, sizes[i].value);
    }
    snprintf(key, sizeof key, "%s.rope.freq_base", arch);
    iq_test_key_f32(b, key, (float)(s->theta != 0 ? s->theta : 10000));
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", arch);
    iq_test_key_f32(b, key, 1e-5f);
    if (!s->no_tokenizer) iq_test_gguf_tokenizer(b, s->vocab, &keys);
    return keys;
}

static void gguf_key_u16(struct iq_buf *b, const char *key, uint16_t v)
{
    iq_test_put_text(b, key);
    iq_test_put_u32(b, 2);
    iq_buf_put(b, &v, sizeof v);
}

static void gguf_descriptions(struct iq_buf *b, const struct writer *w, size_t begin, size_t end)
{
    uint64_t offset = 0;
    static const uint32_t types[IQ_FORMATS] = {
        [IQ_F32] = 0, [IQ_F16] = 1, [IQ_BF16] = 30, [IQ_Q8_0] = 8, [IQ_Q4_0] = 2, [IQ_Q4_1] = 3};
    for (size_t i = begin; i < end; i++) {
        const struct plan *p = &w->t[i];
        iq_test_put_text(b, p->gguf);
        iq_test_put_u32(b, p->vector ? 1 : p->stack ? 3 : 2);
        iq_test_put_u64(b, p->cols);
        if (!p->vector) iq_test_put_u64(b, p->stack ? p->rows / p->stack : p->rows);
        if (p->stack) iq_test_put_u64(b, p->stack);
        iq_test_put_u32(b, types[p->format]);
        iq_test_put_u64(b, offset);
        offset = (offset + tensor_bytes(p) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
}

static int write_gguf(const char *path, const struct writer *w, uint32_t k, struct iq_err *err)
{
    struct iq_buf head = IQ_BUF(MOST), keys = IQ_BUF(MOST);
    size_t begin, end;
    uint64_t n_keys = 0;
    char name[4096];
    snprintf(name, sizeof name, "%s", path);
    part(w, k, &begin, &end);
    if (k == 0) n_keys = gguf_keys(&keys, w->s);
    if (w->s->shards > 1) {
        snprintf(name, sizeof name, "%s-%05u-of-%05u.gguf", path, k + 1, w->s->shards);
        gguf_key_u16(&keys, "split.no", (uint16_t)k);
        gguf_key_u16(&keys, "split.count", (uint16_t)w->s->shards);
        iq_test_put_text(&keys, "split.tensors.count");
        iq_test_put_u32(&keys, 5);
        iq_test_put_u32(&keys, (uint32_t)w->n);
        n_keys += 3;
    }
    iq_buf_put(&head, "GGUF", 4);
    iq_test_put_u32(&head, 3);
    iq_test_put_u64(&head, end - begin);
    iq_test_put_u64(&head, n_keys);
    iq_buf_put(&head, keys.data, keys.len);
    gguf_descriptions(&head, w, begin, end);
    for (size_t i = begin; i < end; i++) pad(&head, ALIGNMENT), tensor_data(&head, &w->t[i], w->seed);
    int status = head.failed || keys.failed
                     ? iq_fail(err, IQ_MEMORY, "%s: the model is too large for a test", name)
                     : iq_test_write_file(name, head.data, head.len, err);
    iq_buf_free(&head);
    iq_buf_free(&keys);
    return status;
}

/* ---- Hugging Face ---- */

static int write_text(const char *folder, const char *name, struct iq_buf *b, struct iq_err *err)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int status = b->failed ? iq_fail(err, IQ_MEMORY, "%s: too large for a test", path)
                           : iq_test_write_file(path, b->data, b->len, err);
    iq_buf_free(b);
    return status;
}

static void shard_name(const struct iq_test_spec *s, uint32_t k, char name[64])
{
    if (s->shards > 1)
        snprintf(name, 64, "model-%05u-of-%05u.safetensors", k + 1, s->shards);
    else
        snprintf(name, 64, "model.safetensors");
}

static int write_shard(const char *folder, const struct writer *w, uint32_t k, struct iq_err *err)
{
    struct iq_buf head = IQ_BUF(MOST), file = IQ_BUF(MOST);
    char name[64];
    size_t begin, end;
    uint64_t offset = 0;
    part(w, k, &begin, &end);
    iq_buf_printf(&head, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (size_t i = begin; i < end; i++) {
        const struct plan *p = &w->t[i];
        uint64_t next = offset + tensor_bytes(p);
        iq_buf_printf(&head, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", p->hf, iq_format_info(p->format)->name);
        if (!p->vector) iq_buf_printf(&head, "%u,", p->rows);
        iq_buf_printf(&head, "%u],\"data_offsets\":[%llu,%llu]}", p->cols, (unsigned long long)offset,
                      (unsigned long long)next);
        offset = next;
    }
    iq_buf_printf(&head, "}");
    while (head.len % 8 != (w->s->unaligned ? 3 : 0) && !iq_buf_put(&head, " ", 1)) {}
    iq_test_put_u64(&file, head.len);
    iq_buf_put(&file, head.data, head.len);
    for (size_t i = begin; i < end; i++) tensor_data(&file, &w->t[i], w->seed);
    iq_buf_free(&head);
    shard_name(w->s, k, name);
    return write_text(folder, name, &file, err);
}

static int write_index(const char *folder, const struct writer *w, struct iq_err *err)
{
    struct iq_buf b = IQ_BUF(MOST);
    char name[64];
    iq_buf_printf(&b, "{\"metadata\":{},\"weight_map\":{");
    for (uint32_t k = 0; k < w->s->shards; k++) {
        size_t begin, end;
        part(w, k, &begin, &end);
        shard_name(w->s, k, name);
        for (size_t i = begin; i < end; i++)
            iq_buf_printf(&b, "%s\n\"%s\":\"%s\"", i ? "," : "", w->t[i].hf, name);
    }
    iq_buf_printf(&b, "}}\n");
    return write_text(folder, "model.safetensors.index.json", &b, err);
}

static int write_config(const char *folder, const struct iq_test_spec *s, struct iq_err *err)
{
    static const struct {
        const char *arch, *type, *class;
    } classes[] = {
        {"llama", "llama", "LlamaForCausalLM"},       {"mistral", "mistral", "MistralForCausalLM"},
        {"qwen2", "qwen2", "Qwen2ForCausalLM"},       {"qwen3", "qwen3", "Qwen3ForCausalLM"},
        {"mixtral", "mixtral", "MixtralForCausalLM"}, {"qwen3moe", "qwen3_moe", "Qwen3MoeForCausalLM"}};
    static const char *const dtypes[IQ_FORMATS] = {
        [IQ_F32] = "float32", [IQ_F16] = "float16", [IQ_BF16] = "bfloat16"};
    const char *class = "?", *type = "?";
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (!strcmp(classes[i].arch, s->arch)) class = classes[i].class, type = classes[i].type;
    struct iq_buf b = IQ_BUF(1 << 20);
    iq_buf_printf(
        &b,
        "{\"architectures\":[\"%s\"],\"model_type\":\"%s\",\"hidden_act\":\"silu\",\"torch_dtype\":\"%s\",\n",
        class, type, dtypes[s->format]);
    iq_buf_printf(
        &b,
        "\"num_hidden_layers\":%u,\"hidden_size\":%u,\"intermediate_size\":%u,\"num_attention_heads\":%u,\n",
        s->layers, s->hidden, dense_ffn(s), s->heads);
    iq_buf_printf(
        &b, "\"num_key_value_heads\":%u,\"head_dim\":%u,\"vocab_size\":%u,\"max_position_embeddings\":%u,\n",
        s->kv_heads, s->head_dim, s->vocab, s->context ? s->context : 512);
    iq_buf_printf(&b, "\"rms_norm_eps\":1e-05,\"rope_theta\":%.17g,\"tie_word_embeddings\":%s,\n",
                  s->theta != 0 ? s->theta : 10000, s->tied ? "true" : "false");
    if (s->experts)
        iq_buf_printf(&b, "\"%s\":%u,\"num_experts_per_tok\":%u,\n",
                      is_mixtral(s) ? "num_local_experts" : "num_experts", s->experts, s->active);
    if (s->experts && !is_mixtral(s))
        iq_buf_printf(&b,
                      "\"moe_intermediate_size\":%u,\"norm_topk_prob\":%s,\"decoder_sparse_step\":1,"
                      "\"mlp_only_layers\":[],\n",
                      s->ffn, s->plain_weights ? "false" : "true");
    iq_buf_printf(&b, "\"bos_token_id\":1,\"eos_token_id\":2%s%s%s}\n",
                  s->rope_scaling ? ",\"rope_scaling\":" : "", s->rope_scaling ? s->rope_scaling : "",
                  s->extra ? s->extra : "");
    return write_text(folder, "config.json", &b, err);
}

static int write_hf(const char *folder, const struct writer *w, struct iq_err *err)
{
    const struct iq_test_spec *s = w->s;
    IQ_TRY(write_config(folder, s, err));
    for (uint32_t k = 0; k < (s->shards > 1 ? s->shards : 1); k++) IQ_TRY(write_shard(folder, w, k, err));
    if (s->shards > 1) IQ_TRY(write_index(folder, w, err));
    if (s->no_tokenizer) return IQ_OK;
    struct iq_buf tokenizer = IQ_BUF(MOST), config = IQ_BUF(1 << 20);
    iq_test_hf_tokenizer(&tokenizer, s->vocab);
    IQ_TRY(write_text(folder, "tokenizer.json", &tokenizer, err));
    iq_buf_printf(&config, "{\"tokenizer_class\":\"PreTrainedTokenizerFast\",\"bos_token\":\"<|im_start|>\","
                           "\"eos_token\":\"<|im_end|>\",\"chat_template\":");
    struct iq_jw w2 = IQ_JW(&config);
    iq_jw_str(&w2, iq_test_chat_template);
    iq_buf_printf(&config, "}\n");
    return write_text(folder, "tokenizer_config.json", &config, err);
}

static int check(const struct writer *w, struct iq_err *err)
{
    for (size_t i = 0; i < w->n; i++) {
        const struct plan *p = &w->t[i];
        size_t block = iq_format_info(p->format)->elements;
        if (p->cols % block)
            return iq_fail(err, IQ_USAGE, "%s: %u columns in %s, expected a multiple of %zu", p->hf, p->cols,
                           iq_format_info(p->format)->name, block);
        if (w->s->hf && block > 1)
            return iq_fail(err, IQ_USAGE, "%s: a Hugging Face folder holds F32, F16 or BF16, not %s", p->hf,
                           iq_format_info(p->format)->name);
    }
    return IQ_OK;
}

int iq_test_write_model(const char *path, const struct iq_test_spec *spec, uint64_t seed, struct iq_err *err)
{
    struct writer w = {.s = spec, .seed = seed};
    list_tensors(&w);
    int status = check(&w, err);
    if (status == IQ_OK && spec->hf) status = write_hf(path, &w, err);
    for (uint32_t k = 0; status == IQ_OK && !spec->hf && k < (spec->shards > 1 ? spec->shards : 1); k++)
        status = write_gguf(path, &w, k, err);
    free(w.t);
    return status;
}
