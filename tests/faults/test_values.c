/* What kinds tell of the numbers they are given, and of their operands' places: against brute force. */
#include "tests/check_main.h"
#include "tests/faults/fault_test.h"

#include "kernels/arith.h"
#include "kernels/matrix.h"
#include "kernels/ops/kv.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/moe.h"
#include "kernels/ops/reduce.h"
#include "kernels/ops/rmsnorm.h"
#include "kernels/ops/sampling.h"

#include <math.h>
#include <stdlib.h>

static const struct iq_step step = {.batch = 2, .expert_parallel = 4};
static const struct iq_row rows_of_site[8] = {{.pos = 0}, {.pos = 1}, {.pos = 2}, {.pos = 17}};
static const struct iq_site site = {.step = &step, .row = rows_of_site, .rows = 4};

static double value(const char *kind, const char *name, const void *args, uint32_t r)
{
    for (const struct iq_value *v = iq_kind_find(kind)->values; v && v->name; v++)
        if (!strcmp(v->name, name)) return v->of(&site, args, r);
    ck_abort_msg("%s has no value %s", kind, name);
}

static uint64_t operand(const char *kind, const char *name, const void *args)
{
    const struct iq_kind *k = iq_kind_find(kind);
    for (unsigned i = 0; k->fields && k->fields[i]; i++)
        if (!strcmp(k->fields[i], name)) return k->field(args, i);
    ck_abort_msg("%s has no operand %s", kind, name);
}

/* ---- logits ---- */

enum { VOCAB = 300, ROWS = 40 };
static float logits[ROWS][VOCAB];

static uint32_t draw(uint32_t *state) { return *state = *state * 1664525 + 1013904223, *state >> 8; }

/* Few values, so that there are ties; in some rows infinities, NaN, subnormals and both zeros. */
static void make_logits(void)
{
    static const float odd[] = {INFINITY, -INFINITY, NAN, 1e-40f, -1e-42f, 0.0f, -0.0f};
    uint32_t state = 7;
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t i = 0; i < VOCAB; i++) {
            float x = (float)(draw(&state) % (r < 20 ? 60 : 1 << 20)) / 7.0f - 4.0f;
            logits[r][i] = r % 3 == 0 && draw(&state) % 30 == 0 ? odd[draw(&state) % 7] : x;
        }
    for (uint32_t i = 0; i < VOCAB; i++) logits[ROWS - 1][i] = NAN;
}

static int descending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    if (x != x || y != y) return (x != x) - (y != y);
    return (x < y) - (x > y);
}

static void expect(double found, double wanted, const char *name, uint32_t r, uint32_t k)
{
    bool same = found == wanted || (found != found && wanted != wanted);
    ck_assert_msg(same, "%s of row %u, k %u: %g, expected %g", name, r, k, found, wanted);
}

static bool equal(float a, float b) { return a == b || (a != a && b != b); }

static void expect_row(const struct iq_topk *a, uint32_t r)
{
    float sorted[VOCAB];
    memcpy(sorted, logits[r], sizeof sorted);
    qsort(sorted, VOCAB, sizeof *sorted, descending);
    double nans = 0, infinities = 0, subnormals = 0, zeros = 0, absmax = NAN, ties = -1, cut_ties = 0,
           bin[512] = {0};
    for (uint32_t i = 0; i < VOCAB; i++) {
        float x = logits[r][i];
        nans += x != x, infinities += x == INFINITY || x == -INFINITY, zeros += x == 0;
        subnormals += fpclassify(x) == FP_SUBNORMAL;
        if (x == x && !(fabs((double)x) <= absmax)) absmax = fabs((double)x);
        ties += x == sorted[0];
        cut_ties += i >= a->k && equal(sorted[i], sorted[a->k - 1]);
    }
    if (sorted[0] != sorted[0]) ties = 0;
    /* A bin by the definition: the high byte of the integer that falls as the number rises. */
    double full = 0, cut = 0;
    for (uint32_t i = 0; i < VOCAB; i++) {
        uint32_t own = 0, cuts = 0;
        float x = logits[r][i] + 0.0f, c = sorted[a->k - 1] + 0.0f;
        memcpy(&own, &x, 4), memcpy(&cuts, &c, 4);
        own = x != x ? 0xff : (own >> 31 ? own : 0x7fffffff - own) >> 24;
        cuts = c != c ? 0xff : (cuts >> 31 ? cuts : 0x7fffffff - cuts) >> 24;
        bin[own]++, cut += own == cuts;
        full = bin[own] > full ? bin[own] : full;
    }
    expect(value("topk", "nans", a, r), nans, "nans", r, a->k);
    expect(value("topk", "infinities", a, r), infinities, "infinities", r, a->k);
    expect(value("topk", "subnormals", a, r), subnormals, "subnormals", r, a->k);
    expect(value("topk", "zeros", a, r), zeros, "zeros", r, a->k);
    expect(value("topk", "absmax", a, r), absmax, "absmax", r, a->k);
    expect(value("topk", "largest", a, r), (double)sorted[0], "largest", r, a->k);
    expect(value("topk", "gap", a, r), (double)sorted[0] - (double)sorted[1], "gap", r, a->k);
    expect(value("topk", "ties", a, r), ties, "ties", r, a->k);
    expect(value("topk", "cut_ties", a, r), cut_ties, "cut_ties", r, a->k);
    expect(value("topk", "cut_gap", a, r),
           a->k < VOCAB ? (double)sorted[a->k - 1] - (double)sorted[a->k] : NAN, "cut_gap", r, a->k);
    expect(value("topk", "cut_bin", a, r), cut, "cut_bin", r, a->k);
    expect(value("topk", "full_bin", a, r), full, "full_bin", r, a->k);
    expect(value("topk", "x_offset", a, r), r * VOCAB * 4.0, "x_offset", r, a->k);
}

START_TEST(what_topk_tells_of_its_logits_is_what_sorting_tells)
{
    make_logits();
    static const uint32_t ks[] = {1, 2, 20, 100, VOCAB - 1, VOCAB};
    for (size_t i = 0; i < sizeof ks / sizeof *ks; i++) {
        struct iq_topk a = {
            .rows = ROWS, .vocab = VOCAB, .k = ks[i], .shards = 1, .logits = logits[0], .ld = VOCAB};
        for (uint32_t r = 0; r < ROWS; r++) expect_row(&a, r);
        ck_assert_uint_eq(operand("topk", "elements", &a), ROWS * VOCAB);
        ck_assert_uint_eq(operand("topk", "x_bytes", &a), sizeof logits);
    }
}
END_TEST

START_TEST(the_largest_logit_may_be_above_its_bf16_rounding)
{
    static const struct {
        float best;
        bool down;
    } row[] = {{1.0f, false},    {1.001f, true},  {1.007f, false},
               {-1.001f, false}, {-1.007f, true}, {0x1.01p0f, true}};
    for (size_t i = 0; i < sizeof row / sizeof *row;
         i++) { /* 1.007 rounds to 1.0078; a tie to even goes down */
        const float x[3] = {-9, row[i].best, -10};
        struct iq_topk a = {.rows = 1, .vocab = 3, .k = 1, .shards = 1, .logits = x, .ld = 3};
        ck_assert_msg(value("topk", "rounds_down", &a, 0) == row[i].down, "%g", (double)row[i].best);
        struct iq_sample s = {.rows = 1, .vocab = 3, .k = 1, .logits = x, .ld = 3};
        ck_assert(value("sample", "rounds_down", &s, 0) == row[i].down);
        ck_assert(value("sample", "gap", &s, 0) == (double)row[i].best + 9);
    }
}
END_TEST

/* ---- which numbers: rows, strides, columns ---- */

START_TEST(values_are_of_the_columns_that_the_op_reads)
{
    /* Two rows of 8, of which the parts read columns 2 to 5. */
    static const float x[2][8] = {{INFINITY, 9, 1, -2, 0, 3, NAN, 9}, {NAN, 9, 1, -7, 0, 0, INFINITY, 9}};
    const struct iq_matrix w = {.n = 5, .k = 2, .panels = 1, .panel_bytes = 512};
    struct iq_matmul a = {.rows = 2,
                          .parts = 2,
                          .x = x[0],
                          .ldx = 8,
                          .part = {{.w = &w, .x_at = 4, .ldy = 6}, {.w = &w, .x_at = 2, .ldy = 6}}};
    ck_assert(value("matmul", "nans", &a, 0) == 0 && value("matmul", "infinities", &a, 1) == 0);
    ck_assert(value("matmul", "absmax", &a, 0) == 3 && value("matmul", "absmax", &a, 1) == 7);
    ck_assert(value("matmul", "zeros", &a, 0) == 1 && value("matmul", "zeros", &a, 1) == 2);
    ck_assert(value("matmul", "y_offset", &a, 1) == 24);
    ck_assert_uint_eq(operand("matmul", "columns", &a), 4);
    ck_assert_uint_eq(operand("matmul", "x_offset", &a), 8);
    ck_assert_uint_eq(operand("matmul", "x_bytes", &a), (8 + 4) * 4);
    ck_assert_uint_eq(operand("matmul", "y_bytes", &a), (6 + 5) * 4);
    ck_assert_uint_eq(operand("matmul", "w_bytes", &a), 512);
    ck_assert_uint_eq(operand("matmul", "elements", &a), 10);
    struct iq_rmsnorm n = {.rows = 2, .groups = 2, .n = 2, .x = x[0] + 2, .ldx = 8, .ldy = 4};
    ck_assert(value("rmsnorm", "absmax", &n, 0) == 3 && value("rmsnorm", "absmax", &n, 1) == 7);
    ck_assert(value("rmsnorm", "nans", &n, 0) == 0 && value("rmsnorm", "y_offset", &n, 1) == 16);
    struct iq_route e = {.rows = 2, .experts = 4, .k = 2, .logits = x[0] + 2, .ld = 8};
    ck_assert(value("route", "gap", &e, 0) == 2 && value("route", "cut_gap", &e, 0) == 1);
    ck_assert(value("route", "gap", &e, 1) == 1 && value("route", "cut_gap", &e, 1) == 0);
}
END_TEST

START_TEST(a_reduction_is_aligned_as_its_worst_operand)
{
    static _Alignas(4096) float room[4096];
    struct iq_piece piece[2] = {{0, 1, 0, room, 1024}, {1, 1, 2, room + 2048, 1024}};
    struct iq_all_reduce a = {
        .rows = 2, .n = 64, .units = 2, .pieces = 2, .piece = piece, .y = room, .ldy = 1024};
    ck_assert_uint_eq(operand("all_reduce", "align", &a), 4096);
    ck_assert_uint_eq(operand("all_reduce", "ranks", &a), 3);
    ck_assert_uint_eq(operand("all_reduce", "bytes", &a), 512);
    piece[1].x = room + 2048 + 16;
    ck_assert_uint_eq(operand("all_reduce", "align", &a), 64);
    a.ldy = 66;
    ck_assert_uint_eq(operand("all_reduce", "align", &a), 8);
}
END_TEST

START_TEST(a_row_of_kv_has_its_block_slot_and_offset)
{
    static const uint32_t blocks[] = {5, 3}, other[] = {9};
    const struct iq_seq seq[] = {{0, 3, 0, blocks}, {3, 1, 1, other}};
    const struct iq_kv_layer cache = {.blocks = 10, .kv_heads = 2, .head_dim = 4};
    struct iq_kv_write a = {.rows = 4, .kv_heads = 2, .cache = &cache, .seq = seq, .seqs = 2};
    ck_assert(value("kv_write", "block", &a, 2) == 5 && value("kv_write", "block", &a, 3) == 9);
    ck_assert(value("kv_write", "slot", &a, 2) == 2 && value("kv_write", "slot", &a, 3) == 1); /* pos 17 */
    ck_assert(value("kv_write", "k_offset", &a, 2) == (5 * 2 * 4 * 16 + 2) * 4);
    ck_assert_uint_eq(operand("kv_write", "block_bytes", &a), 2 * 4 * 16 * 4);
    ck_assert_uint_eq(operand("kv_write", "cache_bytes", &a), 10 * 2 * 4 * 16 * 4);
    struct iq_attention t = {.rows = 4, .heads = 2, .cache = &cache, .seq = seq, .seqs = 2};
    ck_assert_uint_eq(operand("attention", "splits", &t), 1);
    struct iq_seq long_seq = {0, 1, 256, blocks};
    t.seq = &long_seq, t.seqs = 1;
    ck_assert_uint_eq(operand("attention", "splits", &t), 2);
}
END_TEST

START_TEST(skew_is_the_most_less_the_fewest_tokens)
{
    /* 8 experts on 4 ranks: experts 0 and 1 on the first ... */
    static const uint32_t expert[] = {0, 1, 0, 2, 0, 4, 1, 6};
    struct iq_moe_dispatch a = {.rows = 4, .experts = 8, .k = 2, .expert = expert};
    ck_assert(value("moe_dispatch", "rank_skew", &a, 0) == 5 - 1);
    ck_assert(value("moe_dispatch", "skew", &a, 0) == 3 - 0);
}
END_TEST

/* Every kind's names are its own, and its operands answer. */
START_TEST(names_of_operands_and_values_are_distinct)
{
    for (unsigned op = 0; op < IQ_ALL_OPS; op++) {
        const struct iq_kind *k = iq_op_kind((enum iq_op_id)op);
        for (unsigned i = 0; k->fields && k->fields[i]; i++)
            for (unsigned j = 0; j < i; j++) ck_assert_str_ne(k->fields[i], k->fields[j]);
        for (unsigned i = 0; k->values && k->values[i].name; i++) {
            ck_assert_msg(k->values[i].help && k->values[i].of, "%s of %s", k->values[i].name, k->name);
            for (unsigned j = 0; j < i; j++) ck_assert_str_ne(k->values[i].name, k->values[j].name);
        }
    }
}
END_TEST

/* ---- where they can't be read ---- */

START_TEST(numbers_on_a_device_are_never_read)
{
    struct set s;
    struct iq_slot slot = {.watched = IQ_WATCH_ARMED | IQ_WATCH_DEVICE};
    struct iq_site there = {.op = IQ_OP_TOPK, .step = &step, .row = rows_of_site, .rows = 1, .slot = &slot};
    struct iq_topk a = {.rows = 1, .vocab = 3, .k = 1, .logits = NULL, .ld = 3}; /* reading would crash */
    struct iq_pick pick[IQ_PICKS];
    OPEN(&s, 0, COARSE("\"when\":{\"value.gap\":{\"max\":1}}"));
    ck_assert_int_eq(s.sel.pick(s.sel.self, &there, &a, pick), -IQ_UNSUPPORTED);
    close_set(&s);
    OPEN(&s, 0, COARSE("\"when\":{\"value.x_offset\":0}"));
    ck_assert_int_eq(s.sel.pick(s.sel.self, &there, &a, pick), 1);
    close_set(&s);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("values");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, what_topk_tells_of_its_logits_is_what_sorting_tells);
    tcase_add_test(t, the_largest_logit_may_be_above_its_bf16_rounding);
    tcase_add_test(t, values_are_of_the_columns_that_the_op_reads);
    tcase_add_test(t, a_reduction_is_aligned_as_its_worst_operand);
    tcase_add_test(t, a_row_of_kv_has_its_block_slot_and_offset);
    tcase_add_test(t, skew_is_the_most_less_the_fewest_tokens);
    tcase_add_test(t, names_of_operands_and_values_are_distinct);
    tcase_add_test(t, numbers_on_a_device_are_never_read);
    Suite *s = suite_create("values");
    suite_add_tcase(s, t);
    return check_main(s);
}
