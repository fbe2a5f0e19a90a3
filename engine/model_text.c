/* Tokenizer, chat template and digest of a model, from whichever kind of file it came. */
#include "engine/model_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int iq_model_digest(struct iq_model *m, struct iq_err *err)
{
    size_t files = iq_model_file_count(m->file), weights = 0;
    struct iq_buf all = IQ_BUF(1 << 20);
    char hex[IQ_SHA256_HEX];
    for (size_t i = 0; i < files; i++) {
        const char *path = iq_model_file_path(m->file, i);
        size_t n = strlen(path);
        /* What a .json says is in the config and the contract. */
        if (n > 5 && !strcmp(path + n - 5, ".json")) continue;
        int status = iq_model_file_sha256(m->file, i, hex, err);
        if (status != IQ_OK) {
            iq_buf_free(&all);
            return status;
        }
        iq_buf_put(&all, hex, IQ_SHA256_HEX - 1);
        weights++;
    }
    if (weights == 1)
        memcpy(m->sha256, hex, sizeof hex);
    else
        iq_sha256(all.data, all.len, m->sha256);
    iq_buf_free(&all);
    return IQ_OK;
}

/* ---- GGUF ---- */

struct gguf_text {
    struct iq_span *tokens, *merges;
    float *scores;
    int32_t *types;
    char model[64], pre[64];
};

static int read_spans(struct iq_model_file *f, const char *key, struct iq_span **out, size_t *n,
                      struct iq_err *err)
{
    struct iq_array a;
    bool found;
    *n = 0;
    IQ_TRY(iq_model_array(f, key, IQ_META_STRING, &a, &found, err));
    if (!found) return IQ_OK;
    *out = calloc(a.n ? a.n : 1, sizeof **out);
    if (!*out) return iq_fail(err, IQ_MEMORY, "%s: no memory for %llu strings", key, (unsigned long long)a.n);
    for (*n = 0; *n < a.n; (*n)++) {
        struct iq_text t = iq_array_next_text(&a);
        (*out)[*n] = (struct iq_span){t.s, t.n};
    }
    return IQ_OK;
}

static int read_name(struct iq_model_file *f, const char *key, char *out, size_t size, const char **set,
                     struct iq_err *err)
{
    struct iq_text t;
    bool found;
    IQ_TRY(iq_model_text(f, key, &t, &found, err));
    if (!found) return IQ_OK;
    if (t.n >= size || memchr(t.s, 0, t.n))
        return iq_fail(err, IQ_FORMAT, "%s: %s: a name of %zu bytes", iq_model_file_name(f), key, t.n);
    memcpy(out, t.s, t.n);
    out[t.n] = 0;
    *set = out;
    return IQ_OK;
}

static int read_scores(struct iq_model_file *f, struct gguf_text *g, struct iq_tokenizer_source *s,
                       struct iq_err *err)
{
    struct iq_array a;
    bool found;
    IQ_TRY(iq_model_array(f, "tokenizer.ggml.scores", IQ_META_F64, &a, &found, err));
    if (found && a.n == s->n_tokens) {
        if (!(g->scores = calloc(a.n ? a.n : 1, sizeof *g->scores)))
            return iq_fail(err, IQ_MEMORY, "no memory for scores");
        for (uint64_t i = 0; i < a.n; i++) g->scores[i] = (float)iq_array_next_f64(&a);
        s->scores = g->scores;
    } else if (found)
        return iq_fail(err, IQ_FORMAT, "%s: tokenizer.ggml.scores has %llu entries, the vocabulary %zu",
                       iq_model_file_name(f), (unsigned long long)a.n, s->n_tokens);
    IQ_TRY(iq_model_array(f, "tokenizer.ggml.token_type", IQ_META_I64, &a, &found, err));
    if (found && a.n == s->n_tokens) {
        if (!(g->types = calloc(a.n ? a.n : 1, sizeof *g->types)))
            return iq_fail(err, IQ_MEMORY, "no memory for token types");
        for (uint64_t i = 0; i < a.n; i++) g->types[i] = (int32_t)iq_array_next_i64(&a);
        s->types = g->types;
    } else if (found)
        return iq_fail(err, IQ_FORMAT, "%s: tokenizer.ggml.token_type has %llu entries, the vocabulary %zu",
                       iq_model_file_name(f), (unsigned long long)a.n, s->n_tokens);
    return IQ_OK;
}

static int read_ids(struct iq_model_file *f, struct iq_tokenizer_source *s, struct iq_err *err)
{
    const struct {
        const char *key;
        int64_t *id;
    } ids[] = {{"tokenizer.ggml.bos_token_id", &s->bos},     {"tokenizer.ggml.eos_token_id", &s->eos},
               {"tokenizer.ggml.unknown_token_id", &s->unk}, {"tokenizer.ggml.padding_token_id", &s->pad},
               {"tokenizer.ggml.eot_token_id", &s->eot},     {"tokenizer.ggml.eom_token_id", &s->eom}};
    const struct {
        const char *key;
        int *flag;
    } flags[] = {{"tokenizer.ggml.add_bos_token", &s->add_bos},
                 {"tokenizer.ggml.add_eos_token", &s->add_eos},
                 {"tokenizer.ggml.add_space_prefix", &s->add_space_prefix}};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        uint64_t v;
        bool found;
        IQ_TRY(iq_model_u64(f, ids[i].key, 0, UINT32_MAX, &v, &found, err));
        if (found && v != UINT32_MAX) *ids[i].id = (int64_t)v; /* all ones is how files say "none" */
    }
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        bool v, found;
        IQ_TRY(iq_model_bool(f, flags[i].key, &v, &found, err));
        if (found) *flags[i].flag = v;
    }
    return IQ_OK;
}

/* A template that can't be used stops nobody who brings raw text: what is wrong with it is a note, and `chat` says it
 * again when messages are to be rendered. */
static int open_chat(struct iq_model *m, struct iq_chat_source *c, struct iq_err *err)
{
    struct iq_err why = {0};
    iq_chat_source_tokens(c, m->tokenizer);
    int status = iq_chat_open(c, &m->chat, &why);
    if (status == IQ_MEMORY) return iq_fail(err, status, "%s", why.text);
    if (status != IQ_OK && status != IQ_NOT_FOUND)
        iq_model_file_add_note(m->file, "chat template: %s", why.text);
    return IQ_OK;
}

static int read_gguf(struct iq_model *m, struct gguf_text *g, struct iq_err *err)
{
    struct iq_tokenizer_source s = IQ_TOKENIZER_SOURCE;
    s.name = iq_model_file_name(m->file);
    IQ_TRY(read_name(m->file, "tokenizer.ggml.model", g->model, sizeof g->model, &s.model, err));
    IQ_TRY(read_name(m->file, "tokenizer.ggml.pre", g->pre, sizeof g->pre, &s.pre, err));
    IQ_TRY(read_spans(m->file, "tokenizer.ggml.tokens", &g->tokens, &s.n_tokens, err));
    IQ_TRY(read_spans(m->file, "tokenizer.ggml.merges", &g->merges, &s.n_merges, err));
    s.tokens = g->tokens;
    s.merges = g->merges;
    IQ_TRY(read_scores(m->file, g, &s, err));
    IQ_TRY(read_ids(m->file, &s, err));
    IQ_TRY(iq_tokenizer_from_gguf(&s, &m->tokenizer, err));
    struct iq_text t;
    bool found;
    IQ_TRY(iq_model_text(m->file, "tokenizer.chat_template", &t, &found, err));
    if (!found) return IQ_OK;
    struct iq_chat_source c = {.name = s.name, .text = {t.s, t.n}};
    return open_chat(m, &c, err);
}

/* ---- Hugging Face ---- */

static int read_hf(struct iq_model *m, struct iq_err *err)
{
    enum { TOKENIZER_MAX = 256 << 20, CONFIG_MAX = 16 << 20 };
    struct iq_text json, config, jinja;
    char name[512];
    IQ_TRY(iq_model_bytes(m->file, "tokenizer.json", TOKENIZER_MAX, &json, err));
    if (!json.s)
        return iq_fail(
            err, IQ_NOT_FOUND,
            "%s: no tokenizer.json in the folder; convert the tokenizer with transformers (use_fast)",
            iq_model_file_name(m->file));
    IQ_TRY(iq_model_bytes(m->file, "tokenizer_config.json", CONFIG_MAX, &config, err));
    IQ_TRY(iq_model_bytes(m->file, "chat_template.jinja", CONFIG_MAX, &jinja, err));
    snprintf(name, sizeof name, "%s/tokenizer.json", iq_model_file_name(m->file));
    IQ_TRY(iq_tokenizer_from_hf(json.s, json.n, name, config.s, config.n, &m->tokenizer, err));
    struct iq_chat_source c = {
        .name = iq_model_file_name(m->file), .jinja = {jinja.s, jinja.n}, .config = {config.s, config.n}};
    return open_chat(m, &c, err);
}

int iq__model_text(struct iq_model *m, struct iq_err *err)
{
    struct gguf_text g = {0};
    int status = iq_model_file_kind(m->file) == IQ_MODEL_GGUF ? read_gguf(m, &g, err) : read_hf(m, err);
    free(g.tokens);
    free(g.merges);
    free(g.scores);
    free(g.types);
    for (uint32_t i = 0; status == IQ_OK && i < m->config.stops;
         i++) /* generation_config.json may name more */
        status = iq_tokenizer_eog_add(m->tokenizer, (uint32_t)m->config.stop[i], err);
    return status;
}
