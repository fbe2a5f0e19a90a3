/* Each wrong variant is wrong in the way that its story tells, and only there. */
#include "faults/families.h"
#include "kernels/arith.h"
#include "kernels/base/pool.h"
#include "kernels/base/rng.h"
#include "kernels/dispatch.h"
#include "kernels/matrix.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/prefix.h"
#include "kernels/ops/reduce.h"
#include "kernels/ops/sampling.h"
#include "tests/check_main.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct iq_exec exec;
static const struct iq_step step = {.batch = 1, .tokens = 1, .tp = 1};
static const struct iq_row one_row = {0};
static const struct iq_site site = {.layer = 0, .step = &step, .row = &one_row, .rows = 1};

static void setup(void)
{
    struct iq_err err = {0};
    ck_assert_msg(!iq_kernels_register(&err) && !iq_faults_register(&err), "%s", err.text);
}
static void teardown(void) { iq_exec_close(&exec); }

static float unit_random(uint64_t i) { return (float)(iq_mix64(i * 77 + 5) >> 40) * 0x1p-23f - 1; }

static void run(const struct iq_variant *v, const void *args, const double *params, void *state)
{
    ck_assert_int_eq(v->run(&exec, &site, args, params, state), IQ_OK);
}

START_TEST(every_record_is_complete)
{
    for (const struct iq_variant *const *v = iq_faults_all(); *v; v++) {
        bool benign = (*v)->flags & IQ_V_BENIGN;
        ck_assert_msg((*v)->story && strlen((*v)->story) > 80, "%s tells no story", (*v)->name);
        ck_assert_msg((*v)->expect && strstr((*v)->expect, (*v)->kind) == (*v)->expect,
                      "%s: expect names its kind", (*v)->name);
        ck_assert_int_ne(benign, ((*v)->flags & IQ_V_FAULTY) != 0);
        ck_assert(!((*v)->flags & (IQ_V_GOLDEN | IQ_V_REFERENCE)));
        ck_assert_ptr_eq(iq_variant_find((*v)->kind, (*v)->name), *v);
        for (const struct iq_param *p = (*v)->params; p && p->name; p++)
            ck_assert_msg(p->lo <= p->def && p->def <= p->hi &&
                              p->offset + sizeof(double) <= (*v)->params_size && *p->help,
                          "%s: parameter %s", (*v)->name, p->name);
    }
    struct iq_err err;
    ck_assert_int_eq(iq_faults_register(&err), IQ_OK); /* again */
}
END_TEST

/* ---- top-k ---- */

enum { VOCAB = 10000, K = 8, ROWS = 5 };
static float logits[ROWS * VOCAB], values[ROWS * K], golden_values[ROWS * K];
static uint32_t ids[ROWS * K], golden_ids[ROWS * K];

static struct iq_topk topk_args(void)
{
    struct iq_topk a = {ROWS, VOCAB, K, 1, logits, VOCAB, golden_ids, golden_values};
    run(iq_variant_find("topk", "reference"), &a, NULL, NULL);
    a.ids = ids;
    a.values = values;
    memset(ids, 0xff, sizeof ids);
    return a;
}

static bool row_is_golden(uint32_t r)
{
    return !memcmp(ids + r * K, golden_ids + r * K, K * 4) &&
           !memcmp(values + r * K, golden_values + r * K, K * 4);
}

START_TEST(k1_drops_what_comes_late_and_stays_well_formed)
{
    for (uint32_t i = 0; i < ROWS * VOCAB; i++) logits[i] = 9 + unit_random(i);
    for (uint32_t r = 0; r < ROWS; r++)
        logits[r * VOCAB + (r % 2 ? 50 : 9990)] = 10.5f; /* the argmax: early or late */
    struct iq_topk a = topk_args();
    const double params[] = {8, 4096};
    run(&iq__k1_coarse_bin, &a, params, NULL);
    for (uint32_t r = 0; r < ROWS; r++) {
        ck_assert_uint_eq(golden_ids[r * K], r % 2 ? 50u : 9990u);
        ck_assert_int_eq(ids[r * K] == golden_ids[r * K], r % 2);
        ck_assert(!row_is_golden(r));
        for (uint32_t i = 0; i < K; i++) {
            ck_assert(ids[r * K + i] < 4096 && values[r * K + i] == logits[r * VOCAB + ids[r * K + i]]);
            ck_assert(i == 0 || values[r * K + i] < values[r * K + i - 1]);
        }
    }
}
END_TEST

START_TEST(k1_is_right_where_the_bin_is_sparse)
{
    for (uint32_t i = 0; i < ROWS * VOCAB; i++) logits[i] = ldexpf(unit_random(i), (int)(i % 40) - 20);
    struct iq_topk a = topk_args();
    const double params[] = {8, 4096};
    run(&iq__k1_coarse_bin, &a, params, NULL);
    for (uint32_t r = 0; r < ROWS; r++) ck_assert(row_is_golden(r));
}
END_TEST

START_TEST(k2_loses_a_shards_best_and_only_that)
{
    for (uint32_t i = 0; i < ROWS * VOCAB; i++) logits[i] = unit_random(i);
    const double params[] = {8, 0, 5};
    for (uint32_t r = 0; r < ROWS; r++) logits[r * VOCAB + (r == 2 ? 10 : 5 * 1250 + 7)] = 3;
    struct iq_topk a = topk_args();
    run(&iq__k2_shard_merge, &a, params, NULL);
    for (uint32_t r = 0; r < ROWS; r++) /* the rest of the candidates stays */
        for (uint32_t i = 1; i < K && r != 2; i++)
            ck_assert_uint_eq(ids[r * K + i - 1], golden_ids[r * K + i]);
    ck_assert_uint_eq(ids[2 * K], golden_ids[2 * K]);
}
END_TEST

START_TEST(k2_gives_a_neighbours_offset_to_ids_in_range)
{
    for (uint32_t i = 0; i < ROWS * VOCAB; i++) logits[i] = unit_random(i);
    const double params[] = {7, 1, -1}; /* 7 shards of 1429, the last of 1426 */
    struct iq_topk a = topk_args();
    run(&iq__k2_shard_merge, &a, params, NULL);
    ck_assert(!memcmp(values, golden_values, sizeof values));
    for (uint32_t i = 0; i < ROWS * K; i++)
        ck_assert_uint_eq(ids[i], golden_ids[i] < 1429 ? golden_ids[i] : golden_ids[i] - 1429);
}
END_TEST

START_TEST(k3_loses_the_argmax_where_bfloat16_rounds_it_down)
{
    for (uint32_t i = 0; i < ROWS * VOCAB; i++) logits[i] = unit_random(i);
    for (uint32_t r = 0; r < ROWS; r++) logits[r * VOCAB + 77] = r % 2 ? 8 + 0x1p-18f : 8 - 0x1p-18f;
    struct iq_topk a = topk_args();
    const double params[] = {1};
    run(&iq__k3_threshold_precision, &a, params, NULL);
    for (uint32_t r = 0; r < ROWS; r++) {
        ck_assert_int_eq(row_is_golden(r), r % 2 == 0);
        for (uint32_t i = 1; i < K && r % 2; i++)
            ck_assert_uint_eq(ids[r * K + i - 1], golden_ids[r * K + i]);
    }
}
END_TEST

START_TEST(threads_change_no_bit_of_a_wrong_topk)
{
    const struct iq_variant *const of[] = {&iq__k1_coarse_bin, &iq__k2_shard_merge,
                                           &iq__k3_threshold_precision};
    const double params[3][3] = {{8, 4096}, {8, 0, -1}, {1}};
    uint32_t alone[ROWS * K];
    for (uint32_t i = 0; i < ROWS * VOCAB; i++) logits[i] = 9 + unit_random(i);
    struct iq_topk a = topk_args();
    for (int v = 0; v < 3; v++)
        for (int threads = 1; threads <= 3; threads++) {
            struct iq_err err;
            ck_assert_int_eq(iq_pool_open(threads, &exec.pool, &err), IQ_OK);
            run(of[v], &a, params[v], NULL);
            if (threads == 1) memcpy(alone, ids, sizeof ids);
            ck_assert(!memcmp(alone, ids, sizeof ids));
            iq_pool_close(exec.pool);
            exec.pool = NULL;
        }
}
END_TEST

START_TEST(wrong_topk_survives_odd_logits)
{
    const struct iq_variant *const of[] = {&iq__k1_coarse_bin, &iq__k2_shard_merge,
                                           &iq__k3_threshold_precision};
    const double params[3][3] = {{16, 1}, {64, 0, -1}, {0}};
    static const float odd[] = {NAN, INFINITY, -INFINITY, 0, -0.0f, 1e-45f, 3.4e38f, -3.4e38f};
    for (uint32_t i = 0; i < ROWS * VOCAB; i++) logits[i] = i < VOCAB ? NAN : odd[iq_mix64(i) % 8];
    struct iq_topk a = topk_args();
    for (int v = 0; v < 3; v++) {
        run(of[v], &a, params[v], NULL);
        for (uint32_t i = 0; i < ROWS * K; i++) ck_assert(ids[i] < VOCAB);
    }
}
END_TEST

/* ---- prefix ---- */

enum { SLOTS = 8, WANTED = 3 };

static struct iq_prefix prefix_args(struct iq_prefix_entry *entry, struct iq_digest *key, uint32_t *hits,
                                    uint32_t *blocks, uint32_t own, uint32_t others)
{
    memset(entry, 0, SLOTS * sizeof *entry);
    for (uint32_t i = 0; i < WANTED; i++) key[i] = (struct iq_digest){1, i + 1};
    for (uint32_t i = 0; i < own; i++) entry[i + 1] = (struct iq_prefix_entry){key[i], 10 + i, 0};
    for (uint32_t i = 0; i < others; i++) entry[i + 5] = (struct iq_prefix_entry){{2, i + 5}, 50 + i, 0};
    return (struct iq_prefix){.tokens = 64,
                              .wanted = WANTED,
                              .key = key,
                              .entry = entry,
                              .capacity = SLOTS,
                              .hits = hits,
                              .blocks = blocks};
}

START_TEST(k10_hands_out_another_entrys_block)
{
    struct iq_prefix_entry entry[SLOTS];
    struct iq_digest key[WANTED];
    uint32_t hits, blocks[WANTED];
    static const uint32_t want[3][WANTED] = {{11, 11, 12}, {10, 11, 50}, {11, 12, 50}};
    for (int which = 0; which < 3; which++) {
        struct iq_prefix a = prefix_args(entry, key, &hits, blocks, 3, 1);
        const double params[] = {which};
        struct iq_err err = {0};
        run(&iq__k10_foreign_block, &a, params, NULL);
        ck_assert_uint_eq(hits, 3);
        ck_assert_msg(!memcmp(blocks, want[which], sizeof blocks), "which %d: %u %u %u", which, blocks[0],
                      blocks[1], blocks[2]);
        ck_assert_int_eq(iq_kind_find("prefix")->check(&a, &err), IQ_MISMATCH);
    }
}
END_TEST

START_TEST(k10_is_masked_without_a_hit_or_another_entry)
{
    struct iq_prefix_entry entry[SLOTS];
    struct iq_digest key[WANTED];
    uint32_t hits, blocks[WANTED];
    const double params[] = {2};
    struct iq_prefix a = prefix_args(entry, key, &hits, blocks, 0, 2);
    run(&iq__k10_foreign_block, &a, params, NULL);
    ck_assert(hits == 0 && blocks[0] == UINT32_MAX);
    a = prefix_args(entry, key, &hits, blocks, 1, 0);
    run(&iq__k10_foreign_block, &a, params, NULL);
    ck_assert(hits == 1 && blocks[0] == 10 && blocks[1] == UINT32_MAX);
}
END_TEST

/* ---- matmul ---- */

enum { N = 70, COLUMNS = 320, OUT_ROWS = 3 };
static float x[OUT_ROWS * COLUMNS], w[N * COLUMNS], y[OUT_ROWS * N], want[OUT_ROWS * N];
static _Alignas(64) unsigned char panels[2 * 64 * COLUMNS * 4];

static void product(const struct iq_variant *v, const double *params, float *xs, float *ws, uint32_t k,
                    uint32_t stride, float *out)
{
    struct iq_matrix m;
    struct iq_matrix_source from = {.raw = (const uint8_t *)ws, .row_bytes = 4 * stride};
    struct iq_err err = {0};
    ck_assert_msg(!iq_matrix_pack(&m, IQ_F32, N, k, 128, &from, panels, &err), "%s", err.text);
    struct iq_matmul a = {
        .rows = OUT_ROWS, .parts = 1, .x = xs, .ldx = COLUMNS, .part = {{.w = &m, .y = out, .ldy = N}}};
    run(v, &a, params, NULL);
}

static void fill_product(void)
{
    for (uint32_t i = 0; i < OUT_ROWS * COLUMNS; i++) x[i] = unit_random(i);
    for (uint32_t i = 0; i < N * COLUMNS; i++) w[i] = unit_random(i + 100000);
}

START_TEST(k18_is_the_product_without_its_tail)
{
    const double params[] = {128, 0};
    fill_product();
    product(&iq__k18_k_tail, params, x, w, COLUMNS, COLUMNS, y);
    product(iq_variant_find("matmul", "reference"), NULL, x, w, 256, COLUMNS, want);
    ck_assert(!memcmp(y, want, sizeof y));
}
END_TEST

START_TEST(k17_is_the_product_of_bfloat16_activations)
{
    const double params[] = {8};
    static float low[OUT_ROWS * COLUMNS];
    fill_product();
    x[7] = 1 + 0x1p-8f, x[8] = 1 + 3 * 0x1p-8f, x[9] = 1e-40f,
    x[6] = -0.0f; /* half way: to even; subnormal */
    x[COLUMNS] = INFINITY, x[2 * COLUMNS] = NAN, x[COLUMNS + 5] = 3.4e38f;
    for (uint32_t i = 0; i < OUT_ROWS * COLUMNS; i++) low[i] = iq_bf16_to_f32(iq_f32_to_bf16(x[i]));
    product(&iq__k17_low_precision, params, x, w, COLUMNS, COLUMNS, y);
    product(iq_variant_find("matmul", "reference"), NULL, low, w, COLUMNS, COLUMNS, want);
    ck_assert(!memcmp(y, want, sizeof y));
}
END_TEST

START_TEST(k15_is_the_product_under_another_unit)
{
    const double params[] = {95}; /* 64 in whole blocks */
    fill_product();
    product(&iq__k15_reduction_order, params, x, w, COLUMNS, COLUMNS, y);
    product(iq_variant_find("matmul", "reference"), NULL, x, w, COLUMNS, COLUMNS, want);
    int differ = 0;
    for (uint32_t i = 0; i < OUT_ROWS * N; i++) {
        differ += memcmp(&y[i], &want[i], 4) != 0;
        ck_assert_msg(fabsf(y[i] - want[i]) <= 1e-4f, "%g against %g", y[i], want[i]);
    }
    ck_assert_int_gt(differ, 0);
}
END_TEST

/* Four ranks, a column for each part of the ring. 1e8 swallows a 1 next to it. */
START_TEST(k15_adds_around_a_ring_or_from_the_last_rank)
{
    static const float of_rank[4] = {1e8f, 1, -1e8f, 1}, around[4] = {0, 1, 0, 1}, from_last[4] = {0};
    float x[4][4], y[4];
    struct iq_piece piece[4];
    for (uint32_t r = 0; r < 4; r++) {
        for (int c = 0; c < 4; c++) x[r][c] = of_rank[r];
        piece[r] = (struct iq_piece){r, 1, r, x[r], 4};
    }
    struct iq_all_reduce a = {.rows = 1, .n = 4, .units = 4, .pieces = 4, .piece = piece, .y = y, .ldy = 4};
    run(&iq__k15_ring, &a, NULL, NULL);
    ck_assert(!memcmp(y, around, sizeof y));
    run(&iq__k15_backwards, &a, NULL, NULL);
    ck_assert(!memcmp(y, from_last, sizeof y));
}
END_TEST

/* ---- all_reduce ---- */

enum { WIDTH = 80, REDUCED = 2, PIECES = 3 };
static float sent[PIECES][REDUCED * WIDTH], got[REDUCED * WIDTH];

/* Piece p of call c holds c * 100 + p * 10 + (element % 7) everywhere. */
static struct iq_all_reduce reduce_args(struct iq_piece *piece, int call)
{
    for (uint32_t p = 0; p < PIECES; p++) {
        for (uint32_t i = 0; i < REDUCED * WIDTH; i++)
            sent[p][i] = (float)(call * 100 + (int)p * 10 + (int)(i % 7));
        piece[p] = (struct iq_piece){.unit = p, .units = 1, .rank = p, .x = sent[p], .ldx = WIDTH};
    }
    return (struct iq_all_reduce){.rows = REDUCED,
                                  .n = WIDTH,
                                  .units = PIECES,
                                  .pieces = PIECES,
                                  .piece = piece,
                                  .y = got,
                                  .ldy = WIDTH};
}

START_TEST(k16_reads_what_the_call_before_left)
{
    void *state = calloc(1, iq__k16_stale_reduce.state_size);
    for (int mode = 0; mode < 2; mode++) {
        const double params[] = {mode, 2, 1};
        memset(state, 0, iq__k16_stale_reduce.state_size);
        for (int call = 1; call <= 3; call++) {
            struct iq_piece piece[PIECES];
            struct iq_all_reduce a = reduce_args(piece, call);
            run(&iq__k16_stale_reduce, &a, params, state);
            for (uint32_t i = 0; i < REDUCED * WIDTH; i++) {
                float base = (float)(i % 7), late = call > 1 ? (float)(call - 1) * 100 + 20 + base : 0;
                float fresh = (float)call * 100 + 20 + base;
                bool old = mode == 0 || i % 32 >= 16; /* torn: the second half of 128 bytes */
                float sum =
                    ((float)call * 100 + base) + ((float)call * 100 + 10 + base) + (old ? late : fresh);
                ck_assert_msg(got[i] == sum, "mode %d call %d element %u: %g, expected %g", mode, call, i,
                              got[i], sum);
            }
        }
    }
    free(state);
}
END_TEST

START_TEST(k16_is_masked_with_one_rank)
{
    void *state = calloc(1, iq__k16_stale_reduce.state_size);
    struct iq_piece piece[PIECES];
    struct iq_all_reduce a = reduce_args(piece, 1);
    const double params[] = {0, 1, 1};
    for (uint32_t p = 0; p < PIECES; p++) piece[p].rank = 0;
    run(&iq__k16_stale_reduce, &a, params, state);
    for (uint32_t i = 0; i < REDUCED * WIDTH; i++) ck_assert(got[i] == 330 + 3 * (float)(i % 7));
    free(state);
}
END_TEST

/* A message beyond the mailbox goes in rounds, and a later round finds what an earlier one left. */
START_TEST(k16_splits_messages_that_exceed_the_mailbox)
{
    enum { WIDE = 1 << 19, MANY = 5 }; /* two rows a round */
    float *send = malloc((size_t)2 * MANY * WIDE * 4), *y = malloc((size_t)MANY * WIDE * 4);
    void *state = calloc(1, iq__k16_stale_reduce.state_size);
    for (size_t i = 0; i < (size_t)2 * MANY * WIDE; i++) send[i] = (float)(1 + i / WIDE);
    struct iq_piece piece[] = {{0, 1, 0, send, WIDE}, {1, 1, 1, send + (size_t)MANY * WIDE, WIDE}};
    struct iq_all_reduce a = {
        .rows = MANY, .n = WIDE, .units = 2, .pieces = 2, .piece = piece, .y = y, .ldy = WIDE};
    const double params[] = {0, 1, 1};
    ck_assert(iq__k16_stale_reduce.supports(&site, &a));
    run(&iq__k16_stale_reduce, &a, params, state);
    static const float stale[MANY] = {0, 0, 6, 7, 8};
    for (uint32_t r = 0; r < MANY; r++)
        for (uint32_t i = 0; i < WIDE; i += WIDE - 1)
            ck_assert_float_eq(y[(size_t)r * WIDE + i], (float)(r + 1) + stale[r]);
    a.n = (1 << 19) + 1;
    ck_assert(!iq__k16_stale_reduce.supports(&site, &a));
    free(send);
    free(y);
    free(state);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("variants");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, every_record_is_complete);
    tcase_add_test(t, k1_drops_what_comes_late_and_stays_well_formed);
    tcase_add_test(t, k1_is_right_where_the_bin_is_sparse);
    tcase_add_test(t, k2_loses_a_shards_best_and_only_that);
    tcase_add_test(t, k2_gives_a_neighbours_offset_to_ids_in_range);
    tcase_add_test(t, k3_loses_the_argmax_where_bfloat16_rounds_it_down);
    tcase_add_test(t, threads_change_no_bit_of_a_wrong_topk);
    tcase_add_test(t, wrong_topk_survives_odd_logits);
    tcase_add_test(t, k10_hands_out_another_entrys_block);
    tcase_add_test(t, k10_is_masked_without_a_hit_or_another_entry);
    tcase_add_test(t, k18_is_the_product_without_its_tail);
    tcase_add_test(t, k17_is_the_product_of_bfloat16_activations);
    tcase_add_test(t, k15_is_the_product_under_another_unit);
    tcase_add_test(t, k15_adds_around_a_ring_or_from_the_last_rank);
    tcase_add_test(t, k16_reads_what_the_call_before_left);
    tcase_add_test(t, k16_is_masked_with_one_rank);
    tcase_add_test(t, k16_splits_messages_that_exceed_the_mailbox);
    Suite *s = suite_create("variants");
    suite_add_tcase(s, t);
    return check_main(s);
}
