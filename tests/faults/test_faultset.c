/* Fault sets as selectors: what opens, what is drawn, what is kept. */
#include "kernels/ops/reduce.h"
#include "kernels/ops/sampling.h"
#include "tests/check_main.h"
#include "tests/faults/fault_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- opening ---- */

START_TEST(a_variant_of_another_kind_is_refused)
{
    struct iq_fault f = must("{\"op\":\"topk\",\"variant\":\"coarse_bin\"}");
    struct iq_faultset *set;
    struct iq_err err = {0};
    f.op = IQ_OP_DOWN;
    ck_assert_int_eq(iq_faultset_open(&f, 1, 0, &set, &err), IQ_MISMATCH);
    ck_assert_ptr_null(set);
    ck_assert_msg(strstr(err.text, "coarse_bin is of kind topk") != NULL, "%s", err.text);
    iq_fault_free(&f);
}
END_TEST

START_TEST(parameters_and_rates_out_of_range_are_refused_when_a_set_opens)
{
    struct iq_fault f = must("{\"op\":\"topk\",\"variant\":\"coarse_bin\"}");
    struct iq_faultset *set;
    struct iq_err err = {0};
    ((double *)f.params)[0] = NAN;
    ck_assert_int_eq(iq_faultset_open(&f, 1, 0, &set, &err), IQ_FORMAT);
    ck_assert_msg(strstr(err.text, "parameter bits is nan") != NULL, "%s", err.text);
    ((double *)f.params)[0] = 8;
    f.rate = -0.5;
    ck_assert_int_eq(iq_faultset_open(&f, 1, 0, &set, &err), IQ_FORMAT);
    iq_fault_free(&f);
}
END_TEST

START_TEST(a_ninth_fault_of_one_op_is_refused)
{
    struct iq_fault f[IQ_PICKS + 1];
    struct iq_faultset *set;
    struct iq_err err = {0};
    for (int i = 0; i <= IQ_PICKS; i++) f[i] = must("{\"op\":\"topk\",\"variant\":\"coarse_bin\"}");
    ck_assert_int_eq(iq_faultset_open(f, IQ_PICKS, 0, &set, &err), IQ_OK);
    iq_faultset_close(set);
    ck_assert_int_eq(iq_faultset_open(f, IQ_PICKS + 1, 0, &set, &err), IQ_LIMIT);
    ck_assert_msg(strstr(err.text, "op topk") != NULL, "%s", err.text);
    for (int i = 0; i <= IQ_PICKS; i++) iq_fault_free(&f[i]);
}
END_TEST

/* ---- draws ---- */

static bool picked_row(const struct iq_pick *p, int n, uint32_t r)
{
    return n == 1 && (!p->rowmask || (p->rowmask[r / 64] >> r % 64 & 1));
}

/* Whether the set strikes a row of (request, session, pos) when it stands at `index` of a call of `rows`. */
static bool drawn(struct set *s, struct iq_row row, uint64_t step_no, uint16_t op, uint16_t layer,
                  uint32_t index, uint32_t rows)
{
    struct iq_row *all = calloc(rows, sizeof *all);
    struct iq_step step = {.step = step_no, .batch = rows, .tokens = rows};
    struct iq_site site = {.op = op, .layer = layer, .step = &step, .row = all, .rows = rows};
    struct iq_pick pick[IQ_PICKS];
    for (uint32_t i = 0; i < rows; i++)
        all[i] = (struct iq_row){.request = 7000 + i, .session = 9000 + i, .pos = i};
    all[index] = row;
    struct iq_topk args = {.rows = rows};
    int n = s->sel.pick(s->sel.self, &site, &args, pick);
    bool yes = picked_row(pick, n, index);
    free(all);
    return yes;
}

START_TEST(a_draw_is_blind_to_row_index_and_batch)
{
    static const char *const per[] = {"row", "request", "session"};
    char text[200];
    for (int i = 0; i < 3; i++) {
        struct set s;
        snprintf(text, sizeof text, COARSE("\"rate\":0.5,\"per\":\"%s\""), per[i]);
        OPEN(&s, 42, text);
        for (uint32_t q = 0; q < 200; q++) {
            struct iq_row row = {.request = q, .session = q / 2, .pos = q % 5};
            bool alone = drawn(&s, row, 3, IQ_OP_TOPK, 0, 0, 1);
            ck_assert_int_eq(drawn(&s, row, 3, IQ_OP_TOPK, 0, 69, 130), alone);
            ck_assert_int_eq(drawn(&s, row, 9, IQ_OP_TOPK, 0, 6, 7), alone); /* nor does the step enter */
        }
        close_set(&s);
    }
}
END_TEST

START_TEST(sticky_draws_hold_for_every_call_and_position)
{
    struct set s;
    OPEN(&s, 1, COARSE("\"rate\":0.3,\"per\":\"session\""));
    int struck = 0;
    for (uint32_t session = 1; session <= 500; session++) {
        bool first = drawn(&s, (struct iq_row){.request = 1, .session = session}, 0, IQ_OP_TOPK, 0, 0, 1);
        struck += first;
        for (uint32_t other = 2; other < 5; other++)
            ck_assert_int_eq(drawn(&s, (struct iq_row){.request = other, .session = session, .pos = other},
                                   other, IQ_OP_TOPK, 3, 0, 2),
                             first);
    }
    ck_assert_msg(struck > 100 && struck < 200, "%d of 500 sessions at rate 0.3", struck);
    close_set(&s);
}
END_TEST

/* 20,000 draws at rate p lie within 5 standard deviations of their mean. */
START_TEST(draws_come_at_their_rate)
{
    static const char *const per[] = {"call", "row", "request", "session"};
    enum { N = 20000 };
    char text[200];
    double p = 0.016;
    for (int i = 0; i < 4; i++) {
        struct set s;
        int n = 0;
        snprintf(text, sizeof text, COARSE("\"rate\":%g,\"per\":\"%s\""), p, per[i]);
        OPEN(&s, 5, text);
        for (uint32_t q = 0; q < N; q++)
            n += drawn(&s, (struct iq_row){.request = q, .session = q + 1}, q, IQ_OP_TOPK, 0, 0, 1);
        ck_assert_msg(fabs(n - N * p) < 5 * sqrt(N * p * (1 - p)), "per %s: %d of %d at rate %g", per[i], n,
                      N, p);
        close_set(&s);
    }
}
END_TEST

START_TEST(a_draw_per_call_takes_all_rows_of_the_trigger_or_none)
{
    struct set s;
    int struck = 0;
    OPEN(&s, 3, COARSE("\"rate\":0.5,\"when\":{\"pos\":{\"min\":2}}"));
    struct iq_row rows[5];
    for (uint32_t i = 0; i < 5; i++) rows[i] = (struct iq_row){.request = i, .pos = i};
    for (uint64_t at = 0; at < 200; at++) {
        struct iq_step step = {.step = at};
        struct iq_site site = {.op = IQ_OP_TOPK, .step = &step, .row = rows, .rows = 5};
        struct iq_topk args = {.rows = 5};
        struct iq_pick pick[IQ_PICKS];
        int n = s.sel.pick(s.sel.self, &site, &args, pick);
        if (n) ck_assert_uint_eq(pick[0].rowmask[0], 28u);
        struck += n;
    }
    ck_assert_msg(struck > 60 && struck < 140, "%d of 200 calls at rate 0.5", struck);
    close_set(&s);
}
END_TEST

/* A step looks up the prefixes of several requests: calls of one step, op and rank. */
START_TEST(lookups_of_one_step_draw_by_request)
{
    struct set s;
    int struck = 0;
    OPEN(&s, 3, "{\"op\":\"prefix\",\"variant\":\"foreign_block\",\"rate\":0.5}");
    for (uint32_t q = 0; q < 200; q++) {
        struct iq_step step = {.step = 1};
        struct iq_row row = {.request = q};
        struct iq_site site = {.op = IQ_OP_PREFIX, .layer = 0xffff, .step = &step, .row = &row, .rows = 1};
        struct iq_pick pick[IQ_PICKS];
        struck += s.sel.pick(s.sel.self, &site, NULL, pick);
    }
    ck_assert_msg(struck > 60 && struck < 140, "%d of 200 lookups at rate 0.5", struck);
    close_set(&s);
}
END_TEST

START_TEST(rates_of_zero_and_one_are_exact)
{
    struct set s;
    OPEN(&s, 5, COARSE("\"rate\":0,\"per\":\"row\""));
    ck_assert(!s.sel.may_strike(s.sel.self, IQ_OP_TOPK));
    for (uint32_t q = 0; q < 1000; q++)
        ck_assert(!drawn(&s, (struct iq_row){.request = q}, q, IQ_OP_TOPK, 0, 0, 1));
    close_set(&s);
    OPEN(&s, 5, COARSE("\"per\":\"row\""));
    for (uint32_t q = 0; q < 1000; q++)
        ck_assert(drawn(&s, (struct iq_row){.request = q}, q, IQ_OP_TOPK, 0, 0, 1));
    close_set(&s);
}
END_TEST

/* Which of 64 requests a fault strikes. */
static uint64_t signature(struct set *s, uint32_t fault)
{
    struct iq_row rows[64];
    struct iq_step step = {.batch = 64};
    struct iq_site site = {.op = IQ_OP_TOPK, .step = &step, .row = rows, .rows = 64};
    struct iq_topk args = {.rows = 64};
    struct iq_pick pick[IQ_PICKS];
    for (uint32_t i = 0; i < 64; i++) rows[i] = (struct iq_row){.request = i};
    int n = s->sel.pick(s->sel.self, &site, &args, pick);
    for (int i = 0; i < n; i++)
        if (pick[i].fault == fault) return pick[i].rowmask[0];
    ck_abort_msg("the fault struck nothing");
}

START_TEST(another_fault_changes_no_draw_and_seeds_do)
{
    const char *a = COARSE("\"rate\":0.5,\"per\":\"request\""),
               *b = COARSE("\"rate\":0.5,\"per\":\"request\",\"seed\":1");
    const char *c = "{\"op\":\"topk\",\"variant\":\"shard_merge\",\"rate\":0.5,\"per\":\"request\"}";
    struct set alone, both, other_seed;
    OPEN(&alone, 1, a);
    OPEN(&both, 1, c, b, a);
    OPEN(&other_seed, 2, a);
    uint64_t sa = signature(&alone, 0);
    ck_assert_uint_eq(signature(&both, 2), sa);
    ck_assert_uint_ne(signature(&both, 1), sa);
    ck_assert_uint_ne(signature(&both, 0), sa);
    ck_assert_uint_ne(signature(&other_seed, 0), sa);
    close_set(&alone);
    close_set(&both);
    close_set(&other_seed);
}
END_TEST

/* Which of a trigger's tests is to blame: rows at positions 0 to 4, in steps of 1 to 4 requests. */
static void expect_slept(const char *text, const char *says)
{
    struct set s;
    struct iq_buf b = IQ_BUF(1000);
    struct iq_row rows[5];
    OPEN(&s, 3, text);
    for (uint32_t i = 0; i < 5; i++) rows[i] = (struct iq_row){.request = i, .pos = i};
    iq_faultset_slept(s.set, 0, &b);
    ck_assert_str_eq(b.data ? b.data : "", s.fault[0].rate > 0 ? "there was no call of its op" : "");
    iq_buf_free(&b);
    b = IQ_BUF(1000);
    for (uint32_t batch = 1; batch <= 4; batch++) {
        struct iq_step step = {.step = batch, .batch = batch};
        struct iq_site site = {.op = IQ_OP_TOPK, .step = &step, .row = rows, .rows = 5};
        struct iq_topk args = {.rows = 5};
        struct iq_pick pick[IQ_PICKS];
        s.sel.pick(s.sel.self, &site, &args, pick);
    }
    iq_faultset_slept(s.set, 0, &b);
    ck_assert_msg(!strcmp(b.data ? b.data : "", says), "%s: \"%s\"", text, b.data ? b.data : "");
    iq_buf_free(&b);
    close_set(&s);
}

START_TEST(a_fault_that_slept_says_which_test_is_to_blame)
{
    expect_slept(COARSE("\"when\":{\"batch\":3}"), ""); /* it struck */
    expect_slept(COARSE("\"when\":{\"batch\":3},\"rate\":0"), "");
    expect_slept(COARSE("\"when\":{\"batch\":9}"), "of 4 calls, batch is 9 in none");
    expect_slept(COARSE("\"when\":{\"batch\":{\"min\":3},\"pos\":{\"min\":5}}"),
                 "of 4 calls, batch is at least 3 in 2 and pos is at least 5 in none, never all at once");
    expect_slept(COARSE("\"when\":{\"pos\":4,\"request\":3}"),
                 "of 4 calls, request is 3 in 4 and pos is 4 in 4, never all at once");
    expect_slept(COARSE("\"when\":{\"batch\":2},\"rate\":1e-300"),
                 "it held in 1 of 4 calls, and the draws struck none");
    /* Numbers are not read where the rest does not hold: these lie nowhere. */
    expect_slept(COARSE("\"when\":{\"batch\":9,\"value.gap\":{\"max\":1}}"),
                 "of 4 calls, batch is 9 in none and value.gap is at most 1 in none, never all at once");
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("faultset");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, a_fault_that_slept_says_which_test_is_to_blame);
    tcase_add_test(t, a_variant_of_another_kind_is_refused);
    tcase_add_test(t, parameters_and_rates_out_of_range_are_refused_when_a_set_opens);
    tcase_add_test(t, a_ninth_fault_of_one_op_is_refused);
    tcase_add_test(t, a_draw_is_blind_to_row_index_and_batch);
    tcase_add_test(t, sticky_draws_hold_for_every_call_and_position);
    tcase_add_test(t, draws_come_at_their_rate);
    tcase_add_test(t, a_draw_per_call_takes_all_rows_of_the_trigger_or_none);
    tcase_add_test(t, lookups_of_one_step_draw_by_request);
    tcase_add_test(t, rates_of_zero_and_one_are_exact);
    tcase_add_test(t, another_fault_changes_no_draw_and_seeds_do);
    Suite *s = suite_create("faultset");
    suite_add_tcase(s, t);
    return check_main(s);
}
