/* Tokenizers from Hugging Face's tokenizer.json: the model and the added tokens. */
#include "engine/text/tokenizer_parts.h"
#include "kernels/base/grow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define get cJSON_GetObjectItemCaseSensitive

/* Longer ones would make the search for them slow; real ones have a few dozen bytes. Affixes: see merge.c. */
enum { ADDED_MAX = 1024, AFFIX_MAX = 255 };

struct loading {
    struct iq_tokenizer *t;
    const char *name;
    uint32_t model_count; /* entries of model.vocab */
    uint32_t capacity;    /* ids that the tables hold */
    uint32_t added_max;   /* largest id of an added token, or IQ_TOKEN_NONE */
};

static uint32_t count(const cJSON *list)
{
    uint32_t n = 0;
    for (const cJSON *c = list ? list->child : NULL; c; c = c->next) n++;
    return n;
}

/* Ids, and so tables, may be no larger than the text of the file makes likely. */
static int vocab_id(const cJSON *c, size_t most, const char *name, uint32_t *id, struct iq_err *err)
{
    double v = cJSON_IsNumber(c) ? c->valuedouble : -1;
    if (v >= 0 && v <= (double)most && v == (double)(uint32_t)v) return *id = (uint32_t)v, IQ_OK;
    return iq_fail(err, IQ_FORMAT, "%s: model.vocab['%.60s']: expected an integer from 0 to %zu", name,
                   c->string, most);
}

static int load_vocab(struct loading *l, const cJSON *vocab, const cJSON *added, size_t file_len,
                      struct iq_err *err)
{
    struct iq_tokenizer *t = l->t;
    size_t text = 0, most = file_len + 65536 < UINT32_MAX / 8 ? file_len + 65536 : UINT32_MAX / 8;
    uint32_t id = 0, other, n_added = count(added), top = 0;
    if (!cJSON_IsObject(vocab))
        return iq_fail(err, IQ_FORMAT, "%s: model.vocab: expected an object of token: id", l->name);
    for (const cJSON *c = vocab->child; c; c = c->next) {
        IQ_TRY(vocab_id(c, most, l->name, &id, err));
        text += strlen(c->string);
        l->model_count++;
        if (id >= top) top = id + 1;
    }
    for (const cJSON *c = added ? added->child : NULL; c; c = c->next) {
        const cJSON *content = get(c, "content");
        text += cJSON_IsString(content) ? strlen(content->valuestring) : 0;
    }
    l->capacity = (top > l->model_count ? top : l->model_count) + n_added;
    t->n_ids = top;
    IQ_TRY(iq__vocab_init(&t->vocab, l->capacity, text, err));
    t->type = calloc((size_t)l->capacity + 1, 1);
    if (!t->type) return iq_fail(err, IQ_MEMORY, "%s: no memory for %u tokens", l->name, l->capacity);
    for (const cJSON *c = vocab->child; c; c = c->next) {
        IQ_TRY(vocab_id(c, most, l->name, &id, err));
        if (iq__vocab_set(&t->vocab, id, c->string, strlen(c->string), &other) != IQ_OK)
            return iq_fail(err, IQ_FORMAT, "%s: model.vocab: id %u of '%.60s' is taken already", l->name, id,
                           c->string);
        t->type[id] = IQ_TOKEN_NORMAL;
    }
    return IQ_OK;
}

/* One merge: "left right", or ["left", "right"]. */
static int merge_parts(const cJSON *c, struct iq_span *left, struct iq_span *right)
{
    if (cJSON_IsString(c)) {
        const char *space = strchr(c->valuestring, ' ');
        if (!space || strchr(space + 1, ' ')) return IQ_FORMAT;
        *left = (struct iq_span){c->valuestring, (size_t)(space - c->valuestring)};
        *right = (struct iq_span){space + 1, strlen(space + 1)};
        return IQ_OK;
    }
    const cJSON *a = cJSON_IsArray(c) ? c->child : NULL, *b = a ? a->next : NULL;
    if (!b || !cJSON_IsString(a) || !cJSON_IsString(b) || b->next) return IQ_FORMAT;
    *left = (struct iq_span){a->valuestring, strlen(a->valuestring)};
    *right = (struct iq_span){b->valuestring, strlen(b->valuestring)};
    return IQ_OK;
}

static int load_merges(struct loading *l, const cJSON *merges, struct iq_err *err)
{
    struct iq_tokenizer *t = l->t;
    struct iq_buf joined = IQ_BUF(UINT32_MAX / 2);
    uint32_t rank = 0;
    size_t prefix = t->prefix ? strlen(t->prefix) : 0;
    int status = IQ_OK;
    if (!cJSON_IsArray(merges)) return iq_fail(err, IQ_FORMAT, "%s: model.merges: expected a list", l->name);
    IQ_TRY(iq__merges_init(&t->merges, count(merges), err));
    for (const cJSON *c = merges->child; c && status == IQ_OK; c = c->next, rank++) {
        struct iq_span a, b;
        if (merge_parts(c, &a, &b) != IQ_OK) {
            status = iq_fail(err, IQ_FORMAT, "%s: model.merges[%u]: expected two tokens", l->name, rank);
            break;
        }
        size_t skip = b.len < prefix ? b.len : prefix;
        joined.len = 0;
        iq_buf_put(&joined, a.data, a.len);
        iq_buf_put(&joined, b.data + skip, b.len - skip);
        struct iq__merge m = {.rank = rank,
                              .left = iq__vocab_find(&t->vocab, a.data, a.len),
                              .right = iq__vocab_find(&t->vocab, b.data, b.len),
                              .id = joined.failed ? IQ_TOKEN_NONE
                                                  : iq__vocab_find(&t->vocab, joined.data, joined.len)};
        if (m.left == IQ_TOKEN_NONE || m.right == IQ_TOKEN_NONE || m.id == IQ_TOKEN_NONE)
            status = iq_fail(
                err, IQ_FORMAT,
                "%s: model.merges[%u] '%.*s' + '%.*s': the parts and their union must be in model.vocab",
                l->name, rank, (int)(a.len < 40 ? a.len : 40), a.data, (int)(b.len < 40 ? b.len : 40),
                b.data);
        else
            iq__merges_set(&t->merges, m, true);
    }
    iq_buf_free(&joined);
    return status;
}

static int load_affix(const cJSON *model, const char *key, const char *where, char **out, struct iq_err *err)
{
    const char *text = NULL;
    IQ_TRY(iq_json_str_opt(model, key, where, &text, err));
    if (!text || !*text) return IQ_OK;
    if (strlen(text) > AFFIX_MAX)
        return iq_fail(err, IQ_LIMIT, "%s: %s is longer than %d bytes", where, key, AFFIX_MAX);
    *out = strdup(text);
    return *out ? IQ_OK : iq_fail(err, IQ_MEMORY, "%s: no memory for %s", where, key);
}

static int load_model(struct loading *l, const cJSON *root, size_t file_len, struct iq_err *err)
{
    struct iq_tokenizer *t = l->t;
    const cJSON *model = get(root, "model"), *dropout = get(model, "dropout");
    const char *type = NULL;
    char where[256];
    snprintf(where, sizeof where, "%s: model", l->name);
    if (!cJSON_IsObject(model)) return iq_fail(err, IQ_FORMAT, "%s: expected an object", where);
    IQ_TRY(iq_json_str_opt(model, "type", where, &type, err));
    if (type ? strcmp(type, "BPE") != 0 : !get(model, "merges"))
        return iq_fail(err, IQ_UNSUPPORTED, "%s.type '%.60s' is not supported: expected BPE", where,
                       type ? type : "(absent)");
    if (dropout && !cJSON_IsNull(dropout) && !(cJSON_IsNumber(dropout) && dropout->valuedouble == 0))
        return iq_fail(err, IQ_UNSUPPORTED,
                       "%s.dropout is set: ids would be random; set it to null to use this tokenizer", where);
    IQ_TRY(iq_json_bool_opt(model, "byte_fallback", where, &t->byte_fallback, err));
    IQ_TRY(iq_json_bool_opt(model, "fuse_unk", where, &t->fuse_unk, err));
    IQ_TRY(iq_json_bool_opt(model, "ignore_merges", where, &t->ignore_merges, err));
    IQ_TRY(load_affix(model, "unk_token", where, &t->unk_spelling, err));
    IQ_TRY(load_affix(model, "continuing_subword_prefix", where, &t->prefix, err));
    IQ_TRY(load_affix(model, "end_of_word_suffix", where, &t->suffix, err));
    IQ_TRY(load_vocab(l, get(model, "vocab"), get(root, "added_tokens"), file_len, err));
    if (t->unk_spelling) t->unk = iq__vocab_find(&t->vocab, t->unk_spelling, strlen(t->unk_spelling));
    return load_merges(l, get(model, "merges"), err);
}

/* --- added tokens --- */

/* Hugging Face's rule: the model's id if the model has the token, else the next one behind all. */
static uint32_t added_id(const struct loading *l, const char *content)
{
    uint32_t id = iq__vocab_find(&l->t->vocab, content, strlen(content));
    if (id != IQ_TOKEN_NONE) return id;
    if (l->added_max == IQ_TOKEN_NONE) return l->model_count;
    return l->added_max >= l->model_count || !l->model_count ? l->added_max + 1 : l->model_count;
}

static int normal_text(struct iq_tokenizer *t, struct iq__added *a, struct iq_err *err)
{
    struct iq__scratch w = {.limit = 65536};
    struct iq_buf from = IQ_BUF(w.limit), to = IQ_BUF(w.limit);
    int status = IQ_OK;
    iq_buf_put(&from, a->text.data, a->text.len);
    for (size_t i = 0; i < t->normalizer.n && status == IQ_OK; i++) {
        to.len = 0;
        iq_buf_put(&to, "", 0);
        status =
            t->normalizer.step[i].rewrite(&t->normalizer.step[i], &w, from.data, from.len, true, &to, err);
        struct iq_buf swap = from;
        from = to;
        to = swap;
    }
    a->normal = from.data;
    a->text = (struct iq_span){from.data, from.len};
    iq_buf_free(&to);
    iq__scratch_free(&w);
    return status;
}

static int load_added_one(struct loading *l, const cJSON *c, uint32_t index, struct iq_err *err)
{
    struct iq_tokenizer *t = l->t;
    struct iq__added a = {0};
    const char *content;
    char where[256];
    bool normalized = true;
    uint64_t said = IQ_TOKEN_NONE;
    snprintf(where, sizeof where, "%s: added_tokens[%u]", l->name, index);
    IQ_TRY(iq_json_str(c, "content", where, &content, err));
    IQ_TRY(iq_json_u64_opt(c, "id", 0, UINT32_MAX, where, &said, err));
    IQ_TRY(iq_json_bool_opt(c, "single_word", where, &a.single_word, err));
    IQ_TRY(iq_json_bool_opt(c, "lstrip", where, &a.lstrip, err));
    IQ_TRY(iq_json_bool_opt(c, "rstrip", where, &a.rstrip, err));
    IQ_TRY(iq_json_bool_opt(c, "special", where, &a.special, err));
    normalized = !a.special;
    IQ_TRY(iq_json_bool_opt(c, "normalized", where, &normalized, err));
    if (!*content) return IQ_OK; /* ignored, as there */
    if (strlen(content) > ADDED_MAX)
        return iq_fail(err, IQ_LIMIT, "%s: longer than %d bytes", where, ADDED_MAX);
    a.id = added_id(l, content);
    if (iq__vocab_find(&t->vocab, content, strlen(content)) == IQ_TOKEN_NONE) {
        if (iq__vocab_set_hidden(&t->vocab, a.id, content, strlen(content)) != IQ_OK)
            return iq_fail(err, IQ_FORMAT, "%s: '%.60s' would get id %u, which another token has", where,
                           content, a.id);
        if (a.id >= t->n_ids) t->n_ids = a.id + 1;
    }
    if (said != a.id && !t->warning) {
        char text[400];
        snprintf(text, sizeof text, "%s: '%.60s' says id %llu, but counting as Hugging Face does it is %u",
                 where, content, (unsigned long long)said, a.id);
        t->warning = strdup(text);
    }
    if (l->added_max == IQ_TOKEN_NONE || a.id > l->added_max) l->added_max = a.id;
    t->type[a.id] = a.special ? IQ_TOKEN_CONTROL : IQ_TOKEN_USER;
    a.text = iq__vocab_span(&t->vocab, a.id);
    struct iq__added_set *set = normalized ? &t->normalized : &t->raw;
    IQ_TRY(iq_grow(&set->token, &set->cap, set->n + 1, sizeof *set->token, err));
    struct iq__added *stored = &set->token[set->n];
    *stored = a;
    set->n++;
    if (normalized) IQ_TRY(normal_text(t, stored, err));
    if (!stored->text.len) { /* nothing is left of it to be found */
        free(stored->normal);
        set->n--;
    }
    return IQ_OK;
}

static int load_added(struct loading *l, const cJSON *added, struct iq_err *err)
{
    uint32_t index = 0;
    if (!added || cJSON_IsNull(added)) return IQ_OK;
    if (!cJSON_IsArray(added)) return iq_fail(err, IQ_FORMAT, "%s: added_tokens: expected a list", l->name);
    for (const cJSON *c = added->child; c; c = c->next) {
        const cJSON *content = get(c, "content");
        /* a second entry of one content is ignored: contents with an own id are found among the added ones */
        uint32_t id = cJSON_IsString(content)
                          ? iq_tokenizer_find(l->t, content->valuestring, strlen(content->valuestring))
                          : IQ_TOKEN_NONE;
        bool again = id != IQ_TOKEN_NONE && l->t->type[id] != IQ_TOKEN_NORMAL;
        if (!again) IQ_TRY(load_added_one(l, c, index, err));
        index++;
    }
    return IQ_OK;
}

static int load(struct loading *l, const cJSON *root, const cJSON *config, size_t len, struct iq_err *err)
{
    struct iq_tokenizer *t = l->t;
    const cJSON *decoder = get(root, "decoder");
    if (!cJSON_IsObject(root)) return iq_fail(err, IQ_FORMAT, "%s: expected an object", l->name);
    IQ_TRY(load_model(l, root, len, err));
    IQ_TRY(iq__load_normalizer(get(root, "normalizer"), l->name, &t->normalizer, err));
    IQ_TRY(iq__load_splitter(get(root, "pre_tokenizer"), l->name, &t->splitter, err));
    IQ_TRY(iq__load_decoder(decoder, l->name, &t->decoder, err));
    t->join_with_space = !decoder || cJSON_IsNull(decoder);
    IQ_TRY(load_added(l, get(root, "added_tokens"), err));
    IQ_TRY(iq__load_processors(get(root, "post_processor"), l->name, t, err));
    if (config) IQ_TRY(iq__load_config(t, config, err));
    if (t->bos == IQ_TOKEN_NONE && t->before.n) t->bos = t->before.id[0];
    return iq__tokenizer_finish(t, err);
}

int iq_tokenizer_from_hf(const char *json, size_t len, const char *name, const char *config,
                         size_t config_len, struct iq_tokenizer **out, struct iq_err *err)
{
    *out = NULL;
    struct loading l = {.name = name, .added_max = IQ_TOKEN_NONE};
    cJSON *root = NULL, *settings = NULL;
    int status = len < UINT32_MAX / 2 ? iq_json_parse(json, len, name, &root, err)
                                      : iq_fail(err, IQ_LIMIT, "%s: larger than 2 GiB", name);
    const char *slash = strrchr(name, '/');
    char beside[600]; /* the folder is the same */
    snprintf(beside, sizeof beside, "%.*stokenizer_config.json", slash ? (int)(slash + 1 - name) : 0, name);
    if (status == IQ_OK && config) status = iq_json_parse(config, config_len, beside, &settings, err);
    if (status == IQ_OK) status = iq__tokenizer_new(name, &l.t, err);
    if (status == IQ_OK) status = load(&l, root, settings, len, err);
    iq_json_free(root);
    iq_json_free(settings);
    if (status == IQ_OK)
        *out = l.t;
    else
        iq_tokenizer_free(l.t);
    return status;
}
