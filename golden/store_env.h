/* Inside the store: the environment that a process shares per path, transactions, keys and record layouts. */
#ifndef IQ_GOLDEN_STORE_ENV_H
#define IQ_GOLDEN_STORE_ENV_H

#include "golden/store.h"

#include <lmdb.h>
#include <string.h>
#include <sys/types.h>

/* Tables. Integers in keys are big-endian; `ord` is the run's ordinal in this store.
 *   meta      "format"                          -> struct iq__format
 *   runs      ord                               -> struct iq__run_rec
 *   ids       digest                            -> ord; a run without an entry here is not published
 *   names     text                              -> digest
 *   docs      ord, kind 'm' 'n' 'e'             -> manifest, node table, message
 *   requests  ord, request                      -> struct iq__request_rec, ids, four strings with their NULs
 *   positions ord, request, pos / 26            -> up to 26 iq_position (state 0: absent)
 *   cells     ord, request, pos, attempt, part  -> digests, then state bytes, of nodes [239 part, 239 part + 239)
 *   tensors   ord, request, pos, attempt, node  -> struct iq__tensor_rec
 *   blobs     digest, length                    -> bytes
 *   firings   ord, seq / 127                    -> up to 127 iq_firing
 *   campaigns digest                            -> struct iq__campaign_rec, manifest
 *   trials    digest of the campaign, index     -> struct iq__trial_rec, reason
 * The last two are made with the first campaign: a store without one has none (IQ__NO_TABLE).
 * Each value but meta's is followed by its seal (iq__get_at). Values are cut so that with it they fill one 4,096-byte
 * overflow page: the tree above them stays small. */
#define IQ__DB_MAP(X)                                                                                        \
    X(META, "meta")                                                                                          \
    X(RUNS, "runs")                                                                                          \
    X(IDS, "ids")                                                                                            \
    X(NAMES, "names")                                                                                        \
    X(DOCS, "docs")                                                                                          \
    X(REQUESTS, "requests")                                                                                  \
    X(POSITIONS, "positions")                                                                                \
    X(CELLS, "cells")                                                                                        \
    X(TENSORS, "tensors")                                                                                    \
    X(BLOBS, "blobs")                                                                                        \
    X(FIRINGS, "firings")                                                                                    \
    X(CAMPAIGNS, "campaigns")                                                                                \
    X(TRIALS, "trials")
enum iq__db {
#define X(name, text) IQ__DB_##name,
    IQ__DB_MAP(X)
#undef X
        IQ__DBS
};
#define IQ__NO_TABLE ((MDB_dbi)-1)

enum { IQ__CHUNK = 26, IQ__PART = 239, IQ__FIRINGS = 127, IQ__NODES_MAX = 65535 };
enum { IQ__VALUE_MAX = 64 << 20 };

struct iq__format {
    char magic[12];
    uint32_t version;
};
_Static_assert(sizeof(struct iq__format) == 16, "store format");
#define IQ__MAGIC "iq store"

struct iq__run_rec {
    struct iq_digest id;
    uint64_t created_ms, requests, positions, firings, tensors;
    uint32_t state, mode, level, n_nodes;
};
_Static_assert(sizeof(struct iq__run_rec) == 72, "store format");

struct iq__request_rec {
    struct iq_digest chain;
    uint32_t n_ids, n_prompt, len[4]; /* id, params, text, finish: lengths with NUL */
};
_Static_assert(sizeof(struct iq__request_rec) == 40, "store format");

struct iq__tensor_rec {
    struct iq_digest digest;
    uint32_t len, zero;
};
_Static_assert(sizeof(struct iq__tensor_rec) == 24, "store format");

/* ---- keys ---- */

struct iq__key {
    uint8_t b[20];
    size_t n;
};
static inline void iq__key_u32(struct iq__key *k, uint32_t v)
{
    for (int s = 24; s >= 0; s -= 8) k->b[k->n++] = (uint8_t)(v >> s);
}
static inline void iq__key_u16(struct iq__key *k, uint16_t v)
{
    k->b[k->n++] = (uint8_t)(v >> 8);
    k->b[k->n++] = (uint8_t)v;
}
static inline void iq__key_digest(struct iq__key *k, struct iq_digest d)
{
    iq__key_u32(k, (uint32_t)(d.hi >> 32));
    iq__key_u32(k, (uint32_t)d.hi);
    iq__key_u32(k, (uint32_t)(d.lo >> 32));
    iq__key_u32(k, (uint32_t)d.lo);
}
static inline uint32_t iq__u32_at(const void *p, size_t at)
{
    const uint8_t *b = (const uint8_t *)p + at;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}
static inline uint16_t iq__u16_at(const void *p, size_t at)
{
    const uint8_t *b = (const uint8_t *)p + at;
    return (uint16_t)(b[0] << 8 | b[1]);
}
static inline struct iq_digest iq__digest_at(const void *p)
{
    return (struct iq_digest){(uint64_t)iq__u32_at(p, 0) << 32 | iq__u32_at(p, 4),
                              (uint64_t)iq__u32_at(p, 8) << 32 | iq__u32_at(p, 12)};
}
static inline struct iq__key iq__key1(uint32_t a)
{
    struct iq__key k = {.n = 0};
    iq__key_u32(&k, a);
    return k;
}
static inline struct iq__key iq__key2(uint32_t a, uint32_t b)
{
    struct iq__key k = iq__key1(a);
    iq__key_u32(&k, b);
    return k;
}
static inline struct iq__key iq__key3(uint32_t a, uint32_t b, uint32_t c)
{
    struct iq__key k = iq__key2(a, b);
    iq__key_u32(&k, c);
    return k;
}
/* cells (x: part) and tensors (x: node) */
static inline struct iq__key iq__key_cell(uint32_t ord, uint32_t request, uint32_t pos, uint16_t attempt,
                                          uint16_t x)
{
    struct iq__key k = iq__key3(ord, request, pos);
    iq__key_u16(&k, attempt);
    iq__key_u16(&k, x);
    return k;
}
static inline struct iq__key iq__key_doc(uint32_t ord, char kind)
{
    struct iq__key k = iq__key1(ord);
    k.b[k.n++] = (uint8_t)kind;
    return k;
}
static inline struct iq__key iq__key_blob(struct iq_digest d, uint32_t len)
{
    struct iq__key k = {.n = 0};
    iq__key_digest(&k, d);
    iq__key_u32(&k, len);
    return k;
}

/* ---- environment ---- */

struct iq__env;
struct iq_store {
    struct iq__env *env;
    struct iq_store_options options;
    char *path;
};
/* One per path and process. */
struct iq__env {
    MDB_env *mdb;
    MDB_dbi db[IQ__DBS];
    char *path;
    dev_t dev;
    ino_t ino;
    pid_t pid;
    int fd, refs, txns;     /* fd: data.mdb for the page walk; txns: open ones of this process */
    int lock_fd;            /* writer.lock while a writer is active, else -1 */
    bool readonly, checked; /* checked: as a writer needs it */
    uint64_t need_bytes;    /* the file is at least this long, or it was cut */
    struct iq__env *next;
};

const char *iq__db_name(enum iq__db);
/* dir/name; IQ_USAGE when it is too long. */
int iq__file_in(const char *dir, const char *name, char out[4096], struct iq_err *err);
/* An LMDB transaction (an LMDB code comes back). Dead readers that fill the table are cleared. */
int iq__txn_begin(struct iq__env *, unsigned flags, MDB_txn **out);
/* The page walk over the present snapshot; `full` as a writer needs it. */
int iq__pages_check(struct iq_store *, bool full, struct iq_err *);

/* Begin and end. A read transaction is a snapshot. `room`: the bytes that the writer is about to put; the map is grown
 * ahead of it, within the size limit. */
int iq__read_begin(struct iq_store *, MDB_txn **out, struct iq_err *);
void iq__read_end(struct iq_store *, MDB_txn *);
int iq__write_begin(struct iq_store *, uint64_t room, MDB_txn **out, struct iq_err *);
int iq__write_commit(struct iq_store *, MDB_txn *, struct iq_err *);
void iq__write_abort(struct iq_store *, MDB_txn *);

/* The writer lock; taking it also removes what dead writers left. */
int iq__lock(struct iq_store *, struct iq_err *);
/* For a reader that can't register in lock.mdb: keeps writers out while the environment is open. */
int iq__lock_shared(struct iq_store *, struct iq_err *);
void iq__unlock(struct iq_store *);

/* An LMDB code as a sentence and an iq_status. */
int iq__mdb_fail(const struct iq_store *, int rc, const char *what, struct iq_err *);

/* One record. On disk a value ends with its seal, 8 bytes of the digest of table, key and value; reading checks it and
 * takes it off (IQ_FORMAT: the record is not the one that was written). IQ_NOT_FOUND writes no sentence. */
int iq__get_at(struct iq_store *, MDB_txn *, enum iq__db, MDB_val key, MDB_val *out, struct iq_err *);
int iq__put_at(struct iq_store *, MDB_txn *, enum iq__db, MDB_val key, const void *, size_t, struct iq_err *);
static inline int iq__get(struct iq_store *s, MDB_txn *txn, enum iq__db db, const struct iq__key *key,
                          MDB_val *out, struct iq_err *err)
{
    return iq__get_at(s, txn, db, (MDB_val){key->n, (void *)key->b}, out, err);
}
static inline int iq__put(struct iq_store *s, MDB_txn *txn, enum iq__db db, const struct iq__key *key,
                          const void *bytes, size_t n, struct iq_err *err)
{
    return iq__put_at(s, txn, db, (MDB_val){key->n, (void *)key->b}, bytes, n, err);
}

/* A walk over the keys that start with a prefix: set `prefix`, then next until IQ_NOT_FOUND. keys_only, set after the
 * opening, leaves the values alone, seals too: what is to be removed may be damaged. */
struct iq__scan {
    MDB_cursor *cursor;
    enum iq__db db;
    struct iq__key prefix;
    MDB_val key, value;
    bool begun, keys_only;
};
int iq__scan_open(struct iq_store *, MDB_txn *, enum iq__db, struct iq__key prefix, struct iq__scan *,
                  struct iq_err *);
int iq__scan_next(struct iq_store *, struct iq__scan *, struct iq_err *);
/* Moves on to the first key >= `key`, still within the prefix. */
int iq__scan_seek(struct iq_store *, struct iq__scan *, const struct iq__key *key, struct iq_err *);
void iq__scan_close(struct iq__scan *);

/* ---- runs (store_runs.c, store_rm.c) ---- */

/* A run by ordinal, by what a user types (name, id, the first digits of an id), by id. IQ_NOT_FOUND: there is none. */
int iq__run_get(struct iq_store *, MDB_txn *, uint32_t ord, struct iq__run_rec *, struct iq_err *);
int iq__run_find(struct iq_store *, MDB_txn *, const char *run, uint32_t *ord, struct iq_err *);
int iq__run_by_name(struct iq_store *, MDB_txn *, const char *name, uint32_t *ord, struct iq_err *);
int iq__run_by_id(struct iq_store *, MDB_txn *, struct iq_digest id, uint32_t *ord, struct iq_err *);
int iq__run_info(struct iq_store *, MDB_txn *, uint32_t ord, struct iq_run_info *, struct iq_err *);
/* IQ_USAGE: a name that a run may not have. */
int iq__name_check(const char *name, struct iq_err *);
/* IQ_EXISTS when the name is another run's and may not move. */
int iq__name_put(struct iq_store *, MDB_txn *, const char *name, struct iq_digest id, bool move,
                 struct iq_err *);
/* A run's names; free *out. */
int iq__names_of(struct iq_store *, MDB_txn *, struct iq_digest id, char (**out)[IQ_STORE_NAME + 1],
                 size_t *n, struct iq_err *);
int iq__trace_open(struct iq_store *, MDB_txn *, uint32_t ord, bool owns_txn, struct iq_trace *,
                   struct iq_err *);
/* Removes unpublished runs and tensors that nothing names, in bounded transactions. Lock held. */
int iq__sweep(struct iq_store *, struct iq_err *);
/* Removes the records of requests that have no end. Lock held. */
int iq__prune(struct iq_store *, uint32_t ord, struct iq_err *);
/* The keys of all contents that tensor records under `prefix` name, sorted, with repeats; free *out. */
int iq__blobs_named(struct iq_store *, MDB_txn *, struct iq__key prefix, uint8_t (**out)[20], size_t *n,
                    struct iq_err *);
/* The content checks of one run (store_check.c). */
int iq__check_run(struct iq_store *, MDB_txn *, uint32_t ord, struct iq_store_tally *, struct iq_err *);
/* Size and contents of a node table: names are ended, inputs are earlier nodes. */
int iq__check_nodes(const void *bytes, size_t len, uint32_t n, struct iq_err *);

#endif
