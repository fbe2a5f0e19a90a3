/* A campaign as one file, and from a file, which is hostile input.
 *
 *   struct head, manifest
 *   rows, ascending by index: struct iq__trial_rec, reason
 *   SHA-256 of everything before it (32 bytes)
 */
#include "golden/store_campaign.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "iq camp"
enum { SHA = 32 };
#define FILE_MAX ((uint64_t)8 << 30)

struct head {
    char magic[8];
    uint32_t version, trials, rows, manifest; /* manifest: bytes */
    uint64_t bytes;                           /* of the whole file */
};
_Static_assert(sizeof(struct head) == 32, "file format");

/* ---- writing ---- */

struct out {
    FILE *f;
    EVP_MD_CTX *sha;
    const char *file;
    uint64_t bytes;
    uint32_t rows;
    struct iq_err *err;
};

static int out_put(struct out *o, const void *bytes, size_t n)
{
    o->bytes += n;
    if (!o->f) return IQ_OK; /* only counting */
    if (n && (EVP_DigestUpdate(o->sha, bytes, n) != 1 || fwrite(bytes, 1, n, o->f) != n))
        return iq_fail(o->err, errno == ENOSPC || errno == EFBIG ? IQ_FULL : IQ_IO, "%s: writing: %s",
                       o->file, strerror(errno));
    return IQ_OK;
}

static int out_row(void *self, const struct iq_trial_row *r)
{
    struct out *o = self;
    char bytes[sizeof(struct iq__trial_rec) + IQ_TRIAL_REASON];
    o->rows++;
    return out_put(o, bytes, iq__trial_write(r, bytes));
}

static int out_all(struct out *o, struct iq_store *s, const char *id)
{
    char *manifest = NULL;
    uint8_t sha[EVP_MAX_MD_SIZE];
    struct iq_campaign_info info;
    struct out sizes = {.file = o->file, .err = o->err};
    IQ_TRY(iq_campaign_find(s, id, &info, o->err));
    IQ_TRY(iq_campaign_rows(s, info.id, out_row, &sizes, o->err));
    IQ_TRY(iq_campaign_manifest(s, info.id, &manifest, o->err));
    struct head h = {.magic = MAGIC,
                     .version = IQ_CAMPAIGN_VERSION,
                     .trials = info.trials,
                     .rows = sizes.rows,
                     .manifest = (uint32_t)strlen(manifest)};
    h.bytes = sizeof h + h.manifest + sizes.bytes + SHA;
    int rc = out_put(o, &h, sizeof h);
    if (!rc) rc = out_put(o, manifest, h.manifest);
    free(manifest);
    if (!rc) rc = iq_campaign_rows(s, info.id, out_row, o, o->err);
    if (!rc && o->bytes + SHA != h.bytes)
        rc = iq_fail(o->err, IQ_LIMIT, "%s: the campaign went on while it was exported; try again", o->file);
    if (rc) return rc;
    EVP_DigestFinal_ex(o->sha, sha, NULL);
    if (fwrite(sha, 1, SHA, o->f) != SHA || fflush(o->f) || fsync(fileno(o->f)))
        return iq_fail(o->err, errno == ENOSPC || errno == EFBIG ? IQ_FULL : IQ_IO, "%s: writing: %s",
                       o->file, strerror(errno));
    return IQ_OK;
}

int iq_campaign_export(struct iq_store *s, const char *id, const char *file, struct iq_err *err)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST)
        return iq_fail(err, IQ_EXISTS, "%s: there is a file already; remove it or name another", file);
    if (fd < 0) return iq_fail(err, IQ_IO, "%s: %s", file, strerror(errno));
    struct out o = {.f = fdopen(fd, "wb"), .sha = EVP_MD_CTX_new(), .file = file, .err = err};
    int rc = IQ_OK;
    if (!o.f || !o.sha || EVP_DigestInit_ex(o.sha, EVP_sha256(), NULL) != 1)
        rc = iq_fail(err, IQ_MEMORY, "%s: no memory to export", file);
    if (!rc) rc = out_all(&o, s, id);
    if (o.f ? fclose(o.f) : close(fd))
        rc = rc ? rc : iq_fail(err, IQ_IO, "%s: closing: %s", file, strerror(errno));
    EVP_MD_CTX_free(o.sha);
    if (rc) unlink(file);
    return rc;
}

/* ---- reading ---- */

/* A whole file in memory: rows are small. */
struct in {
    const char *file;
    uint8_t *bytes;
    size_t n; /* without the SHA-256 at its end */
    struct head h;
};

bool iq_campaign_is_export(const char *file)
{
    char magic[8] = "";
    FILE *f = fopen(file, "rbe");
    bool is = f && fread(magic, 1, sizeof magic, f) == sizeof magic && !memcmp(magic, MAGIC, sizeof magic);
    if (f) fclose(f);
    return is;
}

static int in_read(struct in *in, struct iq_err *err)
{
    struct stat st;
    FILE *f = fopen(in->file, "rbe");
    if (!f) return iq_fail(err, errno == ENOENT ? IQ_NOT_FOUND : IQ_IO, "%s: %s", in->file, strerror(errno));
    int rc = IQ_OK;
    if (fstat(fileno(f), &st) || !S_ISREG(st.st_mode) || st.st_size < (off_t)(sizeof in->h + SHA) ||
        (uint64_t)st.st_size > FILE_MAX)
        rc = iq_fail(err, IQ_FORMAT, "%s: not an exported campaign (no file, or of a size that none has)",
                     in->file);
    if (!rc && !(in->bytes = malloc((size_t)st.st_size)))
        rc = iq_fail(err, IQ_MEMORY, "%s: no memory for %lld bytes", in->file, (long long)st.st_size);
    if (!rc && fread(in->bytes, 1, (size_t)st.st_size, f) != (size_t)st.st_size)
        rc = iq_fail(err, IQ_IO, "%s: could not be read whole", in->file);
    fclose(f);
    if (!rc) in->n = (size_t)st.st_size - SHA;
    return rc;
}

static int in_check(struct in *in, struct iq_err *err)
{
    uint8_t sha[EVP_MAX_MD_SIZE];
    memcpy(&in->h, in->bytes, sizeof in->h);
    if (memcmp(in->h.magic, MAGIC, sizeof in->h.magic))
        return iq_fail(err, IQ_FORMAT, "%s: not an exported campaign (offset 0: another magic)", in->file);
    if (in->h.version != IQ_CAMPAIGN_VERSION)
        return iq_fail(err, IQ_ABI, "%s: campaign format %u, this build reads %d", in->file, in->h.version,
                       IQ_CAMPAIGN_VERSION);
    if (in->h.bytes != in->n + SHA || in->h.manifest > in->n - sizeof in->h)
        return iq_fail(err, IQ_FORMAT,
                       "%s: the file has %zu bytes, its head says %llu: it was cut or added to", in->file,
                       in->n + SHA, (unsigned long long)in->h.bytes);
    if (EVP_Digest(in->bytes, in->n, sha, NULL, EVP_sha256(), NULL) != 1)
        return iq_fail(err, IQ_MEMORY, "%s: no memory to hash it", in->file);
    if (memcmp(sha, in->bytes + in->n, SHA))
        return iq_fail(err, IQ_MISMATCH,
                       "%s: its SHA-256 is not the one at its end: it was altered; copy it again", in->file);
    if (memchr(in->bytes + sizeof in->h, 0, in->h.manifest))
        return iq_fail(err, IQ_FORMAT, "%s: its manifest has a zero byte", in->file);
    return IQ_OK;
}

/* Each row in turn; take NULL: they are only looked at. */
static int in_rows(const struct in *in,
                   int (*take)(void *self, uint32_t index, const void *bytes, size_t n, struct iq_err *),
                   void *self, struct iq_err *err)
{
    size_t at = sizeof in->h + in->h.manifest;
    int64_t before = -1;
    for (uint32_t i = 0; i < in->h.rows; i++) {
        struct iq__trial_rec rec;
        struct iq_trial_row row;
        if (in->n - at < sizeof rec)
            return iq_fail(err, IQ_FORMAT, "%s: offset %zu: a row reaches past the end", in->file, at);
        memcpy(&rec, in->bytes + at, sizeof rec);
        if (rec.reason >= IQ_TRIAL_REASON || in->n - at - sizeof rec < rec.reason || rec.index <= before)
            return iq_fail(err, IQ_FORMAT,
                           "%s: offset %zu: a row that reaches past the end or stands out of "
                           "order",
                           in->file, at);
        IQ_TRY(iq__trial_read(in->file, in->h.trials, rec.index, in->bytes + at, sizeof rec + rec.reason,
                              &row, err));
        if (take) IQ_TRY(take(self, rec.index, in->bytes + at, sizeof rec + rec.reason, err));
        before = rec.index;
        at += sizeof rec + rec.reason;
    }
    return at == in->n ? IQ_OK
                       : iq_fail(err, IQ_FORMAT, "%s: offset %zu: bytes after the last row", in->file, at);
}

static int in_open(struct in *in, struct iq_err *err)
{
    int rc = in_read(in, err);
    if (!rc) rc = in_check(in, err);
    if (!rc) rc = in_rows(in, NULL, NULL, err);
    if (rc) {
        free(in->bytes);
        in->bytes = NULL;
    }
    return rc;
}

int iq_campaign_import_check(const char *file, struct iq_err *err)
{
    struct in in = {.file = file};
    int rc = in_open(&in, err);
    free(in.bytes);
    return rc;
}

struct taking {
    struct iq_store *s;
    MDB_txn *txn;
    struct iq_digest id;
    uint32_t added;
};

static int take_row(void *self, uint32_t index, const void *bytes, size_t n, struct iq_err *err)
{
    struct taking *t = self;
    bool added;
    IQ_TRY(iq__trial_put(t->s, t->txn, t->id, index, bytes, n, &added, err));
    t->added += added;
    return IQ_OK;
}

static int import_locked(struct taking *t, const struct in *in, struct iq_err *err)
{
    const char *manifest = (const char *)in->bytes + sizeof in->h;
    IQ_TRY(iq__campaign_tables_make(t->s, err));
    IQ_TRY(iq__write_begin(t->s, 4 * in->n + ((uint64_t)16 << 20), &t->txn, err));
    int rc = iq__campaign_put(t->s, t->txn, t->id, manifest, in->h.manifest, in->h.trials, err);
    if (!rc) rc = in_rows(in, take_row, t, err);
    if (!rc) return iq__write_commit(t->s, t->txn, err);
    iq__write_abort(t->s, t->txn);
    return rc;
}

int iq_campaign_import(struct iq_store *s, const char *file, struct iq_campaign_info *out, uint32_t *added,
                       struct iq_err *err)
{
    struct in in = {.file = file};
    char hex[IQ_DIGEST_HEX];
    *added = 0;
    *out = (struct iq_campaign_info){.trials = 0};
    IQ_TRY(in_open(&in, err));
    struct taking t = {.s = s, .id = iq_digest_bytes(in.bytes + sizeof in.h, in.h.manifest)};
    int rc = iq__lock(s, err);
    if (!rc) {
        rc = import_locked(&t, &in, err);
        iq__unlock(s);
    }
    free(in.bytes);
    if (rc) return rc;
    *added = t.added;
    iq_digest_hex(t.id, hex);
    return iq_campaign_find(s, hex, out, err);
}
