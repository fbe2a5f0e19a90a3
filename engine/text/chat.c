/* Chat templates: which one a model has, and who renders it. */
#include "engine/text/chat_parts.h"

#include "kernels/base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct iq_chat {
    char *name, *text; /* the template */
    size_t len;
    bool native;
    struct iq__chatml chatml;
    char *token[4]; /* bos, eos, unk, pad; NULL: absent */
};

static const char *const token_names[4] = {"bos_token", "eos_token", "unk_token", "pad_token"};

void iq_chat_source_tokens(struct iq_chat_source *s, const struct iq_tokenizer *t)
{
    s->bos = iq_tokenizer_spelling(t, iq_tokenizer_bos(t));
    s->eos = iq_tokenizer_spelling(t, iq_tokenizer_eos(t));
    s->unk = iq_tokenizer_spelling(t, iq_tokenizer_unk(t));
    s->pad = iq_tokenizer_spelling(t, iq_tokenizer_pad(t));
}

static int no_template(const char *name, struct iq_err *err)
{
    return iq_fail(err, IQ_NOT_FOUND,
                   "%s: the model has no chat template: give the prompt as it is with --raw", name);
}

static int copy(char **out, size_t *len, const char *s, size_t n, struct iq_err *err)
{
    if (n > IQ_CHAT_MAX)
        return iq_fail(err, IQ_LIMIT, "a chat template of %zu bytes; at most %zu", n, IQ_CHAT_MAX);
    *out = malloc(n + 1);
    if (!*out) return iq_fail(err, IQ_MEMORY, "no memory for a chat template of %zu bytes", n);
    memcpy(*out, s, n);
    (*out)[n] = 0;
    if (len) *len = n;
    return IQ_OK;
}

/* chat_template: a text, or [{"name": ..., "template": ...}], of which 'default' is taken. */
static int pick_template(const cJSON *config, const char *name, struct iq_chat *c, struct iq_err *err)
{
    const cJSON *have = cJSON_GetObjectItemCaseSensitive(config, "chat_template"), *chosen = NULL;
    char names[256] = "";
    if (!have || cJSON_IsNull(have)) return no_template(name, err);
    if (cJSON_IsString(have))
        return copy(&c->text, &c->len, have->valuestring, strlen(have->valuestring), err);
    if (!cJSON_IsArray(have))
        return iq_fail(err, IQ_FORMAT, "%s: chat_template: expected a text or a list of named templates",
                       name);
    for (const cJSON *item = have->child; item; item = item->next) {
        const cJSON *label = cJSON_GetObjectItemCaseSensitive(item, "name");
        const cJSON *text = cJSON_GetObjectItemCaseSensitive(item, "template");
        if (!cJSON_IsString(label) || !cJSON_IsString(text))
            return iq_fail(err, IQ_FORMAT, "%s: chat_template: expected a name and a template in each entry",
                           name);
        size_t used = strlen(names), room = sizeof names - used;
        if (strlen(label->valuestring) + 1 < room) snprintf(names + used, room, " %s", label->valuestring);
        if (strcmp(label->valuestring, "default") != 0) continue;
        if (chosen)
            return iq_fail(err, IQ_FORMAT, "%s: chat_template: two templates are named 'default'", name);
        chosen = text;
    }
    if (chosen) return copy(&c->text, &c->len, chosen->valuestring, strlen(chosen->valuestring), err);
    return iq_fail(
        err, IQ_UNSUPPORTED,
        "%s: chat_template: none of the named templates is 'default' (there are:%s): give the prompt as it "
        "is with --raw",
        name, names);
}

static int take_template(const struct iq_chat_source *s, struct iq_chat *c, struct iq_err *err)
{
    if (s->jinja.data) return copy(&c->text, &c->len, s->jinja.data, s->jinja.len, err);
    if (s->text.data) return copy(&c->text, &c->len, s->text.data, s->text.len, err);
    if (!s->config.data) return no_template(c->name, err);
    cJSON *config;
    IQ_TRY(iq_json_parse(s->config.data, s->config.len, c->name, &config, err));
    int status = pick_template(config, c->name, c, err);
    iq_json_free(config);
    return status;
}

int iq_chat_open(const struct iq_chat_source *s, struct iq_chat **out, struct iq_err *err)
{
    *out = NULL;
    struct iq_chat *c = calloc(1, sizeof *c);
    if (!c) return iq_fail(err, IQ_MEMORY, "no memory for a chat template");
    const char *name = s->name ? s->name : "the model";
    const struct iq_span tokens[4] = {s->bos, s->eos, s->unk, s->pad};
    int status = copy(&c->name, NULL, name, strlen(name), err);
    if (status == IQ_OK) status = take_template(s, c, err);
    for (int i = 0; i < 4 && status == IQ_OK; i++)
        if (tokens[i].len) status = copy(&c->token[i], NULL, tokens[i].data, tokens[i].len, err);
    if (status == IQ_OK) c->native = iq__chatml_recognise(c->text, c->len, &c->chatml) == IQ_OK;
    if (status == IQ_OK)
        *out = c;
    else
        iq_chat_free(c);
    return status;
}

void iq_chat_free(struct iq_chat *c)
{
    if (!c) return;
    for (int i = 0; i < 4; i++) free(c->token[i]);
    free(c->chatml.fallback);
    free(c->name);
    free(c->text);
    free(c);
}

const char *iq_chat_kind(const struct iq_chat *c) { return c->native ? "chatml" : "jinja2"; }

static int render_jinja(const struct iq_chat *c, const struct iq_chat_message *m, size_t n, bool prompt,
                        int64_t now, struct iq_buf *out, struct iq_err *err)
{
    struct iq_buf request = IQ_BUF(8 * IQ_CHAT_MAX);
    struct iq_jw w = IQ_JW(&request);
    iq_jw_begin(&w, '{');
    iq_jw_key(&w, "template");
    iq_jw_strn(&w, c->text, c->len);
    iq_jw_key(&w, "add_generation_prompt");
    iq_jw_bool(&w, prompt);
    iq_jw_key(&w, "now");
    iq_jw_i64(&w, now);
    iq_jw_key(&w, "tokens");
    iq_jw_begin(&w, '{');
    for (int i = 0; i < 4; i++) {
        if (!c->token[i]) continue;
        iq_jw_key(&w, token_names[i]);
        iq_jw_str(&w, c->token[i]);
    }
    iq_jw_end(&w, '}');
    iq_jw_key(&w, "messages");
    iq_jw_begin(&w, '[');
    for (size_t i = 0; i < n; i++) {
        iq_jw_begin(&w, '{');
        iq_jw_key(&w, "role");
        iq_jw_strn(&w, m[i].role.data, m[i].role.len);
        iq_jw_key(&w, "content");
        iq_jw_strn(&w, m[i].content.data, m[i].content.len);
        iq_jw_end(&w, '}');
    }
    iq_jw_end(&w, ']');
    iq_jw_end(&w, '}');
    int status = request.failed
                     ? iq_fail(err, IQ_LIMIT, "%s: the messages are too long for a chat template", c->name)
                     : iq__jinja_render(request.data, request.len, out, err);
    iq_buf_free(&request);
    return status;
}

int iq_chat_render(const struct iq_chat *c, const struct iq_chat_message *m, size_t n,
                   bool add_generation_prompt, int64_t now, struct iq_buf *out, struct iq_err *err)
{
    size_t before = out->len;
    if (!n) return iq_fail(err, IQ_USAGE, "no messages: expected at least one");
    if (!c->native || !iq__chatml_serves(&c->chatml, m, n))
        return render_jinja(c, m, n, add_generation_prompt, now, out, err);
    iq__chatml_render(&c->chatml, m, n, add_generation_prompt, out);
    if (!out->failed) return IQ_OK;
    out->len = before;
    if (out->data) out->data[before] = 0;
    return iq_fail(err, IQ_LIMIT, "the rendered messages exceed %zu bytes", out->max);
}

int iq_chat_encode(const struct iq_chat *c, const struct iq_tokenizer *t, const struct iq_chat_message *m,
                   size_t n, bool add_generation_prompt, int64_t now, struct iq_buf *text, struct iq_ids *out,
                   struct iq_err *err)
{
    struct iq_buf own = IQ_BUF(IQ_CHAT_MAX), *buf = text ? text : &own;
    size_t start = buf->len, had = out->n;
    int status = iq_chat_render(c, m, n, add_generation_prompt, now, buf, err);
    const char *bos = c->token[0];
    size_t bos_len = bos ? strlen(bos) : 0;
    bool there =
        status == IQ_OK && bos_len && buf->len - start >= bos_len && !memcmp(buf->data + start, bos, bos_len);
    if (status == IQ_OK && iq_tokenizer_adds_bos(t) && iq_tokenizer_is_gguf(t) && !there)
        status = iq_ids_put(out, iq_tokenizer_bos(t), err);
    if (status == IQ_OK)
        status = iq_tokenizer_encode(t, buf->data ? buf->data + start : "", buf->len - start, IQ_ENCODE_PARSE,
                                     out, err);
    if (status != IQ_OK) out->n = had;
    iq_buf_free(&own);
    return status;
}
