/* Which algorithm is taken for how many rows: found by asking, written as JSON, and what was written answers alike. */
#include "tests/check_main.h"
#include "tests/cublas/cublas_case.h"
#include "tests/cublas/fake.h"

#include "kernels/cublas/survey.h"

#include <unistd.h>

static struct iq_cublas *b;

static void setup(void)
{
    char path[1024];
    struct iq_err err = {0};
    snprintf(path, sizeof path, "%s/cublas/made.json", getenv("IQ_TEST_DATA"));
    iq_cublas_replace(fake_open(path));
    cuda_open();
    ck_assert_msg(!iq_cublas_of(cuda, &b, &err), "%s", err.text);
}

static void teardown(void)
{
    cuda_close();
    ck_assert_int_eq(fake_live(), 0);
    fake_close();
}

static struct iq_cublas_survey surveyed(unsigned type, uint32_t rows, uint32_t n, uint32_t k, unsigned most)
{
    struct iq_cublas_survey s;
    struct iq_err err = {0};
    const struct iq_cublas_shape shape = {.rows = rows, .n = n, .k = k, .type = type};
    ck_assert_msg(!iq_cublas_survey(b, &shape, most, &s, &err), "%s", err.text);
    return s;
}

START_TEST(the_survey_finds_the_rows_at_which_the_library_takes_another_algorithm)
{
    struct iq_cublas_survey s = surveyed(IQ_CUBLAS_BF16, 512, 576, 1536, 1);
    ck_assert_uint_eq(s.steps, 3);
    ck_assert_uint_eq(s.step[0].rows, 1);
    ck_assert_uint_eq(s.step[0].choice[0].id.algo, 6);
    ck_assert_uint_eq(s.step[1].rows, 9);
    ck_assert_uint_eq(s.step[1].choice[0].id.algo, 31);
    ck_assert_uint_eq(s.step[2].rows, 65);
    ck_assert_uint_eq(s.step[2].choice[0].id.algo, 66);
    ck_assert_ptr_eq(iq_cublas_survey_at(&s, 64), &s.step[1]);
    ck_assert_ptr_null(iq_cublas_survey_at(&s, 513));
    iq_cublas_survey_free(&s);
}
END_TEST

START_TEST(rows_without_an_algorithm_are_a_step_of_their_own)
{
    struct iq_cublas_survey s = surveyed(IQ_CUBLAS_BF16, 8, 96, 160, 8);
    ck_assert_uint_eq(s.steps, 3);
    ck_assert_uint_eq(s.step[1].rows, 3);
    ck_assert_uint_eq(s.step[1].found, 0);
    ck_assert_uint_eq(s.step[2].rows, 5);
    ck_assert_uint_eq(s.step[2].choice[0].id.tile, 393);
    iq_cublas_survey_free(&s);
}
END_TEST

START_TEST(settings_that_need_more_than_16_bits_are_read_whole)
{
    struct iq_cublas_survey s = surveyed(IQ_CUBLAS_FP32, 1, 576, 576, 2);
    ck_assert_uint_eq(s.step[0].choice[1].id.custom, 70000);
    iq_cublas_survey_free(&s);
}
END_TEST

START_TEST(a_survey_is_written_with_buckets_and_steps)
{
    struct iq_cublas_survey s = surveyed(IQ_CUBLAS_BF16, 8, 96, 160, 1);
    struct iq_buf buf = IQ_BUF(1 << 16);
    struct iq_jw jw = IQ_JW(&buf);
    iq_cublas_survey_json(&s, &jw);
    ck_assert_str_eq(
        buf.data,
        "{\"type\":\"bf16\",\"n\":96,\"k\":160,\"rows\":8,\"buckets\":["
        "{\"rows\":1,\"id\":\"algo=6,tile=13,stages=9,split_k=2,reduction=1,swizzle=0,custom=0,inner=0,"
        "cluster=0\"},"
        "{\"rows\":2,\"id\":\"algo=6,tile=13,stages=9,split_k=2,reduction=1,swizzle=0,custom=0,inner=0,"
        "cluster=0\"},"
        "{\"rows\":4,\"id\":null},"
        "{\"rows\":8,\"id\":\"algo=66,tile=393,stages=35,split_k=1,reduction=0,swizzle=0,custom=7,inner=2,"
        "cluster=2\"}],"
        "\"steps\":[{\"rows\":1,\"choices\":["
        "{\"id\":\"algo=6,tile=13,stages=9,split_k=2,reduction=1,swizzle=0,custom=0,inner=0,cluster=0\","
        "\"pin\":{\"algo\":6,\"tile\":13,\"stages\":9,\"split_k\":2,\"reduction\":1,\"swizzle\":0,\"custom\":"
        "0,"
        "\"inner\":0,\"cluster\":0},\"workspace\":0,\"waves\":0.0625}]},"
        "{\"rows\":3,\"choices\":[]},"
        "{\"rows\":5,\"choices\":["
        "{\"id\":\"algo=66,tile=393,stages=35,split_k=1,reduction=0,swizzle=0,custom=7,inner=2,cluster=2\","
        "\"pin\":{\"algo\":66,\"tile\":393,\"stages\":35,\"split_k\":1,\"reduction\":0,\"swizzle\":0,"
        "\"custom\":7,"
        "\"inner\":2,\"cluster\":2},\"workspace\":0,\"waves\":0.25}]}]}");
    iq_buf_free(&buf);
    iq_cublas_survey_free(&s);
}
END_TEST

static void record(struct iq_buf *buf)
{
    static const struct iq_cublas_shape shapes[] = {
        {.rows = 512, .n = 576, .k = 1536, .type = IQ_CUBLAS_BF16},
        {.rows = 16, .n = 96, .k = 160, .type = IQ_CUBLAS_BF16},
        {.rows = 64, .n = 192, .k = 576, .type = IQ_CUBLAS_TF32}};
    struct iq_jw jw = IQ_JW(buf);
    struct iq_err err = {0};
    ck_assert_msg(!iq_cublas_record_json(b, "a test", shapes, 3, 8, &jw, &err), "%s", err.text);
    ck_assert(!buf->failed);
}

START_TEST(a_record_answers_as_the_library_that_it_was_recorded_from)
{
    struct iq_buf first = IQ_BUF(1 << 20), second = IQ_BUF(1 << 20);
    struct iq_err err = {0};
    char path[] = "/tmp/iq-cublas-XXXXXX";
    int fd = mkstemp(path);
    record(&first);
    ck_assert_int_eq(write(fd, first.data, first.len), (ssize_t)first.len);
    close(fd);
    iq_cublas_close(cuda);
    fake_close();
    iq_cublas_replace(fake_open(path));
    unlink(path);
    ck_assert_msg(!iq_cublas_of(cuda, &b, &err), "%s", err.text);
    record(&second);
    ck_assert_str_eq(first.data, second.data);
    iq_buf_free(&first), iq_buf_free(&second);
}
END_TEST

START_TEST(a_record_lists_what_every_algorithm_may_be_set_to)
{
    struct iq_buf buf = IQ_BUF(1 << 16);
    struct iq_jw jw = IQ_JW(&buf);
    struct iq_err err = {0};
    ck_assert_msg(!iq_cublas_capabilities_json(b, IQ_CUBLAS_TF32, &jw, &err), "%s", err.text);
    ck_assert_str_eq(buf.data,
                     "{\"type\":\"tf32\",\"algorithms\":[{\"algo\":21,\"tiles\":[13,15,18,20,23],\"stages\":["
                     "8,9,10,15,16],\"split_k\":1,\"reductions\":7,\"swizzle\":1,\"custom_max\":0}]}");
    iq_buf_free(&buf);
}
END_TEST

START_TEST(a_survey_that_fails_says_why_and_keeps_nothing)
{
    struct iq_cublas_survey s;
    struct iq_err err = {0};
    const struct iq_cublas_shape shape = {.rows = 64, .n = 96, .k = 160, .type = IQ_CUBLAS_BF16};
    fake_fail("heuristic", 7, IQ_CUBLAS_INTERNAL_ERROR);
    ck_assert_int_eq(iq_cublas_survey(b, &shape, 1, &s, &err), IQ_INTERNAL);
    ck_assert_ptr_null(s.step);
    ck_assert_ptr_nonnull(strstr(err.text, "cublasLtMatmulAlgoGetHeuristic"));
}
END_TEST

int main(void)
{
    if (device_open() || iq_kernels_register(NULL)) return 1;
    Suite *s = suite_create("cublas surveys");
    TCase *t = tcase_create("surveys");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, the_survey_finds_the_rows_at_which_the_library_takes_another_algorithm);
    tcase_add_test(t, rows_without_an_algorithm_are_a_step_of_their_own);
    tcase_add_test(t, settings_that_need_more_than_16_bits_are_read_whole);
    tcase_add_test(t, a_survey_is_written_with_buckets_and_steps);
    tcase_add_test(t, a_record_answers_as_the_library_that_it_was_recorded_from);
    tcase_add_test(t, a_record_lists_what_every_algorithm_may_be_set_to);
    tcase_add_test(t, a_survey_that_fails_says_why_and_keeps_nothing);
    suite_add_tcase(s, t);
    return check_main(s);
}
