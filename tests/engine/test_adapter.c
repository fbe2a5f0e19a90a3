/* Adapters: the op against exact arithmetic, an adapter against the same weights merged, and the contract: a row's bits know
 * its own adapter only. */
#include "tests/check_main.h"
#include "tests/engine/fault_case.h"
#include "tests/engine/make_adapter.h"
#include "tests/engine/small_models.h"
#include "tests/files/scratch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { REQUESTS = 12, LONGEST = 50, ANSWER = 8, ADAPTERS = 2 };
#define ALL 0x7fu

static struct iq_small folder = {.name = "folder",
                                 .spec = {.arch = "llama",
                                          .hf = true,
                                          .format = IQ_F32,
                                          .embed = IQ_FORMAT_NONE,
                                          .layers = 2,
                                          .hidden = 64,
                                          .ffn = 150,
                                          .heads = 4,
                                          .kv_heads = 2,
                                          .head_dim = 16,
                                          .vocab = 97}};
static const struct iq_adapter_spec specs[ADAPTERS] = {
    {.rank = 3, .targets = ALL, .alpha = 6, .seed = 1},
    {.rank = 5, .targets = 1u << IQ_TARGET_Q | 1u << IQ_TARGET_DOWN, .alpha = 8, .rslora = true, .seed = 2}};
static const char *const params[ADAPTERS + 1] = {"{}", "{\"adapter\":\"one\"}", "{\"adapter\":\"two\"}"};

static char path[4096], adapter_path[ADAPTERS][4096];
static struct iq_model *model;
static struct iq_adapter *adapter[ADAPTERS];
static struct iq_rig_set set;

static void setup(void)
{
    iq_scratch_make();
    snprintf(path, sizeof path, "%s", iq_small_write(&folder));
    model = iq_rig_model(path, 1);
    for (uint32_t i = 0; i < ADAPTERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "adapter%u", i);
        snprintf(adapter_path[i], sizeof adapter_path[i], "%s", iq_scratch_dir(name));
        iq_test_write_adapter(adapter_path[i], &model->config, &specs[i]);
        adapter[i] = iq_test_adapter(i ? "two" : "one", adapter_path[i], model);
        adapter[i]->number = i + 1;
    }
    set = iq_rig_set_make(
        3, &(struct iq_rig_shape){REQUESTS, model->config.vocab, LONGEST, ANSWER, LONGEST - 4, false});
}

/* Requests 0, 3, 6 ... have none, 1, 4, 7 ... the first, 2, 5, 8 ... the second. */
static void give_adapters(void)
{
    for (uint32_t i = 0; i < set.n; i++) {
        set.request[i].adapter = i % 3 ? adapter[i % 3 - 1] : NULL;
        set.request[i].params = params[i % 3];
    }
}

static void teardown(void)
{
    iq_rig_set_free(&set);
    for (uint32_t i = 0; i < ADAPTERS; i++) iq_adapter_close(adapter[i]);
    iq_model_close(model);
    iq_scratch_remove();
}

/* In float64 by Python, where no value needs a rounding: base + 0.5 * (x A^T) B^T. */
START_TEST(the_op_is_exact_on_small_numbers)
{
    static const float x[2][3] = {{1, -2, 0.5f}, {3, 0, -1}}, base[2][2] = {{10, 20}, {30, 40}};
    static const float a[2][3] = {{1, 2, 4}, {-1, 0.5f, 2}}, b[2][2] = {{2, -1}, {0.25f, 3}};
    static const float want[2][2] = {{9.5f, 18.375f}, {31.5f, 32.375f}};
    const struct iq_lora_pair pair = {&a[0][0], &b[0][0], 2, 0.5f};
    const struct iq_lora_pair *rows[2] = {&pair, &pair};
    float y[2][2];
    struct iq_exec exec = {0};
    struct iq_err err = {0};
    struct iq_lora args = {
        .rows = 2, .parts = 1, .part = {{3, 2, &x[0][0], &base[0][0], &y[0][0], 3, 2, 2, rows}}};
    const struct iq_variant *v = iq_variant_find("lora", "reference");
    ck_assert_int_eq(v->run(&exec, NULL, &args, NULL, NULL), IQ_OK);
    for (int i = 0; i < 4; i++)
        ck_assert_msg(y[i / 2][i % 2] == want[i / 2][i % 2], "%d: %g", i, (double)y[i / 2][i % 2]);
    rows[1] = NULL;
    ck_assert_int_eq(v->run(&exec, NULL, &args, NULL, NULL), IQ_OK);
    ck_assert(!memcmp(y[1], base[1], sizeof y[1]) && !memcmp(y[0], want[0], sizeof y[0]));
    ck_assert_int_eq(iq_kind_find("lora")->check(&args, &err), IQ_OK);
    y[1][0] += 1;
    ck_assert_int_eq(iq_kind_find("lora")->check(&args, &err), IQ_MISMATCH);
    iq_exec_close(&exec);
}
END_TEST

static void run(struct iq_rig *g, const struct iq_model *m, uint32_t batch)
{
    struct iq_engine_config c = IQ_ENGINE_CONFIG;
    c.batch = batch;
    c.kv_blocks = 64; /* no prefix is evicted */
    c.top = 97;
    iq_rig_run(g, m, &c, set.request, set.n, NULL, false);
}

/* The largest difference of the first generated token's logits, as a share of the largest of them. */
static double distance(const struct iq_rig *g, const struct iq_rig *h, uint32_t i)
{
    const struct iq_output *x = iq_rig_output(g, i), *y = iq_rig_output(h, i);
    double most = 0, largest = 0;
    for (uint32_t c = 0; c < x->top; c++)
        for (uint32_t d = 0; d < y->top; d++) {
            if (x->top_id[c] != y->top_id[d]) continue;
            most = fmax(most, fabs((double)x->top_logit[c] - (double)y->top_logit[d]));
            largest = fmax(largest, fabs((double)x->top_logit[c]));
        }
    return most / largest;
}

/* Merged and apart, the same sums are rounded otherwise: iq_rig_logit_bound's reasoning, and some more for the products
 * through the low rank. What is wrong shows in the first digit. */
#define TOLERANCE 1e-4

START_TEST(an_adapter_is_the_merged_weights)
{
    char copy[4096];
    struct iq_rig with, merged, without;
    const struct iq_small other = {.name = "merged", .spec = folder.spec};
    run(&without, model, 4);
    snprintf(copy, sizeof copy, "%s", iq_small_write(&other));
    iq_test_merge_adapter(copy, model, adapter[_i]);
    struct iq_model *m = iq_rig_model(copy, 1);
    run(&merged, m, 4);
    for (uint32_t i = 0; i < set.n; i++) set.request[i].adapter = adapter[_i];
    run(&with, model, 4);
    for (uint32_t i = 0; i < set.n; i++) {
        double d = distance(&with, &merged, i), far = distance(&with, &without, i);
        ck_assert_msg(d <= TOLERANCE && far > 100 * TOLERANCE, "request %u: %g merged, %g without", i, d,
                      far);
    }
    iq_rig_close(&with), iq_rig_close(&merged), iq_rig_close(&without);
    iq_model_close(m);
}
END_TEST

/* In a GGUF file queries and keys stand in another order. */
START_TEST(a_gguf_model_takes_the_same_adapter)
{
    struct iq_rig hf, gguf;
    struct iq_small other = {.name = "other.gguf", .spec = folder.spec};
    other.spec.hf = false;
    struct iq_model *m = iq_rig_model(iq_small_write(&other), 1);
    struct iq_adapter *a = iq_test_adapter("one", adapter_path[0], m);
    ck_assert_int_ne(m->config.rope.pairing, model->config.rope.pairing);
    for (uint32_t i = 0; i < set.n; i++) set.request[i].adapter = adapter[0];
    run(&hf, model, 4);
    for (uint32_t i = 0; i < set.n; i++) set.request[i].adapter = a;
    run(&gguf, m, 4);
    for (uint32_t i = 0; i < set.n; i++) ck_assert_msg(distance(&hf, &gguf, i) <= TOLERANCE, "request %u", i);
    iq_rig_close(&hf), iq_rig_close(&gguf);
    iq_adapter_close(a);
    iq_model_close(m);
}
END_TEST

START_TEST(adapters_do_not_depend_on_the_batch)
{
    char why[256];
    struct iq_rig alone, g;
    struct iq_engine_config golden = IQ_ENGINE_CONFIG;
    struct iq_model *two = iq_rig_model(path, 2);
    give_adapters();
    golden.batch = 1;
    golden.prefix_cache = false;
    iq_rig_run(&alone, model, &golden, set.request, set.n, NULL, false);
    for (int how = 0; how < 6; how++) {
        struct iq_engine_config c = IQ_ENGINE_CONFIG;
        c.batch = 5;
        c.chunk = how == 1 ? 7 : 0;
        c.captured = how == 2;
        c.kv_blocks = how == 3 ? 7 : 0;
        c.threads = how == 4 ? 3 : 1;
        iq_rig_run(&g, how == 5 ? two : model, &c, set.request, set.n, NULL, false);
        for (uint32_t i = 0; i < set.n; i++)
            ck_assert_msg(iq_rig_same(&alone, i, &g, i, why), "how %d request %u: %s", how, i, why);
        iq_rig_close(&g);
    }
    iq_rig_close(&alone);
    iq_model_close(two);
}
END_TEST

START_TEST(a_request_without_an_adapter_is_untouched)
{
    char why[256];
    struct iq_rig plain, g;
    run(&plain, model, 4);
    give_adapters();
    run(&g, model, 4);
    uint32_t differ = 0;
    for (uint32_t i = 0; i < set.n; i++)
        if (i % 3)
            differ += !iq_rig_same(&plain, i, &g, i, why);
        else
            ck_assert_msg(iq_rig_same(&plain, i, &g, i, why), "request %u: %s", i, why);
    ck_assert_uint_gt(differ, 0);
    ck_assert(iq_engine_has(g.engine, IQ_OP_LORA_DOWN) && !iq_engine_has(plain.engine, IQ_OP_LORA_DOWN));
    iq_rig_close(&plain), iq_rig_close(&g);
}
END_TEST

/* One prompt, again and again, one after the other. */
static void same_prompt(void)
{
    give_adapters();
    for (uint32_t i = 1; i < set.n; i++) {
        set.request[i].prompt = set.request[0].prompt;
        set.request[i].n_prompt = set.request[0].n_prompt;
        set.request[i].max_tokens = set.request[0].max_tokens;
    }
}

static void longest_first(void)
{
    for (uint32_t i = 1; i < set.n; i++)
        if (set.request[i].n_prompt > set.request[0].n_prompt) {
            set.request[0].prompt = set.request[i].prompt;
            set.request[0].n_prompt = set.request[i].n_prompt;
        }
}

START_TEST(a_prefix_is_shared_within_an_adapter_only)
{
    struct iq_rig g;
    longest_first();
    same_prompt();
    run(&g, model, 1);
    for (uint32_t i = 0; i < set.n; i++)
        ck_assert_msg((iq_rig_output(&g, i)->cached > 0) == (i >= 3), "request %u: %u cached", i,
                      iq_rig_output(&g, i)->cached);
    iq_rig_close(&g);
}
END_TEST

START_TEST(k24_attaches_another_adapters_kv_and_is_caught)
{
    struct iq_rig_seen seen;
    struct iq_fault_bench b = {model, set.request, set.n, IQ_ENGINE_CONFIG};
    const char *text = iq_fault_text("identity", "shared_identity", "{\"what\":3}", "");
    char fault[256], none[256];
    snprintf(fault, sizeof fault, "%s", text);
    snprintf(none, sizeof none, "%s", iq_fault_text("identity", "shared_identity", "{\"what\":4}", ""));
    longest_first();
    same_prompt();
    b.config.batch = 1;
    ck_assert_uint_gt(iq_fault_harm(&b, fault, &seen), 0);
    ck_assert_uint_gt(seen.changed, 0);
    iq_fault_caught(&b, fault, IQ_LABEL_WRONG, "identity");
    /* Nobody's requests: nothing to take for another. */
    ck_assert_uint_eq(iq_fault_harm(&b, none, &seen), 0);
    ck_assert_uint_eq(seen.changed, 0);
    ck_assert_uint_eq(
        iq_fault_harm(&b, iq_fault_text("identity", "shared_identity", "{\"what\":3}", ",\"rate\":0"), &seen),
        0);
    for (uint32_t i = 0; i < set.n; i++) set.request[i].adapter = NULL, set.request[i].params = "{}";
    ck_assert_uint_eq(iq_fault_harm(&b, fault, &seen), 0);
}
END_TEST

START_TEST(what_is_not_built_is_refused_by_name)
{
    static const struct {
        struct iq_adapter_spec spec;
        const char *says;
    } cases[] = {
        {{.rank = 2, .targets = ALL, .alpha = 2, .config = ",\"use_dora\":true"}, "use_dora is not built"},
        {{.rank = 2, .targets = ALL, .alpha = 2, .config = ",\"modules_to_save\":[\"lm_head\"]"},
         "modules_to_save"},
        {{.rank = 2, .targets = ALL, .alpha = 2, .config = ",\"alpha_pattern\":{\"q\":1}"}, "alpha_pattern"},
        {{.rank = 2, .targets = ALL, .alpha = 2, .extra = "base_model.model.lm_head.lora_A.weight"},
         "tensor `base_model.model.lm_head.lora_A.weight` is not lora_A or lora_B"},
        {{.rank = 2,
          .targets = 1u << IQ_TARGET_Q,
          .alpha = 2,
          .extra = "base_model.model.model.layers.1.mlp.up_proj.lora_B.weight"},
         "`base_model.model.model.layers.1.mlp.up_proj.lora_B.weight` has no lora_A beside it"},
        {{.rank = 0, .targets = 0, .alpha = 2}, "no tensors in it"},
        {{.rank = 600, .targets = 1u << IQ_TARGET_Q, .alpha = 2}, "rank from 1 to 512"},
    };
    struct iq_err err = {0};
    struct iq_adapter *a;
    iq_test_write_adapter(adapter_path[0], &model->config, &cases[_i].spec);
    ck_assert_int_ne(iq_adapter_open("bad", adapter_path[0], model, &a, &err), IQ_OK);
    ck_assert_msg(strstr(err.text, cases[_i].says) && !strncmp(err.text, "adapter bad: ", 13), "%s",
                  err.text);
    ck_assert_ptr_null(a);
}
END_TEST

START_TEST(an_adapter_of_another_size_is_refused)
{
    struct iq_err err = {0};
    struct iq_adapter *a;
    struct iq_model *tiny = iq_rig_model(iq_small_write(&iq_small_tiny), 1);
    ck_assert_int_eq(iq_adapter_open("bad", adapter_path[0], tiny, &a, &err), IQ_MISMATCH);
    ck_assert_msg(strstr(err.text, "expected F32, F16 or BF16 of rank x 32"), "%s", err.text);
    ck_assert_int_eq(iq_adapter_open("bad", path, model, &a, &err), IQ_NOT_FOUND);
    iq_model_close(tiny);
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("adapter");
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, the_op_is_exact_on_small_numbers);
    tcase_add_loop_test(c, an_adapter_is_the_merged_weights, 0, ADAPTERS);
    tcase_add_test(c, a_gguf_model_takes_the_same_adapter);
    tcase_add_test(c, adapters_do_not_depend_on_the_batch);
    tcase_add_test(c, a_request_without_an_adapter_is_untouched);
    tcase_add_test(c, a_prefix_is_shared_within_an_adapter_only);
    tcase_add_test(c, k24_attaches_another_adapters_kv_and_is_caught);
    tcase_add_loop_test(c, what_is_not_built_is_refused_by_name, 0, 7);
    tcase_add_test(c, an_adapter_of_another_size_is_refused);
    Suite *s = suite_create("adapter");
    suite_add_tcase(s, c);
    return check_main(s);
}
