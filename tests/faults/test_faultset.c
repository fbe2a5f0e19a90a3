/* Faults from JSON, fault sets as selectors, and strikes through the one dispatch point. */
#include "faults/families.h"
#include "faults/faultset.h"
#include "kernels/ops/reduce.h"
#include "kernels/ops/sampling.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void setup(void)
{
    struct iq_err err = {0};
    ck_assert_msg(!iq_kernels_register(&err) && !iq_faults_register(&err), "%s", err.text);
}

static int parse(const char *text, struct iq_fault *out, struct iq_err *err)
{
    cJSON *tree = NULL;
    int status = iq_json_parse(text, strlen(text), "t.json", &tree, err);
    ck_assert_msg(!status, "%s", err->text);
    status = iq_fault_parse(tree, "t.json: faults[0]", out, err);
    iq_json_free(tree);
    return status;
}

static struct iq_fault must(const char *text)
{
    struct iq_fault f;
    struct iq_err err = {0};
    ck_assert_msg(parse(text, &f, &err) == IQ_OK, "%s: %s", text, err.text);
    return f;
}

/* A set of up to 8 faults, and its selector. */
struct set {
    struct iq_fault fault[12];
    size_t n;
    struct iq_faultset *set;
    struct iq_selector sel;
};

static void open_set(struct set *s, uint64_t seed, const char *const *texts)
{
    struct iq_err err = {0};
    for (s->n = 0; texts[s->n]; s->n++) s->fault[s->n] = must(texts[s->n]);
    ck_assert_msg(!iq_faultset_open(s->fault, s->n, seed, &s->set, &err), "%s", err.text);
    iq_faultset_selector(s->set, &s->sel);
}
#define OPEN(s, seed, ...) open_set(s, seed, (const char *const[]){__VA_ARGS__, NULL})

static void close_set(struct set *s)
{
    iq_faultset_close(s->set);
    for (size_t i = 0; i < s->n; i++) iq_fault_free(&s->fault[i]);
}

/* ---- JSON ---- */

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
                     "tracing is false, for 0.25 of each request");
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
    for (unsigned op = 0; op < IQ_OPS; op++) {
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
    {"{\"op\":\"zzzzzz\",\"variant\":\"coarse_bin\"}", IQ_NOT_FOUND, "known are prefix, embed"},
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

#define COARSE(more) "{\"op\":\"topk\",\"variant\":\"coarse_bin\"," more "}"

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

/* ---- states ---- */

START_TEST(a_state_is_zeroed_and_belongs_to_a_fault_in_a_slot)
{
    struct set s;
    struct iq_slots *slots;
    struct iq_err err = {0};
    uint64_t *seen[2 * 40];
    size_t n = 0;
    ck_assert_msg(!iq_slots_open(40, 1, &slots, &err), "%s", err.text);
    OPEN(&s, 0, "{\"op\":\"all_reduce\",\"variant\":\"stale_peer\"}",
         "{\"op\":\"ffn_reduce\",\"variant\":\"stale_peer\",\"params\":{\"peer\":2}}");
    struct iq_step step = {0};
    struct iq_row row = {0};
    for (int twice = 0; twice < 2; twice++)
        for (uint32_t layer = 0; layer < 40; layer++) {
            struct iq_site site = {
                .op = IQ_OP_FFN_REDUCE, .layer = (uint16_t)layer, .step = &step, .row = &row, .rows = 1};
            struct iq_all_reduce args = {.rows = 1, .n = 1, .units = 1, .pieces = 1};
            struct iq_pick pick[IQ_PICKS];
            site.slot = iq_slots_at(slots, IQ_OP_FFN_REDUCE, layer, 0);
            ck_assert_int_eq(s.sel.pick(s.sel.self, &site, &args, pick), 2);
            for (int i = 0; i < 2; i++) {
                uint64_t *state = pick[i].state;
                ck_assert_uint_eq(*state, twice ? layer * 2u + (unsigned)i + 1 : 0);
                *state = layer * 2u + (unsigned)i + 1;
                if (!twice) seen[n++] = state;
            }
        }
    iq_faultset_reset(s.set);
    for (size_t i = 0; i < n; i++) ck_assert_uint_eq(*seen[i], 0);
    close_set(&s);
    iq_slots_close(slots);
}
END_TEST

/* ---- through dispatch ---- */

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
    TCase *t = tcase_create("faultset"), *d = tcase_create("dispatch");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, a_fault_is_read_and_written_whole);
    tcase_add_test(t, a_fault_of_a_kind_is_every_op_of_it);
    tcase_add_test(t, reference_and_golden_variants_are_workarounds);
    tcase_add_loop_test(t, what_is_no_fault_is_refused_by_name, 0, sizeof refused / sizeof *refused);
    tcase_add_loop_test(t, the_canonical_text_of_each_example_reads_back_as_itself, 0,
                        sizeof files / sizeof *files);
    tcase_add_test(t, an_operand_of_the_kind_may_stand_in_when);
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
    tcase_add_test(t, a_state_is_zeroed_and_belongs_to_a_fault_in_a_slot);
    tcase_add_checked_fixture(d, bench_open, bench_close);
    tcase_add_test(d, a_fault_strikes_the_rows_of_its_trigger_and_is_logged);
    tcase_add_test(d, a_fault_that_changes_no_bit_is_logged_as_masked);
    tcase_add_test(d, rate_zero_leaves_outputs_and_log_alone);
    tcase_add_test(d, a_later_workaround_hides_the_fault_and_is_not_logged);
    tcase_add_test(d, the_later_of_two_faults_wins_its_rows);
    tcase_add_test(d, disarmed_means_golden);
    Suite *s = suite_create("faultset");
    suite_add_tcase(s, t);
    suite_add_tcase(s, d);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
