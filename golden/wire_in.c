/* The coordinator's side of the pipe. */
#include "golden/wire_frame.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct iq_wire_in {
    struct iq_wire_handler handler;
    struct iq_sink sink;
    bool begun, over, ended; /* over: end or fail was seen */
    uint32_t n_nodes;
    uint64_t offset; /* of the frame that gathers, in the stream */
    char *buf;       /* malloc'd, so aligned; head at 8 bytes before a multiple of 8 */
    size_t used, cap;
};

static const char *const NAME[IQ__WIRE_TYPES] = {
#define X(name, text) text,
    IQ__WIRE_MAP(X)
#undef X
};

#define MALFORMED(in, err, type, what)                                                                       \
    iq_fail(err, IQ_FORMAT, "from the trial, byte %llu: a frame '%s': %s", (unsigned long long)(in)->offset, \
            NAME[type], what)

/* A string of `len` bytes with its NUL at the end and nowhere else. */
static bool string_ok(const char *s, size_t len) { return len && memchr(s, 0, len) == s + len - 1; }

static int take_begin(struct iq_wire_in *in, const char *p, size_t n, struct iq_err *err)
{
    struct iq__wire_begin b;
    if (in->begun) return MALFORMED(in, err, IQ__WIRE_BEGIN, "a second one");
    if (n < sizeof b) return MALFORMED(in, err, IQ__WIRE_BEGIN, "too short");
    memcpy(&b, p, sizeof b);
    uint64_t nodes = (uint64_t)b.n_nodes * sizeof(struct iq_node);
    if (b.magic != IQ__WIRE_MAGIC)
        return iq_fail(err, IQ_ABI, "from the trial: not a run, or one of another inquest");
    if (b.level >= IQ_LEVELS || b.n_nodes > 65535 || sizeof b + nodes + b.manifest_len + b.name_len != n)
        return MALFORMED(in, err, IQ__WIRE_BEGIN, "its lengths are not those of the frame");
    const char *manifest = p + sizeof b + nodes, *name = manifest + b.manifest_len;
    if (!string_ok(manifest, b.manifest_len) || !string_ok(name, b.name_len))
        return MALFORMED(in, err, IQ__WIRE_BEGIN, "a string is not ended where its length says");
    struct iq_node *copy = malloc(nodes ? nodes : 1); /* the frame's bytes are not aligned for them */
    if (!copy) return iq_fail(err, IQ_MEMORY, "no memory for %u nodes", b.n_nodes);
    memcpy(copy, p + sizeof b, nodes);
    in->begun = true;
    in->n_nodes = b.n_nodes;
    int rc = in->handler.begin(in->handler.self, manifest, copy, b.n_nodes, (enum iq_level)b.level,
                               b.has_name ? name : NULL, &in->sink, err);
    free(copy);
    return rc;
}

static int take_rows(struct iq_wire_in *in, const char *p, size_t n, struct iq_err *err)
{
    if (n % sizeof(struct iq__wire_row)) return MALFORMED(in, err, IQ__WIRE_ROWS, "not whole rows");
    for (; n; p += sizeof(struct iq__wire_row), n -= sizeof(struct iq__wire_row)) {
        struct iq__wire_row r;
        memcpy(&r, p, sizeof r);
        if (r.cell.node >= in->n_nodes)
            return MALFORMED(in, err, IQ__WIRE_ROWS, "a node that the run has not");
        if (in->sink.row) IQ_TRY(in->sink.row(in->sink.self, &r.cell, r.digest, NULL, 0));
    }
    return IQ_OK;
}

static int take_contents(struct iq_wire_in *in, const char *p, size_t n, struct iq_err *err)
{
    struct iq__wire_row r;
    if (n < sizeof r) return MALFORMED(in, err, IQ__WIRE_CONTENTS, "too short");
    memcpy(&r, p, sizeof r);
    if (r.cell.node >= in->n_nodes)
        return MALFORMED(in, err, IQ__WIRE_CONTENTS, "a node that the run has not");
    return in->sink.row ? in->sink.row(in->sink.self, &r.cell, r.digest, p + sizeof r, n - sizeof r) : IQ_OK;
}

static int take_position(struct iq_wire_in *in, const char *p, size_t n, struct iq_err *err)
{
    struct iq_position q;
    if (n != sizeof q) return MALFORMED(in, err, IQ__WIRE_POSITION, "another size");
    memcpy(&q, p, n);
    return in->sink.position ? in->sink.position(in->sink.self, &q) : IQ_OK;
}

static int take_fired(struct iq_wire_in *in, const char *p, size_t n, struct iq_err *err)
{
    struct iq_firing f;
    if (n != sizeof f) return MALFORMED(in, err, IQ__WIRE_FIRED, "another size");
    memcpy(&f, p, n);
    return in->sink.fired ? in->sink.fired(in->sink.self, &f) : IQ_OK;
}

static int take_done(struct iq_wire_in *in, const char *p, size_t n, struct iq_err *err)
{
    struct iq__wire_done d;
    if (n < sizeof d) return MALFORMED(in, err, IQ__WIRE_DONE, "too short");
    memcpy(&d, p, sizeof d);
    uint64_t need = sizeof d + 4ull * d.n_ids;
    for (int i = 0; i < 4; i++) need += d.len[i];
    if (need != n || d.n_prompt > d.n_ids)
        return MALFORMED(in, err, IQ__WIRE_DONE, "its lengths are not those of the frame");
    const char *s = p + sizeof d + 4 * (size_t)d.n_ids, *text[4];
    for (int i = 0; i < 4; s += d.len[i], i++) {
        if (!string_ok(s, d.len[i]))
            return MALFORMED(in, err, IQ__WIRE_DONE, "a string is not ended where its length says");
        text[i] = s;
    }
    struct iq_request_end e = {d.request, text[0],    text[1],
                               text[2],   text[3],    (const uint32_t *)(const void *)(p + sizeof d),
                               d.n_ids,   d.n_prompt, d.chain};
    return in->sink.done ? in->sink.done(in->sink.self, &e) : IQ_OK;
}

static int take_progress(struct iq_wire_in *in, const char *p, size_t n, struct iq_err *err)
{
    struct iq_wire_progress q;
    if (n != sizeof q) return MALFORMED(in, err, IQ__WIRE_PROGRESS, "another size");
    memcpy(&q, p, n);
    return in->handler.progress ? in->handler.progress(in->handler.self, &q) : IQ_OK;
}

static int take_note(struct iq_wire_in *in, const char *p, size_t n, struct iq_err *err)
{
    if (n > IQ_WIRE_NOTE || !string_ok(p, n))
        return MALFORMED(in, err, IQ__WIRE_NOTE, "too long, or not ended");
    return in->handler.note ? in->handler.note(in->handler.self, p) : IQ_OK;
}

static int take_fail(struct iq_wire_in *in, const char *p, size_t n, struct iq_err *err)
{
    int32_t status;
    if (n < sizeof status || n > sizeof status + sizeof err->text ||
        !string_ok(p + sizeof status, n - sizeof status))
        return MALFORMED(in, err, IQ__WIRE_FAIL, "too long, or not ended");
    memcpy(&status, p, sizeof status);
    in->over = true;
    if (status <= IQ_OK || status > IQ_INTERNAL) status = IQ_CRASHED;
    return iq_fail(err, status, "%s", p + sizeof status);
}

static int take_end(struct iq_wire_in *in, const char *p, size_t n, struct iq_err *err)
{
    (void)p;
    if (n) return MALFORMED(in, err, IQ__WIRE_END, "it has contents");
    in->over = in->ended = true;
    return IQ_OK;
}

static const struct {
    int (*take)(struct iq_wire_in *, const char *, size_t, struct iq_err *);
    bool before_begin;
} TAKE[IQ__WIRE_TYPES] = {
    [IQ__WIRE_BEGIN] = {take_begin, true},        [IQ__WIRE_ROWS] = {take_rows, false},
    [IQ__WIRE_CONTENTS] = {take_contents, false}, [IQ__WIRE_POSITION] = {take_position, false},
    [IQ__WIRE_FIRED] = {take_fired, false},       [IQ__WIRE_DONE] = {take_done, false},
    [IQ__WIRE_PROGRESS] = {take_progress, true},  [IQ__WIRE_NOTE] = {take_note, true},
    [IQ__WIRE_FAIL] = {take_fail, true},          [IQ__WIRE_END] = {take_end, false},
};

int iq_wire_in_open(const struct iq_wire_handler *h, struct iq_wire_in **out, struct iq_err *err)
{
    *out = calloc(1, sizeof **out);
    if (!*out) return iq_fail(err, IQ_MEMORY, "no memory for a pipe");
    (*out)->handler = *h;
    return IQ_OK;
}

void iq_wire_in_close(struct iq_wire_in *in)
{
    if (in) free(in->buf);
    free(in);
}

static int head_check(struct iq_wire_in *in, struct iq__wire_head h, struct iq_err *err)
{
    if (in->over)
        return iq_fail(err, IQ_FORMAT, "from the trial, byte %llu: more after the last frame",
                       (unsigned long long)in->offset);
    if (h.type >= IQ__WIRE_TYPES || h.len > IQ_WIRE_FRAME)
        return iq_fail(err, IQ_FORMAT,
                       "from the trial, byte %llu: a frame of type %u and %u bytes; there is none such",
                       (unsigned long long)in->offset, h.type, h.len);
    if (!in->begun && !TAKE[h.type].before_begin) return MALFORMED(in, err, h.type, "before the begin frame");
    return IQ_OK;
}

static int gather(struct iq_wire_in *in, const char *p, size_t n, struct iq_err *err)
{
    if (in->used + n > in->cap) {
        size_t cap = in->cap ? 2 * in->cap : 4096;
        while (cap < in->used + n) cap *= 2;
        char *more = realloc(in->buf, cap);
        if (!more) return iq_fail(err, IQ_MEMORY, "no memory for a frame of %zu bytes", in->used + n);
        in->buf = more;
        in->cap = cap;
    }
    memcpy(in->buf + in->used, p, n);
    in->used += n;
    return IQ_OK;
}

int iq_wire_feed(struct iq_wire_in *in, const void *bytes, size_t n, struct iq_err *err)
{
    const char *p = bytes;
    struct iq__wire_head h;
    while (n) {
        size_t want = sizeof h;
        if (in->used >= sizeof h) {
            memcpy(&h, in->buf, sizeof h);
            want += h.len;
        }
        size_t part = want - in->used < n ? want - in->used : n;
        IQ_TRY(gather(in, p, part, err));
        p += part;
        n -= part;
        if (in->used < sizeof h) continue;
        memcpy(&h, in->buf, sizeof h);
        if (in->used == sizeof h) IQ_TRY(head_check(in, h, err));
        if (in->used < sizeof h + h.len) continue;
        struct iq_err why = {0};
        int rc = TAKE[h.type].take(in, in->buf + sizeof h, h.len, &why);
        if (rc)
            return iq_fail(err, rc, "%s", why.status ? why.text : "what the trial sent could not be kept");
        in->offset += in->used;
        in->used = 0;
    }
    return IQ_OK;
}

int iq_wire_eof(const struct iq_wire_in *in, struct iq_err *err)
{
    if (in->ended) return IQ_OK;
    if (in->used)
        return iq_fail(err, IQ_CRASHED, "the trial's pipe broke off inside a frame, at byte %llu",
                       (unsigned long long)in->offset + in->used);
    return iq_fail(err, IQ_CRASHED, "the trial's pipe ended at byte %llu without an end frame",
                   (unsigned long long)in->offset);
}

static int serve(int fd, struct iq_wire_in *in, uint32_t silence_ms, struct iq_err *err)
{
    static const size_t PIECE = 64 << 10;
    char *buf = malloc(PIECE);
    int rc = buf ? IQ_OK : iq_fail(err, IQ_MEMORY, "no memory for a pipe");
    while (!rc) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int ready = silence_ms ? poll(&p, 1, (int)silence_ms) : 1;
        if (ready < 0 && errno == EINTR) continue;
        if (!ready) {
            rc = iq_fail(err, IQ_LIMIT, "the trial said nothing for %u ms", silence_ms);
            break;
        }
        ssize_t n = read(fd, buf, PIECE);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) rc = iq_fail(err, IQ_IO, "reading from the trial: %s", strerror(errno));
        if (n <= 0) break;
        rc = iq_wire_feed(in, buf, (size_t)n, err);
    }
    free(buf);
    return rc ? rc : iq_wire_eof(in, err);
}

int iq_wire_serve(int fd, const struct iq_wire_handler *handler, uint32_t silence_ms, struct iq_err *err)
{
    struct iq_wire_in *in;
    IQ_TRY(iq_wire_in_open(handler, &in, err));
    int rc = serve(fd, in, silence_ms, err);
    iq_wire_in_close(in);
    return rc;
}
