/* Configurations of mixtures of experts: what is taken, and what is refused by name. */
#define _GNU_SOURCE
#include "tests/check_main.h"
#include "tests/files/opening.h"
#include "tests/files/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct iq_test_spec spec_of(const char *arch, bool hf)
{
    struct iq_test_spec s = iq_test_spec_default();
    s.arch = arch, s.hf = hf, s.experts = 4, s.active = 2, s.no_tokenizer = true;
    return s;
}

START_TEST(both_sources_hold_the_same_experts)
{
    static const char *const archs[] = {"mixtral", "qwen3moe"};
    struct iq_test_spec s = spec_of(archs[_i], false);
    struct iq_opened g = iq_take_model(iq_written(&s));
    s.hf = true;
    char *folder = iq_scratch_dir("hf");
    ck_assert_int_eq(iq_test_write_model(folder, &s, 11, NULL), IQ_OK);
    struct iq_opened h = iq_take_model(folder);
    for (uint32_t e = 0; e < 4; e++) {
        const struct iq_expert_tensors *a = &g.t.layer[1].expert[e], *b = &h.t.layer[1].expert[e];
        size_t n = b->up->nbytes;
        ck_assert(!memcmp((const char *)a->gate->bytes + e * n, b->gate->bytes, n));
        ck_assert(!memcmp((const char *)a->up->bytes + e * n, b->up->bytes, n));
        ck_assert(!memcmp((const char *)a->down->bytes + e * n, b->down->bytes, n));
    }
    iq_drop_model(&g);
    iq_drop_model(&h);
}
END_TEST

START_TEST(weights_are_renormalised_as_the_class_says)
{
    struct iq_test_spec s = spec_of("qwen3moe", true);
    for (int plain = 0; plain < 2; plain++) {
        s.plain_weights = plain;
        struct iq_opened o = iq_take_model(iq_written(&s));
        ck_assert(o.c.renormalise == !plain && o.c.ffn == 160 && o.c.experts == 4 && o.c.active == 2);
        iq_drop_model(&o);
    }
    ck_assert(iq_edit(iq_scratch("config.json"), "\"norm_topk_prob\":false,", ""));
    struct iq_opened o = iq_take_model(iq_scratch(""));
    ck_assert(!o.c.renormalise);
    iq_drop_model(&o);
}
END_TEST

/* transformers 5 writes one name for the number of experts of both classes. */
START_TEST(either_name_of_the_number_of_experts_is_taken)
{
    struct iq_test_spec s = spec_of("qwen3moe", true);
    const char *path = iq_written(&s);
    ck_assert(iq_edit(iq_scratch("config.json"), "\"num_experts\"", "\"num_local_experts\""));
    struct iq_opened o = iq_take_model(path);
    ck_assert_uint_eq(o.c.experts, 4);
    char *list = iq_unread(o.m);
    ck_assert_str_eq(list, "");
    free(list);
    iq_drop_model(&o);
}
END_TEST

static const struct {
    const char *arch, *from, *to;
    int status;
    const char *says;
} bad_configs[] = {
    {"mixtral", "\"num_local_experts\":4,", "", IQ_FORMAT, "`num_local_experts` is missing"},
    {"mixtral", "\"num_local_experts\":4", "\"num_local_experts\":1025", IQ_FORMAT, "found 1025"},
    {"mixtral", "\"num_local_experts\":4", "\"num_local_experts\":0", IQ_FORMAT, "found 0"},
    {"mixtral", "\"num_local_experts\":4", "\"num_local_experts\":5", IQ_SHAPE,
     "block_sparse_moe.gate.weight` has 2 dimensions [4, 64], expected two [5, 64]"},
    {"mixtral", "\"num_local_experts\":4", "\"num_local_experts\":3", IQ_SHAPE, "expected two [3, 64]"},
    {"mixtral", "\"num_experts_per_tok\":2", "\"num_experts_per_tok\":5", IQ_SHAPE,
     "found 5 of 4 experts for a position"},
    {"mixtral", "\"num_experts_per_tok\":2", "\"num_experts_per_tok\":0", IQ_FORMAT,
     "`num_experts_per_tok`: found 0"},
    {"mixtral", "\"num_experts_per_tok\":2", "\"num_experts_per_tok\":17", IQ_FORMAT, "found 17"},
    {"mixtral", "\"model_type\":\"mixtral\"", "\"model_type\":\"llama\"", IQ_NOT_FOUND,
     "`model.layers.0.mlp.gate_proj.weight` is missing"},
    {"mixtral", "\"intermediate_size\":160", "\"intermediate_size\":150", IQ_SHAPE,
     "experts.0.w1.weight` has 2 dimensions [160, 64], expected two [150, 64]"},
    {"qwen3moe", "\"num_experts\":4,", "", IQ_FORMAT, "`num_experts` is missing"},
    {"qwen3moe", "\"moe_intermediate_size\":160,", "", IQ_FORMAT, "`moe_intermediate_size` is missing"},
    {"qwen3moe", "\"decoder_sparse_step\":1", "\"decoder_sparse_step\":2", IQ_UNSUPPORTED,
     "`decoder_sparse_step` asks for layers without experts"},
    {"qwen3moe", "\"mlp_only_layers\":[]", "\"mlp_only_layers\":[1]", IQ_UNSUPPORTED,
     "`mlp_only_layers` asks for layers without experts"},
    {"qwen3moe", "\"mlp_only_layers\":[]", "\"mlp_only_layers\":true", IQ_UNSUPPORTED, "`mlp_only_layers`"},
    {"qwen3moe", "\"norm_topk_prob\":true", "\"norm_topk_prob\":1", IQ_FORMAT, "`norm_topk_prob`"},
    {"qwen3moe", "\"bos_token_id\":1", "\"attention_bias\":true", IQ_UNSUPPORTED, "`attention_bias` is true"},
};

START_TEST(a_config_that_cannot_be_honoured_is_refused_by_field)
{
    struct iq_test_spec s = spec_of(bad_configs[_i].arch, true);
    const char *path = iq_written(&s);
    ck_assert(iq_edit(iq_scratch("config.json"), bad_configs[_i].from, bad_configs[_i].to));
    iq_limit_memory(256 << 20);
    iq_refuse_model(path, bad_configs[_i].status, bad_configs[_i].says);
}
END_TEST

static const struct {
    const char *arch, *key;
    uint32_t value;
    int status;
    const char *says;
} bad_keys[] = {
    {"mixtral", "llama.expert_count", 1025, IQ_FORMAT, "`llama.expert_count`: found 1025"},
    {"mixtral", "llama.expert_count", 0, IQ_FORMAT, "`llama.expert_used_count` is 2, but no experts"},
    {"mixtral", "llama.expert_count", 1024, IQ_SHAPE, "`blk.0.ffn_gate_inp.weight`"},
    {"mixtral", "llama.expert_used_count", 0, IQ_SHAPE, "found 0 of 4 experts"},
    {"mixtral", "llama.expert_used_count", 5, IQ_SHAPE, "found 5 of 4 experts"},
    {"mixtral", "llama.expert_used_count", 17, IQ_FORMAT, "found 17"},
    {"mixtral", "llama.expert_feed_forward_length", 128, IQ_UNSUPPORTED,
     "`llama.expert_feed_forward_length` is 128, but the feed-forward length 160"},
    {"qwen3moe", "qwen3moe.expert_count", 0, IQ_FORMAT, "`qwen3moe.expert_count` is missing"},
    {"qwen3moe", "qwen3moe.expert_feed_forward_length", 128, IQ_SHAPE,
     "`blk.0.ffn_gate_exps.weight` has 3 dimensions [4, 160, 64], expected three [4, 128, 64] (experts, "
     "rows, "
     "columns)"},
    {"qwen3moe", "qwen3moe.expert_feed_forward_length", UINT32_MAX, IQ_FORMAT, "found 4294967295"},
};

START_TEST(a_key_that_cannot_be_honoured_is_refused_by_name)
{
    struct iq_test_spec s = spec_of(bad_keys[_i].arch, false);
    const char *path = iq_written(&s);
    iq_poke_u32(bad_keys[_i].key, bad_keys[_i].value);
    iq_limit_memory(256 << 20);
    iq_refuse_model(path, bad_keys[_i].status, bad_keys[_i].says);
}
END_TEST

/* Renames within m.gguf, where both names are as long. */
static void rename_in(const char *path, const char *from, const char *to)
{
    size_t n;
    char *bytes = iq_slurp(path, &n), *at = memmem(bytes, n, from, strlen(from));
    ck_assert_ptr_nonnull(at);
    memcpy(at, to, strlen(from));
    iq_spill(path, bytes, n);
    free(bytes);
}

START_TEST(other_forms_of_experts_are_refused_by_name)
{
    struct iq_test_spec s = spec_of("mixtral", false);
    s.old_experts = true;
    iq_refuse_model(iq_written(&s), IQ_UNSUPPORTED,
                    "`blk.0.ffn_gate_exps.weight` is missing, expected dimensions [4, 160, 64]; found "
                    "`blk.0.ffn_gate.0.weight`, a form that is not read");
    s.old_experts = false;
    const char *path = iq_written(&s);
    rename_in(path, "blk.1.ffn_up_exps.weight", "blk.1.ffn_Up_exps.weight");
    iq_refuse_model(path, IQ_NOT_FOUND, "`blk.1.ffn_up_exps.weight` is missing");
    iq_written(&s);
    rename_in(path, "llama.expert_used_count", "llama.expert_Used_count");
    iq_refuse_model(path, IQ_FORMAT, "`llama.expert_used_count` is missing");
    iq_written(&s);
    rename_in(path, "llama.expert_count", "llama.Expert_count");
    rename_in(path, "llama.expert_used_count", "llama.Expert_used_count");
    iq_refuse_model(path, IQ_NOT_FOUND, "`blk.0.ffn_gate.weight` is missing");
}
END_TEST

START_TEST(experts_of_a_layer_are_of_one_type)
{
    struct iq_test_spec s = spec_of("mixtral", true);
    s.format = IQ_F16;
    const char *path = iq_written(&s);
    static const char spare[] = "\"format\":\"pt", from[] = "experts.2.w3.weight\":{\"dtype\":\"";
    size_t n;
    char *bytes = iq_slurp(iq_scratch("model.safetensors"), &n);
    char *t = memmem(bytes, n, spare, sizeof spare - 1), *type = memmem(bytes, n, from, sizeof from - 1);
    ck_assert(t && type);
    t += sizeof spare - 2, type += sizeof from - 1;
    memmove(t, t + 1, (size_t)(type - t - 1)); /* "BF16" is a letter longer than "F16": "pt" gives up one */
    type[-1] = 'B';
    iq_spill(iq_scratch("model.safetensors"), bytes, n);
    free(bytes);
    iq_refuse_model(path, IQ_UNSUPPORTED, "expected one type for all experts");
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("experts");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, iq_scratch_make, iq_scratch_remove);
    tcase_add_loop_test(t, both_sources_hold_the_same_experts, 0, 2);
    tcase_add_test(t, weights_are_renormalised_as_the_class_says);
    tcase_add_test(t, either_name_of_the_number_of_experts_is_taken);
    tcase_add_loop_test(t, a_config_that_cannot_be_honoured_is_refused_by_field, 0,
                        sizeof bad_configs / sizeof *bad_configs);
    tcase_add_loop_test(t, a_key_that_cannot_be_honoured_is_refused_by_name, 0,
                        sizeof bad_keys / sizeof *bad_keys);
    tcase_add_test(t, other_forms_of_experts_are_refused_by_name);
    tcase_add_test(t, experts_of_a_layer_are_of_one_type);
    Suite *s = suite_create("experts");
    suite_add_tcase(s, t);
    return check_main(s);
}
