/* Any bytes as a GGUF file: opened, walked, configured, or refused. */
#define _GNU_SOURCE
#include "engine/files/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile uint64_t sink;

static void walk(struct iq_model_file *m)
{
    for (size_t i = 0; i < iq_model_meta_count(m); i++) {
        struct iq_array a = {0};
        struct iq_text t = {0};
        const char *key = iq_model_meta_at(m, i)->key;
        if (iq_model_array(m, key, IQ_META_STRING, &a, NULL, NULL) == IQ_OK)
            for (uint64_t k = 0; k < a.n; k++) sink += iq_array_next_text(&a).n;
        if (iq_model_array(m, key, IQ_META_F64, &a, NULL, NULL) == IQ_OK)
            for (uint64_t k = 0; k < a.n; k++) sink += iq_array_next_f64(&a) > 0;
        if (iq_model_text(m, key, &t, NULL, NULL) == IQ_OK)
            for (size_t k = 0; k < t.n; k++) sink += (unsigned char)t.s[k];
    }
    for (size_t i = 0; i < iq_model_tensor_count(m); i++) {
        const struct iq_tensor *t = iq_model_tensor_at(m, i);
        for (uint64_t k = 0; k < t->nbytes; k++) sink += ((const unsigned char *)t->bytes)[k];
        iq_model_tensor_release(m, t);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct iq_err err;
    struct iq_model_file *m;
    struct iq_model_config c;
    struct iq_model_tensors t;
    char path[40];
    int fd = memfd_create("fuzz.gguf", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (iq_model_file_open(path, &m, &err) == IQ_OK) {
        walk(m);
        if (iq_model_config_read(m, &c, &t, &err) == IQ_OK) iq_model_config_free(&c, &t);
        iq_model_file_close(m);
    }
    close(fd);
    return 0;
}
