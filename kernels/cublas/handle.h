/* cuBLAS on a device: handles, workspace, the choice of algorithms, products; and which algorithm ran.
 *
 * A product is Y = X W^T, all dense and row-major: x (rows, k) and w (n, k) of the type's numbers, y (rows, n) float32;
 * rows of x and w begin ld elements apart. cuBLAS sees it column-major: Y^T (n, rows) = W (n, k) X^T (k, rows).
 *
 * Handles belong to a `struct iq_cuda`; they are made by the first product on it, which must not be captured into a graph,
 * and live until iq_cublas_close. Later products neither allocate nor wait: the workspace is fixed.
 */
#ifndef IQ_CUBLAS_HANDLE_H
#define IQ_CUBLAS_HANDLE_H

#include "kernels/cublas/algo.h"
#include "kernels/cuda/device.h"

/* What NVIDIA's guide recommends for sm_90; more may be asked for by no algorithm that is chosen. */
#define IQ_CUBLAS_WORKSPACE ((size_t)32 << 20)
enum { IQ_CUBLAS_CHOICES = 16 };

struct iq_cublas_shape {
    uint32_t rows, n, k, ld; /* ld: of x and w */
    unsigned type;           /* IQ_CUBLAS_FP32 .. */
};

/* An algorithm that the library offers for a shape. */
struct iq_cublas_choice {
    struct iq_cublas_algo id;
    struct iq_cublas_blob blob;
    size_t workspace;
    float waves; /* 1: fills the GPU once */
};

/* Which algorithm calls of a shape took. */
struct iq_cublas_use {
    struct iq_cublas_shape shape;
    const char *variant;            /* "cublas": the library chooses and does not tell; "cublaslt" */
    uint32_t bucket;                /* rows that the choice was made for; 0: the library made it */
    unsigned place;                 /* of the choice in the heuristic's list */
    bool pinned;                    /* the choice is the plan's */
    struct iq_cublas_choice choice; /* of "cublaslt" */
    uint64_t calls;                 /* that were queued; replays of a captured graph are not seen */
};

struct iq_cublas {
    const struct iq_cublas_api *api;
    struct iq_cuda *cuda;
    void *handle, *lt, *workspace;
    int version; /* 130100 is 13.1.0 */
    size_t lt_version;
    struct iq_cublas_use *use;
    size_t uses, cap;
    struct iq_cublas *next;
};

/* The device's, made if need be. IQ_UNSUPPORTED: no library, the shim, or no GPU that it can use; IQ_MEMORY. */
int iq_cublas_of(struct iq_cuda *, struct iq_cublas **out, struct iq_err *err);
/* iq_cuda_close does it. Safe where nothing was made. */
void iq_cublas_close(struct iq_cuda *);

/* ld of rows of k elements: whole 16 bytes, which the fast kernels ask for. */
uint32_t iq_cublas_ld(unsigned type, uint32_t k);

/* The first `most` of the library's list, best first. *found may be 0: it has no algorithm for this shape. */
int iq_cublas_choose(struct iq_cublas *, const struct iq_cublas_shape *, unsigned most,
                     struct iq_cublas_choice out[], unsigned *found, struct iq_err *err);
/* Whether a choice that was made for another number of rows can run here; its workspace and waves are set. IQ_UNSUPPORTED: it
 * can't, or needs more workspace. */
int iq_cublas_fit(struct iq_cublas *, const struct iq_cublas_shape *, struct iq_cublas_choice *,
                  struct iq_err *err);
/* A given algorithm; errors likewise. */
int iq_cublas_pin(struct iq_cublas *, const struct iq_cublas_shape *, const struct iq_cublas_algo *,
                  struct iq_cublas_choice *out, struct iq_err *err);

/* Queued on the device's stream. */
int iq_cublas_product(struct iq_cublas *, const struct iq_cublas_shape *, const void *w, const void *x,
                      float *y, struct iq_err *err); /* cublasGemmEx */
int iq_cublas_lt_product(struct iq_cublas *, const struct iq_cublas_shape *, const struct iq_cublas_choice *,
                         const void *w, const void *x, float *y, struct iq_err *err);

/* The record of uses, in order of first use; NULL where the device has none. Borrowed until the next product. */
const struct iq_cublas_use *iq_cublas_uses(struct iq_cuda *, size_t *n);
/* An array of objects {"variant", "type", "n", "k", "rows", "bucket", "choice", "pinned", "id", "pin", "workspace",
 * "calls"}; id and pin only where the algorithm is known. */
void iq_cublas_uses_json(struct iq_cuda *, struct iq_jw *);

#endif
