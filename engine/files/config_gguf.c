/* The configuration as a GGUF file's keys tell it. */
#include "engine/files/config_parts.h"
#include "kernels/ops/moe.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct source {
    struct iq_model_file *m;
    const char *arch;
    char key[96];
    struct iq_err *err;
};

static const char *full(struct source *s, const char *suffix)
{
    snprintf(s->key, sizeof s->key, "%s.%s", s->arch, suffix);
    return s->key;
}

static int missing(struct source *s, const char *key, const char *expected)
{
    return iq_fail(s->err, IQ_FORMAT, "%s: key `%s` is missing, expected %s", iq_model_file_name(s->m), key,
                   expected);
}

static int integer(struct source *s, const char *suffix, uint64_t lo, uint64_t hi, uint64_t *out, bool *found)
{
    return iq_model_u64(s->m, full(s, suffix), lo, hi, out, found, s->err);
}

static int real(struct source *s, const char *suffix, double lo, double hi, double *out, bool *found)
{
    return iq_model_f64(s->m, full(s, suffix), lo, hi, out, found, s->err);
}

/* Keys that other members of the family use and that would change the arithmetic: only the neutral value passes. */
static int only_neutral(struct source *s)
{
    static const struct {
        const char *suffix;
        double neutral;
    } keys[] = {{"attention.scale", 0},
                {"logit_scale", 1},
                {"residual_scale", 1},
                {"embedding_scale", 1},
                {"attn_logit_softcapping", 0},
                {"final_logit_softcapping", 0},
                {"attention.clamp_kqv", 0},
                {"attention.max_alibi_bias", 0},
                {"rope.scaling.yarn_log_multiplier", 0},
                {"rope.scaling.yarn_ext_factor", 1},
                {"rope.scaling.yarn_attn_factor", 1},
                {"nextn_predict_layers", 0},
                {"expert_shared_count", 0},
                {"expert_shared_feed_forward_length", 0},
                {"expert_gating_func", 1},
                {"expert_weights_scale", 1},
                {"leading_dense_block_count", 0},
                {"interleave_moe_layer_step", 1}};
    static const struct {
        const char *suffix;
        bool neutral;
    } flags[] = {{"attention.causal", true}, {"use_parallel_residual", false}, {"expert_weights_norm", true}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        double v = keys[i].neutral;
        IQ_TRY(real(s, keys[i].suffix, -DBL_MAX, DBL_MAX, &v, NULL));
        if (v != keys[i].neutral)
            return iq_fail(s->err, IQ_UNSUPPORTED, "%s: key `%s` is %g; only %g is built",
                           iq_model_file_name(s->m), s->key, v, keys[i].neutral);
    }
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        bool v = flags[i].neutral;
        IQ_TRY(iq_model_bool(s->m, full(s, flags[i].suffix), &v, NULL, s->err));
        if (v != flags[i].neutral)
            return iq_fail(s->err, IQ_UNSUPPORTED, "%s: key `%s` is %s; this is not built",
                           iq_model_file_name(s->m), s->key, v ? "true" : "false");
    }
    return IQ_OK;
}

static int sizes(struct source *s, struct iq_model_config *c)
{
    bool found;
    uint64_t v, value_length = 0;
    for (size_t i = 0; i < iq__sizes_n; i++) {
        IQ_TRY(integer(s, iq__sizes[i].gguf, iq__sizes[i].least, iq__sizes[i].most, &v, &found));
        if (!found) return missing(s, s->key, "a size");
        *(uint32_t *)((char *)c + iq__sizes[i].field) = (uint32_t)v;
    }
    IQ_TRY(integer(s, "context_length", 1, IQ__MOST_CONTEXT, &c->context, &found));
    if (!found) return missing(s, s->key, "the number of positions");
    v = c->heads;
    IQ_TRY(integer(s, "attention.head_count_kv", 1, IQ__MOST_HEADS, &v, NULL));
    c->kv_heads = (uint32_t)v;
    v = 0;
    IQ_TRY(integer(s, "attention.key_length", 2, IQ__MOST_HEAD_DIM, &v, NULL));
    c->head_dim = (uint32_t)v;
    if (!v && c->hidden % c->heads == 0) v = c->hidden / c->heads;
    value_length = v;
    IQ_TRY(integer(s, "attention.value_length", 2, IQ__MOST_HEAD_DIM, &value_length, NULL));
    if (value_length != v)
        return iq_fail(
            s->err, IQ_UNSUPPORTED,
            "%s: key `%s` is %llu, but keys have %llu; other sizes for keys and values are not built",
            iq_model_file_name(s->m), s->key, (unsigned long long)value_length, (unsigned long long)v);
    IQ_TRY(integer(s, "rope.dimension_count", 2, IQ__MOST_HEAD_DIM, &value_length, NULL));
    if (value_length != v)
        return iq_fail(s->err, IQ_UNSUPPORTED,
                       "%s: key `%s` is %llu, but heads have %llu; partly rotated heads are not built",
                       iq_model_file_name(s->m), s->key, (unsigned long long)value_length,
                       (unsigned long long)v);
    IQ_TRY(real(s, "attention.layer_norm_rms_epsilon", 0, 1, &c->norm_eps, &found));
    return found ? IQ_OK : missing(s, s->key, "the norm's epsilon");
}

/* llama.cpp renormalises for both architectures, and gives qwen3moe's experts a width of their own. */
static int experts(struct source *s, struct iq_model_config *c)
{
    uint64_t experts = 0, active = 0, ffn = c->ffn;
    bool found;
    IQ_TRY(integer(s, "expert_count", 0, IQ_EXPERTS, &experts, NULL));
    if (!experts && iq__arch_has_experts(c->arch)) return missing(s, s->key, "the number of experts");
    IQ_TRY(integer(s, "expert_used_count", 0, IQ_EXPERT_SLOTS, &active, &found));
    if (experts && !found) return missing(s, s->key, "how many experts serve a position");
    if (active && !experts)
        return iq_fail(s->err, IQ_FORMAT, "%s: key `%s` is %llu, but no experts are counted",
                       iq_model_file_name(s->m), s->key, (unsigned long long)active);
    if (!experts) return IQ_OK;
    if (c->arch == IQ_ARCH_QWEN2 || c->arch == IQ_ARCH_QWEN3)
        return iq_fail(s->err, IQ_UNSUPPORTED,
                       "%s: experts under the architecture %s, expected llama or qwen3moe",
                       iq_model_file_name(s->m), s->arch);
    IQ_TRY(integer(s, "expert_feed_forward_length", 1, IQ__MOST_FFN, &ffn, &found));
    if (!found && c->arch == IQ_ARCH_QWEN3MOE) return missing(s, s->key, "the width of an expert");
    if (c->arch != IQ_ARCH_QWEN3MOE && ffn != c->ffn)
        return iq_fail(
            s->err, IQ_UNSUPPORTED,
            "%s: key `%s` is %llu, but the feed-forward length %u; with this architecture they are one",
            iq_model_file_name(s->m), s->key, (unsigned long long)ffn, c->ffn);
    c->experts = (uint32_t)experts;
    c->active = (uint32_t)active;
    c->ffn = (uint32_t)ffn;
    c->renormalise = true;
    return IQ_OK;
}

/* The vocabulary is the embedding's rows; keys must agree with it. */
static int vocabulary(struct source *s, struct iq_model_config *c)
{
    const struct iq_tensor *embed = iq_model_tensor_peek(s->m, "token_embd.weight");
    if (!embed)
        return iq_fail(s->err, IQ_NOT_FOUND, "%s: tensor `token_embd.weight` is missing",
                       iq_model_file_name(s->m));
    if (embed->rank != 2 || embed->dim[0] > IQ__MOST_VOCAB)
        return iq_fail(
            s->err, IQ_SHAPE,
            "%s: tensor `token_embd.weight` has %d dimensions and %llu rows, expected 2 and at most %d",
            iq_model_file_name(s->m), embed->rank, (unsigned long long)embed->dim[0], IQ__MOST_VOCAB);
    uint64_t v = embed->dim[0];
    IQ_TRY(integer(s, "vocab_size", 1, IQ__MOST_VOCAB, &v, NULL));
    c->vocab = (uint32_t)embed->dim[0];
    if (v != c->vocab)
        return iq_fail(s->err, IQ_SHAPE, "%s: key `%s` is %llu, but `token_embd.weight` has %u rows",
                       iq_model_file_name(s->m), s->key, (unsigned long long)v, c->vocab);
    size_t n = iq_model_meta_count(s->m);
    for (size_t i = 0; i < n; i++) { /* the list itself is the tokenizer's to read */
        const struct iq_meta *k = iq_model_meta_at(s->m, i);
        if (strcmp(k->key, "tokenizer.ggml.tokens") || k->type != IQ_META_ARRAY || k->n <= c->vocab) continue;
        return iq_fail(s->err, IQ_SHAPE,
                       "%s: `tokenizer.ggml.tokens` has %llu tokens, but `token_embd.weight` %u rows",
                       iq_model_file_name(s->m), (unsigned long long)k->n, c->vocab);
    }
    return IQ_OK;
}

/* A vector of head_dim/2 positive factors; *out stays NULL when there is no such tensor. */
static int factors(struct source *s, const struct iq_model_config *c, const char *name, double **out)
{
    const struct iq_tensor *t = iq_model_tensor_find(s->m, name);
    uint32_t n = (c->head_dim ? c->head_dim : c->hidden / c->heads) / 2;
    if (!t) return IQ_OK;
    if (t->format != IQ_F32 || t->rank != 1 || t->dim[0] != n)
        return iq_fail(s->err, IQ_SHAPE, "%s: tensor `%s` is %s with %llu elements, expected F32 with %u",
                       iq_model_file_name(s->m), name, t->type, (unsigned long long)t->dim[0], n);
    if (!(*out = calloc(n + 1, sizeof **out)))
        return iq_fail(s->err, IQ_MEMORY, "%s: no memory for rotary factors", iq_model_file_name(s->m));
    for (uint32_t i = 0; i < n; i++) {
        float v;
        memcpy(&v, (const char *)t->bytes + i * sizeof v, sizeof v);
        (*out)[i] = (double)v;
        if (!(v > 0 && isfinite(v)))
            return iq_fail(s->err, IQ_FORMAT, "%s: tensor `%s`: element %u is %g, expected a positive number",
                           iq_model_file_name(s->m), name, i, (double)v);
    }
    return IQ_OK;
}

static int rope(struct source *s, struct iq_model_config *c)
{
    struct iq_rope_config *r = &c->rope;
    struct iq_text kind = {"linear", 6}; /* llama.cpp's reading of a factor without a type */
    bool found, ignored;
    double factor = 0;
    bool halves = c->arch == IQ_ARCH_QWEN2 || iq__arch_has_qk_norm(c->arch); /* Qwen's */
    r->pairing = halves ? IQ_PAIR_HALVES : IQ_PAIR_NEIGHBOURS;
    IQ_TRY(real(s, "rope.freq_base", 1, 1e15, &r->theta, NULL));
    IQ_TRY(iq_model_text(s->m, full(s, "rope.scaling.type"), &kind, NULL, s->err));
    char where[400];
    snprintf(where, sizeof where, "%.280s: key `%s`", iq_model_file_name(s->m), s->key);
    IQ_TRY(iq__rope_kind_find(kind.s, kind.n, where, &r->kind, s->err));
    IQ_TRY(real(s, "rope.scaling.factor", 0, 1e6, &factor, &found));
    if (!found) IQ_TRY(real(s, "rope.scale_linear", 0, 1e6, &factor, NULL));
    IQ_TRY(
        integer(s, "rope.scaling.original_context_length", 1, IQ__MOST_CONTEXT, &r->original_context, NULL));
    IQ_TRY(iq_model_bool(s->m, full(s, "rope.scaling.finetuned"), &ignored, NULL,
                         s->err)); /* says how it was trained */
    IQ_TRY(real(s, "rope.scaling.yarn_beta_fast", 0, 1e6, &r->beta_fast, NULL));
    IQ_TRY(real(s, "rope.scaling.yarn_beta_slow", 0, 1e6, &r->beta_slow, NULL));
    IQ_TRY(real(s, "rope.scaling.attn_factor", 0, 1e6, &r->attention_factor, &found));
    if (found && r->kind != IQ_ROPE_LONGROPE && r->attention_factor != 1)
        return iq_fail(s->err, IQ_UNSUPPORTED, "%s: key `%s` is %g; with rotary scaling %s only 1 is built",
                       iq_model_file_name(s->m), s->key, r->attention_factor, iq_rope_kind_name(r->kind));
    if (r->kind == IQ_ROPE_LONGROPE)
        r->attention_factor =
            found ? r->attention_factor : 1; /* llama.cpp's default, not transformers' formula */
    else
        r->attention_factor = 0;
    r->factor = factor != 0 ? factor : 1;
    if (r->kind == IQ_ROPE_LINEAR && r->factor == 1) r->kind = IQ_ROPE_NONE;
    if (r->kind == IQ_ROPE_DYNAMIC || r->kind == IQ_ROPE_LLAMA3)
        return iq_fail(s->err, IQ_UNSUPPORTED,
                       "%s: key `%s.rope.scaling.type` is %s, which GGUF files do not use; expected none, "
                       "linear, yarn or longrope",
                       iq_model_file_name(s->m), s->arch, iq_rope_kind_name(r->kind));
    if (r->kind == IQ_ROPE_LONGROPE) {
        IQ_TRY(factors(s, c, "rope_factors_short.weight", &r->short_factor));
        IQ_TRY(factors(s, c, "rope_factors_long.weight", &r->long_factor));
        if (!r->short_factor || !r->long_factor)
            return missing(s, "rope_factors_short.weight / _long.weight", "both tensors of longrope");
        return IQ_OK;
    }
    IQ_TRY(factors(s, c, "rope_freqs.weight", &r->short_factor));
    if (r->short_factor && r->kind != IQ_ROPE_NONE)
        return iq_fail(s->err, IQ_UNSUPPORTED,
                       "%s: tensor `rope_freqs.weight` beside rotary scaling %s; expected one of the two",
                       iq_model_file_name(s->m), iq_rope_kind_name(r->kind));
    if (r->short_factor) r->kind = IQ_ROPE_FACTORS;
    return IQ_OK;
}

static int tokens(struct source *s, struct iq_model_config *c)
{
    static const char *const stops[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                        "tokenizer.ggml.eom_token_id"};
    bool found;
    uint64_t id;
    IQ_TRY(iq_model_u64(s->m, "tokenizer.ggml.bos_token_id", 0, UINT32_MAX, &id, &found, s->err));
    if (found && id < c->vocab) c->bos = (int64_t)id;
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        IQ_TRY(iq_model_u64(s->m, stops[i], 0, UINT32_MAX, &id, &found, s->err));
        if (found) iq__stop_add(s->m, c, stops[i], id);
    }
    return IQ_OK;
}

int iq__config_gguf(struct iq_model_file *m, struct iq_model_config *c, struct iq_err *err)
{
    struct source s = {.m = m, .err = err};
    struct iq_text arch = {0};
    bool found;
    char where[400];
    snprintf(where, sizeof where, "%.300s: key `general.architecture`", iq_model_file_name(m));
    IQ_TRY(iq_model_text(m, "general.architecture", &arch, &found, err));
    if (!found) return missing(&s, "general.architecture", "llama, qwen2, qwen3 or qwen3moe");
    IQ_TRY(iq__arch_find(arch.s, arch.n, where, &c->arch, err));
    s.arch = iq_arch_name(c->arch);
    IQ_TRY(only_neutral(&s));
    IQ_TRY(sizes(&s, c));
    IQ_TRY(experts(&s, c));
    IQ_TRY(vocabulary(&s, c));
    IQ_TRY(integer(&s, "attention.sliding_window", 0, IQ__MOST_CONTEXT, &c->window, NULL));
    IQ_TRY(rope(&s, c));
    IQ_TRY(tokens(&s, c));
    c->qk_norm = iq__arch_has_qk_norm(c->arch);
    c->qkv_bias = iq_model_tensor_peek(m, "blk.0.attn_q.bias") != NULL;
    if (c->arch == IQ_ARCH_QWEN2) c->qkv_bias = true;
    return IQ_OK;
}
