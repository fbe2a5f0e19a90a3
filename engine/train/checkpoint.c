/* Checkpoints: "IQTRAIN3", step, the recipe's fields in their order, the number of weights, weights and moments, SHA-256. */
#include "engine/train/parts.h"
#include "kernels/base/file.h"
#include "kernels/base/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file is little endian and copied as it is");

static const char magic[8] = {'I', 'Q', 'T', 'R', 'A', 'I', 'N', '3'};

enum {
    SHA = IQ_SHA256_HEX - 1,
#define X(type, field, least, most, what) +sizeof(type)
    RECIPE = 0 IQ_TRAIN_RECIPE_MAP(X),
#undef X
    HEADER = sizeof magic + sizeof(uint32_t) + RECIPE + sizeof(uint64_t)
};

/* Weights that a checked recipe describes; below 2^52. */
static uint64_t count_weights(const struct iq_train_recipe *r)
{
    uint64_t d = r->hidden, q = (uint64_t)r->heads * r->head_dim, kv = (uint64_t)r->kv_heads * r->head_dim;
    uint64_t feed = 3 * (uint64_t)r->ffn * d, experts = r->experts ? r->experts * (feed + d) : feed;
    uint64_t layer = 2 * d + (q + 2 * kv) * d + d * q + experts;
    return (r->tied ? 1 : 2) * (uint64_t)r->vocab * d + d + r->layers * layer;
}

/* ---- saving ---- */

static void put(unsigned char **at, const void *bytes, size_t n)
{
    memcpy(*at, bytes, n);
    *at += n;
}

static void compose(const struct iq_train *t, unsigned char *file)
{
    unsigned char *at = file;
    const uint64_t weights = t->weights;
    char sha[IQ_SHA256_HEX];
    put(&at, magic, sizeof magic);
    put(&at, &t->step, sizeof t->step);
#define X(type, field, least, most, what) put(&at, &t->recipe.field, sizeof t->recipe.field);
    IQ_TRAIN_RECIPE_MAP(X)
#undef X
    put(&at, &weights, sizeof weights);
    put(&at, t->w, 3 * t->weights * sizeof *t->w);
    iq_sha256(file, (size_t)(at - file), sha);
    put(&at, sha, SHA);
}

int iq_train_save(const struct iq_train *t, const char *path, struct iq_err *err)
{
    const size_t n = HEADER + 3 * t->weights * sizeof *t->w + SHA;
    unsigned char *file = malloc(n);
    if (!file) return iq_fail(err, IQ_MEMORY, "%s: no memory for a checkpoint of %zu bytes", path, n);
    compose(t, file);
    int rc = iq_file_write_whole(path, file, n, err);
    free(file);
    return rc;
}

/* ---- loading ---- */

static int read_all(int fd, unsigned char *to, size_t n)
{
    while (n) {
        ssize_t done = read(fd, to, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return -1;
        to += done;
        n -= (size_t)done;
    }
    return 0;
}

/* The recipe and step, checked against each other and the file's size: what is allocated later, the file holds. */
static int read_header(const unsigned char *header, uint64_t size, struct iq_train_recipe *r, uint32_t *step,
                       struct iq_err *err)
{
    const unsigned char *at = header + sizeof magic;
    uint64_t weights;
    if (memcmp(header, magic, sizeof magic))
        return iq_fail(err, IQ_FORMAT, "offset 0: it is not a checkpoint, expected \"IQTRAIN3\"");
#define TAKE(field) memcpy(&(field), at, sizeof(field)), at += sizeof(field)
    TAKE(*step);
#define X(type, field, least, most, what) TAKE(r->field);
    IQ_TRAIN_RECIPE_MAP(X)
#undef X
    TAKE(weights);
#undef TAKE
    IQ_TRY(iq_train_recipe_check(r, err));
    if (*step > iq_train_steps(r))
        return iq_fail(err, IQ_FORMAT, "found step %u, expected at most the %u of the recipe", *step,
                       iq_train_steps(r));
    if (weights != count_weights(r))
        return iq_fail(err, IQ_FORMAT, "found %llu weights, expected the %llu that the recipe describes",
                       (unsigned long long)weights, (unsigned long long)count_weights(r));
    uint64_t expected = HEADER + 3 * weights * sizeof(float) + SHA;
    if (size != expected)
        return iq_fail(err, IQ_FORMAT, "found %llu bytes, expected %llu: it was cut off or added to",
                       (unsigned long long)size, (unsigned long long)expected);
    return IQ_OK;
}

static int check_sha(const unsigned char *file, size_t size, struct iq_err *err)
{
    char sha[IQ_SHA256_HEX];
    iq_sha256(file, size - SHA, sha);
    if (!memcmp(sha, file + size - SHA, SHA)) return IQ_OK;
    return iq_fail(
        err, IQ_MISMATCH,
        "found SHA-256 %.64s at the end, expected %s: the contents changed after they were written; use "
        "an earlier checkpoint",
        (const char *)file + size - SHA, sha);
}

static int read_file(int fd, const struct iq_train_options *options, struct iq_train **out,
                     struct iq_err *err)
{
    struct stat st;
    unsigned char header[HEADER];
    struct iq_train_recipe recipe;
    uint32_t step = 0;
    if (fstat(fd, &st)) return iq_fail(err, IQ_IO, "cannot look at it: %s", strerror(errno));
    if (!S_ISREG(st.st_mode)) return iq_fail(err, IQ_FORMAT, "it is not a regular file");
    const uint64_t size = (uint64_t)st.st_size;
    if (size < HEADER + SHA)
        return iq_fail(err, IQ_FORMAT, "found %llu bytes, expected at least %d: it is not a whole checkpoint",
                       (unsigned long long)size, HEADER + SHA);
    if (read_all(fd, header, HEADER))
        return iq_fail(err, IQ_IO, "cannot read its header: %s", strerror(errno));
    IQ_TRY(read_header(header, size, &recipe, &step, err));
    unsigned char *file = malloc(size);
    if (!file) return iq_fail(err, IQ_MEMORY, "no memory for its %llu bytes", (unsigned long long)size);
    memcpy(file, header, HEADER);
    int rc = IQ_OK;
    if (read_all(fd, file + HEADER, size - HEADER)) rc = iq_fail(err, IQ_IO, "it ended while it was read");
    if (rc == IQ_OK) rc = check_sha(file, size, err);
    if (rc == IQ_OK) rc = iq__train_new(&recipe, options, out, err);
    if (rc == IQ_OK) {
        memcpy((*out)->w, file + HEADER, size - HEADER - SHA);
        (*out)->step = step;
    }
    free(file);
    return rc;
}

int iq_train_load(const char *path, const struct iq_train_options *options, struct iq_train **out,
                  struct iq_err *err)
{
    *out = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not hold us up */
    if (fd < 0)
        return iq_fail(err, errno == ENOENT ? IQ_NOT_FOUND : IQ_IO, "%s: cannot open the checkpoint: %s",
                       path, strerror(errno));
    int rc = read_file(fd, options, out, err);
    close(fd);
    return rc == IQ_OK ? IQ_OK : iq_err_prefix(err, "%s: ", path);
}
