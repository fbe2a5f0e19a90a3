/* Choosing and multiplying. */
#include "tests/cublas/fake_gemm.h"
#include "tests/cublas/fake_parts.h"

struct product {
    int type;
    uint32_t rows, n, k;
};

/* What the descriptors say together; the status where they contradict each other. */
static int product_of(void *desc, void *al, void *bl, void *cl, void *dl, struct product *p)
{
    const struct object *e = fake_is(desc, DESC), *a = fake_is(al, LAYOUT), *b = fake_is(bl, LAYOUT),
                        *c = fake_is(cl, LAYOUT);
    if (!e || !a || !b || !c || cl != dl) return IQ_CUBLAS_INVALID_VALUE;
    if (e->transpose != IQ_CUBLAS_OP_T || a->type != b->type || c->type != IQ_CUBLAS_R_32F)
        return IQ_CUBLAS_NOT_SUPPORTED;
    if (a->rows != b->rows || c->rows != a->cols || c->cols != b->cols) return IQ_CUBLAS_INVALID_VALUE;
    if ((uint64_t)a->ld < a->rows || (uint64_t)b->ld < b->rows || (uint64_t)c->ld < c->rows)
        return IQ_CUBLAS_INVALID_VALUE;
    *p = (struct product){fake_type(e->compute, a->type), (uint32_t)b->cols, (uint32_t)a->cols,
                          (uint32_t)a->rows};
    return p->type < 0 ? IQ_CUBLAS_NOT_SUPPORTED : IQ_CUBLAS_OK;
}

int lib_heuristic(void *handle, void *desc, void *a, void *b, void *c, void *d, void *pref, int most,
                  struct iq_cublas_found *out, int *found)
{
    ENTER(heuristic);
    struct product p;
    *found = 0;
    if (!fake_is(handle, LT)) return IQ_CUBLAS_NOT_INITIALIZED;
    if (!fake_is(pref, PREF) || most < 1) return IQ_CUBLAS_INVALID_VALUE;
    int code = product_of(desc, a, b, c, d, &p);
    if (code) return code;
    const struct fake_step *step = fake_record_step(&fake_record, (unsigned)p.type, p.rows, p.n, p.k);
    if (!step || !step->found) return IQ_CUBLAS_NOT_SUPPORTED;
    for (unsigned i = 0; i < step->found && *found < most; i++)
        if (step->workspace[i] <= fake_is(pref, PREF)->workspace)
            out[(*found)++] = (struct iq_cublas_found){.algo = fake_blob((unsigned)p.type, &step->choice[i]),
                                                       .workspace = step->workspace[i],
                                                       .waves = step->waves[i]};
    return IQ_CUBLAS_OK;
}

static size_t workspace_of(const struct iq_cublas_algo *a, uint64_t rows, uint64_t n)
{
    return a->split_k > 1 && a->reduction != IQ_CUBLAS_REDUCTION_INPLACE ? a->split_k * rows * n * 4 : 0;
}

int lib_algo_check(void *handle, void *desc, void *a, void *b, void *c, void *d,
                   const struct iq_cublas_blob *algo, struct iq_cublas_found *out)
{
    ENTER(algo_check);
    struct product p;
    struct blob_form f;
    if (!fake_is(handle, LT)) return IQ_CUBLAS_NOT_INITIALIZED;
    int code = product_of(desc, a, b, c, d, &p);
    if (code) return code;
    if (!fake_blob_read(algo, &f) || (int)f.type != p.type) return IQ_CUBLAS_INVALID_VALUE;
    code = fake_settings_check(f.type, &f.algo);
    out->workspace = workspace_of(&f.algo, p.rows, p.n);
    out->state = code;
    return code;
}

/* Columns that a stage holds, by the library's ids: 16 x 1 .. 6, 32 x .., 64 x .., 128 x .., and the later ones. */
static uint32_t stage_columns(uint32_t id)
{
    if (id >= 1 && id <= 24) return 16u << (id - 1) / 6;
    return id == 36 ? 128 : id == 35 ? 64 : 32;
}

static int launch(const struct product *p, const struct iq_cublas_algo *a, const void *w, uint32_t ldw,
                  const void *x, uint32_t ldx, float *y, uint32_t ldy, void *stream)
{
    const struct fake_gemm g = {.w = w,
                                .x = x,
                                .y = y,
                                .rows = p->rows,
                                .n = p->n,
                                .k = p->k,
                                .ldw = ldw,
                                .ldx = ldx,
                                .ldy = ldy,
                                .element = (uint32_t)iq_cublas_types[p->type].element,
                                .tf32 = p->type == IQ_CUBLAS_TF32,
                                .slices = a->split_k,
                                .stage = stage_columns(a->stages),
                                .reduction = a->reduction,
                                .lanes = 1 + (a->algo + a->custom) % 4};
    return fake_gemm_launch(&g, stream) ? IQ_CUBLAS_EXECUTION_FAILED : IQ_CUBLAS_OK;
}

static bool unit_scales(const void *alpha, const void *beta)
{
    return *(const float *)alpha == 1.0f && *(const float *)beta == 0.0f;
}

int lib_matmul(void *handle, void *desc, const void *alpha, const void *a, void *al, const void *b, void *bl,
               const void *beta, const void *c, void *cl, void *d, void *dl,
               const struct iq_cublas_blob *algo, void *workspace, size_t bytes, void *stream)
{
    ENTER(matmul);
    struct product p;
    struct blob_form f;
    if (!fake_is(handle, LT)) return IQ_CUBLAS_NOT_INITIALIZED;
    int code = product_of(desc, al, bl, cl, dl, &p);
    if (code) return code;
    if (!fake_blob_read(algo, &f) || (int)f.type != p.type || !unit_scales(alpha, beta) || c != d)
        return IQ_CUBLAS_INVALID_VALUE;
    if ((uintptr_t)a % 16 || (uintptr_t)b % 16 || (uintptr_t)d % 16) return IQ_CUBLAS_NOT_SUPPORTED;
    code = fake_settings_check(f.type, &f.algo);
    if (code) return code;
    if (workspace_of(&f.algo, p.rows, p.n) > (workspace ? bytes : 0)) return IQ_CUBLAS_INVALID_VALUE;
    return launch(&p, &f.algo, a, (uint32_t)fake_is(al, LAYOUT)->ld, b, (uint32_t)fake_is(bl, LAYOUT)->ld, d,
                  (uint32_t)fake_is(cl, LAYOUT)->ld, stream);
}

int lib_gemm(void *handle, int opa, int opb, int m, int n, int k, const void *alpha, const void *a,
             int a_type, int lda, const void *b, int b_type, int ldb, const void *beta, void *c, int c_type,
             int ldc, int compute, int algo)
{
    ENTER(gemm);
    const struct object *h = fake_is(handle, HANDLE);
    const struct product p = {fake_type(compute, a_type), (uint32_t)n, (uint32_t)m, (uint32_t)k};
    if (!h) return IQ_CUBLAS_NOT_INITIALIZED;
    if (p.type < 0 || a_type != b_type || c_type != IQ_CUBLAS_R_32F) return IQ_CUBLAS_NOT_SUPPORTED;
    if (opa != IQ_CUBLAS_OP_T || opb != IQ_CUBLAS_OP_N || algo != IQ_CUBLAS_GEMM_DEFAULT || lda < k ||
        ldb < k || ldc < m || !unit_scales(alpha, beta))
        return IQ_CUBLAS_INVALID_VALUE;
    const struct fake_step *step = fake_record_step(&fake_record, (unsigned)p.type, p.rows, p.n, p.k);
    if (!step || !step->found) return IQ_CUBLAS_NOT_SUPPORTED;
    return launch(&p, &step->choice[0], a, (uint32_t)lda, b, (uint32_t)ldb, c, (uint32_t)ldc, h->stream);
}
