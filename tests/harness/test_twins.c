/* The study of twins: one run of three steps, asked from all sides. */
#include "harness/study/twins.h"
#include "tests/check_main.h"

#include <math.h>
#include <string.h>

static struct iq_twins twins;

static void run(const struct iq_twins_config *c, struct iq_twins *out)
{
    struct iq_err err = {0};
    ck_assert_msg(iq_twins_run(c, out, &err) == IQ_OK, "%s", err.text);
}

static void setup(void) { run(&(struct iq_twins_config){.steps = 3, .threads = 2, .seed = 5}, &twins); }
static void teardown(void) { iq_twins_close(&twins); }

static const struct iq_twin *twin(const char *name)
{
    for (size_t i = 0; i < twins.n; i++)
        if (!strcmp(twins.twin[i].factor->name, name)) return &twins.twin[i];
    ck_abort_msg("no twin is named %s", name);
}

START_TEST(twins_with_nothing_freed_are_equal_to_the_bit)
{
    ck_assert(twins.repeated);
    ck_assert_int_eq(twin("again")->step, IQ_TWIN_EQUAL);
    ck_assert(twin("again")->distance == 0 && twin("again")->nll == twin("reference")->nll);
}
END_TEST

START_TEST(each_freed_factor_differs_at_the_first_step_it_can)
{
    for (size_t i = 2; i < twins.n; i++) {
        const struct iq_twin *t = &twins.twin[i];
        const char *name = t->factor->name;
        bool init = !strcmp(name, "init-seed"), two = !strcmp(name, "ring-2"),
             state = !strcmp(name, "optimiser-bf16");
        ck_assert_msg(t->step == (init  ? IQ_TWIN_START
                                  : two ? IQ_TWIN_EQUAL
                                        : 0),
                      "%s differs at step %lld", name, (long long)t->step);
        ck_assert_msg((t->distance > 0) != two, "%s: distance %g", name, t->distance);
        if (init || state) ck_assert_str_eq(t->tensor, "embed");
        if (state) ck_assert(t->moments);
    }
    ck_assert_uint_eq(twins.n, 12);
}
END_TEST

/* Two terms have one order; from three on the ring's is that of no tree, and another for each number. */
START_TEST(the_bits_of_a_ring_follow_from_its_ranks)
{
    ck_assert(twin("ring-4")->distance != twin("ring-8")->distance);
    ck_assert(twin("ring-4")->distance != twin("sum-order")->distance);
}
END_TEST

START_TEST(numbers_are_within_their_intervals)
{
    for (size_t i = 0; i < twins.n; i++) {
        const struct iq_twin *t = &twins.twin[i];
        double share = (double)t->right / twins.asked;
        ck_assert(t->low <= share && share <= t->high);
        ck_assert(t->right_by_low <= t->right_by && t->right_by <= t->right_by_high);
        ck_assert(t->nll_by_low <= t->nll_by && t->nll_by <= t->nll_by_high);
        ck_assert(fabs(t->nll - twins.twin[0].nll - t->nll_by) < 1e-9);
        ck_assert(fabs((double)t->right - twins.twin[0].right - t->right_by * twins.asked) < 1e-6);
        ck_assert(t->nll > 0 && t->nll < 10 && t->loss > 0 && t->loss < 10);
    }
}
END_TEST

/* ring-2 and again are no copies of their own. */
START_TEST(the_deviation_is_that_of_copies_with_different_bits)
{
    double sum = 0, squares = 0;
    ck_assert_uint_eq(twins.copies, 10);
    for (size_t i = 0; i < twins.n; i++)
        if (i == 0 || twins.twin[i].step != IQ_TWIN_EQUAL) sum += twins.twin[i].nll / 10;
    for (size_t i = 0; i < twins.n; i++)
        if (i == 0 || twins.twin[i].step != IQ_TWIN_EQUAL) squares += pow(twins.twin[i].nll - sum, 2) / 9;
    ck_assert(fabs(sum - twins.nll_mean) < 1e-9 && fabs(sqrt(squares) - twins.nll_deviation) < 1e-9);
    ck_assert(twins.nll_deviation > 0);
}
END_TEST

START_TEST(threads_and_other_twins_change_no_number)
{
    static const char *const one[] = {"sum-order", NULL};
    struct iq_twins alone;
    run(&(struct iq_twins_config){.steps = 3, .threads = 1, .seed = 5, .factor = one}, &alone);
    ck_assert_uint_eq(alone.n, 3);
    const struct iq_twin *a = &alone.twin[2], *b = twin("sum-order");
    ck_assert(a->distance == b->distance && a->nll == b->nll && a->loss == b->loss && a->step == b->step);
    iq_twins_close(&alone);
}
END_TEST

START_TEST(an_unknown_factor_is_refused_before_anything_is_trained)
{
    static const char *const odd[] = {"dropuot", NULL};
    struct iq_twins out;
    struct iq_err err = {0};
    struct iq_twins_config c = {.steps = 3, .threads = 1, .factor = odd};
    ck_assert_int_eq(iq_twins_run(&c, &out, &err), IQ_USAGE);
    ck_assert_msg(strstr(err.text, "did you mean \"dropout\"") && strstr(err.text, "known are init-seed"),
                  "%s", err.text);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("twins");
    TCase *c = tcase_create("study"), *odd = tcase_create("refused");
    tcase_add_unchecked_fixture(c, setup, teardown);
    tcase_add_test(c, twins_with_nothing_freed_are_equal_to_the_bit);
    tcase_add_test(c, each_freed_factor_differs_at_the_first_step_it_can);
    tcase_add_test(c, the_bits_of_a_ring_follow_from_its_ranks);
    tcase_add_test(c, numbers_are_within_their_intervals);
    tcase_add_test(c, the_deviation_is_that_of_copies_with_different_bits);
    tcase_add_test(c, threads_and_other_twins_change_no_number);
    tcase_add_test(odd, an_unknown_factor_is_refused_before_anything_is_trained);
    suite_add_tcase(s, c);
    suite_add_tcase(s, odd);
    return check_main(s);
}
