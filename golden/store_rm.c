/* Removing. What is not published is garbage: a run without an entry in `ids`, a request without its end, contents
 * that no run names. Removal first unpublishes in one transaction, then clears up in bounded ones, so that kill -9 in
 * between leaves only garbage, which the next writer sweeps. */
#include "golden/store_env.h"
#include "kernels/base/grow.h"

#include <stdlib.h>

enum { BATCH = 20000 }; /* records a transaction */
static const uint64_t ROOM = 64ull << 20;

struct clear {
    struct iq_store *s;
    MDB_txn *txn;
    unsigned done;
};

static int clear_turn(struct clear *c, struct iq_err *err)
{
    if (++c->done % BATCH) return IQ_OK;
    int rc = iq__write_commit(c->s, c->txn, err);
    c->txn = NULL;
    return rc ? rc : iq__write_begin(c->s, ROOM, &c->txn, err);
}

/* All records of one table that start with `prefix`. */
static int clear_prefix(struct clear *c, enum iq__db db, struct iq__key prefix, struct iq_err *err)
{
    for (bool more = true; more;) {
        struct iq__scan scan;
        IQ_TRY(iq__scan_open(c->s, c->txn, db, prefix, &scan, err));
        scan.keys_only = true;
        int rc;
        unsigned n = 0;
        more = false;
        while ((rc = iq__scan_next(c->s, &scan, err)) == IQ_OK) {
            int m = mdb_cursor_del(scan.cursor, 0);
            if (m) {
                rc = iq__mdb_fail(c->s, m, "removing", err);
                break;
            }
            c->done++;
            if ((more = ++n == BATCH)) break;
        }
        iq__scan_close(&scan);
        if (rc && rc != IQ_NOT_FOUND) return rc;
        if (!more) break;
        rc = iq__write_commit(c->s, c->txn, err);
        c->txn = NULL;
        IQ_TRY(rc);
        IQ_TRY(iq__write_begin(c->s, ROOM, &c->txn, err));
    }
    return IQ_OK;
}

static int clear_run(struct clear *c, uint32_t ord, struct iq_err *err)
{
    static const enum iq__db OF_RUN[] = {IQ__DB_DOCS,    IQ__DB_REQUESTS, IQ__DB_POSITIONS, IQ__DB_CELLS,
                                         IQ__DB_TENSORS, IQ__DB_FIRINGS,  IQ__DB_RUNS};
    for (size_t i = 0; i < sizeof OF_RUN / sizeof *OF_RUN; i++)
        IQ_TRY(clear_prefix(c, OF_RUN[i], iq__key1(ord), err));
    return IQ_OK;
}

static int key_order(const void *a, const void *b) { return memcmp(a, b, 20); }

int iq__blobs_named(struct iq_store *s, MDB_txn *txn, struct iq__key prefix, uint8_t (**out)[20], size_t *n,
                    struct iq_err *err)
{
    struct iq__scan scan;
    size_t cap = 0;
    *out = NULL;
    *n = 0;
    IQ_TRY(iq__scan_open(s, txn, IQ__DB_TENSORS, prefix, &scan, err));
    int rc;
    while ((rc = iq__scan_next(s, &scan, err)) == IQ_OK) {
        struct iq__tensor_rec rec;
        if (scan.value.mv_size != sizeof rec) continue;
        memcpy(&rec, scan.value.mv_data, sizeof rec);
        if ((rc = iq_grow(out, &cap, *n + 1, sizeof **out, err))) break;
        struct iq__key k = iq__key_blob(rec.digest, rec.len);
        memcpy((*out)[(*n)++], k.b, 20);
    }
    iq__scan_close(&scan);
    if (*n) qsort(*out, *n, sizeof **out, key_order);
    return rc == IQ_NOT_FOUND ? IQ_OK : rc;
}

static int clear_blobs(struct clear *c, struct iq_err *err)
{
    uint8_t(*named)[20] = NULL;
    size_t n = 0;
    int rc = iq__blobs_named(c->s, c->txn, (struct iq__key){.n = 0}, &named, &n, err);
    struct iq__key at = {.n = 0};
    while (!rc) {
        struct iq__scan scan;
        if ((rc = iq__scan_open(c->s, c->txn, IQ__DB_BLOBS, (struct iq__key){.n = 0}, &scan, err))) break;
        scan.keys_only = true;
        rc = iq__scan_seek(c->s, &scan, &at, err);
        while (!rc && scan.key.mv_size == 20 && n && bsearch(scan.key.mv_data, named, n, 20, key_order))
            rc = iq__scan_next(c->s, &scan, err);
        if (!rc) {
            at.n = scan.key.mv_size < 20 ? scan.key.mv_size : 20;
            memcpy(at.b, scan.key.mv_data, at.n);
            int m = mdb_cursor_del(scan.cursor, 0);
            if (m) rc = iq__mdb_fail(c->s, m, "removing", err);
        }
        iq__scan_close(&scan);
        if (!rc) rc = clear_turn(c, err);
    }
    free(named);
    return rc == IQ_NOT_FOUND ? IQ_OK : rc;
}

static int unpublished(struct clear *c, uint32_t from, uint32_t *ord, struct iq_err *err)
{
    struct iq__scan scan;
    struct iq__key at = iq__key1(from);
    IQ_TRY(iq__scan_open(c->s, c->txn, IQ__DB_RUNS, (struct iq__key){.n = 0}, &scan, err));
    int rc = iq__scan_seek(c->s, &scan, &at, err);
    for (; !rc; rc = iq__scan_next(c->s, &scan, err)) {
        struct iq__run_rec rec;
        uint32_t now;
        if (scan.key.mv_size != 4) {
            rc = iq_fail(err, IQ_FORMAT, "%s: runs: a key of %zu bytes", c->s->path, scan.key.mv_size);
            break;
        }
        *ord = iq__u32_at(scan.key.mv_data, 0);
        if ((rc = iq__run_get(c->s, c->txn, *ord, &rec, err))) break;
        rc = iq__run_by_id(c->s, c->txn, rec.id, &now, err);
        if (rc == IQ_NOT_FOUND || (!rc && now != *ord)) {
            rc = IQ_OK;
            break;
        }
        if (rc) break;
    }
    iq__scan_close(&scan);
    return rc;
}

int iq__sweep(struct iq_store *s, struct iq_err *err)
{
    struct clear c = {.s = s};
    uint32_t ord = 0;
    bool any = false;
    IQ_TRY(iq__write_begin(s, ROOM, &c.txn, err));
    int rc;
    while ((rc = unpublished(&c, ord, &ord, err)) == IQ_OK) {
        any = true;
        if ((rc = clear_run(&c, ord, err))) break;
    }
    if (rc == IQ_NOT_FOUND) rc = any ? clear_blobs(&c, err) : IQ_OK;
    if (rc || !any) {
        iq__write_abort(s, c.txn);
        return rc;
    }
    return iq__write_commit(s, c.txn, err);
}

/* The next request >= *request that has positions or cells in `db`; sets *ended. */
static int next_request(struct clear *c, enum iq__db db, uint32_t ord, uint32_t *request, bool *ended,
                        struct iq_err *err)
{
    struct iq__scan scan;
    struct iq__key at = iq__key2(ord, *request);
    IQ_TRY(iq__scan_open(c->s, c->txn, db, iq__key1(ord), &scan, err));
    scan.keys_only = true;
    int rc = iq__scan_seek(c->s, &scan, &at, err);
    if (!rc && scan.key.mv_size < 8)
        rc = iq_fail(err, IQ_FORMAT, "%s: a key of %zu bytes", c->s->path, scan.key.mv_size);
    if (!rc) *request = iq__u32_at(scan.key.mv_data, 4);
    iq__scan_close(&scan);
    if (rc) return rc;
    MDB_val v;
    at = iq__key2(ord, *request);
    rc = iq__get(c->s, c->txn, IQ__DB_REQUESTS, &at, &v, err);
    *ended = rc == IQ_OK;
    return rc == IQ_NOT_FOUND ? IQ_OK : rc;
}

/* Firings of requests that are committed stay, the others go with their requests. */
static int prune_firings(struct clear *c, uint32_t ord, uint64_t *left, struct iq_err *err)
{
    struct iq_firing f[IQ__FIRINGS], *keep = NULL;
    size_t n = 0, cap = 0;
    int rc = IQ_OK;
    for (uint32_t chunk = 0; !rc; chunk++) {
        struct iq__key k = iq__key2(ord, chunk);
        MDB_val v;
        if ((rc = iq__get(c->s, c->txn, IQ__DB_FIRINGS, &k, &v, err))) break;
        size_t count = v.mv_size / sizeof *f;
        if (v.mv_size > sizeof f) count = IQ__FIRINGS;
        memcpy(f, v.mv_data, count * sizeof *f);
        for (size_t i = 0; i < count && !rc; i++) {
            struct iq__key q = iq__key2(ord, f[i].request);
            if ((rc = iq__get(c->s, c->txn, IQ__DB_REQUESTS, &q, &v, err)) == IQ_NOT_FOUND) {
                rc = IQ_OK;
                continue;
            }
            if (!rc) rc = iq_grow(&keep, &cap, n + 1, sizeof *keep, err);
            if (!rc) keep[n++] = f[i];
        }
    }
    if (rc == IQ_NOT_FOUND) rc = clear_prefix(c, IQ__DB_FIRINGS, iq__key1(ord), err);
    for (size_t at = 0; !rc && at < n; at += IQ__FIRINGS) {
        size_t count = n - at < IQ__FIRINGS ? n - at : IQ__FIRINGS;
        struct iq__key k = iq__key2(ord, (uint32_t)(at / IQ__FIRINGS));
        rc = iq__put(c->s, c->txn, IQ__DB_FIRINGS, &k, keep + at, count * sizeof *keep, err);
    }
    free(keep);
    *left = n;
    return rc;
}

static int prune_requests(struct clear *c, uint32_t ord, struct iq_err *err)
{
    static const enum iq__db OF_REQUEST[] = {IQ__DB_POSITIONS, IQ__DB_CELLS, IQ__DB_TENSORS};
    for (size_t i = 0; i < sizeof OF_REQUEST / sizeof *OF_REQUEST; i++) {
        uint32_t request = 0;
        bool ended;
        int rc;
        while ((rc = next_request(c, OF_REQUEST[i], ord, &request, &ended, err)) == IQ_OK) {
            if (!ended) IQ_TRY(clear_prefix(c, OF_REQUEST[i], iq__key2(ord, request), err));
            if (++request == 0) break;
        }
        if (rc && rc != IQ_NOT_FOUND) return rc;
    }
    return IQ_OK;
}

int iq__prune(struct iq_store *s, uint32_t ord, struct iq_err *err)
{
    struct clear c = {.s = s};
    struct iq__run_rec rec;
    IQ_TRY(iq__write_begin(s, ROOM, &c.txn, err));
    int rc = prune_requests(&c, ord, err);
    if (!rc) rc = iq__run_get(s, c.txn, ord, &rec, err);
    if (!rc) rc = prune_firings(&c, ord, &rec.firings, err);
    struct iq__key k = iq__key1(ord);
    if (!rc) rc = iq__put(s, c.txn, IQ__DB_RUNS, &k, &rec, sizeof rec, err);
    if (rc) {
        iq__write_abort(s, c.txn);
        return rc;
    }
    return iq__write_commit(s, c.txn, err);
}

static int drop_key(struct iq_store *s, MDB_txn *txn, enum iq__db db, const void *key, size_t n,
                    struct iq_err *err)
{
    MDB_val k = {n, (void *)key};
    int m = mdb_del(txn, s->env->db[db], &k, NULL);
    return m ? iq__mdb_fail(s, m, iq__db_name(db), err) : IQ_OK;
}

/* One name of several, or the run's entry with all of its names. */
static int unpublish(struct iq_store *s, MDB_txn *txn, const char *run, char left[IQ_DIGEST_HEX],
                     struct iq_err *err)
{
    struct iq__run_rec rec;
    struct iq__key k = {.n = 0};
    char(*names)[IQ_STORE_NAME + 1];
    size_t n;
    uint32_t ord;
    int by_name = iq__run_by_name(s, txn, run, &ord, err);
    if (by_name == IQ_NOT_FOUND)
        IQ_TRY(iq__run_find(s, txn, run, &ord, err));
    else
        IQ_TRY(by_name);
    IQ_TRY(iq__run_get(s, txn, ord, &rec, err));
    IQ_TRY(iq__names_of(s, txn, rec.id, &names, &n, err));
    int rc = IQ_OK;
    if (by_name == IQ_OK && n > 1) {
        iq_digest_hex(rec.id, left);
        rc = drop_key(s, txn, IQ__DB_NAMES, run, strlen(run), err);
    } else {
        for (size_t i = 0; i < n && !rc; i++)
            rc = drop_key(s, txn, IQ__DB_NAMES, names[i], strlen(names[i]), err);
        iq__key_digest(&k, rec.id);
        if (!rc) rc = drop_key(s, txn, IQ__DB_IDS, k.b, k.n, err);
    }
    free(names);
    return rc;
}

int iq_store_rm(struct iq_store *s, const char *run, char left[IQ_DIGEST_HEX], struct iq_err *err)
{
    MDB_txn *txn;
    char kept[IQ_DIGEST_HEX];
    if (!left) left = kept;
    left[0] = 0;
    IQ_TRY(iq__lock(s, err));
    int rc = iq__write_begin(s, ROOM, &txn, err);
    if (!rc) {
        rc = unpublish(s, txn, run, left, err);
        if (rc)
            iq__write_abort(s, txn);
        else
            rc = iq__write_commit(s, txn, err);
    }
    if (!rc) rc = iq__sweep(s, err);
    iq__unlock(s);
    return rc == IQ_FULL ? IQ_OK : rc; /* the run is gone; the next writer that finds room frees its pages */
}

int iq_store_name(struct iq_store *s, const char *run, const char *name, bool move, struct iq_err *err)
{
    MDB_txn *txn;
    struct iq__run_rec rec;
    uint32_t ord;
    IQ_TRY(iq__lock(s, err));
    int rc = iq__write_begin(s, ROOM, &txn, err);
    if (!rc) {
        rc = iq__run_find(s, txn, run, &ord, err);
        if (!rc) rc = iq__run_get(s, txn, ord, &rec, err);
        if (!rc) rc = iq__name_put(s, txn, name, rec.id, move, err);
        if (rc)
            iq__write_abort(s, txn);
        else
            rc = iq__write_commit(s, txn, err);
    }
    iq__unlock(s);
    return rc;
}
