#include "kernels/arith.h"
#include "kernels/base/rng.h"
#include "kernels/exec.h"
#include "kernels/ops/reduce.h"
#include "kernels/shard.h"
#include "kernels/tables.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { UNITS = 64, COLUMNS = 70, REDUCE_ROWS = 3 };

static const struct iq_variant *variant(size_t n)
{
    for (size_t i = 0; iq__variants_attention[i]; i++)
        if (!strcmp(iq__variants_attention[i]->kind, "all_reduce") && n-- == 0)
            return iq__variants_attention[i];
    return NULL;
}

/* A unit's sum: large and small, of both signs, so that another order gives other bits. */
static float unit_sum(uint32_t unit, uint32_t r, uint32_t i)
{
    uint64_t z = iq_mix64(iq_mix64((uint64_t)unit << 32 | r << 16 | i) + 1);
    return ldexpf((float)(int32_t)(z >> 32), (int)(z % 24) - 40);
}

/* The contract's tree over [unit, unit + units): what one rank's matmul computes. */
static float tree(uint32_t unit, uint32_t units, uint32_t r, uint32_t i)
{
    if (units == 1) return unit_sum(unit, r, i);
    uint32_t half = (units + 1) / 2;
    return tree(unit, half, r, i) + tree(unit + half, units - half, r, i);
}

static bool is_node(uint32_t unit, uint32_t units, uint32_t at, uint32_t n)
{
    while (units > 1 && !(unit == at && units == n)) {
        uint32_t half = (units + 1) / 2;
        if (at >= unit + half)
            unit += half, units -= half;
        else
            units = half;
    }
    return unit == at && units == n;
}

START_TEST(runs_tile_the_units_and_are_made_of_nodes)
{
    struct iq_shard shard[IQ_SHARD_RANKS];
    struct iq_err err;
    for (uint32_t units = 1; units <= UNITS; units++)
        for (uint32_t ranks = 1; ranks <= units; ranks++) {
            ck_assert_msg(iq_shard_plan(units, ranks, "units", shard, &err) == IQ_OK, "%s", err.text);
            uint32_t at = 0, least = units, most = 0;
            for (uint32_t r = 0; r < ranks; r++) {
                ck_assert_uint_eq(shard[r].unit, at);
                ck_assert_uint_gt(shard[r].units, 0);
                least = shard[r].units < least ? shard[r].units : least;
                most = shard[r].units > most ? shard[r].units : most;
                for (uint32_t n = 0; n < shard[r].nodes; n++) {
                    struct iq_shard_node node = shard[r].node[n];
                    ck_assert_uint_eq(node.unit, at);
                    ck_assert(is_node(0, units, node.unit, node.units));
                    at += node.units;
                }
                ck_assert_uint_eq(at, shard[r].unit + shard[r].units);
                if ((ranks & (ranks - 1)) == 0) ck_assert_uint_eq(shard[r].nodes, 1);
            }
            ck_assert_uint_eq(at, units);
            ck_assert_uint_le(most - least, 1);
        }
}
END_TEST

START_TEST(nodes_of_a_run_are_the_largest_there_are)
{
    struct iq_shard shard[IQ_SHARD_RANKS];
    for (uint32_t units = 1; units <= UNITS; units++)
        for (uint32_t ranks = 1; ranks <= units; ranks++) {
            ck_assert_int_eq(iq_shard_plan(units, ranks, "units", shard, NULL), IQ_OK);
            for (uint32_t r = 0; r < ranks; r++)
                for (uint32_t n = 0; n < shard[r].nodes; n++)
                    for (uint32_t from = shard[r].unit; from <= shard[r].node[n].unit; from++)
                        for (uint32_t end = shard[r].node[n].unit + shard[r].node[n].units;
                             end <= shard[r].unit + shard[r].units; end++)
                            if (end - from > shard[r].node[n].units && is_node(0, units, from, end - from))
                                ck_abort_msg("%u units, %u ranks, rank %u: (%u, %u) is a node too", units,
                                             ranks, r, from, end - from);
        }
}
END_TEST

START_TEST(smollm2_on_three_ranks_has_a_kv_group_each)
{
    struct iq_shard s[3];
    ck_assert_int_eq(iq_shard_plan(3, 3, "KV groups", s, NULL), IQ_OK);
    for (uint32_t r = 0; r < 3; r++) ck_assert(s[r].unit == r && s[r].units == 1 && s[r].nodes == 1);
    ck_assert_int_eq(iq_shard_plan(12, 3, "FFN units", s, NULL), IQ_OK); /* 0-2 3 | 4 5 6-7 | 8 9-11 */
    ck_assert(s[0].nodes == 2 && s[0].node[0].units == 3 && s[0].node[1].unit == 3 &&
              s[0].node[1].units == 1);
    ck_assert(s[1].nodes == 3 && s[1].node[2].units == 2 && s[2].nodes == 2);
}
END_TEST

START_TEST(more_ranks_than_units_are_refused_by_name)
{
    struct iq_shard s[IQ_SHARD_RANKS];
    struct iq_err err;
    ck_assert_int_eq(iq_shard_plan(3, 4, "KV groups", s, &err), IQ_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "4 ranks"));
    ck_assert_ptr_nonnull(strstr(err.text, "3 KV groups"));
    ck_assert_int_eq(iq_shard_plan(3, 0, "KV groups", s, &err), IQ_UNSUPPORTED);
    ck_assert_int_eq(iq_shard_plan(1000, IQ_SHARD_RANKS + 1, "KV groups", s, &err), IQ_UNSUPPORTED);
    ck_assert_int_eq(iq_shard_plan(0, 1, "KV groups", s, &err), IQ_UNSUPPORTED);
}
END_TEST

/* Units that no memory would hold: planned or refused, but neither a hang nor an overrun. */
START_TEST(huge_numbers_of_units_are_planned_or_refused)
{
    static const uint32_t units[] = {224, 1000, 65537, 12345677, UINT32_MAX};
    struct iq_shard s[IQ_SHARD_RANKS];
    for (size_t u = 0; u < sizeof units / sizeof *units; u++)
        for (uint32_t ranks = 1; ranks <= IQ_SHARD_RANKS; ranks++) {
            int status = iq_shard_plan(units[u], ranks, "units", s, NULL);
            ck_assert(status == IQ_OK || status == IQ_LIMIT);
            if ((ranks & (ranks - 1)) == 0 || units[u] == 224) ck_assert_int_eq(status, IQ_OK);
        }
}
END_TEST

struct reduce_case {
    struct iq_all_reduce a;
    struct iq_piece piece[IQ_REDUCE_PIECES];
    float *x[IQ_REDUCE_PIECES], y[REDUCE_ROWS * (COLUMNS + 2)];
};

static void reduce_open(struct reduce_case *c, uint32_t units, uint32_t ranks)
{
    struct iq_shard shard[IQ_SHARD_RANKS];
    ck_assert_int_eq(iq_shard_plan(units, ranks, "units", shard, NULL), IQ_OK);
    c->a = (struct iq_all_reduce){
        .rows = REDUCE_ROWS, .n = COLUMNS, .units = units, .piece = c->piece, .y = c->y, .ldy = COLUMNS + 2};
    for (uint32_t s = 0; s < ranks; s++)
        for (uint32_t n = 0; n < shard[s].nodes; n++) {
            struct iq_shard_node node = shard[s].node[n];
            float *x = c->x[c->a.pieces] = malloc(REDUCE_ROWS * (COLUMNS + 1) * sizeof(float));
            for (uint32_t r = 0; r < REDUCE_ROWS; r++)
                for (uint32_t i = 0; i < COLUMNS; i++)
                    x[r * (COLUMNS + 1) + i] = tree(node.unit, node.units, r, i);
            c->piece[c->a.pieces++] = (struct iq_piece){node.unit, node.units, s, x, COLUMNS + 1};
        }
}

static void reduce_close(struct reduce_case *c)
{
    for (uint32_t p = 0; p < c->a.pieces; p++) free(c->x[p]);
}

START_TEST(any_number_of_ranks_gives_the_bits_of_one_tree)
{
    static struct reduce_case c;
    struct iq_exec x = {0};
    for (uint32_t units = 1; units <= UNITS; units++)
        for (uint32_t ranks = 1; ranks <= units; ranks += units > 20 ? 3 : 1) {
            reduce_open(&c, units, ranks);
            for (size_t v = 0; variant(v); v++) {
                memset(c.y, 0x55, sizeof c.y);
                ck_assert_int_eq(variant(v)->run(&x, NULL, &c.a, NULL, NULL), IQ_OK);
                for (uint32_t r = 0; r < REDUCE_ROWS; r++) {
                    for (uint32_t i = 0; i < COLUMNS; i++)
                        if (iq_f32_bits(c.y[r * c.a.ldy + i]) != iq_f32_bits(tree(0, units, r, i)))
                            ck_abort_msg("%s: %u units, %u ranks, row %u, element %u", variant(v)->name,
                                         units, ranks, r, i);
                    ck_assert_uint_eq(iq_f32_bits(c.y[r * c.a.ldy + COLUMNS]), 0x55555555u);
                }
                struct iq_err err;
                ck_assert_msg(iq__kind_all_reduce.check(&c.a, &err) == IQ_OK, "%s", err.text);
            }
            reduce_close(&c);
        }
}
END_TEST

START_TEST(odd_values_activation_types_and_threads_give_the_bits_of_the_reference)
{
    static const float odd[] = {0.0f, -0.0f, NAN, INFINITY, -INFINITY, 0x1p-149f, 65520.0f, 3e38f};
    static struct reduce_case c;
    struct iq_pool *pool[3];
    for (int t = 0; t < 3; t++) ck_assert_int_eq(iq_pool_open(t + 1, &pool[t], NULL), IQ_OK);
    for (uint32_t ranks = 1; ranks <= 9; ranks++)
        for (uint32_t act = IQ_ACT_F32; act <= IQ_ACT_F16; act++) {
            float want[sizeof c.y / sizeof *c.y];
            struct iq_exec ref = {0};
            reduce_open(&c, 9, ranks);
            for (uint32_t p = 0; p < c.a.pieces; p++)
                for (uint32_t i = 0; i < COLUMNS; i++)
                    c.x[p][i] = odd[iq_mix64(p * 1000 + i) % (i % 2 ? 8 : 2)];
            c.a.act = act;
            memset(c.y, 0x55, sizeof c.y);
            ck_assert_int_eq(variant(0)->run(&ref, NULL, &c.a, NULL, NULL), IQ_OK);
            memcpy(want, c.y, sizeof want);
            for (int t = 0; t < 3; t++) {
                struct iq_exec x = {.pool = pool[t]};
                memset(c.y, 0x55, sizeof c.y);
                ck_assert_int_eq(variant(1)->run(&x, NULL, &c.a, NULL, NULL), IQ_OK);
                ck_assert(!memcmp(want, c.y, sizeof want));
            }
            if (ranks == 1)
                ck_assert_uint_eq(iq_f32_bits(c.y[COLUMNS + 2]), /* rounded once, where it ends */
                                  iq_f32_bits(iq_act_round(tree(0, 9, 1, 0), act)));
            reduce_close(&c);
        }
    for (int t = 0; t < 3; t++) iq_pool_close(pool[t]);
}
END_TEST

START_TEST(pieces_that_are_no_nodes_are_refused)
{
    static struct reduce_case c;
    struct iq_exec x = {0};
    for (size_t v = 0; variant(v); v++)
        for (int wrong = 0; wrong < 6; wrong++) {
            reduce_open(&c, 8, 4);
            switch (wrong) {
            case 0:
                c.a.pieces = 3;
                break;
            case 1:
                c.piece[1].unit = 3;
                break;
            case 2:
                c.piece[1].units = 3;
                break;
            case 3:
                c.a.units = 9;
                break;
            case 4:
                c.piece[3].units = 1;
                break;
            case 5:
                c.piece[0] = (struct iq_piece){0, 5, 0, c.x[0], COLUMNS + 1};
                break;
            }
            ck_assert_msg(variant(v)->run(&x, NULL, &c.a, NULL, NULL) == IQ_SHAPE, "%s, wrong %d",
                          variant(v)->name, wrong);
            c.a.pieces = 4;
            reduce_close(&c);
        }
}
END_TEST

START_TEST(the_check_sees_a_stale_piece_and_forgives_another_order)
{
    static struct reduce_case c;
    struct iq_exec x = {0};
    struct iq_err err;
    reduce_open(&c, 8, 8);
    for (uint32_t r = 0; r < REDUCE_ROWS; r++)
        for (uint32_t i = 0; i < COLUMNS; i++) { /* a ring's order */
            float sum = 0;
            for (uint32_t p = 0; p < 8; p++) sum += c.x[(p + 3) % 8][r * (COLUMNS + 1) + i];
            c.y[r * c.a.ldy + i] = sum;
        }
    ck_assert_msg(iq__kind_all_reduce.check(&c.a, &err) == IQ_OK, "%s", err.text);
    ck_assert_int_eq(variant(1)->run(&x, NULL, &c.a, NULL, NULL), IQ_OK);
    float *stale = c.x[2];
    for (uint32_t i = 0; i < COLUMNS; i++) stale[i] *= 1.5f;
    ck_assert_int_eq(iq__kind_all_reduce.check(&c.a, &err), IQ_MISMATCH);
    reduce_close(&c);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("reduce");
    TCase *t = tcase_create("reduce");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, runs_tile_the_units_and_are_made_of_nodes);
    tcase_add_test(t, nodes_of_a_run_are_the_largest_there_are);
    tcase_add_test(t, smollm2_on_three_ranks_has_a_kv_group_each);
    tcase_add_test(t, more_ranks_than_units_are_refused_by_name);
    tcase_add_test(t, huge_numbers_of_units_are_planned_or_refused);
    tcase_add_test(t, any_number_of_ranks_gives_the_bits_of_one_tree);
    tcase_add_test(t, odd_values_activation_types_and_threads_give_the_bits_of_the_reference);
    tcase_add_test(t, pieces_that_are_no_nodes_are_refused);
    tcase_add_test(t, the_check_sees_a_stale_piece_and_forgives_another_order);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
