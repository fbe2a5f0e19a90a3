/* Transactions over the shared environment, the writer lock, and records. */
#include "golden/store_env.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int iq__txn_begin(struct iq__env *e, unsigned flags, MDB_txn **out)
{
    int rc = mdb_txn_begin(e->mdb, NULL, flags, out);
    if (rc == MDB_READERS_FULL) {
        int dead;
        mdb_reader_check(e->mdb, &dead);
        rc = mdb_txn_begin(e->mdb, NULL, flags, out);
    }
    if (rc == MDB_MAP_RESIZED && !e->txns) { /* another process grew it */
        rc = mdb_env_set_mapsize(e->mdb, 0);
        if (!rc) rc = mdb_txn_begin(e->mdb, NULL, flags, out);
    }
    return rc;
}

static int usable(const struct iq_store *s, struct iq_err *err)
{
    struct stat st;
    if (s->env->pid != getpid())
        return iq_fail(err, IQ_USAGE, "%s: the store was opened before a fork; open it again in this process",
                       s->path);
    if (fstat(s->env->fd, &st) || (uint64_t)st.st_size < s->env->need_bytes)
        return iq_fail(err, IQ_FORMAT, "%s: data.mdb was cut while it was open", s->path);
    return IQ_OK;
}

int iq__read_begin(struct iq_store *s, MDB_txn **out, struct iq_err *err)
{
    *out = NULL;
    IQ_TRY(usable(s, err));
    int rc = iq__txn_begin(s->env, MDB_RDONLY, out);
    if (rc == MDB_MAP_RESIZED)
        return iq_fail(err, IQ_LIMIT,
                       "%s: another process grew the store; close this process's readers of it first",
                       s->path);
    if (rc) return iq__mdb_fail(s, rc, "reading", err);
    s->env->txns++;
    return IQ_OK;
}

void iq__read_end(struct iq_store *s, MDB_txn *txn)
{
    if (!txn) return;
    mdb_txn_abort(txn);
    s->env->txns--;
}

static int map_room(struct iq_store *s, uint64_t room, struct iq_err *err)
{
    MDB_envinfo info;
    MDB_stat stat;
    struct iq__env *e = s->env;
    mdb_env_info(e->mdb, &info);
    mdb_env_stat(e->mdb, &stat);
    uint64_t used = (info.me_last_pgno + 1) * (uint64_t)stat.ms_psize, limit = s->options.max_bytes;
    uint64_t map = info.me_mapsize, want = used + room;
    if (want <= map || (limit && map >= limit)) return IQ_OK;
    if (e->txns)
        return iq_fail(err, IQ_LIMIT,
                       "%s: the map must grow; close this process's readers of the store first", s->path);
    while (map < want) map *= 2;
    if (limit && map > limit) map = limit;
    int rc = mdb_env_set_mapsize(e->mdb, map);
    return rc ? iq__mdb_fail(s, rc, "growing the map", err) : IQ_OK;
}

int iq__write_begin(struct iq_store *s, uint64_t room, MDB_txn **out, struct iq_err *err)
{
    *out = NULL;
    IQ_TRY(usable(s, err));
    IQ_TRY(map_room(s, room, err));
    int rc = iq__txn_begin(s->env, 0, out);
    if (rc) return iq__mdb_fail(s, rc, "writing", err);
    s->env->txns++;
    return IQ_OK;
}

int iq__write_commit(struct iq_store *s, MDB_txn *txn, struct iq_err *err)
{
    int rc = mdb_txn_commit(txn);
    s->env->txns--;
    return rc ? iq__mdb_fail(s, rc, "committing", err) : IQ_OK;
}

void iq__write_abort(struct iq_store *s, MDB_txn *txn) { iq__read_end(s, txn); }

/* ---- the writer lock ---- */

static int lock_take(struct iq_store *s, struct iq_err *err)
{
    char file[4096];
    struct iq__env *e = s->env;
    IQ_TRY(iq__file_in(s->path, "writer.lock", file, err));
    int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return iq_fail(err, IQ_IO, "%s: %s", file, strerror(errno));
    /* A POSIX lock: it names its holder, dies with it, and a forked trial does not inherit it. */
    for (uint32_t tenths = 0;; tenths++) {
        struct flock want = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        if (!fcntl(fd, F_SETLK, &want)) break;
        int why = errno;
        struct flock held = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        if ((why != EAGAIN && why != EACCES) || fcntl(fd, F_GETLK, &held)) {
            close(fd);
            return iq_fail(err, IQ_IO, "%s: %s", file, strerror(why));
        }
        if (held.l_type == F_UNLCK) continue;
        if (tenths >= 10 * s->options.writer_wait_s) {
            close(fd);
            return iq_fail(err, IQ_LIMIT,
                           "%s: process %ld is %s; wait for it, or use another store and merge by export and "
                           "import",
                           s->path, (long)held.l_pid,
                           held.l_type == F_RDLCK ? "reading it without permission to write there"
                                                  : "writing to it");
        }
        usleep(100000);
    }
    e->lock_fd = fd;
    return IQ_OK;
}

/* Without a slot in lock.mdb a writer would take the pages away that are being read. */
int iq__lock_shared(struct iq_store *s, struct iq_err *err)
{
    char file[4096];
    IQ_TRY(iq__file_in(s->path, "writer.lock", file, err));
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) return IQ_OK; /* nobody wrote since it was put there */
    if (fd < 0) return iq_fail(err, IQ_IO, "%s: %s", file, strerror(errno));
    struct flock want = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_SETLK, &want)) {
        struct flock held = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
        bool known = !fcntl(fd, F_GETLK, &held) && held.l_type != F_UNLCK;
        close(fd);
        return iq_fail(
            err, IQ_LIMIT,
            "%s: process %ld is writing to it; beside a writer it can be read only with permission to "
            "write to lock.mdb; wait for it",
            s->path, known ? (long)held.l_pid : -1L);
    }
    s->env->lock_fd = fd;
    return IQ_OK;
}

int iq__lock(struct iq_store *s, struct iq_err *err)
{
    struct iq__env *e = s->env;
    IQ_TRY(usable(s, err));
    if (e->readonly) return iq_fail(err, IQ_IO, "%s: no permission to write there", s->path);
    if (e->lock_fd >= 0)
        return iq_fail(err, IQ_LIMIT, "%s: this process (%ld) is writing to it already", s->path,
                       (long)getpid());
    IQ_TRY(lock_take(s, err));
    int rc = e->checked ? IQ_OK : iq__pages_check(s, true, err);
    if (!rc) rc = iq__sweep(s, err);
    if (rc) iq__unlock(s);
    return rc;
}

void iq__unlock(struct iq_store *s)
{
    if (s->env->lock_fd >= 0) close(s->env->lock_fd);
    s->env->lock_fd = -1;
}

/* ---- records ---- */

static uint64_t seal_of(enum iq__db db, const MDB_val *key, const void *bytes, size_t n)
{
    struct iq_digest part[2] = {iq_digest_bytes(key->mv_data, key->mv_size), iq_digest_bytes(bytes, n)};
    part[0].lo += db; /* a record of one table is none of another */
    return iq_digest_list(part, 2).lo;
}

/* What a key stands for, as a user may look for it; else its digits. */
static void record_text(enum iq__db db, const MDB_val *key, char *out, size_t size)
{
    const uint8_t *b = key->mv_data;
    bool of_request =
        db == IQ__DB_REQUESTS || db == IQ__DB_POSITIONS || db == IQ__DB_CELLS || db == IQ__DB_TENSORS;
    int n = snprintf(out, size, "%s: ", iq__db_name(db)), left = (int)size - n;
    if (db == IQ__DB_NAMES) {
        int len = key->mv_size > IQ_STORE_NAME ? IQ_STORE_NAME : (int)key->mv_size;
        snprintf(out + n, (size_t)left, "'%.*s'", len, (const char *)key->mv_data);
    } else if (of_request && key->mv_size >= 12) {
        uint32_t at = iq__u32_at(b, 8) * (db == IQ__DB_POSITIONS ? IQ__CHUNK : 1u);
        snprintf(out + n, (size_t)left, "request %u position %u", iq__u32_at(b, 4), at);
    } else if (of_request && key->mv_size >= 8) {
        snprintf(out + n, (size_t)left, "request %u", iq__u32_at(b, 4));
    } else {
        n += snprintf(out + n, (size_t)left, "key ");
        for (size_t i = 0; i < key->mv_size && i < 20; i++)
            n += snprintf(out + n, size - (size_t)n, "%02x", b[i]);
    }
}

/* Takes the seal off a value that was read. */
static int unseal(const struct iq_store *s, enum iq__db db, const MDB_val *key, MDB_val *value,
                  struct iq_err *err)
{
    uint64_t seal;
    char what[256];
    if (value->mv_size >= sizeof seal) {
        value->mv_size -= sizeof seal;
        memcpy(&seal, (const char *)value->mv_data + value->mv_size, sizeof seal);
        if (seal == seal_of(db, key, value->mv_data, value->mv_size)) return IQ_OK;
    }
    record_text(db, key, what, sizeof what);
    return iq_fail(
        err, IQ_FORMAT,
        "%s: %s: the record is not the one that was written (another digest): the store is damaged; "
        "restore it, or export the runs that are whole",
        s->path, what);
}

int iq__get_at(struct iq_store *s, MDB_txn *txn, enum iq__db db, MDB_val key, MDB_val *out,
               struct iq_err *err)
{
    int rc = mdb_get(txn, s->env->db[db], &key, out);
    if (rc == MDB_NOTFOUND) return IQ_NOT_FOUND;
    return rc ? iq__mdb_fail(s, rc, iq__db_name(db), err) : unseal(s, db, &key, out, err);
}

int iq__put_at(struct iq_store *s, MDB_txn *txn, enum iq__db db, MDB_val key, const void *bytes, size_t n,
               struct iq_err *err)
{
    uint64_t seal = seal_of(db, &key, bytes, n);
    MDB_val v = {n + sizeof seal, NULL};
    int rc = mdb_put(txn, s->env->db[db], &key, &v, MDB_RESERVE);
    if (rc) return iq__mdb_fail(s, rc, iq__db_name(db), err);
    if (n) memcpy(v.mv_data, bytes, n);
    memcpy((char *)v.mv_data + n, &seal, sizeof seal);
    return IQ_OK;
}

int iq__scan_open(struct iq_store *s, MDB_txn *txn, enum iq__db db, struct iq__key prefix,
                  struct iq__scan *scan, struct iq_err *err)
{
    *scan = (struct iq__scan){.prefix = prefix, .db = db};
    int rc = mdb_cursor_open(txn, s->env->db[db], &scan->cursor);
    return rc ? iq__mdb_fail(s, rc, iq__db_name(db), err) : IQ_OK;
}

static int scan_end(struct iq_store *s, struct iq__scan *scan, int rc, struct iq_err *err)
{
    if (rc == MDB_NOTFOUND) return IQ_NOT_FOUND;
    if (rc) return iq__mdb_fail(s, rc, "scanning", err);
    if (scan->key.mv_size < scan->prefix.n || memcmp(scan->key.mv_data, scan->prefix.b, scan->prefix.n))
        return IQ_NOT_FOUND;
    return scan->keys_only ? IQ_OK : unseal(s, scan->db, &scan->key, &scan->value, err);
}

int iq__scan_seek(struct iq_store *s, struct iq__scan *scan, const struct iq__key *key, struct iq_err *err)
{
    scan->begun = true;
    scan->key = (MDB_val){key->n, (void *)key->b};
    bool all = !key->n;
    return scan_end(s, scan,
                    mdb_cursor_get(scan->cursor, &scan->key, &scan->value, all ? MDB_FIRST : MDB_SET_RANGE),
                    err);
}

int iq__scan_next(struct iq_store *s, struct iq__scan *scan, struct iq_err *err)
{
    if (!scan->begun) return iq__scan_seek(s, scan, &scan->prefix, err);
    return scan_end(s, scan, mdb_cursor_get(scan->cursor, &scan->key, &scan->value, MDB_NEXT), err);
}

void iq__scan_close(struct iq__scan *scan)
{
    if (scan->cursor) mdb_cursor_close(scan->cursor);
    scan->cursor = NULL;
}
