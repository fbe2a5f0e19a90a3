/* Faults through the one dispatch point, and what the firing log says of them. */
#include "kernels/ops/sampling.h"
#include "tests/check_main.h"
#include "tests/faults/fault_test.h"

enum { ROWS = 6, VOCAB = 9000, K = 4, LOGGED = 32 };

static struct {
    float logits[ROWS * VOCAB], values[ROWS * K];
    uint32_t ids[ROWS * K];
    struct iq_topk args;
    struct iq_row row[ROWS];
    struct iq_step step;
    struct iq_site site;
    struct iq_slots *slots;
    struct iq_exec exec;
    struct iq_tap tap;
    struct iq_firing log[LOGGED];
    size_t logged;
} bench;

static int log_firing(void *self, const struct iq_site *site, const struct iq_firing *f)
{
    (void)self, (void)site;
    ck_assert(bench.logged < LOGGED);
    bench.log[bench.logged++] = *f;
    return IQ_OK;
}

/* Logits in one coarse bin, ascending ids: the best stand last, where a full buffer drops them. */
static void bench_open(void)
{
    struct iq_err err = {0};
    setup();
    ck_assert_msg(!iq_slots_open(1, 1, &bench.slots, &err), "%s", err.text);
    for (uint32_t i = 0; i < ROWS * VOCAB; i++) bench.logits[i] = 9 + (float)(i % VOCAB) * 0x1p-20f;
    bench.args = (struct iq_topk){ROWS, VOCAB, K, 1, bench.logits, VOCAB, bench.ids, bench.values};
    for (uint32_t r = 0; r < ROWS; r++)
        bench.row[r] = (struct iq_row){.request = r, .pos = 10 + r, .cell = r};
    bench.step = (struct iq_step){.step = 5, .batch = ROWS, .captured = 8, .tokens = ROWS, .tp = 1};
    bench.site = (struct iq_site){.op = IQ_OP_TOPK,
                                  .layer = IQ_NO_LAYER,
                                  .prev_op = IQ_OP_TEMPER,
                                  .next_op = IQ_OP_SAMPLE,
                                  .step = &bench.step,
                                  .row = bench.row,
                                  .rows = ROWS,
                                  .slot = iq_slots_at(bench.slots, IQ_OP_TOPK, IQ_NO_LAYER, 0)};
    bench.tap = (struct iq_tap){.fired = log_firing};
    bench.logged = 0;
    iq_slot_points(bench.site.slot, 3, 1, 0);
    iq_slots_tap(bench.slots, &bench.tap);
}

static void bench_close(void)
{
    iq_slots_close(bench.slots);
    iq_exec_close(&bench.exec);
}

/* Rows whose candidates are not golden's, as bits. */
static unsigned dispatch(struct set *s)
{
    unsigned wrong = 0;
    iq_slots_arm(bench.slots, s ? &s->sel : NULL);
    memset(bench.ids, 0xff, sizeof bench.ids);
    ck_assert_int_eq(iq_dispatch(&bench.exec, &bench.site, &bench.args), IQ_OK);
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t i = 0; i < K; i++) wrong |= (unsigned)(bench.ids[r * K + i] != VOCAB - 1 - i) << r;
    return wrong;
}

START_TEST(a_fault_strikes_the_rows_of_its_trigger_and_is_logged)
{
    struct set s;
    OPEN(&s, 0, COARSE("\"when\":{\"batch\":6,\"pos\":[11,14]}"));
    ck_assert_uint_eq(dispatch(&s), 1u << 1 | 1u << 4);
    ck_assert_uint_eq(bench.logged, 1);
    struct iq_firing f = bench.log[0];
    ck_assert(f.fault == 0 && f.step == 5 && f.node == 3 && f.batch == ROWS && f.rows == 2 &&
              f.rows_changed == 2 && f.request == 1 && f.pos == 11);
    bench.step.batch = 5;
    ck_assert_uint_eq(dispatch(&s), 0);
    ck_assert_uint_eq(bench.logged, 1);
    close_set(&s);
}
END_TEST

START_TEST(a_fault_that_changes_no_bit_is_logged_as_masked)
{
    struct set s;
    OPEN(&s, 0, COARSE("\"params\":{\"capacity\":9000}"));
    ck_assert_uint_eq(dispatch(&s), 0);
    ck_assert_uint_eq(bench.logged, 1);
    ck_assert(bench.log[0].rows == ROWS && bench.log[0].rows_changed == 0);
    close_set(&s);
}
END_TEST

START_TEST(rate_zero_leaves_outputs_and_log_alone)
{
    struct set s;
    OPEN(&s, 0, COARSE("\"rate\":0"));
    ck_assert_uint_eq(dispatch(&s), 0);
    ck_assert_uint_eq(bench.logged, 0);
    close_set(&s);
}
END_TEST

START_TEST(a_later_workaround_hides_the_fault_and_is_not_logged)
{
    struct set s;
    OPEN(&s, 0, COARSE("\"when\":{}"),
         "{\"op\":\"topk\",\"variant\":\"reference\",\"when\":{\"request\":{\"not\":2}}}");
    ck_assert_uint_eq(dispatch(&s), 1u << 2);
    ck_assert_uint_eq(bench.logged, 1);
    ck_assert(bench.log[0].fault == 0 && bench.log[0].rows == 1 && bench.log[0].request == 2);
    close_set(&s);
    OPEN(&s, 0, "{\"op\":\"topk\",\"variant\":\"reference\"}", COARSE("\"when\":{}"));
    ck_assert_uint_eq(dispatch(&s), (1u << ROWS) - 1);
    close_set(&s);
}
END_TEST

START_TEST(the_later_of_two_faults_wins_its_rows)
{
    struct set s;
    OPEN(&s, 0, COARSE("\"params\":{\"capacity\":100}"),
         "{\"op\":\"topk\",\"variant\":\"shard_merge\",\"params\":{\"shards\":8},\"when\":{\"pos\":{\"min\":"
         "13}}}");
    ck_assert_uint_eq(dispatch(&s), (1u << ROWS) - 1);
    ck_assert_uint_eq(bench.logged, 2);
    ck_assert(bench.log[0].fault == 0 && bench.log[0].rows == 3 && bench.log[1].fault == 1 &&
              bench.log[1].rows == 3);
    ck_assert_uint_eq(bench.ids[0], 99);            /* the best that fit into 100 places */
    ck_assert_uint_eq(bench.ids[5 * K], VOCAB - 2); /* one behind the last shard's best */
    close_set(&s);
}
END_TEST

START_TEST(disarmed_means_golden)
{
    ck_assert_uint_eq(dispatch(NULL), 0);
    ck_assert_uint_eq(bench.logged, 0);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("strike");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, bench_open, bench_close);
    tcase_add_test(t, a_fault_strikes_the_rows_of_its_trigger_and_is_logged);
    tcase_add_test(t, a_fault_that_changes_no_bit_is_logged_as_masked);
    tcase_add_test(t, rate_zero_leaves_outputs_and_log_alone);
    tcase_add_test(t, a_later_workaround_hides_the_fault_and_is_not_logged);
    tcase_add_test(t, the_later_of_two_faults_wins_its_rows);
    tcase_add_test(t, disarmed_means_golden);
    Suite *s = suite_create("strike");
    suite_add_tcase(s, t);
    return check_main(s);
}
