/* An algorithm of cublasLtMatmul by its settings, and its id: text that stands in records and can be read back.
 *
 *     algo=21,tile=20,stages=15,split_k=4,reduction=2,swizzle=0,custom=0,inner=0,cluster=0
 *
 * The numbers are the library's (cublasLtMatmulTile_t, cublasLtMatmulStages_t, cublasLtReductionScheme_t ...); what an id
 * computes is a matter of the library's version and the GPU, which a record names beside it. The names are also those
 * of the parameters of variant `cublaslt` that pin it. */
#ifndef IQ_CUBLAS_ALGO_H
#define IQ_CUBLAS_ALGO_H

#include "kernels/base/json.h"
#include "kernels/cublas/api.h"
#include "kernels/cublas/element.h"

/* X(field, attribute of the configuration, its type). algo is first: it is set by initializing. */
#define IQ_CUBLAS_ALGO_MAP(X)                                                                                \
    X(algo, CUBLASLT_ALGO_CONFIG_ID, 0, int32_t)                                                             \
    X(tile, CUBLASLT_ALGO_CONFIG_TILE_ID, 1, uint32_t)                                                       \
    X(stages, CUBLASLT_ALGO_CONFIG_STAGES_ID, 6, uint32_t)                                                   \
    X(split_k, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 2, int32_t)                                                  \
    X(reduction, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 3, uint32_t)                                         \
    X(swizzle, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 4, uint32_t)                                              \
    X(custom, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 5, uint32_t)                                               \
    X(inner, CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 7, uint16_t)                                               \
    X(cluster, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 8, uint16_t)

struct iq_cublas_algo {
#define X(field, theirs, attribute, type) uint32_t field;
    IQ_CUBLAS_ALGO_MAP(X)
#undef X
};

enum { IQ_CUBLAS_ID = 200 }; /* bytes of the longest id, with its NUL */

void iq_cublas_algo_print(const struct iq_cublas_algo *, char out[IQ_CUBLAS_ID]);
/* IQ_FORMAT: which field is missing, unknown, doubled or no number in its range. Any order; all must be there. */
int iq_cublas_algo_parse(const char *text, struct iq_cublas_algo *out, struct iq_err *err);
/* As an object, to be put into a plan as the parameters that pin it. */
void iq_cublas_algo_json(const struct iq_cublas_algo *, struct iq_jw *);

/* What the library calls a type of numbers: parameter `type` of the variants. */
struct iq_cublas_type {
    const char *name; /* "bf16" */
    int data, compute;
    enum iq_cublas_element element; /* of x and W as the library reads them */
    unsigned bytes;                 /* of one */
    unsigned significand;           /* bits of the numbers that are multiplied */
};
enum { IQ_CUBLAS_FP32, IQ_CUBLAS_TF32, IQ_CUBLAS_BF16, IQ_CUBLAS_FP16, IQ_CUBLAS_TYPES };
extern const struct iq_cublas_type iq_cublas_types[IQ_CUBLAS_TYPES];

/* From the library's form, and to it. Statuses as iq_cublas_check's, and iq_cublas_check_setting's. */
int iq_cublas_algo_read(const struct iq_cublas_api *, const struct iq_cublas_blob *,
                        struct iq_cublas_algo *out, struct iq_err *err);
int iq_cublas_algo_make(const struct iq_cublas_api *, void *lt, unsigned type, const struct iq_cublas_algo *,
                        struct iq_cublas_blob *out, struct iq_err *err);

#endif
