/* The writer: a sink that fills transactions, and the life cycle of a run. */
#include "golden/store_write.h"

#include "kernels/base/buf.h"

#include <stdlib.h>
#include <time.h>

static const size_t TXN_BYTES = 16 << 20; /* a transaction is committed when it has grown to this */

/* ---- transactions ---- */

/* Records a failure and gives up the transaction. */
static int writer_fail(struct iq_writer *w, int status)
{
    if (!w->err.status) iq_fail(&w->err, status, "%s: the run can't be written", w->store->path);
    iq__write_abort(w->store, w->txn);
    w->txn = NULL;
    return status;
}

static int firings_flush(struct iq_writer *w)
{
    size_t n = w->rec.firings % IQ__FIRINGS;
    if (!n || w->imported) return IQ_OK;
    struct iq__key k = iq__key2(w->ord, (uint32_t)(w->rec.firings / IQ__FIRINGS));
    return iq__put(w->store, w->txn, IQ__DB_FIRINGS, &k, w->firing, n * sizeof *w->firing, &w->err);
}

int iq__writer_commit(struct iq_writer *w)
{
    struct iq__key k = iq__key1(w->ord);
    if (!w->txn) return IQ_OK;
    IQ_TRY(firings_flush(w));
    IQ_TRY(iq__put(w->store, w->txn, IQ__DB_RUNS, &k, &w->rec, sizeof w->rec, &w->err));
    MDB_txn *txn = w->txn;
    w->txn = NULL;
    w->txn_bytes = 0;
    return iq__write_commit(w->store, txn, &w->err);
}

int iq__writer_txn(struct iq_writer *w, size_t bytes)
{
    if (w->txn && w->txn_bytes + bytes > TXN_BYTES) IQ_TRY(iq__writer_commit(w));
    if (w->txn) return IQ_OK;
    return iq__write_begin(w->store, 4 * TXN_BYTES + 2 * bytes, &w->txn, &w->err);
}

int iq__writer_put(struct iq_writer *w, enum iq__db db, const struct iq__key *key, const void *bytes,
                   size_t n)
{
    IQ_TRY(iq__writer_txn(w, n));
    w->txn_bytes += n + key->n + 64;
    return iq__put(w->store, w->txn, db, key, bytes, n, &w->err);
}

/* ---- sink ---- */

static int contents_put(struct iq_writer *w, const struct iq_cell *c, struct iq_digest d, const void *bytes,
                        size_t n)
{
    if (n > IQ__VALUE_MAX)
        return iq_fail(&w->err, IQ_LIMIT,
                       "request %u position %u node %u: contents of %zu bytes, the limit is %d", c->request,
                       c->pos, c->node, n, IQ__VALUE_MAX);
    struct iq__tensor_rec rec = {.digest = d, .len = (uint32_t)n};
    struct iq__key blob = iq__key_blob(d, rec.len),
                   k = iq__key_cell(w->ord, c->request, c->pos, c->attempt, c->node);
    MDB_val v;
    IQ_TRY(iq__writer_txn(w, n));
    int rc = iq__get(w->store, w->txn, IQ__DB_BLOBS, &blob, &v, &w->err);
    if (rc == IQ_NOT_FOUND) rc = iq__writer_put(w, IQ__DB_BLOBS, &blob, bytes, n);
    IQ_TRY(rc);
    w->rec.tensors++;
    return iq__writer_put(w, IQ__DB_TENSORS, &k, &rec, sizeof rec);
}

static int on_row(void *self, const struct iq_cell *c, struct iq_digest d, const void *bytes, size_t n)
{
    struct iq_writer *w = self;
    if (w->err.status) return w->err.status;
    if (w->rec.level < IQ_LEVEL_OPS) return IQ_OK;
    int rc = iq__gather_row(w, c, d);
    if (!rc && bytes && w->rec.level == IQ_LEVEL_TENSORS) rc = contents_put(w, c, d, bytes, n);
    return rc ? writer_fail(w, rc) : IQ_OK;
}

static int on_position(void *self, const struct iq_position *p)
{
    struct iq_writer *w = self;
    if (w->err.status) return w->err.status;
    int rc = iq__gather_position(w, p);
    return rc ? writer_fail(w, rc) : IQ_OK;
}

static int on_fired(void *self, const struct iq_firing *f)
{
    struct iq_writer *w = self;
    if (w->err.status) return w->err.status;
    w->firing[w->rec.firings % IQ__FIRINGS] = *f;
    int rc = IQ_OK;
    if (++w->rec.firings % IQ__FIRINGS == 0) {
        struct iq__key k = iq__key2(w->ord, (uint32_t)(w->rec.firings / IQ__FIRINGS - 1));
        rc = iq__writer_put(w, IQ__DB_FIRINGS, &k, w->firing, sizeof w->firing);
    }
    return rc ? writer_fail(w, rc) : IQ_OK;
}

static int request_put(struct iq_writer *w, const struct iq_request_end *e)
{
    const char *text[4] = {e->id, e->params, e->text, e->finish};
    struct iq__request_rec r = {.chain = e->chain, .n_ids = e->n_ids, .n_prompt = e->n_prompt};
    uint64_t total = sizeof r + 4ull * e->n_ids;
    for (int i = 0; i < 4; i++) {
        if (!text[i]) text[i] = "";
        size_t n = strlen(text[i]) + 1;
        if (n > IQ__VALUE_MAX) total = UINT64_MAX / 2;
        r.len[i] = (uint32_t)n;
        total += n;
    }
    if (total > IQ__VALUE_MAX || e->n_prompt > e->n_ids)
        return iq_fail(&w->err, IQ_LIMIT,
                       "request %u: its end has %llu bytes (the limit is %d), %u ids, %u of them prompt",
                       e->request, (unsigned long long)total, IQ__VALUE_MAX, e->n_ids, e->n_prompt);
    char *buf = malloc(total), *at = buf;
    if (!buf) return iq_fail(&w->err, IQ_MEMORY, "no memory for the end of request %u", e->request);
    memcpy(at, &r, sizeof r);
    at += sizeof r;
    if (e->n_ids) memcpy(at, e->ids, 4 * (size_t)e->n_ids);
    at += 4 * (size_t)e->n_ids;
    for (int i = 0; i < 4; at += r.len[i], i++) memcpy(at, text[i], r.len[i]);
    struct iq__key k = iq__key2(w->ord, e->request);
    int rc = iq__writer_put(w, IQ__DB_REQUESTS, &k, buf, total);
    free(buf);
    return rc;
}

static int request_end(struct iq_writer *w, const struct iq_request_end *e)
{
    uint32_t length;
    IQ_TRY(iq__gather_end(w, e->request, &length));
    IQ_TRY(request_put(w, e));
    w->rec.requests++;
    w->rec.positions += length;
    return w->rec.mode == IQ_WRITE_GOLDEN ? iq__writer_commit(w) : IQ_OK;
}

static int on_done(void *self, const struct iq_request_end *e)
{
    struct iq_writer *w = self;
    if (w->err.status) return w->err.status;
    int rc = request_end(w, e);
    return rc ? writer_fail(w, rc) : IQ_OK;
}

struct iq_sink iq_writer_sink(struct iq_writer *w)
{
    return (struct iq_sink){.self = w,
                            .row = w->rec.level >= IQ_LEVEL_OPS ? on_row : NULL,
                            .position = on_position,
                            .fired = on_fired,
                            .done = on_done};
}

bool iq_writer_has(struct iq_writer *w, uint32_t request)
{
    struct iq__key k = iq__key2(w->ord, request);
    MDB_val v;
    return !w->err.status && !iq__writer_txn(w, 0) &&
           !iq__get(w->store, w->txn, IQ__DB_REQUESTS, &k, &v, &w->err);
}

const char *iq_writer_run(const struct iq_writer *w) { return w->id; }
const struct iq_err *iq_writer_error(const struct iq_writer *w) { return &w->err; }

/* ---- begin ---- */

static int doc_put(struct iq_writer *w, char kind, const void *bytes, size_t n)
{
    struct iq__key k = iq__key_doc(w->ord, kind);
    return iq__writer_put(w, IQ__DB_DOCS, &k, bytes, n);
}

int iq__writer_publish(struct iq_writer *w)
{
    struct iq__key k = {.n = 0}, ord = iq__key1(w->ord);
    iq__key_digest(&k, w->rec.id);
    IQ_TRY(iq__writer_put(w, IQ__DB_IDS, &k, ord.b, ord.n));
    if (w->name) IQ_TRY(iq__name_put(w->store, w->txn, w->name, w->rec.id, w->move_name, &w->err));
    w->published = true;
    return IQ_OK;
}

int iq__writer_ordinal(struct iq_writer *w)
{
    MDB_cursor *c;
    MDB_val k, v;
    int rc = mdb_cursor_open(w->txn, w->store->env->db[IQ__DB_RUNS], &c);
    if (rc) return iq__mdb_fail(w->store, rc, "runs", &w->err);
    rc = mdb_cursor_get(c, &k, &v, MDB_LAST);
    w->ord = !rc && k.mv_size == 4 ? iq__u32_at(k.mv_data, 0) + 1 : 1;
    mdb_cursor_close(c);
    return rc && rc != MDB_NOTFOUND ? iq__mdb_fail(w->store, rc, "runs", &w->err) : IQ_OK;
}

/* A name that is another run's is refused before the work, not after it. */
static int name_free(struct iq_writer *w)
{
    if (!w->name) return IQ_OK;
    IQ_TRY(iq__name_check(w->name, &w->err));
    MDB_val k = {strlen(w->name), w->name}, v;
    int rc = iq__get_at(w->store, w->txn, IQ__DB_NAMES, k, &v, &w->err);
    if (rc) return rc == IQ_NOT_FOUND ? IQ_OK : rc;
    if (w->move_name || (v.mv_size == 16 && iq_digest_equal(iq__digest_at(v.mv_data), w->rec.id)))
        return IQ_OK;
    return iq_fail(&w->err, IQ_EXISTS,
                   "%s: the name '%s' is taken by another run; choose another, or move it (--move-name)",
                   w->store->path, w->name);
}

static int begin_new(struct iq_writer *w, const struct iq_write_spec *spec)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    IQ_TRY(iq__writer_ordinal(w));
    w->rec.created_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    IQ_TRY(doc_put(w, 'm', spec->manifest, strlen(spec->manifest)));
    IQ_TRY(doc_put(w, 'n', spec->nodes, spec->n_nodes * sizeof *spec->nodes));
    if (spec->mode == IQ_WRITE_GOLDEN) IQ_TRY(iq__writer_publish(w));
    return iq__writer_commit(w);
}

static int begin_resume(struct iq_writer *w, uint32_t ord, const struct iq_write_spec *spec)
{
    struct iq__key k = iq__key_doc(ord, 'n');
    MDB_val v;
    w->ord = ord;
    w->published = true;
    IQ_TRY(iq__run_get(w->store, w->txn, ord, &w->rec, &w->err));
    if (w->rec.mode != IQ_WRITE_GOLDEN || w->rec.level != (uint32_t)spec->level)
        return iq_fail(&w->err, IQ_MISMATCH,
                       "run %s was recorded %s at level %s; it can't go on at level %s: remove or replace it",
                       w->id, w->rec.mode == IQ_WRITE_GOLDEN ? "by request" : "whole",
                       iq_level_text((int)w->rec.level), iq_level_text(spec->level));
    int rc = iq__get(w->store, w->txn, IQ__DB_DOCS, &k, &v, &w->err);
    if (rc || v.mv_size != spec->n_nodes * sizeof *spec->nodes || memcmp(v.mv_data, spec->nodes, v.mv_size))
        return iq_fail(&w->err, IQ_MISMATCH,
                       "run %s has another node table than this build makes; remove or replace it", w->id);
    if (w->name) IQ_TRY(iq__name_put(w->store, w->txn, w->name, w->rec.id, w->move_name, &w->err));
    MDB_txn *txn = w->txn;
    w->txn = NULL;
    IQ_TRY(iq__write_commit(w->store, txn, &w->err));
    IQ_TRY(iq__prune(w->store, ord, &w->err));
    IQ_TRY(iq__writer_txn(w, 0));
    IQ_TRY(iq__run_get(w->store, w->txn, ord, &w->rec, &w->err));
    k = iq__key2(ord, (uint32_t)(w->rec.firings / IQ__FIRINGS));
    rc = iq__get(w->store, w->txn, IQ__DB_FIRINGS, &k, &v, &w->err);
    if (!rc && v.mv_size <= sizeof w->firing) memcpy(w->firing, v.mv_data, v.mv_size);
    return rc == IQ_NOT_FOUND ? IQ_OK : rc;
}

static int begin(struct iq_writer *w, const struct iq_write_spec *spec)
{
    uint32_t ord;
    IQ_TRY(iq__writer_txn(w, 0));
    IQ_TRY(name_free(w));
    int rc = iq__run_by_id(w->store, w->txn, w->rec.id, &ord, &w->err);
    if (rc == IQ_NOT_FOUND || (!rc && spec->replace)) return begin_new(w, spec);
    if (rc) return rc;
    if (spec->resume && spec->mode == IQ_WRITE_GOLDEN) return begin_resume(w, ord, spec);
    return iq_fail(&w->err, IQ_EXISTS,
                   "%s: run %s (this very manifest) is there already; resume, replace or remove it",
                   w->store->path, w->id);
}

static void writer_free(struct iq_writer *w)
{
    iq__table_free(&w->requests);
    iq__table_free(&w->cells);
    free(w->width);
    free(w->name);
    free(w);
}

int iq_store_begin(struct iq_store *s, const struct iq_write_spec *spec, struct iq_writer **out,
                   struct iq_err *err)
{
    *out = NULL;
    IQ_TRY(iq__check_nodes(spec->nodes, (size_t)spec->n_nodes * sizeof *spec->nodes, spec->n_nodes, err));
    IQ_TRY(iq__lock(s, err));
    struct iq_writer *w = calloc(1, sizeof *w);
    if (w) {
        w->store = s;
        w->move_name = spec->move_name;
        w->rec = (struct iq__run_rec){.id = iq_digest_bytes(spec->manifest, strlen(spec->manifest)),
                                      .mode = spec->mode,
                                      .level = spec->level,
                                      .n_nodes = spec->n_nodes};
        iq_digest_hex(w->rec.id, w->id);
        if (spec->name) w->name = strdup(spec->name);
    }
    int rc = IQ_OK;
    if (!w || (spec->name && !w->name)) rc = iq_fail(err, IQ_MEMORY, "%s: no memory for a writer", s->path);
    if (!rc && (rc = begin(w, spec))) {
        writer_fail(w, rc);
        if (err) *err = w->err;
    }
    if (rc) {
        if (w) writer_free(w);
        iq__unlock(s);
        return rc;
    }
    *out = w;
    return IQ_OK;
}

/* ---- end ---- */

/* Requests without an end leave nothing behind. */
static int drop_unfinished(struct iq_writer *w)
{
    if (!w->requests.n) return IQ_OK;
    IQ_TRY(iq__writer_commit(w));
    IQ_TRY(iq__prune(w->store, w->ord, &w->err));
    struct iq__run_rec rec;
    IQ_TRY(iq__writer_txn(w, 0));
    IQ_TRY(iq__run_get(w->store, w->txn, w->ord, &rec, &w->err));
    w->rec.firings = rec.firings;
    struct iq__key k = iq__key2(w->ord, (uint32_t)(rec.firings / IQ__FIRINGS));
    MDB_val v;
    int rc = iq__get(w->store, w->txn, IQ__DB_FIRINGS, &k, &v, &w->err);
    if (!rc && v.mv_size <= sizeof w->firing) memcpy(w->firing, v.mv_data, v.mv_size);
    return rc == IQ_NOT_FOUND ? IQ_OK : rc;
}

/* A manifest that says so, and its id. */
static int crashed(struct iq_writer *w)
{
    struct iq__key k = iq__key_doc(w->ord, 'm');
    MDB_val v;
    if (w->crashed || w->rec.mode != IQ_WRITE_TRIAL) return IQ_OK;
    IQ_TRY(iq__writer_txn(w, 0));
    IQ_TRY(iq__get(w->store, w->txn, IQ__DB_DOCS, &k, &v, &w->err));
    struct iq_buf text = IQ_BUF(IQ__VALUE_MAX);
    iq_buf_put(&text, v.mv_data, v.mv_size ? v.mv_size - 1 : 0); /* without the object's end */
    iq_buf_printf(&text, "%s\"crashed\":true}", v.mv_size > sizeof "{}" - 1 ? "," : "");
    int rc = text.failed ? iq_fail(&w->err, IQ_MEMORY, "no memory for a manifest") : IQ_OK;
    if (!rc) rc = doc_put(w, 'm', text.data, text.len);
    if (!rc) w->rec.id = iq_digest_bytes(text.data, text.len);
    iq_buf_free(&text);
    iq_digest_hex(w->rec.id, w->id);
    w->crashed = rc == IQ_OK;
    return rc;
}

int iq_writer_crashed(struct iq_writer *w, struct iq_err *err)
{
    int rc = w->err.status ? w->err.status : crashed(w);
    if (!rc) return IQ_OK;
    writer_fail(w, rc);
    if (err) *err = w->err;
    return rc;
}

static int finish(struct iq_writer *w, enum iq_run_state state, const char *message)
{
    if (state != IQ_RUN_COMPLETE && state != IQ_RUN_CRASHED)
        return iq_fail(&w->err, IQ_USAGE, "a run ends complete or crashed, not %s", iq_run_state_text(state));
    IQ_TRY(drop_unfinished(w));
    IQ_TRY(iq__writer_txn(w, 0));
    w->rec.state = state;
    if (state == IQ_RUN_CRASHED) IQ_TRY(crashed(w));
    if (message && *message) IQ_TRY(doc_put(w, 'e', message, strlen(message)));
    if (!w->published) IQ_TRY(iq__writer_publish(w));
    return iq__writer_commit(w);
}

int iq_writer_finish(struct iq_writer *w, enum iq_run_state state, const char *message, struct iq_err *err)
{
    int rc = w->err.status ? w->err.status : finish(w, state, message);
    if (rc) {
        writer_fail(w, rc);
        if (err) *err = w->err;
        return rc;
    }
    iq__sweep(w->store, NULL); /* a run that this one replaced; what is left over the next writer removes */
    iq__unlock(w->store);
    writer_free(w);
    return IQ_OK;
}

void iq_writer_abort(struct iq_writer *w)
{
    if (!w) return;
    iq__write_abort(w->store, w->txn);
    w->txn = NULL;
    if (w->published)
        iq__prune(w->store, w->ord, NULL);
    else
        iq__sweep(w->store, NULL);
    iq__unlock(w->store);
    writer_free(w);
}
