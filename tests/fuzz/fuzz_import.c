/* An exported run from a stranger: any bytes, sealed with a right SHA-256 and the right length, so that what lies behind
 * the seal is reached. */
#include "golden/store.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct iq_store *store;
static char file[64];

static void set_up(void)
{
    static char dir[64];
    struct iq_err err = {0};
    struct iq_store_options o = {.create = true, .map_bytes = 64 << 20, .max_bytes = 256 << 20};
    snprintf(dir, sizeof dir, "%s/iq-fuzz-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    if (!mkdtemp(dir) || iq_store_open(dir, &o, &store, &err)) {
        fprintf(stderr, "no store to import into: %s\n", err.text);
        abort();
    }
    snprintf(file, sizeof file, "%s/in", dir);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!store) set_up();
    if (size < 24 + SHA256_DIGEST_LENGTH) return 0;
    uint8_t *copy = malloc(size);
    uint64_t total = size;
    memcpy(copy, data, size);
    memcpy(copy + 16, &total, sizeof total); /* iq__file_head.bytes */
    SHA256(copy, size - SHA256_DIGEST_LENGTH, copy + size - SHA256_DIGEST_LENGTH);
    FILE *f = fopen(file, "wb");
    if (f) {
        fwrite(copy, 1, total, f);
        fclose(f);
    }
    free(copy);
    struct iq_run_info info;
    struct iq_err err = {0};
    bool known;
    if (!iq_store_import(store, file, "fuzz", &info, &known, &err) && iq_store_rm(store, info.id, NULL, &err))
        abort();
    return 0;
}
