/* route, moe_dispatch, all_to_all and combine: every variant against the reference, and the references against plain
 * double arithmetic and the doors' words. IQ_TEST_SEED and IQ_TEST_CASES replay or lengthen the random tests. */
#include "kernels/cpu/topk_order.h"
#include "tests/check_main.h"
#include "tests/kernels/matmul_call.h"
#include "tests/kernels/moe_case.h"

static const char *const fast[] = {"scalar", "avx2", "avx512"};
enum { FAST = sizeof fast / sizeof *fast };

/* NULL: not on this machine. */
static const struct iq_variant *variant(const char *kind, const char *name)
{
    const struct iq_variant *v = iq_variant_find(kind, name);
    return v && (!v->usable || v->usable()) ? v : NULL;
}

static void run(const char *kind, const void *args)
{
    struct iq_exec x = {0};
    ck_assert_int_eq(variant(kind, "reference")->run(&x, NULL, args, NULL, NULL), IQ_OK);
    iq_exec_close(&x);
}

static int status(const char *kind, const char *name, const void *args)
{
    struct iq_exec x = {0};
    int s = variant(kind, name)->run(&x, NULL, args, NULL, NULL);
    iq_exec_close(&x);
    return s;
}

/* A kind's fast variants with 1 to 3 threads, against what the reference left in `want`; `y`: where args have their
 * output, as many bytes. */
static void every_variant(const char *kind, const void *args, const void *want, void *y, size_t bytes,
                          uint64_t seed)
{
    struct iq_exec exec[CALL_THREADS];
    call_pools_open(exec);
    for (int f = 0; f < FAST; f++) {
        const struct iq_variant *v = variant(kind, fast[f]);
        for (int t = 0; t < CALL_THREADS && v; t++) {
            memset(y, 0x55, bytes);
            ck_assert_int_eq(v->run(&exec[t], NULL, args, NULL, NULL), IQ_OK);
            ck_assert_msg(!memcmp(y, want, bytes),
                          "%s of %s with %d threads differs; replay: IQ_TEST_SEED=%llu IQ_TEST_CASES=1",
                          v->name, kind, t + 1, (unsigned long long)seed);
        }
    }
    call_pools_close(exec);
}

/* ---- route ---- */

/* Expert and weight in one block, the experts first. */
struct routed {
    struct iq_route a;
    float *logits;
    uint32_t *out;
    size_t bytes;
};

static struct routed routed_open(struct random *r, uint32_t rows, uint32_t experts, uint32_t k, uint32_t mood)
{
    struct routed c = {.a = {.rows = rows, .experts = experts, .k = k, .renormalise = below(r, 2)}};
    c.a.ld = experts + below(r, 3);
    c.logits = moe_floats(r, rows * c.a.ld, moe_logit, mood);
    c.bytes = (size_t)rows * k * 8;
    c.out = malloc(c.bytes + 1);
    memset(c.out, 0x55, c.bytes);
    c.a.logits = c.logits, c.a.expert = c.out, c.a.weight = (float *)(c.out + (size_t)rows * k);
    return c;
}

static void routed_close(struct routed *c) { free(c->logits), free(c->out); }

static struct routed random_route(struct random *r, uint64_t i)
{
    uint32_t experts = 1 + below(r, i % 5 ? 16 : i % 4 ? 70 : 300), most = experts < 16 ? experts : 16;
    uint32_t k = i % 3 ? 1 + below(r, most) : most;
    return routed_open(r, i % 17 ? 1 + below(r, 9) : 700, experts, k, (uint32_t)(i % MOE_MOODS));
}

START_TEST(route_has_the_references_bits_in_every_instruction_set_and_thread_count)
{
    uint64_t seed = number("IQ_TEST_SEED", 1), cases = number("IQ_TEST_CASES", 400);
    for (uint64_t i = seed; i < seed + cases; i++) {
        struct random r = {iq_mix64(i), 0};
        struct routed c = random_route(&r, i);
        run("route", &c.a);
        uint32_t *want = malloc(c.bytes + 1);
        memcpy(want, c.out, c.bytes);
        every_variant("route", &c.a, want, c.out, c.bytes, i);
        free(want);
        routed_close(&c);
    }
}
END_TEST

/* a before b: larger first, NaN last, then the smaller id. */
static bool before(const float *l, uint32_t a, uint32_t b)
{
    if (isnan(l[a]) || isnan(l[b])) return isnan(l[a]) == isnan(l[b]) ? a < b : isnan(l[b]);
    return l[a] != l[b] ? l[a] > l[b] : a < b;
}

/* Every row of a routing, from scratch: experts by comparing all pairs, weights in double. */
static void route_is_right(const struct iq_route *a)
{
    for (uint32_t r = 0; r < a->rows; r++) {
        const float *l = a->logits + r * a->ld;
        double all = 0, chosen = 0;
        uint32_t best = 0, s = 0;
        for (uint32_t e = 1; e < a->experts; e++) best = before(l, e, best) ? e : best;
        for (uint32_t e = 0; e < a->experts; e++) all += exp((double)l[e] - l[best]);
        for (uint32_t i = 0; i < a->k; i++) chosen += exp((double)l[a->expert[r * a->k + i]] - l[best]);
        for (uint32_t e = 0; e < a->experts; e++) {
            uint32_t better = 0;
            for (uint32_t o = 0; o < a->experts; o++) better += before(l, o, e);
            if (better >= a->k) continue;
            float w = a->weight[r * a->k + s];
            double want = exp((double)l[e] - l[best]) / (a->renormalise ? chosen : all);
            ck_assert_uint_eq(a->expert[r * a->k + s++], e);
            if (isnan(want))
                ck_assert_uint_eq(iq_f32_bits(w), IQ_NAN_BITS);
            else /* each difference rounds once (to 2^-24 of 600 at most), exponentials and sums a few times */
                ck_assert_double_le(fabs(w - want), want * (600 + a->experts) * 0x1p-23 + 0x1p-140);
        }
        ck_assert_uint_eq(s, a->k);
    }
}

START_TEST(route_names_the_best_experts_and_weighs_them_by_their_exponentials)
{
    for (uint64_t i = 0; i < 300; i++) {
        struct random r = {iq_mix64(i + 7000), 0};
        struct routed c = random_route(&r, i);
        run("route", &c.a);
        route_is_right(&c.a);
        ck_assert_int_eq(iq_kind_find("route")->check(&c.a, NULL), IQ_OK);
        routed_close(&c);
    }
}
END_TEST

START_TEST(route_knows_ties_zeros_nan_and_infinities)
{
    const float nan = iq_bits_f32(0xffc12345u), inf = INFINITY;
    static const uint32_t none = IQ_NAN_BITS;
    const struct {
        float logit[4];
        uint32_t expert[2], weight[2]; /* bits; renormalised */
    } row[] = {
        {{1, 1, 1, 1}, {0, 1}, {0x3f000000, 0x3f000000}},
        {{-0.0f, 0.0f, -1, -0.0f}, {0, 1}, {0x3f000000, 0x3f000000}}, /* the zeros are one value */
        {{nan, 2, nan, 2}, {1, 3}, {0x3f000000, 0x3f000000}},
        {{nan, nan, 3, nan}, {0, 2}, {none, none}}, /* nothing else is left; the sum is NaN */
        {{nan, nan, nan, nan}, {0, 1}, {none, none}},
        {{inf, 1, 2, 3}, {0, 3}, {none, none}}, /* inf - inf */
        {{-inf, 5, -inf, -inf}, {0, 1}, {0, 0x3f800000}},
        {{-200, 0, -300, -200}, {0, 1}, {0, 0x3f800000}}, /* the exponential rounds to 0 */
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        for (int v = -1; v < FAST; v++) {
            const char *name = v < 0 ? "reference" : fast[v];
            uint32_t expert[2];
            float weight[2];
            const struct iq_route a = {1, 4, 2, true, row[i].logit, 4, expert, weight};
            if (!variant("route", name)) continue;
            ck_assert_int_eq(status("route", name, &a), IQ_OK);
            ck_assert_msg(!memcmp(expert, row[i].expert, sizeof expert) &&
                              !memcmp(weight, row[i].weight, sizeof weight),
                          "row %zu by %s: experts %u %u, weights %08x %08x", i, name, expert[0], expert[1],
                          iq_f32_bits(weight[0]), iq_f32_bits(weight[1]));
        }
}
END_TEST

START_TEST(route_sums_over_all_experts_by_the_vector_rule)
{
    enum { EXPERTS = 70 };
    struct random r = {5, 0};
    float logit[EXPERTS], e[EXPERTS], lane[IQ_VECTOR_LANES] = {0}, weight[1], max = -INFINITY;
    uint32_t expert[1];
    for (int i = 0; i < EXPERTS; i++) logit[i] = 3 * unit(&r), max = iq_max(max, logit[i]);
    for (int i = 0; i < EXPERTS; i++) e[i] = iq_exp(logit[i] - max), lane[i % 32] += e[i];
    run("route", &(struct iq_route){1, EXPERTS, 1, false, logit, EXPERTS, expert, weight});
    ck_assert_uint_eq(iq_f32_bits(weight[0]), iq_f32_bits(e[expert[0]] / iq_fold32(lane)));
}
END_TEST

START_TEST(route_refuses_more_slots_than_there_are)
{
    float logit[20] = {0}, weight[20];
    uint32_t expert[20];
    for (int v = -1; v < FAST; v++) {
        const char *name = v < 0 ? "reference" : fast[v];
        if (!variant("route", name)) continue;
        struct iq_route a = {1, 2, 3, true, logit, 20, expert, weight};
        ck_assert_int_eq(status("route", name, &a), IQ_SHAPE);
        a.experts = 20, a.k = IQ_EXPERT_SLOTS + 1;
        ck_assert_int_eq(status("route", name, &a), IQ_LIMIT);
        a.experts = IQ_EXPERTS + 1, a.k = 2;
        ck_assert_int_eq(status("route", name, &a), IQ_LIMIT);
    }
}
END_TEST

/* What a faulty routing would hand on is found. */
START_TEST(routes_check_finds_a_worse_expert_and_a_wrong_order)
{
    float logit[4] = {1, 4, 2, 3}, weight[2];
    uint32_t expert[2];
    const struct iq_route a = {1, 4, 2, true, logit, 4, expert, weight};
    const struct iq_kind *kind = iq_kind_find("route");
    struct iq_err err;
    run("route", &a);
    ck_assert_int_eq(kind->check(&a, &err), IQ_OK);
    expert[0] = 1, expert[1] = 2;
    ck_assert_int_eq(kind->check(&a, &err), IQ_MISMATCH);
    expert[0] = 3, expert[1] = 1;
    ck_assert_int_eq(kind->check(&a, &err), IQ_MISMATCH);
    expert[0] = 1, expert[1] = 4;
    ck_assert_int_eq(kind->check(&a, &err), IQ_MISMATCH);
}
END_TEST

/* ---- moe_dispatch ---- */

START_TEST(dispatch_lists_each_experts_slots_by_row)
{
    const struct iq_kind *kind = iq_kind_find("moe_dispatch");
    for (uint64_t i = 0; i < 200; i++) {
        struct random r = {iq_mix64(i), 0};
        uint32_t experts = 1 + below(&r, 40), k = 1 + below(&r, experts < 16 ? experts : 16),
                 rows = below(&r, 60);
        struct iq_moe_dispatch d = moe_dispatched(&r, rows, experts, k, i % 3 == 0, 0);
        struct iq_err err = {0};
        memset(d.first, 0x55, (experts + (size_t)1) * 4);
        memset(d.owner, 0x55, (size_t)rows * k * 4);
        run("moe_dispatch", &d);
        ck_assert_int_eq(d.first[experts], rows * k);
        ck_assert(!memcmp(d.owner, d.expert, (size_t)rows * k * 4));
        ck_assert_msg(kind->check(&d, &err) == IQ_OK, "%s", err.text);
        moe_dispatch_close(&d);
    }
}
END_TEST

START_TEST(dispatch_drops_a_slot_whose_expert_is_none_of_the_layers)
{
    uint32_t expert[4] = {1, 7, IQ_SLOT_DROPPED, 2}, owner[4], first[4], list[4];
    run("moe_dispatch", &(struct iq_moe_dispatch){2, 3, 2, expert, owner, first, list});
    ck_assert(owner[0] == 1 && owner[1] == IQ_SLOT_DROPPED && owner[2] == IQ_SLOT_DROPPED && owner[3] == 2);
    ck_assert(first[0] == 0 && first[1] == 0 && first[2] == 1 && first[3] == 2);
    ck_assert(list[0] == 0 && list[1] == 3);
}
END_TEST

/* A fault drops slots of all rows; the rows that it did not win are put back. */
START_TEST(lists_follow_when_rows_are_put_back)
{
    const struct iq_kind *kind = iq_kind_find("moe_dispatch");
    struct random r = {11, 0};
    struct iq_moe_dispatch d = moe_dispatched(&r, 9, 5, 2, 0, 0), was = moe_dispatch_open(9, 5, 2);
    memcpy(was.owner, d.owner, sizeof(uint32_t[18]));
    memset(d.owner, 0xff, sizeof(uint32_t[18]));
    iq_moe_lists(&d);
    ck_assert_uint_eq(d.first[5], 0);
    for (uint32_t row = 0; row < 9; row++)
        if (row != 4) kind->put(&d, 0, row, was.owner + row * 2);
    kind->derive(&d);
    ck_assert_uint_eq(d.first[5], 16);
    ck_assert_int_eq(kind->check(&d, NULL), IQ_OK);
    moe_dispatch_close(&d), moe_dispatch_close(&was);
}
END_TEST

START_TEST(dispatchs_check_finds_strays)
{
    const struct iq_kind *kind = iq_kind_find("moe_dispatch");
    for (int i = 0; i < 5; i++) {
        struct random r = {12, 0};
        struct iq_moe_dispatch d = moe_dispatched(&r, 6, 3, 2, 0, 0);
        uint32_t swap = d.list[0];
        ck_assert_int_eq(kind->check(&d, NULL), IQ_OK);
        if (i == 0) d.list[0] = d.list[1], d.list[1] = swap; /* not by row */
        if (i == 1) d.list[2] = d.list[1];                   /* twice */
        if (i == 2) d.owner[5] = IQ_SLOT_DROPPED;            /* in a list all the same */
        if (i == 3) d.owner[0] = 1 - d.owner[0] % 2;         /* not the expert that was chosen */
        if (i == 4) d.first[1]--;
        ck_assert_int_eq(kind->check(&d, NULL), IQ_MISMATCH);
        moe_dispatch_close(&d);
    }
}
END_TEST

/* ---- all_to_all ---- */

START_TEST(what_went_out_comes_back_and_dropped_slots_are_zero)
{
    for (uint64_t i = 0; i < 60; i++) {
        struct random r = {iq_mix64(i), 0};
        uint32_t rows = 1 + below(&r, 20), k = 1 + below(&r, 4), n = 1 + below(&r, 50),
                 ranks = 1u << below(&r, 4);
        struct iq_moe_dispatch d = moe_dispatched(&r, rows, 8, k, 0, i % 2 ? 3 : 0);
        size_t ldx = n + below(&r, 3), slots = (size_t)rows * k;
        float *x = moe_floats(&r, rows * ldx, moe_value, 1), *y = malloc(slots * n * 4),
              *z = malloc(slots * n * 4);
        struct iq_all_to_all a = {rows, n, k, 8, ranks, false, x, ldx, d.owner, y};
        run("all_to_all", &a);
        a.back = true, a.x = y, a.y = z;
        run("all_to_all", &a);
        for (size_t s = 0; s < slots; s++)
            for (uint32_t c = 0; c < n; c++) {
                uint32_t want = d.owner[s] == IQ_SLOT_DROPPED ? 0 : iq_f32_bits(x[s / k * ldx + c]);
                ck_assert_uint_eq(iq_f32_bits(y[s * n + c]), want);
                ck_assert_uint_eq(iq_f32_bits(z[s * n + c]), want);
            }
        a.ranks = 3;
        ck_assert_int_eq(status("all_to_all", "reference", &a), IQ_SHAPE);
        a.ranks = 0;
        ck_assert_int_eq(status("all_to_all", "reference", &a), IQ_SHAPE);
        free(x), free(y), free(z);
        moe_dispatch_close(&d);
    }
}
END_TEST

/* ---- combine ---- */

struct combined {
    struct iq_combine a;
    struct iq_moe_dispatch d;
    float *x, *weight, *y;
    size_t bytes;
};

static struct combined combined_open(struct random *r, uint32_t rows, uint32_t n, uint32_t k, uint32_t odd)
{
    struct combined c = {.d = moe_dispatched(r, rows, 16, k, 0, 1 + below(r, 5))};
    c.a = (struct iq_combine){.rows = rows, .n = n, .k = k, .act = below(r, 3), .ldy = n + below(r, 3)};
    c.bytes = rows * c.a.ldy * 4;
    c.a.x = c.x = moe_floats(r, (size_t)rows * k * n, moe_value, odd);
    c.a.weight = c.weight = moe_floats(r, (size_t)rows * k, moe_value, odd);
    c.a.y = c.y = malloc(c.bytes);
    c.a.owner = c.d.owner;
    memset(c.y, 0x55, c.bytes);
    return c;
}

static void combined_close(struct combined *c)
{
    moe_dispatch_close(&c->d);
    free(c->x), free(c->weight), free(c->y);
}

START_TEST(combine_has_the_references_bits_in_every_instruction_set_and_thread_count)
{
    uint64_t seed = number("IQ_TEST_SEED", 1), cases = number("IQ_TEST_CASES", 300);
    for (uint64_t i = seed; i < seed + cases; i++) {
        struct random r = {iq_mix64(i), 0};
        uint32_t n = i % 29 ? 1 + below(&r, 200) : 5000, rows = i % 29 ? 1 + below(&r, 9) : 12;
        struct combined c = combined_open(&r, rows, n, 1 + below(&r, 16), i % 3);
        if (i % 5 == 0) c.x[below(&r, n)] = iq_bits_f32(0xffc54321u), c.weight[0] = INFINITY;
        run("combine", &c.a);
        float *want = malloc(c.bytes);
        memcpy(want, c.y, c.bytes);
        every_variant("combine", &c.a, want, c.y, c.bytes, i);
        free(want);
        combined_close(&c);
    }
}
END_TEST

START_TEST(combine_is_the_weighted_sum_of_what_was_served)
{
    for (uint64_t i = 0; i < 100; i++) {
        struct random r = {iq_mix64(i), 0};
        struct combined c = combined_open(&r, 5, 1 + below(&r, 40), 1 + below(&r, 16), 0);
        c.a.act = IQ_ACT_F32;
        run("combine", &c.a);
        for (uint32_t row = 0; row < 5; row++)
            for (uint32_t col = 0; col < c.a.n; col++) {
                double sum = 0, size = 0;
                for (uint32_t s = row * c.a.k; s < (row + 1) * c.a.k; s++) {
                    double term = (double)c.weight[s] * c.x[(size_t)s * c.a.n + col];
                    if (c.d.owner[s] != IQ_SLOT_DROPPED) sum += term, size += fabs(term);
                }
                ck_assert_double_le(fabs(c.y[row * c.a.ldy + col] - sum), size * c.a.k * 0x1p-24);
            }
        combined_close(&c);
    }
}
END_TEST

START_TEST(combine_starts_from_its_first_term_and_a_row_of_none_is_plus_zero)
{
    const uint32_t owner[6] = {0, IQ_SLOT_DROPPED, IQ_SLOT_DROPPED, 1, IQ_SLOT_DROPPED, IQ_SLOT_DROPPED};
    const float x[6] = {-0.0f, 9, NAN, 2, NAN, 9}, weight[6] = {1, 1, NAN, 3, 1, 1};
    for (int v = -1; v < FAST; v++) {
        float y[3];
        const char *name = v < 0 ? "reference" : fast[v];
        if (!variant("combine", name)) continue;
        const struct iq_combine a = {3, 1, 2, IQ_ACT_F32, x, weight, owner, y, 1};
        ck_assert_int_eq(status("combine", name, &a), IQ_OK);
        ck_assert_uint_eq(iq_f32_bits(y[0]), 0x80000000u); /* -0, to which no +0 was added */
        ck_assert_float_eq(y[1], 6);
        ck_assert_uint_eq(iq_f32_bits(y[2]), 0);
    }
}
END_TEST

/* ---- points ---- */

START_TEST(points_are_the_rows_that_the_doors_describe)
{
    uint32_t ids[12], owner[12], scratch[64];
    float weight[12], y[48];
    const struct iq_route route = {3, 8, 4, true, NULL, 8, ids, weight};
    const struct iq_moe_dispatch dispatch = {.rows = 3, .experts = 8, .k = 4, .owner = owner};
    const struct iq_all_to_all exchange = {.rows = 3, .n = 4, .k = 4, .y = y};
    const struct iq_combine combine = {.rows = 3, .n = 5, .k = 4, .y = y, .ldy = 7};
    const struct {
        const char *kind;
        const void *args;
        unsigned point;
        size_t words, ld;
        void *at;
    } point[] = {{"route", &route, 0, 4, 4, ids},
                 {"route", &route, 1, 4, 4, weight},
                 {"route", &route, 2, 0, 0, NULL},
                 {"moe_dispatch", &dispatch, 0, 4, 4, owner},
                 {"moe_dispatch", &dispatch, 1, 0, 0, NULL},
                 {"all_to_all", &exchange, 0, 16, 16, y},
                 {"all_to_all", &exchange, 1, 0, 0, NULL},
                 {"combine", &combine, 0, 5, 7, y},
                 {"combine", &combine, 1, 0, 0, NULL}};
    for (size_t i = 0; i < sizeof point / sizeof *point; i++) {
        const struct iq_kind *kind = iq_kind_find(point[i].kind);
        struct iq_run run_[IQ_RUNS];
        ck_assert_uint_eq(kind->rows(point[i].args), 3);
        ck_assert_uint_eq(kind->row_bytes(point[i].args, point[i].point), point[i].words * 4);
        ck_assert_uint_eq(kind->runs(point[i].args, point[i].point, run_), point[i].words != 0);
        if (!point[i].words) continue;
        ck_assert(run_[0].x == point[i].at && run_[0].ld == point[i].ld && run_[0].n == point[i].words);
        uint32_t *row = (uint32_t *)point[i].at + point[i].ld;
        for (uint32_t w = 0; w < point[i].words; w++) scratch[w] = 77 + w;
        kind->put(point[i].args, point[i].point, 1, scratch);
        ck_assert(!memcmp(row, scratch, point[i].words * 4));
        ck_assert(kind->get(point[i].args, point[i].point, 1, NULL) == row);
    }
}
END_TEST

int main(void)
{
    if (iq_kernels_register(NULL)) return 1;
    Suite *s = suite_create("mixture of experts");
    TCase *c = tcase_create("ops");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, route_has_the_references_bits_in_every_instruction_set_and_thread_count);
    tcase_add_test(c, route_names_the_best_experts_and_weighs_them_by_their_exponentials);
    tcase_add_test(c, route_knows_ties_zeros_nan_and_infinities);
    tcase_add_test(c, route_sums_over_all_experts_by_the_vector_rule);
    tcase_add_test(c, route_refuses_more_slots_than_there_are);
    tcase_add_test(c, routes_check_finds_a_worse_expert_and_a_wrong_order);
    tcase_add_test(c, dispatch_lists_each_experts_slots_by_row);
    tcase_add_test(c, dispatch_drops_a_slot_whose_expert_is_none_of_the_layers);
    tcase_add_test(c, lists_follow_when_rows_are_put_back);
    tcase_add_test(c, dispatchs_check_finds_strays);
    tcase_add_test(c, what_went_out_comes_back_and_dropped_slots_are_zero);
    tcase_add_test(c, combine_has_the_references_bits_in_every_instruction_set_and_thread_count);
    tcase_add_test(c, combine_is_the_weighted_sum_of_what_was_served);
    tcase_add_test(c, combine_starts_from_its_first_term_and_a_row_of_none_is_plus_zero);
    tcase_add_test(c, points_are_the_rows_that_the_doors_describe);
    suite_add_tcase(s, c);
    return check_main(s);
}
