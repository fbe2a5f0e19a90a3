/* Rates over the clock: what they are at a time, how they are written, what is refused; and whom they strike. */
#include "tests/check_main.h"
#include "tests/faults/fault_test.h"

#include "kernels/ops/sampling.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define RISING  "\"rate\":[[0,0.008],[100000,0.16]]"
#define HOUR_US (UINT64_C(3600) * 1000000)

static struct iq_ramp *ramp(const char *text)
{
    cJSON *tree = NULL;
    struct iq_ramp *s;
    struct iq_err err = {0};
    ck_assert_msg(!iq_json_parse(text, strlen(text), "t.json", &tree, &err) &&
                      !iq_ramp_parse(tree, "t.json: `rate`", &s, &err),
                  "%s: %s", text, err.text);
    iq_json_free(tree);
    return s;
}

static const struct {
    const char *text;
    uint64_t at_us;
    uint32_t start_s;
    double p;
} points[] = {
    {"[[0,0.008],[1000,0.16]]", 0, 0, 0.008},
    {"[[0,0.008],[1000,0.16]]", 250000, 0, 0.046},
    {"[[0,0.008],[1000,0.16]]", 1000000, 0, 0.16},
    {"[[0,0.008],[1000,0.16]]", UINT64_MAX, 0, 0.16},
    {"[[500,0.5],[1000,1]]", 0, 0, 0.5},
    {"[[500,0.5]]", 7, 0, 0.5},
    {"[[0,0],[10,0],[10,1],[20,1]]", 9999, 0, 0}, /* a jump */
    {"[[0,0],[10,0],[10,1],[20,1]]", 10000, 0, 1},
    {"{\"hours\":[[9,0.1],[17,0.5]]}", 13 * HOUR_US, 0, 0.3},
    {"{\"hours\":[[9,0.1],[17,0.5]]}", 0, 13 * 3600, 0.3},                   /* the clock starts at 13 h */
    {"{\"hours\":[[9,0.1],[17,0.5]]}", 13 * HOUR_US + 48 * HOUR_US, 0, 0.3}, /* two days later */
    {"{\"hours\":[[9,0.1],[17,0.5]]}", 1 * HOUR_US, 0, 0.3},                 /* half way from 17 h to 9 h */
    {"{\"hours\":[[9,0.1],[17,0.5]]}", 21 * HOUR_US, 0, 0.4},
    {"{\"hours\":[[0,0.2],[24,0.4]]}", 12 * HOUR_US, 0, 0.3},
    {"{\"hours\":[[12,0.25]]}", 3 * HOUR_US, 0, 0.25},
};

START_TEST(a_rate_is_linear_between_its_points)
{
    struct iq_ramp *s = ramp(points[_i].text);
    double p = iq_ramp_at(s, points[_i].at_us, points[_i].start_s);
    ck_assert_msg(fabs(p - points[_i].p) < 1e-12, "%s at %llu us: %g, expected %g", points[_i].text,
                  (unsigned long long)points[_i].at_us, p, points[_i].p);
    free(s);
}
END_TEST

static const struct {
    const char *rate, *says;
} written[] = {
    {"[[0,0.008],[1000,0.16]]", "from 0.008 at 0 ms to 0.16 at 1000 ms, drawn once per session as its first "
                                "request arrives"},
    {"{\"hours\":[[9,0.5],[17,0.25]]}", "from 0.5 at 9 h to 0.25 at 17 h of every day, drawn"},
    {"[[1,0],[2,0],[3,0],[4,0],[5,0],[6,0.5],[7,1]]", "to 0.5 at 6 ms and through 1 more points, drawn"},
};

START_TEST(a_ramp_is_written_as_it_was_read_and_explains_itself)
{
    char text[400];
    snprintf(text, sizeof text, COARSE("\"rate\":%s,\"per\":\"session\""), written[_i].rate);
    struct iq_fault f = must(text);
    struct iq_buf json = IQ_BUF(1000), words = IQ_BUF(1000);
    struct iq_jw w = IQ_JW(&json);
    iq_fault_json(&f, &w);
    ck_assert_msg(strstr(json.data, written[_i].rate) != NULL, "%s", json.data);
    iq_fault_explain(&f, &words);
    ck_assert_msg(strstr(words.data, written[_i].says) != NULL, "%s", words.data);
    iq_fault_free(&f);
    f = must(json.data);
    iq_fault_free(&f);
    iq_buf_free(&json);
    iq_buf_free(&words);
}
END_TEST

static const struct {
    const char *rate, *says;
} refused[] = {
    {"[]", "an empty list"},
    {"\"often\"", "expected a number from 0 to 1, a list"},
    {"true", "expected a number from 0 to 1, a list"},
    {"[0.5]", "point 0: expected a pair [milliseconds, probability]"},
    {"[[0]]", "expected a pair"},
    {"[[0,0.5,1]]", "expected a pair"},
    {"[[\"0\",0.5]]", "the time is no number"},
    {"[[-1,0.5]]", "the time is -1"},
    {"[[1e300,0.5]]", "the time is 1"},
    {"[[0,1.5]]", "the probability is 1.5"},
    {"[[0,0.5],[9,0.5],[8,0.5]]", "point 2: its time 8 is before the last one's, 9"},
    {"{}", "expected a number"},
    {"{\"hours\":0.5}", "expected a number"},
    {"{\"hour\":[[0,0.5]]}", "did you mean `hours`"},
    {"{\"hours\":[[25,0.5]]}", "the hour is 25, expected 0 to 24"},
    {"1.5", "rate"},
};

START_TEST(what_is_no_rate_is_refused_by_name)
{
    char text[400];
    struct iq_fault f;
    struct iq_err err = {0};
    snprintf(text, sizeof text, COARSE("\"rate\":%s"), refused[_i].rate);
    ck_assert_int_eq(parse(text, &f, &err), IQ_FORMAT);
    ck_assert_msg(strstr(err.text, refused[_i].says) && strstr(err.text, "faults[0]"), "%s: %s", text,
                  err.text);
}
END_TEST

START_TEST(a_gigantic_ramp_is_refused)
{
    struct iq_buf b = IQ_BUF(1 << 20);
    struct iq_fault f;
    struct iq_err err = {0};
    iq_buf_printf(&b, "{\"op\":\"topk\",\"variant\":\"coarse_bin\",\"rate\":[");
    for (int i = 0; i <= IQ_RAMP_POINTS; i++) iq_buf_printf(&b, "%s[%d,0.5]", i ? "," : "", i);
    iq_buf_printf(&b, "]}");
    ck_assert_int_eq(parse(b.data, &f, &err), IQ_LIMIT);
    ck_assert_msg(strstr(err.text, "4097 points, expected at most 4096") != NULL, "%s", err.text);
    iq_buf_free(&b);
}
END_TEST

/* Whether the set strikes a row at a time of the clock. */
static bool struck(struct set *s, struct iq_row row, uint64_t clock_us)
{
    struct iq_step step = {.step = clock_us / 1000, .clock_us = clock_us};
    struct iq_site site = {.op = IQ_OP_TOPK, .step = &step, .row = &row, .rows = 1};
    struct iq_topk args = {.rows = 1};
    struct iq_pick pick[IQ_PICKS];
    return s->sel.pick(s->sel.self, &site, &args, pick) == 1;
}

/* 20,000 draws at a time come at the rate of that time, within 5 standard deviations. */
START_TEST(draws_come_at_the_rate_of_their_time)
{
    static const char *const per[] = {"call", "row", "request", "session"};
    enum { N = 20000 };
    char text[300];
    for (int i = 0; i < 4; i++)
        for (uint64_t at = 0; at <= 100000; at += 50000) {
            struct set s;
            double p = 0.008 + (0.16 - 0.008) * (double)at / 100000;
            int n = 0;
            snprintf(text, sizeof text, COARSE(RISING ",\"per\":\"%s\""), per[i]);
            OPEN(&s, 5, text);
            for (uint32_t q = 0; q < N; q++) {
                struct iq_row row = {
                    .request = q, .session = q + 1, .arrived_us = at * 1000, .session_us = at * 1000};
                struct iq_step step = {.step = q, .clock_us = at * 1000};
                struct iq_site site = {.op = IQ_OP_TOPK, .step = &step, .row = &row, .rows = 1};
                struct iq_topk args = {.rows = 1};
                struct iq_pick pick[IQ_PICKS];
                n += s.sel.pick(s.sel.self, &site, &args, pick);
            }
            ck_assert_msg(fabs(n - N * p) < 5 * sqrt(N * p * (1 - p)), "per %s at %llu ms: %d of %d, rate %g",
                          per[i], (unsigned long long)at, n, N, p);
            close_set(&s);
        }
}
END_TEST

/* A session is routed by the rate of its first arrival: what the clock or a later request of it says changes nothing,
 * and of two sessions with one draw the later one is struck wherever the earlier one is. */
START_TEST(a_session_stays_as_it_was_routed)
{
    struct set s;
    int early = 0, late = 0;
    OPEN(&s, 1, COARSE(RISING ",\"per\":\"session\""));
    for (uint32_t session = 1; session <= 4000; session++) {
        struct iq_row row = {.request = session, .session = session};
        bool first = struck(&s, row, 0);
        for (uint64_t at = 1; at <= 100; at += 33) {
            row.request++, row.arrived_us = at * 1000000;
            ck_assert_int_eq(struck(&s, row, at * 1000000), first);
        }
        row.session_us = 100000000;
        bool last = struck(&s, row, 100000000);
        ck_assert(last || !first);
        early += first, late += last;
    }
    ck_assert_msg(early > 8 && early < 64 && late > 520 && late < 760, "%d early, %d late", early, late);
    close_set(&s);
}
END_TEST

START_TEST(a_request_without_a_session_goes_by_its_own_arrival)
{
    struct set s;
    OPEN(&s, 1, COARSE("\"rate\":[[0,0],[10,0],[10,1]],\"per\":\"session\""));
    struct iq_row row = {.request = 3, .arrived_us = 9999, .session_us = 9999};
    ck_assert(!struck(&s, row, 50000));
    row.arrived_us = row.session_us = 10000;
    ck_assert(struck(&s, row, 50000));
    close_set(&s);
}
END_TEST

START_TEST(a_ramp_of_zeros_strikes_no_op)
{
    struct set s;
    OPEN(&s, 1, COARSE("\"rate\":[[0,0],[1000,0]]"));
    ck_assert(!s.sel.may_strike(s.sel.self, IQ_OP_TOPK));
    close_set(&s);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("ramp");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_loop_test(t, a_rate_is_linear_between_its_points, 0, sizeof points / sizeof *points);
    tcase_add_loop_test(t, a_ramp_is_written_as_it_was_read_and_explains_itself, 0,
                        sizeof written / sizeof *written);
    tcase_add_loop_test(t, what_is_no_rate_is_refused_by_name, 0, sizeof refused / sizeof *refused);
    tcase_add_test(t, a_gigantic_ramp_is_refused);
    tcase_add_test(t, draws_come_at_the_rate_of_their_time);
    tcase_add_test(t, a_session_stays_as_it_was_routed);
    tcase_add_test(t, a_request_without_a_session_goes_by_its_own_arrival);
    tcase_add_test(t, a_ramp_of_zeros_strikes_no_op);
    Suite *s = suite_create("ramp");
    suite_add_tcase(s, t);
    return check_main(s);
}
