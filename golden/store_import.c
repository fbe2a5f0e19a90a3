/* A run from a file, which is hostile input, into a store. */
#include "golden/store_file.h"
#include "golden/store_write.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct in {
    FILE *f;
    const char *file;
    uint64_t at, size; /* size: without the SHA-256 at the end */
    char *value;
    size_t cap;
    struct iq_err *err;
};

static int in_read(struct in *i, void *out, uint64_t n)
{
    if (n > i->size - i->at)
        return iq_fail(i->err, IQ_FORMAT,
                       "%s: offset %llu: a record of %llu bytes reaches past the end (%llu)", i->file,
                       (unsigned long long)i->at, (unsigned long long)n, (unsigned long long)i->size);
    if (n && fread(out, 1, n, i->f) != n)
        return iq_fail(i->err, IQ_IO, "%s: offset %llu: the file was cut while it was read", i->file,
                       (unsigned long long)i->at);
    i->at += n;
    return IQ_OK;
}

static int head_check(struct in *i, struct iq__file_head *h)
{
    IQ_TRY(in_read(i, h, sizeof *h));
    if (memcmp(h->magic, IQ__FILE_MAGIC, sizeof h->magic))
        return iq_fail(i->err, IQ_FORMAT, "%s: not an exported run (offset 0: another magic)", i->file);
    if (h->version != IQ__FILE_VERSION)
        return iq_fail(i->err, IQ_ABI, "%s: export format %u, this build reads %d", i->file, h->version,
                       IQ__FILE_VERSION);
    if (h->bytes != i->size + IQ__FILE_SHA)
        return iq_fail(i->err, IQ_FORMAT,
                       "%s: the file has %llu bytes, its head says %llu: it was cut or added to", i->file,
                       (unsigned long long)i->size + IQ__FILE_SHA, (unsigned long long)h->bytes);
    if (h->run.level >= IQ_LEVELS || h->run.mode > IQ_WRITE_TRIAL || !h->run.n_nodes ||
        h->run.n_nodes > IQ__NODES_MAX ||
        (h->run.state != IQ_RUN_COMPLETE && h->run.state != IQ_RUN_CRASHED) || h->name[sizeof h->name - 1])
        return iq_fail(i->err, IQ_FORMAT, "%s: its head has a level, state or count that no run has",
                       i->file);
    return IQ_OK;
}

static int sha_check(struct in *i)
{
    EVP_MD_CTX *sha = EVP_MD_CTX_new();
    uint8_t want[IQ__FILE_SHA], got[EVP_MAX_MD_SIZE], buf[65536];
    uint64_t left = i->size;
    int rc = IQ_OK;
    if (!sha || EVP_DigestInit_ex(sha, EVP_sha256(), NULL) != 1)
        rc = iq_fail(i->err, IQ_MEMORY, "%s: no memory to hash it", i->file);
    rewind(i->f);
    while (!rc && left) {
        size_t n = left < sizeof buf ? left : sizeof buf;
        if (fread(buf, 1, n, i->f) != n) rc = iq_fail(i->err, IQ_IO, "%s: could not be read whole", i->file);
        EVP_DigestUpdate(sha, buf, n);
        left -= n;
    }
    if (!rc && fread(want, 1, sizeof want, i->f) != sizeof want)
        rc = iq_fail(i->err, IQ_IO, "%s: could not be read whole", i->file);
    if (!rc) EVP_DigestFinal_ex(sha, got, NULL);
    EVP_MD_CTX_free(sha);
    if (!rc && memcmp(want, got, sizeof want))
        rc = iq_fail(i->err, IQ_MISMATCH,
                     "%s: its SHA-256 is not the one at its end: it was altered; copy it again", i->file);
    return rc;
}

static int in_open(struct in *i, struct iq__file_head *h)
{
    struct stat st;
    int fd = open(i->file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return iq_fail(i->err, errno == ENOENT ? IQ_NOT_FOUND : IQ_IO, "%s: %s", i->file, strerror(errno));
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size < (off_t)(sizeof *h + IQ__FILE_SHA) ||
        !(i->f = fdopen(fd, "rb"))) {
        close(fd);
        return iq_fail(i->err, IQ_FORMAT, "%s: not an exported run (no file, or shorter than its head)",
                       i->file);
    }
    i->size = (uint64_t)st.st_size - IQ__FILE_SHA;
    IQ_TRY(head_check(i, h));
    IQ_TRY(sha_check(i));
    return fseek(i->f, sizeof *h, SEEK_SET) ? iq_fail(i->err, IQ_IO, "%s: %s", i->file, strerror(errno))
                                            : IQ_OK;
}

/* Length of a key without the ordinal; 0: no table that a file may fill. */
static uint32_t key_length(uint32_t table)
{
    static const uint8_t LENGTH[IQ__DBS] = {
        [IQ__DB_DOCS] = 1,   [IQ__DB_REQUESTS] = 4, [IQ__DB_FIRINGS] = 4, [IQ__DB_POSITIONS] = 8,
        [IQ__DB_CELLS] = 12, [IQ__DB_TENSORS] = 12, [IQ__DB_BLOBS] = 20,
    };
    return table < IQ__DBS ? LENGTH[table] : 0;
}

static int record_take(struct in *i, struct iq_writer *w, const struct iq__file_record *r, uint64_t offset)
{
    struct iq__key k = {.n = 0};
    if (!key_length(r->table) || r->key_len != key_length(r->table) || r->value_len > IQ__VALUE_MAX ||
        r->value_len > i->size - i->at)
        return iq_fail(i->err, IQ_FORMAT,
                       "%s: offset %llu: a record of table %u with a key of %u and a value of %llu bytes",
                       i->file, (unsigned long long)offset, r->table, r->key_len,
                       (unsigned long long)r->value_len);
    if (r->table != IQ__DB_BLOBS) iq__key_u32(&k, w->ord);
    IQ_TRY(in_read(i, k.b + k.n, r->key_len));
    k.n += r->key_len;
    if (r->value_len > i->cap) {
        free(i->value);
        i->cap = 0;
        if (!(i->value = malloc(r->value_len)))
            return iq_fail(i->err, IQ_MEMORY, "%s: no memory for a record", i->file);
        i->cap = r->value_len;
    }
    IQ_TRY(in_read(i, i->value, r->value_len));
    if (r->table == IQ__DB_BLOBS) { /* contents that are there already are not this file's to change */
        MDB_val v;
        int rc = iq__writer_txn(w, r->value_len);
        if (!rc) rc = iq__get(w->store, w->txn, IQ__DB_BLOBS, &k, &v, &w->err);
        if (rc != IQ_NOT_FOUND) return rc;
    }
    return iq__writer_put(w, (enum iq__db)r->table, &k, i->value, r->value_len);
}

static int records_take(struct in *i, struct iq_writer *w)
{
    for (;;) {
        struct iq__file_record r;
        uint64_t offset = i->at;
        IQ_TRY(in_read(i, &r, sizeof r));
        if (r.table == IQ__FILE_END) break;
        IQ_TRY(record_take(i, w, &r, offset));
    }
    if (i->at != i->size)
        return iq_fail(i->err, IQ_FORMAT, "%s: offset %llu: bytes after the last record", i->file,
                       (unsigned long long)i->at);
    return IQ_OK;
}

static int run_verify(struct iq_writer *w, struct iq_err *err)
{
    struct iq_store_tally sum = {0};
    MDB_txn *txn;
    IQ_TRY(iq__writer_commit(w));
    IQ_TRY(iq__read_begin(w->store, &txn, err));
    int rc = iq__check_run(w->store, txn, w->ord, &sum, err);
    iq__read_end(w->store, txn);
    return rc;
}

static int import_new(struct in *i, struct iq_writer *w, struct iq_run_info *info)
{
    IQ_TRY(iq__writer_ordinal(w));
    IQ_TRY(records_take(i, w));
    IQ_TRY(run_verify(w, i->err));
    IQ_TRY(iq__writer_txn(w, 0));
    IQ_TRY(iq__writer_publish(w));
    IQ_TRY(iq__writer_commit(w));
    MDB_txn *txn;
    IQ_TRY(iq__read_begin(w->store, &txn, i->err));
    int rc = iq__run_info(w->store, txn, w->ord, info, i->err);
    iq__read_end(w->store, txn);
    return rc;
}

static int import_into(struct in *i, struct iq_writer *w, struct iq_run_info *info, bool *known)
{
    uint32_t ord;
    IQ_TRY(iq__writer_txn(w, 0));
    int rc = iq__run_by_id(w->store, w->txn, w->rec.id, &ord, i->err);
    if (rc == IQ_NOT_FOUND) return import_new(i, w, info);
    IQ_TRY(rc);
    *known = true;
    if (w->name) IQ_TRY(iq__name_put(w->store, w->txn, w->name, w->rec.id, false, i->err));
    IQ_TRY(iq__run_info(w->store, w->txn, ord, info, i->err));
    MDB_txn *txn = w->txn;
    w->txn = NULL;
    return iq__write_commit(w->store, txn, i->err);
}

static void in_close(struct in *i)
{
    free(i->value);
    if (i->f) fclose(i->f);
}

int iq_store_import_check(const char *file, struct iq_err *err)
{
    struct iq_err none = {0};
    struct in i = {.file = file, .err = err ? err : &none};
    struct iq__file_head h;
    int rc = in_open(&i, &h);
    in_close(&i);
    return rc;
}

int iq_store_import(struct iq_store *s, const char *file, const char *name, struct iq_run_info *out,
                    bool *known, struct iq_err *err)
{
    struct iq_err none = {0};
    struct in i = {.file = file, .err = err ? err : &none};
    struct iq__file_head h = {.version = 0};
    struct iq_writer *w = calloc(1, sizeof *w);
    *out = (struct iq_run_info){.ordinal = 0};
    *known = false;
    int rc = w ? in_open(&i, &h) : iq_fail(i.err, IQ_MEMORY, "%s: no memory to import", file);
    if (!rc) rc = iq__lock(s, i.err);
    if (!rc) {
        const char *use = name ? name : h.name;
        *w =
            (struct iq_writer){.store = s, .rec = h.run, .imported = true, .name = *use ? (char *)use : NULL};
        iq_digest_hex(h.run.id, w->id);
        rc = import_into(&i, w, out, known);
        if (rc && w->err.status) *i.err = w->err;
        iq__write_abort(s, w->txn);
        if (rc) iq__sweep(s, NULL);
        iq__unlock(s);
    }
    free(w);
    in_close(&i);
    return rc;
}
