#include "tests/engine/small_models.h"

#include "tests/files/scratch.h"

#include <check.h>

#define SIZES(h, f, q, kv, d)                                                                                \
    .layers = 2, .hidden = (h), .ffn = (f), .heads = (q), .kv_heads = (kv), .head_dim = (d), .vocab = 333
#define SAME .embed = IQ_FORMAT_NONE
#define LLAMA3                                                                                               \
    "{\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"             \
    "\"original_max_position_embeddings\":64}"

const struct iq_small iq_small[] = {
    {"llama-f32-8kv",
     {.arch = "llama", .format = IQ_F32, SAME, SIZES(160, 901, 16, 8, 16)},
     IQ_ACT_F32,
     .tp = {2, 4, 8}},
    {"llama-q4_1-8kv",
     {.arch = "llama", .format = IQ_Q4_1, .embed = IQ_Q8_0, SIZES(160, 992, 16, 8, 16)},
     IQ_ACT_F32,
     .tp = {3, 5, 8}},
    {"mistral-f32-window",
     {.arch = "mistral",
      .hf = true,
      .format = IQ_F32,
      SAME,
      SIZES(64, 160, 4, 2, 16),
      .extra = ", \"sliding_window\": 11"},
     IQ_ACT_F32,
     .tp = {2}},
    {"qwen2-f16-groups-of-3",
     {.arch = "qwen2", .format = IQ_F16, SAME, SIZES(96, 160, 6, 2, 16), .tied = true},
     IQ_ACT_F32,
     .tp = {2}},
    {"qwen3-bf16-wide-heads",
     {.arch = "qwen3", .hf = true, .format = IQ_BF16, SAME, SIZES(64, 160, 4, 2, 32)},
     IQ_ACT_BF16,
     .tp = {2}},
    {"llama-q8_0",
     {.arch = "llama", .format = IQ_Q8_0, SAME, SIZES(64, 160, 4, 2, 16), .tied = true},
     IQ_ACT_F16,
     .tp = {2}},
    {"qwen2-f32-folder",
     {.arch = "qwen2", .hf = true, .format = IQ_F32, SAME, SIZES(64, 150, 4, 2, 16)},
     IQ_ACT_F32,
     .tp = {2}},
    {"qwen3-q4_0",
     {.arch = "qwen3", .format = IQ_Q4_0, SAME, SIZES(64, 160, 4, 2, 16)},
     IQ_ACT_F32,
     .tp = {2}},
    {"mistral-bf16-one-kv-head",
     {.arch = "mistral", .format = IQ_BF16, SAME, SIZES(64, 160, 4, 1, 16)},
     IQ_ACT_F32,
     .tp = {0}},
    {"llama-f16-multi-head",
     {.arch = "llama",
      .hf = true,
      .format = IQ_F16,
      SAME,
      SIZES(64, 520, 4, 4, 16),
      .tied = true,
      .rope_scaling = LLAMA3},
     IQ_ACT_F32,
     .tp = {2, 3, 4}},
    {"mixtral-f32-8-experts",
     {.arch = "mixtral", .format = IQ_F32, SAME, SIZES(160, 201, 16, 8, 16), .experts = 8, .active = 2},
     IQ_ACT_F32,
     .tp = {2, 4, 8},
     .expert_parallel = {2, 4, 8}},
    {"qwen3moe-bf16-3-of-12",
     {.arch = "qwen3moe",
      .hf = true,
      .format = IQ_BF16,
      SAME,
      SIZES(64, 90, 4, 2, 32),
      .experts = 12,
      .active = 3,
      .plain_weights = true},
     IQ_ACT_BF16,
     .tp = {2},
     .expert_parallel = {4}},
    {"mixtral-q4_1-all-of-4",
     {.arch = "mixtral",
      .format = IQ_Q4_1,
      .embed = IQ_Q8_0,
      SIZES(64, 160, 4, 2, 16),
      .experts = 4,
      .active = 4},
     IQ_ACT_F32,
     .tp = {2},
     .expert_parallel = {4}},
};
const int iq_smalls = sizeof iq_small / sizeof *iq_small;

const struct iq_small iq_small_tiny = {
    .name = "tiny",
    .spec = {.arch = "llama",
             .format = IQ_F32,
             SAME,
             .layers = 2,
             .hidden = 32,
             .ffn = 48,
             .heads = 4,
             .kv_heads = 2,
             .head_dim = 8,
             .vocab = 97,
             .context = 800},
};

const char *iq_small_write(const struct iq_small *s)
{
    struct iq_err err = {0};
    const char *path = s->spec.hf ? iq_scratch_dir(s->name) : iq_scratch(s->name);
    ck_assert_msg(iq_test_write_model(path, &s->spec, 7, &err) == IQ_OK, "%s", err.text);
    return path;
}
