/* The dispatch point: golden alone, faults by row, workarounds, firing logs, taps. The op is attn_add (y = a + b), with
 * variants of this test's own. */
#include "kernels/dispatch.h"
#include "kernels/ops/prefix.h"
#include "kernels/ops/vector.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 5, N = 3, NODES = 4, NODE = 2 };

static int golden_runs;

static void add_all(const struct iq_add *a, float more)
{
    for (uint32_t r = 0; r < a->rows; r++)
        for (uint32_t i = 0; i < a->n; i++)
            a->y[r * a->ldy + i] = a->a[r * a->lda + i] + a->b[r * a->ldb + i] + more;
}

static int run_golden(struct iq_exec *x, const struct iq_site *s, const void *args, const void *params,
                      void *state)
{
    (void)x, (void)s, (void)params, (void)state;
    golden_runs++;
    add_all(args, 0);
    return IQ_OK;
}

/* Adds *params to each element. */
static int run_more(struct iq_exec *x, const struct iq_site *s, const void *args, const void *params,
                    void *state)
{
    (void)x, (void)s, (void)state;
    add_all(args, *(const float *)params);
    return IQ_OK;
}

static int run_broken(struct iq_exec *x, const struct iq_site *s, const void *args, const void *params,
                      void *state)
{
    (void)x, (void)s, (void)args, (void)params, (void)state;
    return IQ_CRASHED;
}

static bool never(const struct iq_site *s, const void *args)
{
    (void)s, (void)args;
    return false;
}

#define VARIANT(called, flag, runs)                                                                          \
    {                                                                                                        \
        .kind = "add", .name = (called), .device = "cpu", .flags = (flag), .run = (runs)                     \
    }
static const struct iq_variant counting = VARIANT("counting", IQ_V_GOLDEN, run_golden);
static const struct iq_variant more = VARIANT("more", IQ_V_FAULTY, run_more);
static const struct iq_variant broken = VARIANT("broken", IQ_V_FAULTY, run_broken);
static const struct iq_variant coupling = VARIANT("coupling", IQ_V_GOLDEN | IQ_V_COUPLES_ROWS, run_golden);
static const struct iq_variant unable = {.kind = "add",
                                         .name = "unable",
                                         .device = "cpu",
                                         .flags = IQ_V_GOLDEN,
                                         .run = run_broken,
                                         .supports = never};

/* ---- a call, and what picks for it ---- */

static struct iq_slots *slots;
static struct iq_exec ex;
static float a[ROWS][N], b[ROWS][N], y[ROWS][N];
static struct iq_row rows[ROWS];
static struct iq_step step = {.step = 7, .batch = 3, .captured = 4, .tokens = ROWS};
static struct iq_digest cells[ROWS * NODES];
static struct iq_firing log_[8];
static struct iq_pick picks[IQ_PICKS];
static int n_picks, n_fired, asked;

static int pick(void *self, const struct iq_site *site, const void *args, struct iq_pick out[IQ_PICKS])
{
    (void)self, (void)site, (void)args;
    asked++;
    if (n_picks > 0) memcpy(out, picks, (size_t)n_picks * sizeof *picks);
    return n_picks;
}
static bool strikes_adds(void *self, enum iq_op_id op)
{
    (void)self;
    return op == IQ_OP_ATTN_ADD || op == IQ_OP_PREFIX;
}
static const struct iq_selector selector = {NULL, pick, strikes_adds};

static int fired(void *self, const struct iq_site *site, const struct iq_firing *f)
{
    (void)self, (void)site;
    log_[n_fired++] = *f;
    return IQ_OK;
}

static uint32_t handed;
static int bytes(void *self, const struct iq_site *site, uint32_t r, uint16_t node, struct iq_digest d,
                 const void *row, size_t n)
{
    (void)self, (void)site;
    ck_assert_uint_eq(node, NODE);
    ck_assert_uint_eq(n, N * sizeof(float));
    ck_assert(iq_digest_equal(d, iq_digest_row(row, N, sizeof(float))));
    ck_assert_mem_eq(row, y[r], n);
    handed++;
    return IQ_OK;
}

static struct iq_tap tap = {.cells = cells, .nodes = NODES, .fired = fired};

static void set_up(void)
{
    struct iq_err err = {0};
    ck_assert_int_eq(iq_kernels_register(&err), IQ_OK);
    ck_assert_int_eq(iq_slots_open(2, 1, &slots, &err), IQ_OK);
    ck_assert_int_eq(iq_slots_golden(slots, &counting, &err), IQ_OK);
    iq_slot_points(iq_slots_at(slots, IQ_OP_ATTN_ADD, 1, 0), NODE, 1, 1);
    iq_slots_tap(slots, &tap);
    for (uint32_t r = 0; r < ROWS; r++) {
        rows[r] = (struct iq_row){.request = 10 + r, .pos = 20 + r, .cell = r};
        for (uint32_t i = 0; i < N; i++) a[r][i] = (float)(r + 1), b[r][i] = (float)(10 * i);
    }
}

static void tear_down(void)
{
    iq_slots_close(slots);
    iq_exec_close(&ex);
}

static int call_op(enum iq_op_id op)
{
    const struct iq_add args = {ROWS, N, 0, a[0], b[0], y[0], N, N, N};
    const struct iq_site site = {.op = (uint16_t)op,
                                 .layer = 1,
                                 .step = &step,
                                 .row = rows,
                                 .rows = ROWS,
                                 .slot = iq_slots_at(slots, op, 1, 0)};
    return iq_dispatch(&ex, &site, &args);
}
static int call(void) { return call_op(IQ_OP_ATTN_ADD); }

static void put_pick(const struct iq_variant *v, const float *params, const uint64_t *mask, uint32_t fault)
{
    picks[n_picks++] = (struct iq_pick){.variant = v, .params = params, .rowmask = mask, .fault = fault};
}

/* What was added to golden's result in row r; the same in the whole row. */
static float extra(uint32_t r)
{
    float d = y[r][0] - (a[r][0] + b[r][0]);
    for (uint32_t i = 0; i < N; i++) ck_assert(y[r][i] == a[r][i] + b[r][i] + d);
    return d;
}

static const float one = 1, two = 2, zero = 0;

START_TEST(unarmed_golden_runs_once_and_nobody_is_asked)
{
    iq_slots_tap(slots, NULL);
    ck_assert_int_eq(call(), IQ_OK);
    ck_assert_int_eq(golden_runs, 1);
    ck_assert_int_eq(asked, 0);
    ck_assert(iq_digest_is_zero(cells[NODE]));
    for (uint32_t r = 0; r < ROWS; r++) ck_assert(extra(r) == 0);
}
END_TEST

START_TEST(only_the_ops_that_may_be_struck_are_asked_about)
{
    iq_slots_arm(slots, &selector);
    ck_assert_int_eq(call_op(IQ_OP_FFN_ADD), IQ_OK);
    ck_assert_int_eq(asked, 0);
    ck_assert_int_eq(call(), IQ_OK);
    ck_assert_int_eq(asked, 1);
    iq_slots_arm(slots, NULL);
    ck_assert_int_eq(call(), IQ_OK);
    ck_assert_int_eq(asked, 1);
}
END_TEST

START_TEST(a_row_mask_leaves_the_other_rows_golden)
{
    static const uint64_t mask = 1 << 1 | 1 << 4;
    iq_slots_arm(slots, &selector);
    put_pick(&more, &one, &mask, 0);
    ck_assert_int_eq(call(), IQ_OK);
    for (uint32_t r = 0; r < ROWS; r++) ck_assert(extra(r) == (float)(mask >> r & 1));
    ck_assert_int_eq(golden_runs, 1);
}
END_TEST

START_TEST(the_later_pick_wins_a_row)
{
    static const uint64_t first = 7, second = 12; /* rows 0 1 2, rows 2 3 */
    iq_slots_arm(slots, &selector);
    put_pick(&more, &one, &first, 0);
    put_pick(&more, &two, &second, 1);
    ck_assert_int_eq(call(), IQ_OK);
    static const float want[ROWS] = {1, 1, 2, 2, 0};
    for (uint32_t r = 0; r < ROWS; r++) ck_assert(extra(r) == want[r]);
    ck_assert_int_eq(n_fired, 2);
    ck_assert_uint_eq(log_[0].rows, 2);
    ck_assert_uint_eq(log_[1].rows, 2);
}
END_TEST

START_TEST(a_fault_that_wins_no_row_does_not_fire)
{
    iq_slots_arm(slots, &selector);
    put_pick(&broken, NULL, NULL, 0);
    put_pick(&more, &two, NULL, 1);
    ck_assert_int_eq(call(), IQ_OK);
    ck_assert_int_eq(n_fired, 1);
    ck_assert_uint_eq(log_[0].fault, 1);
}
END_TEST

START_TEST(a_workaround_gives_golden_s_bits_back)
{
    static const uint64_t mask = 1 << 2;
    iq_slots_arm(slots, &selector);
    put_pick(&more, &one, NULL, 0);
    put_pick(&counting, NULL, &mask, 1);
    ck_assert_int_eq(call(), IQ_OK);
    for (uint32_t r = 0; r < ROWS; r++) ck_assert(extra(r) == (float)(r != 2));
    ck_assert_int_eq(n_fired, 1);
    ck_assert_uint_eq(log_[0].rows, ROWS - 1);
    n_picks = 1, n_fired = 0;
    put_pick(&counting, NULL, NULL, 1);
    ck_assert_int_eq(call(), IQ_OK);
    for (uint32_t r = 0; r < ROWS; r++) ck_assert(extra(r) == 0);
    ck_assert_int_eq(n_fired, 0);
}
END_TEST

START_TEST(the_firing_log_counts_rows_and_changed_rows)
{
    static const uint64_t mask = 1 << 1 | 1 << 2 | 1 << 3;
    static const float tiny = 0x1p-22f; /* is lost beside large sums, and only there */
    a[1][0] = a[1][1] = a[1][2] = 100;
    a[2][0] = a[2][1] = a[2][2] = 1, b[2][0] = b[2][1] = b[2][2] = 0;
    a[3][0] = a[3][1] = a[3][2] = 100;
    iq_slots_arm(slots, &selector);
    put_pick(&more, &tiny, &mask, 5);
    ck_assert_int_eq(call(), IQ_OK);
    ck_assert_int_eq(n_fired, 1);
    const struct iq_firing want = {.fault = 5,
                                   .step = 7,
                                   .node = NODE,
                                   .batch = 3,
                                   .rows = 3,
                                   .rows_changed = 1,
                                   .request = 12, /* the first changed row, not the first row */
                                   .pos = 22};
    ck_assert_mem_eq(&log_[0], &want, sizeof want);
}
END_TEST

START_TEST(a_fault_without_effect_fires_and_changes_no_row)
{
    iq_slots_arm(slots, &selector);
    put_pick(&more, &zero, NULL, 0);
    ck_assert_int_eq(call(), IQ_OK);
    ck_assert_int_eq(n_fired, 1);
    ck_assert_uint_eq(log_[0].rows, ROWS);
    ck_assert_uint_eq(log_[0].rows_changed, 0);
    ck_assert_uint_eq(log_[0].request, 10);
}
END_TEST

START_TEST(a_failing_variant_and_a_failing_selector_are_passed_on)
{
    iq_slots_arm(slots, &selector);
    put_pick(&broken, NULL, NULL, 0);
    ck_assert_int_eq(call(), IQ_CRASHED);
    n_picks = -IQ_MEMORY;
    ck_assert_int_eq(call(), IQ_MEMORY);
}
END_TEST

START_TEST(what_is_not_golden_can_t_serve_golden)
{
    struct iq_err err = {0};
    ck_assert_int_eq(iq_slots_golden(slots, &more, &err), IQ_ABI);
    ck_assert_int_eq(iq_slots_golden(slots, &coupling, &err), IQ_ABI);
    ck_assert_ptr_nonnull(strstr(err.text, "coupling"));
    ck_assert_int_eq(call(), IQ_OK);
    ck_assert_int_eq(golden_runs, 1);
}
END_TEST

START_TEST(where_golden_does_not_take_a_call_the_reference_does)
{
    struct iq_err err = {0};
    ck_assert_int_eq(iq_slots_golden(slots, &unable, &err), IQ_OK);
    ck_assert_int_eq(call(), IQ_OK);
    for (uint32_t r = 0; r < ROWS; r++) ck_assert(extra(r) == 0);
}
END_TEST

START_TEST(taps_see_what_the_fault_left)
{
    static const uint64_t mask = 1 << 3;
    iq_slots_arm(slots, &selector);
    put_pick(&more, &one, &mask, 0);
    tap.bytes = bytes;
    rows[3].cell = 4, rows[4].cell = 3; /* rows and cells are not the same */
    ck_assert_int_eq(call(), IQ_OK);
    for (uint32_t r = 0; r < ROWS; r++)
        ck_assert(iq_digest_equal(cells[rows[r].cell * NODES + NODE], iq_digest_row(y[r], N, sizeof(float))));
    ck_assert_uint_eq(handed, ROWS);
    for (uint32_t i = 0; i < ROWS * NODES; i++) ck_assert(i % NODES == NODE || iq_digest_is_zero(cells[i]));
}
END_TEST

START_TEST(a_nan_has_one_digest_whatever_its_bits)
{
    static const uint32_t payloads[ROWS] = {0x7fffffff, 0xffc00000, 0x7f800001, 0x7fc12345, 0xffffffff};
    uint32_t want[N] = {0x7fffffff, 0, 0};
    memset(a, 0, sizeof a), memset(b, 0, sizeof b);
    for (uint32_t r = 0; r < ROWS; r++) memcpy(&a[r][0], &payloads[r], 4);
    ck_assert_int_eq(call(), IQ_OK);
    for (uint32_t r = 0; r < ROWS; r++)
        ck_assert(iq_digest_equal(cells[r * NODES + NODE], iq_digest_row(want, N, sizeof(float))));
}
END_TEST

START_TEST(threads_digest_the_same)
{
    enum { WIDE = 20000 };
    struct iq_err err = {0};
    float *wide = calloc((size_t)ROWS * WIDE, sizeof *wide), *sum = calloc((size_t)ROWS * WIDE, sizeof *sum);
    struct iq_digest alone[ROWS];
    for (uint32_t i = 0; i < ROWS * WIDE; i++) wide[i] = (float)(i % 1009);
    for (int threads = 1; threads < 4; threads++) {
        ck_assert_int_eq(iq_pool_open(threads, &ex.pool, &err), IQ_OK);
        const struct iq_add args = {ROWS, WIDE, 0, wide, wide, sum, WIDE, WIDE, WIDE};
        const struct iq_site site = {.op = IQ_OP_ATTN_ADD,
                                     .layer = 1,
                                     .step = &step,
                                     .row = rows,
                                     .rows = ROWS,
                                     .slot = iq_slots_at(slots, IQ_OP_ATTN_ADD, 1, 0)};
        memset(cells, 0, sizeof cells);
        ck_assert_int_eq(iq_dispatch(&ex, &site, &args), IQ_OK);
        for (uint32_t r = 0; r < ROWS; r++) {
            if (threads == 1) alone[r] = iq_digest_row(sum + (size_t)r * WIDE, WIDE, sizeof(float));
            ck_assert(iq_digest_equal(cells[r * NODES + NODE], alone[r]));
        }
        iq_pool_close(ex.pool);
        ex.pool = NULL;
    }
    free(wide), free(sum);
}
END_TEST

static int run_nothing(struct iq_exec *x, const struct iq_site *s, const void *args, const void *params,
                       void *state)
{
    (void)x, (void)s, (void)args, (void)params, (void)state;
    return IQ_OK;
}

/* A prompt too short for any block: the lookup has nothing to hand out. */
START_TEST(a_call_without_outputs_may_be_armed)
{
    static const struct iq_variant nothing = {
        .kind = "prefix", .name = "nothing", .device = "cpu", .flags = IQ_V_FAULTY, .run = run_nothing};
    static const struct iq_prefix_entry table[64];
    uint32_t hits = 9;
    const struct iq_prefix args = {.tokens = 5, .entry = table, .capacity = 64, .hits = &hits};
    const struct iq_site site = {.op = IQ_OP_PREFIX,
                                 .layer = IQ_NO_LAYER,
                                 .step = &step,
                                 .row = rows,
                                 .rows = 1,
                                 .slot = iq_slots_at(slots, IQ_OP_PREFIX, IQ_NO_LAYER, 0)};
    iq_slots_arm(slots, &selector);
    put_pick(&nothing, NULL, NULL, 0);
    ck_assert_int_eq(iq_dispatch(&ex, &site, &args), IQ_OK);
    ck_assert_uint_eq(hits, 0);
    ck_assert_int_eq(n_fired, 1);
    ck_assert_uint_eq(log_[0].rows_changed, 0);
}
END_TEST

/* Counts its calls in its state, and tells of it in the output. */
static int run_counting(struct iq_exec *x, const struct iq_site *s, const void *args, const void *params,
                        void *state)
{
    uint64_t *calls = state;
    (void)x, (void)s, (void)params;
    add_all(args, (float)++*calls);
    return IQ_OK;
}

START_TEST(a_state_belongs_to_a_fault_in_a_slot_and_is_zero_when_armed)
{
    static const struct iq_variant counts = {.kind = "add",
                                             .name = "counts",
                                             .device = "cpu",
                                             .flags = IQ_V_FAULTY,
                                             .run = run_counting,
                                             .state_size = sizeof(uint64_t)};
    float out[4][N];
    struct iq_add args = {.rows = 1, .n = N, .a = a[0], .b = b[0], .lda = N, .ldb = N, .ldy = N};
    for (int armed = 0; armed < 2; armed++) {
        iq_slots_arm(slots, &selector);
        for (uint32_t call = 0; call < 3; call++)
            for (uint32_t place = 0; place < 4; place++) { /* two slots, two faults */
                struct iq_site site = {.op = IQ_OP_ATTN_ADD,
                                       .layer = (uint16_t)(place / 2),
                                       .step = &step,
                                       .row = rows,
                                       .rows = 1,
                                       .slot = iq_slots_at(slots, IQ_OP_ATTN_ADD, place / 2, 0)};
                picks[0] = (struct iq_pick){.variant = &counts, .fault = place % 2};
                n_picks = 1;
                n_fired = 0;
                args.y = out[place];
                ck_assert_int_eq(iq_dispatch(&ex, &site, &args), IQ_OK);
                ck_assert_float_eq(out[place][0], a[0][0] + b[0][0] + (float)(call + 1));
            }
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dispatch");
    TCase *c = tcase_create("dispatch");
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_add_test(c, unarmed_golden_runs_once_and_nobody_is_asked);
    tcase_add_test(c, only_the_ops_that_may_be_struck_are_asked_about);
    tcase_add_test(c, a_row_mask_leaves_the_other_rows_golden);
    tcase_add_test(c, the_later_pick_wins_a_row);
    tcase_add_test(c, a_fault_that_wins_no_row_does_not_fire);
    tcase_add_test(c, a_workaround_gives_golden_s_bits_back);
    tcase_add_test(c, the_firing_log_counts_rows_and_changed_rows);
    tcase_add_test(c, a_fault_without_effect_fires_and_changes_no_row);
    tcase_add_test(c, a_failing_variant_and_a_failing_selector_are_passed_on);
    tcase_add_test(c, what_is_not_golden_can_t_serve_golden);
    tcase_add_test(c, where_golden_does_not_take_a_call_the_reference_does);
    tcase_add_test(c, taps_see_what_the_fault_left);
    tcase_add_test(c, a_nan_has_one_digest_whatever_its_bits);
    tcase_add_test(c, threads_digest_the_same);
    tcase_add_test(c, a_call_without_outputs_may_be_armed);
    tcase_add_test(c, a_state_belongs_to_a_fault_in_a_slot_and_is_zero_when_armed);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
