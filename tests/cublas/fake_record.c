#include "tests/cublas/fake_record.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 64 << 20 };

static int array_of(const cJSON *obj, const char *key, const cJSON **out, struct iq_err *err)
{
    *out = cJSON_GetObjectItemCaseSensitive(obj, key);
    if (!cJSON_IsArray(*out)) return iq_fail(err, IQ_FORMAT, "record: %s is no array", key);
    return IQ_OK;
}

static int number(const cJSON *obj, const char *key, uint64_t most, uint64_t *out, struct iq_err *err)
{
    return iq_json_u64(obj, key, 0, most, "record", out, err);
}

static int list(const cJSON *obj, const char *key, uint32_t **out, size_t *n, struct iq_err *err)
{
    const cJSON *a, *item;
    IQ_TRY(array_of(obj, key, &a, err));
    *out = calloc((size_t)cJSON_GetArraySize(a) + 1, sizeof **out);
    cJSON_ArrayForEach(item, a)
    {
        uint64_t v;
        IQ_TRY(iq_json_item_u64(item, 0, INT32_MAX, key, &v, err));
        (*out)[(*n)++] = (uint32_t)v;
    }
    return IQ_OK;
}

static int algorithm(const cJSON *obj, struct fake_algorithm *a, struct iq_err *err)
{
    uint64_t algo, split, reductions, swizzle, custom;
    IQ_TRY(number(obj, "algo", INT32_MAX, &algo, err));
    IQ_TRY(number(obj, "split_k", 1, &split, err));
    IQ_TRY(number(obj, "reductions", 7, &reductions, err));
    IQ_TRY(number(obj, "swizzle", INT32_MAX, &swizzle, err));
    IQ_TRY(number(obj, "custom_max", INT32_MAX, &custom, err));
    a->algo = (int)algo, a->split_k = (uint32_t)split, a->reductions = (uint32_t)reductions;
    a->swizzle = (uint32_t)swizzle, a->custom_max = (uint32_t)custom;
    IQ_TRY(list(obj, "tiles", &a->tiles, &a->tiles_n, err));
    return list(obj, "stages", &a->stages, &a->stages_n, err);
}

static int type_of(const cJSON *obj, unsigned *out, struct iq_err *err)
{
    const char *name;
    IQ_TRY(iq_json_str(obj, "type", "record", &name, err));
    for (*out = 0; *out < IQ_CUBLAS_TYPES; ++*out)
        if (!strcmp(name, iq_cublas_types[*out].name)) return IQ_OK;
    return iq_fail(err, IQ_FORMAT, "record: no type %s", name);
}

static int types(const cJSON *root, struct fake_record *r, struct iq_err *err)
{
    const cJSON *a, *obj, *algorithms, *item;
    IQ_TRY(array_of(root, "types", &a, err));
    cJSON_ArrayForEach(obj, a)
    {
        unsigned type;
        IQ_TRY(type_of(obj, &type, err));
        IQ_TRY(array_of(obj, "algorithms", &algorithms, err));
        r->algorithm[type] = calloc((size_t)cJSON_GetArraySize(algorithms) + 1, sizeof *r->algorithm[type]);
        cJSON_ArrayForEach(item, algorithms)
            IQ_TRY(algorithm(item, &r->algorithm[type][r->algorithms[type]++], err));
    }
    return IQ_OK;
}

static int step(const cJSON *obj, struct fake_step *s, struct iq_err *err)
{
    const cJSON *choices, *item;
    uint64_t rows, workspace;
    IQ_TRY(number(obj, "rows", UINT32_MAX, &rows, err));
    IQ_TRY(array_of(obj, "choices", &choices, err));
    s->rows = (uint32_t)rows;
    cJSON_ArrayForEach(item, choices)
    {
        const char *id;
        double waves = 0;
        if (s->found == 16) return iq_fail(err, IQ_LIMIT, "record: more than 16 choices");
        IQ_TRY(iq_json_str(item, "id", "record", &id, err));
        IQ_TRY(number(item, "workspace", UINT32_MAX, &workspace, err));
        IQ_TRY(iq_json_f64_opt(item, "waves", 0, 1e9, "record", &waves, err));
        IQ_TRY(iq_cublas_algo_parse(id, &s->choice[s->found], err));
        s->workspace[s->found] = workspace;
        s->waves[s->found++] = (float)waves;
    }
    return IQ_OK;
}

static int surveys(const cJSON *root, struct fake_record *r, struct iq_err *err)
{
    const cJSON *a, *obj, *steps, *item;
    IQ_TRY(array_of(root, "surveys", &a, err));
    r->survey = calloc((size_t)cJSON_GetArraySize(a) + 1, sizeof *r->survey);
    cJSON_ArrayForEach(obj, a)
    {
        struct fake_survey *s = &r->survey[r->surveys++];
        uint64_t n, k;
        IQ_TRY(type_of(obj, &s->type, err));
        IQ_TRY(number(obj, "n", UINT32_MAX, &n, err));
        IQ_TRY(number(obj, "k", UINT32_MAX, &k, err));
        IQ_TRY(array_of(obj, "steps", &steps, err));
        s->n = (uint32_t)n, s->k = (uint32_t)k;
        s->step = calloc((size_t)cJSON_GetArraySize(steps) + 1, sizeof *s->step);
        cJSON_ArrayForEach(item, steps) IQ_TRY(step(item, &s->step[s->steps++], err));
    }
    return IQ_OK;
}

static int fill(const cJSON *root, struct fake_record *r, struct iq_err *err)
{
    uint64_t form, cublas, lt;
    IQ_TRY(iq_json_u64(root, "form", 1, 1, "record", &form, err));
    IQ_TRY(number(root, "cublas", INT32_MAX, &cublas, err));
    IQ_TRY(number(root, "cublaslt", INT32_MAX, &lt, err));
    r->cublas = (int)cublas, r->cublaslt = lt;
    IQ_TRY(types(root, r, err));
    return surveys(root, r, err);
}

int fake_record_load(const char *path, struct fake_record *out, struct iq_err *err)
{
    cJSON *root;
    *out = (struct fake_record){0};
    IQ_TRY(iq_json_load(path, FILE_MAX, &root, err));
    int status = fill(root, out, err);
    iq_json_free(root);
    if (status) fake_record_free(out);
    return status;
}

void fake_record_free(struct fake_record *r)
{
    for (unsigned t = 0; t < IQ_CUBLAS_TYPES; t++) {
        for (size_t i = 0; i < r->algorithms[t]; i++)
            free(r->algorithm[t][i].tiles), free(r->algorithm[t][i].stages);
        free(r->algorithm[t]);
    }
    for (size_t i = 0; i < r->surveys; i++) free(r->survey[i].step);
    free(r->survey);
    *r = (struct fake_record){0};
}

const struct fake_algorithm *fake_record_algorithm(const struct fake_record *r, unsigned type, int algo)
{
    for (size_t i = 0; i < r->algorithms[type]; i++)
        if (r->algorithm[type][i].algo == algo) return &r->algorithm[type][i];
    return NULL;
}

const struct fake_step *fake_record_step(const struct fake_record *r, unsigned type, uint32_t rows,
                                         uint32_t n, uint32_t k)
{
    const struct fake_survey *s = NULL;
    const struct fake_step *at = NULL;
    for (size_t i = 0; i < r->surveys; i++) {
        const struct fake_survey *o = &r->survey[i];
        bool exact = o->n == n && o->k == k;
        if (o->type == type && (exact || (!s && !o->n && !o->k))) s = o;
    }
    for (size_t i = 0; s && i < s->steps && s->step[i].rows <= rows; i++) at = &s->step[i];
    return at;
}
