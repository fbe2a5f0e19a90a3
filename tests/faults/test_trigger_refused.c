/* The trigger language: every refusal, and what is odd but taken. */
#include "tests/check_main.h"
#include "tests/faults/trigger_test.h"

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
    {"{\"op\":\"zzzzzzz\"}", "known are prefix, weights, embed"},
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
    {"{\"pos\":{\"crosses\":3}}", "crosses is for `context`"},
    {"{\"arg.width\":{\"crosses\":3}}", "crosses is for `context`"},
    {"{\"value.spots\":{\"crosses\":3}}", "crosses is for `context`"},
    {"{\"context\":{\"crosses\":[]}}", "empty list"},
    {"{\"context\":{\"crosses\":-1}}", "found -1"},
    {"{\"context\":{\"crosses\":{}}}", "expected an integer"},
    {"{\"context\":{\"crosses\":3,\"min\":1}}", "unknown key `min`"},
    {"{\"context\":{\"croses\":3}}", "did you mean `crosses`"},
    {"{\"value.spot\":3}", "did you mean `value.spots`"},
    {"{\"value.spots\":0.5}", "exact integer"},
    {"{\"value.shade\":\"dark\"}", "expected a number"},
    {"{\"value.shade\":{\"mod\":2,\"is\":0}}", "mod is for integer fields"},
    {"{\"value.torn\":1}", "expected true or false"},
    {"{\"profile\":\"sm95\"}", "did you mean \"sm90\""},
    {"{\"bach\":3}", " more"},
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

int main(void)
{
    TCase *t = tcase_create("trigger_refused");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, what_is_not_the_language_is_refused_by_name, 0, sizeof refused / sizeof *refused);
    tcase_add_test(t, operands_are_unknown_without_their_kind);
    tcase_add_test(t, nesting_up_to_the_readers_limit_is_taken_and_beyond_it_refused);
    tcase_add_test(t, a_list_of_a_hundred_thousand_values_is_searched);
    Suite *s = suite_create("trigger_refused");
    suite_add_tcase(s, t);
    return check_main(s);
}
