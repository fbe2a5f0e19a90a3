/* Which tensor of the file plays which role of the model. */
#include "engine/files/config_parts.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum dim { ONE, HIDDEN, FFN, Q_WIDTH, KV_WIDTH, HEAD_DIM, VOCAB, EXPERTS, DIMS };
enum when { ALWAYS, WITH_BIAS, WITH_QK_NORM, DENSE, EXPERT };

/* Names of a tensor in both sources and its dimensions (rows ONE: a vector). `field` is its place in the table. */
struct role {
    const char *gguf, *hf;
    size_t field;
    enum dim rows, cols;
    enum when when;
};

#define LAYER(member) offsetof(struct iq_layer_tensors, member)
#define EACH(member)  offsetof(struct iq_expert_tensors, member)
static const struct role layer_roles[] = {
    {"attn_norm.weight", "input_layernorm.weight", LAYER(attn_norm), ONE, HIDDEN, ALWAYS},
    {"attn_q.weight", "self_attn.q_proj.weight", LAYER(q), Q_WIDTH, HIDDEN, ALWAYS},
    {"attn_k.weight", "self_attn.k_proj.weight", LAYER(k), KV_WIDTH, HIDDEN, ALWAYS},
    {"attn_v.weight", "self_attn.v_proj.weight", LAYER(v), KV_WIDTH, HIDDEN, ALWAYS},
    {"attn_output.weight", "self_attn.o_proj.weight", LAYER(o), HIDDEN, Q_WIDTH, ALWAYS},
    {"attn_q.bias", "self_attn.q_proj.bias", LAYER(q_bias), ONE, Q_WIDTH, WITH_BIAS},
    {"attn_k.bias", "self_attn.k_proj.bias", LAYER(k_bias), ONE, KV_WIDTH, WITH_BIAS},
    {"attn_v.bias", "self_attn.v_proj.bias", LAYER(v_bias), ONE, KV_WIDTH, WITH_BIAS},
    {"attn_q_norm.weight", "self_attn.q_norm.weight", LAYER(q_norm), ONE, HEAD_DIM, WITH_QK_NORM},
    {"attn_k_norm.weight", "self_attn.k_norm.weight", LAYER(k_norm), ONE, HEAD_DIM, WITH_QK_NORM},
    {"ffn_norm.weight", "post_attention_layernorm.weight", LAYER(ffn_norm), ONE, HIDDEN, ALWAYS},
    {"ffn_gate.weight", "mlp.gate_proj.weight", LAYER(gate), FFN, HIDDEN, DENSE},
    {"ffn_up.weight", "mlp.up_proj.weight", LAYER(up), FFN, HIDDEN, DENSE},
    {"ffn_down.weight", "mlp.down_proj.weight", LAYER(down), HIDDEN, FFN, DENSE},
};

/* Experts: GGUF stacks those of a layer in one tensor; folders give each its own, in the words of their class. */
struct spelling {
    const char *block; /* of folders: the router stands in it, and experts.0. and so on */
    struct role router, expert[3];
};
static const struct spelling mixtral = {
    "block_sparse_moe.",
    {"ffn_gate_inp.weight", "gate.weight", LAYER(router), EXPERTS, HIDDEN, ALWAYS},
    {{"ffn_gate_exps.weight", "w1.weight", EACH(gate), FFN, HIDDEN, EXPERT},
     {"ffn_up_exps.weight", "w3.weight", EACH(up), FFN, HIDDEN, EXPERT},
     {"ffn_down_exps.weight", "w2.weight", EACH(down), HIDDEN, FFN, EXPERT}}};
static const struct spelling qwen3moe = {
    "mlp.",
    {"ffn_gate_inp.weight", "gate.weight", LAYER(router), EXPERTS, HIDDEN, ALWAYS},
    {{"ffn_gate_exps.weight", "gate_proj.weight", EACH(gate), FFN, HIDDEN, EXPERT},
     {"ffn_up_exps.weight", "up_proj.weight", EACH(up), FFN, HIDDEN, EXPERT},
     {"ffn_down_exps.weight", "down_proj.weight", EACH(down), HIDDEN, FFN, EXPERT}}};
#undef LAYER
#undef EACH

static const struct role model_roles[] = {
    {"token_embd.weight", "model.embed_tokens.weight", offsetof(struct iq_model_tensors, embed), VOCAB,
     HIDDEN, ALWAYS},
    {"output_norm.weight", "model.norm.weight", offsetof(struct iq_model_tensors, final_norm), ONE, HIDDEN,
     ALWAYS},
};
static const struct role head_role = {
    "output.weight", "lm_head.weight", offsetof(struct iq_model_tensors, head), VOCAB, HIDDEN, ALWAYS};

struct resolver {
    struct iq_model_file *m;
    const struct iq_model_config *c;
    bool gguf;
    char prefix[40]; /* of the layer's tensors: "blk.3."; "" outside the layers */
    uint64_t dim[DIMS];
    struct iq_err *err;
};

static int check_tensor(struct resolver *r, const struct role *role, const struct iq_tensor *t)
{
    typedef unsigned long long ull;
    const char *path = iq_model_file_path(r->m, t->file);
    bool vector = role->rows == ONE;
    bool stacked = r->gguf && role->when == EXPERT;
    const uint64_t *d = t->dim + stacked; /* of a matrix */
    if (stacked && (t->rank != 3 || t->dim[0] != r->dim[EXPERTS] || d[0] != r->dim[role->rows] ||
                    d[1] != r->dim[role->cols]))
        return iq_fail(r->err, IQ_SHAPE,
                       "%s: tensor `%s` has %d dimensions [%llu, %llu, %llu], expected three [%llu, %llu, "
                       "%llu] (experts, rows, columns)",
                       path, t->name, t->rank, (ull)t->dim[0], (ull)t->dim[1], (ull)t->dim[2],
                       (ull)r->dim[EXPERTS], (ull)r->dim[role->rows], (ull)r->dim[role->cols]);
    if (vector && (t->rank != 1 || t->dim[0] != r->dim[role->cols]))
        return iq_fail(r->err, IQ_SHAPE,
                       "%s: tensor `%s` has %d dimensions [%llu, %llu], expected one of %llu", path, t->name,
                       t->rank, (ull)t->dim[0], (ull)t->dim[1], (ull)r->dim[role->cols]);
    if (!vector && !stacked &&
        (t->rank != 2 || t->dim[0] != r->dim[role->rows] || t->dim[1] != r->dim[role->cols]))
        return iq_fail(
            r->err, IQ_SHAPE,
            "%s: tensor `%s` has %d dimensions [%llu, %llu], expected two [%llu, %llu] (rows, columns)", path,
            t->name, t->rank, (ull)t->dim[0], (ull)t->dim[1], (ull)r->dim[role->rows],
            (ull)r->dim[role->cols]);
    if (t->format == IQ_FORMAT_NONE || (vector && iq_format_info(t->format)->elements > 1))
        return iq_fail(r->err, IQ_UNSUPPORTED, "%s: tensor `%s` is of type %s, expected F32, F16%s", path,
                       t->name, t->type, vector ? " or BF16" : ", BF16, Q8_0, Q4_0 or Q4_1");
    return IQ_OK;
}

/* Forms in which some files hold what is missing: several roles in a tensor, or each expert apart. They are not read;
 * naming them explains. */
static const char *other_form(const struct resolver *r, char name[128])
{
    static const char *const forms[2][4] = {
        {"self_attn.qkv_proj.weight", "self_attn.W_pack.weight", "mlp.gate_up_proj.weight",
         "mlp.experts.gate_up_proj"},
        {"attn_qkv.weight", "ffn_gate_up.weight", "ffn_gate_up_exps.weight", "ffn_gate.0.weight"}};
    for (int i = 0; i < 4; i++) {
        snprintf(name, 128, "%s%s", r->prefix, forms[r->gguf][i]);
        if (iq_model_tensor_peek(r->m, name)) return name;
    }
    return NULL;
}

static int missing(struct resolver *r, const struct role *role, const char *name)
{
    char other[128], stack[32] = "";
    const char *form = other_form(r, other);
    if (r->gguf && role->when == EXPERT)
        snprintf(stack, sizeof stack, "%llu, ", (unsigned long long)r->dim[EXPERTS]);
    return iq_fail(r->err, form ? IQ_UNSUPPORTED : IQ_NOT_FOUND,
                   "%s: tensor `%s` is missing, expected dimensions [%s%llu, %llu]%s%s%s",
                   iq_model_file_name(r->m), name, stack, (unsigned long long)r->dim[role->rows],
                   (unsigned long long)r->dim[role->cols], form ? "; found `" : "", form ? form : "",
                   form ? "`, a form that is not read: convert the model again" : "");
}

/* Resolves one role into `table`; `block` is what stands before the role's name in its layer. */
static int resolve(struct resolver *r, const struct role *role, const char *block, void *table)
{
    char name[160];
    snprintf(name, sizeof name, "%s%s%s", r->prefix, block, r->gguf ? role->gguf : role->hf);
    const struct iq_tensor *t = iq_model_tensor_find(r->m, name);
    if (!t) return missing(r, role, name);
    IQ_TRY(check_tensor(r, role, t));
    *(const struct iq_tensor **)((char *)table + role->field) = t;
    return IQ_OK;
}

/* A product over experts has one type of weights: that of the first. */
static int one_type(struct resolver *r, const struct iq_expert_tensors *first, uint32_t e)
{
    const struct iq_tensor *a[] = {first->gate, first->up, first->down};
    const struct iq_tensor *b[] = {first[e].gate, first[e].up, first[e].down};
    for (int i = 0; i < 3; i++)
        if (a[i]->format != b[i]->format)
            return iq_fail(
                r->err, IQ_UNSUPPORTED,
                "%s: tensor `%s` is of type %s, but `%s` of type %s; expected one type for all experts",
                iq_model_file_path(r->m, b[i]->file), b[i]->name, b[i]->type, a[i]->name, a[i]->type);
    return IQ_OK;
}

static int experts(struct resolver *r, struct iq_layer_tensors *t)
{
    const struct spelling *s = r->c->arch == IQ_ARCH_MIXTRAL ? &mixtral : &qwen3moe;
    IQ_TRY(resolve(r, &s->router, r->gguf ? "" : s->block, t));
    for (uint32_t e = 0; e < r->c->experts; e++) {
        char block[64] = "";
        if (!r->gguf) snprintf(block, sizeof block, "%sexperts.%u.", s->block, e);
        for (int i = 0; i < 3; i++) IQ_TRY(resolve(r, &s->expert[i], block, &t->expert[e]));
        IQ_TRY(one_type(r, t->expert, e));
    }
    return IQ_OK;
}

static int layers(struct resolver *r, struct iq_model_tensors *t)
{
    const struct iq_model_config *c = r->c;
    bool has[] = {
        [ALWAYS] = true, [WITH_BIAS] = c->qkv_bias, [WITH_QK_NORM] = c->qk_norm, [DENSE] = !c->experts};
    t->layer = calloc(c->layers, sizeof *t->layer);
    t->expert = c->experts ? calloc((size_t)c->layers * c->experts, sizeof *t->expert) : NULL;
    if (!t->layer || (c->experts && !t->expert))
        return iq_fail(r->err, IQ_MEMORY, "%s: no memory for %u layers", iq_model_file_name(r->m), c->layers);
    for (uint32_t l = 0; l < c->layers; l++) {
        snprintf(r->prefix, sizeof r->prefix, r->gguf ? "blk.%u." : "model.layers.%u.", l);
        for (size_t i = 0; i < sizeof layer_roles / sizeof *layer_roles; i++)
            if (has[layer_roles[i].when]) IQ_TRY(resolve(r, &layer_roles[i], "", &t->layer[l]));
        if (!c->experts) continue;
        t->layer[l].expert = t->expert + (size_t)l * c->experts;
        IQ_TRY(experts(r, &t->layer[l]));
    }
    r->prefix[0] = 0;
    return IQ_OK;
}

static bool same_bytes(const struct iq_tensor *a, const struct iq_tensor *b)
{
    return a->format == b->format && a->nbytes == b->nbytes && !memcmp(a->bytes, b->bytes, a->nbytes);
}

/* The head: what the files really hold decides, the flag does not; where they disagree the user is told. */
static int head(struct resolver *r, struct iq_model_config *c, bool tie, struct iq_model_tensors *t)
{
    const char *name = r->gguf ? head_role.gguf : head_role.hf;
    c->tied = !iq_model_tensor_peek(r->m, name);
    if (c->tied) {
        t->head = t->embed;
        if (!r->gguf && !tie)
            iq_model_file_add_note(
                r->m, "tie_word_embeddings is not true, but there is no `%s`: the embedding serves as head",
                name);
        return IQ_OK;
    }
    IQ_TRY(resolve(r, &head_role, "", t));
    if (!tie) return IQ_OK;
    c->tied = same_bytes(t->embed, t->head);
    iq_model_tensor_release(r->m, t->embed);
    iq_model_tensor_release(r->m, t->head);
    if (c->tied)
        t->head = t->embed;
    else
        iq_model_file_add_note(
            r->m, "tie_word_embeddings is true, but `%s` differs from the embedding: `%s` is used", name,
            name);
    return IQ_OK;
}

/* Left by training code; nothing computes with them. */
static bool is_inert(const char *name)
{
    static const char *const endings[] = {"rotary_emb.inv_freq", "attn_rot_embd.weight", "attn.masked_bias",
                                          "attn.bias"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t k = strlen(endings[i]);
        if (n > k && name[n - k - 1] == '.' && !strcmp(name + n - k, endings[i])) return true;
    }
    return false;
}

/* A tensor that this model's layers hold and nothing reads (a bias, a fused matrix, a gate) would change the result. */
static int leftovers(struct resolver *r)
{
    static const char *const model_wide[] = {"output.bias", "output_norm.bias", "lm_head.bias",
                                             "model.norm.bias", "token_embd_norm.weight"};
    size_t beyond = 0;
    for (size_t i = 0; i < iq_model_tensor_count(r->m); i++) {
        const struct iq_tensor *t = iq_model_tensor_at(r->m, i);
        unsigned layer;
        bool refused = false;
        if (t->used || is_inert(t->name)) continue;
        if (sscanf(t->name, r->gguf ? "blk.%5u." : "model.layers.%5u.", &layer) == 1) {
            refused = layer < r->c->layers;
            beyond += !refused;
        }
        for (size_t k = 0; k < sizeof model_wide / sizeof *model_wide; k++)
            refused |= !strcmp(t->name, model_wide[k]);
        if (refused)
            return iq_fail(
                r->err, IQ_UNSUPPORTED,
                "%s: tensor `%s` belongs to no part of %s that is built; it would be left out of the result",
                iq_model_file_path(r->m, t->file), t->name, iq_arch_name(r->c->arch));
    }
    if (beyond)
        iq_model_file_add_note(
            r->m, "%zu tensors belong to layers from %u on, which the configuration does not have", beyond,
            r->c->layers);
    return IQ_OK;
}

int iq__tensors_resolve(struct iq_model_file *m, struct iq_model_config *c, bool tie,
                        struct iq_model_tensors *t, struct iq_err *err)
{
    struct resolver r = {.m = m, .c = c, .gguf = iq_model_file_kind(m) == IQ_MODEL_GGUF, .err = err};
    r.dim[ONE] = 1;
    r.dim[HIDDEN] = c->hidden;
    r.dim[FFN] = c->ffn;
    r.dim[Q_WIDTH] = (uint64_t)c->heads * c->head_dim;
    r.dim[KV_WIDTH] = (uint64_t)c->kv_heads * c->head_dim;
    r.dim[HEAD_DIM] = c->head_dim;
    r.dim[VOCAB] = c->vocab;
    r.dim[EXPERTS] = c->experts;
    for (size_t i = 0; i < sizeof model_roles / sizeof *model_roles; i++)
        IQ_TRY(resolve(&r, &model_roles[i], "", t));
    IQ_TRY(head(&r, c, tie, t));
    IQ_TRY(layers(&r, t));
    return leftovers(&r);
}
