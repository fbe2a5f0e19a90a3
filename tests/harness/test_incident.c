/* Incident files: what is read, what is refused, and what a prediction says of a finding. */
#define _GNU_SOURCE
#include "harness/incidents/incident.h"
#include "harness/incidents/predict.h"
#include "tests/check_main.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char base[] =
    "{\"name\": \"i\", \"id\": \"A0\", \"title\": \"t\", \"source\": \"s\", \"story\": \"y\",\n"
    " \"prompts\": [{\"id\": \"a\", \"prompt\": \"x\"}, {\"id\": \"b\", \"prompt\": \"y\", \"seed\": 3}],\n"
    " \"engine\": {\"batch\": 4},\n"
    " \"plan\": {\"faults\": [\n"
    "   {\"name\": \"one\", \"op\": \"topk\", \"variant\": \"coarse_bin\", \"when\": {\"batch\": [2]}},\n"
    "   {\"name\": \"two\", \"op\": \"topk\", \"variant\": \"threshold_precision\"}], \"seed\": 5},\n"
    " \"arms\": [\n"
    "   {\"name\": \"p\", \"what\": \"w\", \"predict\": {\"label\": \"wrong\"}},\n"
    "   {\"name\": \"q\", \"what\": \"w\", \"engine\": {\"tp\": 3}, \"without\": [\"one\"],\n"
    "    \"faults\": [{\"name\": \"cure\", \"op\": \"topk\", \"variant\": \"reference\"}],\n"
    "    \"prompts\": {\"temperature\": 0.5, \"first\": 1}, \"predict\": {\"label\": [\"identical\"]}},\n"
    "   {\"name\": \"r\", \"what\": \"w\", \"prompts\": {\"first\": 1, \"temperature\": 0.5}, \"predict\": "
    "{\"fired\": "
    "true}}]}\n";

static struct iq_err err;

static int parse(const char *text, struct iq_incident *in)
{
    err = (struct iq_err){0};
    return iq_incident_parse(text, strlen(text), "f.json", in, &err);
}

/* `base` with its first `from` replaced. */
static char *changed(const char *from, const char *to)
{
    const char *at = strstr(base, from);
    char *text;
    ck_assert_msg(at != NULL, "the test changes \"%s\", which is not there", from);
    ck_assert_int_gt(asprintf(&text, "%.*s%s%s", (int)(at - base), base, to, at + strlen(from)), 0);
    return text;
}

START_TEST(every_shipped_incident_is_read_and_bears_its_files_name)
{
    unsigned n = 0;
    for (const struct iq_shipped *s = iq_shipped; s->file; s++) {
        const char *dot = strrchr(s->file, '.');
        char name[128];
        struct iq_incident in;
        if (strcmp(dot, ".json")) continue;
        snprintf(name, sizeof name, "%.*s", (int)(dot - s->file), s->file);
        ck_assert_msg(iq_incident_load(name, &in, &err) == IQ_OK, "%s", err.text);
        ck_assert_str_eq(in.name, name);
        iq_incident_free(&in);
        n++;
    }
    ck_assert_uint_ge(n, 3);
}
END_TEST

START_TEST(an_arm_leaves_faults_out_and_puts_its_own_last)
{
    struct iq_incident in;
    ck_assert_msg(parse(base, &in) == IQ_OK, "%s", err.text);
    ck_assert_uint_eq(in.arm[0].plan.n, 2);
    ck_assert_uint_eq(in.arm[1].plan.n, 2);
    ck_assert_str_eq(in.arm[1].plan.fault[0].name, "two");
    ck_assert_str_eq(in.arm[1].plan.fault[1].name, "cure");
    ck_assert_uint_eq(in.arm[1].plan.seed, 5);
    iq_incident_free(&in);
}
END_TEST

START_TEST(an_arm_overrides_settings_and_keeps_the_rest)
{
    struct iq_incident in;
    ck_assert_msg(parse(base, &in) == IQ_OK, "%s", err.text);
    ck_assert_uint_eq(in.arm[1].settings.tp, 3);
    ck_assert_uint_eq(in.arm[1].settings.batch, 4);
    ck_assert_uint_eq(in.arm[2].settings.tp, 1);
    iq_incident_free(&in);
}
END_TEST

START_TEST(arms_with_the_same_prompts_share_a_golden)
{
    struct iq_incident in;
    ck_assert_msg(parse(base, &in) == IQ_OK, "%s", err.text);
    ck_assert_uint_eq(in.n_sets, 2);
    ck_assert_uint_eq(in.arm[0].set, 0);
    ck_assert_uint_eq(in.arm[1].set, 1);
    ck_assert_uint_eq(in.arm[2].set, 1); /* the order of the fields does not matter */
    ck_assert_uint_eq(in.set[0].prompts.n, 2);
    ck_assert_uint_eq(in.set[1].prompts.n, 1);
    ck_assert(in.set[0].prompts.prompt[0].request.temperature == 0);
    ck_assert(in.set[1].prompts.prompt[0].request.temperature == 0.5F);
    ck_assert_uint_eq(in.set[0].prompts.prompt[1].request.seed, 3);
    iq_incident_free(&in);
}
END_TEST

static const struct {
    const char *from, *to, *says; /* says: part of the sentence */
} refused[] = {
    {"\"id\"", "\"Id\"", "f.json"},
    {"\"title\": \"t\", ", "", "title"},
    {"\"name\": \"i\"", "\"name\": \"I/..\"", "f.json: name"},
    {"\"name\": \"i\"", "\"name\": \"\"", "f.json: name"},
    {"\"name\": \"i\"", "\"name\": \"i\", \"name\": \"j\"", "name"},
    {"\"batch\": 4", "\"batch\": 0", "batch"},
    {"\"batch\": 4", "\"batch\": 1e99", "batch"},
    {"\"batch\": 4", "\"bach\": 4", "batch"},
    {"\"batch\": 4", "\"batch\": 4.5", "batch"},
    {"{\"batch\": 4}", "[4]", "f.json: engine"},
    {"[2]", "[[2]]", "batch"},
    {"coarse_bin", "coarse_bean", "coarse_bin"},
    {"\"topk\"", "\"tpok\"", "faults[0]"},
    {"\"seed\": 5", "\"seed\": -5", "seed"},
    {"\"seed\": 5", "\"engine\": {}", "f.json: plan"},
    {"\"id\": \"b\"", "\"id\": \"a\"", "two prompts have the id \"a\""},
    {"\"id\": \"b\"", "\"if\": \"b\"", "f.json: prompts[1]"},
    {"\"seed\": 3", "\"seed\": 1e300", "f.json: prompts[1]"},
    {"\"prompt\": \"y\"", "\"prompt\": {}", "f.json: prompts[1]"},
    {"{\"id\": \"a\", \"prompt\": \"x\"}", "7", "f.json: prompts[0]"},
    {"\"what\": \"w\"", "\"what\": 3", "f.json: arms[0]: `what`"},
    {"\"what\": \"w\"", "\"whit\": \"w\"", "f.json: arms[0]"},
    {"\"name\": \"q\"", "\"name\": \"p\"", "f.json: arms[1]: name"},
    {"\"tp\": 3", "\"tp\": 65", "arms[1]: engine"},
    {"[\"one\"]", "[\"won\"]", "f.json: arms[1]: without"},
    {"[\"one\"]", "[1]", "f.json: arms[1]: without"},
    {"[\"one\"]", "\"one\"", "f.json: arms[1]: without"},
    {"\"variant\": \"reference\"", "\"variant\": \"fast\"", "f.json: arms[1]"},
    {"\"first\": 1}, \"predict\": {\"label\": [", "\"fist\": 1}, \"predict\": {\"label\": [", "first"},
    {"\"first\": 1}, \"predict\": {\"label\": [", "\"first\": 0}, \"predict\": {\"label\": [", "first"},
    {"0.5, \"first\"", "-0.5, \"first\"", "temperature"},
    {"0.5, \"first\"", "{}, \"first\"", "temperature"},
    {"{\"label\": \"wrong\"}", "{}", "f.json: arms[0]: predict"},
    {"{\"label\": \"wrong\"}", "{\"label\": \"wrongs\"}", "identical, benign"},
    {"{\"label\": \"wrong\"}", "{\"label\": 1}", "f.json: arms[0]: predict: label"},
    {"{\"label\": \"wrong\"}", "{\"lable\": \"wrong\"}", "label"},
    {"{\"label\": \"wrong\"}", "{\"guilty\": [\"topk\", \"top\"]}", "predict: guilty"},
    {"{\"label\": \"wrong\"}", "{\"trigger\": {}}", "predict: trigger"},
    {"{\"label\": \"wrong\"}", "{\"trigger\": {\"batch\": []}}", "predict: trigger"},
    {"{\"label\": \"wrong\"}", "{\"trigger\": {\"batch\": [-1]}}", "predict: trigger"},
    {"{\"label\": \"wrong\"}", "{\"trigger\": {\"batch\": [1], \"tokens\": [1]}}", "predict: trigger"},
    {"{\"label\": \"wrong\"}", "{\"trigger\": {\"width\": [1]}}", "batch, tokens"},
    {"{\"label\": \"wrong\"}", "{\"trigger\": {\"phase\": [1]}}", "prefill"},
    {"{\"label\": \"wrong\"}", "{\"changed\": {\"min\": 0.9, \"max\": 0.1}}", "predict: changed"},
    {"{\"label\": \"wrong\"}", "{\"changed\": {\"min\": 2}}", "predict: changed"},
    {"{\"label\": \"wrong\"}", "{\"changed\": 0.5}", "predict: changed"},
    {"{\"label\": \"wrong\"}", "{\"fired\": 1}", "predict: fired"},
    {", \"predict\": {\"label\": \"wrong\"}", "", "f.json: arms[0]: predict"},
};

START_TEST(a_wrong_incident_is_refused_by_file_and_field)
{
    char *text = changed(refused[_i].from, refused[_i].to);
    struct iq_incident in;
    int status = parse(text, &in);
    ck_assert_msg(status != IQ_OK, "%s -> %s was taken", refused[_i].from, refused[_i].to);
    ck_assert_msg(strstr(err.text, refused[_i].says) != NULL, "expected \"%s\" in: %s", refused[_i].says,
                  err.text);
    ck_assert_msg(!strncmp(err.text, "f.json", 6), "the file is not named first: %s", err.text);
    ck_assert_ptr_null(in.json);
    free(text);
}
END_TEST

START_TEST(prompts_that_are_nowhere_are_named)
{
    const char *list = strchr(strstr(base, "\"prompts\""), '['), *end = strchr(list, ']');
    char *text;
    struct iq_incident in;
    ck_assert_int_gt(asprintf(&text, "%.*s\"nowhere.jsonl\"%s", (int)(list - base), base, end + 1), 0);
    ck_assert_int_ne(parse(text, &in), IQ_OK);
    ck_assert_msg(strstr(err.text, "nowhere.jsonl") != NULL, "%s", err.text);
    free(text);
}
END_TEST

START_TEST(deep_nesting_and_too_many_arms_are_refused)
{
    struct iq_buf b = IQ_BUF(1 << 20);
    struct iq_incident in;
    for (int i = 0; i < 100000; i++) iq_buf_put(&b, "[", 1);
    ck_assert_int_ne(parse(b.data, &in), IQ_OK);
    iq_buf_free(&b);
    const char *arms = strchr(strstr(base, "\"arms\""), '[');
    b = IQ_BUF(1 << 20);
    iq_buf_put(&b, base, (size_t)(arms + 1 - base));
    for (int i = 0; i < 65; i++)
        iq_buf_printf(&b, "%s{\"name\": \"a%d\", \"what\": \"\", \"predict\": {\"fired\": true}}",
                      i ? "," : "", i);
    iq_buf_printf(&b, "]}");
    ck_assert_int_eq(parse(b.data, &in), IQ_LIMIT);
    iq_buf_free(&b);
}
END_TEST

START_TEST(an_unknown_name_lists_the_known_and_the_nearest)
{
    struct iq_incident in;
    ck_assert_int_eq(iq_incident_load("reduction-odor", &in, &err), IQ_USAGE);
    ck_assert_msg(strstr(err.text, "did you mean \"reduction-order\"") != NULL, "%s", err.text);
    ck_assert_msg(strstr(err.text, "anthropic-2025-09-topk,") != NULL, "%s", err.text);
}
END_TEST

/* ---- predictions ---- */

static struct iq_bucket buckets[] = {{.value = 3, .evaluated = 4, .guilty = 4, .in = true},
                                     {.value = 4, .evaluated = 9},
                                     {.value = 6, .evaluated = 7, .guilty = 7, .in = true}};
static struct iq_guilty guilty[] = {
    {.op = "topk",
     .variant = "coarse_bin",
     .trigger = {.found = true, .attr = IQ_ATTR_BATCH, .bucket = buckets, .n_buckets = 3}},
    {.op = "down", .variant = "k_tail"}};
static const struct iq_finding wrong = {.label = IQ_LABEL_WRONG,
                                        .numerics = IQ_NUMERICS_VIOLATES,
                                        .effect = IQ_EFFECT_DECISIVE_FLIPS,
                                        .requests = 10,
                                        .differing = 5,
                                        .changed = 4,
                                        .fired = 3,
                                        .fired_changed = 0,
                                        .guilty = guilty,
                                        .n_guilty = 2};
static const struct iq_finding clean = {.label = IQ_LABEL_IDENTICAL, .requests = 10};

static const struct {
    const struct iq_finding *finding;
    const char *predict;
    bool held;
} predictions[] = {
    {&wrong, "{\"label\": \"wrong\"}", true},
    {&wrong, "{\"label\": [\"benign\", \"wrong\"]}", true},
    {&wrong, "{\"label\": [\"benign\", \"identical\"]}", false},
    {&wrong, "{\"numerics\": \"violates\"}", true},
    {&wrong, "{\"numerics\": \"outside\"}", false},
    {&wrong, "{\"effect\": \"decisive_flips\"}", true},
    {&wrong, "{\"effect\": \"none\"}", false},
    {&wrong, "{\"guilty\": [\"down\", \"topk\"]}", true},
    {&wrong, "{\"guilty\": \"topk\"}", false}, /* down is guilty too */
    {&wrong, "{\"guilty\": [\"topk\", \"down\", \"qkv\"]}", false},
    {&wrong, "{\"guilty\": []}", false},
    {&clean, "{\"guilty\": []}", true},
    {&clean, "{\"guilty\": \"topk\"}", false},
    {&wrong, "{\"guilty_among\": [\"topk\", \"down\", \"qkv\"]}", true},
    {&wrong, "{\"guilty_among\": [\"topk\", \"qkv\"]}", false},
    {&clean, "{\"guilty_among\": [\"topk\"]}", false},
    {&wrong, "{\"variant\": \"coarse_bin\"}", true},
    {&wrong, "{\"variant\": \"k_tail\"}", false},
    {&clean, "{\"variant\": \"k_tail\"}", false},
    {&wrong, "{\"trigger\": {\"batch\": [6, 3]}}", true},
    {&wrong, "{\"trigger\": {\"batch\": [3]}}", false},
    {&wrong, "{\"trigger\": {\"batch\": [3, 6, 7]}}", false},
    {&wrong, "{\"trigger\": {\"batch\": [3, 3]}}", false},
    {&wrong, "{\"trigger\": {\"tokens\": [3, 6]}}", false},
    {&wrong, "{\"trigger\": null}", false},
    {&clean, "{\"trigger\": null}", true},
    {&clean, "{\"trigger\": {\"batch\": [3]}}", false},
    {&wrong, "{\"hidden\": false}", true},
    {&clean, "{\"hidden\": true}", true},
    {&clean, "{\"hidden\": false}", false},
    {&wrong, "{\"fired\": true}", true},
    {&wrong, "{\"fired\": false}", false},
    {&wrong, "{\"struck\": false}", true},
    {&wrong, "{\"struck\": true}", false},
    {&wrong, "{\"changed\": {\"min\": 0.4, \"max\": 0.4}}", true},
    {&wrong, "{\"changed\": {\"min\": 0.41}}", false},
    {&wrong, "{\"changed\": {\"max\": 0.39}}", false},
    {&wrong, "{\"differing\": {\"min\": 0.5}}", true},
    {&clean, "{\"differing\": {\"min\": 0.1}}", false},
};

START_TEST(a_prediction_holds_only_for_what_it_says)
{
    cJSON *predict;
    struct iq_check check[IQ_CHECKS_MAX];
    unsigned n;
    const char *text = predictions[_i].predict;
    ck_assert_int_eq(iq_json_parse(text, strlen(text), "p", &predict, &err), IQ_OK);
    ck_assert_msg(iq_predict_read(predict, "p", &err) == IQ_OK, "%s", err.text);
    ck_assert_int_eq(iq_predict_check(predict, predictions[_i].finding, check, &n, &err), IQ_OK);
    ck_assert_uint_eq(n, 1);
    ck_assert_msg(check[0].held == predictions[_i].held, "%s: found %s", text, check[0].found);
    iq_check_free(&check[0]);
    iq_json_free(predict);
}
END_TEST

#define ROWS(table) (int)(sizeof(table) / sizeof *(table))

int main(void)
{
    Suite *s = suite_create("incident");
    TCase *t = tcase_create("incident");
    suite_add_tcase(s, t);
    tcase_add_test(t, every_shipped_incident_is_read_and_bears_its_files_name);
    tcase_add_test(t, an_arm_leaves_faults_out_and_puts_its_own_last);
    tcase_add_test(t, an_arm_overrides_settings_and_keeps_the_rest);
    tcase_add_test(t, arms_with_the_same_prompts_share_a_golden);
    tcase_add_loop_test(t, a_wrong_incident_is_refused_by_file_and_field, 0, ROWS(refused));
    tcase_add_test(t, prompts_that_are_nowhere_are_named);
    tcase_add_test(t, deep_nesting_and_too_many_arms_are_refused);
    tcase_add_test(t, an_unknown_name_lists_the_known_and_the_nearest);
    tcase_add_loop_test(t, a_prediction_holds_only_for_what_it_says, 0, ROWS(predictions));
    return check_main(s);
}
