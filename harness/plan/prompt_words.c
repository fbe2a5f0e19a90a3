#include "harness/plan/prompt_words.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 4096, TEXT_MAX = 4096, BAD = 0, ALLOWED = 1 };

static int check_ids(const cJSON *word, const char *where, const char *field, struct iq_err *err)
{
    const cJSON *item;
    uint64_t id;
    if (cJSON_GetArraySize(word) < 1 || cJSON_GetArraySize(word) > TEXT_MAX)
        return iq_fail(err, IQ_FORMAT, "%s: %s: a word of %d tokens, expected 1 to %d", where, field,
                       cJSON_GetArraySize(word), TEXT_MAX);
    cJSON_ArrayForEach(item, word) IQ_TRY(iq_json_item_u64(item, 0, UINT32_MAX - 1, where, &id, err));
    return IQ_OK;
}

static int check_word(const cJSON *word, const char *where, const char *field, struct iq_err *err)
{
    if (cJSON_IsArray(word)) return check_ids(word, where, field, err);
    if (!cJSON_IsString(word))
        return iq_fail(err, IQ_FORMAT, "%s: %s: expected a list of texts, or of lists of token ids", where,
                       field);
    size_t n = strlen(word->valuestring);
    if (n && n <= TEXT_MAX) return IQ_OK;
    return iq_fail(err, IQ_FORMAT, "%s: %s: a text of %zu bytes, expected 1 to %d", where, field, n,
                   TEXT_MAX);
}

static int read_field(const cJSON *line, const char *field, const char *where, cJSON **out,
                      struct iq_err *err)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(line, field), *word;
    if (!list) return IQ_OK;
    int n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    if (n < 1 || n > WORDS_MAX)
        return iq_fail(err, IQ_FORMAT, "%s: %s: expected a list of 1 to %d texts or lists of token ids",
                       where, field, WORDS_MAX);
    cJSON_ArrayForEach(word, list) IQ_TRY(check_word(word, where, field, err));
    *out = cJSON_Duplicate(list, 1);
    return *out ? IQ_OK : iq_fail(err, IQ_MEMORY, "%s: no memory for %d words", where, n);
}

int iq_prompt_words_read(const cJSON *line, const char *where, struct iq_prompt_words *w, struct iq_err *err)
{
    IQ_TRY(read_field(line, "bad_words", where, &w->bad, err));
    return read_field(line, "allowed", where, &w->allowed, err);
}

static int write_field(const cJSON *list, const char *field, struct iq_jw *w, struct iq_err *err)
{
    if (!list) return IQ_OK;
    char *text = cJSON_PrintUnformatted(list);
    if (!text) return iq_fail(err, IQ_MEMORY, "no memory for %s", field);
    iq_jw_key(w, field);
    iq_jw_raw(w, text);
    cJSON_free(text);
    return IQ_OK;
}

int iq_prompt_words_write(const struct iq_prompt_words *p, struct iq_jw *w, struct iq_err *err)
{
    IQ_TRY(write_field(p->bad, "bad_words", w, err));
    return write_field(p->allowed, "allowed", w, err);
}

/* ---- tokens ---- */

static int put_text(struct iq_prompt_words *w, int field, const struct iq_tokenizer *t, const char *text,
                    struct iq_err *err)
{
    size_t before = w->ids[field].n;
    IQ_TRY(iq_tokenizer_encode(t, text, strlen(text), 0, &w->ids[field], err));
    return w->ids[field].n > before ? iq_ids_put(&w->first[field], (uint32_t)w->ids[field].n, err) : IQ_OK;
}

static int put_word(struct iq_prompt_words *w, int field, const struct iq_tokenizer *t, const cJSON *word,
                    struct iq_err *err)
{
    char spaced[TEXT_MAX + 2] = " ";
    const cJSON *item;
    if (cJSON_IsArray(word)) {
        cJSON_ArrayForEach(item, word) IQ_TRY(iq_ids_put(&w->ids[field], (uint32_t)item->valuedouble, err));
        return iq_ids_put(&w->first[field], (uint32_t)w->ids[field].n, err);
    }
    IQ_TRY(put_text(w, field, t, word->valuestring, err));
    if (field == ALLOWED || word->valuestring[0] == ' ') return IQ_OK;
    strcpy(spaced + 1, word->valuestring); /* its length was checked */
    return put_text(w, field, t, spaced, err);
}

static int put_words(struct iq_prompt_words *w, int field, const struct iq_tokenizer *t, const cJSON *list,
                     struct iq_words *out, struct iq_err *err)
{
    const cJSON *word;
    if (!list) return IQ_OK;
    IQ_TRY(iq_ids_put(&w->first[field], 0, err));
    cJSON_ArrayForEach(word, list) IQ_TRY(put_word(w, field, t, word, err));
    *out = (struct iq_words){w->ids[field].id, w->first[field].id, (uint32_t)w->first[field].n - 1};
    return IQ_OK;
}

int iq_prompt_words_tokenize(struct iq_prompt_words *w, const struct iq_tokenizer *t,
                             const struct iq_constraint **out, struct iq_err *err)
{
    *out = NULL;
    if (!w->bad && !w->allowed) return IQ_OK;
    IQ_TRY(put_words(w, BAD, t, w->bad, &w->constraint.bad, err));
    IQ_TRY(put_words(w, ALLOWED, t, w->allowed, &w->constraint.allowed, err));
    *out = &w->constraint;
    return IQ_OK;
}

void iq_prompt_words_free(struct iq_prompt_words *w)
{
    cJSON_Delete(w->bad);
    cJSON_Delete(w->allowed);
    for (int i = 0; i < 2; i++) {
        iq_ids_free(&w->ids[i]);
        iq_ids_free(&w->first[i]);
    }
}
