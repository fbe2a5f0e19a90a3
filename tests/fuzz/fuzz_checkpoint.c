/* Any bytes as a trainer's checkpoint, with a SHA-256 that is right (else nothing behind it would be reached): loaded, asked
 * for logits, or refused. */
#define _GNU_SOURCE
#include "engine/train/train.h"
#include "kernels/base/sha256.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SHA = IQ_SHA256_HEX - 1 };

static void use(struct iq_train *t)
{
    const struct iq_train_recipe *r = iq_train_recipe_of(t);
    const uint32_t tokens[2] = {0, r->vocab - 1}, n = r->length < 2 ? 1 : 2;
    struct iq_err err;
    float *logits = malloc((size_t)n * r->vocab * sizeof *logits);
    if (!logits || iq_train_logits(t, tokens, n, logits, &err) != IQ_OK) abort();
    free(logits);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct iq_err err;
    struct iq_train *t;
    char path[40], sha[IQ_SHA256_HEX] = "";
    const size_t body = size > SHA ? size - SHA : size;
    iq_sha256(data, body, sha);
    int fd = memfd_create("fuzz.checkpoint", 0);
    if (fd < 0 || write(fd, data, body) != (ssize_t)body) abort();
    if (body < size && write(fd, sha, SHA) != SHA) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (iq_train_load(path, NULL, &t, &err) == IQ_OK) use(t);
    iq_train_close(t);
    close(fd);
    return 0;
}
