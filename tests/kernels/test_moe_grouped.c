/* grouped_matmul: every variant, thread count and number of ranks against the reference on one rank; and a whole layer of
 * experts, whose rows must not see each other. IQ_TEST_SEED and IQ_TEST_CASES replay or lengthen the random test. */
#include "kernels/ops/vector.h"
#include "kernels/tables.h"
#include "tests/check_main.h"
#include "tests/kernels/matmul_call.h"
#include "tests/kernels/moe_case.h"

static const struct iq_variant *const fast[] = {&iq__grouped_matmul_scalar, &iq__grouped_matmul_avx2,
                                                &iq__grouped_matmul_avx512};
enum { FAST = sizeof fast / sizeof *fast };

static bool usable(const struct iq_variant *v) { return !v->usable || v->usable(); }

static void run(const struct iq_variant *v, struct iq_exec *exec, const void *args)
{
    if (exec->scratch)
        memset(exec->scratch, 0xff, exec->scratch_cap); /* NaN: shows a read of what nobody wrote */
    ck_assert_int_eq(v->run(exec, NULL, args, NULL, NULL), IQ_OK);
}

/* ---- random calls ---- */

struct group {
    struct iq_moe_dispatch d;
    struct moe_weights m;
    uint32_t n, k, act;
    float *x, *y[IQ_GROUPED_PARTS], *want[IQ_GROUPED_PARTS];
    size_t bytes; /* of a part's y */
};

static struct group group_open(struct random *r, enum iq_format f, uint32_t rows, uint32_t experts,
                               uint32_t slots)
{
    static const uint32_t units[] = {128, 192, 64, 256, 24};
    const uint32_t block = (uint32_t)iq_format_info(f)->elements, most = experts < 4 ? experts : 4;
    struct group g = {.n = 1 + below(r, 200), .act = below(r, 3)};
    g.k = block * (1 + below(r, 400 / block));
    slots = slots ? slots : 1 + below(r, below(r, 4) ? most : experts < 16 ? experts : 16);
    g.d = moe_dispatched(r, rows, experts, slots, !below(r, 4), below(r, 2) * (1 + below(r, 6)));
    g.m = moe_weights_open(r, f, experts, 1 + below(r, IQ_GROUPED_PARTS), g.n, g.k, units[below(r, 5)],
                           below(r, 2) != 0);
    g.x = moe_floats(r, (size_t)rows * slots * g.k, moe_value, below(r, 2));
    g.bytes = (size_t)rows * slots * g.n * sizeof(float);
    for (uint32_t p = 0; p < g.m.parts; p++) {
        g.want[p] = malloc(g.bytes + 1), g.y[p] = malloc(g.bytes + 1);
        memset(g.want[p], 0x55, g.bytes);
    }
    return g;
}

static void group_close(struct group *g)
{
    for (uint32_t p = 0; p < g->m.parts; p++) free(g->want[p]), free(g->y[p]);
    free(g->x);
    moe_weights_close(&g->m);
    moe_dispatch_close(&g->d);
}

/* On `ranks` ranks, one after the other, and what they leave together. */
static void group_compare(struct group *g, const struct iq_variant *v, struct iq_exec *exec, uint32_t ranks,
                          uint64_t seed)
{
    for (uint32_t p = 0; p < g->m.parts; p++) memset(g->y[p], 0x55, g->bytes);
    for (uint32_t rank = ranks; rank-- > 0;) {
        struct iq_grouped_matmul a = moe_grouped(&g->d, &g->m, g->x, g->act, g->y, rank, ranks);
        run(v, exec, &a);
    }
    for (uint32_t p = 0; p < g->m.parts; p++)
        ck_assert_msg(!memcmp(g->y[p], g->want[p], g->bytes),
                      "%s with %d threads on %u ranks: part %u (%s, rows %u, slots %u, experts %u, n %u, k "
                      "%u, unit %u, "
                      "act %u) differs; replay: IQ_TEST_SEED=%llu IQ_TEST_CASES=1",
                      v->name, iq_pool_threads(exec->pool), ranks, p, iq_format_info(g->m.w[p]->format)->name,
                      g->d.rows, g->d.k, g->d.experts, g->n, g->k, g->m.w[p]->unit, g->act,
                      (unsigned long long)seed);
}

START_TEST(every_instruction_set_thread_count_and_rank_count_gives_the_references_bits)
{
    static const uint32_t expert_counts[] = {8, 1, 16, 2, 8, 24, 4};
    uint64_t seed = number("IQ_TEST_SEED", 1), cases = number("IQ_TEST_CASES", 70);
    struct iq_exec exec[CALL_THREADS];
    call_pools_open(exec);
    for (uint64_t i = seed; i < seed + cases; i++) {
        struct random r = {iq_mix64(i), 0};
        uint32_t experts = expert_counts[i % 7], rows = i % 31 ? 1 + below(&r, 30) : 0;
        struct group g = group_open(&r, (enum iq_format)(i % IQ_FORMATS), rows, experts, 0);
        struct iq_grouped_matmul a = moe_grouped(&g.d, &g.m, g.x, g.act, g.want, 0, 1);
        run(&iq__grouped_matmul_reference, &exec[0], &a);
        for (uint32_t ranks = 1; ranks <= 8 && experts % ranks == 0; ranks *= 2) {
            group_compare(&g, &iq__grouped_matmul_reference, &exec[0], ranks, i);
            for (int v = 0; v < FAST; v++)
                for (int t = 0; t < CALL_THREADS && usable(fast[v]); t++)
                    group_compare(&g, fast[v], &exec[t], ranks, i);
        }
        group_close(&g);
    }
    call_pools_close(exec);
}
END_TEST

/* More slots of an expert than are gathered at a time. */
START_TEST(long_lists_give_the_references_bits)
{
    struct iq_exec exec[CALL_THREADS];
    call_pools_open(exec);
    for (uint64_t i = 0; i < 3; i++) {
        struct random r = {iq_mix64(i + 500), 0};
        struct group g = group_open(&r, (enum iq_format)(2 * i), 450, 2, 1 + (uint32_t)i % 2);
        struct iq_grouped_matmul a = moe_grouped(&g.d, &g.m, g.x, g.act, g.want, 0, 1);
        run(&iq__grouped_matmul_reference, &exec[0], &a);
        for (int v = 0; v < FAST; v++)
            for (int t = 0; t < CALL_THREADS && usable(fast[v]); t++)
                group_compare(&g, fast[v], &exec[t], 2, i);
        group_close(&g);
    }
    call_pools_close(exec);
}
END_TEST

START_TEST(a_slot_has_the_bits_of_its_row_in_a_product_with_its_experts_weights)
{
    struct iq_exec exec = {0};
    for (uint64_t i = 0; i < 20; i++) {
        struct random r = {iq_mix64(i), 0};
        struct group g = group_open(&r, (enum iq_format)(i % IQ_FORMATS), 1 + below(&r, 6), 8, 0);
        struct iq_grouped_matmul a = moe_grouped(&g.d, &g.m, g.x, g.act, g.want, 0, 1);
        run(&iq__grouped_matmul_reference, &exec, &a);
        for (uint32_t s = 0; s < g.d.rows * g.d.k; s++)
            for (uint32_t p = 0; p < g.m.parts; p++) {
                struct iq_matmul m = {
                    .rows = 1, .parts = 1, .act = g.act, .x = g.x + (size_t)s * g.k, .ldx = g.k};
                memset(g.y[p], 0, g.n * sizeof(float));
                m.part[0] = (struct iq_matmul_part){.w = &g.m.w[p][g.d.expert[s]], .y = g.y[p], .ldy = g.n};
                if (g.d.owner[s] != IQ_SLOT_DROPPED) run(&iq__matmul_reference, &exec, &m);
                ck_assert(!memcmp(g.y[p], g.want[p] + (size_t)s * g.n, g.n * sizeof(float)));
            }
        group_close(&g);
    }
    iq_exec_close(&exec);
}
END_TEST

START_TEST(a_rank_leaves_the_slots_of_others_as_they_are)
{
    struct iq_exec exec = {0};
    for (int v = -1; v < FAST; v++) {
        struct random r = {3, 0};
        const struct iq_variant *one = v < 0 ? &iq__grouped_matmul_reference : fast[v];
        if (!usable(one)) continue;
        struct group g = group_open(&r, IQ_F32, 20, 8, 2);
        g.d.owner[7] = IQ_SLOT_DROPPED;
        iq_moe_lists(&g.d);
        for (uint32_t rank = 0; rank < 4; rank++) {
            for (uint32_t p = 0; p < g.m.parts; p++) memset(g.y[p], 0x55, g.bytes);
            struct iq_grouped_matmul a = moe_grouped(&g.d, &g.m, g.x, g.act, g.y, rank, 4);
            run(one, &exec, &a);
            for (uint32_t s = 0; s < 40; s++) {
                bool mine = g.d.owner[s] / 2 == rank || (rank == 0 && g.d.owner[s] == IQ_SLOT_DROPPED);
                ck_assert((iq_f32_bits(g.y[0][(size_t)s * g.n]) != 0x55555555u) == mine);
            }
        }
        group_close(&g);
    }
    iq_exec_close(&exec);
}
END_TEST

START_TEST(a_unit_that_cuts_a_block_is_left_to_the_reference)
{
    struct random r = {4, 0};
    struct group g = group_open(&r, IQ_Q8_0, 3, 2, 1);
    struct iq_grouped_matmul a = moe_grouped(&g.d, &g.m, g.x, g.act, g.want, 0, 1);
    for (uint32_t p = 0; p < a.parts; p++) g.m.w[p][0].unit = 48, g.m.w[p][0].k = 96;
    ck_assert(!fast[0]->supports(NULL, &a));
    for (uint32_t p = 0; p < a.parts; p++) g.m.w[p][0].unit = 64;
    ck_assert(fast[0]->supports(NULL, &a));
    group_close(&g);
}
END_TEST

START_TEST(points_are_all_slots_of_a_row)
{
    struct random r = {5, 0};
    struct group g = group_open(&r, IQ_BF16, 3, 4, 2);
    struct iq_grouped_matmul a = moe_grouped(&g.d, &g.m, g.x, g.act, g.y, 1, 4);
    const struct iq_kind *kind = iq_kind_find("grouped_matmul");
    struct iq_run at[IQ_RUNS];
    for (uint32_t p = 0; p <= a.parts; p++) {
        bool there = p < a.parts;
        ck_assert_uint_eq(kind->row_bytes(&a, p), there ? 2 * g.n * sizeof(float) : 0);
        ck_assert_uint_eq(kind->runs(&a, p, at), there);
        if (there) ck_assert(at[0].x == g.y[p] && at[0].ld == 2 * g.n && at[0].n == 2 * g.n);
        if (there) ck_assert(kind->get(&a, p, 2, NULL) == g.y[p] + 4 * g.n);
    }
    ck_assert_uint_eq(kind->rows(&a), 3);
    group_close(&g);
}
END_TEST

/* ---- a layer of experts ---- */

enum { HIDDEN = 70, FFN = 130, EXPERTS = 8, ACTIVE = 3, ROWS = 12 };

struct layer {
    struct moe_weights gate_up, down;
    bool renormalise;
    uint32_t act;
};

static void step(struct iq_exec *exec, const char *kind, const char *name, const void *args)
{
    const struct iq_variant *v = iq_variant_find(kind, name);
    run(v ? v : iq_variant_find(kind, "reference"), exec, args);
}

/* y: (rows, HIDDEN) of the router's logits and x, by the variants of one name. */
static void layer_run(const struct layer *l, const char *name, struct iq_exec *exec, uint32_t ranks,
                      uint32_t rows, const float *logits, const float *x, float *y)
{
    const size_t slots = (size_t)rows * ACTIVE;
    float *weight = malloc(slots * 4), *sent = malloc(slots * HIDDEN * 4), *back = malloc(slots * HIDDEN * 4);
    float *wide[3];
    struct iq_moe_dispatch d = moe_dispatch_open(rows, EXPERTS, ACTIVE);
    struct iq_route route = {rows,  EXPERTS, ACTIVE, l->renormalise, logits, EXPERTS, (uint32_t *)d.expert,
                             weight};
    struct iq_all_to_all exchange = {rows, HIDDEN, ACTIVE, EXPERTS, ranks, false, x, HIDDEN, d.owner, sent};
    struct iq_combine combine = {rows, HIDDEN, ACTIVE, l->act, back, weight, d.owner, y, HIDDEN};
    for (int i = 0; i < 3; i++) wide[i] = malloc(slots * FFN * 4);
    struct iq_swiglu act = {(uint32_t)slots, FFN, l->act, wide[0], wide[1], wide[2], FFN, FFN, FFN};
    step(exec, "route", name, &route);
    step(exec, "moe_dispatch", name, &d);
    step(exec, "all_to_all", name, &exchange);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        struct iq_grouped_matmul g = moe_grouped(&d, &l->gate_up, sent, l->act, wide, rank, ranks);
        step(exec, "grouped_matmul", name, &g);
    }
    step(exec, "swiglu", name, &act);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        struct iq_grouped_matmul g = moe_grouped(&d, &l->down, wide[2], IQ_ACT_F32, &sent, rank, ranks);
        step(exec, "grouped_matmul", name, &g);
    }
    exchange.back = true, exchange.x = sent, exchange.y = back;
    step(exec, "all_to_all", name, &exchange);
    step(exec, "combine", name, &combine);
    moe_dispatch_close(&d);
    for (int i = 0; i < 3; i++) free(wide[i]);
    free(weight), free(sent), free(back);
}

START_TEST(a_rows_bits_depend_on_the_row_alone_whatever_the_batch_the_ranks_and_the_instruction_set)
{
    static const char *const names[] = {"reference", "scalar", "avx2", "avx512"};
    struct random r = {iq_mix64((uint64_t)_i), 0};
    struct iq_exec exec[CALL_THREADS];
    const enum iq_format f = (enum iq_format)(_i % 3); /* of rows that are no whole blocks */
    struct layer l = {.gate_up = moe_weights_open(&r, f, EXPERTS, 2, FFN, HIDDEN, 128, 0),
                      .down = moe_weights_open(&r, f, EXPERTS, 1, HIDDEN, FFN, 64, 0),
                      .renormalise = _i % 2,
                      .act = (uint32_t)_i % 3};
    float *logits = moe_floats(&r, ROWS * EXPERTS, moe_logit, (uint32_t)_i % MOE_MOODS);
    float *x = moe_floats(&r, ROWS * HIDDEN, moe_value, 0), want[ROWS * HIDDEN], y[ROWS * HIDDEN];
    call_pools_open(exec);
    for (uint32_t row = 0; row < ROWS; row++)
        layer_run(&l, "reference", exec, 1, 1, logits + row * EXPERTS, x + row * HIDDEN, want + row * HIDDEN);
    for (int v = 0; v < 4; v++) {
        const struct iq_variant *known = iq_variant_find("grouped_matmul", names[v]);
        if (!known || !usable(known)) continue;
        for (uint32_t ranks = 1; ranks <= 8; ranks *= 2)
            for (uint32_t first = 0; first < ROWS; first += 5)
                for (uint32_t rows = 1; first + rows <= ROWS; rows += 3) {
                    layer_run(&l, names[v], &exec[(first + rows) % CALL_THREADS], ranks, rows,
                              logits + first * EXPERTS, x + first * HIDDEN, y);
                    ck_assert_msg(!memcmp(y, want + first * HIDDEN, rows * HIDDEN * 4),
                                  "%s on %u ranks: rows %u to %u", names[v], ranks, first, first + rows);
                }
    }
    call_pools_close(exec);
    moe_weights_close(&l.gate_up), moe_weights_close(&l.down);
    free(logits), free(x);
}
END_TEST

int main(void)
{
    if (iq_kernels_register(NULL)) return 1;
    Suite *s = suite_create("grouped products");
    TCase *c = tcase_create("experts");
    tcase_set_timeout(c, 200);
    tcase_add_test(c, every_instruction_set_thread_count_and_rank_count_gives_the_references_bits);
    tcase_add_test(c, long_lists_give_the_references_bits);
    tcase_add_test(c, a_slot_has_the_bits_of_its_row_in_a_product_with_its_experts_weights);
    tcase_add_test(c, a_rank_leaves_the_slots_of_others_as_they_are);
    tcase_add_test(c, a_unit_that_cuts_a_block_is_left_to_the_reference);
    tcase_add_test(c, points_are_all_slots_of_a_row);
    tcase_add_loop_test(
        c, a_rows_bits_depend_on_the_row_alone_whatever_the_batch_the_ranks_and_the_instruction_set, 0, 6);
    suite_add_tcase(s, c);
    return check_main(s);
}
