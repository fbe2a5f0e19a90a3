/* make_model: writes a small random model, for tests that are shell scripts. See make_model.h for what is in it. */
#include "tests/files/make_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char usage[] =
    "usage: make_model PATH [KEY=VALUE ...]\n"
    "Writes a random model: a GGUF file where PATH ends in .gguf (with shards=3: "
    "M-00001-of-00003.gguf and so on\n"
    "for M.gguf), else a Hugging Face folder. Keys: seed (1), arch (llama, mistral, "
    "qwen2, qwen3, mixtral, qwen3moe),\n"
    "format (F32, F16, BF16, Q8_0, Q4_0, Q4_1), layers, hidden, ffn, heads, kv_heads, "
    "head_dim, vocab, context,\n"
    "experts, active, tied (0, 1), shards.\n";

static int fail(const char *what)
{
    fprintf(stderr, "make_model: %s\n%s", what, usage);
    return 2;
}

static int find_format(const char *name, enum iq_format *out)
{
    for (int f = IQ_F32; f < IQ_FORMATS; f++)
        if (!strcmp(iq_format_info((enum iq_format)f)->name, name)) {
            *out = (enum iq_format)f;
            return 0;
        }
    return -1;
}

static int set(struct iq_test_spec *s, uint64_t *seed, const char *key, const char *value)
{
    const struct {
        const char *key;
        uint32_t *field;
    } numbers[] = {{"layers", &s->layers},   {"hidden", &s->hidden},     {"ffn", &s->ffn},
                   {"heads", &s->heads},     {"kv_heads", &s->kv_heads}, {"head_dim", &s->head_dim},
                   {"vocab", &s->vocab},     {"context", &s->context},   {"shards", &s->shards},
                   {"experts", &s->experts}, {"active", &s->active}};
    if (!strcmp(key, "arch")) return s->arch = value, 0;
    if (!strcmp(key, "format")) return find_format(value, &s->format);
    if (!strcmp(key, "seed")) return *seed = strtoull(value, NULL, 10), 0;
    if (!strcmp(key, "tied")) return s->tied = !strcmp(value, "1"), 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(key, numbers[i].key)) return *numbers[i].field = (uint32_t)strtoul(value, NULL, 10), 0;
    return -1;
}

int main(int argc, char **argv)
{
    struct iq_test_spec s = iq_test_spec_default();
    struct iq_err err = {0};
    uint64_t seed = 1;
    if (argc < 2) return fail("a path is missing");
    for (int i = 2; i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        if (!equals) return fail(argv[i]);
        *equals = 0;
        if (set(&s, &seed, argv[i], equals + 1)) return fail(argv[i]);
    }
    size_t n = strlen(argv[1]);
    s.hf = n < 5 || strcmp(argv[1] + n - 5, ".gguf");
    if (!s.hf && s.shards > 1) argv[1][n - 5] = 0; /* the stem of the set */
    if (s.hf) mkdir(argv[1], 0777);                /* where it can't be made, writing says so */
    if (iq_test_write_model(argv[1], &s, seed, &err)) return fail(err.text);
    return 0;
}
