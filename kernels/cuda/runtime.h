/* The CUDA runtime as the engine uses it: one table of functions, for C.
 *
 * Two tables exist. iq_cuda_api() is the real runtime (runtime_cuda.cu, built where nvcc is); nothing touches a device
 * before the first call. iq_cuda_shim_api() runs the same kernels as fibers on the CPU (shim/). Production code holds a
 * pointer to one of them and calls nothing else of CUDA, so that a drill can make any call fail (shim/control.h). Kernels
 * are launched by launch.h's table of the same build; what became of a launch is asked with last_error.
 *
 * Codes are those of cudaError_t; 0 is success. A result comes out of a pointer that is cleared first. Copies, fills,
 * launches and graphs are only queued: an error of a kernel shows at a later call, most often stream_sync. Such an
 * error (iq_cuda_is_sticky) stays: every later call of the process returns it, and only a new process gets rid of it.
 * Memory that a queued copy reads or writes on the host has to stay as it is until stream_sync.
 *
 * Source: CUDA Runtime API reference manual, 13.0.
 */
#ifndef IQ_CUDA_RUNTIME_H
#define IQ_CUDA_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum iq_cuda_code {
    IQ_CUDA_OK = 0,
    IQ_CUDA_INVALID_VALUE = 1,
    IQ_CUDA_NO_MEMORY = 2,
    IQ_CUDA_INVALID_CONFIGURATION = 9,
    IQ_CUDA_OLD_DRIVER = 35,
    IQ_CUDA_NO_DEVICE = 100,
    IQ_CUDA_INVALID_DEVICE = 101,
    IQ_CUDA_INVALID_HANDLE = 400,
    IQ_CUDA_ILLEGAL_ADDRESS = 700,
    IQ_CUDA_LAUNCH_FAILED = 719,
    IQ_CUDA_CAPTURE_UNSUPPORTED = 900,
    IQ_CUDA_CAPTURE_MERGE = 902,
    IQ_CUDA_CAPTURE_UNMATCHED = 903,
    IQ_CUDA_CAPTURE_UNJOINED = 904,
    IQ_CUDA_CAPTURE_ISOLATION = 905,
    IQ_CUDA_CAPTURED_EVENT = 907
};

enum iq_cuda_copy { IQ_CUDA_TO_DEVICE = 1, IQ_CUDA_TO_HOST = 2, IQ_CUDA_ON_DEVICE = 3 };

struct iq_cuda_device {
    char name[256];
    int major, minor, multiprocessors;
    int driver_version, runtime_version; /* 13000 is 13.0 */
    uint64_t memory_bytes;
};

/* X(name, parameters). Streams, events, graphs and executable graphs are opaque. The stream NULL is the default
 * one; no stream waits for another but by stream_wait. Memory, streams and events belong to the device that is in use
 * (device_use, a setting of the thread) when they are made; a kernel runs on the device in use, which must be its
 * stream's. Copies may go between devices, on a stream of any.
 *   malloc            device memory, aligned to at least 16; 0 bytes are an error
 *   host_malloc       page-locked host memory: copies from and to it are truly asynchronous
 *   event_record      marks what the stream holds so far; the event and the stream are of one device
 *   stream_wait       what is queued on the stream from here on waits for what the event marks, on whatever device;
 *                     an event that was never recorded is not waited for. A stream that waits for an event of a
 *                     capture joins it, and the stream that began the capture must wait for it before the end
 *   capture_begin     what is queued on the stream from here on goes into a graph; allocating and synchronizing fail
 *   graph_launch      queues all of it; parameters are those that were captured
 *   last_error        the last failure, which it forgets unless it is sticky */
#define IQ_CUDA_API_MAP(X)                                                                                   \
    X(device_count, (int *count))                                                                            \
    X(device_use, (int ordinal))                                                                             \
    X(device_describe, (int ordinal, struct iq_cuda_device *out))                                            \
    X(memory_free, (size_t * free_bytes, size_t * total_bytes))                                              \
    X(malloc, (void **out, size_t bytes))                                                                    \
    X(free, (void *memory))                                                                                  \
    X(host_malloc, (void **out, size_t bytes))                                                               \
    X(host_free, (void *memory))                                                                             \
    X(stream_create, (void **out))                                                                           \
    X(stream_destroy, (void *stream))                                                                        \
    X(stream_sync, (void *stream))                                                                           \
    X(memcpy_async, (void *to, const void *from, size_t bytes, enum iq_cuda_copy way, void *stream))         \
    X(memset_async, (void *to, int byte, size_t bytes, void *stream))                                        \
    X(capture_begin, (void *stream))                                                                         \
    X(capture_end, (void *stream, void **graph))                                                             \
    X(graph_instantiate, (void **exec, void *graph))                                                         \
    X(graph_launch, (void *exec, void *stream))                                                              \
    X(graph_destroy, (void *graph))                                                                          \
    X(exec_destroy, (void *exec))                                                                            \
    X(last_error, (void))                                                                                    \
    X(device_current, (int *ordinal))                                                                        \
    X(event_create, (void **out))                                                                            \
    X(event_destroy, (void *event))                                                                          \
    X(event_record, (void *event, void *stream))                                                             \
    X(stream_wait, (void *stream, void *event))                                                              \
    X(stream_capturing, (void *stream, int *capturing))

struct iq_cuda_api {
    const char *name;                      /* "cuda", "cuda-shim" */
    const char *(*error_name)(int code);   /* "cudaErrorMemoryAllocation"; never NULL */
    const char *(*error_detail)(int code); /* "out of memory"; the shim names kernel, thread and line */
#define X(name, params) int(*name) params;
    IQ_CUDA_API_MAP(X)
#undef X
};

const struct iq_cuda_api *iq_cuda_api(void);
const struct iq_cuda_api *iq_cuda_shim_api(void);

int iq_cuda_is_sticky(int code);

/* IQ_OK for 0. Otherwise one sentence: `what` (as in "copying the logits"), the error's name, number and detail, what to
 * do. Status: IQ_MEMORY, IQ_UNSUPPORTED (no driver or device), IQ_CRASHED (sticky), else IQ_INTERNAL. */
int iq_cuda_check(const struct iq_cuda_api *api, int code, const char *what, struct iq_err *err);

#ifdef __cplusplus
}
#endif

#endif
