/* GGUF models in several files. */
#define _GNU_SOURCE
#include "engine/files/model_file_parts.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Split sets: names count shards from 1 (NAME-00001-of-00003.gguf), the key split.no from 0. */
struct shard_name {
    int stem;           /* bytes before "-00001-of-..." */
    unsigned no, count; /* no from 1 */
};

static bool parse_name(const char *path, struct shard_name *s)
{
    enum { TAIL = 20 }; /* "-00001-of-00003.gguf" */
    size_t n = strlen(path);
    int end = 0;
    if (n <= TAIL || sscanf(path + n - TAIL, "-%5u-of-%5u.gguf%n", &s->no, &s->count, &end) != 2 ||
        end != TAIL)
        return false;
    s->stem = (int)(n - TAIL);
    return true;
}

int iq__split_check(const char *path, const struct iq__split *s, const struct iq__split *expect,
                    struct iq_err *err)
{
    if (s->count != expect->count)
        return iq_fail(err, IQ_MISMATCH,
                       "%s: split.count is %llu, but the file is named as one of %llu shards", path,
                       (unsigned long long)s->count, (unsigned long long)expect->count);
    if (s->no != expect->no)
        return iq_fail(err, IQ_MISMATCH,
                       "%s: split.no is %llu (shard %llu), but the file is named shard %llu; expected each "
                       "shard under its own name",
                       path, (unsigned long long)s->no, (unsigned long long)s->no + 1,
                       (unsigned long long)expect->no + 1);
    if (expect->no && s->tensors != expect->tensors)
        return iq_fail(err, IQ_MISMATCH, "%s: split.tensors.count is %lld, but %lld in shard 1", path,
                       (long long)s->tensors, (long long)expect->tensors);
    return IQ_OK;
}

/* `set` is what the shards before this one said; the first one fills in set->tensors. */
static int shard(struct iq_model_file *m, const char *path, struct iq__split *set, struct iq_err *err)
{
    size_t index;
    struct iq__split s;
    int status = iq__map_file(m, path, &index, err);
    if (status == IQ_NOT_FOUND)
        return iq_fail(err, IQ_NOT_FOUND,
                       "%s: shard %llu of %llu is missing; expected all shards beside each other", path,
                       (unsigned long long)set->no + 1, (unsigned long long)set->count);
    IQ_TRY(status);
    IQ_TRY(iq__gguf_read(m, index, set, &s, err));
    set->tensors = s.tensors;
    return IQ_OK;
}

static int whole_set(struct iq_model_file *m, const char *path, const struct shard_name *s,
                     struct iq_err *err)
{
    struct iq__split set = {.count = s->count};
    for (; set.no < set.count; set.no++) {
        char *name = NULL;
        if (asprintf(&name, "%.*s-%05u-of-%05u.gguf", s->stem, path, (unsigned)set.no + 1, s->count) < 0)
            return iq_fail(err, IQ_MEMORY, "%s: no memory for a shard's name", path);
        int status = shard(m, name, &set, err);
        free(name);
        IQ_TRY(status);
    }
    if (set.tensors != UINT64_MAX && set.tensors != m->tensors)
        return iq_fail(err, IQ_MISMATCH,
                       "%s: split.tensors.count is %llu, but the %u shards hold %zu tensors", m->file[0].path,
                       (unsigned long long)set.tensors, s->count, m->tensors);
    return IQ_OK;
}

int iq__gguf_open(struct iq_model_file *m, const char *path, struct iq_err *err)
{
    struct shard_name name;
    bool named = parse_name(path, &name);
    m->kind = IQ_MODEL_GGUF;
    if (named && name.count > 1) return whole_set(m, path, &name, err);
    size_t index;
    struct iq__split s;
    IQ_TRY(iq__map_file(m, path, &index, err));
    IQ_TRY(iq__gguf_read(m, index, NULL, &s, err));
    if (s.count > 1)
        return iq_fail(err, IQ_MISMATCH,
                       "%s: this is shard %llu of %llu; expected a name that ends in -%05llu-of-%05llu.gguf, "
                       "by which the others are found",
                       path, (unsigned long long)s.no + 1, (unsigned long long)s.count,
                       (unsigned long long)s.no + 1, (unsigned long long)s.count);
    if (s.tensors != UINT64_MAX && s.tensors != m->tensors)
        return iq_fail(err, IQ_MISMATCH, "%s: split.tensors.count is %llu, but it holds %zu tensors", path,
                       (unsigned long long)s.tensors, m->tensors);
    return IQ_OK;
}

static int is_gguf(const struct dirent *e)
{
    size_t n = strlen(e->d_name);
    return n > 5 && !strcmp(e->d_name + n - 5, ".gguf");
}

int iq__gguf_in_folder(const char *folder, char **out, struct iq_err *err)
{
    struct dirent **entry;
    struct shard_name first, other;
    *out = NULL;
    int n = scandir(folder, &entry, is_gguf, alphasort), status = IQ_OK;
    if (n < 0) return iq_fail(err, IQ_IO, "%s: cannot be listed: %s", folder, strerror(errno));
    bool one_set = n > 0 && (n == 1 || parse_name(entry[0]->d_name, &first));
    for (int i = 1; i < n && one_set; i++)
        one_set = parse_name(entry[i]->d_name, &other) && other.stem == first.stem &&
                  other.count == first.count &&
                  !strncmp(entry[0]->d_name, entry[i]->d_name, (size_t)first.stem);
    if (n > 0 && !one_set)
        status = iq_fail(err, IQ_USAGE,
                         "%s: holds %d .gguf files of different models (%.80s, %.80s ...); expected one "
                         "model: name the file",
                         folder, n, entry[0]->d_name, entry[1]->d_name);
    else if (n > 0 && asprintf(out, "%s/%s", folder, entry[0]->d_name) < 0)
        status = iq_fail(err, IQ_MEMORY, "%s: no memory for a file's name", folder), *out = NULL;
    for (int i = 0; i < n; i++) free(entry[i]);
    free(entry);
    return status;
}
