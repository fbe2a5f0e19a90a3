/* cuBLAS and cuBLASLt as the variants use them: one table of functions, for C.
 *
 * The libraries are opened when a variant first needs them, never linked; nothing of NVIDIA's is needed to build. Whoever
 * calls cuBLAS does it through the table, so that a drill or a test can answer in the libraries' place
 * (iq_cublas_replace). Versions 13 and 12 are taken: what stands here is equal in both. abi_check.c checks it against the
 * headers at every build that has them (13.1.0; 12.9.3 passed, too, and the libraries 12.9.3, 13.1.0 and 13.4.1 were
 * opened through this table). Earlier ones are refused.
 *
 * Statuses are those of cublasStatus_t; 0 is success. Handles, descriptors and streams are opaque. One thread at a time.
 *
 * Source: cuBLAS library user's guide, 13.1.
 */
#ifndef IQ_CUBLAS_API_H
#define IQ_CUBLAS_API_H

#include "kernels/base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum iq_cublas_code {
    IQ_CUBLAS_OK = 0,
    IQ_CUBLAS_NOT_INITIALIZED = 1,
    IQ_CUBLAS_ALLOC_FAILED = 3,
    IQ_CUBLAS_INVALID_VALUE = 7,
    IQ_CUBLAS_ARCH_MISMATCH = 8,
    IQ_CUBLAS_MAPPING_ERROR = 11,
    IQ_CUBLAS_EXECUTION_FAILED = 13,
    IQ_CUBLAS_INTERNAL_ERROR = 14,
    IQ_CUBLAS_NOT_SUPPORTED = 15,
    IQ_CUBLAS_LICENSE_ERROR = 16
};

/* X(ours, cuBLAS's, value): the numbers that are passed. */
#define IQ_CUBLAS_NUMBER_MAP(X)                                                                              \
    X(IQ_CUBLAS_R_32F, CUDA_R_32F, 0)                                                                        \
    X(IQ_CUBLAS_R_16F, CUDA_R_16F, 2)                                                                        \
    X(IQ_CUBLAS_R_16BF, CUDA_R_16BF, 14)                                                                     \
    X(IQ_CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F, 68)                                                         \
    X(IQ_CUBLAS_COMPUTE_TF32, CUBLAS_COMPUTE_32F_FAST_TF32, 77)                                              \
    X(IQ_CUBLAS_OP_N, CUBLAS_OP_N, 0)                                                                        \
    X(IQ_CUBLAS_OP_T, CUBLAS_OP_T, 1)                                                                        \
    X(IQ_CUBLAS_MATH_DEFAULT, CUBLAS_DEFAULT_MATH, 0)                                                        \
    X(IQ_CUBLAS_GEMM_DEFAULT, CUBLAS_GEMM_DEFAULT, -1)                                                       \
    X(IQ_CUBLAS_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSA, 3)                                                 \
    X(IQ_CUBLAS_PREF_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 1)                                 \
    X(IQ_CUBLAS_CAP_SPLIT_K, CUBLASLT_ALGO_CAP_SPLITK_SUPPORT, 0)                                            \
    X(IQ_CUBLAS_CAP_REDUCTIONS, CUBLASLT_ALGO_CAP_REDUCTION_SCHEME_MASK, 1)                                  \
    X(IQ_CUBLAS_CAP_SWIZZLE, CUBLASLT_ALGO_CAP_CTA_SWIZZLING_SUPPORT, 2)                                     \
    X(IQ_CUBLAS_CAP_TILES, CUBLASLT_ALGO_CAP_TILE_IDS, 6)                                                    \
    X(IQ_CUBLAS_CAP_CUSTOM_MAX, CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX, 7)                                      \
    X(IQ_CUBLAS_CAP_STAGES, CUBLASLT_ALGO_CAP_STAGES_IDS, 13)                                                \
    X(IQ_CUBLAS_REDUCTION_NONE, CUBLASLT_REDUCTION_SCHEME_NONE, 0)                                           \
    X(IQ_CUBLAS_REDUCTION_INPLACE, CUBLASLT_REDUCTION_SCHEME_INPLACE, 1)                                     \
    X(IQ_CUBLAS_REDUCTION_COMPUTE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 2)                                \
    X(IQ_CUBLAS_REDUCTION_OUTPUT, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, 4)
enum iq_cublas_number {
#define X(ours, theirs, value) ours = (value),
    IQ_CUBLAS_NUMBER_MAP(X)
#undef X
};

/* cublasLtMatmulAlgo_t: may be copied, means nothing to another version of the library. */
struct iq_cublas_blob {
    uint64_t data[8];
};

/* cublasLtMatmulHeuristicResult_t */
struct iq_cublas_found {
    struct iq_cublas_blob algo;
    size_t workspace;
    int state; /* the rest holds only where this is 0 */
    float waves;
    int reserved[4];
};

/* X(library, result, field, symbol, parameters, arguments). All matrices are column-major, as in the guide. */
#define IQ_CUBLAS_API_MAP(X)                                                                                 \
    X(cublas, int, create, cublasCreate_v2, (void **handle), (handle))                                       \
    X(cublas, int, destroy, cublasDestroy_v2, (void *handle), (handle))                                      \
    X(cublas, int, version, cublasGetVersion_v2, (void *handle, int *out), (handle, out))                    \
    X(cublas, int, set_stream, cublasSetStream_v2, (void *handle, void *stream), (handle, stream))           \
    X(cublas, int, set_workspace, cublasSetWorkspace_v2, (void *handle, void *at, size_t bytes),             \
      (handle, at, bytes))                                                                                   \
    X(cublas, int, set_math_mode, cublasSetMathMode, (void *handle, int mode), (handle, mode))               \
    X(cublas, int, gemm, cublasGemmEx,                                                                       \
      (void *handle, int opa, int opb, int m, int n, int k, const void *alpha, const void *a, int a_type,    \
       int lda, const void *b, int b_type, int ldb, const void *beta, void *c, int c_type, int ldc,          \
       int compute, int algo),                                                                               \
      (handle, opa, opb, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc, compute,      \
       algo))                                                                                                \
    X(cublas, const char *, status_name, cublasGetStatusName, (int status), (status))                        \
    X(cublas, const char *, status_text, cublasGetStatusString, (int status), (status))                      \
    X(cublasLt, int, lt_create, cublasLtCreate, (void **handle), (handle))                                   \
    X(cublasLt, int, lt_destroy, cublasLtDestroy, (void *handle), (handle))                                  \
    X(cublasLt, size_t, lt_version, cublasLtGetVersion, (void), ())                                          \
    X(cublasLt, int, desc_create, cublasLtMatmulDescCreate, (void **desc, int compute, int scale_type),      \
      ((cublasLtMatmulDesc_t *)desc, compute, scale_type))                                                   \
    X(cublasLt, int, desc_destroy, cublasLtMatmulDescDestroy, (void *desc), (desc))                          \
    X(cublasLt, int, desc_set, cublasLtMatmulDescSetAttribute,                                               \
      (void *desc, int attr, const void *value, size_t bytes), (desc, attr, value, bytes))                   \
    X(cublasLt, int, layout_create, cublasLtMatrixLayoutCreate,                                              \
      (void **layout, int type, uint64_t rows, uint64_t cols, int64_t ld),                                   \
      ((cublasLtMatrixLayout_t *)layout, type, rows, cols, ld))                                              \
    X(cublasLt, int, layout_destroy, cublasLtMatrixLayoutDestroy, (void *layout), (layout))                  \
    X(cublasLt, int, pref_create, cublasLtMatmulPreferenceCreate, (void **pref),                             \
      ((cublasLtMatmulPreference_t *)pref))                                                                  \
    X(cublasLt, int, pref_destroy, cublasLtMatmulPreferenceDestroy, (void *pref), (pref))                    \
    X(cublasLt, int, pref_set, cublasLtMatmulPreferenceSetAttribute,                                         \
      (void *pref, int attr, const void *value, size_t bytes), (pref, attr, value, bytes))                   \
    X(cublasLt, int, heuristic, cublasLtMatmulAlgoGetHeuristic,                                              \
      (void *handle, void *desc, void *a, void *b, void *c, void *d, void *pref, int most,                   \
       struct iq_cublas_found *out, int *found),                                                             \
      (handle, desc, a, b, c, d, pref, most, (cublasLtMatmulHeuristicResult_t *)out, found))                 \
    X(cublasLt, int, algo_ids, cublasLtMatmulAlgoGetIds,                                                     \
      (void *handle, int compute, int scale, int a, int b, int c, int d, int most, int *ids, int *found),    \
      (handle, compute, scale, a, b, c, d, most, ids, found))                                                \
    X(cublasLt, int, algo_init, cublasLtMatmulAlgoInit,                                                      \
      (void *handle, int compute, int scale, int a, int b, int c, int d, int id,                             \
       struct iq_cublas_blob *algo),                                                                         \
      (handle, compute, scale, a, b, c, d, id, (cublasLtMatmulAlgo_t *)algo))                                \
    X(cublasLt, int, algo_check, cublasLtMatmulAlgoCheck,                                                    \
      (void *handle, void *desc, void *a, void *b, void *c, void *d, const struct iq_cublas_blob *algo,      \
       struct iq_cublas_found *out),                                                                         \
      (handle, desc, a, b, c, d, (const cublasLtMatmulAlgo_t *)algo,                                         \
       (cublasLtMatmulHeuristicResult_t *)out))                                                              \
    X(cublasLt, int, algo_cap, cublasLtMatmulAlgoCapGetAttribute,                                            \
      (const struct iq_cublas_blob *algo, int attr, void *value, size_t bytes, size_t *written),             \
      ((const cublasLtMatmulAlgo_t *)algo, attr, value, bytes, written))                                     \
    X(cublasLt, int, algo_get, cublasLtMatmulAlgoConfigGetAttribute,                                         \
      (const struct iq_cublas_blob *algo, int attr, void *value, size_t bytes, size_t *written),             \
      ((const cublasLtMatmulAlgo_t *)algo, attr, value, bytes, written))                                     \
    X(cublasLt, int, algo_set, cublasLtMatmulAlgoConfigSetAttribute,                                         \
      (struct iq_cublas_blob * algo, int attr, const void *value, size_t bytes),                             \
      ((cublasLtMatmulAlgo_t *)algo, attr, value, bytes))                                                    \
    X(cublasLt, int, matmul, cublasLtMatmul,                                                                 \
      (void *handle, void *desc, const void *alpha, const void *a, void *al, const void *b, void *bl,        \
       const void *beta, const void *c, void *cl, void *d, void *dl, const struct iq_cublas_blob *algo,      \
       void *workspace, size_t bytes, void *stream),                                                         \
      (handle, desc, alpha, a, al, b, bl, beta, c, cl, d, dl, (const cublasLtMatmulAlgo_t *)algo, workspace, \
       bytes, stream))

struct iq_cublas_api {
    const char *name; /* "libcublas.so.13"; the file that was opened */
    bool shim;        /* its memory and streams are the shim's: a table made for tests */
#define X(library, result, field, symbol, params, args) result(*field) params;
    IQ_CUBLAS_API_MAP(X)
#undef X
};

/* The table in use: the one that was put in place, or that of the libraries, opened at the first call. IQ_UNSUPPORTED, in
 * one sentence: not found (which places were searched), not loadable, or older than 12.0. */
int iq_cublas_api(const struct iq_cublas_api **out, struct iq_err *err);
/* For drills and tests: the table from here on (borrowed); NULL: the libraries again. */
void iq_cublas_replace(const struct iq_cublas_api *);

/* IQ_OK for 0. Otherwise one sentence: `what` (as in "creating a handle"), the status's name, number and text, what to do.
 * IQ_UNSUPPORTED, IQ_MEMORY, else IQ_INTERNAL. */
int iq_cublas_check(const struct iq_cublas_api *api, int status, const char *what, struct iq_err *err);
/* The same of a call that says whether an algorithm of the plan's can be: an invalid value is then the plan's, IQ_UNSUPPORTED. */
int iq_cublas_check_setting(const struct iq_cublas_api *api, int status, const char *what,
                            struct iq_err *err);

/* 130100 is 13.1.0. IQ_UNSUPPORTED where `version` is below what the table's functions need. */
int iq_cublas_version_check(const char *library, uint64_t version, struct iq_err *err);

#endif
