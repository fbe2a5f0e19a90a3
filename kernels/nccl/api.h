/* NCCL as the collectives use it: one table of functions, for C, filled when it is first asked for.
 *
 * The library is found at run time and never linked (iq_nccl_api), so that a build needs no NCCL and a machine without one
 * loses nothing else. Tests and drills put another table in its place (iq_nccl_use). Codes are those of ncclResult_t, 0 is
 * success; numbers and layouts are checked against nccl.h where a build finds it (abi_check.c).
 *
 * Two ranks of a communicator on one GPU are not possible: NCCL answers invalid usage ("Duplicate GPU detected").
 *
 * Source: NCCL 2.28 user guide, "NCCL API"; nccl.h of 2.28.9.
 */
#ifndef IQ_NCCL_API_H
#define IQ_NCCL_API_H

#include "kernels/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum iq_nccl_code {
    IQ_NCCL_OK = 0,
    IQ_NCCL_CUDA_ERROR = 1,
    IQ_NCCL_SYSTEM_ERROR = 2,
    IQ_NCCL_INTERNAL_ERROR = 3,
    IQ_NCCL_INVALID_ARGUMENT = 4,
    IQ_NCCL_INVALID_USAGE = 5,
    IQ_NCCL_REMOTE_ERROR = 6,
    IQ_NCCL_IN_PROGRESS = 7
};

enum iq_nccl_type { IQ_NCCL_FLOAT32 = 7, IQ_NCCL_BFLOAT16 = 9 };
enum { IQ_NCCL_SUM = 0, IQ_NCCL_RANKS = 64 };

/* ncclUniqueId, passed by value. */
struct iq_nccl_id {
    char bytes[128];
};

/* The head of ncclConfig_t, as version 2.17 had it: every later library takes a shorter one for what it is, by its size,
 * and fills in the rest. IQ_NCCL_UNSET is the library's choice. */
#define IQ_NCCL_UNSET INT32_MIN
struct iq_nccl_config {
    size_t size;
    uint32_t magic, version;
    int blocking, cga_cluster_size, min_ctas, max_ctas;
    const char *net_name;
};
#define IQ_NCCL_CONFIG                                                                                       \
    {                                                                                                        \
        sizeof(struct iq_nccl_config), 0xcafebeefu, 21700, IQ_NCCL_UNSET, IQ_NCCL_UNSET, IQ_NCCL_UNSET,      \
            IQ_NCCL_UNSET, NULL                                                                              \
    }

/* X(name, symbol, parameters): those that give a code. Communicators and streams are opaque. */
#define IQ_NCCL_API_MAP(X)                                                                                   \
    X(version, ncclGetVersion, (int *version))                                                               \
    X(unique_id, ncclGetUniqueId, (struct iq_nccl_id * id))                                                  \
    X(comm_init_all, ncclCommInitAll, (void **comm, int ranks, const int *device))                           \
    X(comm_init_rank, ncclCommInitRankConfig,                                                                \
      (void **comm, int ranks, struct iq_nccl_id id, int rank, struct iq_nccl_config *config))               \
    X(comm_destroy, ncclCommDestroy, (void *comm))                                                           \
    X(comm_abort, ncclCommAbort, (void *comm))                                                               \
    X(comm_async_error, ncclCommGetAsyncError, (void *comm, int *code))                                      \
    X(group_start, ncclGroupStart, (void))                                                                   \
    X(group_end, ncclGroupEnd, (void))                                                                       \
    X(all_reduce, ncclAllReduce,                                                                             \
      (const void *from, void *to, size_t count, int type, int op, void *comm, void *stream))                \
    X(reduce_scatter, ncclReduceScatter,                                                                     \
      (const void *from, void *to, size_t count_to, int type, int op, void *comm, void *stream))             \
    X(all_gather, ncclAllGather,                                                                             \
      (const void *from, void *to, size_t count_from, int type, void *comm, void *stream))                   \
    X(send, ncclSend, (const void *from, size_t count, int type, int peer, void *comm, void *stream))        \
    X(recv, ncclRecv, (void *to, size_t count, int type, int peer, void *comm, void *stream))

struct iq_nccl_api {
    const char *name; /* where the library is */
    bool shim;        /* it works on the memory of kernels/cuda/shim, so a test's; NCCL itself needs GPUs */
#define X(name, symbol, params) int(*name) params;
    IQ_NCCL_API_MAP(X)
#undef X
    const char *(*error_text)(int code);
    const char *(*last_error)(
        void *comm); /* NULL: of this thread, without a communicator; NULL: it has none */
};

/* The library's table, or what iq_nccl_use put there. IQ_UNSUPPORTED, in one sentence: no library, or one that lacks a
 * function; it is looked for again at the next call. */
int iq_nccl_api(const struct iq_nccl_api **out, struct iq_err *err);
/* Borrowed until the next call; NULL: the library again. Close all communicators first (iq_nccl_close). */
void iq_nccl_use(const struct iq_nccl_api *);

/* IQ_OK for 0. Otherwise one sentence: `what` (as in "opening 2 communicators"), the code, the library's own words, what to
 * do. comm may be NULL. */
int iq_nccl_check_code(const struct iq_nccl_api *, int code, void *comm, const char *what,
                       struct iq_err *err);

/* For listings: "NCCL 2.28.9 (/usr/lib/.../libnccl.so.2): up to 2 ranks on these 2 GPUs, for NCCL refuses two ranks on one".
 * devices: how many GPUs there are, -1 where nobody knows. Touches no device. Fails as iq_nccl_api does; text is then "". */
int iq_nccl_describe(int devices, char *text, size_t size, struct iq_err *err);

/* Opens libnccl.so.2, in the folders of kernels/cuda/search.h; `found` says where it was. NULL: in none of them, and
 * `found` says what the loader had against the name. */
void *iq__nccl_library(char *found, size_t size);

#endif
