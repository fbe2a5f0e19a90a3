/* A trace: what a run did, whoever recorded it. A run in a store is one; an imported dump or a live server can be
 * another. The comparator sees nothing else.
 *
 * Ownership: pointers that a call hands out are borrowed from the trace until the next call of the same function
 * (manifest, nodes, id, message: until close). One thread at a time.
 * Errors: every function returns an iq_status; IQ_NOT_FOUND means "not recorded" and writes no sentence.
 */
#ifndef IQ_GOLDEN_TRACE_H
#define IQ_GOLDEN_TRACE_H

#include "kernels/base/cell.h"
#include "kernels/base/status.h"

#define IQ_RUN_STATE_MAP(X) X(RECORDING, "recording") X(COMPLETE, "complete") X(CRASHED, "crashed")
enum iq_run_state {
#define X(name, text) IQ_RUN_##name,
    IQ_RUN_STATE_MAP(X)
#undef X
        IQ_RUN_STATES
};
const char *iq_level_text(int level); /* "?" when out of range */
const char *iq_run_state_text(int state);

struct iq_trace {
    void *self;
    const char *id; /* 32 hex digits, or a file's name */
    const char *manifest;
    size_t manifest_len;
    const struct iq_node *nodes; /* (n_nodes), canonical order */
    uint32_t n_nodes;
    enum iq_level level;
    enum iq_run_state state;
    /* Why it crashed. Of a complete run: what libraries beside the kernels chose, as JSON, or "". */
    const char *message;

    /* The finished request with the smallest index >= at_least. */
    int (*request)(void *self, uint32_t at_least, struct iq_request_end *out, struct iq_err *);
    /* All positions of a request, 0 .. n-1, the last attempt of each. */
    int (*positions)(void *self, uint32_t request, const struct iq_position **out, size_t *n,
                     struct iq_err *);
    /* Digest and state (enum iq_cell_state, 0 absent) of each node at one position: (n_nodes) each. */
    int (*cells)(void *self, uint32_t request, uint32_t pos, uint32_t attempt,
                 const struct iq_digest **digest, const uint8_t **state, struct iq_err *);
    /* The recorded contents of a cell, `n` bytes. */
    int (*tensor)(void *self, const struct iq_cell *, const void **bytes, size_t *n, struct iq_err *);
    /* The seq-th record of the firing log. */
    int (*firing)(void *self, uint64_t seq, struct iq_firing *out, struct iq_err *);
    void (*close)(void *self);
};

/* Safe on a zeroed trace. */
static inline void iq_trace_close(struct iq_trace *t)
{
    if (t->close) t->close(t->self);
    *t = (struct iq_trace){0};
}

#endif
