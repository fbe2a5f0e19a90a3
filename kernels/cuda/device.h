/* A device as ops see it: where its calls and kernels are, the stream that they queue on, and why the last one failed.
 *
 * One stream: what is queued runs in order, and the host learns of errors and results when it synchronizes. One thread at
 * a time. Open it after fork. A device that is lost (IQ_CRASHED) stays lost; closing it is safe.
 */
#ifndef IQ_CUDA_DEVICE_H
#define IQ_CUDA_DEVICE_H

#include "kernels/cuda/launch.h"
#include "kernels/cuda/runtime.h"

#include <stdbool.h>

struct iq_cuda;
struct iq_cuda_step;
struct iq_jw;

/* Device memory that grows. The last block serves; those before it may stand in captured graphs and are kept. */
struct iq_cuda_room {
    void **block;
    size_t blocks, bytes; /* bytes: of the last block */
};

/* A library that works beside the kernels (cuBLAS, NCCL) and keeps something for the device.
 *   check   after a step's synchronization: errors that only show then; NULL: none do
 *   report  one value: what it chose so far; NULL: nothing to tell */
struct iq_cuda_library {
    const char *name; /* "cublas" */
    int (*check)(struct iq_cuda *);
    void (*close)(struct iq_cuda *);
    void (*report)(struct iq_cuda *, struct iq_jw *);
};

enum { IQ_CUDA_LIBRARIES = 4 };

struct iq_cuda {
    const struct iq_cuda_api *api;
    const struct iq_cuda_kernels *kernels;
    bool shim; /* which build of kernels: IQ_CUDA_PICK */
    void *stream;
    struct iq_cuda_device what;
    struct iq_err err;         /* the sentence of the last failure */
    int32_t *sample_status;    /* device memory of the owner: where `sample` says how each row went */
    uint32_t context;          /* no position of a step sees more keys */
    struct iq_cuda_step *step; /* watch.h; NULL: nothing is watched */
    struct iq_cuda_room scratch;
    struct iq_cuda_room above; /* the same, for a variant that runs another one beneath it */
    const struct iq_cuda_library *library[IQ_CUDA_LIBRARIES];
};

/* shim: kernels as fibers on the CPU. IQ_UNSUPPORTED, in one sentence: no driver, no device, or a build without nvcc. */
int iq_cuda_open(bool shim, int ordinal, struct iq_cuda **out, struct iq_err *err);
void iq_cuda_close(struct iq_cuda *);

/* For variants. A code of the runtime, or the status of a launcher (what the launch itself met is asked here), as an
 * iq_status; `what` (as in "copying the logits") goes into the sentence that cuda->err keeps. */
int iq_cuda_done(struct iq_cuda *, int code, const char *what);
int iq_cuda_launched(struct iq_cuda *, int status, const char *what);
/* Device memory, cleared; the caller's, freed with api->free. */
int iq_cuda_alloc(struct iq_cuda *, size_t bytes, void **out);
/* Device memory for one call, contents undefined, valid until the next call of this function (in stream order). NULL: no
 * memory, cuda->err says why. It must not grow while a graph is captured: steps are run before they are captured. */
void *iq_cuda_scratch(struct iq_cuda *, size_t bytes);
/* The same from a room of the caller's. */
void *iq_cuda_room_at_least(struct iq_cuda *, struct iq_cuda_room *, size_t bytes);
void iq_cuda_room_close(struct iq_cuda *, struct iq_cuda_room *);

/* The library is asked from here on; once is enough. */
void iq_cuda_attach(struct iq_cuda *, const struct iq_cuda_library *);
/* Waits for the stream, and asks the libraries. */
int iq_cuda_sync(struct iq_cuda *, const char *what);

/* Of a launcher that both builds have under IQ_CUDA_NAME(name): the one for this device. */
#ifdef IQ_HAVE_CUDA
#define IQ_CUDA_PICK(cuda, name) ((cuda)->shim ? iq__cuda_shim_##name : iq__cuda_##name)
#else
#define IQ_CUDA_PICK(cuda, name) ((void)(cuda), iq__cuda_shim_##name)
#endif

#endif
