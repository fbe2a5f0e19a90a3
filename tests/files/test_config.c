/* Configurations, from both sources. */
#define _GNU_SOURCE
#include "tests/check_main.h"
#include "tests/files/make_model.h"
#include "tests/files/opening.h"
#include "tests/files/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const archs[] = {"llama", "mistral", "qwen2", "qwen3", "mixtral", "qwen3moe"};

static bool is(int arch, const char *name) { return !strcmp(archs[arch], name); }

/* Each its own tensor in a folder, one stack in GGUF. */
static void experts_resolved(const struct iq_layer_tensors *t, bool hf)
{
    ck_assert(!t->gate && !t->up && !t->down);
    ck_assert(t->router->dim[0] == 4 && t->router->dim[1] == 64);
    for (int e = 0; e < 4; e++) {
        const struct iq_tensor *gate = t->expert[e].gate, *up = t->expert[e].up, *down = t->expert[e].down;
        const uint64_t *g = gate->dim + !hf, *d = down->dim + !hf;
        ck_assert(gate->rank == (hf ? 2 : 3) && g[0] == 160 && g[1] == 64 && d[0] == 64 && d[1] == 160);
        ck_assert(gate != up && up != down && (gate == t->expert[0].gate) == (!hf || !e));
        ck_assert(hf ? strstr(gate->name, (const char[]){'.', (char)('0' + e), '.', 0}) != NULL
                     : gate->dim[0] == 4);
    }
}

START_TEST(each_architecture_resolves_from_each_source_and_format)
{
    bool mixtral = is(_i, "mixtral"), experts = mixtral || is(_i, "qwen3moe"), bias = is(_i, "qwen2");
    bool norms = is(_i, "qwen3") || is(_i, "qwen3moe"), qwen = bias || norms;
    bool llama = mixtral || is(_i, "mistral"); /* in GGUF */
    for (int f = 0; f < IQ_FORMATS; f++)
        for (int hf = 0; hf < 2; hf++)
            for (int tied = 0; tied < 2; tied++) {
                struct iq_test_spec s = iq_test_spec_default();
                s.arch = archs[_i], s.hf = hf, s.tied = tied, s.format = f,
                s.embed = hf ? IQ_FORMAT_NONE : IQ_Q8_0;
                s.vocab = 300, s.layers = 3, s.head_dim = 32, s.theta = 500000;
                if (experts) s.experts = 4, s.active = 2;
                if (hf && f > IQ_BF16) continue;
                struct iq_opened o = iq_take_model(iq_written(&s));
                ck_assert_str_eq(iq_arch_name(o.c.arch), !hf && llama ? "llama" : archs[_i]);
                ck_assert(o.c.layers == 3 && o.c.hidden == 64 && o.c.ffn == 160 && o.c.heads == 4 &&
                          o.c.kv_heads == 2);
                ck_assert(o.c.head_dim == 32 && o.c.vocab == 300 && o.c.context == 512 &&
                          o.c.rope.theta == 500000);
                ck_assert((float)o.c.norm_eps == 1e-5f && o.c.bos == 1 && o.c.stops == 1 && o.c.stop[0] == 2);
                ck_assert(o.c.tied == tied && (o.t.head == o.t.embed) == tied);
                ck_assert(o.c.qkv_bias == bias && o.c.qk_norm == norms);
                ck_assert(o.c.experts == s.experts && o.c.active == s.active && o.c.renormalise == experts);
                ck_assert(o.c.rope.pairing == (hf || qwen ? IQ_PAIR_HALVES : IQ_PAIR_NEIGHBOURS));
                ck_assert(o.c.rope.kind == IQ_ROPE_NONE && o.c.rope.factor == 1);
                for (int l = 0; l < 3; l++) {
                    const struct iq_layer_tensors *t = &o.t.layer[l];
                    ck_assert(t->attn_norm && t->q && t->k && t->v && t->o && t->ffn_norm);
                    if (experts) experts_resolved(t, hf);
                    ck_assert(experts || (t->gate && t->up && t->down && !t->router && !t->expert));
                    ck_assert(!t->q_bias == !bias && !t->k_bias == !bias && !t->v_bias == !bias);
                    ck_assert(!t->q_norm == !norms && !t->k_norm == !norms);
                    ck_assert(t->q->format == (enum iq_format)f && t->q->dim[0] == 128 &&
                              t->o->dim[1] == 128);
                }
                iq_drop_model(&o);
                unlink(iq_scratch("m.gguf"));
                unlink(iq_scratch("model.safetensors"));
            }
}
END_TEST

START_TEST(both_sources_hold_the_same_numbers)
{
    struct iq_test_spec s = iq_test_spec_default();
    s.no_tokenizer = true;
    struct iq_opened g = iq_take_model(iq_written(&s));
    s.hf = true;
    char *folder = iq_scratch_dir("hf");
    ck_assert_int_eq(iq_test_write_model(folder, &s, 11, NULL), IQ_OK);
    struct iq_opened h = iq_take_model(folder);
    const struct iq_tensor *a = g.t.layer[1].k, *b = h.t.layer[1].k;
    ck_assert(!memcmp(g.t.layer[1].down->bytes, h.t.layer[1].down->bytes, g.t.layer[1].down->nbytes));
    ck_assert(memcmp(a->bytes, b->bytes, a->nbytes)); /* K: neighbours there, halves here */
    size_t row = 64 * sizeof(float);
    for (int head = 0; head < 2; head++)
        for (int i = 0; i < 8; i++)
            for (int half = 0; half < 2; half++)
                ck_assert(!memcmp((const char *)a->bytes + (size_t)(head * 16 + 2 * i + half) * row,
                                  (const char *)b->bytes + (size_t)(head * 16 + i + 8 * half) * row, row));
    iq_drop_model(&g);
    iq_drop_model(&h);
}
END_TEST

START_TEST(weights_at_odd_offsets_are_the_same_weights)
{
    struct iq_test_spec s = iq_test_spec_default();
    s.hf = true, s.no_tokenizer = true;
    char *even = iq_scratch_dir("even"), *odd = iq_scratch_dir("odd");
    ck_assert_int_eq(iq_test_write_model(even, &s, 11, NULL), IQ_OK);
    s.unaligned = true;
    ck_assert_int_eq(iq_test_write_model(odd, &s, 11, NULL), IQ_OK);
    struct iq_opened a = iq_take_model(even), b = iq_take_model(odd);
    ck_assert_uint_eq(b.t.embed->offset % 8, 3);
    ck_assert(!memcmp(a.t.layer[1].down->bytes, b.t.layer[1].down->bytes, a.t.layer[1].down->nbytes));
    iq_drop_model(&a);
    iq_drop_model(&b);
}
END_TEST

/* ---- reports: R12 ---- */

START_TEST(the_head_that_is_there_is_used_and_disagreement_is_said)
{
    for (int flag = 0; flag < 2; flag++)
        for (int present = 0; present < 2; present++) {
            struct iq_test_spec s = iq_test_spec_default();
            s.hf = true, s.tied = !present;
            const char *path = iq_written(&s);
            bool written_flag = s.tied;
            if (written_flag != flag)
                ck_assert(
                    iq_edit(iq_scratch("config.json"),
                            written_flag ? "\"tie_word_embeddings\":true" : "\"tie_word_embeddings\":false",
                            flag ? "\"tie_word_embeddings\":true" : "\"tie_word_embeddings\":false"));
            struct iq_opened o = iq_take_model(path);
            ck_assert(o.c.tied == !present && (o.t.head == o.t.embed) == !present);
            ck_assert_int_eq(iq_noted(&o, "differs from the embedding"), flag && present);
            ck_assert_int_eq(iq_noted(&o, "the embedding serves as head"), !flag && !present);
            ck_assert_uint_eq(iq_model_file_note_count(o.m), flag == present);
            iq_drop_model(&o);
        }
}
END_TEST

START_TEST(an_equal_head_under_a_true_flag_is_tied_without_a_word)
{
    struct iq_test_spec s = iq_test_spec_default();
    s.hf = true;
    const char *path = iq_written(&s);
    ck_assert(
        iq_edit(iq_scratch("config.json"), "\"tie_word_embeddings\":false", "\"tie_word_embeddings\":true"));
    struct iq_opened o = iq_take_model(path);
    uint64_t head = o.t.head->offset, embed = o.t.embed->offset, bytes = o.t.head->nbytes;
    iq_drop_model(&o);
    size_t n;
    char *file = iq_slurp(iq_scratch("model.safetensors"), &n);
    memcpy(file + head, file + embed, bytes);
    iq_spill(iq_scratch("model.safetensors"), file, n);
    free(file);
    o = iq_take_model(path);
    ck_assert(o.c.tied && o.t.head == o.t.embed && iq_model_file_note_count(o.m) == 0);
    iq_drop_model(&o);
}
END_TEST

/* ---- what is refused ---- */

static const struct {
    const char *from, *to;
    int status;
    const char *says;
} bad_configs[] = {
    {"\"model_type\":\"llama\"", "\"model_type\":\"gpt2\"", IQ_UNSUPPORTED,
     "\"gpt2\", expected llama, mistral, qwen2, qwen3, mixtral or qwen3moe"},
    {"\"model_type\":\"llama\",", "", IQ_FORMAT, "`model_type` is missing"},
    {"LlamaForCausalLM", "LlamaForSequenceClassification", IQ_UNSUPPORTED,
     "expected a causal language model"},
    {"\"silu\"", "\"gelu\"", IQ_UNSUPPORTED, "`hidden_act`: found \"gelu\""},
    {"\"hidden_size\":64", "\"hidden_size\":65537", IQ_FORMAT, "`hidden_size`: found 65537"},
    {"\"hidden_size\":64", "\"hidden_size\":0", IQ_FORMAT, "`hidden_size`: found 0"},
    {"\"hidden_size\":64", "\"hidden_size\":64.5", IQ_FORMAT, "exact integer"},
    {"\"hidden_size\":64", "\"hidden_size\":\"64\"", IQ_FORMAT, "found a string"},
    {"\"hidden_size\":64", "\"hidden_size\":96", IQ_SHAPE,
     "`model.embed_tokens.weight` has 2 dimensions [320, 64], expected two [320, 96]"},
    {"\"num_hidden_layers\":2", "\"num_hidden_layers\":1025", IQ_FORMAT, "found 1025"},
    {"\"num_hidden_layers\":2", "\"num_hidden_layers\":3", IQ_NOT_FOUND,
     "`model.layers.2.input_layernorm.weight` is missing"},
    {"\"num_hidden_layers\":2,", "", IQ_FORMAT, "`num_hidden_layers` is missing"},
    {"\"vocab_size\":320", "\"vocab_size\":4194305", IQ_FORMAT, "found 4194305"},
    {"\"vocab_size\":320", "\"vocab_size\":319", IQ_SHAPE, "expected two [319, 64]"},
    {"\"num_key_value_heads\":2", "\"num_key_value_heads\":3", IQ_SHAPE, "4 heads on 3 KV heads"},
    {"\"num_key_value_heads\":2", "\"num_key_value_heads\":1", IQ_SHAPE, "self_attn.k_proj.weight"},
    {"\"head_dim\":16", "\"head_dim\":17", IQ_SHAPE, "head size of 17"},
    {"\"head_dim\":16", "\"head_dim\":8", IQ_SHAPE, "self_attn.q_proj.weight"},
    {"\"intermediate_size\":160", "\"intermediate_size\":161", IQ_SHAPE, "mlp.gate_proj.weight"},
    {"\"max_position_embeddings\":512", "\"max_position_embeddings\":0", IQ_FORMAT,
     "`max_position_embeddings`"},
    {"\"rms_norm_eps\":1e-05", "\"rms_norm_eps\":-1", IQ_FORMAT, "`rms_norm_eps`"},
    {"\"rope_theta\":10000", "\"rope_theta\":0", IQ_FORMAT, "`rope_theta`"},
    {"\"bos_token_id\":1", "\"attention_bias\":true", IQ_UNSUPPORTED, "`attention_bias` is true"},
    {"\"bos_token_id\":1", "\"mlp_bias\":true", IQ_UNSUPPORTED, "`mlp_bias` is true"},
    {"\"bos_token_id\":1", "\"quantization_config\":{}", IQ_UNSUPPORTED, "`quantization_config`"},
    {"\"bos_token_id\":1", "\"partial_rotary_factor\":0.25", IQ_UNSUPPORTED, "partly rotated"},
    {"\"bos_token_id\":1", "\"rope_scaling\":{},\"rope_parameters\":{}", IQ_FORMAT,
     "both `rope_scaling` and `rope_parameters`"},
    {"\"eos_token_id\":2", "\"eos_token_id\":\"</s>\"", IQ_FORMAT, "`eos_token_id`: found a string"},
    {"\"bos_token_id\":1", "\"bos_token_id\":1,\"bos_token_id\":1", IQ_FORMAT, "stands twice"},
};

START_TEST(a_config_that_cannot_be_honoured_is_refused_by_field)
{
    const char *path = iq_hf_with("llama", NULL, NULL);
    ck_assert(iq_edit(iq_scratch("config.json"), bad_configs[_i].from, bad_configs[_i].to));
    iq_limit_memory(256 << 20);
    iq_refuse_model(path, bad_configs[_i].status, bad_configs[_i].says);
}
END_TEST

static const struct {
    const char *key;
    uint32_t value;
    int status;
    const char *says;
} bad_keys[] = {
    {"llama.block_count", 0, IQ_FORMAT, "`llama.block_count`: found 0"},
    {"llama.block_count", 1025, IQ_FORMAT, "found 1025, expected 1 to 1024"},
    {"llama.block_count", 3, IQ_NOT_FOUND, "`blk.2.attn_norm.weight` is missing"},
    {"llama.embedding_length", 65537, IQ_FORMAT, "found 65537"},
    {"llama.embedding_length", 32, IQ_SHAPE, "`token_embd.weight`"},
    {"llama.feed_forward_length", UINT32_MAX, IQ_FORMAT, "feed_forward_length"},
    {"llama.attention.head_count", 0, IQ_FORMAT, "head_count`: found 0"},
    {"llama.attention.head_count_kv", 3, IQ_SHAPE, "4 heads on 3 KV heads"},
    {"llama.attention.key_length", 32, IQ_UNSUPPORTED, "value_length` is 16, but keys have 32"},
    {"llama.rope.dimension_count", 8, IQ_UNSUPPORTED, "partly rotated"},
    {"llama.vocab_size", 321, IQ_SHAPE, "`llama.vocab_size` is 321"},
    {"llama.rope.freq_base", 0x7fc00000, IQ_FORMAT, "`llama.rope.freq_base`: found nan"},
    {"llama.attention.layer_norm_rms_epsilon", 0xbf800000, IQ_FORMAT, "found -1"},
    {"llama.context_length", 0, IQ_FORMAT, "context_length`: found 0"},
};

START_TEST(a_key_that_cannot_be_honoured_is_refused_by_name)
{
    struct iq_test_spec s = iq_test_spec_default();
    const char *path = iq_written(&s);
    iq_poke_u32(bad_keys[_i].key, bad_keys[_i].value);
    iq_refuse_model(path, bad_keys[_i].status, bad_keys[_i].says);
}
END_TEST

START_TEST(tensors_that_nothing_would_read_are_refused_by_name)
{
    const char *path =
        iq_hf_with("qwen2", NULL, NULL); /* biases, under the name of an architecture without */
    ck_assert(iq_edit(iq_scratch("config.json"), "\"model_type\":\"qwen2\"", "\"model_type\":\"llama\""));
    iq_refuse_model(path, IQ_UNSUPPORTED, "self_attn.q_proj.bias` belongs to no part of llama");
    path = iq_hf_with("qwen3", NULL, NULL);
    ck_assert(iq_edit(iq_scratch("config.json"), "\"model_type\":\"qwen3\"", "\"model_type\":\"llama\""));
    iq_refuse_model(path, IQ_UNSUPPORTED, "self_attn.q_norm.weight` belongs to no part of llama");
    path = iq_hf_with("llama", NULL, NULL);
    ck_assert(iq_edit(iq_scratch("config.json"), "\"num_hidden_layers\":2", "\"num_hidden_layers\":1"));
    struct iq_opened o = iq_take_model(path);
    ck_assert(iq_noted(&o, "9 tensors belong to layers from 1 on"));
    iq_drop_model(&o);
}
END_TEST

START_TEST(a_fused_or_foreign_tensor_is_named)
{
    struct iq_test_spec s = iq_test_spec_default();
    const char *path = iq_written(&s);
    size_t n;
    char *bytes = iq_slurp(path, &n);
    static const struct {
        const char *from, *to, *says;
    } renames[] = {{"blk.1.attn_k.weight", "blk.1.attn_K.weight", "`blk.1.attn_k.weight` is missing"},
                   {"output_norm.weight", "output_norm.Weight", "`output_norm.weight` is missing"}};
    for (size_t i = 0; i < 2; i++) {
        char *at = memmem(bytes, n, renames[i].from, strlen(renames[i].from));
        memcpy(at, renames[i].to, strlen(renames[i].to));
        iq_spill(path, bytes, n);
        iq_refuse_model(path, IQ_NOT_FOUND, renames[i].says);
        memcpy(at, renames[i].from, strlen(renames[i].from));
    }
    char *type = memmem(bytes, n, "blk.1.ffn_up.weight",
                        19); /* F32 becomes I32: as long, but nothing to compute with */
    type[19 + 4 + 16] = 26;
    iq_spill(path, bytes, n);
    iq_refuse_model(path, IQ_UNSUPPORTED,
                    "`blk.1.ffn_up.weight` is of type I32, expected F32, F16, BF16, Q8_0, Q4_0 or Q4_1");
    free(bytes);
}
END_TEST

START_TEST(stop_ids_come_from_generation_config_first)
{
    const char *path = iq_hf_with("llama", NULL, NULL);
    static const char text[] = "{\"eos_token_id\":[2,7,7,319,320,4000000000]}";
    iq_spill(iq_scratch("generation_config.json"), text, sizeof text - 1);
    struct iq_opened o = iq_take_model(path);
    ck_assert(o.c.stops == 3 && o.c.stop[0] == 2 && o.c.stop[1] == 7 && o.c.stop[2] == 319);
    ck_assert(iq_noted(&o, "320 lies outside the vocabulary") && iq_noted(&o, "4000000000 lies outside"));
    iq_drop_model(&o);
    iq_spill(iq_scratch("generation_config.json"), "{}", 2);
    o = iq_take_model(path);
    ck_assert(o.c.stops == 1 && o.c.stop[0] == 2);
    iq_drop_model(&o);
}
END_TEST

START_TEST(everything_that_a_small_model_holds_is_read)
{
    struct iq_opened o = iq_take_model(iq_hf_with("llama", "{\"type\":\"linear\",\"factor\":2}",
                                                  ",\"use_cache\":true,\"odd_knob\":{\"x\":1}"));
    char *list = iq_unread(o.m);
    ck_assert_str_eq(list, "config.json: use_cache;config.json: odd_knob;");
    free(list);
    iq_drop_model(&o);
    struct iq_test_spec s = iq_test_spec_default();
    s.no_tokenizer = true;
    o = iq_take_model(iq_written(&s));
    list = iq_unread(o.m);
    ck_assert_str_eq(list, "general.name;");
    free(list);
    iq_drop_model(&o);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("config");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, iq_scratch_make, iq_scratch_remove);
    tcase_add_loop_test(t, each_architecture_resolves_from_each_source_and_format, 0,
                        sizeof archs / sizeof *archs);
    tcase_add_test(t, both_sources_hold_the_same_numbers);
    tcase_add_test(t, weights_at_odd_offsets_are_the_same_weights);
    tcase_add_test(t, the_head_that_is_there_is_used_and_disagreement_is_said);
    tcase_add_test(t, an_equal_head_under_a_true_flag_is_tied_without_a_word);
    tcase_add_loop_test(t, a_config_that_cannot_be_honoured_is_refused_by_field, 0,
                        sizeof bad_configs / sizeof *bad_configs);
    tcase_add_loop_test(t, a_key_that_cannot_be_honoured_is_refused_by_name, 0,
                        sizeof bad_keys / sizeof *bad_keys);
    tcase_add_test(t, tensors_that_nothing_would_read_are_refused_by_name);
    tcase_add_test(t, a_fused_or_foreign_tensor_is_named);
    tcase_add_test(t, stop_ids_come_from_generation_config_first);
    tcase_add_test(t, everything_that_a_small_model_holds_is_read);
    Suite *s = suite_create("config");
    suite_add_tcase(s, t);
    return check_main(s);
}
