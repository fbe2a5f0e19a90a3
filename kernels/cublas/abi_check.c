/* That api.h says what NVIDIA's headers say: numbers, layouts, and, by calling each function with the table's parameters,
 * how many there are and that they convert. Compiled where the headers are; nothing here runs, or is linked. */
#include "kernels/cublas/algo.h"

#include <cublasLt.h>
#include <cublas_v2.h>

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), "the numbers are cuBLAS's")
SAME(IQ_CUBLAS_NOT_INITIALIZED, CUBLAS_STATUS_NOT_INITIALIZED);
SAME(IQ_CUBLAS_ALLOC_FAILED, CUBLAS_STATUS_ALLOC_FAILED);
SAME(IQ_CUBLAS_INVALID_VALUE, CUBLAS_STATUS_INVALID_VALUE);
SAME(IQ_CUBLAS_ARCH_MISMATCH, CUBLAS_STATUS_ARCH_MISMATCH);
SAME(IQ_CUBLAS_MAPPING_ERROR, CUBLAS_STATUS_MAPPING_ERROR);
SAME(IQ_CUBLAS_EXECUTION_FAILED, CUBLAS_STATUS_EXECUTION_FAILED);
SAME(IQ_CUBLAS_INTERNAL_ERROR, CUBLAS_STATUS_INTERNAL_ERROR);
SAME(IQ_CUBLAS_NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED);
SAME(IQ_CUBLAS_LICENSE_ERROR, CUBLAS_STATUS_LICENSE_ERROR);

#define X(ours, theirs, value) SAME(ours, theirs);
IQ_CUBLAS_NUMBER_MAP(X)
#undef X
#define X(field, theirs, attribute, type) SAME(attribute, theirs);
IQ_CUBLAS_ALGO_MAP(X)
#undef X

#define PLACE(ours, theirs)                                                                                  \
    _Static_assert(offsetof(struct iq_cublas_found, ours) ==                                                 \
                       offsetof(cublasLtMatmulHeuristicResult_t, theirs),                                    \
                   "the layout is cuBLAS's")
_Static_assert(sizeof(struct iq_cublas_blob) == sizeof(cublasLtMatmulAlgo_t), "the layout is cuBLAS's");
_Static_assert(sizeof(struct iq_cublas_found) == sizeof(cublasLtMatmulHeuristicResult_t),
               "the layout is cuBLAS's");
PLACE(algo, algo);
PLACE(workspace, workspaceSize);
PLACE(state, state);
PLACE(waves, wavesCount);

/* In the table a handle is void *, and a handle's place is void **. */
#define cublasCreate_v2(handle) cublasCreate_v2((cublasHandle_t *)handle)
#define cublasLtCreate(handle)  cublasLtCreate((cublasLtHandle_t *)handle)
#define X(library, result, field, symbol, params, args)                                                      \
    __attribute__((unused)) static result field params { return symbol args; }
IQ_CUBLAS_API_MAP(X)
#undef X
