#define _GNU_SOURCE /* memmem */
#include "tests/text/vectors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *vectors_file(const char *file, size_t *len)
{
    char path[4096];
    const char *dir = getenv("IQ_TEST_DATA");
    snprintf(path, sizeof path, "%s/%s", dir ? dir : "tests/data", file);
    FILE *f = fopen(path, "rb");
    if (!f) {
        fprintf(stderr, "%s: not there; set IQ_TEST_DATA to tests/data\n", path);
        abort();
    }
    struct iq_buf b = IQ_BUF((size_t)64 << 20);
    char part[65536];
    for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;) iq_buf_put(&b, part, n);
    fclose(f);
    *len = b.len;
    return b.data;
}

int vectors_lines(const char *file, void (*each)(const cJSON *line, void *ctx), void *ctx)
{
    size_t len;
    char *text = vectors_file(file, &len);
    int n = 0;
    for (char *p = text; p < text + len;) {
        char *end = memchr(p, '\n', (size_t)(text + len - p));
        if (!end) end = text + len;
        cJSON *line;
        struct iq_err err;
        /* our JSON refuses U+0000: U+FDD0, which is no character, stands for it until vectors_differ */
        for (char *at; (at = memmem(p, (size_t)(end - p), "\\u0000", 6));) memcpy(at, "\\ufdd0", 6);
        if (iq_json_parse(p, (size_t)(end - p), file, &line, &err) != IQ_OK) {
            fprintf(stderr, "%s\n", err.text);
            abort();
        }
        each(line, ctx);
        iq_json_free(line);
        n++;
        p = end + 1;
    }
    free(text);
    return n;
}

static struct iq_span next_line(char **p)
{
    char *end = strchr(*p, '\n');
    struct iq_span line = {*p, (size_t)(end - *p)};
    *p = end + 1;
    return line;
}

struct iq_tokenizer *vectors_smollm2(void)
{
    size_t len;
    char *text = vectors_file("smollm2/tokenizer_gguf.txt", &len), *p = text, pre[64];
    struct iq_tokenizer_source s = IQ_TOKENIZER_SOURCE;
    long long bos, eos;
    int used;
    if (sscanf(p, "pre %63s\nbos %lld\neos %lld\ntokens %zu%n", pre, &bos, &eos, &s.n_tokens, &used) != 4)
        abort();
    p += used + 1;
    struct iq_span *tokens = calloc(s.n_tokens, sizeof *tokens);
    int32_t *types = calloc(s.n_tokens, sizeof *types);
    for (size_t i = 0; i < s.n_tokens; i++) {
        tokens[i] = next_line(&p);
        types[i] = *tokens[i].data++ - '0';
        tokens[i].len--;
    }
    if (sscanf(p, "merges %zu%n", &s.n_merges, &used) != 1) abort();
    p += used + 1;
    struct iq_span *merges = calloc(s.n_merges, sizeof *merges);
    for (size_t i = 0; i < s.n_merges; i++) merges[i] = next_line(&p);
    s.name = "SmolLM2";
    s.model = "gpt2";
    s.pre = pre;
    s.tokens = tokens;
    s.types = types;
    s.merges = merges;
    s.bos = bos;
    s.eos = eos;
    s.add_bos = 0;
    struct iq_tokenizer *t;
    struct iq_err err;
    if (iq_tokenizer_from_gguf(&s, &t, &err) != IQ_OK) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    free(tokens);
    free(types);
    free(merges);
    free(text);
    return t;
}

struct iq_tokenizer *vectors_hf(const char *json, struct iq_err *err)
{
    struct iq_tokenizer *t;
    iq_tokenizer_from_hf(json, strlen(json), "tokenizer.json", NULL, 0, &t, err);
    return t;
}

static void list(struct iq_buf *b, const char *what, const uint32_t *ids, size_t n)
{
    iq_buf_printf(b, " %s", what);
    for (size_t i = 0; i < n; i++) iq_buf_printf(b, " %u", ids[i]);
}

const char *vectors_differ(const struct iq_tokenizer *t, const char *text, unsigned flags, const cJSON *want)
{
    static char sentence[4096];
    struct iq_ids have = {0}, expect = {0};
    struct iq_err err;
    for (const cJSON *c = want->child; c; c = c->next) iq_ids_put(&expect, (uint32_t)c->valuedouble, NULL);
    char *bytes = strdup(text), *at;
    size_t len = strlen(text);
    while ((at = memmem(bytes, len, "\xef\xb7\x90", 3))) {
        *at = 0;
        memmove(at + 1, at + 3, len - (size_t)(at + 3 - bytes));
        len -= 2;
    }
    int status = iq_tokenizer_encode(t, bytes, len, flags, &have, &err);
    free(bytes);
    bool same = status == IQ_OK && have.n == expect.n && (!have.n || !memcmp(have.id, expect.id, 4 * have.n));
    if (!same) {
        struct iq_buf b = IQ_BUF(4000);
        iq_buf_printf(&b, "'%s' (flags %u):", text, flags);
        if (status != IQ_OK) iq_buf_printf(&b, " %s", err.text);
        list(&b, "have", have.id, have.n);
        list(&b, "want", expect.id, expect.n);
        snprintf(sentence, sizeof sentence, "%s", b.data);
        iq_buf_free(&b);
    }
    iq_ids_free(&have);
    iq_ids_free(&expect);
    return same ? NULL : sentence;
}
