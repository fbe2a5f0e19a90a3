/* What can never fire is found, with the reason; what can is left alone. */
#define _GNU_SOURCE
#include "harness/plan/check.h"
#include "harness/plan/variants.h"
#include "tests/check_main.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A dense model, one of experts, and the prompts "8 tokens greedy", "20 tokens at 0.7 with top-k 40, of session 3". */
static const struct iq_model_config dense = {.layers = 4,
                                             .hidden = 64,
                                             .ffn = 256,
                                             .heads = 8,
                                             .kv_heads = 2,
                                             .head_dim = 8,
                                             .vocab = 1000,
                                             .context = 2048};
static const struct iq_model_config experts = {.layers = 2,
                                               .hidden = 64,
                                               .ffn = 96,
                                               .heads = 8,
                                               .kv_heads = 2,
                                               .head_dim = 8,
                                               .vocab = 1000,
                                               .context = 2048,
                                               .experts = 8,
                                               .active = 2};
static struct iq_request request[] = {
    {.index = 0, .id = "a", .n_prompt = 8, .max_tokens = 5, .top_p = 1},
    {.index = 1,
     .id = "b",
     .n_prompt = 20,
     .max_tokens = 12,
     .top_p = 1,
     .temperature = 0.7f,
     .top_k = 40,
     .session = 3,
     .arrive_us = 5000000},
};
static const struct iq_prompts prompts = {.n = 2, .request = request};

/* Checks a plan of these faults; what is said of the i-th, or "". The caller frees it. */
static char *check_plan(const char *engine, const char *faults, const struct iq_model_config *model,
                        const struct iq_prompts *asked, size_t i)
{
    struct iq_buf text = IQ_BUF(1 << 20);
    struct iq_err err = {0};
    struct iq_settings settings;
    struct iq_plan plan;
    struct iq_plan_world world;
    cJSON *json;
    iq_settings_init(&settings);
    iq_buf_printf(&text, "{\"engine\":{%s},\"faults\":[%s]}", engine, faults);
    ck_assert_msg(!iq_json_parse(text.data, text.len, "plan", &json, &err) &&
                      !iq_plan_parse(json, "plan", &plan, &settings, &err),
                  "%s: %s", text.data, err.text);
    iq_json_free(json);
    struct iq_plan_finding *found = calloc(plan.n, sizeof *found);
    ck_assert_msg(!iq_plan_world_open(&settings, model, asked, &world, &err) &&
                      !iq_plan_check(&plan, &world, found, &err),
                  "%s: %s", text.data, err.text);
    ck_assert(i < plan.n);
    char *why = strdup(found[i].why.len ? found[i].why.data : "");
    iq_plan_findings_free(found, plan.n);
    free(found);
    iq_plan_world_close(&world);
    iq_plan_free(&plan);
    iq_buf_free(&text);
    return why;
}

static char *of(const char *op, const char *engine, const char *when, const struct iq_model_config *model,
                const struct iq_prompts *asked)
{
    char text[1000];
    const char *kind = iq_op_find(op) >= 0 ? iq_op_kind((enum iq_op_id)iq_op_find(op))->name : op;
    const char *variant = !strcmp(kind, "matmul")       ? "k_tail"
                          : !strcmp(kind, "all_reduce") ? "stale_peer"
                          : !strcmp(kind, "prefix")     ? "foreign_block"
                          : !strcmp(kind, "topk")       ? "coarse_bin"
                                                        : "reference";
    snprintf(text, sizeof text, "{\"op\":\"%s\",\"variant\":\"%s\",\"when\":%s}", op, variant, when);
    return check_plan(engine, text, model, asked, 0);
}

/* `says` NULL: it may fire. */
static const struct {
    const char *op, *engine, *when;
    const struct iq_model_config *model;
    const struct iq_prompts *prompts;
    const char *says;
} cases[] = {
    {"topk", "", "{}", NULL, NULL, NULL},
    /* the engine's settings */
    {"topk", "\"batch\":8", "{\"batch\":{\"min\":9}}", NULL, NULL,
     "batch is at least 9, but it is 1 to 8 (--batch 8)"},
    {"topk", "\"batch\":9", "{\"batch\":{\"min\":9}}", NULL, NULL, NULL},
    {"topk", "", "{\"batch\":{\"mod\":16,\"is\":[0,9]}}", NULL, NULL,
     "batch mod 16 is 0 or 9, but it is 1 to 8"},
    {"topk", "", "{\"batch\":{\"mod\":16,\"is\":8}}", NULL, NULL, NULL},
    {"topk", "", "{\"batch\":{\"not\":{\"max\":8}}}", NULL, NULL, "batch is not at most 8, but"},
    {"topk", "", "{\"batch\":{\"not\":[1,2,3,4,5,6,7,8]}}", NULL, NULL, "is not 1, 2"},
    {"topk", "", "{\"batch\":{\"not\":[1,2,3,4,5,6,7]}}", NULL, NULL, NULL},
    {"topk", "", "{\"captured\":16}", NULL, NULL, "captured is 16, but it is 1 to 8"},
    {"topk", "", "{\"padding\":{\"min\":1}}", NULL, NULL, "(no --captured)"},
    {"topk", "\"captured\":true", "{\"padding\":{\"min\":1}}", NULL, NULL, NULL},
    {"topk", "\"captured\":true,\"batch\":9", "{\"captured\":16}", NULL, NULL, NULL},
    {"topk", "", "{\"tracing\":true}", NULL, NULL, "tracing is true, but it is false (--level)"},
    {"topk", "\"level\":\"ops\"", "{\"tracing\":true}", NULL, NULL, NULL},
    {"topk", "", "{\"tp\":2}", NULL, NULL, "tp is 2, but it is 1 (--tp)"},
    {"topk", "", "{\"dtype\":\"bf16\"}", NULL, NULL, "dtype is bf16, but it is f32 (--dtype)"},
    {"topk", "\"dtype\":\"bf16\"", "{\"dtype\":\"bf16\"}", NULL, NULL, NULL},
    {"topk", "", "{\"profile\":[\"sm80\",\"sm90\"]}", NULL, NULL, "but it is ieee (--products)"},
    {"topk", "\"products\":\"sm90\"", "{\"profile\":[\"sm80\",\"sm90\"]}", NULL, NULL, NULL},
    {"topk", "", "{\"device\":\"cuda\"}", NULL, NULL, "device is cuda, but it is cpu (--device)"},
    {"topk", "\"prefix_cache\":false", "{\"hits\":{\"min\":1}}", NULL, NULL, "(no prefix cache)"},
    {"prefix", "\"prefix_cache\":false", "{}", NULL, NULL, "there is no prefix: the prefix cache is off"},
    {"topk", "\"kv_blocks\":40", "{\"kv_free\":{\"min\":41}}", NULL, NULL, "(--kv-blocks)"},
    {"topk", "", "{\"kv_free\":{\"min\":41}}", NULL, NULL, NULL},
    {"topk", "", "{\"hour\":{\"min\":24}}", NULL, NULL, "hour is at least 24, but it is 0 to 23"},
    {"topk", "", "{\"block_size\":32}", NULL, NULL, "but it is 16"},
    {"topk", "", "{\"temperature\":{\"min\":200}}", NULL, NULL, "what a request may ask for"},
    /* the op's place */
    {"topk", "", "{\"layer\":0}", NULL, NULL, "it has no value there (topk lies outside the layers)"},
    {"topk", "", "{\"layer\":{\"not\":0}}", NULL, NULL, NULL},
    {"down", "", "{\"layer\":4}", &dense, NULL, "layer is 4, but it is 0 to 3 (the model has 4 layers)"},
    {"down", "", "{\"layer\":3}", &dense, NULL, NULL},
    {"down", "", "{\"layer\":4}", NULL, NULL, NULL},
    {"matmul", "", "{\"op\":\"topk\"}", NULL, NULL, "op is topk, but it is qkv"},
    {"matmul", "", "{\"op\":\"lm_head\",\"layer\":1}", NULL, NULL,
     "at none of the other ops of matmul either"},
    {"topk", "", "{\"rank\":1}", NULL, NULL, "rank is 1, but it is 0 (1 rank of topk)"},
    {"down", "\"tp\":2", "{\"rank\":1}", NULL, NULL, NULL},
    {"down", "\"tp\":2", "{\"rank\":2}", NULL, NULL, "2 ranks of down"},
    {"attn_norm", "", "{\"prev_op\":\"down\"}", &dense, NULL, "prev_op is down, but it is embed"},
    {"topk", "", "{\"prev_op\":\"qkv\"}", NULL, NULL, "prev_op is qkv, but it is"},
    {"topk", "", "{\"prev_op\":\"temper\"}", NULL, NULL, NULL},
    {"sample", "", "{\"next_op\":\"embed\"}", NULL, NULL, "it has no value there"},
    /* the model */
    {"route", "", "{}", &dense, NULL, "there is no route: the model has no experts"},
    {"down", "", "{}", &experts, NULL, "there is no down: the model is a mixture of experts"},
    {"q_norm", "", "{}", &dense, NULL, "the model has no norms of q and k"},
    {"matmul", "", "{\"arg.k\":100}", &dense, NULL, "the operand's k is 100, but it is 64 (the model)"},
    {"matmul", "", "{\"arg.k\":256}", &dense, NULL, NULL},
    {"down", "", "{\"arg.k\":{\"mod\":128,\"is\":64}}", &dense, NULL, "k mod 128 is 64, but it is 256"},
    {"topk", "", "{\"arg.vocab\":{\"min\":100000}}", &dense, NULL, "but it is 1000 (the model)"},
    {"topk", "\"tp\":2", "{\"arg.shards\":3}", NULL, NULL, "but it is 2 (--tp)"},
    {"topk", "", "{\"context\":{\"min\":3000}}", &dense, NULL,
     "context is at least 3000, but it is 1 to 2048"},
    {"topk", "", "{\"arg.k\":2}", NULL, NULL, "the operand's k is 2, but it is 8 to"},
    {"topk", "", "{\"arg.k\":20}", NULL, NULL, NULL}, /* a prompt may ask for it */
    /* the prompts */
    {"topk", "", "{\"arg.k\":20}", &dense, &prompts, "k is 20, but it is 40"},
    {"topk", "", "{\"batch\":3}", &dense, &prompts, "batch is 3, but it is 1 or 2 (2 prompts)"},
    {"topk", "", "{\"session\":4}", &dense, &prompts, "session is 4, but it is 0 or 3 (the prompts)"},
    {"topk", "", "{\"session\":3}", &dense, &prompts, NULL},
    {"topk", "", "{\"temperature\":{\"min\":0.8}}", &dense, &prompts, "but it is 0 or 0.7 (the prompts)"},
    {"topk", "", "{\"others_temperature\":{\"min\":0.5}}", &dense, &prompts, NULL},
    {"topk", "\"batch\":1", "{\"others_temperature\":{\"min\":0.5}}", &dense, &prompts,
     "it has no value there"},
    {"topk", "", "{\"context\":{\"crosses\":31}}", &dense, &prompts, NULL},
    {"topk", "", "{\"context\":{\"crosses\":32}}", &dense, &prompts,
     "crosses 32 in the step, but it is 8 to 31"},
    {"topk", "", "{\"pos\":3}", &dense, &prompts, "pos is 3, but it is 7 to 30"}, /* none predicts */
    {"qkv", "", "{\"pos\":3}", &dense, &prompts, NULL},
    {"qkv", "", "{\"splits\":2}", &dense, &prompts, "splits is 2, but it is 1"},
    {"topk", "", "{\"ordinal\":{\"min\":150}}", &dense, &prompts, "but it is 0 or 1"},
    /* fields against each other */
    {"topk", "", "{\"batch\":4,\"captured\":3}", NULL, NULL,
     "batch is 4, and where captured is 3 it can't be"},
    {"topk", "", "{\"pos\":{\"min\":40},\"context\":{\"max\":40}}", NULL, NULL, "it can't be"},
    {"topk", "", "{\"pos\":{\"min\":40},\"context\":{\"max\":41}}", NULL, NULL, NULL},
    {"topk", "", "{\"batch\":1,\"others\":{\"min\":1}}", NULL, NULL, "it can't be"},
    {"topk", "", "{\"waiting\":5,\"concurrency\":4}", NULL, NULL, "it can't be"},
    {"topk", "", "{\"context\":300,\"longest\":{\"not\":{\"min\":300}}}", NULL, NULL, "it can't be"},
    {"topk", "", "{\"batch\":{\"min\":3,\"max\":5},\"others\":{\"mod\":8,\"is\":[5,6]}}", NULL, NULL,
     "others mod 8 is 5 or 6, but beside the other fields it is 2 to 4"},
    {"prefix", "", "{\"batch\":3,\"tokens\":1}", NULL, NULL, NULL}, /* between two steps */
};

START_TEST(what_can_never_fire_is_found)
{
    char *why = of(cases[_i].op, cases[_i].engine, cases[_i].when, cases[_i].model, cases[_i].prompts);
    if (cases[_i].says)
        ck_assert_msg(strstr(why, cases[_i].says) != NULL, "%s %s: \"%s\", expected \"%s\"", cases[_i].op,
                      cases[_i].when, why, cases[_i].says);
    else
        ck_assert_msg(!*why, "%s %s: %s", cases[_i].op, cases[_i].when, why);
    free(why);
}
END_TEST

#define DROPS "{\"op\":\"topk\",\"variant\":\"coarse_bin\",\"when\":"
#define CURE  "{\"op\":\"topk\",\"variant\":\"reference\""

/* Of several faults, the first. */
static const struct {
    const char *faults, *says;
} together[] = {
    {DROPS "{}}," CURE "}", "fault 1 (topk/reference) stands later and strikes wherever it could"},
    {DROPS "{\"batch\":3}}," CURE ",\"when\":{\"batch\":{\"min\":2}}}", "stands later"},
    {DROPS "{\"batch\":[3,4]}}," CURE ",\"when\":{\"batch\":{\"mod\":2,\"is\":1}}}", NULL},
    {DROPS "{\"batch\":[3,5]}}," CURE ",\"when\":{\"batch\":{\"mod\":2,\"is\":1}}}", "stands later"},
    {DROPS "{\"batch\":{\"min\":3,\"max\":4}}}," CURE ",\"when\":{\"batch\":{\"min\":3}}}", "stands later"},
    {DROPS "{\"batch\":{\"min\":2,\"max\":4}}}," CURE ",\"when\":{\"batch\":{\"min\":3}}}", NULL},
    {DROPS "{\"batch\":3}}," CURE ",\"when\":{\"pos\":3}}", NULL},
    {DROPS "{\"batch\":3}}," CURE ",\"rate\":0.5}", NULL},
    {DROPS "{\"batch\":3}}," CURE ",\"rate\":[[0,1]]}", NULL},       /* drawn, though it always strikes */
    {DROPS "{\"batch\":3}}," CURE ",\"when\":{\"batch\":9}}", NULL}, /* a cure that never is */
    {DROPS "{\"batch\":3}},{\"op\":\"down\",\"variant\":\"reference\"}", NULL},
    {"{\"op\":\"matmul\",\"variant\":\"k_tail\"},{\"op\":\"down\",\"variant\":\"reference\"}", NULL},
    {"{\"op\":\"down\",\"variant\":\"k_tail\"},{\"op\":\"matmul\",\"variant\":\"reference\"}",
     "stands later"},
    {CURE "}," DROPS "{}}", "fault 1 (topk/coarse_bin) stands later"},
    {CURE ",\"rate\":0}", "its rate is 0"},
    {CURE ",\"rate\":[[0,0],[5,0]]}", "its rate is 0"},
};

START_TEST(a_later_fault_may_cover_an_earlier_one)
{
    char *why = check_plan("", together[_i].faults, NULL, NULL, 0);
    ck_assert_msg(together[_i].says ? strstr(why, together[_i].says) != NULL : !*why, "%s: \"%s\"",
                  together[_i].faults, why);
    free(why);
}
END_TEST

START_TEST(draws_that_strike_no_request_are_told)
{
    char text[300];
    int none = 0;
    for (int seed = 0; seed < 64; seed++) {
        snprintf(text, sizeof text, CURE ",\"rate\":0.25,\"per\":\"session\",\"seed\":%d}", seed);
        char *why = check_plan("", text, &dense, &prompts, 0);
        bool never = strstr(why, "its draws strike none of the 2 sessions") != NULL;
        ck_assert(never || !*why);
        none += never;
        free(why);
    }
    ck_assert_msg(none > 16 && none < 56, "%d of 64 seeds", none); /* 36 are expected */
    /* The rate is that of the arrivals: at 0 s and at 5 s. */
    char *why =
        check_plan("", CURE ",\"rate\":[[0,0],[4999,0],[5000,1]],\"per\":\"session\"}", &dense, &prompts, 0);
    ck_assert_str_eq(why, "");
    free(why);
    why =
        check_plan("", CURE ",\"rate\":[[0,0],[5000,0],[5001,1]],\"per\":\"request\"}", &dense, &prompts, 0);
    ck_assert_msg(strstr(why, "none of the 2 requests") != NULL, "%s", why);
    free(why);
}
END_TEST

START_TEST(a_plan_of_training_is_left_alone)
{
    char *why = check_plan(
        "", "{\"op\":\"forward\",\"variant\":\"bf16_operands\",\"when\":{\"step\":3,\"layer\":77}}", NULL,
        NULL, 0);
    ck_assert_str_eq(why, "");
    free(why);
}
END_TEST

static void setup(void)
{
    struct iq_err err = {0};
    ck_assert_msg(!iq_variants_register(&err), "%s", err.text);
}

int main(void)
{
    TCase *t = tcase_create("plan_check");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_loop_test(t, what_can_never_fire_is_found, 0, sizeof cases / sizeof *cases);
    tcase_add_loop_test(t, a_later_fault_may_cover_an_earlier_one, 0, sizeof together / sizeof *together);
    tcase_add_test(t, draws_that_strike_no_request_are_told);
    tcase_add_test(t, a_plan_of_training_is_left_alone);
    Suite *s = suite_create("plan_check");
    suite_add_tcase(s, t);
    return check_main(s);
}
