/* Algorithms in the library's form, and what each may be set to. */
#include "tests/cublas/fake_parts.h"

#include <string.h>

int fake_type(int compute, int data)
{
    for (unsigned t = 0; t < IQ_CUBLAS_TYPES; t++)
        if (iq_cublas_types[t].compute == compute && iq_cublas_types[t].data == data) return (int)t;
    return -1;
}

static const uint64_t MARK = 0x66616b652d616c67; /* a blob that algo_init or the heuristic has filled */

_Static_assert(sizeof(struct blob_form) <= sizeof(struct iq_cublas_blob),
               "an algorithm fits the library's form");

struct iq_cublas_blob fake_blob(unsigned type, const struct iq_cublas_algo *a)
{
    struct iq_cublas_blob b = {{0}};
    struct blob_form f = {*a, type, MARK};
    memcpy(&b, &f, sizeof f);
    return b;
}

bool fake_blob_read(const struct iq_cublas_blob *b, struct blob_form *f)
{
    memcpy(f, b, sizeof *f);
    return f->mark == MARK;
}

int lib_algo_ids(void *handle, int compute, int scale, int a, int b, int c, int d, int most, int *ids,
                 int *found)
{
    ENTER(algo_ids);
    int type = fake_type(compute, a);
    *found = 0;
    if (!fake_is(handle, LT)) return IQ_CUBLAS_NOT_INITIALIZED;
    if (type < 0 || a != b || c != scale || d != scale) return IQ_CUBLAS_NOT_SUPPORTED;
    for (size_t i = 0; i < fake_record.algorithms[type] && *found < most; i++)
        ids[(*found)++] = fake_record.algorithm[type][i].algo;
    return IQ_CUBLAS_OK;
}

int lib_algo_init(void *handle, int compute, int scale, int a, int b, int c, int d, int id,
                  struct iq_cublas_blob *out)
{
    ENTER(algo_init);
    int type = fake_type(compute, a);
    if (!fake_is(handle, LT)) return IQ_CUBLAS_NOT_INITIALIZED;
    if (type < 0 || a != b || c != scale || d != scale) return IQ_CUBLAS_NOT_SUPPORTED;
    if (!fake_record_algorithm(&fake_record, (unsigned)type, id)) return IQ_CUBLAS_INVALID_VALUE;
    *out = fake_blob((unsigned)type, &(struct iq_cublas_algo){.algo = (uint32_t)id, .split_k = 1});
    return IQ_CUBLAS_OK;
}

int lib_algo_cap(const struct iq_cublas_blob *blob, int attr, void *value, size_t bytes, size_t *written)
{
    ENTER(algo_cap);
    struct blob_form f;
    if (!fake_blob_read(blob, &f)) return IQ_CUBLAS_INVALID_VALUE;
    const struct fake_algorithm *a = fake_record_algorithm(&fake_record, f.type, (int)f.algo.algo);
    const struct {
        int attr;
        const void *value;
        size_t bytes;
    } caps[] = {
        {IQ_CUBLAS_CAP_TILES, a->tiles, a->tiles_n * 4}, {IQ_CUBLAS_CAP_STAGES, a->stages, a->stages_n * 4},
        {IQ_CUBLAS_CAP_SPLIT_K, &a->split_k, 4},         {IQ_CUBLAS_CAP_REDUCTIONS, &a->reductions, 4},
        {IQ_CUBLAS_CAP_SWIZZLE, &a->swizzle, 4},         {IQ_CUBLAS_CAP_CUSTOM_MAX, &a->custom_max, 4}};
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        if (caps[i].attr != attr) continue;
        *written = caps[i].bytes;
        if (bytes && bytes < caps[i].bytes) return IQ_CUBLAS_INVALID_VALUE;
        if (bytes) memcpy(value, caps[i].value, caps[i].bytes);
        return IQ_CUBLAS_OK;
    }
    return IQ_CUBLAS_INVALID_VALUE;
}

/* The field of a configuration's attribute, and how many bytes the library has for it. */
static uint32_t *field_of(struct iq_cublas_algo *a, int attr, size_t *bytes)
{
#define X(field, theirs, attribute, type)                                                                    \
    if (attr == (attribute)) {                                                                               \
        *bytes = sizeof(type);                                                                               \
        return &a->field;                                                                                    \
    }
    IQ_CUBLAS_ALGO_MAP(X)
#undef X
    return NULL;
}

int lib_algo_get(const struct iq_cublas_blob *blob, int attr, void *value, size_t bytes, size_t *written)
{
    ENTER(algo_get);
    struct blob_form f;
    size_t size = 0;
    uint32_t *field = fake_blob_read(blob, &f) ? field_of(&f.algo, attr, &size) : NULL;
    if (!field || bytes != size) return IQ_CUBLAS_INVALID_VALUE;
    memcpy(value, field, size); /* little endian */
    *written = size;
    return IQ_CUBLAS_OK;
}

int lib_algo_set(struct iq_cublas_blob *blob, int attr, const void *value, size_t bytes)
{
    ENTER(algo_set);
    struct blob_form f;
    size_t size = 0;
    uint32_t *field = fake_blob_read(blob, &f) ? field_of(&f.algo, attr, &size) : NULL;
    if (!field || bytes != size || attr == 0) return IQ_CUBLAS_INVALID_VALUE;
    *field = 0;
    memcpy(field, value, size);
    memcpy(blob, &f, sizeof f);
    return IQ_CUBLAS_OK;
}

static bool among(const uint32_t *list, size_t n, uint32_t v)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == v) return true;
    return false;
}

int fake_settings_check(unsigned type, const struct iq_cublas_algo *s)
{
    const struct fake_algorithm *a = fake_record_algorithm(&fake_record, type, (int)s->algo);
    if (!a) return IQ_CUBLAS_NOT_SUPPORTED;
    if (!among(a->tiles, a->tiles_n, s->tile) || !among(a->stages, a->stages_n, s->stages))
        return IQ_CUBLAS_INVALID_VALUE;
    if (s->custom > a->custom_max || s->swizzle > a->swizzle || s->split_k < 1)
        return IQ_CUBLAS_INVALID_VALUE;
    if (s->split_k == 1) return s->reduction ? IQ_CUBLAS_INVALID_VALUE : IQ_CUBLAS_OK;
    bool one = s->reduction == 1 || s->reduction == 2 || s->reduction == 4;
    return a->split_k && one && (a->reductions & s->reduction) ? IQ_CUBLAS_OK : IQ_CUBLAS_INVALID_VALUE;
}
