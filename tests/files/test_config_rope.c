/* The rotary part of a configuration, and sliding windows. */
#define _GNU_SOURCE
#include "tests/check_main.h"
#include "tests/files/make_model.h"
#include "tests/files/opening.h"
#include "tests/files/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

START_TEST(rotary_scalings_are_read_as_transformers_names_them)
{
    struct iq_opened o = iq_take_model(iq_hf_with(
        "llama",
        "{\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
        "\"original_max_position_embeddings\":128}",
        NULL));
    ck_assert(o.c.rope.kind == IQ_ROPE_LLAMA3 && o.c.rope.factor == 8 && o.c.rope.low_freq_factor == 1);
    ck_assert(o.c.rope.high_freq_factor == 4 && o.c.rope.original_context == 128);
    iq_drop_model(&o);
    o = iq_take_model(iq_hf_with("llama", "{\"type\":\"linear\",\"factor\":2}", NULL));
    ck_assert(o.c.rope.kind == IQ_ROPE_LINEAR && o.c.rope.factor == 2 && o.c.rope.original_context == 512);
    iq_drop_model(&o);
    o = iq_take_model(
        iq_hf_with("mistral", "{\"type\":\"dynamic\",\"factor\":4.5}", ",\"sliding_window\":null"));
    ck_assert(o.c.rope.kind == IQ_ROPE_DYNAMIC && o.c.rope.factor == 4.5);
    iq_drop_model(&o);
    o = iq_take_model(
        iq_hf_with("qwen2",
                   "{\"type\":\"yarn\",\"factor\":4.0,\"original_max_position_embeddings\":256,\"beta_"
                   "fast\":16,\"truncate\":false}",
                   NULL));
    ck_assert(o.c.rope.kind == IQ_ROPE_YARN && o.c.rope.factor == 4 && o.c.rope.original_context == 256 &&
              !o.c.rope.truncate);
    ck_assert(o.c.rope.beta_fast == 16 && o.c.rope.beta_slow == 1 && o.c.rope.attention_factor == 0);
    iq_drop_model(&o);
    o = iq_take_model(
        iq_hf_with("qwen3",
                   "{\"rope_type\":\"yarn\",\"factor\":null,\"original_max_position_embeddings\":128,"
                   "\"attention_factor\":1.5}",
                   NULL));
    ck_assert(o.c.rope.factor == 4 && o.c.rope.attention_factor == 1.5 && o.c.rope.truncate);
    iq_drop_model(&o);
    o = iq_take_model(iq_hf_with(
        "llama",
        "{\"type\":\"su\",\"short_factor\":[1,1.5,2,2.5,3,3.5,4,4.5],\"long_factor\":[2,3,4,5,6,7,8,9],"
        "\"original_max_position_embeddings\":64}",
        NULL));
    ck_assert(o.c.rope.kind == IQ_ROPE_LONGROPE && o.c.rope.factor == 8 && o.c.rope.short_factor[1] == 1.5);
    ck_assert(o.c.rope.long_factor[7] == 9);
    iq_drop_model(&o);
    o = iq_take_model(iq_hf_with("llama", "{\"rope_type\":\"default\"}", NULL));
    ck_assert(o.c.rope.kind == IQ_ROPE_NONE && o.c.rope.factor == 1);
    iq_drop_model(&o);
    o = iq_take_model(iq_hf_with("llama", NULL,
                                 ",\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":250000.0}"));
    ck_assert(o.c.rope.kind == IQ_ROPE_NONE && o.c.rope.theta == 250000);
    iq_drop_model(&o);
}
END_TEST

static const struct {
    const char *scaling, *says;
} bad_scalings[] = {
    {"{\"type\":\"ntk-magic\",\"factor\":2}",
     "\"ntk-magic\", expected none, linear, dynamic, yarn, llama3 or longrope"},
    {"{\"type\":\"linear\"}", "`factor` is missing"},
    {"{\"type\":\"linear\",\"factor\":0}", "`factor`"},
    {"{\"type\":\"linear\",\"factor\":-2}", "`factor`"},
    {"{\"type\":\"linear\",\"factor\":\"2\"}", "found a string"},
    {"{\"type\":\"linear\",\"factor\":2,\"beta_fast\":3}", "`beta_fast` stands beside rotary scaling linear"},
    {"{\"type\":\"linear\",\"factor\":2,\"alpha\":3}", "unknown key `alpha`"},
    {"{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1}", "`high_freq_factor` is missing"},
    {"{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,\"high_freq_factor\":4}",
     "expected the first to be larger"},
    {"{\"type\":\"longrope\",\"short_factor\":[1],\"long_factor\":[1,1,1,1,1,1,1,1]}",
     "found 1 elements, expected a list of 8"},
    {"{\"type\":\"longrope\",\"short_factor\":[1,1,1,1,1,1,1,0],\"long_factor\":[1,1,1,1,1,1,1,1]}",
     "`short_factor`[7]"},
    {"{\"type\":\"longrope\",\"short_factor\":[1,1,1,1,1,1,1,1]}", "`long_factor` is missing"},
    {"{\"type\":\"default\",\"partial_rotary_factor\":0.5}", "partly rotated"},
    {"{\"type\":7}", "`type`: found a number"},
    {"[]", "is no object"},
};

START_TEST(a_rotary_scaling_that_cannot_be_honoured_is_refused)
{
    struct iq_opened o;
    struct iq_err err = {0};
    int status = iq_try_model(iq_hf_with("llama", bad_scalings[_i].scaling, NULL), &o, &err);
    ck_assert_msg((status == IQ_FORMAT || status == IQ_UNSUPPORTED) &&
                      strstr(err.text, bad_scalings[_i].says),
                  "%s", err.text);
    iq_drop_model(&o);
}
END_TEST

START_TEST(rope_freqs_of_a_gguf_become_factors)
{
    struct iq_test_spec s = iq_test_spec_default();
    s.rope_freqs = true;
    struct iq_opened o = iq_take_model(iq_written(&s));
    ck_assert(o.c.rope.kind == IQ_ROPE_FACTORS);
    for (int i = 0; i < 8; i++) ck_assert(o.c.rope.short_factor[i] > 1 && o.c.rope.short_factor[i] < 8);
    iq_drop_model(&o);
}
END_TEST

START_TEST(sliding_windows_are_given_or_none)
{
    static const struct {
        const char *arch, *extra;
        uint64_t window, layer;
    } cases[] = {
        {"mistral", ",\"sliding_window\":100", 100, 0},
        {"mistral", ",\"sliding_window\":null", 0, 0},
        {"mistral", ",\"sliding_window\":512", 0, 0}, /* as long as the context: cuts nothing */
        {"mistral", "", 0, 0},                        /* the default of 4096 is longer than this context */
        {"qwen2", ",\"sliding_window\":100,\"use_sliding_window\":false", 0, 0},
        {"qwen2", ",\"sliding_window\":100,\"use_sliding_window\":true,\"max_window_layers\":1", 100, 1},
        {"qwen2", ",\"sliding_window\":100,\"use_sliding_window\":true,\"max_window_layers\":2", 0, 0},
        {"qwen3",
         ",\"sliding_window\":100,\"use_sliding_window\":true,\"layer_types\":[\"full_attention\",\"sliding_"
         "attention\"]",
         100, 1},
        {"qwen3",
         ",\"sliding_window\":null,\"use_sliding_window\":false,\"layer_types\":[\"full_attention\",\"full_"
         "attention\"]",
         0, 0},
        {"llama", ",\"sliding_window\":100", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct iq_opened o = iq_take_model(iq_hf_with(cases[i].arch, NULL, cases[i].extra));
        ck_assert_msg(o.c.window == cases[i].window && o.c.window_layer == cases[i].layer,
                      "%s %s: %llu from %u", cases[i].arch, cases[i].extra, (unsigned long long)o.c.window,
                      o.c.window_layer);
        iq_drop_model(&o);
    }
    iq_refuse_model(
        iq_hf_with("qwen2", NULL,
                   ",\"use_sliding_window\":true,\"layer_types\":[\"sliding_attention\",\"full_attention\"]"),
        IQ_UNSUPPORTED, "full attention after a sliding layer");
    iq_refuse_model(iq_hf_with("qwen2", NULL, ",\"layer_types\":[\"full_attention\"]"), IQ_FORMAT,
                    "no list of 2 layers");
}
END_TEST

START_TEST(mistral_without_a_window_key_has_the_class_default)
{
    struct iq_test_spec s = iq_test_spec_default();
    s.arch = "mistral", s.hf = true, s.context = 8192, s.no_tokenizer = true;
    struct iq_opened o = iq_take_model(iq_written(&s));
    ck_assert(o.c.window == 4096 && iq_noted(&o, "sliding_window"));
    iq_drop_model(&o);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("config_rope");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, iq_scratch_make, iq_scratch_remove);
    tcase_add_test(t, rotary_scalings_are_read_as_transformers_names_them);
    tcase_add_loop_test(t, a_rotary_scaling_that_cannot_be_honoured_is_refused, 0,
                        sizeof bad_scalings / sizeof *bad_scalings);
    tcase_add_test(t, rope_freqs_of_a_gguf_become_factors);
    tcase_add_test(t, sliding_windows_are_given_or_none);
    tcase_add_test(t, mistral_without_a_window_key_has_the_class_default);
    Suite *s = suite_create("config_rope");
    suite_add_tcase(s, t);
    return check_main(s);
}
