/* Right answers, and the interval of their share. */
#include "golden/answer.h"
#include "tests/check_main.h"

#include <math.h>
#include <string.h>

START_TEST(an_answer_is_right_that_has_the_bytes_but_for_white_space_at_its_ends)
{
    static const struct {
        const char *text;
        size_t n;
        const char *expect;
        bool right;
    } row[] = {
        {"75", 2, "75", true},   {" 75\n", 4, "75", true}, {"75", 2, "\t75 ", true},
        {"", 0, "", true},       {" \n", 2, "", true},     {"7 5", 3, "75", false},
        {"75", 2, "7", false},   {"7", 1, "75", false},    {"75\0", 3, "75", false} /* a byte of its own */,
        {"x75", 3, "75", false}, {"", 0, "75", false},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        ck_assert_msg(iq_answer_right(row[i].text, row[i].n, row[i].expect) == row[i].right, "row %zu", i);
}
END_TEST

/* From SciPy 1.17.1: binomtest(right, asked).proportion_ci(0.95, method="wilson"). */
START_TEST(the_interval_is_scipys)
{
    static const struct {
        uint64_t right, asked;
        double low, high;
    } row[] = {
        {0, 1, 0.0, 0.7934506856227626},
        {1, 1, 0.20654931437723745, 1.0},
        {0, 10, 0.0, 0.27753279986288926},
        {10, 10, 0.7224672001371109, 1.0},
        {1, 10, 0.017876213095072896, 0.4041500267952385},
        {7, 12, 0.31951131254954973, 0.8067396863412435},
        {138, 180, 0.6997021803760345, 0.8224868873991052},
        {1055, 1791, 0.5661032948341995, 0.611628280527114},
        {1790, 1791, 0.996843986742938, 0.9999014311924534},
        {500000, 1000000, 0.4990200198900048, 0.5009799801099952},
    };
    double low, high;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        iq_answer_interval(row[i].right, row[i].asked, &low, &high);
        ck_assert_msg(fabs(low - row[i].low) <= 1e-14 && fabs(high - row[i].high) <= 1e-14,
                      "row %zu: found [%.17g, %.17g]", i, low, high);
    }
}
END_TEST

START_TEST(nothing_asked_says_nothing)
{
    double low = 2, high = 2;
    iq_answer_interval(0, 0, &low, &high);
    ck_assert(low == 0 && high == 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("answer");
    TCase *c = tcase_create("answer");
    tcase_add_test(c, an_answer_is_right_that_has_the_bytes_but_for_white_space_at_its_ends);
    tcase_add_test(c, the_interval_is_scipys);
    tcase_add_test(c, nothing_asked_says_nothing);
    suite_add_tcase(s, c);
    return check_main(s);
}
