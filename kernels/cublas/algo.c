#include "kernels/cublas/algo.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct iq_cublas_type iq_cublas_types[IQ_CUBLAS_TYPES] = {
    [IQ_CUBLAS_FP32] = {"fp32", IQ_CUBLAS_R_32F, IQ_CUBLAS_COMPUTE_32F, IQ_CUBLAS_FLOAT, 4, 24},
    [IQ_CUBLAS_TF32] = {"tf32", IQ_CUBLAS_R_32F, IQ_CUBLAS_COMPUTE_TF32, IQ_CUBLAS_FLOAT, 4, 11},
    [IQ_CUBLAS_BF16] = {"bf16", IQ_CUBLAS_R_16BF, IQ_CUBLAS_COMPUTE_32F, IQ_CUBLAS_BFLOAT, 2, 8},
    [IQ_CUBLAS_FP16] = {"fp16", IQ_CUBLAS_R_16F, IQ_CUBLAS_COMPUTE_32F, IQ_CUBLAS_HALF, 2, 11},
};

static const struct {
    const char *name;
    size_t offset;
    int attribute;
    size_t bytes;
    uint32_t most;
} fields[] = {
#define X(field, theirs, attribute, type)                                                                    \
    {#field, offsetof(struct iq_cublas_algo, field), attribute, sizeof(type),                                \
     sizeof(type) == 2 ? UINT16_MAX : INT32_MAX},
    IQ_CUBLAS_ALGO_MAP(X)
#undef X
};
enum { FIELDS = sizeof fields / sizeof *fields };

static uint32_t get(const struct iq_cublas_algo *a, int i)
{
    uint32_t v;
    memcpy(&v, (const char *)a + fields[i].offset, sizeof v);
    return v;
}

static void set(struct iq_cublas_algo *a, int i, uint32_t v)
{
    memcpy((char *)a + fields[i].offset, &v, sizeof v);
}

void iq_cublas_algo_print(const struct iq_cublas_algo *a, char out[IQ_CUBLAS_ID])
{
    int at = 0;
    for (int i = 0; i < FIELDS; i++)
        at += snprintf(out + at, (size_t)(IQ_CUBLAS_ID - at), "%s%s=%" PRIu32, i ? "," : "", fields[i].name,
                       get(a, i));
}

void iq_cublas_algo_json(const struct iq_cublas_algo *a, struct iq_jw *jw)
{
    iq_jw_begin(jw, '{');
    for (int i = 0; i < FIELDS; i++) {
        iq_jw_key(jw, fields[i].name);
        iq_jw_u64(jw, get(a, i));
    }
    iq_jw_end(jw, '}');
}

/* One NAME=NUMBER of `n` bytes. */
static int parse_field(const char *text, size_t n, struct iq_cublas_algo *out, unsigned *seen,
                       struct iq_err *err)
{
    const char *equals = memchr(text, '=', n);
    size_t name = equals ? (size_t)(equals - text) : n;
    for (int i = 0; i < FIELDS; i++) {
        if (strlen(fields[i].name) != name || strncmp(fields[i].name, text, name)) continue;
        uint64_t v = 0;
        size_t digits = n - name - (equals != NULL);
        for (size_t d = 0; d < digits && v <= fields[i].most; d++) {
            unsigned char c = (unsigned char)equals[1 + d];
            v = c >= '0' && c <= '9' ? v * 10 + (c - '0') : UINT64_MAX;
        }
        if (!digits || v > fields[i].most)
            return iq_fail(err, IQ_FORMAT, "algorithm id: %.*s, expected %s=0 to %" PRIu32,
                           (int)(n < 40 ? n : 40), text, fields[i].name, fields[i].most);
        if (*seen >> i & 1) return iq_fail(err, IQ_FORMAT, "algorithm id: %s stands twice", fields[i].name);
        *seen |= 1u << i;
        set(out, i, (uint32_t)v);
        return IQ_OK;
    }
    return iq_fail(
        err, IQ_FORMAT,
        "algorithm id: no field '%.*s'; expected algo=..,tile=..,stages=..,split_k=..,reduction=..,"
        "swizzle=..,custom=..,inner=..,cluster=..",
        (int)(name < 40 ? name : 40), text);
}

int iq_cublas_algo_parse(const char *text, struct iq_cublas_algo *out, struct iq_err *err)
{
    struct iq_cublas_algo a = {0};
    unsigned seen = 0;
    *out = a;
    for (const char *at = text;;) {
        size_t n = strcspn(at, ",");
        IQ_TRY(parse_field(at, n, &a, &seen, err));
        at += n;
        if (!*at++) break;
    }
    for (int i = 0; i < FIELDS; i++)
        if (!(seen >> i & 1))
            return iq_fail(err, IQ_FORMAT, "algorithm id: %s is missing in '%.120s'", fields[i].name, text);
    *out = a;
    return IQ_OK;
}

int iq_cublas_algo_read(const struct iq_cublas_api *api, const struct iq_cublas_blob *blob,
                        struct iq_cublas_algo *out, struct iq_err *err)
{
    *out = (struct iq_cublas_algo){0};
    for (int i = 0; i < FIELDS; i++) {
        char what[80];
        unsigned char raw[4] = {0};
        size_t written = 0;
        uint16_t half;
        uint32_t v;
        snprintf(what, sizeof what, "reading %s of an algorithm", fields[i].name);
        IQ_TRY(iq_cublas_check(api, api->algo_get(blob, fields[i].attribute, raw, fields[i].bytes, &written),
                               what, err));
        memcpy(&half, raw, sizeof half);
        memcpy(&v, raw, sizeof v);
        set(out, i, fields[i].bytes == sizeof half ? half : v);
    }
    return IQ_OK;
}

int iq_cublas_algo_make(const struct iq_cublas_api *api, void *lt, unsigned type,
                        const struct iq_cublas_algo *a, struct iq_cublas_blob *out, struct iq_err *err)
{
    const struct iq_cublas_type *t = &iq_cublas_types[type];
    char what[80];
    memset(out, 0, sizeof *out);
    snprintf(what, sizeof what, "taking algorithm %" PRIu32 " for %s", a->algo, t->name);
    IQ_TRY(iq_cublas_check_setting(api,
                                   api->algo_init(lt, t->compute, IQ_CUBLAS_R_32F, t->data, t->data,
                                                  IQ_CUBLAS_R_32F, IQ_CUBLAS_R_32F, (int)a->algo, out),
                                   what, err));
    for (int i = 1; i < FIELDS; i++) {
        uint32_t v = get(a, i);
        uint16_t half = (uint16_t)v;
        const void *value = fields[i].bytes == sizeof half ? (const void *)&half : &v;
        snprintf(what, sizeof what, "setting %s=%" PRIu32 " of algorithm %" PRIu32, fields[i].name, v,
                 a->algo);
        IQ_TRY(iq_cublas_check_setting(api, api->algo_set(out, fields[i].attribute, value, fields[i].bytes),
                                       what, err));
    }
    return IQ_OK;
}
