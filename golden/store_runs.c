/* Finding and listing runs; their names. */
#include "golden/store_env.h"
#include "kernels/base/grow.h"

#include <ctype.h>
#include <stdlib.h>

static const char *const LEVEL[] = {
#define X(name, text) text,
    IQ_LEVEL_MAP(X)
#undef X
};
static const char *const STATE[] = {
#define X(name, text) text,
    IQ_RUN_STATE_MAP(X)
#undef X
};

const char *iq_level_text(int level) { return level >= 0 && level < IQ_LEVELS ? LEVEL[level] : "?"; }
const char *iq_run_state_text(int state) { return state >= 0 && state < IQ_RUN_STATES ? STATE[state] : "?"; }

int iq__name_check(const char *name, struct iq_err *err)
{
    size_t n = strlen(name);
    if (!n || n > IQ_STORE_NAME)
        return iq_fail(err, IQ_USAGE, "a run's name has 1 to %d bytes, this one has %zu", IQ_STORE_NAME, n);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
            return iq_fail(err, IQ_USAGE, "a run's name has no control characters (byte %zu is 0x%02x)", i,
                           (unsigned char)name[i]);
    return IQ_OK;
}

int iq__run_get(struct iq_store *s, MDB_txn *txn, uint32_t ord, struct iq__run_rec *out, struct iq_err *err)
{
    struct iq__key k = iq__key1(ord);
    MDB_val v;
    int rc = iq__get(s, txn, IQ__DB_RUNS, &k, &v, err);
    if (rc == IQ_NOT_FOUND)
        return iq_fail(err, IQ_FORMAT, "%s: run %u is named and has no record", s->path, ord);
    if (rc) return rc;
    if (v.mv_size != sizeof *out)
        return iq_fail(err, IQ_FORMAT, "%s: record of run %u has %zu bytes, expected %zu", s->path, ord,
                       v.mv_size, sizeof *out);
    memcpy(out, v.mv_data, sizeof *out);
    if (out->level >= IQ_LEVELS || out->state >= IQ_RUN_STATES || out->mode > IQ_WRITE_TRIAL ||
        !out->n_nodes || out->n_nodes > IQ__NODES_MAX)
        return iq_fail(err, IQ_FORMAT, "%s: record of run %u: level %u, state %u, %u nodes: out of range",
                       s->path, ord, out->level, out->state, out->n_nodes);
    return IQ_OK;
}

int iq__run_by_id(struct iq_store *s, MDB_txn *txn, struct iq_digest id, uint32_t *ord, struct iq_err *err)
{
    struct iq__key k = {.n = 0};
    MDB_val v;
    iq__key_digest(&k, id);
    IQ_TRY(iq__get(s, txn, IQ__DB_IDS, &k, &v, err));
    if (v.mv_size != 4) return iq_fail(err, IQ_FORMAT, "%s: ids: a value of %zu bytes", s->path, v.mv_size);
    *ord = iq__u32_at(v.mv_data, 0);
    return IQ_OK;
}

int iq__run_by_name(struct iq_store *s, MDB_txn *txn, const char *name, uint32_t *ord, struct iq_err *err)
{
    MDB_val k = {strlen(name), (void *)name}, v;
    if (!k.mv_size || k.mv_size > IQ_STORE_NAME) return IQ_NOT_FOUND;
    int rc = iq__get_at(s, txn, IQ__DB_NAMES, k, &v, err);
    if (rc) return rc;
    if (v.mv_size != 16)
        return iq_fail(err, IQ_FORMAT, "%s: name '%s': a value of %zu bytes", s->path, name, v.mv_size);
    rc = iq__run_by_id(s, txn, iq__digest_at(v.mv_data), ord, err);
    return rc == IQ_NOT_FOUND
               ? iq_fail(err, IQ_FORMAT, "%s: name '%s' is of a run that is not there", s->path, name)
               : rc;
}

static int by_prefix(struct iq_store *s, MDB_txn *txn, const char *hex, uint32_t *ord, struct iq_err *err)
{
    size_t n = strlen(hex);
    char low[IQ_DIGEST_HEX];
    if (n < 4 || n >= IQ_DIGEST_HEX) return IQ_NOT_FOUND;
    for (size_t i = 0; i <= n; i++) {
        low[i] = (char)tolower((unsigned char)hex[i]);
        if (i < n && !isxdigit((unsigned char)hex[i])) return IQ_NOT_FOUND;
    }
    struct iq__scan scan;
    IQ_TRY(iq__scan_open(s, txn, IQ__DB_IDS, (struct iq__key){.n = 0}, &scan, err));
    int rc, found = 0;
    while ((rc = iq__scan_next(s, &scan, err)) == IQ_OK) {
        char id[IQ_DIGEST_HEX];
        if (scan.key.mv_size != 16 || scan.value.mv_size != 4) continue;
        iq_digest_hex(iq__digest_at(scan.key.mv_data), id);
        if (strncmp(id, low, n)) continue;
        found++;
        *ord = iq__u32_at(scan.value.mv_data, 0);
    }
    iq__scan_close(&scan);
    if (rc != IQ_NOT_FOUND) return rc;
    if (found > 1)
        return iq_fail(err, IQ_USAGE, "%s: %d runs have ids that begin with %s; give more digits", s->path,
                       found, hex);
    return found ? IQ_OK : IQ_NOT_FOUND;
}

int iq__run_find(struct iq_store *s, MDB_txn *txn, const char *run, uint32_t *ord, struct iq_err *err)
{
    *ord = 0;
    int rc = iq__run_by_name(s, txn, run, ord, err);
    if (rc == IQ_NOT_FOUND) rc = by_prefix(s, txn, run, ord, err);
    if (rc == IQ_NOT_FOUND)
        return iq_fail(err, rc,
                       "%s: no run '%s' (neither a name nor the start of an id); `store ls` lists them",
                       s->path, run);
    return rc;
}

int iq__name_put(struct iq_store *s, MDB_txn *txn, const char *name, struct iq_digest id, bool move,
                 struct iq_err *err)
{
    struct iq__key d = {.n = 0};
    IQ_TRY(iq__name_check(name, err));
    iq__key_digest(&d, id);
    MDB_val k = {strlen(name), (void *)name}, old;
    int rc = iq__get_at(s, txn, IQ__DB_NAMES, k, &old, err);
    if (!rc && old.mv_size == d.n && !memcmp(old.mv_data, d.b, d.n)) return IQ_OK;
    if (!rc && !move)
        return iq_fail(err, IQ_EXISTS,
                       "%s: the name '%s' is taken by another run; choose another, or move it (--move-name)",
                       s->path, name);
    return rc && rc != IQ_NOT_FOUND ? rc : iq__put_at(s, txn, IQ__DB_NAMES, k, d.b, d.n, err);
}

int iq__names_of(struct iq_store *s, MDB_txn *txn, struct iq_digest id, char (**out)[IQ_STORE_NAME + 1],
                 size_t *n, struct iq_err *err)
{
    struct iq__scan scan;
    size_t cap = 0;
    *out = NULL;
    *n = 0;
    IQ_TRY(iq__scan_open(s, txn, IQ__DB_NAMES, (struct iq__key){.n = 0}, &scan, err));
    int rc;
    while ((rc = iq__scan_next(s, &scan, err)) == IQ_OK) {
        if (scan.value.mv_size != 16 || scan.key.mv_size > IQ_STORE_NAME ||
            !iq_digest_equal(iq__digest_at(scan.value.mv_data), id))
            continue;
        if ((rc = iq_grow(out, &cap, *n + 1, sizeof **out, err))) break;
        memcpy((*out)[*n], scan.key.mv_data, scan.key.mv_size);
        (*out)[(*n)++][scan.key.mv_size] = 0;
    }
    iq__scan_close(&scan);
    if (rc == IQ_NOT_FOUND) return IQ_OK;
    free(*out);
    *out = NULL;
    *n = 0;
    return rc;
}

int iq_store_names(struct iq_store *s, const char *id, char (**out)[IQ_STORE_NAME + 1], size_t *n,
                   struct iq_err *err)
{
    MDB_txn *txn;
    struct iq_digest run;
    *out = NULL;
    *n = 0;
    if (!iq_digest_parse(id, &run)) return iq_fail(err, IQ_USAGE, "'%s': a run's id has 32 hex digits", id);
    IQ_TRY(iq__read_begin(s, &txn, err));
    int rc = iq__names_of(s, txn, run, out, n, err);
    iq__read_end(s, txn);
    return rc;
}

int iq__run_info(struct iq_store *s, MDB_txn *txn, uint32_t ord, struct iq_run_info *out, struct iq_err *err)
{
    struct iq__run_rec r;
    IQ_TRY(iq__run_get(s, txn, ord, &r, err));
    *out = (struct iq_run_info){.ordinal = ord,
                                .n_nodes = r.n_nodes,
                                .level = (enum iq_level)r.level,
                                .state = (enum iq_run_state)r.state,
                                .mode = (enum iq_write_mode)r.mode,
                                .created_ms = r.created_ms,
                                .requests = r.requests,
                                .positions = r.positions,
                                .firings = r.firings,
                                .tensors = r.tensors};
    iq_digest_hex(r.id, out->id);
    char(*names)[IQ_STORE_NAME + 1];
    size_t n;
    IQ_TRY(iq__names_of(s, txn, r.id, &names, &n, err));
    if (n) memcpy(out->name, names[0], sizeof out->name);
    out->n_names = (uint32_t)n;
    free(names);
    return IQ_OK;
}

static int by_ordinal(const void *a, const void *b)
{
    uint32_t x = ((const struct iq_run_info *)a)->ordinal, y = ((const struct iq_run_info *)b)->ordinal;
    return (x > y) - (x < y);
}

static int runs_list(struct iq_store *s, MDB_txn *txn, struct iq_run_info **out, size_t *n,
                     struct iq_err *err)
{
    struct iq__scan scan;
    size_t cap = 0;
    IQ_TRY(iq__scan_open(s, txn, IQ__DB_IDS, (struct iq__key){.n = 0}, &scan, err));
    int rc;
    while ((rc = iq__scan_next(s, &scan, err)) == IQ_OK) {
        if ((rc = iq_grow(out, &cap, *n + 1, sizeof **out, err))) break;
        if (scan.value.mv_size != 4) {
            rc = iq_fail(err, IQ_FORMAT, "%s: ids: a value of %zu bytes", s->path, scan.value.mv_size);
            break;
        }
        if ((rc = iq__run_info(s, txn, iq__u32_at(scan.value.mv_data, 0), *out + *n, err))) break;
        ++*n;
    }
    iq__scan_close(&scan);
    if (rc != IQ_NOT_FOUND) return rc;
    if (*n) qsort(*out, *n, sizeof **out, by_ordinal);
    return IQ_OK;
}

int iq_store_runs(struct iq_store *s, struct iq_run_info **out, size_t *n, struct iq_err *err)
{
    MDB_txn *txn;
    *out = NULL;
    *n = 0;
    IQ_TRY(iq__read_begin(s, &txn, err));
    int rc = runs_list(s, txn, out, n, err);
    iq__read_end(s, txn);
    if (rc) {
        free(*out);
        *out = NULL;
        *n = 0;
    }
    return rc;
}

int iq_store_find(struct iq_store *s, const char *run, struct iq_run_info *out, struct iq_err *err)
{
    MDB_txn *txn;
    uint32_t ord;
    *out = (struct iq_run_info){.ordinal = 0};
    IQ_TRY(iq__read_begin(s, &txn, err));
    int rc = iq__run_find(s, txn, run, &ord, err);
    if (!rc) rc = iq__run_info(s, txn, ord, out, err);
    iq__read_end(s, txn);
    return rc;
}
