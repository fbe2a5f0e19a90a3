/* safetensors: u64 length of the header, the header (JSON: name -> dtype, shape, data_offsets), the data. */
#include "engine/files/model_file_parts.h"
#include "kernels/base/grow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long ull;

/* A real header has some 120 bytes a tensor; the tree of a hostile one stays in proportion. */
enum { MOST_HEADER = 16 << 20 };

static const struct {
    const char *name;
    uint32_t bytes;
    enum iq_format format;
} dtypes[] = {
    {"F32", 4, IQ_F32},
    {"F16", 2, IQ_F16},
    {"BF16", 2, IQ_BF16},
    {"F64", 8, IQ_FORMAT_NONE},
    {"I64", 8, IQ_FORMAT_NONE},
    {"I32", 4, IQ_FORMAT_NONE},
    {"I16", 2, IQ_FORMAT_NONE},
    {"I8", 1, IQ_FORMAT_NONE},
    {"U64", 8, IQ_FORMAT_NONE},
    {"U32", 4, IQ_FORMAT_NONE},
    {"U16", 2, IQ_FORMAT_NONE},
    {"U8", 1, IQ_FORMAT_NONE},
    {"BOOL", 1, IQ_FORMAT_NONE},
    {"F8_E4M3", 1, IQ_FORMAT_NONE},
    {"F8_E5M2", 1, IQ_FORMAT_NONE},
    {"F8_E8M0", 1, IQ_FORMAT_NONE},
    {"C64", 8, IQ_FORMAT_NONE},
};

static int dtype(const cJSON *item, const char *where, struct iq_tensor *t, uint64_t *element,
                 struct iq_err *err)
{
    const char *text;
    IQ_TRY(iq_json_str(item, "dtype", where, &text, err));
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (strcmp(dtypes[i].name, text)) continue;
        t->type = dtypes[i].name;
        t->format = dtypes[i].format;
        *element = dtypes[i].bytes;
        return IQ_OK;
    }
    return iq_fail(err, IQ_UNSUPPORTED, "%s: `dtype`: found \"%.40s\", expected F32, F16 or BF16", where,
                   text);
}

/* *bytes is the size that dtype and shape ask for. Scalars have an empty shape: one element, rank 1 here. */
static int shape(const cJSON *item, const char *where, struct iq_tensor *t, uint64_t *bytes,
                 struct iq_err *err)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(item, "shape"), *d;
    int rank = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : -1, i = 0;
    if (rank < 0 || rank > 4)
        return iq_fail(err, IQ_FORMAT, "%s: `shape` is no list of at most 4 dimensions", where);
    bool wraps = false;
    t->rank = rank ? rank : 1;
    for (int k = 0; k < 4; k++) t->dim[k] = 1;
    cJSON_ArrayForEach(d, list)
    {
        IQ_TRY(iq_json_item_u64(d, 1, UINT64_C(1) << 53, where, &t->dim[i], err));
        wraps |= __builtin_mul_overflow(*bytes, t->dim[i++], bytes);
    }
    return wraps ? iq_fail(err, IQ_FORMAT, "%s: `shape` wraps around 2^64 bytes", where) : IQ_OK;
}

static int entry(const cJSON *item, const char *path, uint64_t data, uint64_t size, struct iq_tensor *t,
                 struct iq_err *err)
{
    static const char *const known[] = {"dtype", "shape", "data_offsets", NULL};
    char where[400];
    uint64_t bytes = 0, range[2];
    snprintf(where, sizeof where, "%.100s: tensor `%.255s`", path, item->string);
    IQ_TRY(iq_json_known(item, known, where, err));
    IQ_TRY(dtype(item, where, t, &bytes, err));
    IQ_TRY(shape(item, where, t, &bytes, err));
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(item, "data_offsets");
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2)
        return iq_fail(err, IQ_FORMAT, "%s: `data_offsets` is no list of two offsets", where);
    IQ_TRY(iq_json_item_u64(offsets->child, 0, size - data, where, &range[0], err));
    IQ_TRY(iq_json_item_u64(offsets->child->next, 0, size - data, where, &range[1], err));
    if (range[1] < range[0] || range[1] - range[0] != bytes)
        return iq_fail(
            err, IQ_FORMAT, "%s: `data_offsets` [%llu, %llu] hold %lld bytes, but %s and the shape need %llu",
            where, (ull)range[0], (ull)range[1], (long long)(range[1] - range[0]), t->type, (ull)bytes);
    t->offset = data + range[0];
    t->nbytes = bytes;
    return IQ_OK;
}

struct span {
    uint64_t begin, end;
    const char *name;
};

static int by_begin(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* The format allows neither overlaps nor holes: the tensors cover the data exactly. */
static int covered(struct span *s, size_t n, const char *path, uint64_t data, uint64_t size,
                   struct iq_err *err)
{
    uint64_t at = data;
    if (n) qsort(s, n, sizeof *s, by_begin);
    for (size_t i = 0; i < n; i++) {
        if (s[i].begin != at)
            return iq_fail(
                err, IQ_FORMAT,
                "%s: tensor `%s` begins at offset %llu, expected %llu where the tensor before it ends (%s)",
                path, s[i].name, (ull)s[i].begin, (ull)at, s[i].begin < at ? "an overlap" : "a hole");
        at = s[i].end;
    }
    return at == size ? IQ_OK
                      : iq_fail(err, IQ_FORMAT, "%s: the tensors end at offset %llu, but the file at %llu",
                                path, (ull)at, (ull)size);
}

static int tensors(struct iq_model_file *m, size_t index, const cJSON *header, uint64_t data,
                   bool (*take)(void *, const char *, size_t), void *ctx, struct iq_err *err)
{
    const char *path = m->file[index].path;
    uint64_t size = m->file[index].size;
    size_t n = 0, cap = 0;
    struct span *span = NULL;
    int status = IQ_OK;
    const cJSON *item;
    cJSON_ArrayForEach(item, header)
    {
        struct iq_tensor t = {.file = index};
        if (!strcmp(item->string, "__metadata__")) continue;
        if (!iq__name_is_fair(item->string, strlen(item->string)))
            status = iq_fail(
                err, IQ_FORMAT,
                "%s: a tensor's name is empty, longer than 255 bytes or holds control characters", path);
        if (status == IQ_OK) status = entry(item, path, data, size, &t, err);
        if (status == IQ_OK) status = iq_grow(&span, &cap, n + 1, sizeof *span, err);
        if (status != IQ_OK) break;
        span[n++] = (struct span){t.offset, t.offset + t.nbytes, item->string};
        if (take && !take(ctx, item->string, index)) continue;
        t.name = iq__keep(m, item->string, strlen(item->string));
        t.bytes = m->file[index].bytes + t.offset;
        status = t.name ? iq__tensor_add(m, &t, err)
                        : iq_fail(err, IQ_MEMORY, "%s: no memory for a tensor's name", path);
        if (status != IQ_OK) break;
    }
    if (status == IQ_OK) status = covered(span, n, path, data, size, err);
    free(span);
    return status;
}

int iq__safetensors_read(struct iq_model_file *m, size_t index, bool (*take)(void *, const char *, size_t),
                         void *ctx, struct iq_err *err)
{
    const char *path = m->file[index].path, *text = (const char *)m->file[index].bytes + 8;
    uint64_t size = m->file[index].size, length = 0;
    if (size >= 8) memcpy(&length, m->file[index].bytes, 8);
    if (size < 8 || length > size - 8)
        return iq_fail(err, IQ_FORMAT,
                       "%s: offset 0: found a header of %llu bytes in a file of %llu; is it a safetensors "
                       "file, and whole?",
                       path, (ull)length, (ull)size);
    if (length > MOST_HEADER)
        return iq_fail(err, IQ_LIMIT, "%s: offset 0: found a header of %llu bytes, expected at most %d", path,
                       (ull)length, MOST_HEADER);
    if (length == 0 || text[0] != '{')
        return iq_fail(err, IQ_FORMAT, "%s: offset 8: the header does not begin with '{'", path);
    cJSON *header;
    char name[400];
    snprintf(name, sizeof name, "%.380s (header)", path);
    IQ_TRY(iq_json_parse(text, length, name, &header, err));
    int status = tensors(m, index, header, 8 + length, take, ctx, err);
    iq_json_free(header);
    return status;
}
