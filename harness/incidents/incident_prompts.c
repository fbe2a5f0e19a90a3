/* An incident's prompts: lines of its file, of a named one, and what overrides them. */
#include "harness/incidents/incident_parts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { LINES_MAX = 4096 };
static const size_t FILE_MAX = 4 << 20;

int iq__incident_file(const char *path, size_t max, struct iq_buf *out, struct iq_err *err)
{
    FILE *f = fopen(path, "re");
    char chunk[16384];
    size_t n;
    if (!f)
        return iq_fail(err, errno == ENOENT ? IQ_NOT_FOUND : IQ_IO, "%s: cannot be opened: %s", path,
                       strerror(errno));
    while ((n = fread(chunk, 1, sizeof chunk, f)) && !out->failed) iq_buf_put(out, chunk, n);
    int failed = ferror(f) ? errno : 0;
    fclose(f);
    if (failed) return iq_fail(err, IQ_IO, "%s: read failed: %s", path, strerror(failed));
    return out->failed ? iq_fail(err, IQ_LIMIT, "%s: more than %zu bytes", path, max) : IQ_OK;
}

/* ---- lines ---- */

static int parse_line(const char *text, size_t n, const char *where, cJSON *list, struct iq_err *err)
{
    cJSON *line;
    IQ_TRY(iq_json_parse(text, n, where, &line, err));
    if (cJSON_AddItemToArray(list, line)) return IQ_OK;
    iq_json_free(line);
    return iq_fail(err, IQ_MEMORY, "%s: no memory for a prompt", where);
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static int parse_lines(const char *text, size_t len, const char *where, cJSON *list, struct iq_err *err)
{
    char at[512];
    unsigned number = 1, taken = 0;
    for (size_t i = 0, n; i < len; i += n + 1, number++) {
        const char *end = memchr(text + i, '\n', len - i);
        n = end ? (size_t)(end - text) - i : len - i;
        size_t blank = 0;
        while (blank < n && is_blank(text[i + blank])) blank++;
        if (blank == n) continue;
        snprintf(at, sizeof at, "%.400s:%u", where, number);
        if (taken++ == LINES_MAX) return iq_fail(err, IQ_LIMIT, "%s: more than %d prompts", at, LINES_MAX);
        IQ_TRY(parse_line(text + i, n, at, list, err));
    }
    return IQ_OK;
}

/* The file beside the incident's, else the shipped one. */
static int read_named(const char *name, const char *where, cJSON *list, struct iq_err *err)
{
    const char *slash = strrchr(where, '/');
    char path[4096];
    struct iq_buf text = IQ_BUF(FILE_MAX);
    int dir = *name == '/' || !slash ? 0 : (int)(slash - where) + 1;
    if (snprintf(path, sizeof path, "%.*s%s", dir, where, name) >= (int)sizeof path)
        return iq_fail(err, IQ_FORMAT, "%.80s...: prompts: the path is too long", where);
    int status = iq__incident_file(path, FILE_MAX, &text, err);
    if (status == IQ_OK && text.len) status = parse_lines(text.data, text.len, path, list, err);
    iq_buf_free(&text);
    if (status != IQ_NOT_FOUND) return status;
    for (const struct iq_shipped *s = iq_shipped; s->file; s++)
        if (!strcmp(s->file, name)) return parse_lines((const char *)s->text, s->len, name, list, err);
    return iq_err_prefix(err, "%s: prompts: no such set is shipped, and ", where);
}

int iq__incident_lines(const cJSON *prompts, const char *where, cJSON **out, struct iq_err *err)
{
    int status = IQ_OK;
    *out = NULL;
    if (cJSON_IsString(prompts)) {
        *out = cJSON_CreateArray();
        if (*out) status = read_named(prompts->valuestring, where, *out, err);
    } else if (cJSON_IsArray(prompts)) {
        *out = cJSON_Duplicate(prompts, true);
    } else {
        return iq_fail(err, IQ_FORMAT, "%s: prompts: expected a list of prompts or a file's name", where);
    }
    if (!*out) return iq_fail(err, IQ_MEMORY, "%s: no memory for its prompts", where);
    if (cJSON_GetArraySize(*out) > LINES_MAX)
        status = iq_fail(err, IQ_LIMIT, "%s: prompts: more than %d", where, LINES_MAX);
    return status;
}

/* ---- overrides ---- */

static int override_line(cJSON *line, const cJSON *overrides)
{
    const cJSON *field;
    cJSON_ArrayForEach(field, overrides)
    {
        if (!strcmp(field->string, "first")) continue;
        cJSON *copy = cJSON_Duplicate(field, true);
        cJSON_DeleteItemFromObjectCaseSensitive(line, field->string);
        if (!copy || !cJSON_AddItemToObject(line, field->string, copy)) {
            cJSON_Delete(copy);
            return IQ_MEMORY;
        }
    }
    return IQ_OK;
}

int iq__incident_prompts(const cJSON *lines, const cJSON *overrides, const char *where,
                         struct iq_prompts *out, struct iq_err *err)
{
    static const char *const known[] = {"first", "max_tokens", "seed",        "temperature", "top_k",
                                        "top_p", "min_p",      "ignore_stop", NULL};
    const struct iq_prompt_defaults defaults = {.max_tokens = 16, .top_p = 1};
    uint64_t first = LINES_MAX;
    char at[512];
    if (overrides) IQ_TRY(iq_json_known(overrides, known, where, err));
    if (overrides) IQ_TRY(iq_json_u64_opt(overrides, "first", 1, LINES_MAX, where, &first, err));
    cJSON *list = cJSON_CreateArray();
    const cJSON *line;
    int status = list ? IQ_OK : IQ_MEMORY;
    cJSON_ArrayForEach(line, lines)
    {
        if (status != IQ_OK || !first--) break;
        cJSON *copy = cJSON_Duplicate(line, true);
        if (!cJSON_AddItemToArray(list, copy))
            cJSON_Delete(copy), status = IQ_MEMORY;
        else if (cJSON_IsObject(copy)) /* otherwise the list's reader says so */
            status = override_line(copy, overrides);
    }
    snprintf(at, sizeof at, "%.400s", where);
    status = status ? iq_fail(err, status, "%s: no memory for its prompts", where)
                    : iq_prompts_list(list, at, &defaults, out, err);
    cJSON_Delete(list);
    return status;
}
