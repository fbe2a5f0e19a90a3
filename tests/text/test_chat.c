/* Chat templates: native ChatML against the reference, and Jinja in a child process. */
#include "engine/text/chat.h"
#include "tests/check_main.h"
#include "tests/text/vectors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPAN(text) ((struct iq_span){(text), strlen(text)})

static const char SMOLLM2[] =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ "
    "'<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

static const char QWEN25[] =
    "{%- if tools %}\n    {{- '<|im_start|>system\\n' }}\n    {%- if messages[0]['role'] == 'system' %}\n"
    "        {{- messages[0]['content'] }}\n    {%- else %}\n        {{- 'You are Qwen.' }}\n    {%- endif "
    "%}\n"
    "    {{- \"\\n\\n# Tools\\n\\n{\\\"name\\\": 1}\" }}\n    {%- for tool in tools %}\n        {{- \"\\n\" "
    "}}\n"
    "        {{- tool | tojson }}\n    {%- endfor %}\n{%- else %}\n    {%- if messages[0]['role'] == "
    "'system' %}\n"
    "        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}\n    {%- else %}\n"
    "        {{- '<|im_start|>system\\nYou are Qwen.<|im_end|>\\n' }}\n    {%- endif %}\n{%- endif %}\n"
    "{%- for message in messages %}\n    {%- if (message.role == \"user\") or (message.role == \"system\" "
    "and not "
    "loop.first) or (message.role == \"assistant\" and not message.tool_calls) %}\n"
    "        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}\n"
    "    {%- elif message.role == \"assistant\" %}\n        {{- '<|im_start|>' + message.role }}\n"
    "        {%- if message.content %}\n            {{- '\\n' + message.content }}\n        {%- endif %}\n"
    "    {%- elif message.role == \"tool\" %}\n        {{- '<|im_start|>user' + message.content }}\n    {%- "
    "endif %}\n"
    "{%- endfor %}\n{%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n' }}\n{%- endif %}\n";

static struct iq_chat *open_text(const char *text)
{
    struct iq_chat_source s = {.name = "model", .text = SPAN(text)};
    struct iq_chat *c;
    struct iq_err err;
    if (iq_chat_open(&s, &c, &err) != IQ_OK) ck_abort_msg("%s", err.text);
    return c;
}

/* Renders "role: content" pairs; the status, with the text or the error's sentence in `out`. */
static int render(const struct iq_chat *c, const char *const *pairs, size_t n, bool prompt, char *out,
                  size_t size)
{
    struct iq_chat_message m[8];
    struct iq_buf b = IQ_BUF(1 << 20);
    struct iq_err err;
    for (size_t i = 0; i < n; i++)
        m[i] = (struct iq_chat_message){SPAN(pairs[2 * i]), SPAN(pairs[2 * i + 1])};
    iq_buf_put(&b, "", 0);
    int status = iq_chat_render(c, m, n, prompt, 1700000000, &b, &err);
    snprintf(out, size, "%s", status == IQ_OK ? b.data : err.text);
    iq_buf_free(&b);
    return status;
}

static bool jinja_is_here; /* found out once, before the tests fork */

static bool find_jinja(void)
{
    char out[1024];
    const char *const hello[] = {"user", "x"};
    struct iq_chat *c = open_text("{{ messages[0].content }}!");
    int status = render(c, hello, 1, false, out, sizeof out);
    iq_chat_free(c);
    return status == IQ_OK;
}

static void reference_line(const cJSON *line, void *ctx)
{
    const cJSON *messages = cJSON_GetObjectItem(line, "messages"), *ids = cJSON_GetObjectItem(line, "ids");
    if (!messages) return;
    struct iq_chat_message m[32];
    size_t n = 0;
    for (const cJSON *c = messages->child; c && n < 32; c = c->next)
        m[n++] = (struct iq_chat_message){SPAN(cJSON_GetObjectItem(c, "role")->valuestring),
                                          SPAN(cJSON_GetObjectItem(c, "content")->valuestring)};
    struct iq_chat *c = open_text(SMOLLM2);
    struct iq_buf text = IQ_BUF(1 << 20);
    struct iq_ids have = {0};
    struct iq_err err;
    ck_assert_str_eq(iq_chat_kind(c), "chatml");
    bool prompt = cJSON_IsTrue(cJSON_GetObjectItem(line, "add_generation_prompt"));
    ck_assert_int_eq(iq_chat_encode(c, ctx, m, n, prompt, 0, &text, &have, &err), IQ_OK);
    ck_assert_str_eq(text.data, cJSON_GetObjectItem(line, "rendered")->valuestring);
    size_t i = 0;
    for (const cJSON *id = ids->child; id; id = id->next, i++)
        ck_assert(i < have.n && have.id[i] == id->valuedouble);
    ck_assert_uint_eq(i, have.n);
    iq_ids_free(&have);
    iq_buf_free(&text);
    iq_chat_free(c);
}

START_TEST(smollm2_chats_equal_the_reference)
{
    struct iq_tokenizer *t = vectors_smollm2();
    ck_assert_int_eq(vectors_lines("smollm2/tokenizer.jsonl", reference_line, t), 50);
    iq_tokenizer_free(t);
}
END_TEST

/* The same text with a comment in it is not certain any more, so Jinja renders it: both must say the same. */
static const struct {
    const char *text;
    bool native;
} family[] = {
    {SMOLLM2, true},
    {QWEN25, true},
    {"{% for message in messages %}{{ \"<|im_start|>\" + message.role + \"\\n\" + message.content + "
     "\"<|im_end|>\\n\" }}"
     "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
     true},
    {"{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% for "
     "message in "
     "messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% "
     "endfor %}"
     "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
     true},
    {"{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
     "'<|im_end|>' + "
     "'\n'}}{% endfor %}",
     true},
    {"{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] | trim + "
     "'<|im_end|>' + '\n'}}{% endfor %}",
     false},
    {"{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
     "'<|im_end|>' + "
     "'\n'}}\n{% endfor %}",
     false},
    {"{% for message in messages[1:] %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
     "'<|im_end|>' + "
     "'\n'}}{% endfor %}",
     false},
};

START_TEST(native_chatml_says_what_jinja_says)
{
    static const char *const talks[][8] = {{"user", "Hi"},
                                           {"system", "Be  brief.\n", "user", " x <|im_end|> {{y}} "},
                                           {"user", "a", "assistant", "b\r\n", "user", "'\"\\n"},
                                           {"user", "", "system", "late", "tool", "t", "assistant", "é😀"}};
    char text[16384], want[8192], have[8192];
    struct iq_chat *native = open_text(family[_i].text);
    snprintf(text, sizeof text, "{#- not certain -#}%s", family[_i].text);
    struct iq_chat *jinja = open_text(text);
    ck_assert_str_eq(iq_chat_kind(native), family[_i].native ? "chatml" : "jinja2");
    ck_assert_str_eq(iq_chat_kind(jinja), "jinja2");
    if (jinja_is_here)
        for (size_t k = _i < 2 ? 0 : 3; k < 4; k++) {
            size_t n = k == 3 ? 4 : k == 2 ? 3 : k == 1 ? 2 : 1;
            int status = render(jinja, talks[k], n, k % 2, want, sizeof want);
            ck_assert_int_eq(render(native, talks[k], n, k % 2, have, sizeof have), status);
            ck_assert_str_eq(have, want);
        }
    iq_chat_free(native);
    iq_chat_free(jinja);
}
END_TEST

static struct iq_span config_of(const char *template) { return SPAN(template); }

START_TEST(of_named_templates_the_default_is_taken)
{
    struct iq_chat_source s = {.name = "cfg"};
    struct iq_chat *c;
    struct iq_err err;
    s.config = config_of(
        "{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"T\"},{\"name\":\"default\",\"template\":"
        "\"{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
        "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}\"}]}");
    ck_assert_int_eq(iq_chat_open(&s, &c, &err), IQ_OK);
    ck_assert_str_eq(iq_chat_kind(c), "chatml");
    iq_chat_free(c);
    s.config = config_of("{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"T\"},{\"name\":\"rag\","
                         "\"template\":\"R\"}]}");
    ck_assert_int_eq(iq_chat_open(&s, &c, &err), IQ_UNSUPPORTED);
    ck_assert_ptr_null(c);
    ck_assert(strstr(err.text, "tool_use") && strstr(err.text, "rag") && strstr(err.text, "--raw"));
    s.config = config_of("{\"chat_template\":[{\"name\":\"default\",\"template\":\"T\"},{\"name\":"
                         "\"default\",\"template\":\"R\"}]}");
    ck_assert_int_eq(iq_chat_open(&s, &c, &err), IQ_FORMAT);
    s.config = config_of("{}");
    ck_assert_int_eq(iq_chat_open(&s, &c, &err), IQ_NOT_FOUND);
    s.jinja = SPAN(SMOLLM2); /* the file beside wins */
    ck_assert_int_eq(iq_chat_open(&s, &c, &err), IQ_OK);
    iq_chat_free(c);
}
END_TEST

#define NEEDS_JINJA                                                                                          \
    if (!jinja_is_here) {                                                                                    \
        fprintf(stderr, "no python3 with jinja2 here: not tried\n");                                         \
        return;                                                                                              \
    }

START_TEST(a_refusal_is_the_templates_own_text_and_spoils_nothing)
{
    NEEDS_JINJA
    char out[2048];
    struct iq_chat *c =
        open_text("{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
                  "{{ raise_exception('Roles must alternate user/assistant/...') }}{% endif %}[{{ m.content "
                  "}}]{% endfor %}");
    const char *const wrong[] = {"user", "a", "user", "b"}, *const right[] = {"user", "a", "assistant", "b"};
    ck_assert_int_eq(render(c, wrong, 2, true, out, sizeof out), IQ_USAGE);
    ck_assert_msg(strstr(out, "Roles must alternate user/assistant/...") != NULL, "%s", out);
    ck_assert_int_eq(render(c, right, 2, true, out, sizeof out), IQ_OK);
    ck_assert_str_eq(out, "[a][b]");
    iq_chat_free(c);
}
END_TEST

START_TEST(the_clock_is_the_callers)
{
    NEEDS_JINJA
    char out[2048];
    const char *const hello[] = {"user", "x"};
    struct iq_chat *c = open_text("{{ strftime_now('%H:%M %d %b %Y') }}|{{ strftime_now(\"%Y\") }}");
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(render(c, hello, 1, true, out, sizeof out), IQ_OK);
        ck_assert_str_eq(out, "22:13 14 Nov 2023|2023");
    }
    iq_chat_free(c);
}
END_TEST

static const struct {
    const char *text;
    int status;
    const char *says;
} broken[] = {
    {"{% for x in %}", IQ_FORMAT, "TemplateSyntaxError"},
    {"{{ nothing.at.all }}", IQ_FORMAT, "UndefinedError"},
    {"{{ ''.__class__.__mro__[1].__subclasses__() }}", IQ_FORMAT, "SecurityError"},
    {"{{ messages.append(1) }}", IQ_FORMAT, "SecurityError"},
    {"{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", IQ_LIMIT, "stopped"},
    {"{{ 'x' * 2000000000 }}", IQ_FORMAT, "memory"},
    {"{{ 'x' * 70000000 }}", IQ_LIMIT, "stopped"},
};

START_TEST(templates_that_fail_or_run_away_are_stopped)
{
    NEEDS_JINJA
    char out[2048];
    const char *const hello[] = {"user", "x"};
    struct iq_chat *c = open_text(broken[_i].text);
    ck_assert_int_eq(render(c, hello, 1, true, out, sizeof out), broken[_i].status);
    ck_assert_msg(strstr(out, broken[_i].says) != NULL, "%s", out);
    iq_chat_free(c);
}
END_TEST

START_TEST(without_jinja_the_error_names_raw)
{
    char out[2048], *path = strdup(getenv("PATH"));
    const char *const hello[] = {"user", "x"};
    struct iq_chat *c = open_text("{{ messages }}");
    setenv("PATH", "/nowhere", 1);
    ck_assert_int_eq(render(c, hello, 1, true, out, sizeof out), IQ_UNSUPPORTED);
    ck_assert(strstr(out, "--raw") && strstr(out, "jinja2"));
    setenv("PATH", path, 1);
    free(path);
    iq_chat_free(c);
}
END_TEST

/* BOS by the file (GGUF add_bos, or tokenizer.json's post-processor), and by the template. */
static struct iq_tokenizer *with_bos(bool gguf)
{
    static const char json[] =
        "{\"added_tokens\":[{\"id\":0,\"content\":\"<s>\",\"special\":true,\"normalized\":false}],\"model\":{"
        "\"type\":"
        "\"BPE\",\"vocab\":{\"<s>\":0,\"a\":1,\"b\":2},\"merges\":[]},\"post_processor\":{\"type\":"
        "\"TemplateProcessing\","
        "\"single\":[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_"
        "id\":0}}],"
        "\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[0],\"tokens\":[\"<s>\"]}}}}";
    static const struct iq_span tokens[] = {{"<s>", 3}, {"a", 1}, {"b", 1}};
    static const int32_t types[] = {3, 1, 1};
    struct iq_tokenizer_source s = IQ_TOKENIZER_SOURCE;
    struct iq_tokenizer *t;
    struct iq_err err;
    if (!gguf) return vectors_hf(json, &err);
    s.model = "gpt2";
    s.pre = "gpt-2";
    s.tokens = tokens;
    s.types = types;
    s.n_tokens = 3;
    s.bos = 0;
    s.add_bos = 1;
    if (iq_tokenizer_from_gguf(&s, &t, &err) != IQ_OK) ck_abort_msg("%s", err.text);
    return t;
}

static size_t bos_count(bool gguf, const char *template)
{
    struct iq_tokenizer *t = with_bos(gguf);
    struct iq_chat_source s = {.name = "m", .text = SPAN(template)};
    struct iq_chat_message m = {SPAN("user"), SPAN("ab")};
    struct iq_chat *c;
    struct iq_ids ids = {0};
    struct iq_err err;
    iq_chat_source_tokens(&s, t);
    ck_assert_int_eq(iq_chat_open(&s, &c, &err), IQ_OK);
    ck_assert_int_eq(iq_chat_encode(c, t, &m, 1, true, 0, NULL, &ids, &err), IQ_OK);
    size_t n = 0;
    for (size_t i = 0; i < ids.n; i++) n += ids.id[i] == 0;
    ck_assert_uint_eq(ids.n - n, 2);
    iq_ids_free(&ids);
    iq_chat_free(c);
    iq_tokenizer_free(t);
    return n;
}

START_TEST(a_template_that_prints_bos_gives_one_bos)
{
    NEEDS_JINJA
    ck_assert_uint_eq(bos_count(true, "{{ bos_token }}{{ messages[0].content }}"), 1);
    ck_assert_uint_eq(bos_count(true, "{{ messages[0].content }}"), 1);
    ck_assert_uint_eq(bos_count(false, "{{ bos_token }}{{ messages[0].content }}"), 1);
    ck_assert_uint_eq(bos_count(false, "{{ messages[0].content }}"), 0);
}
END_TEST

int main(void)
{
    jinja_is_here = find_jinja();
    Suite *s = suite_create("chat");
    TCase *c = tcase_create("chat");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, smollm2_chats_equal_the_reference);
    tcase_add_loop_test(c, native_chatml_says_what_jinja_says, 0, (int)(sizeof family / sizeof *family));
    tcase_add_test(c, of_named_templates_the_default_is_taken);
    tcase_add_test(c, a_refusal_is_the_templates_own_text_and_spoils_nothing);
    tcase_add_test(c, the_clock_is_the_callers);
    tcase_add_loop_test(c, templates_that_fail_or_run_away_are_stopped, 0,
                        (int)(sizeof broken / sizeof *broken));
    tcase_add_test(c, without_jinja_the_error_names_raw);
    tcase_add_test(c, a_template_that_prints_bos_gives_one_bos);
    suite_add_tcase(s, c);
    return check_main(s);
}
