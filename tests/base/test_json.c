/* The JSON reader and writer. */
#define _GNU_SOURCE
#include "kernels/base/json.h"
#include "tests/check_main.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int parse(const char *text, cJSON **tree, struct iq_err *err)
{
    return iq_json_parse(text, strlen(text), "t.json", tree, err);
}

/* Each text must be refused, and the sentence must hold `says` (the position). */
static const struct {
    const char *text, *says;
} refused[] = {
    {"", "t.json:1:1: "},
    {" ", "t.json:1:2: "},
    {"[1] x", "t.json:1:5: "},
    {"[1]\n\n ]", "t.json:3:2: "},
    {"{} {}", "t.json:1:4: "},
    {"[01]", "t.json:1:2: a number has a leading zero"},
    {"[-01]", "t.json:1:3: "},
    {"[+1]", "t.json:1:2: "},
    {"[1.]", "t.json:1:4: "},
    {"[.5]", "t.json:1:2: "},
    {"[1e]", "t.json:1:4: "},
    {"[1e+]", "t.json:1:5: "},
    {"[0x1]", "t.json:1:3: "},
    {"[-]", "t.json:1:3: "},
    {"[1e999]", "t.json:1:2: a number is too large"},
    {"[-1e999]", "t.json:1:2: "},
    {"[NaN]", "t.json:1:2: "},
    {"[Infinity]", "t.json:1:2: "},
    {"[nul]", "t.json:1:2: "},
    {"[True]", "t.json:1:2: "},
    {"[truex]", "t.json:1:6: "},
    {"[1,]", "t.json:1:4: "},
    {"[,1]", "t.json:1:2: "},
    {"[1 2]", "t.json:1:4: "},
    {"[1", "t.json:1:3: "},
    {"[", "t.json:1:2: "},
    {"]", "t.json:1:1: "},
    {"{\"a\":1,}", "t.json:1:8: "},
    {"{\"a\" 1}", "t.json:1:6: "},
    {"{\"a\":}", "t.json:1:6: "},
    {"{\"a\"}", "t.json:1:5: "},
    {"{a:1}", "t.json:1:2: "},
    {"{1:1}", "t.json:1:2: "},
    {"['a']", "t.json:1:2: "},
    {"[\"a]", "t.json:1:5: "},
    {"[\"\\x\"]", "t.json:1:4: "},
    {"[\"\\", "t.json:1:4: "},
    {"[\"\\u12\"]", "t.json:1:7: "},
    {"[\"\\u00zz\"]", "t.json:1:7: "},
    {"[\"\\u0000\"]", "t.json:1:3: \\u0000"},
    {"[\"\\ud800\"]", "t.json:1:3: a high surrogate"},
    {"[\"\\ud800\\u0041\"]", "t.json:1:3: a high surrogate"},
    {"[\"\\udc00\"]", "t.json:1:3: a low surrogate"},
    {"[\"a\tb\"]", "t.json:1:4: "},
    {"[\"a\nb\"]", "t.json:1:4: "},
    {"[\"\xff\"]", "t.json:1:3: expected UTF-8"},
    {"[\"\xc0\x80\"]", "t.json:1:3: expected UTF-8"},
    {"[\"\xe0\x80\x80\"]", "t.json:1:3: expected UTF-8"},
    {"[\"\xed\xa0\x80\"]", "t.json:1:3: expected UTF-8"},
    {"[\"\xf4\x90\x80\x80\"]", "t.json:1:3: expected UTF-8"},
    {"[\"\xe2\x82\"]", "t.json:1:3: expected UTF-8"},
    {"\xef\xbb\xbf[]", "t.json:1:1: "},
    {"[1]\v", "t.json:1:4: "},
    {"/**/[]", "t.json:1:1: "},
    {"{\"a\":1,\n \"a\":2}", "t.json:2:2: the key \"a\" stands twice"},
    {"{\"a\":1,\"\\u0061\":2}", "t.json:1:8: "},
    {"[{\"x\":{\"a\":1,\"b\":2,\"a\":3}}]", "t.json:1:20: "},
};

START_TEST(malformed_text_is_refused_with_its_position)
{
    struct iq_err err = {0};
    cJSON *tree = (cJSON *)&err;
    int status = parse(refused[_i].text, &tree, &err);
    ck_assert_msg(status == IQ_FORMAT, "'%s' was not refused", refused[_i].text);
    ck_assert_ptr_null(tree);
    ck_assert_msg(strstr(err.text, refused[_i].says) != NULL, "'%s': '%s' lacks '%s'", refused[_i].text,
                  err.text, refused[_i].says);
}
END_TEST

START_TEST(a_nul_byte_is_no_end_and_no_space)
{
    cJSON *tree;
    ck_assert_int_eq(iq_json_parse("[1]\0", 4, "t", &tree, NULL), IQ_FORMAT);
    ck_assert_int_eq(iq_json_parse("[\0]", 3, "t", &tree, NULL), IQ_FORMAT);
    ck_assert_int_eq(iq_json_parse("[\"\0\"]", 5, "t", &tree, NULL), IQ_FORMAT);
}
END_TEST

static const char *const accepted[] = {
    "0",
    "-0",
    "\"\"",
    "null",
    " [ ] ",
    "{}",
    "[1,2]",
    "\t\r\n{ \"a\" : [ true , false , null ] }\n",
    "[-0.000000000000000000000000000000000000000000000000000000000000000000000000000001]",
    "[0e99999999999999999999]",
    "[1e-99999999999999999999]",
    "[\"\\ud83d\\ude00\\\"\\\\\\/\\b\\f\\n\\r\\t\"]",
    "{\"a\":1,\"A\":2,\"\":3,\"aa\":4}",
    "[{\"a\":1},{\"a\":1}]",
    "{\"a\":{\"a\":{\"a\":1}}}",
    "[\"\x7f\xc2\x80\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\"]"};

START_TEST(well_formed_text_is_taken)
{
    struct iq_err err = {0};
    cJSON *tree;
    ck_assert_msg(parse(accepted[_i], &tree, &err) == IQ_OK, "%s: %s", accepted[_i], err.text);
    iq_json_free(tree);
}
END_TEST

START_TEST(text_need_not_end_with_a_nul)
{
    static const char *const texts[] = {"12", "1.5", "-1e5", "true", "null", "\"a\"", "[]"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        size_t n = strlen(texts[i]);
        char *exact = malloc(n); /* under ASan one byte too far is seen */
        memcpy(exact, texts[i], n);
        cJSON *tree;
        ck_assert_int_eq(iq_json_parse(exact, n, "t", &tree, NULL), IQ_OK);
        iq_json_free(tree);
        for (size_t cut = 0; cut < n; cut++) { /* no prefix may be read past its end either */
            char *part = malloc(cut ? cut : 1);
            memcpy(part, texts[i], cut);
            if (iq_json_parse(part, cut, "t", &tree, NULL) == IQ_OK) iq_json_free(tree);
            free(part);
        }
        free(exact);
    }
}
END_TEST

START_TEST(depth_64_is_taken_and_65_refused)
{
    char text[200];
    cJSON *tree;
    struct iq_err err = {0};
    memset(text, '[', 64);
    memset(text + 64, ']', 64);
    ck_assert_int_eq(iq_json_parse(text, 128, "t", &tree, NULL), IQ_OK);
    iq_json_free(tree);
    memset(text, '[', 65);
    memset(text + 65, ']', 65);
    ck_assert_int_eq(iq_json_parse(text, 130, "t", &tree, &err), IQ_FORMAT);
    ck_assert_msg(strstr(err.text, "t:1:65: nested deeper than 64") != NULL, "%s", err.text);
}
END_TEST

START_TEST(ten_million_brackets_are_refused_at_once)
{
    size_t n = 10000000;
    char *text = malloc(n);
    memset(text, '[', n);
    cJSON *tree;
    ck_assert_int_eq(iq_json_parse(text, n, "t", &tree, NULL), IQ_FORMAT);
    free(text);
}
END_TEST

START_TEST(strings_are_decoded)
{
    cJSON *tree;
    ck_assert_int_eq(
        parse("{\"k\\u00e9y\":\"\\ud83d\\ude00\\u00e9\\u20ac\\n\xf0\x9f\x98\x80\"}", &tree, NULL), IQ_OK);
    const char *s;
    ck_assert_int_eq(iq_json_str(tree, "k\xc3\xa9y", "t", &s, NULL), IQ_OK);
    ck_assert_str_eq(s, "\xf0\x9f\x98\x80\xc3\xa9\xe2\x82\xac\n\xf0\x9f\x98\x80");
    iq_json_free(tree);
}
END_TEST

static const struct {
    const char *literal;
    int status;
    uint64_t value;
} integers[] = {
    {"0", IQ_OK, 0},
    {"-0", IQ_OK, 0},
    {"7", IQ_OK, 7},
    {"1.0", IQ_OK, 1},
    {"1e3", IQ_OK, 1000},
    {"120e-1", IQ_OK, 12},
    {"1.25e2", IQ_OK, 125},
    {"0e99999999999999999999", IQ_OK, 0},
    {"9007199254740992", IQ_OK, UINT64_C(9007199254740992)},
    {"9007199254740991.00", IQ_OK, UINT64_C(9007199254740991)},
    {"9007199254740993", IQ_FORMAT, 0},
    {"900719925474099.3e1", IQ_FORMAT, 0},
    {"1.00000000000000000000000001", IQ_FORMAT, 0},
    {"4.9999999999999999999999", IQ_FORMAT, 0},
    {"1e-99999999999999999999", IQ_FORMAT, 0},
    {"125e-1", IQ_FORMAT, 0},
    {"18446744073709551616", IQ_FORMAT, 0},
    {"1e300", IQ_FORMAT, 0},
    {"-1", IQ_FORMAT, 0},
    {"\"7\"", IQ_FORMAT, 0},
    {"true", IQ_FORMAT, 0},
    {"null", IQ_FORMAT, 0},
};

START_TEST(integers_are_taken_only_when_exact)
{
    char text[120];
    cJSON *tree;
    uint64_t v = 99;
    struct iq_err err = {0};
    snprintf(text, sizeof text, "{\"n\":%s}", integers[_i].literal);
    ck_assert_int_eq(parse(text, &tree, NULL), IQ_OK);
    int status = iq_json_u64(tree, "n", 0, UINT64_MAX, "plan.json: x", &v, &err);
    ck_assert_msg(status == integers[_i].status, "%s: status %d %s", text, status, err.text);
    ck_assert_uint_eq(v, integers[_i].value);
    if (status) ck_assert_msg(strstr(err.text, "plan.json: x: `n`") != NULL, "%s", err.text);
    iq_json_free(tree);
}
END_TEST

START_TEST(getters_name_field_found_and_expected)
{
    cJSON *tree;
    struct iq_err err = {0};
    uint64_t u = 5;
    double d = 0.5;
    bool b = true;
    const char *s = "kept";
    ck_assert_int_eq(parse("{\"n\":12,\"x\":0.25,\"b\":false,\"s\":\"v\",\"z\":null}", &tree, NULL), IQ_OK);
    ck_assert_int_eq(iq_json_u64(tree, "n", 0, 9, "f", &u, &err), IQ_FORMAT);
    ck_assert_str_eq(err.text, "f: `n`: found 12, expected an integer from 0 to 9");
    u = 5;
    ck_assert_int_eq(iq_json_u64_opt(tree, "z", 0, 9, "f", &u, &err), IQ_OK);
    ck_assert_int_eq(iq_json_u64_opt(tree, "absent", 0, 9, "f", &u, &err), IQ_OK);
    ck_assert_uint_eq(u, 5);
    ck_assert_int_eq(iq_json_u64(tree, "absent", 0, 9, "f", &u, &err), IQ_FORMAT);
    ck_assert_str_eq(err.text, "f: `absent` is missing, expected an integer");
    ck_assert_int_eq(iq_json_f64_opt(tree, "x", 0, 1, "f", &d, &err), IQ_OK);
    ck_assert(d == 0.25);
    ck_assert_int_eq(iq_json_f64_opt(tree, "x", 1, 2, "f", &d, &err), IQ_FORMAT);
    ck_assert_int_eq(iq_json_bool_opt(tree, "b", "f", &b, &err), IQ_OK);
    ck_assert(!b);
    ck_assert_int_eq(iq_json_bool_opt(tree, "n", "f", &b, &err), IQ_FORMAT);
    ck_assert_str_eq(err.text, "f: `n`: found a number, expected true or false");
    ck_assert_int_eq(iq_json_str_opt(tree, "z", "f", &s, &err), IQ_OK);
    ck_assert_str_eq(s, "kept");
    ck_assert_int_eq(iq_json_str(tree, "N", "f", &s, &err), IQ_FORMAT); /* keys are case-sensitive */
    ck_assert_ptr_null(s);
    iq_json_free(tree);
}
END_TEST

START_TEST(an_unknown_key_lists_the_known_and_the_nearest)
{
    static const char *const known[] = {"batch", "variant", "when", NULL};
    cJSON *tree;
    struct iq_err err = {0};
    ck_assert_int_eq(parse("{\"batch\":1,\"varient\":2}", &tree, NULL), IQ_OK);
    ck_assert_int_eq(iq_json_known(tree, known, "plan", &err), IQ_FORMAT);
    ck_assert_str_eq(err.text,
                     "plan: unknown key `varient`, did you mean `variant`?; known are batch, variant, when");
    iq_json_free(tree);
    ck_assert_ptr_null(iq_nearest("zebra", known));
    ck_assert_str_eq(iq_nearest("wen", known), "when");
    ck_assert_str_eq(iq_nearest("btach", known), "batch"); /* two neighbours swapped are one edit */
}
END_TEST

START_TEST(a_big_vocabulary_parses_in_about_a_second)
{
    struct iq_buf b = IQ_BUF(64 << 20);
    iq_buf_put(&b, "{", 1);
    for (int i = 0; b.len < 20 << 20; i++)
        iq_buf_printf(&b, "%s\"token\\u0120%d\": %d", i ? ",\n" : "", i, i);
    size_t without = b.len;
    iq_buf_put(&b, "}", 1);
    ck_assert(!b.failed);
    struct timespec t0, t1;
    cJSON *tree;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t0);
    ck_assert_int_eq(iq_json_parse(b.data, b.len, "t", &tree, NULL), IQ_OK);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t1);
    double seconds = (double)(t1.tv_sec - t0.tv_sec) + 1e-9 * (double)(t1.tv_nsec - t0.tv_nsec);
    printf("%d keys, %zu bytes: %.2f s\n", cJSON_GetArraySize(tree), b.len, seconds);
    ck_assert_msg(seconds < 10, "%.2f s: duplicate detection must not be quadratic", seconds);
    iq_json_free(tree);
    b.len = without;
    iq_buf_printf(&b, ",\"token\xc4\xa0"
                      "77\":1}");
    struct iq_err err = {0};
    ck_assert_int_eq(iq_json_parse(b.data, b.len, "t", &tree, &err), IQ_FORMAT);
    ck_assert_msg(strstr(err.text, "stands twice") != NULL, "%s", err.text);
    iq_buf_free(&b);
}
END_TEST

START_TEST(load_keeps_its_maximum)
{
    char path[] = "/tmp/iq_json_XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_eq(write(fd, "{\"a\":1}", 7), 7);
    close(fd);
    cJSON *tree;
    struct iq_err err = {0};
    ck_assert_int_eq(iq_json_load(path, 7, &tree, &err), IQ_OK);
    iq_json_free(tree);
    ck_assert_int_eq(iq_json_load(path, 6, &tree, &err), IQ_LIMIT);
    unlink(path);
    ck_assert_int_eq(iq_json_load(path, 6, &tree, &err), IQ_IO);
    ck_assert_ptr_nonnull(strstr(err.text, path));
}
END_TEST

START_TEST(the_writer_places_commas_and_escapes)
{
    struct iq_buf b = IQ_BUF(4096);
    struct iq_jw w = IQ_JW(&b);
    iq_jw_begin(&w, '{');
    iq_jw_key(&w, "a\"b");
    iq_jw_begin(&w, '[');
    iq_jw_u64(&w, UINT64_MAX);
    iq_jw_i64(&w, INT64_MIN);
    iq_jw_f32(&w, 0.1f);
    iq_jw_f64(&w, NAN);
    iq_jw_f32(&w, INFINITY);
    iq_jw_begin(&w, '{');
    iq_jw_end(&w, '}');
    iq_jw_bool(&w, true);
    iq_jw_end(&w, ']');
    iq_jw_key(&w, "s");
    iq_jw_str(&w, "\x01\n\\\x7f\xc3\xa9\xff<\xe2\x82");
    iq_jw_key(&w, "h");
    iq_jw_hex(&w, 1, 0xabc);
    iq_jw_key(&w, "n");
    iq_jw_str(&w, NULL);
    iq_jw_end(&w, '}');
    ck_assert(!b.failed);
    ck_assert_str_eq(b.data,
                     "{\"a\\\"b\":[18446744073709551615,-9223372036854775808,0.100000001,null,null,{},true],"
                     "\"s\":\"\\u0001\\n\\\\\x7f\xc3\xa9\xef\xbf\xbd<\xef\xbf\xbd\","
                     "\"h\":\"00000000000000010000000000000abc\",\"n\":null}");
    cJSON *tree;
    ck_assert_int_eq(iq_json_parse(b.data, b.len, "t", &tree, NULL), IQ_OK);
    iq_json_free(tree);
    iq_buf_free(&b);
}
END_TEST

START_TEST(doubles_read_back_equal)
{
    uint64_t x = 88172645463325252u;
    for (int i = 0; i < 20000; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        double v;
        memcpy(&v, &x, sizeof v);
        if (i == 0) v = 0.30000000000000004;
        if (!isfinite(v)) continue;
        struct iq_buf b = IQ_BUF(100);
        struct iq_jw w = IQ_JW(&b);
        iq_jw_f64(&w, v);
        ck_assert_msg(strtod(b.data, NULL) == v, "%a", v);
        iq_buf_free(&b);
    }
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("json");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, malformed_text_is_refused_with_its_position, 0, sizeof refused / sizeof *refused);
    tcase_add_test(t, a_nul_byte_is_no_end_and_no_space);
    tcase_add_loop_test(t, well_formed_text_is_taken, 0, sizeof accepted / sizeof *accepted);
    tcase_add_test(t, text_need_not_end_with_a_nul);
    tcase_add_test(t, depth_64_is_taken_and_65_refused);
    tcase_add_test(t, ten_million_brackets_are_refused_at_once);
    tcase_add_test(t, strings_are_decoded);
    tcase_add_loop_test(t, integers_are_taken_only_when_exact, 0, sizeof integers / sizeof *integers);
    tcase_add_test(t, getters_name_field_found_and_expected);
    tcase_add_test(t, an_unknown_key_lists_the_known_and_the_nearest);
    tcase_add_test(t, a_big_vocabulary_parses_in_about_a_second);
    tcase_add_test(t, load_keeps_its_maximum);
    tcase_add_test(t, the_writer_places_commas_and_escapes);
    tcase_add_test(t, doubles_read_back_equal);
    Suite *s = suite_create("json");
    suite_add_tcase(s, t);
    return check_main(s);
}
