/* Hugging Face folders: which safetensors files hold the weights, and the JSON files beside them. */
#define _GNU_SOURCE
#include "engine/files/model_file_parts.h"
#include "kernels/base/grow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char index_name[] = "model.safetensors.index.json", single_name[] = "model.safetensors";
enum { MOST_INDEX = 32 << 20, MOST_JSON = 256 << 20 };

static char *join(const char *folder, const char *file)
{
    char *path = NULL;
    return asprintf(&path, "%s/%s", folder, file) < 0 ? NULL : path;
}

bool iq__file_exists(const char *folder, const char *file)
{
    char *path = join(folder, file);
    struct stat st;
    bool there = path && !stat(path, &st);
    free(path);
    return there;
}

static int map_file(struct iq_model_file *m, const char *file, size_t *index, struct iq_err *err)
{
    char *path = join(m->folder, file);
    if (!path) return iq_fail(err, IQ_MEMORY, "%s: no memory for a path", m->folder);
    int status = iq__map_file(m, path, index, err);
    free(path);
    return status;
}

/* ---- weights ---- */

/* The index gives each tensor one shard; a copy in another shard is stale. */
struct mapping {
    struct iq__names shard_of; /* tensor -> position in `shard` */
    struct iq__names shards;   /* file name -> position in `shard` */
    const char **shard;
    size_t n, cap, reading; /* reading: the shard whose tensors are being taken */
    size_t ignored;
    const char *example; /* one that was ignored */
    struct iq_model_file *m;
};

static bool wanted(void *ctx, const char *name, size_t file)
{
    struct mapping *map = ctx;
    (void)file;
    const struct iq__name *e = iq__names_find(&map->shard_of, name);
    if (e && e->at == map->reading) return true;
    if (!map->ignored++) map->example = iq__keep(map->m, name, strlen(name));
    return false;
}

static int shard_position(struct mapping *map, const char *file, const char *where, size_t *at,
                          struct iq_err *err)
{
    const struct iq__name *e = iq__names_find(&map->shards, file);
    *at = 0;
    if (e) return *at = e->at, IQ_OK;
    if (!*file || *file == '.' || strchr(file, '/') || !iq__name_is_fair(file, strlen(file)))
        return iq_fail(err, IQ_FORMAT,
                       "%s: found the file name \"%.80s\", expected a plain name in the same folder", where,
                       file);
    IQ_TRY(iq_grow(&map->shard, &map->cap, map->n + 1, sizeof *map->shard, err));
    IQ_TRY(iq__names_add(&map->shards, file, map->n, err));
    *at = map->n;
    map->shard[map->n++] = file;
    return IQ_OK;
}

static int read_mapping(const cJSON *list, const char *where, struct mapping *map, struct iq_err *err)
{
    const cJSON *item;
    if (!cJSON_IsObject(list) || !list->child)
        return iq_fail(err, IQ_FORMAT, "%s: `weight_map` is no object with entries", where);
    cJSON_ArrayForEach(item, list)
    {
        size_t at;
        if (!cJSON_IsString(item))
            return iq_fail(err, IQ_FORMAT, "%s: `weight_map`: `%.200s` is no file name", where, item->string);
        IQ_TRY(shard_position(map, item->valuestring, where, &at, err));
        IQ_TRY(iq__names_add(&map->shard_of, item->string, at, err));
    }
    return IQ_OK;
}

static int read_shards(struct iq_model_file *m, const cJSON *list, const char *where, struct mapping *map,
                       struct iq_err *err)
{
    const cJSON *item;
    for (map->reading = 0; map->reading < map->n; map->reading++) {
        size_t file;
        const char *name = map->shard[map->reading];
        int status = map_file(m, name, &file, err);
        if (status == IQ_NOT_FOUND)
            return iq_fail(err, IQ_NOT_FOUND, "%s/%s: this shard is missing, but %s names it", m->folder,
                           name, index_name);
        IQ_TRY(status);
        IQ_TRY(iq__safetensors_read(m, file, wanted, map, err));
    }
    cJSON_ArrayForEach(item, list)
    {
        if (!iq_model_tensor_peek(m, item->string))
            return iq_fail(
                err, IQ_NOT_FOUND,
                "%s: `weight_map` says that tensor `%.200s` is in %s, but that file has none of this name",
                where, item->string, item->valuestring);
    }
    if (map->ignored)
        iq_model_file_add_note(
            m, "%s maps each tensor to one shard; %zu other copies in the shards were ignored (%s first)",
            index_name, map->ignored, map->example ? map->example : "?");
    return IQ_OK;
}

/* Opens the shards that the index names. With `only`, does so only if the index names that file; *done tells. */
static int open_index(struct iq_model_file *m, const char *only, bool *done, struct iq_err *err)
{
    const cJSON *index;
    *done = false;
    IQ_TRY(iq_model_json(m, index_name, &index, err));
    if (!index) return IQ_OK;
    struct mapping map = {.m = m};
    char where[400];
    snprintf(where, sizeof where, "%.300s/%s", m->folder, index_name);
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(index, "weight_map");
    int status = read_mapping(list, where, &map, err);
    if (status == IQ_OK && (!only || iq__names_find(&map.shards, only))) {
        *done = true;
        status = read_shards(m, list, where, &map, err);
    }
    if (status == IQ_OK && *done && !only && !iq__names_find(&map.shards, single_name) &&
        iq__file_exists(m->folder, single_name))
        iq_model_file_add_note(m, "%s lies beside %s, which does not name it, and was ignored", single_name,
                               index_name);
    free(map.shard_of.slot);
    free(map.shards.slot);
    free(map.shard);
    iq_model_json_drop(m, index_name);
    return status;
}

int iq__folder_open(struct iq_model_file *m, const char *only, struct iq_err *err)
{
    bool done;
    const cJSON *config;
    size_t file;
    m->kind = IQ_MODEL_HF;
    IQ_TRY(iq_model_json(m, "config.json", &config, err));
    if (!config)
        return iq_fail(
            err, IQ_NOT_FOUND,
            "%s: holds no config.json%s; expected a Hugging Face folder with config.json and *.safetensors",
            m->folder, only ? "" : " and no .gguf file");
    IQ_TRY(open_index(m, only, &done, err));
    if (done) return IQ_OK;
    const char *name = only ? only : single_name;
    int status = map_file(m, name, &file, err);
    if (status == IQ_NOT_FOUND && !only)
        return iq_fail(err, IQ_NOT_FOUND, "%s: holds neither %s nor %s%s", m->folder, single_name, index_name,
                       iq__file_exists(m->folder, "pytorch_model.bin")
                           ? "; pytorch_model.bin is not read, convert it to safetensors"
                           : "");
    IQ_TRY(status);
    return iq__safetensors_read(m, file, NULL, NULL, err);
}

int iq__folder_tensors(struct iq_model_file *m, const char *file, struct iq_err *err)
{
    size_t index;
    m->kind = IQ_MODEL_HF;
    int status = map_file(m, file, &index, err);
    if (status == IQ_NOT_FOUND) return iq_fail(err, status, "%s: holds no %s", m->folder, file);
    IQ_TRY(status);
    return iq__safetensors_read(m, index, NULL, NULL, err);
}

/* ---- other files ---- */

int iq_model_json(struct iq_model_file *m, const char *name, const cJSON **out, struct iq_err *err)
{
    struct iq_text text;
    *out = NULL;
    for (size_t i = 0; i < m->jsons; i++)
        if (!strcmp(m->json[i].name, name)) return *out = m->json[i].tree, IQ_OK;
    IQ_TRY(iq_model_bytes(m, name, MOST_JSON, &text, err));
    if (!text.s) return IQ_OK;
    char where[400];
    cJSON *tree;
    snprintf(where, sizeof where, "%.300s/%.90s", m->folder, name);
    IQ_TRY(iq_grow(&m->json, &m->cap_jsons, m->jsons + 1, sizeof *m->json, err));
    const char *kept = iq__keep(m, name, strlen(name));
    if (!kept) return iq_fail(err, IQ_MEMORY, "%s: no memory for its name", where);
    IQ_TRY(iq_json_parse(text.s, text.n, where, &tree, err));
    if (!cJSON_IsObject(tree)) {
        iq_json_free(tree);
        return iq_fail(err, IQ_FORMAT, "%s: found no JSON object at its top", where);
    }
    m->json[m->jsons++] = (struct iq__json_file){kept, tree};
    *out = tree;
    return IQ_OK;
}

void iq_model_json_drop(struct iq_model_file *m, const char *name)
{
    for (size_t i = 0; i < m->jsons; i++) {
        if (strcmp(m->json[i].name, name)) continue;
        iq_json_free(m->json[i].tree);
        m->json[i] = m->json[--m->jsons];
        return;
    }
}

int iq_model_bytes(struct iq_model_file *m, const char *name, uint64_t max, struct iq_text *out,
                   struct iq_err *err)
{
    *out = (struct iq_text){NULL, 0};
    if (!m->folder || !iq__file_exists(m->folder, name)) return IQ_OK;
    char *path = join(m->folder, name);
    if (!path) return iq_fail(err, IQ_MEMORY, "%s: no memory for a path", m->folder);
    size_t file = 0;
    while (file < m->files && strcmp(m->file[file].path, path)) file++;
    int status = file < m->files ? IQ_OK : iq__map_file(m, path, &file, err);
    free(path);
    IQ_TRY(status);
    const struct iq__map *map = &m->file[file];
    if (map->size > max)
        return iq_fail(err, IQ_LIMIT, "%s: found %llu bytes, expected at most %llu", map->path,
                       (unsigned long long)map->size, (unsigned long long)max);
    *out = (struct iq_text){(const char *)map->bytes, map->size};
    return IQ_OK;
}

const cJSON *iq_model_json_use(const cJSON *object, const char *key)
{
    cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (item) item->type |= IQ__JSON_USED;
    return item;
}

/* ---- what nothing read ---- */

/* Members without a mark, two levels deep: a nested object that was read (rope_scaling) lists its own members. */
static void unread_members(const struct iq__json_file *f, void (*each)(void *, bool, const char *), void *ctx)
{
    const cJSON *item, *inner;
    char name[600];
    cJSON_ArrayForEach(item, f->tree)
    {
        bool used = item->type & IQ__JSON_USED;
        snprintf(name, sizeof name, "%.100s: %.200s", f->name, item->string);
        if (!used) each(ctx, false, name);
        if (!used || !cJSON_IsObject(item)) continue;
        cJSON_ArrayForEach(inner, item)
        {
            snprintf(name, sizeof name, "%.100s: %.200s.%.200s", f->name, item->string, inner->string);
            if (!(inner->type & IQ__JSON_USED)) each(ctx, false, name);
        }
    }
}

void iq_model_file_unread(const struct iq_model_file *m,
                          void (*each)(void *ctx, bool tensor, const char *name), void *ctx)
{
    for (size_t i = 0; i < m->metas; i++)
        if (!m->meta[i].used) each(ctx, false, m->meta[i].key);
    for (size_t i = 0; i < m->jsons; i++)
        if (strcmp(m->json[i].name, "tokenizer.json")) unread_members(&m->json[i], each, ctx);
    for (size_t i = 0; i < m->tensors; i++)
        if (!m->tensor[i].used) each(ctx, true, m->tensor[i].name);
}
