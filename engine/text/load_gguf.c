/* Tokenizers from GGUF metadata. The split patterns and defaults are those that llama.cpp keys to
 * tokenizer.ggml.pre; each pattern cuts the pieces that the one before it left. */
#include "engine/text/tokenizer_parts.h"
#include "kernels/base/grow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LLAMA3_HEAD "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define LLAMA3_TAIL "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define TEKKEN                                                                                               \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"             \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|"             \
    "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct pre {
    const char *names; /* separated by spaces */
    const char *pattern[4];
    bool ignore_merges, add_bos;
} pres[] = {
    {"default", {"[\\p{P}\\$\\+<=>\\^~\\|]+", iq__pattern_gpt2, "\\p{N}+", "[0-9][0-9][0-9]"}, false, false},
    {"gpt-2 phi-2 jina-es jina-de mpt olmo jais roberta-bpe gigachat exaone4 trillion modern-bert",
     {iq__pattern_gpt2},
     false,
     false},
    {"smollm starcoder refact command-r codeshell exaone minerva-7b",
     {"\\p{N}", iq__pattern_gpt2},
     false,
     false},
    {"llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 llama4-text",
     {LLAMA3_HEAD "\\p{N}{1,3}" LLAMA3_TAIL},
     true,
     true},
    {"dbrx smaug-bpe", {LLAMA3_HEAD "\\p{N}{1,3}" LLAMA3_TAIL}, false, false},
    {"qwen2 deepseek-r1-qwen stablelm2 megrez", {LLAMA3_HEAD "\\p{N}" LLAMA3_TAIL}, false, false},
    {"falcon", {"[\\p{P}\\$\\+<=>\\^~\\|`]+", iq__pattern_gpt2, "[0-9][0-9][0-9]"}, false, false},
    {"tekken", {TEKKEN}, true, false},
};

static bool listed(const char *names, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = names; n && *p; p += strcspn(p, " "), p += *p == ' ')
        if (strcspn(p, " ") == n && !memcmp(p, name, n)) return true;
    return false;
}

static int fill_vocab(struct iq_tokenizer *t, const struct iq_tokenizer_source *s, struct iq_err *err)
{
    size_t text = 0, merge_text = 0;
    if (!s->tokens || s->n_tokens == 0 || s->n_tokens > UINT32_MAX / 8 || s->n_merges > UINT32_MAX / 8)
        return iq_fail(err, IQ_FORMAT, "%s: tokenizer.ggml.tokens has %zu tokens and .merges %zu entries",
                       t->name, s->n_tokens, s->n_merges);
    for (size_t i = 0; i < s->n_tokens; i++) text += s->tokens[i].len;
    for (size_t i = 0; i < s->n_merges; i++) merge_text += 2 * s->merges[i].len;
    if (text + merge_text > UINT32_MAX / 2)
        return iq_fail(err, IQ_LIMIT, "%s: the tokens take more than 2 GiB", t->name);
    t->n_ids = (uint32_t)s->n_tokens;
    /* a merge may name up to three spellings that are no tokens; they get ids behind the tokens */
    size_t ids = s->n_tokens + 3 * s->n_merges;
    IQ_TRY(iq__vocab_init(&t->vocab, (uint32_t)ids, text + merge_text, err));
    t->type = malloc(s->n_tokens);
    if (!t->type) return iq_fail(err, IQ_MEMORY, "%s: no memory for %zu tokens", t->name, s->n_tokens);
    for (size_t i = 0; i < s->n_tokens; i++) {
        uint32_t other;
        int32_t type = s->types ? s->types[i] : IQ_TOKEN_NORMAL;
        if (type < IQ_TOKEN_NORMAL || type > IQ_TOKEN_BYTE)
            return iq_fail(err, IQ_FORMAT, "%s: tokenizer.ggml.token_type[%zu] is %d: expected 1 to 6",
                           t->name, i, type);
        t->type[i] = (uint8_t)type;
        if (iq__vocab_set(&t->vocab, (uint32_t)i, s->tokens[i].data, s->tokens[i].len, &other) != IQ_OK)
            return iq_fail(err, IQ_FORMAT, "%s: tokenizer.ggml.tokens[%zu] '%.*s' is token %u already",
                           t->name, i, (int)(s->tokens[i].len < 80 ? s->tokens[i].len : 80),
                           s->tokens[i].data, other);
    }
    return IQ_OK;
}

/* The id of a part of a merge; a new one behind the tokens where there is none. */
static uint32_t part_id(struct iq_tokenizer *t, uint32_t *next, const char *s, size_t n)
{
    uint32_t id = iq__vocab_find(&t->vocab, s, n), other;
    if (id != IQ_TOKEN_NONE) return id;
    return iq__vocab_set(&t->vocab, *next, s, n, &other) == IQ_OK ? (*next)++ : IQ_TOKEN_NONE;
}

static int fill_merges(struct iq_tokenizer *t, const struct iq_tokenizer_source *s, struct iq_err *err)
{
    uint32_t next = t->n_ids;
    struct iq_buf joined = IQ_BUF(UINT32_MAX / 2);
    int status = iq__merges_init(&t->merges, s->n_merges, err);
    for (size_t i = 0; i < s->n_merges && status == IQ_OK; i++) {
        struct iq_span m = s->merges[i];
        /* as llama.cpp: the first space that is not the first character */
        const char *space = m.len > 1 ? memchr(m.data + 1, ' ', m.len - 1) : NULL;
        size_t left = space ? (size_t)(space - m.data) : 0;
        if (!space || left + 1 >= m.len) {
            status = iq_fail(err, IQ_FORMAT, "%s: tokenizer.ggml.merges[%zu] is '%.*s': expected two tokens",
                             t->name, i, (int)(m.len < 80 ? m.len : 80), m.data);
            break;
        }
        joined.len = 0;
        iq_buf_put(&joined, m.data, left);
        iq_buf_put(&joined, space + 1, m.len - left - 1);
        struct iq__merge merge = {.rank = (uint32_t)i};
        merge.left = part_id(t, &next, m.data, left);
        merge.right = part_id(t, &next, space + 1, m.len - left - 1);
        merge.id = joined.failed ? IQ_TOKEN_NONE : part_id(t, &next, joined.data, joined.len);
        if (merge.left == IQ_TOKEN_NONE || merge.right == IQ_TOKEN_NONE || merge.id == IQ_TOKEN_NONE)
            status = iq_fail(err, IQ_MEMORY, "%s: no room for tokenizer.ggml.merges[%zu]", t->name, i);
        else
            iq__merges_set(&t->merges, merge, false);
    }
    iq_buf_free(&joined);
    return status;
}

static int fill_added(struct iq_tokenizer *t, struct iq_err *err)
{
    for (uint32_t i = 0; i < t->n_ids; i++) {
        bool special = t->type[i] == IQ_TOKEN_CONTROL || t->type[i] == IQ_TOKEN_UNKNOWN;
        struct iq_span text = iq__vocab_span(&t->vocab, i);
        if ((!special && t->type[i] != IQ_TOKEN_USER) || !text.len) continue;
        struct iq__added_set *set = &t->raw;
        IQ_TRY(iq_grow(&set->token, &set->cap, set->n + 1, sizeof *set->token, err));
        set->token[set->n++] = (struct iq__added){.text = text, .id = i, .special = special};
    }
    return IQ_OK;
}

static int named_id(const struct iq_tokenizer *t, const char *key, int64_t have, uint32_t *out,
                    struct iq_err *err)
{
    *out = IQ_TOKEN_NONE;
    if (have < 0 || have == UINT32_MAX) return IQ_OK; /* converters write -1 for "none" */
    if (have >= t->n_ids)
        return iq_fail(err, IQ_FORMAT, "%s: tokenizer.ggml.%s is %lld, but there are only %u tokens", t->name,
                       key, (long long)have, t->n_ids);
    *out = (uint32_t)have;
    return IQ_OK;
}

static int fill_specials(struct iq_tokenizer *t, const struct iq_tokenizer_source *s, bool add_bos,
                         struct iq_err *err)
{
    uint32_t more;
    IQ_TRY(named_id(t, "bos_token_id", s->bos, &t->bos, err));
    IQ_TRY(named_id(t, "eos_token_id", s->eos, &t->eos, err));
    IQ_TRY(named_id(t, "unknown_token_id", s->unk, &t->unk, err));
    IQ_TRY(named_id(t, "padding_token_id", s->pad, &t->pad, err));
    IQ_TRY(named_id(t, "eot_token_id", s->eot, &more, err));
    if (more != IQ_TOKEN_NONE) IQ_TRY(iq_tokenizer_eog_add(t, more, err));
    IQ_TRY(named_id(t, "eom_token_id", s->eom, &more, err));
    if (more != IQ_TOKEN_NONE) IQ_TRY(iq_tokenizer_eog_add(t, more, err));
    if (s->add_bos >= 0) add_bos = s->add_bos > 0;
    if (add_bos && t->bos != IQ_TOKEN_NONE) IQ_TRY(iq_ids_put(&t->before, t->bos, err));
    if (s->add_eos > 0 && t->eos != IQ_TOKEN_NONE) IQ_TRY(iq_ids_put(&t->after, t->eos, err));
    return IQ_OK;
}

static int load_bpe(struct iq_tokenizer *t, const struct iq_tokenizer_source *s, struct iq_err *err)
{
    const char *name = s->pre ? s->pre : "default";
    const struct pre *pre = NULL;
    char known[1024] = "";
    for (size_t i = 0; i < sizeof pres / sizeof *pres; i++) {
        if (listed(pres[i].names, name)) pre = &pres[i];
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? " " : "", pres[i].names);
    }
    if (!pre)
        return iq_fail(err, IQ_UNSUPPORTED,
                       "%s: tokenizer.ggml.pre is '%.60s', which is not known; known are: %s", t->name, name,
                       known);
    t->keep_unknown = true;
    t->ignore_merges = pre->ignore_merges;
    IQ_TRY(fill_merges(t, s, err));
    for (int i = 0; i < 4 && pre->pattern[i]; i++)
        IQ_TRY(iq__steps_add_split(&t->splitter, pre->pattern[i], IQ__ISOLATED, false, err));
    struct iq__step *st;
    IQ_TRY(iq__steps_add(&t->splitter, &st, err));
    st->rewrite = iq__rewrite_byte_map;
    IQ_TRY(iq__steps_add(&t->decoder, &st, err));
    st->rewrite = iq__decode_byte_map;
    return fill_specials(t, s, pre->add_bos, err);
}

static int load_scores(struct iq_tokenizer *t, const struct iq_tokenizer_source *s, struct iq_err *err)
{
    static const char mark[] = "\xe2\x96\x81"; /* the word-start mark */
    struct iq__step *st;
    if (!s->scores)
        return iq_fail(
            err, IQ_FORMAT,
            "%s: tokenizer.ggml.model is 'llama' but there is no tokenizer.ggml.scores to merge by", t->name);
    t->by_score = true;
    t->space_first = s->add_space_prefix != 0;
    t->scores = malloc((size_t)t->n_ids * sizeof *t->scores);
    if (!t->scores) return iq_fail(err, IQ_MEMORY, "%s: no memory for %u scores", t->name, t->n_ids);
    memcpy(t->scores, s->scores, (size_t)t->n_ids * sizeof *t->scores);
    IQ_TRY(iq__steps_add(&t->splitter, &st, err));
    st->rewrite = iq__rewrite_metaspace;
    IQ_TRY(iq__step_text(&st->put, &st->put_len, mark, 3, err));
    IQ_TRY(iq__steps_add(&t->decoder, &st, err));
    st->rewrite = iq__decode_metaspace;
    IQ_TRY(iq__step_text(&st->put, &st->put_len, mark, 3, err));
    IQ_TRY(iq__steps_add(&t->decoder, &st, err));
    st->rewrite = iq__decode_bytes;
    if (t->space_first) {
        IQ_TRY(iq__steps_add(&t->decoder, &st, err)); /* Fuse */
        IQ_TRY(iq__steps_add(&t->decoder, &st, err));
        st->rewrite = iq__decode_strip;
        st->start = 1;
        IQ_TRY(iq__step_text(&st->find, &st->find_len, " ", 1, err));
    }
    return fill_specials(t, s, true, err);
}

static const struct {
    const char *model;
    int (*load)(struct iq_tokenizer *, const struct iq_tokenizer_source *, struct iq_err *);
} models[] = {{"gpt2", load_bpe}, {"llama", load_scores}};

int iq_tokenizer_from_gguf(const struct iq_tokenizer_source *s, struct iq_tokenizer **out, struct iq_err *err)
{
    *out = NULL;
    struct iq_tokenizer *t;
    const char *model = s->model ? s->model : "(absent)";
    size_t kind = 0, kinds = sizeof models / sizeof *models;
    while (kind < kinds && strcmp(models[kind].model, model) != 0) kind++;
    if (kind == kinds)
        return iq_fail(err, IQ_UNSUPPORTED, "%s: tokenizer.ggml.model is '%.60s': expected gpt2 or llama",
                       s->name ? s->name : "GGUF", model);
    int status = iq__tokenizer_new(s->name, &t, err);
    if (status == IQ_OK) t->gguf = true;
    if (status == IQ_OK) status = fill_vocab(t, s, err);
    if (status == IQ_OK) status = fill_added(t, err);
    if (status == IQ_OK) status = models[kind].load(t, s, err);
    if (status == IQ_OK) status = iq__tokenizer_finish(t, err);
    if (status == IQ_OK)
        *out = t;
    else
        iq_tokenizer_free(t);
    return status;
}
