/* One GGUF file, version 2 or 3, little endian: magic, counts, keys, tensor descriptions, data. A cursor that checks
 * what is left before it moves is the only way to the bytes. */
#include "engine/files/model_file_parts.h"
#include "kernels/base/grow.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT, SPLIT_NO, SPLIT_COUNT, SPLIT_TENSORS, OWN };

/* Keys that every shard of a set has for itself. */
static const char *const own_keys[OWN] = {"general.alignment", "split.no", "split.count",
                                          "split.tensors.count"};

struct reader {
    struct iq_model_file *m;
    size_t file;
    const char *path;
    const unsigned char *bytes;
    uint64_t size, at;
    struct iq_err *err;
    struct iq__names seen;   /* keys of this file */
    struct iq_meta own[OWN]; /* .key is NULL when absent */
};

typedef unsigned long long ull;

static int cut(struct reader *r, const char *what, uint64_t need)
{
    return iq_fail(r->err, IQ_FORMAT,
                   "%s: offset %llu: the file ends inside %s: found %llu bytes, expected %llu", r->path,
                   (ull)r->at, what, (ull)(r->size - r->at), (ull)need);
}

static int take(struct reader *r, uint64_t n, const char *what, const unsigned char **out)
{
    *out = NULL;
    if (n > r->size - r->at) return cut(r, what, n);
    *out = r->bytes + r->at;
    r->at += n;
    return IQ_OK;
}

static int u32(struct reader *r, const char *what, uint32_t *out)
{
    const unsigned char *p;
    *out = 0;
    IQ_TRY(take(r, sizeof *out, what, &p));
    memcpy(out, p, sizeof *out);
    return IQ_OK;
}

static int u64(struct reader *r, const char *what, uint64_t *out)
{
    const unsigned char *p;
    *out = 0;
    IQ_TRY(take(r, sizeof *out, what, &p));
    memcpy(out, p, sizeof *out);
    return IQ_OK;
}

/* A name of at most 255 bytes, copied. */
static int name(struct reader *r, const char *what, char **out)
{
    uint64_t n, start = r->at;
    const unsigned char *p;
    IQ_TRY(u64(r, what, &n));
    IQ_TRY(take(r, n, what, &p));
    if (!iq__name_is_fair(p, n))
        return iq_fail(r->err, IQ_FORMAT,
                       "%s: offset %llu: %s has %llu bytes or holds control characters or bad UTF-8, "
                       "expected 1 to 255 bytes of printable text",
                       r->path, (ull)start, what, (ull)n);
    *out = iq__keep(r->m, p, n);
    return *out ? IQ_OK : iq_fail(r->err, IQ_MEMORY, "%s: no memory for %s", r->path, what);
}

static const struct {
    const char *name;
    unsigned size; /* 0: variable */
} meta_types[IQ_META_TYPES] = {
    [IQ_META_U8] = {"u8", 1},       [IQ_META_I8] = {"i8", 1},     [IQ_META_U16] = {"u16", 2},
    [IQ_META_I16] = {"i16", 2},     [IQ_META_U32] = {"u32", 4},   [IQ_META_I32] = {"i32", 4},
    [IQ_META_F32] = {"f32", 4},     [IQ_META_BOOL] = {"bool", 1}, [IQ_META_STRING] = {"string", 0},
    [IQ_META_ARRAY] = {"array", 0}, [IQ_META_U64] = {"u64", 8},   [IQ_META_I64] = {"i64", 8},
    [IQ_META_F64] = {"f64", 8}};

const char *iq_meta_type_name(enum iq_meta_type t)
{
    return (unsigned)t < IQ_META_TYPES ? meta_types[t].name : "unknown";
}

static int bools(struct reader *r, const struct iq_meta *v, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (v->bytes[i] > 1)
            return iq_fail(r->err, IQ_FORMAT,
                           "%s: offset %llu: key `%s`: found byte %u for a bool, expected 0 or 1", r->path,
                           (ull)(v->offset + i), v->key, v->bytes[i]);
    return IQ_OK;
}

/* The elements of an array; `element` is no array itself, so nothing recurses. */
static int array(struct reader *r, struct iq_meta *v)
{
    uint32_t element;
    uint64_t at = r->at;
    IQ_TRY(u32(r, "an array's type", &element));
    if (element == IQ_META_ARRAY)
        return iq_fail(
            r->err, IQ_UNSUPPORTED,
            "%s: offset %llu: key `%s` is an array of arrays, expected an array of numbers, bools or strings",
            r->path, (ull)at, v->key);
    if (element >= IQ_META_TYPES)
        return iq_fail(r->err, IQ_FORMAT, "%s: offset %llu: key `%s`: array of type %u, expected 0 to 12",
                       r->path, (ull)at, v->key, element);
    IQ_TRY(u64(r, "an array's length", &v->n));
    v->element = (enum iq_meta_type)element;
    v->offset = r->at;
    v->bytes = r->bytes + r->at;
    uint64_t least = meta_types[element].size ? meta_types[element].size : 8;
    if (v->n > (r->size - r->at) / least)
        return iq_fail(r->err, IQ_FORMAT,
                       "%s: offset %llu: key `%s`: array of %llu elements of at least %llu bytes, but only "
                       "%llu bytes are left",
                       r->path, (ull)r->at, v->key, (ull)v->n, (ull)least, (ull)(r->size - r->at));
    const unsigned char *p;
    if (element != IQ_META_STRING) {
        IQ_TRY(take(r, v->n * least, "an array", &p));
        return element == IQ_META_BOOL ? bools(r, v, v->n) : IQ_OK;
    }
    for (uint64_t i = 0; i < v->n; i++) {
        uint64_t n;
        IQ_TRY(u64(r, "a string's length in an array", &n));
        IQ_TRY(take(r, n, "a string in an array", &p));
    }
    return IQ_OK;
}

static int value(struct reader *r, struct iq_meta *v)
{
    uint32_t type;
    uint64_t at = r->at;
    IQ_TRY(u32(r, "a key's type", &type));
    if (type >= IQ_META_TYPES)
        return iq_fail(r->err, IQ_FORMAT, "%s: offset %llu: key `%s`: type %u, expected 0 to 12", r->path,
                       (ull)at, v->key, type);
    v->type = (enum iq_meta_type)type;
    v->file = r->file;
    if (type == IQ_META_ARRAY) return array(r, v);
    v->n = meta_types[type].size;
    if (type == IQ_META_STRING) IQ_TRY(u64(r, "a string's length", &v->n));
    v->offset = r->at;
    IQ_TRY(take(r, v->n, "a key's value", &v->bytes));
    if (type == IQ_META_BOOL) IQ_TRY(bools(r, v, 1));
    if (type != IQ_META_STRING) v->n = 1;
    return IQ_OK;
}

/* Puts a key among the model's: a key that an earlier shard has must have the same value. */
static int key_add(struct reader *r, const struct iq_meta *v, uint64_t at)
{
    const struct iq__name *there = iq__names_find(&r->m->meta_names, v->key);
    if (there) {
        const struct iq_meta *old = &r->m->meta[there->at];
        bool same = old->type == v->type && old->element == v->element && old->n == v->n &&
                    r->at - v->offset <= r->m->file[old->file].size - old->offset &&
                    !memcmp(old->bytes, v->bytes, r->at - v->offset);
        if (same) return IQ_OK;
        return iq_fail(
            r->err, IQ_MISMATCH,
            "%s: offset %llu: key `%s` has another value than in %s; expected the shards of a set to agree",
            r->path, (ull)at, v->key, r->m->file[old->file].path);
    }
    IQ_TRY(iq_grow(&r->m->meta, &r->m->cap_metas, r->m->metas + 1, sizeof *v, r->err));
    IQ_TRY(iq__names_add(&r->m->meta_names, v->key, r->m->metas, r->err));
    r->m->meta[r->m->metas++] = *v;
    return IQ_OK;
}

static int keys(struct reader *r, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        struct iq_meta v = {0};
        char *key;
        uint64_t at = r->at;
        IQ_TRY(name(r, "a key", &key));
        v.key = key;
        const struct iq__name *first = iq__names_find(&r->seen, key);
        if (first)
            return iq_fail(
                r->err, IQ_FORMAT,
                "%s: offset %llu: a second key `%s`, the first is at offset %llu; expected each key once",
                r->path, (ull)at, key, (ull)first->at);
        IQ_TRY(iq__names_add(&r->seen, key, at, r->err));
        IQ_TRY(value(r, &v));
        int own = 0;
        while (own < OWN && strcmp(own_keys[own], key)) own++;
        if (own == OWN) {
            IQ_TRY(key_add(r, &v, at));
            continue;
        }
        r->own[own] = v;
    }
    return IQ_OK;
}

/* One of the shard's own keys as an integer in [lo, hi]; untouched when absent. */
static int own_integer(struct reader *r, int which, uint64_t lo, uint64_t hi, uint64_t *out)
{
    const struct iq_meta *v = &r->own[which];
    if (!v->key) return IQ_OK;
    static const unsigned char integer[IQ_META_TYPES] = {
        [IQ_META_U16] = 1, [IQ_META_U32] = 1, [IQ_META_I32] = 1, [IQ_META_U64] = 1};
    uint64_t found = 0;
    bool fits = which == ALIGNMENT ? v->type == IQ_META_U32 : integer[v->type];
    if (fits) memcpy(&found, v->bytes, meta_types[v->type].size);
    if (v->type == IQ_META_I32 && found > INT32_MAX) fits = false;
    if (!fits)
        return iq_fail(r->err, IQ_FORMAT,
                       "%s: offset %llu: key `%s`: found a value of type %s, expected an unsigned integer%s",
                       r->path, (ull)v->offset, v->key, iq_meta_type_name(v->type),
                       which == ALIGNMENT ? " of type u32" : "");
    if (found < lo || found > hi)
        return iq_fail(r->err, IQ_FORMAT, "%s: offset %llu: key `%s`: found %llu, expected %llu to %llu",
                       r->path, (ull)v->offset, v->key, (ull)found, (ull)lo, (ull)hi);
    *out = found;
    return IQ_OK;
}

static int split_keys(struct reader *r, struct iq__split *s)
{
    *s = (struct iq__split){.count = 1, .tensors = UINT64_MAX};
    IQ_TRY(own_integer(r, SPLIT_COUNT, 1, 9999, &s->count));
    IQ_TRY(own_integer(r, SPLIT_NO, 0, s->count - 1, &s->no));
    return own_integer(r, SPLIT_TENSORS, 0, UINT32_MAX, &s->tensors);
}

/* ggml's types: which exist, and which of them kernels read. */
static const struct {
    uint32_t id;
    const char *name;
    uint32_t elements, bytes; /* of a block */
    enum iq_format format;
} tensor_types[] = {
    {0, "F32", 1, 4, IQ_F32},
    {1, "F16", 1, 2, IQ_F16},
    {2, "Q4_0", 32, 18, IQ_Q4_0},
    {3, "Q4_1", 32, 20, IQ_Q4_1},
    {6, "Q5_0", 32, 22, IQ_FORMAT_NONE},
    {7, "Q5_1", 32, 24, IQ_FORMAT_NONE},
    {8, "Q8_0", 32, 34, IQ_Q8_0},
    {9, "Q8_1", 32, 36, IQ_FORMAT_NONE},
    {10, "Q2_K", 256, 84, IQ_FORMAT_NONE},
    {11, "Q3_K", 256, 110, IQ_FORMAT_NONE},
    {12, "Q4_K", 256, 144, IQ_FORMAT_NONE},
    {13, "Q5_K", 256, 176, IQ_FORMAT_NONE},
    {14, "Q6_K", 256, 210, IQ_FORMAT_NONE},
    {15, "Q8_K", 256, 292, IQ_FORMAT_NONE},
    {16, "IQ2_XXS", 256, 66, IQ_FORMAT_NONE},
    {17, "IQ2_XS", 256, 74, IQ_FORMAT_NONE},
    {18, "IQ3_XXS", 256, 98, IQ_FORMAT_NONE},
    {19, "IQ1_S", 256, 50, IQ_FORMAT_NONE},
    {20, "IQ4_NL", 32, 18, IQ_FORMAT_NONE},
    {21, "IQ3_S", 256, 110, IQ_FORMAT_NONE},
    {22, "IQ2_S", 256, 82, IQ_FORMAT_NONE},
    {23, "IQ4_XS", 256, 136, IQ_FORMAT_NONE},
    {24, "I8", 1, 1, IQ_FORMAT_NONE},
    {25, "I16", 1, 2, IQ_FORMAT_NONE},
    {26, "I32", 1, 4, IQ_FORMAT_NONE},
    {27, "I64", 1, 8, IQ_FORMAT_NONE},
    {28, "F64", 1, 8, IQ_FORMAT_NONE},
    {29, "IQ1_M", 256, 56, IQ_FORMAT_NONE},
    {30, "BF16", 1, 2, IQ_BF16},
    {34, "TQ1_0", 256, 54, IQ_FORMAT_NONE},
    {35, "TQ2_0", 256, 66, IQ_FORMAT_NONE},
    {39, "MXFP4", 32, 17, IQ_FORMAT_NONE},
};

/* Size of a tensor; *nbytes is set without overflow. ne[0] runs fastest. */
static int tensor_size(struct reader *r, struct iq_tensor *t, uint64_t at, uint32_t type,
                       const uint64_t ne[4])
{
    size_t i = 0, types = sizeof tensor_types / sizeof *tensor_types;
    while (i < types && tensor_types[i].id != type) i++;
    if (i == types)
        return iq_fail(r->err, IQ_UNSUPPORTED,
                       "%s: offset %llu: tensor `%s` has the unknown type %u, expected F32, F16, BF16, Q8_0, "
                       "Q4_0 or Q4_1",
                       r->path, (ull)at, t->name, type);
    t->type = tensor_types[i].name;
    t->format = tensor_types[i].format;
    if (ne[0] % tensor_types[i].elements)
        return iq_fail(
            r->err, IQ_FORMAT,
            "%s: offset %llu: tensor `%s` (%s) has rows of %llu elements, expected a multiple of %u", r->path,
            (ull)at, t->name, t->type, (ull)ne[0], tensor_types[i].elements);
    uint64_t bytes = ne[0] / tensor_types[i].elements;
    bool wraps = __builtin_mul_overflow(bytes, tensor_types[i].bytes, &bytes);
    for (int d = 1; d < 4; d++) wraps |= __builtin_mul_overflow(bytes, ne[d], &bytes);
    if (wraps)
        return iq_fail(
            r->err, IQ_FORMAT,
            "%s: offset %llu: tensor `%s`: its dimensions [%llu, %llu, %llu, %llu] wrap around 2^64 bytes",
            r->path, (ull)at, t->name, (ull)ne[0], (ull)ne[1], (ull)ne[2], (ull)ne[3]);
    t->nbytes = bytes;
    return IQ_OK;
}

/* One description; t->offset is still relative to the data. */
static int tensor(struct reader *r, struct iq_tensor *t)
{
    char *text;
    uint32_t rank, type;
    uint64_t at = r->at, ne[4] = {1, 1, 1, 1};
    *t = (struct iq_tensor){.file = r->file};
    IQ_TRY(name(r, "a tensor's name", &text));
    t->name = text;
    IQ_TRY(u32(r, "a tensor's number of dimensions", &rank));
    if (rank < 1 || rank > 4)
        return iq_fail(r->err, IQ_FORMAT, "%s: offset %llu: tensor `%s` has %u dimensions, expected 1 to 4",
                       r->path, (ull)at, t->name, rank);
    for (uint32_t d = 0; d < rank; d++) {
        IQ_TRY(u64(r, "a tensor's dimensions", &ne[d]));
        if (!ne[d])
            return iq_fail(r->err, IQ_FORMAT,
                           "%s: offset %llu: tensor `%s`: dimension %u is 0, expected at least 1", r->path,
                           (ull)(r->at - 8), t->name, d);
    }
    IQ_TRY(u32(r, "a tensor's type", &type));
    IQ_TRY(tensor_size(r, t, at, type, ne));
    t->rank = (int)rank;
    for (int d = 0; d < 4; d++) t->dim[d] = d < t->rank ? ne[t->rank - 1 - d] : 1;
    return u64(r, "a tensor's offset", &t->offset);
}

static int by_offset(const void *a, const void *b)
{
    const struct iq_tensor *const *x = a, *const *y = b;
    return (*x)->offset < (*y)->offset ? -1 : (*x)->offset > (*y)->offset;
}

static int no_overlaps(struct reader *r, size_t first)
{
    size_t n = r->m->tensors - first;
    if (n < 2) return IQ_OK;
    const struct iq_tensor **t = malloc(n * sizeof *t);
    if (!t) return iq_fail(r->err, IQ_MEMORY, "%s: no memory to order its tensors", r->path);
    for (size_t i = 0; i < n; i++) t[i] = &r->m->tensor[first + i];
    qsort(t, n, sizeof *t, by_offset);
    int status = IQ_OK;
    for (size_t i = 1; i < n && status == IQ_OK; i++)
        if (t[i]->offset < t[i - 1]->offset + t[i - 1]->nbytes)
            status = iq_fail(r->err, IQ_FORMAT,
                             "%s: offset %llu: tensor `%s` lies inside the bytes of tensor `%s`", r->path,
                             (ull)t[i]->offset, t[i]->name, t[i - 1]->name);
    free(t);
    return status;
}

static int tensors(struct reader *r, uint64_t count)
{
    size_t first = r->m->tensors;
    uint64_t alignment = 32, data;
    IQ_TRY(own_integer(r, ALIGNMENT, 8, 1 << 20, &alignment));
    if (alignment & (alignment - 1))
        return iq_fail(r->err, IQ_FORMAT,
                       "%s: offset %llu: key `general.alignment`: found %llu, expected a power of two",
                       r->path, (ull)r->own[ALIGNMENT].offset, (ull)alignment);
    for (uint64_t i = 0; i < count; i++) {
        struct iq_tensor t;
        IQ_TRY(tensor(r, &t));
        IQ_TRY(iq__tensor_add(r->m, &t, r->err));
    }
    data = (r->at + alignment - 1) / alignment * alignment;
    for (size_t i = first; i < r->m->tensors; i++) {
        struct iq_tensor *t = &r->m->tensor[i];
        if (t->offset % alignment)
            return iq_fail(
                r->err, IQ_FORMAT,
                "%s: tensor `%s`: found data offset %llu, expected a multiple of the alignment %llu", r->path,
                t->name, (ull)t->offset, (ull)alignment);
        if (data > r->size || t->offset > r->size - data || t->nbytes > r->size - data - t->offset)
            return iq_fail(r->err, IQ_FORMAT,
                           "%s: tensor `%s` has %llu bytes at offset %llu + %llu, but the file ends at %llu",
                           r->path, t->name, (ull)t->nbytes, (ull)data, (ull)t->offset, (ull)r->size);
        t->offset += data;
        t->bytes = r->bytes + t->offset;
    }
    return no_overlaps(r, first);
}

static int whole(struct reader *r, const struct iq__split *expect, struct iq__split *split)
{
    uint32_t version;
    uint64_t n_tensors, n_keys;
    if (r->size < 4 || memcmp(r->bytes, "GGUF", 4))
        return iq_fail(r->err, IQ_FORMAT,
                       "%s: offset 0: found no GGUF magic; expected a .gguf file, a folder with one, or a "
                       "folder with config.json and *.safetensors",
                       r->path);
    r->at = 4;
    IQ_TRY(u32(r, "the version", &version));
    if (version != 2 && version != 3)
        return iq_fail(r->err, IQ_UNSUPPORTED,
                       "%s: offset 4: GGUF version %u%s, expected 2 or 3 in little endian", r->path, version,
                       version && !(version & 0xffff) ? " (a big-endian file?)" : "");
    IQ_TRY(u64(r, "the number of tensors", &n_tensors));
    IQ_TRY(u64(r, "the number of keys", &n_keys));
    enum { LEAST_KEY = 8 + 1 + 4 + 1, LEAST_TENSOR = 8 + 1 + 4 + 8 + 4 + 8 };
    if (n_keys > (r->size - r->at) / LEAST_KEY || n_tensors > (r->size - r->at) / LEAST_TENSOR)
        return iq_fail(r->err, IQ_FORMAT,
                       "%s: offset 8: found %llu tensors and %llu keys, which do not fit in the %llu bytes "
                       "that are left",
                       r->path, (ull)n_tensors, (ull)n_keys, (ull)(r->size - r->at));
    IQ_TRY(keys(r, n_keys));
    IQ_TRY(split_keys(r, split));
    if (expect) IQ_TRY(iq__split_check(r->path, split, expect, r->err));
    return tensors(r, n_tensors);
}

int iq__gguf_read(struct iq_model_file *m, size_t index, const struct iq__split *expect,
                  struct iq__split *split, struct iq_err *err)
{
    struct reader r = {.m = m,
                       .file = index,
                       .path = m->file[index].path,
                       .bytes = m->file[index].bytes,
                       .size = m->file[index].size,
                       .err = err};
    int status = whole(&r, expect, split);
    free(r.seen.slot);
    return status;
}
