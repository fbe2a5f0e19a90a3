/* Streams and graphs of the shim: what is queued, and when it runs. All under the table's lock. */
#ifndef IQ_CUDA_SHIM_STREAMS_H
#define IQ_CUDA_SHIM_STREAMS_H

#include <memory>
#include <vector>

#include "kernels/cuda/shim/state.h"

/* The nth record is done when the stream it was queued on has come to it. Recorded in a capture, it marks a point of that
 * capture: how much its stream had been given by then. */
struct iq__event {
    int device;
    uint64_t recorded, done;
    uint64_t capture, stream, given; /* 0: the last record was in no capture */
};

struct iq__op {
    enum iq__op_kind { IQ__COPY, IQ__FILL, IQ__LAUNCH, IQ__RECORD, IQ__WAIT } kind;
    std::shared_ptr<iq__event> event;
    uint64_t record; /* of the event: which one is made or waited for */
    void *to;
    const void *from;
    size_t bytes;
    int byte;
    struct iq_shim_call call; /* name, args and arg_bytes are taken from what follows */
    std::vector<char> name, values;
    std::vector<size_t> arg_bytes;
};

/* Each gives 0 or a CUDA error code. NULL is the default stream. Work stays queued until somebody waits for it. */
int iq__stream_create(void **out);
int iq__stream_destroy(void *stream);
/* Until the stream is empty; under a random schedule other streams' work runs in between. */
int iq__stream_drain(void *stream);
int iq__streams_drain(void);
int iq__stream_put(void *stream, struct iq__op &&op);
int iq__stream_device(void *stream); /* -1: no such stream */
int iq__stream_is_capturing(void *stream, int *capturing);
int iq__stream_capturing(void); /* whether any stream is */
int iq__stream_wait(void *stream, void *event);
int iq__event_create(void **out);
int iq__event_destroy(void *event);
int iq__event_record(void *event, void *stream);
int iq__capture_begin(void *stream);
int iq__capture_end(void *stream, void **graph);
void iq__captures_drop(void); /* of all streams */
int iq__graph_instantiate(void **exec, void *graph);
int iq__graph_launch(void *exec, void *stream);
int iq__graph_destroy(void *graph); /* or an executable one */

#endif
