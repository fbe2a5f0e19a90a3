/* What tokenizer.json's post_processor and tokenizer_config.json say: the special tokens, and which of them
 * are put around a text. */
#include "engine/text/tokenizer_parts.h"

#include <stdio.h>
#include <string.h>

#define get cJSON_GetObjectItemCaseSensitive

static int template_ids(const cJSON *processor, const cJSON *item, const char *where, struct iq_tokenizer *t,
                        struct iq_ids *out, struct iq_err *err)
{
    const char *name;
    uint64_t id;
    IQ_TRY(iq_json_str(item, "id", where, &name, err));
    const cJSON *ids = get(get(get(processor, "special_tokens"), name), "ids");
    if (!cJSON_IsArray(ids))
        return iq_fail(err, IQ_FORMAT, "%s: special_tokens['%.60s'].ids: expected a list", where, name);
    for (const cJSON *c = ids->child; c; c = c->next) {
        IQ_TRY(iq_json_item_u64(c, 0, t->n_ids ? t->n_ids - 1 : 0, where, &id, err));
        IQ_TRY(iq_ids_put(out, (uint32_t)id, err));
    }
    return IQ_OK;
}

static int load_template(const cJSON *c, const char *where, struct iq_tokenizer *t, struct iq_err *err)
{
    const cJSON *single = get(c, "single");
    int texts = 0;
    if (!cJSON_IsArray(single)) return iq_fail(err, IQ_FORMAT, "%s: single: expected a list", where);
    for (const cJSON *p = single->child; p; p = p->next) {
        const cJSON *special = get(p, "SpecialToken");
        if (special)
            IQ_TRY(template_ids(c, special, where, t, texts ? &t->after : &t->before, err));
        else if (!get(p, "Sequence") || texts++)
            return iq_fail(err, IQ_UNSUPPORTED, "%s: single: expected special tokens around one Sequence",
                           where);
    }
    return texts ? IQ_OK : iq_fail(err, IQ_FORMAT, "%s: single: has no Sequence", where);
}

/* {"cls": ["<s>", 0], "sep": ["</s>", 2]} */
static int load_cls_sep(const cJSON *c, const char *where, struct iq_tokenizer *t, struct iq_err *err)
{
    static const char *const keys[] = {"cls", "sep"};
    struct iq_ids *const lists[] = {&t->before, &t->after};
    for (int i = 0; i < 2; i++) {
        const cJSON *pair = get(c, keys[i]);
        uint64_t id;
        if (cJSON_GetArraySize(pair) != 2)
            return iq_fail(err, IQ_FORMAT, "%s: %s: expected [token, id]", where, keys[i]);
        IQ_TRY(
            iq_json_item_u64(cJSON_GetArrayItem(pair, 1), 0, t->n_ids ? t->n_ids - 1 : 0, where, &id, err));
        IQ_TRY(iq_ids_put(lists[i], (uint32_t)id, err));
    }
    return IQ_OK;
}

static int load_nothing(const cJSON *c, const char *where, struct iq_tokenizer *t, struct iq_err *err)
{
    (void)c, (void)where, (void)t, (void)err;
    return IQ_OK; /* ByteLevel only moves offsets */
}

static const struct {
    const char *type;
    int (*load)(const cJSON *, const char *where, struct iq_tokenizer *, struct iq_err *);
} processors[] = {{"TemplateProcessing", load_template},
                  {"ByteLevel", load_nothing},
                  {"RobertaProcessing", load_cls_sep},
                  {"BertProcessing", load_cls_sep}};

static int load_processor(const cJSON *c, const char *name, struct iq_tokenizer *t, struct iq_err *err)
{
    const cJSON *type = get(c, "type");
    char where[256];
    snprintf(where, sizeof where, "%s: post_processor %.60s", name,
             cJSON_IsString(type) ? type->valuestring : "without a type");
    for (size_t i = 0; cJSON_IsString(type) && i < sizeof processors / sizeof *processors; i++)
        if (!strcmp(processors[i].type, type->valuestring)) return processors[i].load(c, where, t, err);
    return iq_fail(
        err, IQ_UNSUPPORTED,
        "%s is not supported; supported are Sequence TemplateProcessing ByteLevel RobertaProcessing "
        "BertProcessing",
        where);
}

int iq__load_processors(const cJSON *c, const char *name, struct iq_tokenizer *t, struct iq_err *err)
{
    const cJSON *type = get(c, "type"), *list = get(c, "processors");
    if (!c || cJSON_IsNull(c)) return IQ_OK;
    if (!cJSON_IsString(type) || strcmp(type->valuestring, "Sequence") != 0)
        return load_processor(c, name, t, err);
    if (!cJSON_IsArray(list))
        return iq_fail(err, IQ_FORMAT, "%s: post_processor Sequence: expected a list 'processors'", name);
    for (const cJSON *p = list->child; p; p = p->next) IQ_TRY(load_processor(p, name, t, err));
    return IQ_OK;
}

/* A token is a string or an object with its content. */
static uint32_t config_token(const struct iq_tokenizer *t, const cJSON *config, const char *key)
{
    const cJSON *c = get(config, key);
    if (cJSON_IsObject(c)) c = get(c, "content");
    return cJSON_IsString(c) ? iq_tokenizer_find(t, c->valuestring, strlen(c->valuestring)) : IQ_TOKEN_NONE;
}

/* transformers writes the post-processor of these classes anew from the two flags. */
static bool obeys_flags(const cJSON *config)
{
    const cJSON *class = get(config, "tokenizer_class");
    static const char *const names[] = {"LlamaTokenizer",         "LlamaTokenizerFast", "CodeLlamaTokenizer",
                                        "CodeLlamaTokenizerFast", "GemmaTokenizer",     "GemmaTokenizerFast"};
    for (size_t i = 0; cJSON_IsString(class) && i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], class->valuestring)) return true;
    return false;
}

int iq__load_config(struct iq_tokenizer *t, const cJSON *config, struct iq_err *err)
{
    t->bos = config_token(t, config, "bos_token");
    t->eos = config_token(t, config, "eos_token");
    t->pad = config_token(t, config, "pad_token");
    uint32_t unk = config_token(t, config, "unk_token");
    if (unk != IQ_TOKEN_NONE) t->unk = unk;
    if (!obeys_flags(config)) return IQ_OK;
    const struct {
        const char *key;
        uint32_t id;
        struct iq_ids *list;
    } flags[] = {{"add_bos_token", t->bos, &t->before}, {"add_eos_token", t->eos, &t->after}};
    for (int i = 0; i < 2; i++) {
        const cJSON *flag = get(config, flags[i].key);
        if (!cJSON_IsBool(flag)) continue;
        flags[i].list->n = 0;
        if (cJSON_IsTrue(flag) && flags[i].id != IQ_TOKEN_NONE)
            IQ_TRY(iq_ids_put(flags[i].list, flags[i].id, err));
    }
    return IQ_OK;
}
