#include "harness/plan/adapters.h"

#include "kernels/base/grow.h"

#include <stdlib.h>
#include <string.h>

static const char where[] = "the recorded manifest: adapters";

static struct iq_named_adapter *find(const struct iq_adapters *a, const char *name, size_t len)
{
    for (uint32_t i = 0; i < a->n; i++)
        if (strlen(a->at[i].name) == len && !memcmp(a->at[i].name, name, len)) return &a->at[i];
    return NULL;
}

static int add(struct iq_adapters *a, const char *name, size_t len, const char *path, struct iq_err *err)
{
    IQ_TRY(iq_grow(&a->at, &a->cap, (size_t)a->n + 1, sizeof *a->at, err));
    struct iq_named_adapter *n =
        &a->at[a->n++]; /* counted at once, so that iq_adapters_free sees what follows */
    *n = (struct iq_named_adapter){.name = strndup(name, len), .path = strdup(path)};
    return n->name && n->path ? IQ_OK : iq_fail(err, IQ_MEMORY, "no memory for an adapter's name");
}

int iq_adapters_add(struct iq_adapters *a, const char *text, struct iq_err *err)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1])
        return iq_fail(err, IQ_USAGE, "--adapter: found \"%.80s\", expected NAME=FOLDER", text);
    size_t len = (size_t)(equals - text);
    if (find(a, text, len))
        return iq_fail(err, IQ_USAGE, "--adapter: the name %.*s is given twice", (int)len, text);
    return add(a, text, len, equals + 1, err);
}

int iq_adapters_read(struct iq_adapters *a, const cJSON *manifest, struct iq_err *err)
{
    const cJSON *item, *list = cJSON_GetObjectItemCaseSensitive(manifest, "adapters");
    cJSON_ArrayForEach(item, list)
    {
        const char *name, *path;
        IQ_TRY(iq_json_str(item, "name", where, &name, err));
        IQ_TRY(iq_json_str(item, "path", where, &path, err));
        if (!find(a, name, strlen(name))) IQ_TRY(add(a, name, strlen(name), path, err));
    }
    return IQ_OK;
}

void iq_adapters_write(const struct iq_adapters *a, struct iq_jw *w)
{
    if (!a->n) return;
    iq_jw_key(w, "adapters");
    iq_jw_begin(w, '[');
    for (uint32_t i = 0; i < a->n; i++) {
        const struct iq_named_adapter *n = &a->at[i];
        iq_jw_begin(w, '{');
        iq_jw_key(w, "name"), iq_jw_str(w, n->name);
        iq_jw_key(w, "path"), iq_jw_str(w, n->path);
        iq_jw_key(w, "sha256"), iq_jw_str(w, n->adapter->sha256);
        iq_jw_key(w, "digest"), iq_jw_hex(w, n->adapter->digest.hi, n->adapter->digest.lo);
        iq_jw_end(w, '}');
    }
    iq_jw_end(w, ']');
}

int iq_adapters_open(struct iq_adapters *a, const struct iq_model *m, struct iq_err *err)
{
    for (uint32_t i = 0; i < a->n; i++) {
        IQ_TRY(iq_adapter_open(a->at[i].name, a->at[i].path, m, &a->at[i].adapter, err));
        a->at[i].adapter->number = i + 1;
    }
    return IQ_OK;
}

int iq_adapters_find(const struct iq_adapters *a, const char *name, const struct iq_adapter **out,
                     struct iq_err *err)
{
    const struct iq_named_adapter *found = find(a, name, strlen(name));
    *out = found ? found->adapter : NULL;
    if (found) return IQ_OK;
    if (!a->n)
        return iq_fail(err, IQ_NOT_FOUND, "adapter \"%.80s\": none was given; say --adapter %.80s=FOLDER",
                       name, name);
    const char **known = calloc((size_t)a->n + 1, sizeof *known);
    if (!known) return iq_fail(err, IQ_MEMORY, "no memory for %u names", a->n);
    for (uint32_t i = 0; i < a->n; i++) known[i] = a->at[i].name;
    int status = iq_not_among("adapter", name, known, "--adapter", IQ_NOT_FOUND, err);
    free(known);
    return status;
}

void iq_adapters_free(struct iq_adapters *a)
{
    for (uint32_t i = 0; i < a->n; i++) {
        free(a->at[i].name);
        free(a->at[i].path);
        iq_adapter_close(a->at[i].adapter);
    }
    free(a->at);
    *a = (struct iq_adapters){0};
}
