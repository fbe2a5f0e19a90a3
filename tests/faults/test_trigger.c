/* The trigger language: every field, every form, every refusal. */
#include "faults/trigger.h"
#include "kernels/base/cell.h"
#include "tests/check_main.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A kind of our own, so that arg.* does not depend on what the real kinds offer. */
struct gadget {
    uint64_t width, height;
};
static uint64_t gadget_field(const void *args, unsigned index)
{
    const struct gadget *g = args;
    return index ? g->height : g->width;
}
static const char *const gadget_fields[] = {"width", "height", NULL};
static const struct iq_kind gadget = {.name = "gadget", .fields = gadget_fields, .field = gadget_field};

static const struct gadget args = {640, 480};
static const struct iq_step step = {.step = 11,
                                    .clock_us = 2500999,
                                    .batch = 3,
                                    .captured = 4,
                                    .tokens = 17,
                                    .tp = 2,
                                    .tracing = 0,
                                    .evictions = 5,
                                    .weights = 1};
static const struct iq_row rows[] = {
    {.request = 1,
     .session = 9,
     .pos = 31,
     .context = 32,
     .prompt = 20,
     .phase = IQ_DECODE,
     .temperature = 0.7f,
     .top_k = 40,
     .top_p = 0.9f,
     .min_p = 0,
     .seed = UINT64_MAX,
     .masked = 1,
     .adapter = 2},
    {.request = 2,
     .session = 0,
     .pos = 4,
     .context = 5,
     .prompt = 8,
     .cached = 4,
     .phase = IQ_PREFILL,
     .attempt = 1,
     .temperature = 0,
     .top_p = 1,
     .min_p = 0.1f,
     .seed = 7},
};
static const struct iq_site site = {.op = IQ_OP_TOPK,
                                    .layer = IQ_NO_LAYER,
                                    .rank = 1,
                                    .prev_op = IQ_OP_TEMPER,
                                    .next_op = IQ_OP_NONE,
                                    .step = &step,
                                    .row = rows,
                                    .rows = 2};

static int parse(const char *text, const struct iq_kind *kind, struct iq_when **out, struct iq_err *err)
{
    cJSON *tree = NULL;
    *out = NULL;
    int status = iq_json_parse(text, strlen(text), "t.json", &tree, err);
    if (!status) status = iq_trigger_parse(tree, "t.json: when", kind, out, err);
    iq_json_free(tree);
    return status;
}

static struct iq_when *must(const char *text)
{
    struct iq_when *t;
    struct iq_err err = {0};
    ck_assert_msg(parse(text, &gadget, &t, &err) == IQ_OK, "%s: %s", text, err.text);
    return t;
}

/* Which rows of `site` a trigger strikes, as bits. */
static unsigned struck(const struct iq_when *t)
{
    unsigned mask = 0;
    if (!iq_trigger_call(t, &site, &args)) return 0;
    for (uint32_t r = 0; r < site.rows; r++) mask |= (unsigned)iq_trigger_row(t, &site, r) << r;
    return mask;
}

/* Each field holds for its value (rows as bits), and fails for another. */
static const struct {
    const char *holds, *fails;
    unsigned rows;
} fields[] = {
    {"{\"batch\":3}", "{\"batch\":4}", 3},
    {"{\"captured\":4}", "{\"captured\":3}", 3},
    {"{\"tokens\":17}", "{\"tokens\":18}", 3},
    {"{\"step\":11}", "{\"step\":0}", 3},
    {"{\"clock_ms\":2500}", "{\"clock_ms\":2501}", 3},
    {"{\"tp\":2}", "{\"tp\":1}", 3},
    {"{\"tracing\":false}", "{\"tracing\":true}", 3},
    {"{\"evictions\":5}", "{\"evictions\":6}", 3},
    {"{\"op\":\"topk\"}", "{\"op\":\"sample\"}", 3},
    {"{\"layer\":{\"not\":3}}", "{\"layer\":{\"min\":0}}", 3},
    {"{\"rank\":1}", "{\"rank\":0}", 3},
    {"{\"prev_op\":\"temper\"}", "{\"prev_op\":\"lm_head\"}", 3},
    {"{\"next_op\":{\"not\":\"sample\"}}", "{\"next_op\":\"sample\"}", 3},
    {"{\"device\":{\"not\":\"cpu\"}}", "{\"device\":\"cpu\"}", 3}, /* no slot: no device */
    {"{\"rows\":2}", "{\"rows\":1}", 3},
    {"{\"request\":1}", "{\"request\":3}", 1},
    {"{\"session\":0}", "{\"session\":1}", 2},
    {"{\"pos\":4}", "{\"pos\":5}", 2},
    {"{\"context\":32}", "{\"context\":31}", 1},
    {"{\"prompt\":20}", "{\"prompt\":21}", 1},
    {"{\"cached\":4}", "{\"cached\":3}", 2},
    {"{\"phase\":\"decode\"}", "{\"phase\":[\"decode\"],\"pos\":4}", 1},
    {"{\"attempt\":1}", "{\"attempt\":2}", 2},
    {"{\"temperature\":0.7}", "{\"temperature\":0.70001}", 1},
    {"{\"top_k\":40}", "{\"top_k\":41}", 1},
    {"{\"top_p\":0.9}", "{\"top_p\":0.8}", 1},
    {"{\"min_p\":0.1}", "{\"min_p\":0.2}", 2},
    {"{\"seed\":\"0xffffffffffffffff\"}", "{\"seed\":\"0xfffffffffffffffe\"}", 1},
    {"{\"has_mask\":true}", "{\"has_mask\":true,\"pos\":4}", 1},
    {"{\"neighbour_temperature\":0.7}", "{\"neighbour_temperature\":0}", 2}, /* the first row has none */
    {"{\"neighbour_top_k\":40}", "{\"neighbour_top_k\":0}", 2},
    {"{\"neighbour_top_p\":0.9}", "{\"neighbour_top_p\":1}", 2},
    {"{\"neighbour_min_p\":0}", "{\"neighbour_min_p\":0.1}", 2},
    {"{\"neighbour_has_mask\":true}", "{\"neighbour_has_mask\":false}", 2},
    {"{\"adapter\":2}", "{\"adapter\":1}", 1},
    {"{\"neighbour_adapter\":2}", "{\"neighbour_adapter\":0}", 2},
    {"{\"weights_version\":1}", "{\"weights_version\":0}", 3},
    {"{\"arg.width\":640}", "{\"arg.width\":480}", 3},
    {"{\"arg.height\":480}", "{\"arg.height\":640}", 3},
};

START_TEST(a_field_holds_for_its_value_and_for_no_other)
{
    struct iq_when *t = must(fields[_i].holds);
    ck_assert_msg(struck(t) == fields[_i].rows, "%s: rows %x", fields[_i].holds, struck(t));
    iq_trigger_free(t);
    t = must(fields[_i].fails);
    ck_assert_msg(struck(t) == 0, "%s: rows %x", fields[_i].fails, struck(t));
    iq_trigger_free(t);
}
END_TEST

START_TEST(every_field_of_the_vocabulary_has_a_row_in_this_test)
{
    for (const struct iq_trigger_field *f = iq_trigger_fields(); f->name; f++) {
        char key[64];
        snprintf(key, sizeof key, "{\"%s\":", f->name);
        size_t i = 0, n = sizeof fields / sizeof *fields;
        while (i < n && strncmp(fields[i].holds, key, strlen(key))) i++;
        ck_assert_msg(i < n, "no row tests the field %s", f->name);
        ck_assert_msg(f->help && *f->help, "%s has no help", f->name);
    }
}
END_TEST

/* Forms, over row fields pos (31, 4) and temperature (0.7, 0) and call field batch (3). */
static const struct {
    const char *text;
    unsigned rows;
    const char *canonical; /* NULL: the same */
    const char *says;
} forms[] = {
    {"{}", 3, NULL, "always"},
    {"{\"pos\":[4,31,9]}", 3, "{\"pos\":[4,9,31]}", "when pos is 4, 9 or 31"},
    {"{\"pos\":[4,4]}", 2, "{\"pos\":4}", "when pos is 4"},
    {"{\"pos\":{\"min\":5}}", 1, NULL, "when pos is at least 5"},
    {"{\"pos\":{\"max\":30}}", 2, NULL, "when pos is at most 30"},
    {"{\"pos\":{\"max\":31,\"min\":4}}", 3, "{\"pos\":{\"min\":4,\"max\":31}}", "when pos is from 4 to 31"},
    {"{\"pos\":{\"min\":32}}", 0, NULL, "when pos is at least 32"},
    {"{\"pos\":{\"mod\":16,\"is\":15}}", 1, NULL, "when pos mod 16 is 15"},
    {"{\"pos\":{\"mod\":16,\"is\":[15,4]}}", 3, "{\"pos\":{\"mod\":16,\"is\":[4,15]}}",
     "when pos mod 16 is 4 or 15"},
    {"{\"pos\":{\"not\":4}}", 1, NULL, "when pos is not 4"},
    {"{\"pos\":{\"not\":[4,31]}}", 0, NULL, "when pos is not 4 or 31"},
    {"{\"pos\":{\"not\":{\"min\":5}}}", 2, NULL, "when pos is not at least 5"},
    {"{\"pos\":{\"not\":{\"mod\":2,\"is\":0}}}", 1, NULL, "when pos mod 2 is not 0"},
    {"{\"pos\":{\"not\":{\"not\":4}}}", 2, "{\"pos\":4}", "when pos is 4"},
    {"{\"temperature\":{\"min\":0.7}}", 1, "{\"temperature\":{\"min\":0.699999988}}",
     "when temperature is at least 0.7"},
    {"{\"temperature\":-0.0}", 2, "{\"temperature\":0}", "when temperature is 0"},
    {"{\"temperature\":{\"min\":-1,\"max\":0.5}}", 2, NULL, "when temperature is from -1 to 0.5"},
    {"{\"pos\":4,\"batch\":3}", 2, "{\"batch\":3,\"pos\":4}", "when batch is 3 and pos is 4"},
    {"{\"pos\":4,\"batch\":2}", 0, "{\"batch\":2,\"pos\":4}", "when batch is 2 and pos is 4"},
    {"{\"pos\":4,\"phase\":\"decode\"}", 0, NULL, "when pos is 4 and phase is decode"},
    {"{\"op\":[\"topk\",\"sample\"],\"tracing\":false}", 3,
     "{\"tracing\":false,\"op\":[\"topk\",\"sample\"]}", "when tracing is false and op is topk or sample"},
    {"{\"arg.height\":480,\"arg.width\":640,\"batch\":3}", 3,
     "{\"batch\":3,\"arg.width\":640,\"arg.height\":480}",
     "when batch is 3, the operand's width is 640 and the operand's height is 480"},
    {"{\"seed\":{\"min\":\"0x8000000000000000\"}}", 1, NULL, "when seed is at least 9223372036854775808"},
    {"{\"seed\":9007199254740992}", 0, NULL, "when seed is 9007199254740992"},
};

START_TEST(a_form_holds_as_written_and_explains_itself)
{
    struct iq_when *t = must(forms[_i].text);
    struct iq_buf json = IQ_BUF(1000), words = IQ_BUF(1000);
    struct iq_jw w = IQ_JW(&json);
    ck_assert_msg(struck(t) == forms[_i].rows, "%s: rows %x", forms[_i].text, struck(t));
    iq_trigger_json(t, &w);
    iq_trigger_explain(t, &words);
    ck_assert_str_eq(json.data, forms[_i].canonical ? forms[_i].canonical : forms[_i].text);
    ck_assert_str_eq(words.data, forms[_i].says);
    iq_trigger_free(t);
    iq_buf_free(&words);
    t = must(json.data); /* the canonical text is a fixed point */
    struct iq_buf again = IQ_BUF(1000);
    w = IQ_JW(&again);
    iq_trigger_json(t, &w);
    ck_assert_str_eq(again.data, json.data);
    iq_trigger_free(t);
    iq_buf_free(&json);
    iq_buf_free(&again);
}
END_TEST

/* Each is refused, and the sentence holds `says`. */
static const struct {
    const char *text, *says;
} refused[] = {
    {"[]", "expected an object"},
    {"3", "expected an object"},
    {"{\"bach\":3}", "did you mean `batch`"},
    {"{\"bach\":3}", "known are batch, captured, tokens"},
    {"{\"arg.widht\":3}", "did you mean `arg.width`"},
    {"{\"width\":3}", "unknown key `width`"},
    {"{\"\":3}", "unknown key"},
    {"{\"batch\":\"three\"}", "`batch`: found \"three\", expected an integer"},
    {"{\"batch\":\"0x\"}", "expected an integer"},
    {"{\"batch\":\"0x1 \"}", "expected an integer"},
    {"{\"batch\":\"0x10000000000000000\"}", "expected an integer"},
    {"{\"batch\":-1}", "`batch`: found -1"},
    {"{\"batch\":1.5}", "exact integer"},
    {"{\"batch\":9007199254740993}", "exact integer"},
    {"{\"batch\":1e300}", "exact integer"},
    {"{\"batch\":true}", "expected an integer"},
    {"{\"batch\":null}", "expected an integer"},
    {"{\"batch\":[]}", "empty list"},
    {"{\"batch\":[1,[2]]}", "expected an integer"},
    {"{\"batch\":[1,{\"min\":2}]}", "expected an integer"},
    {"{\"batch\":{}}", "empty object"},
    {"{\"batch\":{\"not\":{}}}", "empty object"},
    {"{\"batch\":{\"min\":5,\"max\":4}}", "min is above max"},
    {"{\"batch\":{\"mim\":5}}", "did you mean `min`"},
    {"{\"batch\":{\"min\":5,\"mod\":4}}", "unknown key `min`"},
    {"{\"batch\":{\"not\":5,\"min\":4}}", "unknown key `min`"},
    {"{\"batch\":{\"min\":[1]}}", "expected an integer"},
    {"{\"batch\":{\"min\":null}}", "expected an integer"},
    {"{\"batch\":{\"mod\":0,\"is\":0}}", "`mod`: found 0"},
    {"{\"batch\":{\"mod\":4}}", "`is` is missing"},
    {"{\"batch\":{\"is\":4}}", "`mod` is missing"},
    {"{\"batch\":{\"mod\":4,\"is\":4}}", "remainder 4 can't occur mod 4"},
    {"{\"batch\":{\"mod\":4,\"is\":[]}}", "empty list"},
    {"{\"op\":\"topq\"}", "did you mean \"topk\""},
    {"{\"op\":\"zzzzzzz\"}", "known are prefix, embed"},
    {"{\"op\":3}", "expected a word"},
    {"{\"op\":{\"min\":\"topk\"}}", "min and max are for numbers"},
    {"{\"op\":{\"mod\":2,\"is\":0}}", "mod is for integer fields"},
    {"{\"phase\":\"prefil\"}", "did you mean \"prefill\""},
    {"{\"tracing\":\"off\"}", "expected true or false"},
    {"{\"tracing\":0}", "expected true or false"},
    {"{\"tracing\":{\"max\":true}}", "min and max are for numbers"},
    {"{\"temperature\":\"0.7\"}", "expected a number"},
    {"{\"temperature\":1e39}", "float32's range"},
    {"{\"temperature\":{\"mod\":2,\"is\":0}}", "mod is for integer fields"},
    {"{\"batch\":3,\"batch\":4}", "stands twice"},
};

START_TEST(what_is_not_the_language_is_refused_by_name)
{
    struct iq_when *t;
    struct iq_err err = {0};
    ck_assert_int_eq(parse(refused[_i].text, &gadget, &t, &err), IQ_FORMAT);
    ck_assert_ptr_null(t);
    ck_assert_msg(strstr(err.text, refused[_i].says) && strstr(err.text, "t.json"), "%s: %s",
                  refused[_i].text, err.text);
}
END_TEST

START_TEST(operands_are_unknown_without_their_kind)
{
    struct iq_when *t;
    struct iq_err err = {0};
    ck_assert_int_eq(parse("{\"arg.width\":3}", NULL, &t, &err), IQ_FORMAT);
    ck_assert_msg(strstr(err.text, "unknown key `arg.width`") != NULL, "%s", err.text);
}
END_TEST

START_TEST(nesting_up_to_the_readers_limit_is_taken_and_beyond_it_refused)
{
    char text[2000];
    for (int depth = 1; depth <= 80; depth++) {
        int n = snprintf(text, sizeof text, "{\"pos\":");
        for (int i = 0; i < depth; i++) n += snprintf(text + n, sizeof text - n, "{\"not\":");
        n += snprintf(text + n, sizeof text - n, "4");
        for (int i = 0; i <= depth; i++) text[n++] = '}';
        text[n] = 0;
        struct iq_when *t;
        struct iq_err err = {0};
        int status = parse(text, NULL, &t, &err);
        ck_assert_msg(status == (depth < 64 ? IQ_OK : IQ_FORMAT), "depth %d: %s", depth, err.text);
        if (!status) ck_assert_uint_eq(struck(t), depth % 2 ? 1u : 2u);
        iq_trigger_free(t);
    }
}
END_TEST

START_TEST(a_list_of_a_hundred_thousand_values_is_searched)
{
    struct iq_buf b = IQ_BUF(1 << 20);
    iq_buf_printf(&b, "{\"pos\":[");
    for (int i = 100000; i > 4; i--) iq_buf_printf(&b, "%d,", i);
    iq_buf_printf(&b, "100000]}");
    struct iq_when *t = must(b.data);
    ck_assert_uint_eq(struck(t), 1u);
    struct iq_buf words = IQ_BUF(1000);
    iq_trigger_explain(t, &words);
    ck_assert_str_eq(words.data, "when pos is 5, 6, 7, 8, 9, 10, 11, 12 or one of 99988 more");
    iq_trigger_free(t);
    iq_buf_free(&b);
    iq_buf_free(&words);
}
END_TEST

START_TEST(an_op_that_the_trigger_excludes_can_never_be_struck)
{
    struct iq_when *t = must("{\"op\":[\"topk\",\"down\"],\"batch\":1}");
    for (unsigned op = 0; op < IQ_ALL_OPS; op++)
        ck_assert_int_eq(iq_trigger_may(t, (enum iq_op_id)op), op == IQ_OP_TOPK || op == IQ_OP_DOWN);
    iq_trigger_free(t);
    t = must("{\"op\":{\"not\":\"topk\"}}");
    ck_assert(!iq_trigger_may(t, IQ_OP_TOPK) && iq_trigger_may(t, IQ_OP_DOWN));
    iq_trigger_free(t);
}
END_TEST

START_TEST(floats_keep_their_order_and_value_as_keys)
{
    static const float ascending[] = {-INFINITY, -3.4e38f, -1, -1e-45f, 0,       1e-45f,
                                      0.5f,      0.7f,     1,  3.4e38f, INFINITY};
    char text[100];
    for (size_t i = 1; i + 2 < sizeof ascending / sizeof *ascending; i++) {
        struct iq_row row = {.temperature = ascending[i]};
        struct iq_site one = {.step = &step, .row = &row, .rows = 1};
        for (size_t j = 1; j + 2 < sizeof ascending / sizeof *ascending; j++) {
            snprintf(text, sizeof text, "{\"temperature\":{\"min\":%.9g}}", ascending[j]);
            struct iq_when *t = must(text);
            ck_assert_msg(iq_trigger_row(t, &one, 0) == (ascending[i] >= ascending[j]), "%g against %s",
                          ascending[i], text);
            iq_trigger_free(t);
        }
    }
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("trigger");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, a_field_holds_for_its_value_and_for_no_other, 0, sizeof fields / sizeof *fields);
    tcase_add_test(t, every_field_of_the_vocabulary_has_a_row_in_this_test);
    tcase_add_loop_test(t, a_form_holds_as_written_and_explains_itself, 0, sizeof forms / sizeof *forms);
    tcase_add_loop_test(t, what_is_not_the_language_is_refused_by_name, 0, sizeof refused / sizeof *refused);
    tcase_add_test(t, operands_are_unknown_without_their_kind);
    tcase_add_test(t, nesting_up_to_the_readers_limit_is_taken_and_beyond_it_refused);
    tcase_add_test(t, a_list_of_a_hundred_thousand_values_is_searched);
    tcase_add_test(t, an_op_that_the_trigger_excludes_can_never_be_struck);
    tcase_add_test(t, floats_keep_their_order_and_value_as_keys);
    Suite *s = suite_create("trigger");
    suite_add_tcase(s, t);
    return check_main(s);
}
