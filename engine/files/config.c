/* A model's configuration, from either source: names, limits, what holds between fields. */
#include "engine/files/config_parts.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const char *const arch_names[IQ_ARCHS] = {
    [IQ_ARCH_LLAMA] = "llama", [IQ_ARCH_MISTRAL] = "mistral", [IQ_ARCH_QWEN2] = "qwen2",
    [IQ_ARCH_QWEN3] = "qwen3", [IQ_ARCH_MIXTRAL] = "mixtral", [IQ_ARCH_QWEN3MOE] = "qwen3moe"};

static const char *const rope_names[IQ_ROPE_KINDS] = {
#define X(id, name) [IQ_ROPE_##id] = (name),
    IQ_ROTARY_KIND_MAP(X)
#undef X
        [IQ_ROPE_FACTORS] = "factors"};

/* Other spellings that files use. */
static const struct {
    const char *name;
    enum iq_rope_kind kind;
} rope_aliases[] = {{"default", IQ_ROPE_NONE}, {"su", IQ_ROPE_LONGROPE}};

const char *iq_arch_name(enum iq_arch a) { return arch_names[a]; }
const char *iq_rope_kind_name(enum iq_rope_kind k) { return rope_names[k]; }

const struct iq__size iq__sizes[] = {
    {"block_count", "num_hidden_layers", offsetof(struct iq_model_config, layers), 1, 1024},
    {"embedding_length", "hidden_size", offsetof(struct iq_model_config, hidden), 1, 65536},
    {"feed_forward_length", "intermediate_size", offsetof(struct iq_model_config, ffn), 1, IQ__MOST_FFN},
    {"attention.head_count", "num_attention_heads", offsetof(struct iq_model_config, heads), 1,
     IQ__MOST_HEADS},
};
const size_t iq__sizes_n = sizeof iq__sizes / sizeof *iq__sizes;

static bool is_word(const char *name, const char *s, size_t n)
{
    return strlen(name) == n && !memcmp(name, s, n);
}

int iq__arch_find(const char *name, size_t n, const char *where, enum iq_arch *out, struct iq_err *err)
{
    *out = IQ_ARCH_LLAMA;
    for (int a = 0; a < IQ_ARCHS; a++)
        if (is_word(arch_names[a], name, n)) return *out = (enum iq_arch)a, IQ_OK;
    if (is_word("qwen3_moe", name, n)) return *out = IQ_ARCH_QWEN3MOE, IQ_OK; /* Hugging Face's spelling */
    return iq_fail(err, IQ_UNSUPPORTED,
                   "%s: found the architecture \"%.*s\", expected llama, mistral, qwen2, qwen3, mixtral or "
                   "qwen3moe",
                   where, n > 40 ? 40 : (int)n, name);
}

int iq__rope_kind_find(const char *name, size_t n, const char *where, enum iq_rope_kind *out,
                       struct iq_err *err)
{
    *out = IQ_ROPE_NONE;
    for (int k = 0; k < IQ_ROPE_FACTORS; k++) /* factors has no name in files */
        if (is_word(rope_names[k], name, n)) return *out = (enum iq_rope_kind)k, IQ_OK;
    for (size_t i = 0; i < sizeof rope_aliases / sizeof *rope_aliases; i++)
        if (is_word(rope_aliases[i].name, name, n)) return *out = rope_aliases[i].kind, IQ_OK;
    return iq_fail(
        err, IQ_UNSUPPORTED,
        "%s: found the rotary scaling \"%.*s\", expected none, linear, dynamic, yarn, llama3 or longrope",
        where, n > 40 ? 40 : (int)n, name);
}

void iq__stop_add(struct iq_model_file *m, struct iq_model_config *c, const char *key, uint64_t id)
{
    if (id >= c->vocab) {
        iq_model_file_add_note(m, "%s %llu lies outside the vocabulary of %u tokens and was left out", key,
                               (unsigned long long)id, c->vocab);
        return;
    }
    for (uint32_t i = 0; i < c->stops; i++)
        if (c->stop[i] == (int64_t)id) return;
    if (c->stops < IQ_MAX_STOPS)
        c->stop[c->stops++] = (int64_t)id;
    else
        iq_model_file_add_note(m, "%s: more than %d stop ids; %llu was left out", key, IQ_MAX_STOPS,
                               (unsigned long long)id);
}

/* What needs more than one field; completes defaults. */
static int check(const struct iq_model_file *m, struct iq_model_config *c, struct iq_err *err)
{
    const char *name = iq_model_file_name(m);
    if (!c->head_dim && c->hidden % c->heads)
        return iq_fail(err, IQ_SHAPE,
                       "%s: the width %u is no multiple of %u heads, and no head size is named", name,
                       c->hidden, c->heads);
    if (!c->head_dim) c->head_dim = c->hidden / c->heads;
    if (c->head_dim % 2 || c->head_dim > IQ__MOST_HEAD_DIM)
        return iq_fail(err, IQ_SHAPE, "%s: found a head size of %u, expected an even number up to %d", name,
                       c->head_dim, IQ__MOST_HEAD_DIM);
    if (c->heads % c->kv_heads)
        return iq_fail(err, IQ_SHAPE, "%s: found %u heads on %u KV heads, expected a multiple", name,
                       c->heads, c->kv_heads);
    if ((uint64_t)c->heads * c->head_dim > 1 << 20)
        return iq_fail(err, IQ_SHAPE, "%s: found %u heads of %u, expected a product up to %d", name, c->heads,
                       c->head_dim, 1 << 20);
    if (c->experts && (c->active < 1 || c->active > c->experts))
        return iq_fail(err, IQ_SHAPE, "%s: found %u of %u experts for a position, expected 1 to all of them",
                       name, c->active, c->experts);
    struct iq_rope_config *r = &c->rope;
    if (!r->original_context) r->original_context = c->context;
    if (r->factor == 0) r->factor = (double)c->context / (double)r->original_context;
    if (r->kind == IQ_ROPE_LLAMA3 && !(r->high_freq_factor > r->low_freq_factor))
        return iq_fail(err, IQ_FORMAT,
                       "%s: rotary scaling llama3: found high_freq_factor %g and low_freq_factor %g, "
                       "expected the first to be larger",
                       name, r->high_freq_factor, r->low_freq_factor);
    if (c->window >= c->context) c->window = 0; /* it can never cut anything off */
    if (c->window_layer >= c->layers) c->window = 0;
    if (!c->window) c->window_layer = 0;
    return IQ_OK;
}

int iq_model_config_read(struct iq_model_file *m, struct iq_model_config *c, struct iq_model_tensors *t,
                         struct iq_err *err)
{
    *c = (struct iq_model_config){.bos = IQ_NO_TOKEN};
    *t = (struct iq_model_tensors){0};
    c->rope = (struct iq_rope_config){.theta = 10000, .beta_fast = 32, .beta_slow = 1, .truncate = true};
    int status = iq_model_file_kind(m) == IQ_MODEL_HF ? iq__config_hf(m, c, err) : iq__config_gguf(m, c, err);
    bool tie = c->tied;
    if (status == IQ_OK) status = check(m, c, err);
    if (status == IQ_OK) status = iq__tensors_resolve(m, c, tie, t, err);
    if (status != IQ_OK) iq_model_config_free(c, t);
    return status;
}

void iq_model_config_free(struct iq_model_config *c, struct iq_model_tensors *t)
{
    free(c->rope.short_factor);
    free(c->rope.long_factor);
    free(t->layer);
    free(t->expert);
    c->rope.short_factor = c->rope.long_factor = NULL;
    t->layer = NULL;
    t->expert = NULL;
}
