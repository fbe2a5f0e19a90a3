/* Ids of algorithms: what is printed reads back, and what is no id is refused with the reason. */
#include "tests/check_main.h"

#include "kernels/base/rng.h"
#include "kernels/cublas/algo.h"

#include <string.h>

START_TEST(every_id_reads_back_as_what_was_printed)
{
    for (uint64_t i = 0; i < 2000; i++) {
        struct iq_cublas_algo a = {0}, b;
        struct iq_err err = {0};
        char text[IQ_CUBLAS_ID], again[IQ_CUBLAS_ID];
        uint64_t at = i * 16, high = i % 3 ? 0x3f : 0x7fffffff;
#define X(field, theirs, attribute, type)                                                                    \
    a.field =                                                                                                \
        (uint32_t)(iq_draw(0x900, at++, IQ_DRAW_DATA) >> 16) & (sizeof(type) == 2 ? high & 0xffff : high);
        IQ_CUBLAS_ALGO_MAP(X)
#undef X
        iq_cublas_algo_print(&a, text);
        ck_assert_msg(!iq_cublas_algo_parse(text, &b, &err), "seed 0x900, draw %llu: %s: %s",
                      (unsigned long long)i, text, err.text);
        iq_cublas_algo_print(&b, again);
        ck_assert_str_eq(text, again);
        ck_assert_mem_eq(&a, &b, sizeof a);
    }
}
END_TEST

START_TEST(the_longest_id_fits)
{
    struct iq_cublas_algo a;
    char text[IQ_CUBLAS_ID];
    memset(&a, 0xff, sizeof a);
    iq_cublas_algo_print(&a, text);
    ck_assert_uint_lt(strlen(text) + 1, IQ_CUBLAS_ID);
    ck_assert_ptr_nonnull(strstr(text, "cluster=4294967295"));
}
END_TEST

START_TEST(fields_may_stand_in_any_order)
{
    struct iq_cublas_algo a;
    ck_assert_int_eq(
        iq_cublas_algo_parse("cluster=9,inner=8,custom=7,swizzle=6,reduction=4,split_k=5,stages=3,tile=2,"
                             "algo=1",
                             &a, NULL),
        IQ_OK);
    ck_assert_uint_eq(a.algo, 1);
    ck_assert_uint_eq(a.tile, 2);
    ck_assert_uint_eq(a.cluster, 9);
}
END_TEST

static const struct {
    const char *text, *says;
} wrong[] = {
    {"", "no field ''"},
    {"algo=1", "tile is missing"},
    {"algo=1,tile=2,stages=3,split_k=4,reduction=0,swizzle=0,custom=0,inner=0", "cluster is missing"},
    {"algo=1,algo=1,tile=2", "algo stands twice"},
    {"algo=1,tile=", "tile=, expected tile=0 to 2147483647"},
    {"algo=-1", "algo=-1, expected algo=0 to 2147483647"},
    {"algo=2147483648", "expected algo=0 to 2147483647"},
    {"algo=99999999999999999999999", "expected algo=0 to 2147483647"},
    {"algo=1,inner=65536", "expected inner=0 to 65535"},
    {"algo=1 ,tile=2", "algo=1 , expected"},
    {"algo", "algo, expected algo=0"},
    {"tiles=3", "no field 'tiles'"},
    {"algo=1,", "no field ''"},
};

START_TEST(what_is_no_id_is_refused_with_the_field)
{
    struct iq_cublas_algo a;
    struct iq_err err = {0};
    ck_assert_int_eq(iq_cublas_algo_parse(wrong[_i].text, &a, &err), IQ_FORMAT);
    ck_assert_msg(strstr(err.text, wrong[_i].says) != NULL, "%s", err.text);
    ck_assert_uint_eq(a.algo, 0);
}
END_TEST

START_TEST(versions_before_12_are_refused_by_name)
{
    struct iq_err err = {0};
    ck_assert_int_eq(iq_cublas_version_check("libcublas.so.11", 111103, &err), IQ_UNSUPPORTED);
    ck_assert_str_eq(err.text, "libcublas.so.11 is version 11.11, expected 12.0 or later; pip install "
                               "nvidia-cublas, or a newer CUDA toolkit");
    ck_assert_int_eq(iq_cublas_version_check("libcublas.so.12", 120000, NULL), IQ_OK);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cublas algorithms");
    TCase *t = tcase_create("ids");
    tcase_add_test(t, every_id_reads_back_as_what_was_printed);
    tcase_add_test(t, the_longest_id_fits);
    tcase_add_test(t, fields_may_stand_in_any_order);
    tcase_add_loop_test(t, what_is_no_id_is_refused_with_the_field, 0, sizeof wrong / sizeof *wrong);
    tcase_add_test(t, versions_before_12_are_refused_by_name);
    suite_add_tcase(s, t);
    return check_main(s);
}
