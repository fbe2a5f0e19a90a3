#include "kernels/cublas/survey.h"

#include "kernels/base/grow.h"

#include <stdlib.h>
#include <string.h>

static bool same_choices(const struct iq_cublas_step *a, const struct iq_cublas_step *b)
{
    if (a->found != b->found) return false;
    for (unsigned i = 0; i < a->found; i++)
        if (memcmp(&a->choice[i].id, &b->choice[i].id, sizeof a->choice[i].id)) return false;
    return true;
}

static int survey(struct iq_cublas *b, struct iq_cublas_survey *s, struct iq_err *err)
{
    struct iq_cublas_step now = {0};
    struct iq_cublas_shape at = s->shape;
    for (uint32_t rows = 1; rows && rows <= s->shape.rows; rows++) {
        at.rows = now.rows = rows;
        IQ_TRY(iq_cublas_choose(b, &at, s->most, now.choice, &now.found, err));
        if (s->steps && same_choices(&s->step[s->steps - 1], &now)) continue;
        IQ_TRY(iq_grow(&s->step, &s->cap, s->steps + 1, sizeof *s->step, err));
        s->step[s->steps++] = now;
    }
    return IQ_OK;
}

int iq_cublas_survey(struct iq_cublas *b, const struct iq_cublas_shape *shape, unsigned most,
                     struct iq_cublas_survey *out, struct iq_err *err)
{
    *out = (struct iq_cublas_survey){.shape = *shape, .most = most};
    out->shape.ld = iq_cublas_ld(shape->type, shape->k);
    int status = survey(b, out, err);
    if (status) iq_cublas_survey_free(out);
    return status;
}

void iq_cublas_survey_free(struct iq_cublas_survey *s)
{
    free(s->step);
    *s = (struct iq_cublas_survey){0};
}

const struct iq_cublas_step *iq_cublas_survey_at(const struct iq_cublas_survey *s, uint32_t rows)
{
    const struct iq_cublas_step *at = NULL;
    if (rows > s->shape.rows) return NULL;
    for (size_t i = 0; i < s->steps && s->step[i].rows <= rows; i++) at = &s->step[i];
    return at;
}

/* ---- JSON ---- */

static void id_json(const struct iq_cublas_step *step, struct iq_jw *jw)
{
    char id[IQ_CUBLAS_ID];
    iq_jw_key(jw, "id");
    if (!step || !step->found) {
        iq_jw_null(jw);
        return;
    }
    iq_cublas_algo_print(&step->choice[0].id, id);
    iq_jw_str(jw, id);
}

static void step_json(const struct iq_cublas_step *step, struct iq_jw *jw)
{
    char id[IQ_CUBLAS_ID];
    iq_jw_begin(jw, '{');
    iq_jw_key(jw, "rows"), iq_jw_u64(jw, step->rows);
    iq_jw_key(jw, "choices"), iq_jw_begin(jw, '[');
    for (unsigned i = 0; i < step->found; i++) {
        const struct iq_cublas_choice *c = &step->choice[i];
        iq_cublas_algo_print(&c->id, id);
        iq_jw_begin(jw, '{');
        iq_jw_key(jw, "id"), iq_jw_str(jw, id);
        iq_jw_key(jw, "pin"), iq_cublas_algo_json(&c->id, jw);
        iq_jw_key(jw, "workspace"), iq_jw_u64(jw, c->workspace);
        iq_jw_key(jw, "waves"), iq_jw_f32(jw, c->waves);
        iq_jw_end(jw, '}');
    }
    iq_jw_end(jw, ']');
    iq_jw_end(jw, '}');
}

void iq_cublas_survey_json(const struct iq_cublas_survey *s, struct iq_jw *jw)
{
    iq_jw_begin(jw, '{');
    iq_jw_key(jw, "type"), iq_jw_str(jw, iq_cublas_types[s->shape.type].name);
    iq_jw_key(jw, "n"), iq_jw_u64(jw, s->shape.n);
    iq_jw_key(jw, "k"), iq_jw_u64(jw, s->shape.k);
    iq_jw_key(jw, "rows"), iq_jw_u64(jw, s->shape.rows);
    iq_jw_key(jw, "buckets"), iq_jw_begin(jw, '[');
    for (uint64_t rows = 1; rows <= s->shape.rows; rows *= 2) {
        iq_jw_begin(jw, '{');
        iq_jw_key(jw, "rows"), iq_jw_u64(jw, rows);
        id_json(iq_cublas_survey_at(s, (uint32_t)rows), jw);
        iq_jw_end(jw, '}');
    }
    iq_jw_end(jw, ']');
    iq_jw_key(jw, "steps"), iq_jw_begin(jw, '[');
    for (size_t i = 0; i < s->steps; i++) step_json(&s->step[i], jw);
    iq_jw_end(jw, ']');
    iq_jw_end(jw, '}');
}

/* ---- capabilities ---- */

enum { ALGOS_MAX = 512, LIST_MAX = 2048 };

/* A capability that is one number. */
static int cap_json(const struct iq_cublas_api *api, const struct iq_cublas_blob *algo, const char *name,
                    int attr, struct iq_jw *jw, struct iq_err *err)
{
    uint32_t v = 0;
    size_t written;
    IQ_TRY(iq_cublas_check(api, api->algo_cap(algo, attr, &v, sizeof v, &written),
                           "asking what an algorithm can", err));
    iq_jw_key(jw, name), iq_jw_u64(jw, v);
    return IQ_OK;
}

static int cap_list_json(const struct iq_cublas_api *api, const struct iq_cublas_blob *algo, const char *name,
                         int attr, struct iq_jw *jw, struct iq_err *err)
{
    uint32_t list[LIST_MAX];
    size_t bytes = 0;
    IQ_TRY(
        iq_cublas_check(api, api->algo_cap(algo, attr, NULL, 0, &bytes), "asking for tiles or stages", err));
    if (bytes > sizeof list)
        return iq_fail(err, IQ_LIMIT, "cuBLAS: an algorithm has %zu %s, expected at most %d", bytes / 4, name,
                       LIST_MAX);
    if (bytes)
        IQ_TRY(iq_cublas_check(api, api->algo_cap(algo, attr, list, bytes, &bytes),
                               "asking for tiles or stages", err));
    iq_jw_key(jw, name), iq_jw_begin(jw, '[');
    for (size_t i = 0; i < bytes / sizeof *list; i++) iq_jw_u64(jw, list[i]);
    iq_jw_end(jw, ']');
    return IQ_OK;
}

static int algorithm_json(struct iq_cublas *b, unsigned type, int id, struct iq_jw *jw, struct iq_err *err)
{
    const struct iq_cublas_type *t = &iq_cublas_types[type];
    const struct iq_cublas_api *api = b->api;
    struct iq_cublas_blob algo;
    IQ_TRY(iq_cublas_check(api,
                           api->algo_init(b->lt, t->compute, IQ_CUBLAS_R_32F, t->data, t->data,
                                          IQ_CUBLAS_R_32F, IQ_CUBLAS_R_32F, id, &algo),
                           "taking an algorithm", err));
    iq_jw_begin(jw, '{');
    iq_jw_key(jw, "algo"), iq_jw_i64(jw, id);
    IQ_TRY(cap_list_json(api, &algo, "tiles", IQ_CUBLAS_CAP_TILES, jw, err));
    IQ_TRY(cap_list_json(api, &algo, "stages", IQ_CUBLAS_CAP_STAGES, jw, err));
    IQ_TRY(cap_json(api, &algo, "split_k", IQ_CUBLAS_CAP_SPLIT_K, jw, err));
    IQ_TRY(cap_json(api, &algo, "reductions", IQ_CUBLAS_CAP_REDUCTIONS, jw, err));
    IQ_TRY(cap_json(api, &algo, "swizzle", IQ_CUBLAS_CAP_SWIZZLE, jw, err));
    IQ_TRY(cap_json(api, &algo, "custom_max", IQ_CUBLAS_CAP_CUSTOM_MAX, jw, err));
    iq_jw_end(jw, '}');
    return IQ_OK;
}

int iq_cublas_capabilities_json(struct iq_cublas *b, unsigned type, struct iq_jw *jw, struct iq_err *err)
{
    const struct iq_cublas_type *t = &iq_cublas_types[type];
    int ids[ALGOS_MAX], found = 0;
    int code = b->api->algo_ids(b->lt, t->compute, IQ_CUBLAS_R_32F, t->data, t->data, IQ_CUBLAS_R_32F,
                                IQ_CUBLAS_R_32F, ALGOS_MAX, ids, &found);
    IQ_TRY(iq_cublas_check(b->api, code, "listing algorithms (cublasLtMatmulAlgoGetIds)", err));
    iq_jw_begin(jw, '{');
    iq_jw_key(jw, "type"), iq_jw_str(jw, t->name);
    iq_jw_key(jw, "algorithms"), iq_jw_begin(jw, '[');
    for (int i = 0; i < found && i < ALGOS_MAX; i++) IQ_TRY(algorithm_json(b, type, ids[i], jw, err));
    iq_jw_end(jw, ']');
    iq_jw_end(jw, '}');
    return IQ_OK;
}

int iq_cublas_record_json(struct iq_cublas *b, const char *source, const struct iq_cublas_shape *shapes,
                          size_t n, unsigned most, struct iq_jw *jw, struct iq_err *err)
{
    iq_jw_begin(jw, '{');
    iq_jw_key(jw, "form"), iq_jw_u64(jw, 1);
    iq_jw_key(jw, "source"), iq_jw_str(jw, source);
    iq_jw_key(jw, "cublas"), iq_jw_u64(jw, (uint64_t)b->version);
    iq_jw_key(jw, "cublaslt"), iq_jw_u64(jw, b->lt_version);
    iq_jw_key(jw, "device"), iq_jw_str(jw, b->cuda->what.name);
    iq_jw_key(jw, "workspace"), iq_jw_u64(jw, IQ_CUBLAS_WORKSPACE);
    iq_jw_key(jw, "types"), iq_jw_begin(jw, '[');
    for (unsigned type = 0; type < IQ_CUBLAS_TYPES; type++)
        IQ_TRY(iq_cublas_capabilities_json(b, type, jw, err));
    iq_jw_end(jw, ']');
    iq_jw_key(jw, "surveys"), iq_jw_begin(jw, '[');
    for (size_t i = 0; i < n; i++) {
        struct iq_cublas_survey s;
        IQ_TRY(iq_cublas_survey(b, &shapes[i], most, &s, err));
        iq_cublas_survey_json(&s, jw);
        iq_cublas_survey_free(&s);
    }
    iq_jw_end(jw, ']');
    iq_jw_end(jw, '}');
    return IQ_OK;
}
