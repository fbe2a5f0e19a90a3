/* What all model files share: opening, lists and names, mapped files, tensors, notes. */
#define _GNU_SOURCE
#include "engine/files/model_file_parts.h"
#include "kernels/base/digest.h"
#include "kernels/base/grow.h"
#include "kernels/base/rng.h"
#include "kernels/base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct iq__kept {
    struct iq__kept *next;
    char text[];
};

char *iq__keep(struct iq_model_file *m, const void *bytes, size_t n)
{
    struct iq__kept *k = malloc(sizeof *k + n + 1);
    if (!k) return NULL;
    if (n) memcpy(k->text, bytes, n);
    k->text[n] = 0;
    k->next = m->kept;
    m->kept = k;
    return k->text;
}

/* ---- names ---- */

/* The table's own address takes part, so that a file cannot be made whose names all meet in one place. */
static size_t home(const struct iq__names *t, const char *name)
{
    uint64_t h = iq_digest_bytes(name, strlen(name)).lo;
    return (size_t)iq_mix64(h ^ (uintptr_t)t->slot) & (t->cap - 1);
}

const struct iq__name *iq__names_find(const struct iq__names *t, const char *name)
{
    if (!t->cap) return NULL;
    for (size_t i = home(t, name);; i = (i + 1) & (t->cap - 1)) {
        if (!t->slot[i].name) return NULL;
        if (!strcmp(t->slot[i].name, name)) return &t->slot[i];
    }
}

static void place(struct iq__names *t, struct iq__name entry)
{
    size_t i = home(t, entry.name);
    while (t->slot[i].name) i = (i + 1) & (t->cap - 1);
    t->slot[i] = entry;
}

int iq__names_add(struct iq__names *t, const char *name, size_t at, struct iq_err *err)
{
    if ((t->n + 1) * 2 > t->cap) {
        struct iq__names bigger = {.n = t->n, .cap = t->cap ? t->cap * 2 : 64};
        bigger.slot = calloc(bigger.cap, sizeof *bigger.slot);
        if (!bigger.slot) return iq_fail(err, IQ_MEMORY, "no memory for an index of %zu names", t->n);
        for (size_t i = 0; i < t->cap; i++)
            if (t->slot[i].name) place(&bigger, t->slot[i]);
        free(t->slot);
        *t = bigger;
    }
    place(t, (struct iq__name){name, at});
    t->n++;
    return IQ_OK;
}

bool iq__name_is_fair(const void *name, size_t n)
{
    const char *s = name;
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int len = iq_utf8_next(s + i, n - i, &cp);
        if (len < 0 || cp < 0x20 || (cp >= 0x7f && cp < 0xa0)) return false;
        i += (size_t)len;
    }
    return n >= 1 && n <= 255;
}

/* ---- files ---- */

int iq__map_file(struct iq_model_file *m, const char *path, size_t *index, struct iq_err *err)
{
    struct stat st;
    void *bytes = MAP_FAILED;
    char *copy = NULL;
    int status = IQ_OK, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block us */
    if (fd < 0)
        return iq_fail(err, errno == ENOENT ? IQ_NOT_FOUND : IQ_IO, "%s: cannot be opened: %s", path,
                       strerror(errno));
    if (fstat(fd, &st) || !S_ISREG(st.st_mode))
        status = iq_fail(err, IQ_IO, "%s: is no regular file, expected a file that can be mapped", path);
    else if (st.st_size == 0)
        status = iq_fail(err, IQ_FORMAT, "%s: is empty", path);
    else if ((bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) == MAP_FAILED)
        status = iq_fail(err, errno == ENOMEM ? IQ_MEMORY : IQ_IO, "%s: %lld bytes cannot be mapped: %s",
                         path, (long long)st.st_size, strerror(errno));
    else
        status = iq_grow(&m->file, &m->cap_files, m->files + 1, sizeof *m->file, err);
    close(fd);
    if (status == IQ_OK && !(copy = strdup(path)))
        status = iq_fail(err, IQ_MEMORY, "%s: no memory for its name", path);
    if (status != IQ_OK) {
        if (bytes != MAP_FAILED) munmap(bytes, (size_t)st.st_size);
        return status;
    }
    *index = m->files;
    m->file[m->files++] = (struct iq__map){copy, bytes, (uint64_t)st.st_size};
    return IQ_OK;
}

int iq__tensor_add(struct iq_model_file *m, const struct iq_tensor *t, struct iq_err *err)
{
    const struct iq__name *there = iq__names_find(&m->tensor_names, t->name);
    if (there) {
        const struct iq_tensor *old = &m->tensor[there->at];
        return iq_fail(
            err, IQ_FORMAT, "%s: a second tensor `%s`, the first is in %s; expected each name once",
            m->file[t->file].path, t->name, old->file == t->file ? "the same file" : m->file[old->file].path);
    }
    IQ_TRY(iq_grow(&m->tensor, &m->cap_tensors, m->tensors + 1, sizeof *m->tensor, err));
    IQ_TRY(iq__names_add(&m->tensor_names, t->name, m->tensors, err));
    m->tensor[m->tensors++] = *t;
    return IQ_OK;
}

static int open_folder(struct iq_model_file *m, const char *path, struct iq_err *err)
{
    bool hf =
        iq__file_exists(path, "model.safetensors.index.json") || iq__file_exists(path, "model.safetensors");
    char *gguf = NULL;
    if (!hf) IQ_TRY(iq__gguf_in_folder(path, &gguf, err));
    if (gguf) {
        int status = iq__gguf_open(m, gguf, err);
        free(gguf);
        return status;
    }
    m->folder = strdup(path);
    return m->folder ? iq__folder_open(m, NULL, err)
                     : iq_fail(err, IQ_MEMORY, "%s: no memory for its name", path);
}

static int open_any(struct iq_model_file *m, const char *path, struct iq_err *err)
{
    struct stat st;
    if (stat(path, &st))
        return iq_fail(err, errno == ENOENT ? IQ_NOT_FOUND : IQ_IO, "%s: cannot be opened: %s", path,
                       strerror(errno));
    if (S_ISDIR(st.st_mode)) return open_folder(m, path, err);
    size_t n = strlen(path);
    if (n < 12 || strcmp(path + n - 12, ".safetensors")) return iq__gguf_open(m, path, err);
    const char *slash = strrchr(path, '/');
    m->folder = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    if (!m->folder) return iq_fail(err, IQ_MEMORY, "%s: no memory for its name", path);
    return iq__folder_open(m, slash ? slash + 1 : path, err);
}

int iq_model_file_open(const char *path, struct iq_model_file **out, struct iq_err *err)
{
    *out = NULL;
    struct iq_model_file *m = calloc(1, sizeof *m);
    if (!m) return iq_fail(err, IQ_MEMORY, "%s: no memory to open it", path);
    int status = open_any(m, path, err);
    if (status == IQ_OK && !m->name) m->name = strdup(m->kind == IQ_MODEL_HF ? m->folder : m->file[0].path);
    if (status == IQ_OK && !m->name) status = iq_fail(err, IQ_MEMORY, "%s: no memory for its name", path);
    if (status != IQ_OK) {
        iq_model_file_close(m);
        return status;
    }
    *out = m;
    return IQ_OK;
}

int iq_model_file_open_tensors(const char *folder, const char *file, struct iq_model_file **out,
                               struct iq_err *err)
{
    *out = NULL;
    struct iq_model_file *m = calloc(1, sizeof *m);
    if (m) m->folder = strdup(folder);
    if (m) m->name = strdup(folder);
    int status = m && m->folder && m->name ? iq__folder_tensors(m, file, err)
                                           : iq_fail(err, IQ_MEMORY, "%s: no memory to open it", folder);
    if (status == IQ_OK)
        *out = m;
    else
        iq_model_file_close(m);
    return status;
}

void iq_model_file_close(struct iq_model_file *m)
{
    if (!m) return;
    for (size_t i = 0; i < m->files; i++) {
        munmap((void *)m->file[i].bytes, m->file[i].size);
        free(m->file[i].path);
    }
    for (size_t i = 0; i < m->jsons; i++) iq_json_free(m->json[i].tree);
    for (size_t i = 0; i < m->notes; i++) free(m->note[i]);
    for (struct iq__kept *k = m->kept, *next; k; k = next) {
        next = k->next;
        free(k);
    }
    free(m->file);
    free(m->tensor);
    free(m->tensor_names.slot);
    free(m->meta);
    free(m->meta_names.slot);
    free(m->json);
    free(m->note);
    free(m->name);
    free(m->folder);
    free(m);
}

/* ---- getters ---- */

enum iq_model_kind iq_model_file_kind(const struct iq_model_file *m) { return m->kind; }
const char *iq_model_file_name(const struct iq_model_file *m) { return m->name; }
size_t iq_model_file_count(const struct iq_model_file *m) { return m->files; }
const char *iq_model_file_path(const struct iq_model_file *m, size_t i) { return m->file[i].path; }
uint64_t iq_model_file_bytes(const struct iq_model_file *m, size_t i) { return m->file[i].size; }

int iq_model_file_sha256(const struct iq_model_file *m, size_t i, char hex[IQ_SHA256_HEX], struct iq_err *err)
{
    return iq_sha256_file(m->file[i].path, hex, err);
}

size_t iq_model_file_note_count(const struct iq_model_file *m) { return m->notes; }
const char *iq_model_file_note(const struct iq_model_file *m, size_t i) { return m->note[i]; }

void iq_model_file_add_note(struct iq_model_file *m, const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0) text = NULL;
    va_end(ap);
    if (!text || iq_grow(&m->note, &m->cap_notes, m->notes + 1, sizeof *m->note, NULL))
        free(text); /* a note is talk: without memory it is left out */
    else
        m->note[m->notes++] = text;
}

size_t iq_model_tensor_count(const struct iq_model_file *m) { return m->tensors; }
const struct iq_tensor *iq_model_tensor_at(const struct iq_model_file *m, size_t i) { return &m->tensor[i]; }

const struct iq_tensor *iq_model_tensor_peek(const struct iq_model_file *m, const char *name)
{
    const struct iq__name *e = iq__names_find(&m->tensor_names, name);
    return e ? &m->tensor[e->at] : NULL;
}

const struct iq_tensor *iq_model_tensor_find(struct iq_model_file *m, const char *name)
{
    const struct iq__name *e = iq__names_find(&m->tensor_names, name);
    if (!e) return NULL;
    m->tensor[e->at].used = true;
    return &m->tensor[e->at];
}

void iq_model_tensor_release(const struct iq_model_file *m, const struct iq_tensor *t)
{
    /* By huge pages, neighbours' bytes included: a kernel that caches files in large folios maps as much with one fault.
     * Clean pages of a file come back when they are read. */
    const uint64_t huge = 2 << 20, size = m->file[t->file].size;
    uint64_t begin = t->offset / huge * huge, end = (t->offset + t->nbytes + huge - 1) / huge * huge;
    (void)madvise((void *)(m->file[t->file].bytes + begin), (end < size ? end : size) - begin, MADV_DONTNEED);
}
