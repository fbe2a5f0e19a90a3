/* The table of the shim (runtime.h): one lock, the sticky error, and what a driver checks. */
#include "kernels/cuda/shim/settings.h"
#include "kernels/cuda/shim/streams.h"

#include <mutex>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static std::mutex lock;
static int sticky, last;  /* codes */
static int settings_code; /* of an environment that was not understood */
static int devices = 1;
thread_local int iq__device;

/* ---- what every call does first and last ---- */

static int leave(int code)
{
    if (code) last = code;
    if (iq_cuda_is_sticky(code)) sticky = code;
    return code;
}

/* 0: go on. */
static int enter(enum iq__call_id call)
{
    static int settings = settings_code = iq__settings_read();
    if (settings) return settings;
    if (sticky) return sticky;
    int planned = iq__plan_due(call);
    if (planned) return leave(planned);
    /* These would wait for the device, which a capture forbids. */
    bool waits = call == IQ__CALL_malloc || call == IQ__CALL_free || call == IQ__CALL_host_malloc ||
                 call == IQ__CALL_host_free;
    if (waits && iq__stream_capturing()) return leave(IQ_CUDA_CAPTURE_UNSUPPORTED);
    return IQ_CUDA_OK;
}

#define ENTER(call)                                                                                          \
    std::lock_guard<std::mutex> hold(lock);                                                                  \
    int entered = enter(IQ__CALL_##call);                                                                    \
    if (entered) return entered

void iq_shim_reset(void)
{
    std::lock_guard<std::mutex> hold(lock);
    sticky = last = 0;
    iq__plans_forget();
    iq__findings_forget();
    iq__captures_drop();
}

void iq_shim_poison(uint32_t word) { iq__poison = word; }
struct iq_shim_counts iq_shim_counts(void) { return iq__counts; }
int iq_shim_has_race_detector(void) { return iq__race_on; }

void iq_shim_devices(int n)
{
    devices = n > 1 ? n : 1;
    if (iq__device >= devices) iq__device = 0;
}

/* ---- the table ---- */

/* The kernels may have been compiled for instructions that this processor lacks. */
static int processor_fits(void)
{
#if defined(IQ_SHIM_NEEDS_FMA) && defined(__x86_64__)
    return __builtin_cpu_supports("fma") != 0;
#else
    return 1;
#endif
}

static int device_count(int *count)
{
    *count = 0;
    ENTER(device_count);
    if (!processor_fits()) return leave(IQ_CUDA_NO_DEVICE);
    *count = devices;
    return IQ_CUDA_OK;
}

static int device_use(int ordinal)
{
    ENTER(device_use);
    if (ordinal < 0 || ordinal >= devices) return leave(IQ_CUDA_INVALID_DEVICE);
    iq__device = ordinal;
    return IQ_CUDA_OK;
}

static int device_current(int *ordinal)
{
    *ordinal = 0;
    ENTER(device_current);
    *ordinal = iq__device;
    return IQ_CUDA_OK;
}

static uint64_t host_memory(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int device_describe(int ordinal, struct iq_cuda_device *out)
{
    *out = {};
    ENTER(device_describe);
    if (ordinal < 0 || ordinal >= devices) return leave(IQ_CUDA_INVALID_DEVICE);
    snprintf(out->name, sizeof out->name, "fibers on the CPU");
    out->multiprocessors = 1;
    out->memory_bytes = iq__heap_limit() ? iq__heap_limit() : host_memory();
    return IQ_CUDA_OK;
}

static int memory_free(size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = *total_bytes = 0;
    ENTER(memory_free);
    uint64_t total = iq__heap_limit() ? iq__heap_limit() : host_memory(), used = iq__heap_used();
    *total_bytes = total;
    *free_bytes = used < total ? total - used : 0;
    return IQ_CUDA_OK;
}

static int device_malloc(void **out, size_t bytes)
{
    *out = NULL;
    ENTER(malloc);
    return leave(iq__heap_allocate(out, bytes));
}

static int device_free(void *memory)
{
    ENTER(free);
    if (!memory) return IQ_CUDA_OK;
    int code = iq__streams_drain(); /* as cudaFree waits for the device */
    return leave(code ? code : iq__heap_free(memory));
}

static int host_malloc(void **out, size_t bytes)
{
    *out = NULL;
    ENTER(host_malloc);
    *out = malloc(bytes);
    return *out ? IQ_CUDA_OK : leave(IQ_CUDA_NO_MEMORY);
}

static int host_free(void *memory)
{
    ENTER(host_free);
    int code = iq__streams_drain();
    free(memory);
    return leave(code);
}

static int stream_create(void **out)
{
    *out = NULL;
    ENTER(stream_create);
    return leave(iq__stream_create(out));
}

static int stream_destroy(void *stream)
{
    ENTER(stream_destroy);
    return leave(iq__stream_destroy(stream));
}

static int stream_sync(void *stream)
{
    ENTER(stream_sync);
    return leave(iq__stream_drain(stream));
}

/* Device memory must be all in one allocation; host memory must not be the device's. */
static int range_check(const void *memory, size_t bytes, int on_device, const char *what)
{
    char text[200];
    int where = iq__heap_locate(reinterpret_cast<uintptr_t>(memory), bytes, text, sizeof text);
    if (on_device == (where == 1) && (on_device || !where)) return IQ_CUDA_OK;
    if (on_device && !where) snprintf(text, sizeof text, "%p, which is no device memory", memory);
    if (!on_device && where == 1) snprintf(text, sizeof text, "%p, which is device memory", memory);
    iq__find("%s of %zu bytes at %s", what, bytes, text);
    return IQ_CUDA_INVALID_VALUE;
}

static int memcpy_async(void *to, const void *from, size_t bytes, enum iq_cuda_copy way, void *stream)
{
    ENTER(memcpy_async);
    if (!bytes) return IQ_CUDA_OK;
    int code = range_check(to, bytes, way != IQ_CUDA_TO_HOST, "copy to");
    if (!code) code = range_check(from, bytes, way != IQ_CUDA_TO_DEVICE, "copy from");
    if (code) return leave(code);
    struct iq__op op = {};
    op.kind = iq__op::IQ__COPY;
    op.to = to;
    op.from = from;
    op.bytes = bytes;
    return leave(iq__stream_put(stream, std::move(op)));
}

static int memset_async(void *to, int byte, size_t bytes, void *stream)
{
    ENTER(memset_async);
    if (!bytes) return IQ_CUDA_OK;
    int code = range_check(to, bytes, 1, "fill");
    if (code) return leave(code);
    struct iq__op op = {};
    op.kind = iq__op::IQ__FILL;
    op.to = to;
    op.byte = byte;
    op.bytes = bytes;
    return leave(iq__stream_put(stream, std::move(op)));
}

/* With several devices: a kernel gets pointers to the memory of its own alone. Whatever looks like one is taken for one. */
static int own_memory(const struct iq_shim_call *call)
{
    for (uint32_t i = 0; i < call->args_n && devices > 1; i++)
        for (size_t at = 0; at + sizeof(uintptr_t) <= call->arg_bytes[i]; at += sizeof(uintptr_t)) {
            uintptr_t word;
            memcpy(&word, static_cast<const char *>(call->args[i]) + at, sizeof word);
            int owner = iq__heap_device(word);
            if (owner < 0 || owner == iq__device) continue;
            iq__find("%s: an argument points to memory of device %d, the kernel runs on device %d",
                     call->name, owner, iq__device);
            return IQ_CUDA_ILLEGAL_ADDRESS;
        }
    return IQ_CUDA_OK;
}

int iq_shim_launch(const struct iq_shim_call *call, void *stream)
{
    ENTER(launch);
    int code = iq__grid_check(call);
    if (!code && stream && iq__stream_device(stream) != iq__device) code = IQ_CUDA_INVALID_HANDLE;
    if (!code) code = own_memory(call);
    if (!code) code = iq__stacks_open();
    if (!code) code = iq__shared_map();
    if (code) return leave(code);
    struct iq__op op = {};
    op.kind = iq__op::IQ__LAUNCH;
    op.call = *call;
    size_t name = strcspn(call->name, "<,( ");
    op.name.assign(call->name, call->name + name);
    op.name.push_back(0);
    for (uint32_t i = 0; i < call->args_n; i++) {
        const char *value = static_cast<const char *>(call->args[i]);
        op.values.insert(op.values.end(), value, value + call->arg_bytes[i]);
        op.values.resize((op.values.size() + 15) / 16 * 16);
        op.arg_bytes.push_back(call->arg_bytes[i]);
    }
    return leave(iq__stream_put(stream, std::move(op)));
}

static int capture_begin(void *stream)
{
    ENTER(capture_begin);
    return leave(iq__capture_begin(stream));
}

static int capture_end(void *stream, void **graph)
{
    *graph = NULL;
    std::lock_guard<std::mutex> hold(lock);
    int entered = enter(IQ__CALL_capture_end);
    if (!entered) return leave(iq__capture_end(stream, graph));
    iq__captures_drop();
    return entered;
}

static int graph_instantiate(void **exec, void *graph)
{
    *exec = NULL;
    ENTER(graph_instantiate);
    return leave(iq__graph_instantiate(exec, graph));
}

static int graph_launch(void *exec, void *stream)
{
    ENTER(graph_launch);
    return leave(iq__graph_launch(exec, stream));
}

static int graph_destroy(void *graph)
{
    ENTER(graph_destroy);
    return leave(iq__graph_destroy(graph));
}

static int exec_destroy(void *exec)
{
    ENTER(exec_destroy);
    return leave(iq__graph_destroy(exec));
}

static int last_error(void)
{
    ENTER(last_error);
    int code = last;
    last = 0;
    return code;
}

static int event_create(void **out)
{
    *out = NULL;
    ENTER(event_create);
    return leave(iq__event_create(out));
}

static int event_destroy(void *event)
{
    ENTER(event_destroy);
    return leave(iq__event_destroy(event));
}

static int event_record(void *event, void *stream)
{
    ENTER(event_record);
    return leave(iq__event_record(event, stream));
}

static int stream_wait(void *stream, void *event)
{
    ENTER(stream_wait);
    return leave(iq__stream_wait(stream, event));
}

static int stream_capturing(void *stream, int *capturing)
{
    *capturing = 0;
    ENTER(stream_capturing);
    return leave(iq__stream_is_capturing(stream, capturing));
}

static const struct {
    int code;
    const char *name, *text;
} errors[] = {
    {IQ_CUDA_OK, "cudaSuccess", "no error"},
    {IQ_CUDA_INVALID_VALUE, "cudaErrorInvalidValue", "invalid argument"},
    {IQ_CUDA_NO_MEMORY, "cudaErrorMemoryAllocation", "out of memory"},
    {IQ_CUDA_INVALID_CONFIGURATION, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {IQ_CUDA_OLD_DRIVER, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {IQ_CUDA_NO_DEVICE, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {IQ_CUDA_INVALID_DEVICE, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {IQ_CUDA_INVALID_HANDLE, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {IQ_CUDA_ILLEGAL_ADDRESS, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {IQ_CUDA_LAUNCH_FAILED, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {IQ_CUDA_CAPTURE_UNSUPPORTED, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {IQ_CUDA_CAPTURE_MERGE, "cudaErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {IQ_CUDA_CAPTURE_UNMATCHED, "cudaErrorStreamCaptureUnmatched",
     "capture was not ended in the same stream"},
    {IQ_CUDA_CAPTURE_UNJOINED, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {IQ_CUDA_CAPTURE_ISOLATION, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {IQ_CUDA_CAPTURED_EVENT, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
};

static const char *error_name(int code)
{
    for (const auto &e : errors)
        if (e.code == code) return e.name;
    return "an error that the shim never makes";
}

static const char *error_detail(int code)
{
    bool told = iq_cuda_is_sticky(code) || code == settings_code;
    if (code && told && iq_shim_findings()) return iq_shim_report();
    for (const auto &e : errors)
        if (e.code == code) return e.text;
    return "planned by a drill";
}

const struct iq_cuda_api *iq_cuda_shim_api(void)
{
    static const struct iq_cuda_api api = {
        "cuda-shim",       error_name,    error_detail,  device_count, device_use,       device_describe,
        memory_free,       device_malloc, device_free,   host_malloc,  host_free,        stream_create,
        stream_destroy,    stream_sync,   memcpy_async,  memset_async, capture_begin,    capture_end,
        graph_instantiate, graph_launch,  graph_destroy, exec_destroy, last_error,       device_current,
        event_create,      event_destroy, event_record,  stream_wait,  stream_capturing,
    };
    return &api;
}
