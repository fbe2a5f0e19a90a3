/* Numbers and layouts of api.h against the real header. Compiled where it is found; it makes no code. */
#include "kernels/nccl/api.h"

#include <nccl.h>

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), "the numbers are NCCL's")
SAME(IQ_NCCL_OK, ncclSuccess);
SAME(IQ_NCCL_CUDA_ERROR, ncclUnhandledCudaError);
SAME(IQ_NCCL_SYSTEM_ERROR, ncclSystemError);
SAME(IQ_NCCL_INTERNAL_ERROR, ncclInternalError);
SAME(IQ_NCCL_INVALID_ARGUMENT, ncclInvalidArgument);
SAME(IQ_NCCL_INVALID_USAGE, ncclInvalidUsage);
SAME(IQ_NCCL_REMOTE_ERROR, ncclRemoteError);
SAME(IQ_NCCL_IN_PROGRESS, ncclInProgress);
SAME(IQ_NCCL_FLOAT32, ncclFloat32);
SAME(IQ_NCCL_BFLOAT16, ncclBfloat16);
SAME(IQ_NCCL_SUM, ncclSum);
SAME(IQ_NCCL_UNSET, NCCL_CONFIG_UNDEF_INT);

_Static_assert(sizeof(struct iq_nccl_id) == sizeof(ncclUniqueId), "passed by value");
_Static_assert(sizeof(struct iq_nccl_config) <= sizeof(ncclConfig_t), "a head of it");
#define FIELD(ours, theirs)                                                                                  \
    _Static_assert(offsetof(struct iq_nccl_config, ours) == offsetof(ncclConfig_t, theirs), "the same "      \
                                                                                            "place")
FIELD(size, size);
FIELD(magic, magic);
FIELD(version, version);
FIELD(blocking, blocking);
FIELD(cga_cluster_size, cgaClusterSize);
FIELD(min_ctas, minCTAs);
FIELD(max_ctas, maxCTAs);
FIELD(net_name, netName);

/* Enumerations are passed as int, handles as pointers: the same registers on every machine that CUDA is for. */
_Static_assert(sizeof(ncclDataType_t) == sizeof(int) && sizeof(ncclRedOp_t) == sizeof(int), "an int");
_Static_assert(sizeof(ncclResult_t) == sizeof(int), "an int");

/* The parameters, as far as pointers and numbers go. */
#define ARGUMENTS(symbol, ...) _Static_assert(_Generic(&symbol, __VA_ARGS__ : 1, default : 0), #symbol)
ARGUMENTS(ncclCommInitAll, ncclResult_t (*)(ncclComm_t *, int, const int *));
ARGUMENTS(ncclCommInitRankConfig, ncclResult_t (*)(ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *));
ARGUMENTS(ncclCommGetAsyncError, ncclResult_t (*)(ncclComm_t, ncclResult_t *));
ARGUMENTS(ncclAllReduce, ncclResult_t (*)(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t,
                                          ncclComm_t, cudaStream_t));
ARGUMENTS(ncclReduceScatter, ncclResult_t (*)(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t,
                                              ncclComm_t, cudaStream_t));
ARGUMENTS(ncclAllGather,
          ncclResult_t (*)(const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t));
ARGUMENTS(ncclSend, ncclResult_t (*)(const void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t));
ARGUMENTS(ncclRecv, ncclResult_t (*)(void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t));
