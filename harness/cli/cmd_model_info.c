#include "harness/cli/commands.h"
#include "harness/model/fetch.h"

#include "engine/model.h"

#include <stdio.h>

struct unread {
    struct iq_jw *w; /* or NULL: text */
    struct iq_buf *text;
    bool tensors;
};

static void list_unread(void *ctx, bool tensor, const char *name)
{
    struct unread *u = ctx;
    if (u->w && tensor == u->tensors) iq_jw_str(u->w, name);
    if (!u->w) iq_buf_printf(u->text, "nothing reads %s %s\n", tensor ? "tensor" : "key", name);
}

static void field(struct iq_jw *w, const char *key, uint64_t v)
{
    iq_jw_key(w, key);
    iq_jw_u64(w, v);
}

static void write_files(const struct iq_model *m, struct iq_jw *w)
{
    iq_jw_key(w, "files");
    iq_jw_begin(w, '[');
    for (size_t i = 0; i < iq_model_file_count(m->file); i++) {
        iq_jw_begin(w, '{');
        iq_jw_key(w, "path"), iq_jw_str(w, iq_model_file_path(m->file, i));
        field(w, "bytes", iq_model_file_bytes(m->file, i));
        iq_jw_end(w, '}');
    }
    iq_jw_end(w, ']');
}

static void write_formats(const struct iq_model *m, struct iq_jw *w)
{
    size_t n = iq_model_tensor_count(m->file);
    iq_jw_key(w, "tensor_types");
    iq_jw_begin(w, '{');
    for (size_t i = 0; i < n; i++) {
        const char *type = iq_model_tensor_at(m->file, i)->type;
        uint64_t same = 0;
        bool seen = false;
        for (size_t j = 0; j < n; j++) {
            bool equal = !strcmp(iq_model_tensor_at(m->file, j)->type, type);
            seen |= equal && j < i;
            same += equal;
        }
        if (!seen) field(w, type, same);
    }
    iq_jw_end(w, '}');
}

static void write_config(const struct iq_model_config *c, struct iq_jw *w)
{
    iq_jw_key(w, "arch"), iq_jw_str(w, iq_arch_name(c->arch));
    field(w, "layers", c->layers);
    field(w, "hidden", c->hidden);
    field(w, "ffn", c->ffn);
    field(w, "experts", c->experts);
    if (c->experts) {
        field(w, "active_experts", c->active);
        iq_jw_key(w, "renormalised"), iq_jw_bool(w, c->renormalise);
    }
    field(w, "heads", c->heads);
    field(w, "kv_heads", c->kv_heads);
    field(w, "head_dim", c->head_dim);
    field(w, "vocab", c->vocab);
    field(w, "context", c->context);
    iq_jw_key(w, "norm_eps"), iq_jw_f64(w, c->norm_eps);
    iq_jw_key(w, "rope"), iq_jw_begin(w, '{');
    iq_jw_key(w, "kind"), iq_jw_str(w, iq_rope_kind_name(c->rope.kind));
    iq_jw_key(w, "theta"), iq_jw_f64(w, c->rope.theta);
    iq_jw_key(w, "pairing"), iq_jw_str(w, c->rope.pairing == IQ_PAIR_HALVES ? "halves" : "neighbours");
    iq_jw_end(w, '}');
    field(w, "window", c->window);
    iq_jw_key(w, "qkv_bias"), iq_jw_bool(w, c->qkv_bias);
    iq_jw_key(w, "qk_norm"), iq_jw_bool(w, c->qk_norm);
    iq_jw_key(w, "tied"), iq_jw_bool(w, c->tied);
}

static void write_text(const struct iq_model *m, struct iq_jw *w)
{
    const struct iq_ids *eog = iq_tokenizer_eog(m->tokenizer);
    iq_jw_key(w, "tokenizer"), iq_jw_begin(w, '{');
    field(w, "ids", iq_tokenizer_vocab(m->tokenizer));
    iq_jw_key(w, "adds_bos"), iq_jw_bool(w, iq_tokenizer_adds_bos(m->tokenizer));
    iq_jw_key(w, "stop"), iq_jw_begin(w, '[');
    for (size_t i = 0; i < eog->n; i++) iq_jw_u64(w, eog->id[i]);
    iq_jw_end(w, ']');
    iq_jw_key(w, "chat"), iq_jw_str(w, m->chat ? iq_chat_kind(m->chat) : NULL);
    iq_jw_end(w, '}');
    iq_jw_key(w, "notes"), iq_jw_begin(w, '[');
    for (size_t i = 0; i < iq_model_file_note_count(m->file); i++)
        iq_jw_str(w, iq_model_file_note(m->file, i));
    if (iq_tokenizer_warning(m->tokenizer)) iq_jw_str(w, iq_tokenizer_warning(m->tokenizer));
    iq_jw_end(w, ']');
}

static void as_json(const struct iq_model *m, struct iq_buf *out)
{
    struct iq_jw w = IQ_JW(out);
    struct unread u = {.w = &w};
    iq_jw_begin(&w, '{');
    iq_jw_key(&w, "name"), iq_jw_str(&w, iq_model_file_name(m->file));
    write_config(&m->config, &w);
    field(&w, "tensors", iq_model_tensor_count(m->file));
    write_formats(m, &w);
    write_files(m, &w);
    iq_jw_key(&w, "sha256"), iq_jw_str(&w, m->sha256);
    write_text(m, &w);
    iq_jw_key(&w, "unread_keys"), iq_jw_begin(&w, '[');
    iq_model_file_unread(m->file, list_unread, &u);
    iq_jw_end(&w, ']');
    u.tensors = true;
    iq_jw_key(&w, "unread_tensors"), iq_jw_begin(&w, '[');
    iq_model_file_unread(m->file, list_unread, &u);
    iq_jw_end(&w, ']');
    iq_jw_end(&w, '}');
}

static void as_text(const struct iq_model *m, struct iq_buf *out)
{
    const struct iq_model_config *c = &m->config;
    struct unread u = {.text = out};
    iq_buf_printf(
        out, "%s\n  %s: %u layers, hidden %u, ffn %u, %u heads over %u KV heads of %u, vocabulary %u%s\n",
        iq_model_file_name(m->file), iq_arch_name(c->arch), c->layers, c->hidden, c->ffn, c->heads,
        c->kv_heads, c->head_dim, c->vocab, c->tied ? ", tied head" : "");
    if (c->experts)
        iq_buf_printf(out, "  %u experts of these in every layer, %u active%s\n", c->experts, c->active,
                      c->renormalise ? ", their weights renormalised" : "");
    iq_buf_printf(out, "  context %llu, rotary scaling %s, theta %g, %zu tensors, sha256 %s\n",
                  (unsigned long long)c->context, iq_rope_kind_name(c->rope.kind), c->rope.theta,
                  iq_model_tensor_count(m->file), m->sha256);
    iq_buf_printf(out, "  tokenizer: %u ids; chat template: %s\n", iq_tokenizer_vocab(m->tokenizer),
                  m->chat ? iq_chat_kind(m->chat) : "none");
    for (size_t i = 0; i < iq_model_file_note_count(m->file); i++)
        iq_buf_printf(out, "note: %s\n", iq_model_file_note(m->file, i));
    if (iq_tokenizer_warning(m->tokenizer))
        iq_buf_printf(out, "note: %s\n", iq_tokenizer_warning(m->tokenizer));
    iq_model_file_unread(m->file, list_unread, &u);
    if (out->len) out->len--; /* the last newline: the writer adds one */
}

static int run(struct iq_call *call, struct iq_err *err)
{
    char path[IQ_PATH_MAX];
    struct iq_model_options o = {.tp = 1};
    struct iq_model *m;
    struct iq_buf text = IQ_BUF((size_t)1 << 26);
    IQ_TRY(iq_model_resolve(call->operands[0], path, err));
    IQ_TRY(iq_model_open(path, &o, &m, err));
    int status = iq_model_digest(m, err);
    if (status == IQ_OK) {
        if (iq_arg_on(call, "json"))
            as_json(m, &text);
        else
            as_text(m, &text);
        status = iq_out_line(call->out, &text, err);
    }
    iq_buf_free(&text);
    iq_model_close(m);
    return status;
}

static const struct iq_flag flags[] = {IQ_FLAG_JSON, {0}};

const struct iq_command iq_cmd_model_info = {
    .name = "model info",
    .one_line = "what a model file holds, and what of it nothing reads",
    .operands = "MODEL",
    .operands_min = 1,
    .operands_max = 1,
    .about =
        "MODEL is a .gguf file (any shard of a set), a folder with one, or a Hugging Face folder. A key or "
        "tensor that is\n"
        "there and that nothing reads is listed: it may be a setting that the answers should depend on.\n",
    .examples = "inquest model info M.gguf --json\n",
    .flags = flags,
    .run = run,
};
