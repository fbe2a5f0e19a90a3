#include "kernels/cuda/shim/streams.h"

#include <deque>

struct graph {
    uint64_t id; /* of the capture */
    std::vector<iq__op> ops;
};
struct stream {
    std::deque<iq__op> ops;
    graph *capture;     /* owned by the stream that began it; NULL: not capturing */
    bool joined;        /* it is another's capture */
    bool loose;         /* and the other doesn't wait for all of this stream's work yet */
    uint64_t id, given; /* since when: operations of the capture that this stream was given */
    int device;
};

/* Never destroyed: a process may end with work queued. */
static std::vector<stream *> &streams =
    *new std::vector<stream *>{new stream{}};                    /* the first: NULL, the default one */
static std::vector<graph *> &graphs = *new std::vector<graph *>; /* also the executable ones */
static std::vector<std::shared_ptr<iq__event>> &events = *new std::vector<std::shared_ptr<iq__event>>;
static uint64_t ids; /* of captures and of streams */

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
    streams.back()->id = ++ids;
    streams.back()->device = iq__device;
    *out = streams.back();
    return IQ_CUDA_OK;
}

/* The default stream is whose device is in use. */
int iq__stream_device(void *handle)
{
    const stream *s = stream_of(handle);
    return !s ? -1 : s == streams[0] ? iq__device : s->device;
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
    case iq__op::IQ__RECORD:
        op.event->done = op.record;
        return IQ_CUDA_OK;
    case iq__op::IQ__WAIT:
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

/* The stream that has to go on first, where the next of s is a wait. An event is recorded before it's waited for, so the
 * walk ends. */
static stream *ready(stream *s)
{
    while (s->ops.front().kind == iq__op::IQ__WAIT) {
        const iq__op &wait = s->ops.front();
        stream *holder = NULL;
        if (wait.event->done >= wait.record) break;
        for (stream *other : streams)
            for (const iq__op &op : other->ops)
                if (op.kind == iq__op::IQ__RECORD && op.event == wait.event && op.record >= wait.record)
                    holder = holder ? holder : other;
        if (!holder) break; /* it was dropped after a sticky error */
        s = holder;
    }
    return s;
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
        code = front_run(ready(next));
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
        s->given++;
        s->loose = s->joined;
        return IQ_CUDA_OK;
    }
    s->ops.push_back(std::move(op));
    return IQ_CUDA_OK;
}

/* Drops the capture that this stream began, with all that joined it. */
static void capture_leave(const stream *s)
{
    graph *g = s->capture;
    for (stream *other : streams)
        if (other->capture == g && other != s) other->capture = NULL;
    delete g;
}

int iq__stream_destroy(void *handle)
{
    for (size_t i = 1; i < streams.size(); i++) {
        stream *s = streams[i];
        if (s != handle) continue;
        int code = drain(s);
        streams.erase(streams.begin() + (long)i);
        if (s->capture && !s->joined) capture_leave(s);
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
    s->capture = new graph{++ids, {}};
    s->joined = s->loose = false;
    s->given = 0;
    return IQ_CUDA_OK;
}

int iq__capture_end(void *handle, void **out)
{
    stream *s = stream_of(handle);
    if (!s) return IQ_CUDA_INVALID_HANDLE;
    if (!s->capture) return IQ_CUDA_INVALID_VALUE;
    if (s->joined) return IQ_CUDA_CAPTURE_UNMATCHED;
    for (const stream *other : streams) {
        if (other->capture != s->capture || !other->loose) continue;
        capture_leave(s);
        s->capture = NULL;
        return IQ_CUDA_CAPTURE_UNJOINED;
    }
    graphs.push_back(s->capture);
    for (stream *other : streams)
        if (other != s && other->capture == s->capture) other->capture = NULL;
    s->capture = NULL;
    *out = graphs.back();
    return IQ_CUDA_OK;
}

/* As CUDA ends a capture whose end fails. */
void iq__captures_drop(void)
{
    for (stream *s : streams) {
        if (!s->capture || s->joined) continue;
        capture_leave(s);
        s->capture = NULL;
    }
}

int iq__stream_is_capturing(void *handle, int *capturing)
{
    const stream *s = stream_of(handle);
    if (s) *capturing = s->capture != NULL;
    return s ? IQ_CUDA_OK : IQ_CUDA_INVALID_HANDLE;
}

/* ---- events ---- */

int iq__event_create(void **out)
{
    events.push_back(std::make_shared<iq__event>());
    events.back()->device = iq__device;
    *out = events.back().get();
    return IQ_CUDA_OK;
}

static std::shared_ptr<iq__event> event_of(void *handle)
{
    for (const auto &e : events)
        if (e.get() == handle) return e;
    return NULL;
}

/* What is queued keeps it. */
int iq__event_destroy(void *handle)
{
    for (size_t i = 0; i < events.size(); i++) {
        if (events[i].get() != handle) continue;
        events.erase(events.begin() + (long)i);
        return IQ_CUDA_OK;
    }
    return IQ_CUDA_INVALID_HANDLE;
}

int iq__event_record(void *handle, void *where)
{
    auto e = event_of(handle);
    stream *s = stream_of(where);
    if (!e || !s || e->device != iq__stream_device(where)) return IQ_CUDA_INVALID_HANDLE;
    e->capture = s->capture ? s->capture->id : 0;
    e->stream = s->id;
    e->given = s->given;
    if (s->capture) return IQ_CUDA_OK;
    struct iq__op op = {};
    op.kind = iq__op::IQ__RECORD;
    op.event = e;
    op.record = ++e->recorded;
    s->ops.push_back(std::move(op));
    return IQ_CUDA_OK;
}

/* A graph keeps its operations in the order in which they were given, which no dependency contradicts: inside a capture
 * an event says only who belongs to it. */
static int capture_join(stream *s, const iq__event &e)
{
    graph *g = NULL;
    if (s == streams[0]) return IQ_CUDA_CAPTURE_UNSUPPORTED;
    for (stream *other : streams)
        if (other->capture && other->capture->id == e.capture) g = other->capture;
    if (!g) return IQ_CUDA_CAPTURED_EVENT;
    if (s->capture && s->capture != g) return IQ_CUDA_CAPTURE_MERGE;
    if (!s->capture) {
        s->capture = g;
        s->joined = true;
        s->given = 0;
    }
    s->loose = s->joined;
    for (stream *other : streams)
        if (other->capture == g && other->id == e.stream && other->given == e.given && other != s)
            other->loose = false;
    return IQ_CUDA_OK;
}

int iq__stream_wait(void *where, void *handle)
{
    auto e = event_of(handle);
    stream *s = stream_of(where);
    if (!e || !s) return IQ_CUDA_INVALID_HANDLE;
    if (e->capture) return capture_join(s, *e);
    if (!e->recorded) return IQ_CUDA_OK;
    if (s->capture) return IQ_CUDA_CAPTURE_ISOLATION;
    struct iq__op op = {};
    op.kind = iq__op::IQ__WAIT;
    op.event = e;
    op.record = e->recorded;
    s->ops.push_back(std::move(op));
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
