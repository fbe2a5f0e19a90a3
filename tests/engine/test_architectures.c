/* Every architecture and rotary scaling against transformers, in float64: small random models, whose logits at the end
 * of one prompt tests/engine/make_reference.py took (tests/data/engine/architectures.jsonl). The models are made again
 * here from the same specs and seed.
 *
 *   test_architectures --write DIR     the folders that make_reference.py reads, with each prompt in prompt.json
 *
 * Errors are held to the bound that rig.h derives. */
#include "tests/check_main.h"
#include "tests/engine/rig.h"
#include "tests/files/make_model.h"
#include "tests/files/scratch.h"

#include "kernels/base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    SEED = 19,
    TOKENS = 100,
    MADE = 24,
    ROUNDINGS = 1400
}; /* of 2 layers; counted as in test_smollm2.c, 100 keys */

#define SIZES(d)                                                                                             \
    .embed = IQ_FORMAT_NONE, .layers = 2, .hidden = 64, .ffn = 160, .heads = 4, .kv_heads = 2,               \
    .head_dim = (d), .vocab = 320
#define FOLDER .hf = true, .format = IQ_F32

static const struct example {
    const char *name;
    struct iq_test_spec spec;
} examples[] = {
    {"llama", {.arch = "llama", FOLDER, SIZES(16)}},
    {"llama-tied-bf16", {.arch = "llama", .hf = true, .format = IQ_BF16, SIZES(16), .tied = true}},
    {"llama-theta", {.arch = "llama", FOLDER, SIZES(32), .theta = 500000}},
    {"llama-linear",
     {.arch = "llama", FOLDER, SIZES(16), .rope_scaling = "{\"rope_type\":\"linear\",\"factor\":4.0}"}},
    {"llama-llama3",
     {.arch = "llama",
      FOLDER,
      SIZES(16),
      .rope_scaling =
          "{\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
          "\"original_max_position_embeddings\":64}"}},
    {"llama-yarn",
     {.arch = "llama",
      FOLDER,
      SIZES(16),
      .rope_scaling = "{\"rope_type\":\"yarn\",\"factor\":8.0,\"original_max_position_embeddings\":64}"}},
    {"qwen2-yarn-fast-slow",
     {.arch = "qwen2",
      FOLDER,
      SIZES(32),
      .rope_scaling = "{\"rope_type\":\"yarn\",\"factor\":4.0,\"original_max_position_embeddings\":128,"
                      "\"beta_fast\":16.0,\"beta_slow\":2.0}"}},
    {"mistral-window", {.arch = "mistral", FOLDER, SIZES(16), .extra = ", \"sliding_window\": 16"}},
    {"mistral-no-window", {.arch = "mistral", FOLDER, SIZES(16), .extra = ", \"sliding_window\": null"}},
    {"qwen2", {.arch = "qwen2", FOLDER, SIZES(16)}},
    {"qwen2-tied-f16", {.arch = "qwen2", .hf = true, .format = IQ_F16, SIZES(16), .tied = true}},
    {"qwen2-window-from-layer-1",
     {.arch = "qwen2",
      FOLDER,
      SIZES(16),
      .extra = ", \"use_sliding_window\": true, \"sliding_window\": 12, \"max_window_layers\": 1"}},
    {"qwen3", {.arch = "qwen3", FOLDER, SIZES(32)}},
    {"qwen3-tied", {.arch = "qwen3", FOLDER, SIZES(16), .tied = true}},
    {"mixtral", {.arch = "mixtral", FOLDER, SIZES(16), .experts = 8, .active = 2}},
    {"mixtral-bf16-window",
     {.arch = "mixtral",
      .hf = true,
      .format = IQ_BF16,
      SIZES(16),
      .experts = 4,
      .active = 4,
      .extra = ", \"sliding_window\": 16"}},
    {"qwen3moe", {.arch = "qwen3moe", FOLDER, SIZES(32), .experts = 8, .active = 3}},
    {"qwen3moe-plain-weights",
     {.arch = "qwen3moe",
      FOLDER,
      SIZES(16),
      .experts = 16,
      .active = 1,
      .plain_weights = true,
      .extra = ", \"use_sliding_window\": true, \"sliding_window\": 12"}},
};
enum { EXAMPLES = sizeof examples / sizeof *examples };

static void prompt_of(int example, uint32_t ids[TOKENS])
{
    for (uint32_t i = 0; i < TOKENS; i++)
        ids[i] =
            3 + (uint32_t)(iq_rig_draw(SEED + (uint64_t)example, i) % (examples[example].spec.vocab - 3));
}

static void write_model(const char *path, const struct iq_test_spec *spec)
{
    struct iq_err err = {0};
    ck_assert_msg(iq_test_write_model(path, spec, SEED, &err) == IQ_OK, "%s", err.text);
}

static void run(struct iq_rig *g, const struct iq_model *m, const uint32_t *ids, struct iq_request *r)
{
    struct iq_engine_config c = IQ_ENGINE_CONFIG;
    c.top = MADE;
    *r = (struct iq_request){.id = "r",
                             .params = "{}",
                             .prompt = ids,
                             .n_prompt = TOKENS,
                             .max_tokens = 8,
                             .top_p = 1,
                             .ignore_stop = true};
    iq_rig_run(g, m, &c, r, 1, NULL, false);
}

static cJSON *reference(const char *name)
{
    cJSON *line[EXAMPLES], *found = NULL;
    uint32_t n = iq_rig_lines("engine/architectures.jsonl", line, EXAMPLES);
    for (uint32_t i = 0; i < n; i++)
        if (!found && !strcmp(cJSON_GetObjectItemCaseSensitive(line[i], "name")->valuestring, name))
            found = line[i];
        else
            iq_json_free(line[i]);
    ck_assert_msg(found != NULL, "%s: no reference; run tests/engine/make_reference.py", name);
    return found;
}

START_TEST(logits_are_those_of_transformers)
{
    const struct example *x = &examples[_i];
    struct iq_request r;
    struct iq_rig g;
    uint32_t ids[TOKENS];
    char *path = iq_scratch_dir("model");
    write_model(path, &x->spec);
    prompt_of(_i, ids);
    struct iq_model *m = iq_rig_model(path, 1);
    run(&g, m, ids, &r);
    const struct iq_output *o = iq_rig_output(&g, 0);
    cJSON *ref = reference(x->name);
    const cJSON *top = cJSON_GetObjectItemCaseSensitive(ref, "top"), *greedy, *pair;
    double worst = 0, bound = iq_rig_logit_bound(&m->config, TOKENS, fabs(iq_rig_number(top->child, 1)));
    cJSON_ArrayForEach(pair, top)
    {
        double error = INFINITY;
        for (uint32_t i = 0; i < o->top; i++)
            if (o->top_id[i] == (uint32_t)iq_rig_number(pair, 0))
                error = fabs((double)o->top_logit[i] - iq_rig_number(pair, 1));
        worst = error > worst ? error : worst;
    }
    printf("%s: worst logit %.2g off, bound %.2g (largest logit %.3g)\n", x->name, worst, bound,
           iq_rig_number(top->child, 1));
    ck_assert_msg(worst <= bound, "%s: logits off by %g, bound %g", x->name, worst, bound);
    greedy = cJSON_GetObjectItemCaseSensitive(ref, "greedy");
    for (int i = 0; i < cJSON_GetArraySize(greedy); i++) {
        double margin = iq_rig_number(cJSON_GetArrayItem(greedy, i), 1);
        if (margin < 2 * bound) break;
        ck_assert_msg(o->ids[TOKENS + i] == (uint32_t)iq_rig_number(cJSON_GetArrayItem(greedy, i), 0),
                      "%s: step %d", x->name, i);
    }
    iq_json_free(ref);
    iq_rig_close(&g);
    iq_model_close(m);
}
END_TEST

/* Qwen's rows stand alike in both kinds of file. llama.cpp's converter permutes the Q and K rows of the Llama kind, so
 * there the scores add in another order: other bits, the same tokens. */
START_TEST(a_gguf_file_is_the_same_model_as_the_folder)
{
    static const struct {
        const char *arch;
        bool same_chain, tied;
        uint32_t experts;
    } kinds[] = {{"qwen2", true, false, 0},   {"qwen3", true, true, 0},     {"llama", false, false, 0},
                 {"mistral", false, true, 0}, {"mixtral", false, false, 4}, {"qwen3moe", true, false, 8}};
    struct iq_test_spec spec = {.arch = kinds[_i].arch,
                                .hf = true,
                                .format = IQ_F32,
                                SIZES(16),
                                .experts = kinds[_i].experts,
                                .active = kinds[_i].experts / 2,
                                .tied = kinds[_i].tied};
    struct iq_request r[2];
    struct iq_rig g[2];
    struct iq_model *m[2];
    uint32_t ids[TOKENS];
    char why[256];
    prompt_of(0, ids);
    for (int i = 0; i < 2; i++) {
        char *path = i ? (char *)iq_scratch("m.gguf") : iq_scratch_dir("m");
        spec.hf = i == 0;
        write_model(path, &spec);
        m[i] = iq_rig_model(path, 1);
        run(&g[i], m[i], ids, &r[i]);
    }
    const struct iq_output *a = iq_rig_output(&g[0], 0), *b = iq_rig_output(&g[1], 0);
    ck_assert_uint_eq(a->n_ids, b->n_ids);
    ck_assert_mem_eq(a->ids, b->ids, a->n_ids * sizeof *a->ids);
    ck_assert_msg(iq_rig_same(&g[0], 0, &g[1], 0, why) == kinds[_i].same_chain, "%s: %s", kinds[_i].arch,
                  why);
    for (int i = 0; i < 2; i++) iq_rig_close(&g[i]), iq_model_close(m[i]);
}
END_TEST

static int write_all(const char *dir)
{
    char path[4096];
    mkdir(dir, 0755);
    for (int e = 0; e < EXAMPLES; e++) {
        uint32_t ids[TOKENS];
        struct iq_err err = {0};
        snprintf(path, sizeof path, "%s/%s", dir, examples[e].name);
        mkdir(path, 0755);
        if (iq_test_write_model(path, &examples[e].spec, SEED, &err) != IQ_OK)
            return fprintf(stderr, "%s\n", err.text), 2;
        prompt_of(e, ids);
        strncat(path, "/prompt.json", sizeof path - strlen(path) - 1);
        FILE *f = fopen(path, "w");
        if (!f) return perror(path), 2;
        for (int i = 0; i < TOKENS; i++) fprintf(f, "%s%u", i ? "," : "[", ids[i]);
        fprintf(f, "]\n");
        fclose(f);
        printf("%s\n", examples[e].name);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "--write")) return write_all(argv[2]);
    Suite *s = suite_create("architectures");
    TCase *c = tcase_create("architectures");
    tcase_add_checked_fixture(c, iq_scratch_make, iq_scratch_remove);
    tcase_add_loop_test(c, logits_are_those_of_transformers, 0, EXAMPLES);
    tcase_add_loop_test(c, a_gguf_file_is_the_same_model_as_the_folder, 0, 6);
    suite_add_tcase(s, c);
    return check_main(s);
}
