/* The LMDB environment: shared by all handles of a process, checked when it is opened. */
#define _GNU_SOURCE
#include "golden/store_env.h"
#include "golden/store_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { READERS = 510, TRIES = 8 };
static const uint64_t MAP_FIRST = 16ull << 30, MAP_LEAST = 1ull << 20;

static const char *const DB_NAME[IQ__DBS] = {
#define X(name, text) text,
    IQ__DB_MAP(X)
#undef X
};

const char *iq__db_name(enum iq__db db) { return DB_NAME[db]; }

/* LMDB's locks belong to the process: a second environment of one file would drop those of the first. */
static pthread_mutex_t envs_lock = PTHREAD_MUTEX_INITIALIZER;
static struct iq__env *envs;

int iq__file_in(const char *dir, const char *name, char out[4096], struct iq_err *err)
{
    int n = snprintf(out, 4096, "%s/%s", dir, name);
    return n > 0 && n < 4096 ? IQ_OK : iq_fail(err, IQ_USAGE, "%s: the path is too long", dir);
}

static void env_free(struct iq__env *e)
{
    if (!e) return;
    if (e->mdb) mdb_env_close(e->mdb);
    if (e->fd >= 0) close(e->fd);
    if (e->lock_fd >= 0) close(e->lock_fd);
    free(e->path);
    free(e);
}

/* LMDB says EIO for a short write, which is what a disk gives whose last bytes were just taken. */
static bool out_of_room(const struct iq_store *s)
{
    enum { LITTLE = 1 << 20 };
    struct statvfs disk;
    struct rlimit file;
    struct stat st;
    if (!statvfs(s->path, &disk) && disk.f_bavail * disk.f_frsize < LITTLE) return true;
    return !getrlimit(RLIMIT_FSIZE, &file) && file.rlim_cur != RLIM_INFINITY && !fstat(s->env->fd, &st) &&
           (uint64_t)st.st_size + LITTLE > file.rlim_cur;
}

int iq__mdb_fail(const struct iq_store *s, int rc, const char *what, struct iq_err *err)
{
    const char *path = s->path;
    if (rc == MDB_MAP_FULL)
        return iq_fail(err, IQ_FULL,
                       "%s: %s: the store reached its size limit of %llu bytes; what was committed is safe: "
                       "raise the limit or remove runs",
                       path, what, (unsigned long long)s->options.max_bytes);
    if (rc == ENOSPC || rc == EDQUOT || rc == EFBIG || (rc == EIO && out_of_room(s)))
        return iq_fail(err, IQ_FULL,
                       "%s: %s: no space left (disk, quota or file size limit); what was committed is safe: "
                       "free space and go on",
                       path, what);
    if (rc == MDB_VERSION_MISMATCH)
        return iq_fail(err, IQ_ABI, "%s: written by another version of LMDB", path);
    if (rc == MDB_READERS_FULL)
        return iq_fail(err, IQ_LIMIT, "%s: %d processes read it already; wait for one to end", path, READERS);
    int status = rc == MDB_CORRUPTED || rc == MDB_PAGE_NOTFOUND || rc == MDB_INVALID || rc == MDB_PANIC
                     ? IQ_FORMAT
                 : rc == ENOMEM ? IQ_MEMORY
                                : IQ_IO;
    return iq_fail(err, status, "%s: %s: %s", path, what, mdb_strerror(rc));
}

int iq__pages_check(struct iq_store *s, bool full, struct iq_err *err)
{
    struct iq__env *e = s->env;
    struct iq__walk walk;
    char data[4096];
    IQ_TRY(iq__file_in(s->path, "data.mdb", data, err));
    int rc = IQ_NOT_FOUND;
    for (int i = 0; i < TRIES && rc == IQ_NOT_FOUND; i++) {
        MDB_txn *txn;
        int m = iq__txn_begin(e, MDB_RDONLY, &txn);
        if (m) return iq__mdb_fail(s, m, "opening", err);
        rc = iq__pages_walk(e->fd, data, mdb_txn_id(txn), full, &walk, err);
        mdb_txn_abort(txn);
    }
    if (rc == IQ_NOT_FOUND)
        return iq_fail(err, IQ_FORMAT, "%s: its meta pages are not those of the snapshot", data);
    if (rc) return rc;
    e->need_bytes = walk.need_bytes;
    e->checked |= full;
    return IQ_OK;
}

static int format_check(struct iq_store *s, MDB_txn *txn, struct iq_err *err)
{
    MDB_val key = {6, "format"}, value;
    struct iq__format f;
    int rc = mdb_get(txn, s->env->db[IQ__DB_META], &key, &value);
    if (rc || value.mv_size != sizeof f)
        return iq_fail(err, IQ_FORMAT, "%s: no store of inquest (no format record)", s->path);
    memcpy(&f, value.mv_data, sizeof f);
    if (memcmp(f.magic, (char[sizeof f.magic]){IQ__MAGIC}, sizeof f.magic))
        return iq_fail(err, IQ_FORMAT, "%s: no store of inquest", s->path);
    if (f.version != IQ_STORE_VERSION)
        return iq_fail(err, IQ_ABI,
                       "%s: store format %u, this build reads format %d: use the inquest that wrote it, "
                       "or export there and import here into a new store",
                       s->path, f.version, IQ_STORE_VERSION);
    return IQ_OK;
}

/* Opens the tables; makes them and the format record in an empty environment. */
static int tables_open(struct iq_store *s, bool create, struct iq_err *err)
{
    struct iq__env *e = s->env;
    MDB_txn *txn;
    int rc = iq__txn_begin(e, create ? 0 : MDB_RDONLY, &txn);
    if (rc) return iq__mdb_fail(s, rc, "opening", err);
    for (int i = 0; i < IQ__DBS && !rc; i++) {
        bool later = i >= IQ__DB_CAMPAIGNS; /* made with the first campaign */
        rc = mdb_dbi_open(txn, DB_NAME[i], create && !later ? MDB_CREATE : 0, &e->db[i]);
        if (rc == MDB_NOTFOUND && later) e->db[i] = IQ__NO_TABLE, rc = 0;
    }
    int status = IQ_OK;
    if (!rc && create) {
        struct iq__format f = {.magic = IQ__MAGIC, .version = IQ_STORE_VERSION};
        MDB_val key = {6, "format"}, value = {sizeof f, &f};
        rc = mdb_put(txn, e->db[IQ__DB_META], &key, &value, 0);
    } else if (rc == MDB_NOTFOUND) {
        status = iq_fail(err, IQ_FORMAT, "%s: no store of inquest (tables are missing)", s->path);
    } else if (!rc) {
        status = format_check(s, txn, err);
    }
    if (rc || status) {
        mdb_txn_abort(txn);
        return status ? status : iq__mdb_fail(s, rc, create ? "creating" : "opening", err);
    }
    rc = mdb_txn_commit(txn); /* keeps the handles */
    return rc ? iq__mdb_fail(s, rc, "opening", err) : IQ_OK;
}

/* LMDB maps lock.mdb and writes to it: on a full disk a page that has no block yet would be a SIGBUS. Where blocks can't
 * be asked for (a read-only folder, a file system without fallocate) LMDB is left to itself. */
static int lock_room(const struct iq_store *s, struct iq_err *err)
{
    enum { HEADER = 4096, SLOT = 64 };
    const off_t want = HEADER + READERS * SLOT;
    char file[4096];
    struct stat st;
    IQ_TRY(iq__file_in(s->path, "lock.mdb", file, err));
    int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return errno == ENOSPC || errno == EDQUOT ? iq__mdb_fail(s, errno, "opening", err) : IQ_OK;
    bool whole = !fstat(fd, &st) && st.st_size >= want && (off_t)st.st_blocks * 512 >= st.st_size;
    int why = whole || !fallocate(fd, 0, 0, want) ? 0 : errno;
    close(fd);
    if (why != ENOSPC && why != EDQUOT && why != EFBIG) return IQ_OK;
    return iq__mdb_fail(s, why, "opening", err);
}

static bool lock_writable(const struct iq_store *s)
{
    char file[4096];
    return iq__file_in(s->path, "lock.mdb", file, NULL) == IQ_OK && !access(file, R_OK | W_OK);
}

/* A map as large as address space allows: growing it later needs a moment without readers in this process. */
static int lmdb_open(struct iq_store *s, bool create, struct iq_err *err)
{
    struct iq__env *e = s->env;
    uint64_t map = s->options.map_bytes ? s->options.map_bytes : MAP_FIRST;
    if (s->options.max_bytes && map > s->options.max_bytes) map = s->options.max_bytes;
    if (map < MAP_LEAST && !s->options.max_bytes) map = MAP_LEAST;
    bool writable = true, locks = true;
    for (;;) {
        if (e->mdb) mdb_env_close(e->mdb);
        e->mdb = NULL;
        int rc = mdb_env_create(&e->mdb);
        if (!rc) rc = mdb_env_set_maxdbs(e->mdb, IQ__DBS);
        if (!rc) rc = mdb_env_set_maxreaders(e->mdb, READERS);
        if (!rc) rc = mdb_env_set_mapsize(e->mdb, map);
        unsigned flags = MDB_NOTLS | (writable ? 0 : MDB_RDONLY) | (locks ? 0 : MDB_NOLOCK);
        if (!rc) rc = mdb_env_open(e->mdb, s->path, flags, 0666);
        if (!rc) break;
        if ((rc == EACCES || rc == EROFS) && writable && !create) {
            writable = false;
            locks = lock_writable(s);
            if (!locks) IQ_TRY(iq__lock_shared(s, err));
        } else if (rc == ENOMEM && map > MAP_LEAST)
            map /= 2;
        else
            return iq__mdb_fail(s, rc, "opening", err);
    }
    e->readonly = !writable;
    int dead;
    mdb_reader_check(e->mdb, &dead);
    return IQ_OK;
}

static int env_open(struct iq_store *s, struct iq_err *err)
{
    struct iq__env *e = s->env;
    char data[4096];
    struct stat st;
    bool create = s->options.create, empty = true;
    IQ_TRY(iq__file_in(s->path, "data.mdb", data, err));
    if (create && mkdir(s->path, 0777) && errno != EEXIST)
        return iq_fail(err, IQ_IO, "%s: cannot make the store's folder: %s", s->path, strerror(errno));
    e->fd = open(data, O_RDONLY | O_CLOEXEC);
    if (e->fd < 0 && errno != ENOENT && errno != ENOTDIR)
        return iq_fail(err, IQ_IO, "%s: %s", data, strerror(errno));
    if (e->fd < 0 && !create)
        return iq_fail(err, IQ_NOT_FOUND, "%s: no store there (no data.mdb); `record --store %s` makes one",
                       s->path, s->path);
    if (e->fd >= 0) {
        if (fstat(e->fd, &st)) return iq_fail(err, IQ_IO, "%s: %s", data, strerror(errno));
        if (!S_ISREG(st.st_mode)) return iq_fail(err, IQ_FORMAT, "%s: not a file", data);
        if (st.st_size || !create) IQ_TRY(iq__pages_meta(e->fd, data, &empty, err));
    }
    bool fresh = e->fd < 0 || !st.st_size;
    IQ_TRY(lock_room(s, err));
    int rc = lmdb_open(s, create, err);
    /* A full disk took one of the two meta pages: without it the next try begins anew. */
    if (rc == IQ_FULL && fresh) (void)!truncate(data, 0);
    IQ_TRY(rc);
    if (e->fd < 0 && (e->fd = open(data, O_RDONLY | O_CLOEXEC)) < 0)
        return iq_fail(err, IQ_IO, "%s: %s", data, strerror(errno));
    IQ_TRY(iq__pages_check(s, false, err));
    if (fstat(e->fd, &st)) return iq_fail(err, IQ_IO, "%s: %s", data, strerror(errno));
    e->dev = st.st_dev;
    e->ino = st.st_ino;
    /* Empty: its maker was killed before the first transaction, which makes the tables; whoever comes next does. */
    return tables_open(s, empty && !e->readonly, err);
}

static struct iq__env *env_shared(const char *path)
{
    char data[4096];
    struct stat st;
    if (iq__file_in(path, "data.mdb", data, NULL) || stat(data, &st)) return NULL;
    for (struct iq__env *e = envs; e; e = e->next)
        if (e->pid == getpid() && e->dev == st.st_dev && e->ino == st.st_ino) return e;
    return NULL;
}

int iq_store_open(const char *path, const struct iq_store_options *options, struct iq_store **out,
                  struct iq_err *err)
{
    *out = NULL;
    struct iq_store *s = calloc(1, sizeof *s);
    if (!s || !(s->path = strdup(path))) {
        free(s);
        return iq_fail(err, IQ_MEMORY, "%s: no memory", path);
    }
    if (options) s->options = *options;
    pthread_mutex_lock(&envs_lock);
    int rc = IQ_OK;
    s->env = env_shared(path);
    if (s->env) {
        s->env->refs++;
    } else if ((s->env = calloc(1, sizeof *s->env))) {
        *s->env = (struct iq__env){.fd = -1, .lock_fd = -1, .pid = getpid(), .refs = 1};
        rc = env_open(s, err);
        if (rc == IQ_OK) {
            s->env->next = envs;
            envs = s->env;
        } else {
            env_free(s->env);
        }
    } else {
        rc = iq_fail(err, IQ_MEMORY, "%s: no memory", path);
    }
    pthread_mutex_unlock(&envs_lock);
    if (rc) {
        free(s->path);
        free(s);
        return rc;
    }
    *out = s;
    return IQ_OK;
}

void iq_store_close(struct iq_store *s)
{
    if (!s) return;
    pthread_mutex_lock(&envs_lock);
    struct iq__env *e = s->env;
    /* A forked child leaves the parent's environment alone: closing it would touch the parent's reader slots. */
    if (e->pid == getpid() && !--e->refs) {
        for (struct iq__env **at = &envs; *at; at = &(*at)->next)
            if (*at == e) {
                *at = e->next;
                break;
            }
        env_free(e);
    }
    pthread_mutex_unlock(&envs_lock);
    free(s->path);
    free(s);
}
