/* The ChatML family: recognised by the template's text, tag by tag, and rendered without Jinja.
 *
 * A template is taken to pieces into tags in a canonical spelling: no white space outside strings, a.b for
 * a['b'], neighbouring strings joined. It is ChatML when the tags are exactly those of a shape below.
 * Whatever else stands in it (text between tags, comments, filters, another condition) makes it uncertain,
 * and Jinja's business. */
#include "engine/text/chat_parts.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TAGS = 128, MOST_TEXT = 32 << 10 };

#define Q "\x01" /* a quote, in canonical spelling: strings hold no control characters but newlines */

struct tags {
    char *text; /* the canonical spellings, one after the other, NUL between them */
    char *tag[MOST_TAGS + 1];
    size_t n;
};

static bool word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* One string literal at s[0]; returns the bytes read, 0 when uncertain. */
static size_t literal(const char *s, size_t n, char **w)
{
    char quote = s[0];
    size_t i = 1;
    *(*w)++ = Q[0];
    for (; i < n && s[i] != quote; i++) {
        char c = s[i];
        if (c == '\\') {
            static const char from[] = "n'\"\\", to[] = "\n'\"\\";
            const char *at = i + 1 < n && s[i + 1] ? strchr(from, s[i + 1]) : NULL;
            if (!at) return 0;
            c = to[at - from];
            i++;
        }
        if ((unsigned char)c < 0x20 && c != '\n') return 0;
        *(*w)++ = c;
    }
    *(*w)++ = Q[0];
    return i < n ? i + 1 : 0;
}

/* "a" + "b" is "ab", and a["b"] is a.b; both shorten the text behind `start`. */
static void join(char *start)
{
    for (char *at; (at = strstr(start, Q "+" Q));) memmove(at, at + 3, strlen(at + 3) + 1);
    for (char *at = start, *end; (at = strstr(at, "[" Q));) {
        end = at + 2;
        while (word(*end)) end++;
        if (end == at + 2 || strncmp(end, Q "]", 2) != 0) {
            at++;
            continue;
        }
        *at = '.';
        memmove(at + 1, at + 2, (size_t)(end - at) - 2);
        memmove(end - 1, end + 2, strlen(end + 2) + 1);
    }
}

/* The inside of one tag, up to its closing pair. Returns the bytes read, 0 when uncertain. */
static size_t inside(const char *s, size_t n, char close, char **w)
{
    char *start = *w;
    size_t i = 0;
    while (i + 1 < n && !(s[i] == close && s[i + 1] == '}')) {
        if (s[i] == '\'' || s[i] == '"') {
            size_t used = literal(s + i, n - i, w);
            if (!used) return 0;
            i += used;
        } else if (isspace((unsigned char)s[i])) {
            while (i < n && isspace((unsigned char)s[i])) i++;
            if (*w > start && word((*w)[-1]) && i < n && word(s[i])) *(*w)++ = ' ';
        } else if ((unsigned char)s[i] < 0x20 || (unsigned char)s[i] > 0x7e) {
            return 0;
        } else {
            *(*w)++ = s[i++];
        }
    }
    if (i + 1 >= n) return 0;
    if (*w > start && (*w)[-1] == '-') --*w;
    *(*w)++ = 0;
    join(start);
    return i + 2;
}

static bool blank(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isspace((unsigned char)s[i])) return false;
    return true;
}

static int take_apart(const char *s, size_t n, struct tags *t)
{
    if (n > MOST_TEXT || memchr(s, 0, n) || !(t->text = malloc(2 * n + 2))) return IQ_NOT_FOUND;
    char *w = t->text;
    bool stripped = false; /* the tag before ends in -%} */
    for (size_t i = 0; i < n;) {
        const char *open = memchr(s + i, '{', n - i);
        size_t gap = open ? (size_t)(open - (s + i)) : n - i;
        if (!open && (gap == 0 || stripped || (gap == 1 && s[i] == '\n')))
            return blank(s + i, gap) ? IQ_OK : IQ_NOT_FOUND;
        if (!open || n - (size_t)(open - s) < 4 || (open[1] != '%' && open[1] != '{') || t->n == MOST_TAGS)
            return IQ_NOT_FOUND;
        size_t at = (size_t)(open - s) + 2;
        bool strips = s[at] == '-';
        if (gap && !(blank(s + i, gap) && (strips || stripped))) return IQ_NOT_FOUND;
        t->tag[t->n++] = w;
        *w++ = open[1];
        at += strips;
        size_t used = inside(s + at, n - at, open[1] == '%' ? '%' : '}', &w);
        if (!used) return IQ_NOT_FOUND;
        w = t->tag[t->n - 1] + strlen(t->tag[t->n - 1]) + 1;
        i = at + used;
        stripped = s[i - 3] == '-';
    }
    return IQ_OK;
}

#define MESSAGE     "{" Q "<|im_start|>" Q "+message.role+" Q "\n" Q "+message.content+" Q "<|im_end|>\n" Q
#define SYSTEM_HEAD "{" Q "<|im_start|>system\n"
#define SYSTEM_TAIL "<|im_end|>\n" Q

static const char *tag(const struct tags *t, size_t i) { return i < t->n ? t->tag[i] : ""; }
static bool is(const struct tags *t, size_t i, const char *text) { return !strcmp(tag(t, i), text); }

/* {{ '<|im_start|>system\nTEXT<|im_end|>\n' }}: keeps the whole string. */
static bool fallback(const struct tags *t, size_t i, struct iq__chatml *out)
{
    const char *s = tag(t, i);
    size_t n = strlen(s), head = strlen(SYSTEM_HEAD), tail = strlen(SYSTEM_TAIL);
    if (n < head + tail || strncmp(s, SYSTEM_HEAD, head) != 0 || strcmp(s + n - tail, SYSTEM_TAIL) != 0)
        return false;
    if (strchr(s + 2, Q[0]) != s + n - 1) return false; /* more than one string */
    return (out->fallback = strndup(s + 2, n - 3)) != NULL;
}

/* The end that all shapes share. */
static bool prompt_and_end(const struct tags *t, size_t i, struct iq__chatml *out)
{
    out->prompt = is(t, i, "%if add_generation_prompt") && is(t, i + 1, "{" Q "<|im_start|>assistant\n" Q) &&
                  is(t, i + 2, "%endif");
    return i + (out->prompt ? 3 : 0) == t->n;
}

/* One loop that prints every message; a system block before the first where none leads. */
static bool plain_shape(const struct tags *t, struct iq__chatml *out)
{
    size_t i = 0;
    if (is(t, 0, "%if not add_generation_prompt is defined") &&
        is(t, 1, "%set add_generation_prompt=false") && is(t, 2, "%endif"))
        i = 3;
    if (!is(t, i++, "%for message in messages")) return false;
    if (is(t, i, "%if loop.first and messages[0].role!=" Q "system" Q)) {
        if (!fallback(t, i + 1, out) || !is(t, i + 2, "%endif")) return false;
        i += 3;
    }
    return is(t, i, MESSAGE) && is(t, i + 1, "%endfor") && prompt_and_end(t, i + 2, out);
}

static bool opens(const char *tag)
{
    return !strncmp(tag, "%if ", 4) || !strncmp(tag, "%if(", 4) || !strncmp(tag, "%for ", 5);
}
static bool closes(const char *tag) { return !strcmp(tag, "%endif") || !strcmp(tag, "%endfor"); }

/* The tag at the same depth that ends the branch which starts at i, and is called `name`; t->n if none. */
static size_t branch_end(const struct tags *t, size_t i, const char *name)
{
    for (int depth = 0; i < t->n; i++) {
        if (depth == 0 && is(t, i, name)) return i;
        if (opens(tag(t, i))) depth++;
        if (closes(tag(t, i))) depth--;
        if (depth < 0) break;
    }
    return t->n;
}

/* The other branches, from i to the endif, are for assistant messages with calls and for tools only. */
static bool branches_for_tools(const struct tags *t, size_t i, size_t end)
{
    for (int depth = 0; i < end; i++) {
        if (opens(tag(t, i))) depth++;
        if (closes(tag(t, i))) depth--;
        if (depth || (strncmp(tag(t, i), "%el", 3) != 0)) continue;
        if (!is(t, i, "%elif message.role==" Q "assistant" Q) && !is(t, i, "%elif message.role==" Q "tool" Q))
            return false;
    }
    return true;
}

/* Qwen2.5's: a branch for tools, which are never given here, and for the roles that go with them. */
static bool tools_shape(const struct tags *t, struct iq__chatml *out)
{
    if (!is(t, 0, "%if tools")) return false;
    size_t i = branch_end(t, 1, "%else") + 1;
    bool head = is(t, i, "%if messages[0].role==" Q "system" Q) &&
                is(t, i + 1, "{" Q "<|im_start|>system\n" Q "+messages[0].content+" Q "<|im_end|>\n" Q) &&
                is(t, i + 2, "%else") && is(t, i + 4, "%endif") && is(t, i + 5, "%endif") &&
                is(t, i + 6, "%for message in messages") &&
                is(t, i + 7,
                   "%if(message.role==" Q "user" Q ")or(message.role==" Q "system" Q
                   "and not loop.first)or(message.role==" Q "assistant" Q "and not message.tool_calls)") &&
                is(t, i + 8, MESSAGE);
    if (!head || !fallback(t, i + 3, out)) return false;
    size_t end = branch_end(t, i + 9, "%endif");
    if (!branches_for_tools(t, i + 9, end)) return false;
    i = end + 1;
    out->three_roles = true;
    return is(t, i, "%endfor") && prompt_and_end(t, i + 1, out);
}

int iq__chatml_recognise(const char *text, size_t len, struct iq__chatml *out)
{
    static bool (*const shapes[])(const struct tags *, struct iq__chatml *) = {plain_shape, tools_shape};
    struct tags t = {0};
    int status = take_apart(text, len, &t);
    bool found = false;
    *out = (struct iq__chatml){0};
    for (size_t i = 0; i < 2 && status == IQ_OK && !found; i++) {
        found = shapes[i](&t, out);
        if (!found) {
            free(out->fallback);
            *out = (struct iq__chatml){0};
        }
    }
    free(t.text);
    return found ? IQ_OK : IQ_NOT_FOUND;
}

static bool equals(struct iq_span s, const char *text)
{
    return s.len == strlen(text) && !memcmp(s.data, text, s.len);
}

bool iq__chatml_serves(const struct iq__chatml *c, const struct iq_chat_message *m, size_t n)
{
    for (size_t i = 0; c->three_roles && i < n; i++)
        if (!equals(m[i].role, "system") && !equals(m[i].role, "user") && !equals(m[i].role, "assistant"))
            return false;
    return true;
}

static void put(struct iq_buf *out, const char *text) { iq_buf_put(out, text, strlen(text)); }

void iq__chatml_render(const struct iq__chatml *c, const struct iq_chat_message *m, size_t n, bool prompt,
                       struct iq_buf *out)
{
    if (c->fallback && n && !equals(m[0].role, "system")) put(out, c->fallback);
    for (size_t i = 0; i < n; i++) {
        put(out, "<|im_start|>");
        iq_buf_put(out, m[i].role.data, m[i].role.len);
        put(out, "\n");
        iq_buf_put(out, m[i].content.data, m[i].content.len);
        put(out, "<|im_end|>\n");
    }
    if (prompt && c->prompt) put(out, "<|im_start|>assistant\n");
}
