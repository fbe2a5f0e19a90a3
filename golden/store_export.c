/* A run of a store as one file. */
#include "golden/store_file.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct out {
    FILE *f;
    EVP_MD_CTX *sha;
    const char *file;
    uint64_t bytes;
    struct iq_err *err;
};

static int out_put(struct out *o, const void *bytes, size_t n)
{
    if (n && (EVP_DigestUpdate(o->sha, bytes, n) != 1 || fwrite(bytes, 1, n, o->f) != n))
        return iq_fail(o->err, errno == ENOSPC || errno == EFBIG ? IQ_FULL : IQ_IO, "%s: writing: %s",
                       o->file, strerror(errno));
    o->bytes += n;
    return IQ_OK;
}

static int out_record(struct out *o, uint32_t table, const void *key, size_t key_len, const void *value,
                      size_t len)
{
    struct iq__file_record r = {table, (uint32_t)key_len, len};
    IQ_TRY(out_put(o, &r, sizeof r));
    IQ_TRY(out_put(o, key, key_len));
    return out_put(o, value, len);
}

static int out_table(struct out *o, struct iq_store *s, MDB_txn *txn, enum iq__db db, uint32_t ord)
{
    struct iq__scan scan;
    IQ_TRY(iq__scan_open(s, txn, db, iq__key1(ord), &scan, o->err));
    int rc;
    while ((rc = iq__scan_next(s, &scan, o->err)) == IQ_OK)
        if ((rc = out_record(o, db, (const char *)scan.key.mv_data + 4, scan.key.mv_size - 4,
                             scan.value.mv_data, scan.value.mv_size)))
            break;
    iq__scan_close(&scan);
    return rc == IQ_NOT_FOUND ? IQ_OK : rc;
}

static int out_contents(struct out *o, struct iq_store *s, MDB_txn *txn, uint32_t ord)
{
    uint8_t(*named)[20];
    size_t n;
    int rc = iq__blobs_named(s, txn, iq__key1(ord), &named, &n, o->err);
    for (size_t i = 0; !rc && i < n; i++) {
        struct iq__key k = {.n = 20};
        MDB_val v;
        if (i && !memcmp(named[i], named[i - 1], 20)) continue;
        memcpy(k.b, named[i], 20);
        rc = iq__get(s, txn, IQ__DB_BLOBS, &k, &v, o->err);
        if (rc == IQ_NOT_FOUND)
            rc = iq_fail(o->err, IQ_FORMAT, "%s: contents that the run names are missing", s->path);
        if (!rc) rc = out_record(o, IQ__DB_BLOBS, k.b, k.n, v.mv_data, v.mv_size);
    }
    free(named);
    return rc;
}

/* What the file will hold: its head says so, and the head is part of what SHA-256 covers. */
static int run_bytes(struct iq_store *s, MDB_txn *txn, uint32_t ord, const enum iq__db *tables, size_t n,
                     uint64_t *out, struct iq_err *err)
{
    uint8_t(*named)[20];
    size_t count;
    *out = sizeof(struct iq__file_head) + sizeof(struct iq__file_record) + IQ__FILE_SHA;
    for (size_t i = 0; i < n; i++) {
        struct iq__scan scan;
        IQ_TRY(iq__scan_open(s, txn, tables[i], iq__key1(ord), &scan, err));
        int rc;
        while ((rc = iq__scan_next(s, &scan, err)) == IQ_OK)
            *out += sizeof(struct iq__file_record) + scan.key.mv_size - 4 + scan.value.mv_size;
        iq__scan_close(&scan);
        if (rc != IQ_NOT_FOUND) return rc;
    }
    IQ_TRY(iq__blobs_named(s, txn, iq__key1(ord), &named, &count, err));
    for (size_t i = 0; i < count; i++)
        if (!i || memcmp(named[i], named[i - 1], 20))
            *out += sizeof(struct iq__file_record) + 20 + iq__u32_at(named[i], 16);
    free(named);
    return IQ_OK;
}

static int out_run(struct out *o, struct iq_store *s, MDB_txn *txn, const char *run)
{
    static const enum iq__db OF_RUN[] = {IQ__DB_DOCS,  IQ__DB_REQUESTS, IQ__DB_POSITIONS,
                                         IQ__DB_CELLS, IQ__DB_FIRINGS,  IQ__DB_TENSORS};
    enum { N = sizeof OF_RUN / sizeof *OF_RUN };
    struct iq__file_head head = {.magic = IQ__FILE_MAGIC, .version = IQ__FILE_VERSION};
    struct iq_run_info info;
    struct iq_store_tally sum = {0};
    uint32_t ord;
    uint8_t sha[EVP_MAX_MD_SIZE];
    IQ_TRY(iq__run_find(s, txn, run, &ord, o->err));
    IQ_TRY(iq__run_get(s, txn, ord, &head.run, o->err));
    IQ_TRY(iq__run_info(s, txn, ord, &info, o->err));
    if (info.state == IQ_RUN_RECORDING)
        return iq_fail(o->err, IQ_USAGE, "%s: run '%s' is not finished; resume its `record` first", s->path,
                       run);
    IQ_TRY(iq__check_run(s, txn, ord, &sum, o->err)); /* the file's SHA-256 would vouch for damage */
    memcpy(head.name, info.name, strlen(info.name));
    IQ_TRY(run_bytes(s, txn, ord, OF_RUN, N, &head.bytes, o->err));
    IQ_TRY(out_put(o, &head, sizeof head));
    for (size_t i = 0; i < N; i++) IQ_TRY(out_table(o, s, txn, OF_RUN[i], ord));
    IQ_TRY(out_contents(o, s, txn, ord));
    IQ_TRY(out_record(o, IQ__FILE_END, NULL, 0, NULL, 0));
    EVP_DigestFinal_ex(o->sha, sha, NULL);
    if (fwrite(sha, 1, IQ__FILE_SHA, o->f) != IQ__FILE_SHA || fflush(o->f) || fsync(fileno(o->f)))
        return iq_fail(o->err, errno == ENOSPC || errno == EFBIG ? IQ_FULL : IQ_IO, "%s: writing: %s",
                       o->file, strerror(errno));
    if (o->bytes + IQ__FILE_SHA != head.bytes)
        return iq_fail(o->err, IQ_INTERNAL, "%s: %llu bytes written, %llu counted", o->file,
                       (unsigned long long)o->bytes + IQ__FILE_SHA, (unsigned long long)head.bytes);
    return IQ_OK;
}

int iq_store_export(struct iq_store *s, const char *run, const char *file, struct iq_err *err)
{
    MDB_txn *txn;
    int fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST)
        return iq_fail(err, IQ_EXISTS, "%s: there is a file already; remove it or name another", file);
    if (fd < 0) return iq_fail(err, IQ_IO, "%s: %s", file, strerror(errno));
    struct out o = {.f = fdopen(fd, "wb"), .sha = EVP_MD_CTX_new(), .file = file, .err = err};
    int rc = IQ_OK;
    if (!o.f || !o.sha || EVP_DigestInit_ex(o.sha, EVP_sha256(), NULL) != 1)
        rc = iq_fail(err, IQ_MEMORY, "%s: no memory to export", file);
    if (!rc && !(rc = iq__read_begin(s, &txn, err))) {
        rc = out_run(&o, s, txn, run);
        iq__read_end(s, txn);
    }
    if (o.f ? fclose(o.f) : close(fd))
        rc = rc ? rc : iq_fail(err, IQ_IO, "%s: closing: %s", file, strerror(errno));
    EVP_MD_CTX_free(o.sha);
    if (rc) unlink(file);
    return rc;
}
