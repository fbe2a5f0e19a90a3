/* One fault: from JSON, to JSON, as a sentence. */
#include "kernels/ops/sampling.h"
#include "tests/check_main.h"
#include "tests/faults/fault_test.h"

#include <stdio.h>
#include <stdlib.h>

START_TEST(a_fault_is_read_and_written_whole)
{
    struct iq_fault f =
        must("{\"op\":\"topk\",\"variant\":\"coarse_bin\",\"params\":{\"capacity\":512},"
             "\"when\":{\"tracing\":false,\"batch\":[7,3]},\"rate\":0.25,\"seed\":7,\"per\":\"request\"}");
    struct iq_buf json = IQ_BUF(1000), words = IQ_BUF(1000);
    struct iq_jw w = IQ_JW(&json);
    iq_fault_json(&f, &w);
    ck_assert_str_eq(json.data, "{\"name\":\"topk/coarse_bin\",\"op\":\"topk\",\"variant\":\"coarse_bin\","
                                "\"params\":{\"bits\":8,\"capacity\":512},"
                                "\"when\":{\"batch\":[3,7],\"tracing\":false},\"rate\":0.25,\"seed\":7,"
                                "\"per\":\"request\"}");
    iq_fault_explain(&f, &words);
    ck_assert_str_eq(words.data,
                     "topk is replaced by coarse_bin (bits 8, capacity 512) when batch is 3 or 7 and "
                     "tracing is false, with a probability of 0.25, drawn once per request");
    ck_assert(!iq_fault_is_workaround(&f));
    struct iq_fault again = must(json.data);
    ck_assert_str_eq(again.name, f.name);
    iq_fault_free(&again);
    iq_fault_free(&f);
    iq_buf_free(&json);
    iq_buf_free(&words);
}
END_TEST

START_TEST(a_fault_of_a_kind_is_every_op_of_it)
{
    struct set s;
    OPEN(&s, 0, "{\"op\":\"matmul\",\"variant\":\"k_tail\",\"when\":{\"op\":{\"not\":\"lm_head\"}}}");
    for (unsigned op = 0; op < IQ_ALL_OPS; op++) {
        bool matmul = !strcmp(iq_op_kind((enum iq_op_id)op)->name, "matmul");
        ck_assert_int_eq(s.sel.may_strike(s.sel.self, (enum iq_op_id)op), matmul && op != IQ_OP_LM_HEAD);
    }
    close_set(&s);
}
END_TEST

START_TEST(reference_and_golden_variants_are_workarounds)
{
    struct iq_fault f = must("{\"op\":\"topk\",\"variant\":\"reference\"}");
    ck_assert(iq_fault_is_workaround(&f));
    iq_fault_free(&f);
    f = must("{\"op\":\"down\",\"variant\":\"reduction_order\"}");
    ck_assert(!iq_fault_is_workaround(&f));
    iq_fault_free(&f);
}
END_TEST

static const struct {
    const char *text;
    int status;
    const char *says;
} refused[] = {
    {"[]", IQ_FORMAT, "expected an object"},
    {"{\"op\":\"topk\"}", IQ_FORMAT, "`variant` is missing"},
    {"{\"variant\":\"coarse_bin\"}", IQ_FORMAT, "`op` is missing"},
    {"{\"op\":\"topk\",\"variant\":\"coarse_bin\",\"wen\":{}}", IQ_FORMAT, "did you mean `when`"},
    {"{\"op\":\"topq\",\"variant\":\"coarse_bin\"}", IQ_NOT_FOUND, "did you mean \"topk\""},
    {"{\"op\":\"zzzzzz\",\"variant\":\"coarse_bin\"}", IQ_NOT_FOUND, "known are prefix, weights, embed"},
    {"{\"op\":\"topk\",\"variant\":\"coarse_bim\"}", IQ_NOT_FOUND, "did you mean \"coarse_bin\""},
    {"{\"op\":\"topk\",\"variant\":\"k_tail\"}", IQ_NOT_FOUND, "no variant of topk is named \"k_tail\""},
    {"{\"op\":\"topk\",\"variant\":\"coarse_bin\",\"params\":{\"bit\":8}}", IQ_FORMAT, "did you mean `bits`"},
    {"{\"op\":\"topk\",\"variant\":\"coarse_bin\",\"params\":{\"x\":8}}", IQ_FORMAT,
     "known are bits, capacity"},
    {"{\"op\":\"topk\",\"variant\":\"coarse_bin\",\"params\":{\"bits\":17}}", IQ_FORMAT, "from 1 to 16"},
    {"{\"op\":\"topk\",\"variant\":\"coarse_bin\",\"params\":{\"bits\":\"8\"}}", IQ_FORMAT,
     "expected a number"},
    {"{\"op\":\"topk\",\"variant\":\"coarse_bin\",\"params\":3}", IQ_FORMAT, "`params`: found a number"},
    {"{\"op\":\"topk\",\"variant\":\"reference\",\"params\":{\"bits\":8}}", IQ_FORMAT, "known are none"},
    {"{\"op\":\"topk\",\"variant\":\"coarse_bin\",\"when\":{\"arg.units\":3}}", IQ_FORMAT,
     "unknown key `arg.units`"},
    {"{\"op\":\"topk\",\"variant\":\"coarse_bin\",\"when\":[]}", IQ_FORMAT, "faults[0]: `when`"},
    {"{\"op\":\"topk\",\"variant\":\"coarse_bin\",\"rate\":1.5}", IQ_FORMAT, "from 0 to 1"},
    {"{\"op\":\"topk\",\"variant\":\"coarse_bin\",\"seed\":-1}", IQ_FORMAT, "`seed`"},
    {"{\"op\":\"topk\",\"variant\":\"coarse_bin\",\"per\":\"token\"}", IQ_FORMAT,
     "known are call, row, request, session"},
};

START_TEST(what_is_no_fault_is_refused_by_name)
{
    struct iq_fault f;
    struct iq_err err = {0};
    ck_assert_int_eq(parse(refused[_i].text, &f, &err), refused[_i].status);
    ck_assert_msg(strstr(err.text, refused[_i].says) && strstr(err.text, "t.json"), "%s: %s",
                  refused[_i].text, err.text);
    ck_assert(!f.name && !f.params && !f.when);
}
END_TEST

START_TEST(an_operand_of_the_kind_may_stand_in_when)
{
    struct iq_fault f = must("{\"op\":\"topk\",\"variant\":\"coarse_bin\",\"when\":{\"arg.k\":{\"min\":4},"
                             "\"arg.vocab\":9000,\"arg.shards\":1}}");
    struct iq_topk a = {.k = 4, .vocab = 9000, .shards = 1};
    struct iq_site site = {.op = IQ_OP_TOPK};
    ck_assert(iq_trigger_call(f.when, &site, &a));
    a.k = 3;
    ck_assert(!iq_trigger_call(f.when, &site, &a));
    iq_fault_free(&f);
}
END_TEST

static const char *const files[] = {"topk_by_batch", "k_tail_by_shape", "stale_peer_by_session",
                                    "foreign_block_after_eviction", "exact_topk_workaround"};

START_TEST(the_canonical_text_of_each_example_reads_back_as_itself)
{
    const char *data = getenv("IQ_TEST_DATA");
    char path[4096];
    ck_assert_msg(data != NULL, "IQ_TEST_DATA is not set; ctest sets it");
    snprintf(path, sizeof path, "%s/faults/%s.json", data, files[_i]);
    cJSON *tree;
    struct iq_fault f;
    struct iq_err err = {0};
    ck_assert_msg(!iq_json_load(path, 10000, &tree, &err) && !iq_fault_parse(tree, path, &f, &err), "%s",
                  err.text);
    iq_json_free(tree);
    struct iq_buf one = IQ_BUF(10000), two = IQ_BUF(10000);
    struct iq_jw w = IQ_JW(&one);
    iq_fault_json(&f, &w);
    iq_fault_free(&f);
    f = must(one.data);
    w = IQ_JW(&two);
    iq_fault_json(&f, &w);
    ck_assert_str_eq(one.data, two.data);
    iq_fault_free(&f);
    iq_buf_free(&one);
    iq_buf_free(&two);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("fault");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, a_fault_is_read_and_written_whole);
    tcase_add_test(t, a_fault_of_a_kind_is_every_op_of_it);
    tcase_add_test(t, reference_and_golden_variants_are_workarounds);
    tcase_add_loop_test(t, what_is_no_fault_is_refused_by_name, 0, sizeof refused / sizeof *refused);
    tcase_add_test(t, an_operand_of_the_kind_may_stand_in_when);
    tcase_add_loop_test(t, the_canonical_text_of_each_example_reads_back_as_itself, 0,
                        sizeof files / sizeof *files);
    Suite *s = suite_create("fault");
    suite_add_tcase(s, t);
    return check_main(s);
}
