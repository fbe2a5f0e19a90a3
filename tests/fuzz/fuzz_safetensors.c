/* A Hugging Face folder from any bytes: u16 n, n bytes of config.json, the rest is model.safetensors. */
#define _GNU_SOURCE
#include "engine/files/config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];
static volatile uint64_t sink;

static void clean(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/config.json", folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    unlink(path);
    rmdir(folder);
}

static void put(const char *name, const uint8_t *data, size_t n)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, data, n) != (ssize_t)n) abort();
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct iq_err err;
    struct iq_model_file *m;
    struct iq_model_config c;
    struct iq_model_tensors t;
    uint16_t n;
    if (!*folder) {
        snprintf(folder, sizeof folder, "%s/iq_fuzz_XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
        if (!mkdtemp(folder)) abort();
        atexit(clean);
    }
    if (size < sizeof n) return 0;
    memcpy(&n, data, sizeof n);
    data += sizeof n, size -= sizeof n;
    if (n > size) n = (uint16_t)size;
    put("config.json", data, n);
    put("model.safetensors", data + n, size - n);
    if (iq_model_file_open(folder, &m, &err)) return 0;
    for (size_t i = 0; i < iq_model_tensor_count(m); i++) {
        const struct iq_tensor *x = iq_model_tensor_at(m, i);
        for (uint64_t k = 0; k < x->nbytes; k++) sink += ((const unsigned char *)x->bytes)[k];
    }
    if (iq_model_config_read(m, &c, &t, &err) == IQ_OK) iq_model_config_free(&c, &t);
    iq_model_file_close(m);
    return 0;
}
