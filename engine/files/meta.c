/* Typed access to GGUF keys. Everything was bounds-checked when the file was opened. */
#include "engine/files/model_file_parts.h"

#include <math.h>
#include <string.h>

typedef unsigned long long ull;

size_t iq_model_meta_count(const struct iq_model_file *m) { return m->metas; }
const struct iq_meta *iq_model_meta_at(const struct iq_model_file *m, size_t i) { return &m->meta[i]; }

const struct iq_meta *iq_model_meta_find(struct iq_model_file *m, const char *key)
{
    const struct iq__name *e = iq__names_find(&m->meta_names, key);
    if (!e) return NULL;
    m->meta[e->at].used = true;
    return &m->meta[e->at];
}

static const struct iq_meta *find(struct iq_model_file *m, const char *key, bool *found)
{
    const struct iq_meta *v = iq_model_meta_find(m, key);
    if (found) *found = v != NULL;
    return v;
}

static int wrong_type(const struct iq_model_file *m, const struct iq_meta *v, const char *expected,
                      struct iq_err *err)
{
    return iq_fail(err, IQ_FORMAT, "%s: offset %llu: key `%s`: found a value of type %s%s%s, expected %s",
                   m->file[v->file].path, (ull)v->offset, v->key, iq_meta_type_name(v->type),
                   v->type == IQ_META_ARRAY ? " of " : "",
                   v->type == IQ_META_ARRAY ? iq_meta_type_name(v->element) : "", expected);
}

/* A number of any type, as integer (sign and magnitude) where it is one, and as double. */
struct number {
    bool integer, negative;
    uint64_t magnitude;
    double d;
};

#define SIGNED(T)                                                                                            \
    {                                                                                                        \
        T v;                                                                                                 \
        memcpy(&v, p, sizeof v);                                                                             \
        *out = (struct number){true, v < 0, v < 0 ? 0 - (uint64_t)v : (uint64_t)v, (double)v};               \
        return sizeof v;                                                                                     \
    }
#define UNSIGNED(T)                                                                                          \
    {                                                                                                        \
        T v;                                                                                                 \
        memcpy(&v, p, sizeof v);                                                                             \
        *out = (struct number){true, false, v, (double)v};                                                   \
        return sizeof v;                                                                                     \
    }
#define FLOAT(T)                                                                                             \
    {                                                                                                        \
        T v;                                                                                                 \
        memcpy(&v, p, sizeof v);                                                                             \
        *out = (struct number){.d = (double)v};                                                              \
        return sizeof v;                                                                                     \
    }
static size_t get_u8(const void *p, struct number *out) UNSIGNED(uint8_t) static size_t
    get_i8(const void *p, struct number *out) SIGNED(int8_t) static size_t
    get_u16(const void *p, struct number *out) UNSIGNED(uint16_t) static size_t
    get_i16(const void *p, struct number *out) SIGNED(int16_t) static size_t
    get_u32(const void *p, struct number *out) UNSIGNED(uint32_t) static size_t
    get_i32(const void *p, struct number *out) SIGNED(int32_t) static size_t
    get_u64(const void *p, struct number *out) UNSIGNED(uint64_t) static size_t
    get_i64(const void *p, struct number *out) SIGNED(int64_t) static size_t
    get_f32(const void *p, struct number *out) FLOAT(float) static size_t
    get_f64(const void *p, struct number *out) FLOAT(double)

    /* Reads one number and returns its size; NULL: not a number. */
    static size_t (*const get[IQ_META_TYPES])(const void *, struct number *) = {
        [IQ_META_U8] = get_u8,   [IQ_META_I8] = get_i8,   [IQ_META_U16] = get_u16, [IQ_META_I16] = get_i16,
        [IQ_META_U32] = get_u32, [IQ_META_I32] = get_i32, [IQ_META_U64] = get_u64, [IQ_META_I64] = get_i64,
        [IQ_META_F32] = get_f32, [IQ_META_F64] = get_f64};

static bool is_integer(enum iq_meta_type t) { return get[t] && t != IQ_META_F32 && t != IQ_META_F64; }

int iq_model_u64(struct iq_model_file *m, const char *key, uint64_t lo, uint64_t hi, uint64_t *out,
                 bool *found, struct iq_err *err)
{
    const struct iq_meta *v = find(m, key, found);
    struct number n;
    if (!v) return IQ_OK;
    if (!is_integer(v->type)) return wrong_type(m, v, "an integer", err);
    get[v->type](v->bytes, &n);
    if (n.negative || n.magnitude < lo || n.magnitude > hi)
        return iq_fail(err, IQ_FORMAT, "%s: offset %llu: key `%s`: found %s%llu, expected %llu to %llu",
                       m->file[v->file].path, (ull)v->offset, key, n.negative ? "-" : "", (ull)n.magnitude,
                       (ull)lo, (ull)hi);
    *out = n.magnitude;
    return IQ_OK;
}

int iq_model_f64(struct iq_model_file *m, const char *key, double lo, double hi, double *out, bool *found,
                 struct iq_err *err)
{
    const struct iq_meta *v = find(m, key, found);
    struct number n;
    if (!v) return IQ_OK;
    if (!get[v->type]) return wrong_type(m, v, "a number", err);
    get[v->type](v->bytes, &n);
    if (!(n.d >= lo && n.d <= hi && isfinite(n.d)))
        return iq_fail(err, IQ_FORMAT, "%s: offset %llu: key `%s`: found %.9g, expected %.9g to %.9g",
                       m->file[v->file].path, (ull)v->offset, key, n.d, lo, hi);
    *out = n.d;
    return IQ_OK;
}

int iq_model_bool(struct iq_model_file *m, const char *key, bool *out, bool *found, struct iq_err *err)
{
    const struct iq_meta *v = find(m, key, found);
    if (!v) return IQ_OK;
    if (v->type != IQ_META_BOOL) return wrong_type(m, v, "a bool", err);
    *out = v->bytes[0];
    return IQ_OK;
}

int iq_model_text(struct iq_model_file *m, const char *key, struct iq_text *out, bool *found,
                  struct iq_err *err)
{
    const struct iq_meta *v = find(m, key, found);
    if (!v) return IQ_OK;
    if (v->type != IQ_META_STRING) return wrong_type(m, v, "a string", err);
    *out = (struct iq_text){(const char *)v->bytes, v->n};
    return IQ_OK;
}

int iq_model_array(struct iq_model_file *m, const char *key, enum iq_meta_type element, struct iq_array *out,
                   bool *found, struct iq_err *err)
{
    const struct iq_meta *v = find(m, key, found);
    if (!v) return IQ_OK;
    bool strings = element == IQ_META_STRING, floats = element == IQ_META_F64;
    bool right = v->type == IQ_META_ARRAY && (strings  ? v->element == IQ_META_STRING
                                              : floats ? get[v->element] != NULL
                                                       : is_integer(v->element));
    if (!right)
        return wrong_type(m, v,
                          strings  ? "an array of strings"
                          : floats ? "an array of numbers"
                                   : "an array of integers",
                          err);
    *out = (struct iq_array){v->element, v->n, 0, v->bytes};
    return IQ_OK;
}

struct iq_text iq_array_next_text(struct iq_array *a)
{
    uint64_t n;
    if (a->at >= a->n || a->element != IQ_META_STRING) return (struct iq_text){"", 0};
    memcpy(&n, a->next, sizeof n);
    struct iq_text t = {(const char *)a->next + sizeof n, n};
    a->next += sizeof n + n;
    a->at++;
    return t;
}

static struct number next_number(struct iq_array *a)
{
    struct number n = {0};
    if (a->at < a->n && get[a->element]) {
        a->next += get[a->element](a->next, &n);
        a->at++;
    }
    return n;
}

double iq_array_next_f64(struct iq_array *a) { return next_number(a).d; }

int64_t iq_array_next_i64(struct iq_array *a)
{
    struct number n = next_number(a);
    if (n.negative) return (int64_t)(0 - n.magnitude);
    return n.magnitude > INT64_MAX ? INT64_MAX : (int64_t)n.magnitude;
}
