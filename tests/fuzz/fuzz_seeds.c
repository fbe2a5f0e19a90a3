/* fuzz_seeds DIR: writes seeds for the fuzz targets into DIR/gguf, DIR/safetensors and DIR/json. */
#define _GNU_SOURCE
#include "tests/files/make_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const archs[] = {"llama", "mistral", "qwen2", "qwen3"};
static const char *const scalings[] = {
    NULL, "{\"type\":\"linear\",\"factor\":2}",
    "{\"rope_type\":\"yarn\",\"factor\":4.0,\"original_max_position_embeddings\":128}",
    "{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":4,\"original_max_"
    "position_embeddings\":64}"};

static void die(const struct iq_err *err)
{
    fprintf(stderr, "%s\n", err->text);
    exit(1);
}

static void slurp(struct iq_buf *b, const char *path)
{
    char piece[4096];
    FILE *f = fopen(path, "rb");
    for (size_t n; f && (n = fread(piece, 1, sizeof piece, f)) > 0;) iq_buf_put(b, piece, n);
    if (f) fclose(f);
}

int main(int argc, char **argv)
{
    if (argc != 2) return fprintf(stderr, "usage: fuzz_seeds DIR\n"), 2;
    char path[600], part[700];
    struct iq_err err = {0};
    static const char *const kinds[] = {"", "/gguf", "/safetensors", "/json", "/work"};
    for (size_t i = 0; i < 5; i++)
        snprintf(path, sizeof path, "%.500s%s", argv[1], kinds[i]), mkdir(path, 0755);
    for (int i = 0; i < 4; i++) {
        struct iq_test_spec s = iq_test_spec_default();
        s.arch = archs[i], s.layers = 1, s.vocab = 262, s.hidden = 32, s.ffn = 32, s.heads = 2,
        s.kv_heads = 1, s.head_dim = 8;
        s.format = (enum iq_format)(IQ_F16 + i), s.tied = i & 1, s.embed = IQ_Q4_0, s.rope_freqs = i == 0,
        s.rope_scaling = scalings[i];
        snprintf(path, sizeof path, "%.500s/gguf/%s", argv[1], archs[i]);
        if (s.head_dim * s.heads % 32) s.format = IQ_F16; /* the output projection has 16 columns */
        if (iq_test_write_model(path, &s, 1, &err)) die(&err);
        s.hf = true, s.format = (enum iq_format)(i % 3), s.embed = IQ_FORMAT_NONE;
        snprintf(path, sizeof path, "%.500s/work", argv[1]);
        if (iq_test_write_model(path, &s, 1, &err)) die(&err);
        struct iq_buf config = IQ_BUF(65535), b = IQ_BUF(1 << 24);
        snprintf(part, sizeof part, "%s/config.json", path);
        slurp(&config, part);
        snprintf(part, sizeof part, "%.500s/json/%s", argv[1], archs[i]);
        if (iq_test_write_file(part, config.data, config.len, &err)) die(&err);
        uint16_t n = (uint16_t)config.len;
        iq_buf_put(&b, &n, sizeof n);
        iq_buf_put(&b, config.data, config.len);
        snprintf(part, sizeof part, "%s/model.safetensors", path);
        slurp(&b, part);
        snprintf(part, sizeof part, "%.500s/safetensors/%s", argv[1], archs[i]);
        if (iq_test_write_file(part, b.data, b.len, &err)) die(&err);
        iq_buf_free(&b);
        iq_buf_free(&config);
    }
    static const char *const texts[] = {"[1e5,-0.25,null,true,\"\\ud83d\\ude00\\u0041\"]",
                                        "{\"a\":{\"b\":[[]]}}", "9007199254740993"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        snprintf(part, sizeof part, "%.500s/json/%zu", argv[1], i);
        if (iq_test_write_file(part, texts[i], strlen(texts[i]), &err)) die(&err);
    }
    return 0;
}
