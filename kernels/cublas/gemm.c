/* Products and the choice of their algorithms. */
#include "kernels/cublas/handle.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static const float one = 1.0f, zero = 0.0f;

uint32_t iq_cublas_ld(unsigned type, uint32_t k)
{
    uint32_t whole = 16 / iq_cublas_types[type].bytes;
    return k > UINT32_MAX - whole ? k : (k + whole - 1) / whole * whole;
}

static int shape_check(const struct iq_cublas_shape *s, struct iq_err *err)
{
    if (s->type < IQ_CUBLAS_TYPES && s->rows && s->n && s->k && s->rows <= INT_MAX && s->n <= INT_MAX &&
        s->ld <= INT_MAX && s->k <= s->ld)
        return IQ_OK;
    return iq_fail(err, IQ_LIMIT,
                   "cuBLAS: a product of %" PRIu32 " rows, n %" PRIu32 ", k %" PRIu32
                   "; expected each from 1 to 2^31 - 1",
                   s->rows, s->n, s->k);
}

/* ---- what cublasLt is told of a product ---- */

struct described {
    void *desc, *w, *x, *y; /* descriptor; layouts */
};

static void described_close(const struct iq_cublas_api *api, struct described *d)
{
    if (d->desc) api->desc_destroy(d->desc);
    if (d->w) api->layout_destroy(d->w);
    if (d->x) api->layout_destroy(d->x);
    if (d->y) api->layout_destroy(d->y);
    *d = (struct described){0};
}

static int layout(const struct iq_cublas_api *api, void **out, int type, uint32_t rows, uint32_t cols,
                  uint32_t ld, struct iq_err *err)
{
    return iq_cublas_check(api, api->layout_create(out, type, rows, cols, ld), "creating a layout", err);
}

static int describe(const struct iq_cublas_api *api, const struct iq_cublas_shape *s, struct described *d,
                    struct iq_err *err)
{
    const struct iq_cublas_type *t = &iq_cublas_types[s->type];
    const int32_t transpose = IQ_CUBLAS_OP_T;
    IQ_TRY(iq_cublas_check(api, api->desc_create(&d->desc, t->compute, IQ_CUBLAS_R_32F),
                           "creating a descriptor", err));
    IQ_TRY(iq_cublas_check(api, api->desc_set(d->desc, IQ_CUBLAS_DESC_TRANSA, &transpose, sizeof transpose),
                           "setting the transposition", err));
    IQ_TRY(layout(api, &d->w, t->data, s->k, s->n, s->ld, err));
    IQ_TRY(layout(api, &d->x, t->data, s->k, s->rows, s->ld, err));
    return layout(api, &d->y, IQ_CUBLAS_R_32F, s->n, s->rows, s->n, err);
}

static int describe_checked(const struct iq_cublas_api *api, const struct iq_cublas_shape *s,
                            struct described *d, struct iq_err *err)
{
    *d = (struct described){0};
    IQ_TRY(shape_check(s, err));
    int status = describe(api, s, d, err);
    if (status) described_close(api, d);
    return status;
}

/* ---- choosing ---- */

static int ask(struct iq_cublas *b, struct described *d, void *pref, unsigned most,
               struct iq_cublas_found *found, unsigned *n, struct iq_err *err)
{
    const struct iq_cublas_api *api = b->api;
    const uint64_t bytes = IQ_CUBLAS_WORKSPACE;
    int count = 0;
    *n = 0;
    IQ_TRY(iq_cublas_check(api, api->pref_set(pref, IQ_CUBLAS_PREF_WORKSPACE, &bytes, sizeof bytes),
                           "setting the workspace's limit", err));
    int code = api->heuristic(b->lt, d->desc, d->w, d->x, d->y, d->y, pref, (int)most, found, &count);
    if (code == IQ_CUBLAS_NOT_SUPPORTED) return IQ_OK; /* "no heuristic for this": an empty list */
    IQ_TRY(iq_cublas_check(api, code, "asking for algorithms (cublasLtMatmulAlgoGetHeuristic)", err));
    *n = count < 0 ? 0 : (unsigned)count < most ? (unsigned)count : most;
    return IQ_OK;
}

int iq_cublas_choose(struct iq_cublas *b, const struct iq_cublas_shape *s, unsigned most,
                     struct iq_cublas_choice out[], unsigned *found, struct iq_err *err)
{
    const struct iq_cublas_api *api = b->api;
    struct iq_cublas_found list[IQ_CUBLAS_CHOICES];
    struct described d;
    void *pref = NULL;
    unsigned n = 0;
    *found = 0;
    if (most > IQ_CUBLAS_CHOICES) most = IQ_CUBLAS_CHOICES;
    memset(list, 0, sizeof list);
    IQ_TRY(describe_checked(api, s, &d, err));
    int status = iq_cublas_check(api, api->pref_create(&pref), "creating a preference", err);
    if (!status) status = ask(b, &d, pref, most, list, &n, err);
    for (unsigned i = 0; i < n && !status; i++) {
        struct iq_cublas_choice *c = &out[*found];
        if (list[i].state || list[i].workspace > IQ_CUBLAS_WORKSPACE) continue;
        *c = (struct iq_cublas_choice){
            .blob = list[i].algo, .workspace = list[i].workspace, .waves = list[i].waves};
        status = iq_cublas_algo_read(api, &c->blob, &c->id, err);
        if (!status) ++*found;
    }
    if (pref) api->pref_destroy(pref);
    described_close(api, &d);
    return status;
}

int iq_cublas_fit(struct iq_cublas *b, const struct iq_cublas_shape *s, struct iq_cublas_choice *c,
                  struct iq_err *err)
{
    const struct iq_cublas_api *api = b->api;
    struct iq_cublas_found found = {0};
    struct described d;
    char text[IQ_CUBLAS_ID], what[IQ_CUBLAS_ID + 100];
    iq_cublas_algo_print(&c->id, text);
    snprintf(what, sizeof what, "checking %s for %" PRIu32 " rows, n %" PRIu32 ", k %" PRIu32, text, s->rows,
             s->n, s->k);
    IQ_TRY(describe_checked(api, s, &d, err));
    int code = api->algo_check(b->lt, d.desc, d.w, d.x, d.y, d.y, &c->blob, &found);
    described_close(api, &d);
    IQ_TRY(iq_cublas_check_setting(api, code, what, err));
    if (found.workspace > IQ_CUBLAS_WORKSPACE)
        return iq_fail(err, IQ_UNSUPPORTED,
                       "cuBLAS: %s needs %zu bytes of workspace, there are %zu; pin another", text,
                       found.workspace, IQ_CUBLAS_WORKSPACE);
    c->workspace = found.workspace;
    c->waves = found.waves;
    return IQ_OK;
}

int iq_cublas_pin(struct iq_cublas *b, const struct iq_cublas_shape *s, const struct iq_cublas_algo *id,
                  struct iq_cublas_choice *out, struct iq_err *err)
{
    *out = (struct iq_cublas_choice){.id = *id};
    IQ_TRY(iq_cublas_algo_make(b->api, b->lt, s->type, id, &out->blob, err));
    return iq_cublas_fit(b, s, out, err);
}

/* ---- products ---- */

int iq_cublas_product(struct iq_cublas *b, const struct iq_cublas_shape *s, const void *w, const void *x,
                      float *y, struct iq_err *err)
{
    const struct iq_cublas_type *t = &iq_cublas_types[s->type < IQ_CUBLAS_TYPES ? s->type : 0];
    IQ_TRY(shape_check(s, err));
    int code = b->api->gemm(b->handle, IQ_CUBLAS_OP_T, IQ_CUBLAS_OP_N, (int)s->n, (int)s->rows, (int)s->k,
                            &one, w, t->data, (int)s->ld, x, t->data, (int)s->ld, &zero, y, IQ_CUBLAS_R_32F,
                            (int)s->n, t->compute, IQ_CUBLAS_GEMM_DEFAULT);
    return iq_cublas_check(b->api, code, "multiplying (cublasGemmEx)", err);
}

int iq_cublas_lt_product(struct iq_cublas *b, const struct iq_cublas_shape *s,
                         const struct iq_cublas_choice *c, const void *w, const void *x, float *y,
                         struct iq_err *err)
{
    struct described d;
    IQ_TRY(describe_checked(b->api, s, &d, err));
    int code = b->api->matmul(b->lt, d.desc, &one, w, d.w, x, d.x, &zero, y, d.y, y, d.y, &c->blob,
                              b->workspace, IQ_CUBLAS_WORKSPACE, b->cuda->stream);
    described_close(b->api, &d);
    return iq_cublas_check(b->api, code, "multiplying (cublasLtMatmul)", err);
}
