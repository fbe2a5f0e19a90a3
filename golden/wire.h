/* A run over a pipe: the trial process runs the engine and writes frames, the coordinator reads them and owns the
 * store. The reader trusts nothing: sizes, indices and strings are checked before use, a frame is at most 64 MiB, and
 * memory grows with the bytes that arrive, not with what a header claims.
 *
 * Frame: uint32 type, uint32 length, payload; little endian. Order: begin, then rows, positions, firings, ends,
 * progress, notes in any order, then end or fail. Whatever comes after is an error.
 */
#ifndef IQ_GOLDEN_WIRE_H
#define IQ_GOLDEN_WIRE_H

#include "golden/store.h"

enum { IQ_WIRE_FRAME = 64 << 20, IQ_WIRE_NOTE = 32 << 20 };

struct iq_wire_progress {
    uint64_t requests, requests_total, tokens, step;
};

/* ---- trial side ---- */

struct iq_wire_out;
/* fd is borrowed. SIGPIPE is the caller's to ignore; a reader that is gone is then IQ_IO. */
int iq_wire_open(int fd, struct iq_wire_out **out, struct iq_err *);
void iq_wire_close(struct iq_wire_out *); /* without a flush: end or fail did that */
int iq_wire_begin(struct iq_wire_out *, const char *manifest, const struct iq_node *nodes, uint32_t n_nodes,
                  enum iq_level level, const char *name);
/* Rows, positions, firings, ends. Buffered; flushed when full and at each request's end. */
struct iq_sink iq_wire_sink(struct iq_wire_out *);
int iq_wire_progress(struct iq_wire_out *, const struct iq_wire_progress *);
int iq_wire_note(struct iq_wire_out *, const char *text);
int iq_wire_fail(struct iq_wire_out *, const struct iq_err *why); /* the run failed; last frame */
int iq_wire_end(struct iq_wire_out *);                            /* the run is whole; last frame */

/* ---- coordinator side ---- */

/* What arrives. begin must give the sink for what follows; the others may be NULL. Failures end the reading. Strings
 * and arrays are borrowed for the call. */
struct iq_wire_handler {
    void *self;
    int (*begin)(void *self, const char *manifest, const struct iq_node *nodes, uint32_t n_nodes,
                 enum iq_level level, const char *name, struct iq_sink *sink, struct iq_err *);
    int (*progress)(void *self, const struct iq_wire_progress *);
    int (*note)(void *self, const char *text);
};
struct iq_wire_in;
int iq_wire_in_open(const struct iq_wire_handler *, struct iq_wire_in **out, struct iq_err *);
void iq_wire_in_close(struct iq_wire_in *);
/* Takes bytes in pieces of any size. The failure that the peer sent comes back with its status and sentence. */
int iq_wire_feed(struct iq_wire_in *, const void *bytes, size_t n, struct iq_err *);
/* The stream is over: IQ_OK after an end frame, otherwise IQ_CRASHED and where it broke off. */
int iq_wire_eof(const struct iq_wire_in *, struct iq_err *);
/* Reads fd until its end. silence_ms: IQ_LIMIT when nothing arrives for so long; 0: for ever. */
int iq_wire_serve(int fd, const struct iq_wire_handler *, uint32_t silence_ms, struct iq_err *);

#endif
