#include "harness/plan/prompts.h"
#include "kernels/base/grow.h"

#include <errno.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPTS_MAX = 1 << 20, PROMPT_NOW = 1767225600 /* 2026-01-01, for templates that ask the time */ };
#define FILE_MAX ((size_t)1 << 30)
/* 1e-6, less what its float loses in the nine digits of a record (9.99999997e-07), which must be read again. */
#define LEAST_TOP_P 9.9999999e-7

static const char *const fields[] = {
    "id",       "messages", "prompt",    "ids",       "max_tokens",  "seed",   "temperature", "top_k",
    "top_p",    "min_p",    "session",   "arrive_ms", "ignore_stop", "expect", "tie",         "cancel_after",
    "truncate", "tenant",   "bad_words", "allowed",   "adapter",     NULL};

static int add(struct iq_prompts *p, struct iq_prompt **out, struct iq_err *err)
{
    *out = NULL;
    if (p->n == PROMPTS_MAX) return iq_fail(err, IQ_LIMIT, "more than %d prompts", PROMPTS_MAX);
    IQ_TRY(iq_grow(&p->prompt, &p->cap, (size_t)p->n + 1, sizeof *p->prompt, err));
    *out = &p->prompt[p->n++]; /* counted at once, so that iq_prompts_free sees what follows */
    return IQ_OK;
}

static int copy(const char *s, char **out, struct iq_err *err)
{
    *out = s ? strdup(s) : NULL;
    return s && !*out ? iq_fail(err, IQ_MEMORY, "no memory for a prompt") : IQ_OK;
}

/* ---- parameters ---- */

static int read_params(const cJSON *line, const char *where, const struct iq_prompt_defaults *d,
                       struct iq_prompt *p, struct iq_err *err)
{
    uint64_t max_tokens = d->max_tokens, top_k = d->top_k, session = 0, arrive_ms = 0, seed = d->seed,
             cancel_after = 0, truncate = 0, tenant = 0;
    double temperature = d->temperature, top_p = d->top_p, min_p = d->min_p;
    bool ignore_stop = false;
    const char *expect = NULL, *adapter = NULL;
    IQ_TRY(iq_json_u64_opt(line, "max_tokens", 0, 1 << 24, where, &max_tokens, err));
    IQ_TRY(iq_json_u64_opt(line, "seed", 0, (uint64_t)1 << 53, where, &seed, err));
    IQ_TRY(iq_json_f64_opt(line, "temperature", 0, 100, where, &temperature, err));
    IQ_TRY(iq_json_u64_opt(line, "top_k", 0, 1 << 22, where, &top_k, err));
    IQ_TRY(iq_json_f64_opt(line, "top_p", LEAST_TOP_P, 1, where, &top_p, err));
    IQ_TRY(iq_json_f64_opt(line, "min_p", 0, 1, where, &min_p, err));
    IQ_TRY(iq_json_u64_opt(line, "session", 0, UINT32_MAX, where, &session, err));
    IQ_TRY(iq_json_u64_opt(line, "arrive_ms", 0, (uint64_t)1 << 40, where, &arrive_ms, err));
    IQ_TRY(iq_json_bool_opt(line, "ignore_stop", where, &ignore_stop, err));
    IQ_TRY(iq_json_u64_opt(line, "cancel_after", 0, 1 << 24, where, &cancel_after, err));
    IQ_TRY(iq_json_u64_opt(line, "truncate", 0, 1 << 24, where, &truncate, err));
    IQ_TRY(iq_json_u64_opt(line, "tenant", 0, UINT32_MAX, where, &tenant, err));
    IQ_TRY(iq_json_str_opt(line, "expect", where, &expect, err));
    IQ_TRY(copy(expect, &p->expect, err));
    IQ_TRY(iq_json_str_opt(line, "adapter", where, &adapter, err));
    IQ_TRY(copy(adapter, &p->adapter, err));
    IQ_TRY(iq_prompt_words_read(line, where, &p->words, err));
    p->request = (struct iq_request){.max_tokens = (uint32_t)max_tokens,
                                     .session = (uint32_t)session,
                                     .temperature = (float)temperature,
                                     .top_p = (float)top_p,
                                     .min_p = (float)min_p,
                                     .top_k = (uint32_t)top_k,
                                     .seed = seed,
                                     .arrive_us = arrive_ms * 1000,
                                     .score = d->score,
                                     .ignore_stop = ignore_stop,
                                     .cancel_after = (uint32_t)cancel_after,
                                     .truncate = (uint32_t)truncate,
                                     .tenant = (uint32_t)tenant};
    return IQ_OK;
}

/* The parameters as the record keeps them, and as iq_prompts_recorded reads them again. */
static int write_params(struct iq_prompt *p, struct iq_err *err)
{
    const struct iq_request *r = &p->request;
    struct iq_buf b = IQ_BUF((size_t)1 << 28);
    struct iq_jw w = IQ_JW(&b);
    iq_jw_begin(&w, '{');
    iq_jw_key(&w, "max_tokens"), iq_jw_u64(&w, r->max_tokens);
    iq_jw_key(&w, "seed"), iq_jw_u64(&w, r->seed);
    iq_jw_key(&w, "temperature"), iq_jw_f32(&w, r->temperature);
    iq_jw_key(&w, "top_k"), iq_jw_u64(&w, r->top_k);
    iq_jw_key(&w, "top_p"), iq_jw_f32(&w, r->top_p);
    iq_jw_key(&w, "min_p"), iq_jw_f32(&w, r->min_p);
    if (r->session) iq_jw_key(&w, "session"), iq_jw_u64(&w, r->session);
    if (r->arrive_us) iq_jw_key(&w, "arrive_ms"), iq_jw_u64(&w, r->arrive_us / 1000);
    if (r->ignore_stop) iq_jw_key(&w, "ignore_stop"), iq_jw_bool(&w, true);
    if (r->cancel_after) iq_jw_key(&w, "cancel_after"), iq_jw_u64(&w, r->cancel_after);
    if (r->truncate) iq_jw_key(&w, "truncate"), iq_jw_u64(&w, r->truncate);
    if (r->tenant) iq_jw_key(&w, "tenant"), iq_jw_u64(&w, r->tenant);
    if (p->expect) iq_jw_key(&w, "expect"), iq_jw_str(&w, p->expect);
    if (p->adapter) iq_jw_key(&w, "adapter"), iq_jw_str(&w, p->adapter);
    int status = iq_prompt_words_write(&p->words, &w, err);
    iq_jw_end(&w, '}');
    bool failed = b.failed || status != IQ_OK;
    p->params = failed ? NULL : b.data; /* moved */
    if (failed) iq_buf_free(&b);
    return failed ? iq_fail(err, IQ_MEMORY, "prompt %s: no memory for its parameters", p->id) : IQ_OK;
}

/* ---- lines ---- */

static int check_messages(const cJSON *messages, const char *where, struct iq_err *err)
{
    static const char *const known[] = {"role", "content", NULL};
    /* The last four: of OpenAI's, Qwen's, Llama's and Gemma's templates. */
    static const char *const roles[] = {"system",   "user",    "assistant", "tool", "developer",
                                        "function", "ipython", "model",     NULL};
    const cJSON *m;
    if (!cJSON_IsArray(messages) || !messages->child)
        return iq_fail(err, IQ_FORMAT, "%s: messages: expected a list of {\"role\", \"content\"}", where);
    cJSON_ArrayForEach(m, messages)
    {
        const char *s;
        IQ_TRY(iq_json_known(m, known, where, err));
        IQ_TRY(iq_json_str(m, "role", where, &s, err));
        size_t i = 0;
        while (roles[i] && strcmp(roles[i], s)) i++;
        if (!roles[i]) return iq_not_among("role", s, roles, where, IQ_FORMAT, err);
        IQ_TRY(iq_json_str(m, "content", where, &s, err));
    }
    return IQ_OK;
}

static int read_ids(const cJSON *ids, const char *where, struct iq_ids *out, struct iq_err *err)
{
    const cJSON *item;
    if (!cJSON_IsArray(ids) || !ids->child)
        return iq_fail(err, IQ_FORMAT, "%s: ids: expected a list of token ids", where);
    cJSON_ArrayForEach(item, ids)
    {
        uint64_t id;
        IQ_TRY(iq_json_item_u64(item, 0, UINT32_MAX - 1, where, &id, err));
        IQ_TRY(iq_ids_put(out, (uint32_t)id, err));
    }
    return IQ_OK;
}

static int read_tie(const cJSON *tie, const char *line, uint32_t max_tokens, struct iq_prompt_tie *out,
                    struct iq_err *err)
{
    static const char *const known[] = {"model", "token", "rival", "margin", "ids", NULL};
    char where[560];
    const char *model;
    uint64_t token, rival;
    double margin = -1;
    snprintf(where, sizeof where, "%s: tie", line);
    IQ_TRY(iq_json_known(tie, known, where, err));
    IQ_TRY(iq_json_str(tie, "model", where, &model, err));
    IQ_TRY(iq_json_u64(tie, "token", 0, UINT32_MAX - 1, where, &token, err));
    IQ_TRY(iq_json_u64(tie, "rival", 0, UINT32_MAX - 1, where, &rival, err));
    IQ_TRY(iq_json_f64_opt(tie, "margin", 0, FLT_MAX, where, &margin, err));
    IQ_TRY(read_ids(cJSON_GetObjectItemCaseSensitive(tie, "ids"), where, &out->ids, err));
    if (margin < 0) return iq_fail(err, IQ_FORMAT, "%s: \"margin\" is missing", where);
    if (strlen(model) != IQ_SHA256_HEX - 1)
        return iq_fail(err, IQ_FORMAT, "%s: model: found %zu characters, expected a SHA-256 of %d", where,
                       strlen(model), IQ_SHA256_HEX - 1);
    if (token + 1 != out->ids.n || out->ids.n != max_tokens)
        return iq_fail(
            err, IQ_FORMAT,
            "%s: found token %llu, %zu ids and max_tokens %u; expected an answer that ends with the tie",
            where, (unsigned long long)token, out->ids.n, max_tokens);
    memcpy(out->model, model, sizeof out->model);
    out->rival = (uint32_t)rival;
    out->margin = (float)margin;
    return IQ_OK;
}

static int read_line(cJSON *line, const char *where, const struct iq_prompt_defaults *d,
                     struct iq_prompts *all, struct iq_err *err)
{
    struct iq_prompt *p;
    const char *id, *text = NULL;
    IQ_TRY(iq_json_known(line, fields, where, err));
    IQ_TRY(iq_json_str(line, "id", where, &id, err));
    IQ_TRY(add(all, &p, err));
    IQ_TRY(copy(id, &p->id, err));
    const cJSON *messages = cJSON_GetObjectItemCaseSensitive(line, "messages");
    const cJSON *ids = cJSON_GetObjectItemCaseSensitive(line, "ids");
    IQ_TRY(iq_json_str_opt(line, "prompt", where, &text, err));
    if (!!messages + !!ids + !!text != 1)
        return iq_fail(err, IQ_FORMAT,
                       "%s: found %d of \"messages\", \"prompt\" and \"ids\"; expected exactly one", where,
                       !!messages + !!ids + !!text);
    if (messages) {
        IQ_TRY(check_messages(messages, where, err));
        p->messages = cJSON_DetachItemFromObjectCaseSensitive(line, "messages");
    }
    const cJSON *tie = cJSON_GetObjectItemCaseSensitive(line, "tie");
    if (ids) IQ_TRY(read_ids(ids, where, &p->ids, err));
    IQ_TRY(copy(text, &p->text, err));
    IQ_TRY(read_params(line, where, d, p, err));
    if (tie) IQ_TRY(read_tie(tie, where, p->request.max_tokens, &p->tie, err));
    return write_params(p, err);
}

static int by_id(const void *a, const void *b)
{
    return strcmp((*(const struct iq_prompt *const *)a)->id, (*(const struct iq_prompt *const *)b)->id);
}

static int check_unique(const struct iq_prompts *p, const char *path, struct iq_err *err)
{
    const struct iq_prompt **sorted = malloc((p->n + 1) * sizeof(struct iq_prompt *));
    int status = IQ_OK;
    if (!sorted) return iq_fail(err, IQ_MEMORY, "no memory for %u prompts", p->n);
    for (uint32_t i = 0; i < p->n; i++) sorted[i] = &p->prompt[i];
    qsort(sorted, p->n, sizeof *sorted, by_id);
    for (uint32_t i = 1; i < p->n && status == IQ_OK; i++)
        if (!strcmp(sorted[i]->id, sorted[i - 1]->id))
            status = iq_fail(err, IQ_FORMAT, "%s: two prompts have the id \"%s\"", path, sorted[i]->id);
    free(sorted);
    return status;
}

static int read_lines(FILE *f, const char *path, const struct iq_prompt_defaults *d, struct iq_prompts *p,
                      struct iq_err *err)
{
    char *line = NULL, where[512];
    size_t cap = 0, total = 0;
    int status = IQ_OK;
    ssize_t n;
    for (unsigned number = 1; status == IQ_OK && (n = getline(&line, &cap, f)) >= 0; number++) {
        cJSON *json = NULL;
        snprintf(where, sizeof where, "%s:%u", path, number);
        if ((total += (size_t)n) > FILE_MAX)
            status = iq_fail(err, IQ_LIMIT, "%s: more than %zu bytes of prompts", where, FILE_MAX);
        if (status != IQ_OK || strspn(line, " \t\r\n") == (size_t)n) continue;
        status = iq_json_parse(line, (size_t)n, where, &json, err);
        if (status == IQ_OK) status = read_line(json, where, d, p, err);
        iq_json_free(json);
    }
    if (status == IQ_OK && ferror(f))
        status = iq_fail(err, IQ_IO, "%s: read failed: %s", path, strerror(errno));
    free(line);
    return status;
}

int iq_prompts_read(const char *path, const struct iq_prompt_defaults *d, struct iq_prompts *p,
                    struct iq_err *err)
{
    FILE *f = fopen(path, "re");
    if (!f) return iq_fail(err, IQ_IO, "%s: cannot be opened: %s", path, strerror(errno));
    int status = read_lines(f, path, d, p, err);
    fclose(f);
    if (status == IQ_OK && !p->n) status = iq_fail(err, IQ_FORMAT, "%s: no prompts in it", path);
    return status == IQ_OK ? check_unique(p, path, err) : status;
}

int iq_prompts_list(cJSON *list, const char *where, const struct iq_prompt_defaults *d, struct iq_prompts *p,
                    struct iq_err *err)
{
    cJSON *line;
    char at[512];
    if (!cJSON_IsArray(list) || !list->child)
        return iq_fail(err, IQ_FORMAT, "%s: expected a list of prompts", where);
    cJSON_ArrayForEach(line, list)
    {
        snprintf(at, sizeof at, "%.400s[%u]", where, p->n);
        IQ_TRY(read_line(line, at, d, p, err));
    }
    return check_unique(p, where, err);
}

int iq_prompts_one(const char *text, const struct iq_prompt_defaults *d, struct iq_prompts *all,
                   struct iq_err *err)
{
    struct iq_prompt *p;
    IQ_TRY(add(all, &p, err));
    IQ_TRY(copy("prompt", &p->id, err));
    IQ_TRY(read_params(NULL, "prompt", d, p, err));
    IQ_TRY(write_params(p, err));
    if (d->raw || d->score) return copy(text, &p->text, err);
    cJSON *m = cJSON_CreateObject();
    p->messages = cJSON_CreateArray();
    if (!m || !p->messages || !cJSON_AddItemToArray(p->messages, m) ||
        !cJSON_AddStringToObject(m, "role", "user") || !cJSON_AddStringToObject(m, "content", text))
        return iq_fail(err, IQ_MEMORY, "no memory for the prompt");
    return IQ_OK;
}

int iq_prompts_recorded(const char *id, const char *params, const uint32_t *ids, uint32_t n,
                        struct iq_prompts *all, struct iq_err *err)
{
    const struct iq_prompt_defaults none = {.top_p = 1};
    struct iq_prompt *p;
    cJSON *json;
    char where[256];
    snprintf(where, sizeof where, "request %.200s: params", id);
    IQ_TRY(iq_json_parse(params, strlen(params), where, &json, err));
    int status = add(all, &p, err);
    if (status == IQ_OK) status = copy(id, &p->id, err);
    if (status == IQ_OK) status = read_params(json, where, &none, p, err);
    if (status == IQ_OK) status = write_params(p, err);
    iq_json_free(json);
    for (uint32_t i = 0; status == IQ_OK && i < n; i++) status = iq_ids_put(&p->ids, ids[i], err);
    return status;
}

/* ---- tokens ---- */

static int encode_messages(const struct iq_prompt *p, const struct iq_model *m, struct iq_ids *out,
                           struct iq_err *err)
{
    struct iq_chat_message *list = calloc((size_t)cJSON_GetArraySize(p->messages), sizeof *list);
    const cJSON *item;
    size_t n = 0;
    if (!m->chat) {
        free(list);
        return iq_fail(
            err, IQ_UNSUPPORTED,
            "the model has no usable chat template; give raw text (--raw, or \"prompt\" in the file)");
    }
    if (!list) return iq_fail(err, IQ_MEMORY, "no memory for its messages");
    cJSON_ArrayForEach(item, p->messages)
    {
        const char *role = cJSON_GetObjectItemCaseSensitive(item, "role")->valuestring;
        const char *content = cJSON_GetObjectItemCaseSensitive(item, "content")->valuestring;
        list[n++] = (struct iq_chat_message){{role, strlen(role)}, {content, strlen(content)}};
    }
    /* Time is virtual: a template that prints the date prints the same one for ever. */
    int status = iq_chat_encode(m->chat, m->tokenizer, list, n, true, PROMPT_NOW, NULL, out, err);
    free(list);
    return status;
}

/* Where the messages of a prompt begin: at the control token that opens the first, each time that it stands there. A
 * beginning of the sequence before them, which a template has once, is no part of any. */
static int find_parts(struct iq_prompt *p, const struct iq_tokenizer *t, struct iq_err *err)
{
    const uint32_t *id = p->ids.id;
    size_t n = p->ids.n, at = 0, again = 0;
    bool begins = n && id[0] == iq_tokenizer_bos(t);
    for (size_t i = 1; i < n; i++) again += id[i] == id[0];
    if (begins && !again) at = 1;
    p->request.special = (uint32_t)at;
    for (size_t i = at; i < n; i++) {
        if (i == at || (id[i] == id[at] && iq_tokenizer_is_special(t, id[at])))
            IQ_TRY(iq_ids_put(&p->parts, (uint32_t)i, err));
    }
    p->request.part = p->parts.id;
    p->request.parts = (uint32_t)p->parts.n;
    return IQ_OK;
}

int iq_prompts_tokenize(struct iq_prompts *all, const struct iq_model *m, struct iq_err *err)
{
    all->request = calloc(all->n ? all->n : 1, sizeof *all->request);
    if (!all->request) return iq_fail(err, IQ_MEMORY, "no memory for %u requests", all->n);
    IQ_TRY(iq_adapters_open(&all->adapters, m, err));
    for (uint32_t i = 0; i < all->n; i++) {
        struct iq_prompt *p = &all->prompt[i];
        int status = IQ_OK;
        if (p->text)
            status = iq_tokenizer_encode(m->tokenizer, p->text, strlen(p->text),
                                         IQ_ENCODE_SPECIAL | IQ_ENCODE_PARSE, &p->ids, err);
        if (p->messages) status = encode_messages(p, m, &p->ids, err);
        if (status == IQ_OK) status = find_parts(p, m->tokenizer, err);
        if (status != IQ_OK) {
            iq_err_prefix(err, "prompt %s: ", p->id);
            return status;
        }
        all->request[i] = p->request;
        status = iq_prompt_words_tokenize(&p->words, m->tokenizer, &all->request[i].constraint, err);
        if (status == IQ_OK && p->adapter)
            status = iq_adapters_find(&all->adapters, p->adapter, &all->request[i].adapter, err);
        if (status != IQ_OK) {
            iq_err_prefix(err, "prompt %s: ", p->id);
            return status;
        }
        all->request[i].index = i;
        all->request[i].id = p->id;
        all->request[i].params = p->params;
        all->request[i].prompt = p->ids.id;
        all->request[i].n_prompt = (uint32_t)p->ids.n;
    }
    return IQ_OK;
}

void iq_prompts_free(struct iq_prompts *all)
{
    for (uint32_t i = 0; i < all->n; i++) {
        struct iq_prompt *p = &all->prompt[i];
        free(p->id);
        free(p->params);
        free(p->text);
        free(p->expect);
        free(p->adapter);
        cJSON_Delete(p->messages);
        iq_ids_free(&p->ids);
        iq_prompt_words_free(&p->words);
        iq_ids_free(&p->parts);
        iq_ids_free(&p->tie.ids);
    }
    iq_adapters_free(&all->adapters);
    free(all->prompt);
    free(all->request);
    *all = (struct iq_prompts){0};
}

struct iq_digest iq_prompts_digest(const struct iq_prompts *all)
{
    struct iq_digest d[4] = {{0, 0}};
    for (uint32_t i = 0; i < all->n; i++) {
        const struct iq_prompt *p = &all->prompt[i];
        d[1] = iq_digest_bytes(p->id, strlen(p->id));
        d[2] = iq_digest_bytes(p->ids.id, p->ids.n * sizeof *p->ids.id);
        d[3] = iq_digest_bytes(p->params, strlen(p->params));
        d[0] = iq_digest_list(d, 4);
    }
    return d[0];
}
