/* Verifying a whole store: pages, names, then each run by store_check.c. */
#include "golden/store_campaign.h"
#include "golden/store_pages.h"

#include <stdio.h>

static int pages_verify(struct iq_store *s, MDB_txn *txn, struct iq_store_tally *sum, struct iq_err *err)
{
    struct iq__walk walk;
    char path[4096];
    if (snprintf(path, sizeof path, "%s/data.mdb", s->path) >= (int)sizeof path)
        return iq_fail(err, IQ_USAGE, "%s: the path is too long", s->path);
    int rc = iq__pages_walk(s->env->fd, path, mdb_txn_id(txn), true, &walk, err);
    sum->pages = walk.pages;
    sum->free_pages = walk.freed;
    return rc;
}

static int names_verify(struct iq_store *s, MDB_txn *txn, struct iq_err *err)
{
    struct iq__scan scan;
    IQ_TRY(iq__scan_open(s, txn, IQ__DB_NAMES, (struct iq__key){.n = 0}, &scan, err));
    int rc;
    while ((rc = iq__scan_next(s, &scan, err)) == IQ_OK) {
        uint32_t ord;
        int len = scan.key.mv_size > IQ_STORE_NAME ? IQ_STORE_NAME : (int)scan.key.mv_size;
        rc = scan.value.mv_size == 16 ? iq__run_by_id(s, txn, iq__digest_at(scan.value.mv_data), &ord, err)
                                      : IQ_NOT_FOUND;
        if (rc == IQ_NOT_FOUND)
            rc = iq_fail(err, IQ_FORMAT, "%s: the name '%.*s' is of a run that is not there", s->path, len,
                         (const char *)scan.key.mv_data);
        if (rc) break;
    }
    iq__scan_close(&scan);
    return rc == IQ_NOT_FOUND ? IQ_OK : rc;
}

static int runs_verify(struct iq_store *s, MDB_txn *txn, struct iq_store_tally *sum, struct iq_err *err)
{
    struct iq__scan scan;
    IQ_TRY(iq__scan_open(s, txn, IQ__DB_IDS, (struct iq__key){.n = 0}, &scan, err));
    int rc;
    while ((rc = iq__scan_next(s, &scan, err)) == IQ_OK) {
        struct iq__run_rec rec;
        uint32_t ord;
        if (scan.key.mv_size != 16 || scan.value.mv_size != 4) {
            rc = iq_fail(err, IQ_FORMAT, "%s: ids: a key of %zu and a value of %zu bytes", s->path,
                         scan.key.mv_size, scan.value.mv_size);
            break;
        }
        ord = iq__u32_at(scan.value.mv_data, 0);
        if ((rc = iq__run_get(s, txn, ord, &rec, err))) break;
        if (!iq_digest_equal(rec.id, iq__digest_at(scan.key.mv_data))) {
            rc = iq_fail(err, IQ_MISMATCH, "%s: run %u has another id than the one that names it", s->path,
                         ord);
            break;
        }
        if ((rc = iq__check_run(s, txn, ord, sum, err))) break;
    }
    iq__scan_close(&scan);
    return rc == IQ_NOT_FOUND ? IQ_OK : rc;
}

/* Every record of every table, whoever reads it: a key that was altered belongs to nobody. */
static int records_verify(struct iq_store *s, MDB_txn *txn, struct iq_store_tally *sum, struct iq_err *err)
{
    int rc = IQ_NOT_FOUND;
    for (int db = IQ__DB_META + 1; db < IQ__DBS && rc == IQ_NOT_FOUND; db++) {
        struct iq__scan scan;
        if (s->env->db[db] == IQ__NO_TABLE) continue;
        IQ_TRY(iq__scan_open(s, txn, (enum iq__db)db, (struct iq__key){.n = 0}, &scan, err));
        while ((rc = iq__scan_next(s, &scan, err)) == IQ_OK)
            sum->bytes += scan.key.mv_size + scan.value.mv_size;
        iq__scan_close(&scan);
    }
    return rc == IQ_NOT_FOUND ? IQ_OK : rc;
}

int iq_store_verify(struct iq_store *s, struct iq_store_tally *out, struct iq_err *err)
{
    int rc = IQ_NOT_FOUND;
    for (int tries = 0; tries < 8 && rc == IQ_NOT_FOUND;
         tries++) { /* a writer may move on while the walk begins */
        MDB_txn *txn;
        *out = (struct iq_store_tally){0};
        IQ_TRY(iq__read_begin(s, &txn, err));
        rc = pages_verify(s, txn, out, err);
        if (!rc) rc = names_verify(s, txn, err);
        if (!rc) rc = runs_verify(s, txn, out, err);
        if (!rc) rc = iq__campaigns_check(s, txn, err);
        if (!rc) rc = records_verify(s, txn, out, err);
        iq__read_end(s, txn);
    }
    return rc == IQ_NOT_FOUND
               ? iq_fail(err, IQ_IO, "%s: a writer is too busy to verify beside it; try again", s->path)
               : rc;
}
