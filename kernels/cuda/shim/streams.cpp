#include "kernels/cuda/shim/streams.h"

#include <deque>

struct graph {
    std::vector<iq__op> ops;
};
struct stream {
    std::deque<iq__op> ops;
    graph *capture; /* owned; NULL: not capturing */
};

/* Never destroyed: a process may end with work queued. */
static std::vector<stream *> &streams =
    *new std::vector<stream *>{new stream{}};                    /* the first: NULL, the default one */
static std::vector<graph *> &graphs = *new std::vector<graph *>; /* also the executable ones */

static stream *stream_of(void *handle)
{
    if (!handle) return streams[0];
    for (stream *s : streams)
        if (s == handle) return s;
    return NULL;
}

static graph *graph_of(void *handle)
{
    for (graph *g : graphs)
        if (g == handle) return g;
    return NULL;
}

int iq__stream_create(void **out)
{
    streams.push_back(new stream{});
    *out = streams.back();
    return IQ_CUDA_OK;
}

/* ---- running what is queued ---- */

static int launch_run(iq__op &op)
{
    std::vector<void *> args;
    size_t at = 0;
    for (size_t bytes : op.arg_bytes) {
        args.push_back(op.values.data() + at);
        at += (bytes + 15) / 16 * 16;
    }
    struct iq_shim_call call = op.call;
    call.name = op.name.data();
    call.args = args.data();
    call.arg_bytes = op.arg_bytes.data();
    return iq__grid_run(&call);
}

static int op_run(iq__op &op)
{
    switch (op.kind) {
    case iq__op::IQ__COPY:
        memmove(op.to, op.from, op.bytes);
        return IQ_CUDA_OK;
    case iq__op::IQ__FILL:
        memset(op.to, op.byte, op.bytes);
        return IQ_CUDA_OK;
    default:
        return launch_run(op);
    }
}

/* After a sticky error nothing runs any more: what is queued is dropped. */
static int front_run(stream *s)
{
    int code = op_run(s->ops.front());
    s->ops.pop_front();
    if (!code) return IQ_CUDA_OK;
    for (stream *other : streams) other->ops.clear();
    return code;
}

static int drain(stream *s)
{
    if (s->ops.empty()) return IQ_CUDA_OK;
    int code = IQ_CUDA_OK;
    iq__heap_unlock();
    while (!code && !s->ops.empty()) {
        stream *next = s;
        if (iq__schedule.order == IQ__RANDOM) {
            stream *other = streams[iq__random(streams.size())];
            if (!other->ops.empty()) next = other;
        }
        code = front_run(next);
    }
    if (!code && iq__heap_check()) code = IQ_CUDA_LAUNCH_FAILED;
    iq__heap_lock();
    return code;
}

int iq__stream_drain(void *handle)
{
    stream *s = stream_of(handle);
    if (!s) return IQ_CUDA_INVALID_HANDLE;
    if (s->capture) return IQ_CUDA_CAPTURE_UNSUPPORTED;
    return drain(s);
}

int iq__streams_drain(void)
{
    int code = IQ_CUDA_OK;
    for (size_t i = 0; i < streams.size() && !code; i++) code = drain(streams[i]);
    return code;
}

int iq__stream_put(void *handle, iq__op &&op)
{
    stream *s = stream_of(handle);
    if (!s) return IQ_CUDA_INVALID_HANDLE;
    if (s->capture) {
        s->capture->ops.push_back(std::move(op));
        return IQ_CUDA_OK;
    }
    s->ops.push_back(std::move(op));
    return IQ_CUDA_OK;
}

int iq__stream_destroy(void *handle)
{
    for (size_t i = 1; i < streams.size(); i++) {
        stream *s = streams[i];
        if (s != handle) continue;
        int code = drain(s);
        streams.erase(streams.begin() + (long)i);
        delete s->capture;
        delete s;
        return code;
    }
    return IQ_CUDA_INVALID_HANDLE;
}

/* ---- capture and graphs ---- */

int iq__stream_capturing(void)
{
    for (const stream *s : streams)
        if (s->capture) return 1;
    return 0;
}

int iq__capture_begin(void *handle)
{
    stream *s = stream_of(handle);
    if (!s) return IQ_CUDA_INVALID_HANDLE;
    if (s == streams[0] || s->capture) return IQ_CUDA_CAPTURE_UNSUPPORTED;
    s->capture = new graph;
    return IQ_CUDA_OK;
}

int iq__capture_end(void *handle, void **out)
{
    stream *s = stream_of(handle);
    if (!s) return IQ_CUDA_INVALID_HANDLE;
    if (!s->capture) return IQ_CUDA_INVALID_VALUE;
    graphs.push_back(s->capture);
    s->capture = NULL;
    *out = graphs.back();
    return IQ_CUDA_OK;
}

int iq__graph_instantiate(void **exec, void *handle)
{
    const graph *g = graph_of(handle);
    if (!g) return IQ_CUDA_INVALID_VALUE;
    graphs.push_back(new graph(*g));
    *exec = graphs.back();
    return IQ_CUDA_OK;
}

int iq__graph_launch(void *exec, void *handle)
{
    const graph *g = graph_of(exec);
    if (!g || !stream_of(handle)) return g ? IQ_CUDA_INVALID_HANDLE : IQ_CUDA_INVALID_VALUE;
    for (const iq__op &op : g->ops) {
        int code = iq__stream_put(handle, iq__op(op));
        if (code) return code;
    }
    return IQ_CUDA_OK;
}

int iq__graph_destroy(void *handle)
{
    for (size_t i = 0; i < graphs.size(); i++) {
        if (graphs[i] != handle) continue;
        delete graphs[i];
        graphs.erase(graphs.begin() + (long)i);
        return IQ_CUDA_OK;
    }
    return IQ_CUDA_INVALID_VALUE;
}
