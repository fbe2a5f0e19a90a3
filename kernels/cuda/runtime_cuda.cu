/* The table of the real runtime. Compiled by nvcc; the first call touches the driver, nothing before it does. */
#include "kernels/cuda/runtime.h"

#include <cuda_runtime.h>
#include <stdio.h>

#define SAME(ours, theirs) static_assert((int)(ours) == (int)(theirs), "the numbers are CUDA's")
SAME(IQ_CUDA_INVALID_VALUE, cudaErrorInvalidValue);
SAME(IQ_CUDA_NO_MEMORY, cudaErrorMemoryAllocation);
SAME(IQ_CUDA_INVALID_CONFIGURATION, cudaErrorInvalidConfiguration);
SAME(IQ_CUDA_OLD_DRIVER, cudaErrorInsufficientDriver);
SAME(IQ_CUDA_NO_DEVICE, cudaErrorNoDevice);
SAME(IQ_CUDA_INVALID_DEVICE, cudaErrorInvalidDevice);
SAME(IQ_CUDA_INVALID_HANDLE, cudaErrorInvalidResourceHandle);
SAME(IQ_CUDA_ILLEGAL_ADDRESS, cudaErrorIllegalAddress);
SAME(IQ_CUDA_LAUNCH_FAILED, cudaErrorLaunchFailure);
SAME(IQ_CUDA_CAPTURE_UNSUPPORTED, cudaErrorStreamCaptureUnsupported);
SAME(IQ_CUDA_CAPTURE_MERGE, cudaErrorStreamCaptureMerge);
SAME(IQ_CUDA_CAPTURE_UNMATCHED, cudaErrorStreamCaptureUnmatched);
SAME(IQ_CUDA_CAPTURE_UNJOINED, cudaErrorStreamCaptureUnjoined);
SAME(IQ_CUDA_CAPTURE_ISOLATION, cudaErrorStreamCaptureIsolation);
SAME(IQ_CUDA_CAPTURED_EVENT, cudaErrorCapturedEvent);
SAME(IQ_CUDA_TO_DEVICE, cudaMemcpyHostToDevice);
SAME(IQ_CUDA_TO_HOST, cudaMemcpyDeviceToHost);
SAME(IQ_CUDA_ON_DEVICE, cudaMemcpyDeviceToDevice);

static const char *error_name(int code) { return cudaGetErrorName((cudaError_t)code); }
static const char *error_detail(int code) { return cudaGetErrorString((cudaError_t)code); }

static int device_count(int *count)
{
    *count = 0;
    cudaError_t e = cudaGetDeviceCount(count);
    if (e) *count = 0; /* it leaves anything there */
    return e;
}

static int device_use(int ordinal) { return cudaSetDevice(ordinal); }

static int device_describe(int ordinal, struct iq_cuda_device *out)
{
    cudaDeviceProp p;
    *out = {};
    cudaError_t e = cudaGetDeviceProperties(&p, ordinal);
    if (!e) e = cudaDriverGetVersion(&out->driver_version);
    if (!e) e = cudaRuntimeGetVersion(&out->runtime_version);
    if (e) return e;
    snprintf(out->name, sizeof out->name, "%s", p.name);
    out->major = p.major;
    out->minor = p.minor;
    out->multiprocessors = p.multiProcessorCount;
    out->memory_bytes = p.totalGlobalMem;
    return IQ_CUDA_OK;
}

static int memory_free(size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = *total_bytes = 0;
    return cudaMemGetInfo(free_bytes, total_bytes);
}

static int device_malloc(void **out, size_t bytes)
{
    *out = NULL;
    return bytes ? cudaMalloc(out, bytes) : cudaErrorInvalidValue;
}

static int device_free(void *memory) { return cudaFree(memory); }

static int host_malloc(void **out, size_t bytes)
{
    *out = NULL;
    return cudaMallocHost(out, bytes);
}

static int host_free(void *memory) { return cudaFreeHost(memory); }

/* Non-blocking: no stream waits for the default one behind its owner's back. */
static int stream_create(void **out)
{
    *out = NULL;
    return cudaStreamCreateWithFlags((cudaStream_t *)out, cudaStreamNonBlocking);
}

static int stream_destroy(void *stream) { return cudaStreamDestroy((cudaStream_t)stream); }
static int stream_sync(void *stream) { return cudaStreamSynchronize((cudaStream_t)stream); }

static int memcpy_async(void *to, const void *from, size_t bytes, enum iq_cuda_copy way, void *stream)
{
    return cudaMemcpyAsync(to, from, bytes, (cudaMemcpyKind)way, (cudaStream_t)stream);
}

static int memset_async(void *to, int byte, size_t bytes, void *stream)
{
    return cudaMemsetAsync(to, byte, bytes, (cudaStream_t)stream);
}

static int capture_begin(void *stream)
{
    return cudaStreamBeginCapture((cudaStream_t)stream, cudaStreamCaptureModeThreadLocal);
}

static int capture_end(void *stream, void **graph)
{
    *graph = NULL;
    return cudaStreamEndCapture((cudaStream_t)stream, (cudaGraph_t *)graph);
}

static int graph_instantiate(void **exec, void *graph)
{
    *exec = NULL;
    return cudaGraphInstantiate((cudaGraphExec_t *)exec, (cudaGraph_t)graph, 0);
}

static int graph_launch(void *exec, void *stream)
{
    return cudaGraphLaunch((cudaGraphExec_t)exec, (cudaStream_t)stream);
}

static int graph_destroy(void *graph) { return cudaGraphDestroy((cudaGraph_t)graph); }
static int exec_destroy(void *exec) { return cudaGraphExecDestroy((cudaGraphExec_t)exec); }
static int last_error(void) { return cudaGetLastError(); }

static int device_current(int *ordinal)
{
    *ordinal = 0;
    return cudaGetDevice(ordinal);
}

/* Without timing: the cheapest. */
static int event_create(void **out)
{
    *out = NULL;
    return cudaEventCreateWithFlags((cudaEvent_t *)out, cudaEventDisableTiming);
}

static int event_destroy(void *event) { return cudaEventDestroy((cudaEvent_t)event); }

static int event_record(void *event, void *stream)
{
    return cudaEventRecord((cudaEvent_t)event, (cudaStream_t)stream);
}

static int stream_wait(void *stream, void *event)
{
    return cudaStreamWaitEvent((cudaStream_t)stream, (cudaEvent_t)event, 0);
}

static int stream_capturing(void *stream, int *capturing)
{
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaError_t e = cudaStreamIsCapturing((cudaStream_t)stream, &status);
    *capturing = status != cudaStreamCaptureStatusNone;
    return e;
}

const struct iq_cuda_api *iq_cuda_api(void)
{
    static const struct iq_cuda_api api = {
        "cuda",          error_name,    error_detail,   device_count,      device_use,
        device_describe, memory_free,   device_malloc,  device_free,       host_malloc,
        host_free,       stream_create, stream_destroy, stream_sync,       memcpy_async,
        memset_async,    capture_begin, capture_end,    graph_instantiate, graph_launch,
        graph_destroy,   exec_destroy,  last_error,     device_current,    event_create,
        event_destroy,   event_record,  stream_wait,    stream_capturing,
    };
    return &api;
}
