/* The trial's side of the pipe. */
#include "golden/wire_frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER = 64 << 10, ROWS = 512 };

struct iq_wire_out {
    int fd;
    size_t used, rows;
    bool last; /* end or fail was written */
    struct iq_err err;
    char buf[BUFFER];
    struct iq__wire_row row[ROWS]; /* the batch that gathers */
};

static int write_all(struct iq_wire_out *o, const char *p, size_t n)
{
    while (n) {
        ssize_t w = write(o->fd, p, n);
        if (w < 0 && errno == EINTR) continue;
        if (w < 0)
            return iq_fail(&o->err, IQ_IO, "the coordinator is gone: writing to it: %s", strerror(errno));
        p += w;
        n -= (size_t)w;
    }
    return IQ_OK;
}

static int flush(struct iq_wire_out *o)
{
    IQ_TRY(write_all(o, o->buf, o->used));
    o->used = 0;
    return IQ_OK;
}

static int put(struct iq_wire_out *o, const void *bytes, size_t n)
{
    if (o->used + n > BUFFER) IQ_TRY(flush(o));
    if (n > BUFFER) return write_all(o, bytes, n);
    if (n) memcpy(o->buf + o->used, bytes, n);
    o->used += n;
    return IQ_OK;
}

static int head(struct iq_wire_out *o, enum iq__wire_type type, uint64_t len)
{
    if (o->err.status) return o->err.status;
    if (o->last) return iq_fail(&o->err, IQ_INTERNAL, "a frame after the last one");
    if (len > IQ_WIRE_FRAME)
        return iq_fail(&o->err, IQ_LIMIT, "a frame of %llu bytes; the limit is %d", (unsigned long long)len,
                       IQ_WIRE_FRAME);
    struct iq__wire_head h = {type, (uint32_t)len};
    return put(o, &h, sizeof h);
}

/* Rows gather, so every other frame sends them first: order is kept. */
static int rows_send(struct iq_wire_out *o)
{
    size_t n = o->rows;
    if (!n) return o->err.status;
    o->rows = 0;
    IQ_TRY(head(o, IQ__WIRE_ROWS, n * sizeof *o->row));
    return put(o, o->row, n * sizeof *o->row);
}

static int frame(struct iq_wire_out *o, enum iq__wire_type type, const void *a, size_t na, const void *b,
                 size_t nb)
{
    IQ_TRY(rows_send(o));
    IQ_TRY(head(o, type, (uint64_t)na + nb));
    IQ_TRY(put(o, a, na));
    return put(o, b, nb);
}

int iq_wire_open(int fd, struct iq_wire_out **out, struct iq_err *err)
{
    *out = calloc(1, sizeof **out);
    if (!*out) return iq_fail(err, IQ_MEMORY, "no memory for a pipe");
    (*out)->fd = fd;
    return IQ_OK;
}

void iq_wire_close(struct iq_wire_out *o) { free(o); }

int iq_wire_begin(struct iq_wire_out *o, const char *manifest, const struct iq_node *nodes, uint32_t n_nodes,
                  enum iq_level level, const char *name)
{
    struct iq__wire_begin b = {
        .magic = IQ__WIRE_MAGIC, .level = level, .n_nodes = n_nodes, .has_name = name != NULL};
    if (!name) name = "";
    size_t m = strlen(manifest) + 1, n = strlen(name) + 1, t = n_nodes * sizeof *nodes;
    if (m > IQ_WIRE_FRAME / 2 || n > IQ_STORE_NAME + 1)
        return iq_fail(&o->err, IQ_LIMIT, "a manifest of %zu bytes or a name of %zu", m, n);
    b.manifest_len = (uint32_t)m;
    b.name_len = (uint32_t)n;
    IQ_TRY(head(o, IQ__WIRE_BEGIN, (uint64_t)sizeof b + t + m + n));
    IQ_TRY(put(o, &b, sizeof b));
    IQ_TRY(put(o, nodes, t));
    IQ_TRY(put(o, manifest, m));
    IQ_TRY(put(o, name, n));
    return flush(o);
}

static int on_row(void *self, const struct iq_cell *c, struct iq_digest d, const void *bytes, size_t n)
{
    struct iq_wire_out *o = self;
    struct iq__wire_row r = {*c, d};
    if (o->err.status) return o->err.status;
    if (bytes) return frame(o, IQ__WIRE_CONTENTS, &r, sizeof r, bytes, n);
    o->row[o->rows++] = r;
    return o->rows == ROWS ? rows_send(o) : IQ_OK;
}

static int on_position(void *self, const struct iq_position *p)
{
    return frame(self, IQ__WIRE_POSITION, p, sizeof *p, NULL, 0);
}
static int on_fired(void *self, const struct iq_firing *f)
{
    return frame(self, IQ__WIRE_FIRED, f, sizeof *f, NULL, 0);
}

static int on_done(void *self, const struct iq_request_end *e)
{
    struct iq_wire_out *o = self;
    const char *text[4] = {e->id, e->params, e->text, e->finish};
    struct iq__wire_done d = {
        .chain = e->chain, .request = e->request, .n_ids = e->n_ids, .n_prompt = e->n_prompt};
    uint64_t total = sizeof d + 4ull * e->n_ids;
    for (int i = 0; i < 4; i++) {
        if (!text[i]) text[i] = "";
        size_t n = strlen(text[i]) + 1;
        total += n;
        d.len[i] = (uint32_t)n;
    }
    IQ_TRY(rows_send(o));
    IQ_TRY(head(o, IQ__WIRE_DONE, total));
    IQ_TRY(put(o, &d, sizeof d));
    IQ_TRY(put(o, e->ids, 4 * (size_t)e->n_ids));
    for (int i = 0; i < 4; i++) IQ_TRY(put(o, text[i], d.len[i]));
    return flush(o);
}

struct iq_sink iq_wire_sink(struct iq_wire_out *o)
{
    return (struct iq_sink){
        .self = o, .row = on_row, .position = on_position, .fired = on_fired, .done = on_done};
}

int iq_wire_progress(struct iq_wire_out *o, const struct iq_wire_progress *p)
{
    IQ_TRY(frame(o, IQ__WIRE_PROGRESS, p, sizeof *p, NULL, 0));
    return flush(o);
}

int iq_wire_note(struct iq_wire_out *o, const char *text)
{
    IQ_TRY(frame(o, IQ__WIRE_NOTE, text, strnlen(text, IQ_WIRE_NOTE - 1), "", 1));
    return flush(o);
}

static int last_frame(struct iq_wire_out *o, enum iq__wire_type type, const void *a, size_t na, const void *b,
                      size_t nb)
{
    IQ_TRY(frame(o, type, a, na, b, nb));
    o->last = true;
    return flush(o);
}

int iq_wire_fail(struct iq_wire_out *o, const struct iq_err *why)
{
    int32_t status = why->status;
    return last_frame(o, IQ__WIRE_FAIL, &status, sizeof status, why->text, strlen(why->text) + 1);
}

int iq_wire_end(struct iq_wire_out *o) { return last_frame(o, IQ__WIRE_END, NULL, 0, NULL, 0); }
