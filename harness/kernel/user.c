#define _GNU_SOURCE
#include "harness/kernel/user_parts.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS_MAX = 64, TIMEOUT_MAX_S = 86400, MEMORY_MAX_MB = 1 << 24 };

static struct iq_user_library *libraries;

/* ---- programs ---- */

void iq__user_program_free(struct iq_kernel_program *p)
{
    for (size_t i = 0; p->argv && p->argv[i]; i++) free((void *)p->argv[i]);
    free((void *)p->argv);
    free((void *)p->file);
    free((void *)p->dir);
    *p = (struct iq_kernel_program){0};
}

static int find_file(const char *file, const char *dir, const char *where, char **out, struct iq_err *err)
{
    char path[PATH_MAX];
    int n = file[0] == '/' ? snprintf(path, sizeof path, "%s", file)
                           : snprintf(path, sizeof path, "%s/%s", dir, file);
    if (n >= (int)sizeof path) return iq_fail(err, IQ_NOT_FOUND, "%s: the path is too long", where);
    *out = realpath(path, NULL);
    return *out ? IQ_OK : iq_fail(err, IQ_NOT_FOUND, "%s: %s: %s", where, path, strerror(errno));
}

static int read_words(const cJSON *list, const char *where, struct iq_kernel_program *p, struct iq_err *err)
{
    const cJSON *item;
    const char **argv = calloc(WORDS_MAX + 1, sizeof *argv);
    size_t n = 0;
    p->argv = argv;
    if (!argv) return iq_fail(err, IQ_MEMORY, "%s: no memory", where);
    cJSON_ArrayForEach(item, list)
    {
        if (n == WORDS_MAX || !cJSON_IsString(item))
            return iq_fail(err, IQ_FORMAT, "%s: process: expected a list of at most %d texts", where,
                           WORDS_MAX);
        if (!(argv[n++] = strdup(item->valuestring))) return iq_fail(err, IQ_MEMORY, "%s: no memory", where);
    }
    if (n && argv[0][0]) return IQ_OK;
    return iq_fail(err, IQ_FORMAT,
                   "%s: process: expected a program and its arguments, [\"python3\", \"kernel.py\"]", where);
}

static int read_program(const cJSON *entry, const char *dir, const char *where, struct iq_kernel_program *p,
                        struct iq_err *err)
{
    const char *file = cJSON_IsString(entry) ? entry->valuestring : NULL, *own = NULL;
    const cJSON *words = cJSON_GetObjectItemCaseSensitive(entry, "process");
    char *path = NULL;
    if (!cJSON_IsString(entry)) {
        IQ_TRY(iq_json_str_opt(entry, "file", where, &file, err));
        IQ_TRY(iq_json_str_opt(entry, "dir", where, &own, err));
    }
    if (!file == !words || (words && !cJSON_IsArray(words)))
        return iq_fail(err, IQ_FORMAT,
                       "%s: expected the path of a shared library, {\"file\": PATH} or {\"process\": "
                       "[PROGRAM, ARGUMENT...]}",
                       where);
    IQ_TRY(own ? find_file(own, dir, where, &path, err) : find_file(dir, ".", where, &path, err));
    p->dir = path;
    if (words) return read_words(words, where, p, err);
    IQ_TRY(find_file(file, dir, where, &path, err));
    p->file = path;
    return IQ_OK;
}

/* The file that stands for it: the library, or the first word that is a file; "": none is. */
static void own_file(const struct iq_kernel_program *p, char *out, size_t size)
{
    *out = 0;
    if (p->file) snprintf(out, size, "%s", p->file);
    for (size_t i = 0; p->argv && p->argv[i] && !*out; i++) {
        if (i == 0 && !strchr(p->argv[0], '/')) continue; /* found on PATH */
        snprintf(out, size, "%s%s%s", p->argv[i][0] == '/' ? "" : p->dir, p->argv[i][0] == '/' ? "" : "/",
                 p->argv[i]);
        if (access(out, R_OK)) *out = 0;
    }
}

static bool same_program(const struct iq_kernel_program *a, const struct iq_kernel_program *b)
{
    if (!a->file != !b->file) return false;
    if (a->file) return !strcmp(a->file, b->file);
    size_t i = 0;
    while (a->argv[i] && b->argv[i] && !strcmp(a->argv[i], b->argv[i])) i++;
    return !a->argv[i] && !b->argv[i] && !strcmp(a->dir, b->dir);
}

/* ---- libraries ---- */

int iq__user_ensure(struct iq_user_library *l, struct iq_err *err)
{
    struct iq_buf listing = IQ_BUF(IQ_ABI_HELLO);
    if (l->process.pid > 0 && l->process.owner == getpid()) return IQ_OK;
    iq_kernel_process_end(&l->process); /* it died, or belongs to the process that this one was forked from */
    int status = iq_kernel_process_start(&l->program, &l->limits, &l->process, &listing, err);
    if (status == IQ_OK && l->listing.data && strcmp(l->listing.data, listing.data)) {
        iq_kernel_process_end(&l->process);
        status = iq_fail(err, IQ_MISMATCH, "lists other kernels than when the plan was read");
    }
    if (status == IQ_OK && !l->listing.data)
        l->listing = listing;
    else
        iq_buf_free(&listing);
    return status;
}

static int learn(struct iq_user_library *l, struct iq_err *err)
{
    IQ_TRY(iq__user_ensure(l, err));
    iq_kernel_process_end(&l->process);
    IQ_TRY(iq__user_listing(l, err));
    if (l->n <= iq__user_doors_left()) return IQ_OK;
    return iq_fail(err, IQ_LIMIT, "%u kernels more than the %d that a process may have of users", l->n,
                   IQ__DOORS);
}

/* From here on the registry and the doors borrow it. */
static int enter(struct iq_user_library *l, struct iq_err *err)
{
    for (uint32_t i = 0; i < l->n; i++) l->kernel[i].variant.run = iq__user_door(&l->kernel[i]);
    for (uint32_t i = 0; i < l->n; i++) IQ_TRY(iq_variant_register(&l->kernel[i].variant, err));
    return IQ_OK;
}

/* Takes the program over. */
static int add(struct iq_kernel_program *program, const struct iq_kernel_limits *limits, const char *where,
               struct iq_user_library **out, struct iq_err *err)
{
    char file[PATH_MAX], sha256[IQ_SHA256_HEX] = "";
    own_file(program, file, sizeof file);
    int status = *file ? iq_sha256_file(file, sha256, err) : IQ_OK;
    if (status != IQ_OK) iq_err_prefix(err, "%s: ", where);
    for (struct iq_user_library *l = libraries; l && status == IQ_OK; l = l->next) {
        if (!same_program(&l->program, program)) continue;
        if (strcmp(l->sha256, sha256))
            status =
                iq_fail(err, IQ_MISMATCH, "%s: %s has changed since this command has read it", where, file);
        l->limits = *limits;
        *out = l;
        iq__user_program_free(program);
        return status;
    }
    struct iq_user_library *l = status == IQ_OK ? calloc(1, sizeof *l) : NULL;
    if (!l) {
        iq__user_program_free(program);
        return status != IQ_OK ? status : iq_fail(err, IQ_MEMORY, "%s: no memory", where);
    }
    l->program = *program;
    l->limits = *limits;
    memcpy(l->sha256, sha256, sizeof sha256);
    const char *shown = *file || !l->program.argv ? file : l->program.argv[0], *slash = strrchr(shown, '/');
    snprintf(l->name, sizeof l->name, "%.120s", slash ? slash + 1 : shown);
    status = learn(l, err);
    if (status != IQ_OK) {
        iq_err_prefix(err, "%s: %s: ", where, shown);
        iq_kernel_process_end(&l->process);
        iq__user_program_free(&l->program);
        iq_buf_free(&l->listing);
        free(l->kernel);
        free(l);
        return status;
    }
    l->next = libraries;
    *out = libraries = l;
    return enter(l, err);
}

static int read_limits(const cJSON *entry, const char *where, struct iq_kernel_limits *out,
                       const char **sha256, struct iq_err *err)
{
    static const char *const known[] = {"file", "process", "dir", "timeout_s", "memory_mb", "sha256", NULL};
    uint64_t mb;
    *out = IQ_KERNEL_LIMITS;
    mb = out->memory_mb;
    double s = out->timeout_ms / 1000.0;
    if (cJSON_IsString(entry)) return IQ_OK;
    IQ_TRY(iq_json_known(entry, known, where, err));
    IQ_TRY(iq_json_f64_opt(entry, "timeout_s", 0.001, TIMEOUT_MAX_S, where, &s, err));
    IQ_TRY(iq_json_u64_opt(entry, "memory_mb", 1, MEMORY_MAX_MB, where, &mb, err));
    IQ_TRY(iq_json_str_opt(entry, "sha256", where, sha256, err));
    *out = (struct iq_kernel_limits){(uint32_t)(s * 1000), (uint32_t)mb};
    return IQ_OK;
}

int iq_user_read(const cJSON *entry, const char *dir, const char *where, struct iq_user_use *out,
                 struct iq_err *err)
{
    struct iq_kernel_program program = {0};
    struct iq_kernel_limits limits;
    const char *sha256 = NULL;
    *out = (struct iq_user_use){0};
    IQ_TRY(read_limits(entry, where, &limits, &sha256, err));
    int status = read_program(entry, dir ? dir : ".", where, &program, err);
    if (status != IQ_OK) {
        iq__user_program_free(&program);
        return status;
    }
    struct iq_user_library *l;
    IQ_TRY(add(&program, &limits, where, &l, err));
    if (sha256 && strcmp(sha256, l->sha256))
        return iq_fail(err, IQ_MISMATCH, "%s: found SHA-256 %s of %s, expected %s: it is another library now",
                       where, l->sha256, l->name, sha256);
    *out = (struct iq_user_use){l, limits};
    return IQ_OK;
}

int iq_user_file(const char *path, struct iq_user_use *out, struct iq_err *err)
{
    cJSON *entry = cJSON_CreateString(path);
    *out = (struct iq_user_use){0};
    int status =
        entry ? iq_user_read(entry, NULL, "--kernels", out, err) : iq_fail(err, IQ_MEMORY, "no memory");
    cJSON_Delete(entry);
    return status;
}

void iq_user_write(const struct iq_user_use *u, struct iq_jw *w)
{
    const struct iq_user_library *l = u->library;
    iq_jw_begin(w, '{');
    if (l->program.file) {
        iq_jw_key(w, "file"), iq_jw_str(w, l->program.file);
    } else {
        iq_jw_key(w, "process"), iq_jw_begin(w, '[');
        for (const char *const *word = l->program.argv; *word; word++) iq_jw_str(w, *word);
        iq_jw_end(w, ']');
        iq_jw_key(w, "dir"), iq_jw_str(w, l->program.dir);
    }
    if (*l->sha256) iq_jw_key(w, "sha256"), iq_jw_str(w, l->sha256);
    iq_jw_key(w, "timeout_s"), iq_jw_f64(w, u->limits.timeout_ms / 1000.0);
    iq_jw_key(w, "memory_mb"), iq_jw_u64(w, u->limits.memory_mb);
    iq_jw_end(w, '}');
}

const char *iq_user_float_mode(const struct iq_user_use *u)
{
    return *u->library->float_mode ? u->library->float_mode : NULL;
}
const char *iq_user_name(const struct iq_user_use *u) { return u->library->name; }
const char *iq_user_sha256(const struct iq_user_use *u) { return u->library->sha256; }

const char *iq_user_file_of(const struct iq_variant *v)
{
    for (struct iq_user_library *l = libraries; l; l = l->next)
        for (uint32_t i = 0; i < l->n; i++)
            if (&l->kernel[i].variant == v) return l->program.file;
    return NULL;
}

int iq_user_start(const struct iq_user_use *u, struct iq_err *err)
{
    u->library->limits = u->limits;
    int status = iq__user_ensure(u->library, err);
    if (status != IQ_OK) iq_err_prefix(err, "%s: ", u->library->name);
    return status;
}

void iq_user_stop(void)
{
    for (struct iq_user_library *l = libraries; l; l = l->next) iq_kernel_process_end(&l->process);
}
