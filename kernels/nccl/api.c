#include "kernels/nccl/api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct iq_nccl_api *used;
static struct iq_nccl_api library;
static char where[512];

/* ISO C has no cast from an object's pointer to a function's; POSIX says that the bytes are the same. */
static bool symbol_get(void *lib, const char *name, void *function)
{
    void *address = dlsym(lib, name);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

static int library_open(struct iq_err *err)
{
    const char *missing = NULL;
    struct iq_nccl_api api = {.name = where};
    void *lib = iq__nccl_library(where, sizeof where);
    if (!lib)
        return iq_fail(
            err, IQ_UNSUPPORTED,
            "NCCL: no libnccl.so.2 for the loader, beside a CUDA toolkit, or among Python's packages "
            "(%.200s); install libnccl2, or: pip install nvidia-nccl-cu13",
            where);
#define X(name, symbol, params)                                                                              \
    if (!symbol_get(lib, #symbol, &api.name)) missing = #symbol;
    IQ_NCCL_API_MAP(X)
#undef X
    if (!symbol_get(lib, "ncclGetErrorString", &api.error_text)) missing = "ncclGetErrorString";
    (void)symbol_get(lib, "ncclGetLastError", &api.last_error);
    if (missing) {
        dlclose(lib);
        return iq_fail(err, IQ_UNSUPPORTED,
                       "NCCL: %.300s lacks %s; expected version 2.17 or later, install a newer libnccl2",
                       where, missing);
    }
    library = api; /* the library stays loaded: it has threads of its own */
    return IQ_OK;
}

int iq_nccl_api(const struct iq_nccl_api **out, struct iq_err *err)
{
    int status = IQ_OK;
    *out = NULL;
    pthread_mutex_lock(&lock);
    if (!used && !library.name) status = library_open(err);
    if (!status) *out = used ? used : &library;
    pthread_mutex_unlock(&lock);
    return status;
}

void iq_nccl_use(const struct iq_nccl_api *api)
{
    pthread_mutex_lock(&lock);
    used = api;
    pthread_mutex_unlock(&lock);
}

static const struct {
    int code, status;
    const char *advice;
} codes[] = {
    {IQ_NCCL_CUDA_ERROR, IQ_UNSUPPORTED,
     "a GPU, its driver or its memory failed NCCL: NCCL_DEBUG=WARN says which call"},
    {IQ_NCCL_SYSTEM_ERROR, IQ_IO,
     "NCCL_DEBUG=WARN says which call; /dev/shm and the loopback must be usable"},
    {IQ_NCCL_INTERNAL_ERROR, IQ_INTERNAL, "NCCL_DEBUG=WARN says more"},
    {IQ_NCCL_INVALID_ARGUMENT, IQ_INTERNAL, "this is a bug in inquest"},
    {IQ_NCCL_INVALID_USAGE, IQ_UNSUPPORTED,
     "each rank needs a GPU of its own, and the algorithm and protocol must exist there: NCCL_DEBUG=WARN "
     "says more"},
    {IQ_NCCL_REMOTE_ERROR, IQ_CRASHED, "another rank failed first; its message says why"},
};

int iq_nccl_check_code(const struct iq_nccl_api *api, int code, void *comm, const char *what,
                       struct iq_err *err)
{
    if (code == IQ_NCCL_OK) return IQ_OK;
    int status = IQ_INTERNAL;
    const char *advice = "no answer of this number is known",
               *said = api->last_error ? api->last_error(comm) : "";
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (codes[i].code == code) status = codes[i].status, advice = codes[i].advice;
    size_t n = said ? strcspn(said, "\r\n") : 0; /* it ends with a line break */
    return iq_fail(err, status, "NCCL: %s failed with %s (%d)%s%.*s; %s", what, api->error_text(code), code,
                   n ? ", " : "", (int)(n < 200 ? n : 200), n ? said : "", advice);
}

int iq_nccl_describe(int devices, char *text, size_t size, struct iq_err *err)
{
    const struct iq_nccl_api *api;
    int v = 0;
    char ranks[80] = "at most a rank a GPU";
    if (size) *text = 0;
    IQ_TRY(iq_nccl_api(&api, err));
    IQ_TRY(iq_nccl_check_code(api, api->version(&v), NULL, "asking for the version", err));
    if (devices == 0) snprintf(ranks, sizeof ranks, "no GPU, so no communicator");
    if (devices > 0)
        snprintf(ranks, sizeof ranks, "at most %d rank%s on %s", devices, devices == 1 ? "" : "s",
                 devices == 1 ? "the one GPU" : "these GPUs");
    snprintf(text, size, "NCCL %d.%d.%d (%s): %s; two ranks on one GPU are not possible", v / 10000,
             v / 100 % 100, v % 100, api->name, ranks);
    return IQ_OK;
}
