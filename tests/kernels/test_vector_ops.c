/* rmsnorm, rope, add, swiglu, temper: every variant gives the reference's bits, for any shape, values, rows, threads. */
#include "kernels/arith.h"
#include "kernels/base/rng.h"
#include "kernels/exec.h"
#include "kernels/ops/rmsnorm.h"
#include "kernels/ops/rope.h"
#include "kernels/ops/vector.h"
#include "kernels/tables.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

/* ck_assert tells the parent process of every call, which is slow in a loop of millions. */
#define EXPECT(holds, ...)                                                                                   \
    do {                                                                                                     \
        if (!(holds)) ck_abort_msg(__VA_ARGS__);                                                             \
    } while (0)

static uint64_t base_seed(void)
{
    const char *text = getenv("IQ_TEST_SEED");
    return text ? strtoull(text, NULL, 0) : 20261130;
}

static uint32_t below(uint64_t *seed, uint32_t n)
{
    *seed = iq_mix64(*seed + 0x9e3779b97f4a7c15u);
    return (uint32_t)(*seed >> 33) % n;
}

/* Mostly what activations look like; now and then zeros, subnormals, huge values, infinities, NaN of any payload. */
static float value(uint64_t *seed, bool tame)
{
    static const uint32_t odd[] = {0,          0x80000000, 1,          0x80000001, 0x00700000, 0x7f7fffff,
                                   0xff7fffff, 0x7f800000, 0xff800000, 0xffc00000, 0x7fc00123, 0x7f800001,
                                   0x60000000, 0xe0000000, 0x42c80000, 0xc2c80000, 0x20000000, 0x3f800000};
    if (!tame && below(seed, 24) == 0) return iq_bits_f32(odd[below(seed, sizeof odd / sizeof *odd)]);
    return ((float)below(seed, 1 << 20) - 0x1p19f) * 0x1p-17f;
}

enum { INPUTS = 4, OUTPUTS = 2, GUARD = 0x55 };

/* One call of any of the kinds, and the memory under it. */
struct trial {
    union {
        struct iq_add add;
        struct iq_swiglu swiglu;
        struct iq_temper temper;
        struct iq_rmsnorm rmsnorm;
        struct iq_rope rope;
    } args;
    uint32_t rows;
    float *in[INPUTS];
    uint32_t *pos;
    size_t out_floats[OUTPUTS];
    float **y[OUTPUTS]; /* where the args keep their output; NULL: none */
    size_t ld_out[OUTPUTS], width[OUTPUTS];
};

static float *fill(uint64_t *seed, size_t n, bool tame)
{
    float *p = malloc((n + 1) * sizeof *p);
    for (size_t i = 0; i < n; i++) p[i] = value(seed, tame);
    return p;
}

static void output(struct trial *t, int k, float **y, size_t width, size_t ld)
{
    t->y[k] = y;
    t->width[k] = width;
    t->ld_out[k] = ld;
    t->out_floats[k] = (size_t)t->rows * ld + 1;
}

static void make_add(struct trial *t, uint64_t *seed, uint32_t n, uint32_t act)
{
    struct iq_add *a = &t->args.add;
    *a = (struct iq_add){
        .rows = t->rows, .n = n, .act = act, .lda = n + below(seed, 3), .ldb = n + below(seed, 3)};
    a->ldy = n + below(seed, 3);
    a->a = t->in[0] = fill(seed, t->rows * a->lda, false);
    a->b = t->in[1] = fill(seed, t->rows * a->ldb, false);
    output(t, 0, &a->y, n, a->ldy);
}

static void make_swiglu(struct trial *t, uint64_t *seed, uint32_t n, uint32_t act)
{
    struct iq_swiglu *a = &t->args.swiglu;
    *a = (struct iq_swiglu){
        .rows = t->rows, .n = n, .act = act, .ldg = n + below(seed, 3), .ldu = n + below(seed, 3)};
    a->ldy = n + below(seed, 3);
    a->gate = t->in[0] = fill(seed, t->rows * a->ldg, false);
    a->up = t->in[1] = fill(seed, t->rows * a->ldu, false);
    output(t, 0, &a->y, n, a->ldy);
}

static void make_temper(struct trial *t, uint64_t *seed, uint32_t n, uint32_t act)
{
    struct iq_temper *a = &t->args.temper;
    (void)act;
    *a = (struct iq_temper){.rows = t->rows, .n = n, .ldx = n + below(seed, 3), .ldy = n + below(seed, 3)};
    a->x = t->in[0] = fill(seed, t->rows * a->ldx, false);
    a->temperature = t->in[1] = fill(seed, t->rows, true);
    for (uint32_t r = 0; r < t->rows; r++) t->in[1][r] = (float)below(seed, 5) * 0.5f; /* 0, 0.5, 1, 1.5, 2 */
    output(t, 0, &a->y, n, a->ldy);
}

static void make_rmsnorm(struct trial *t, uint64_t *seed, uint32_t n, uint32_t act)
{
    struct iq_rmsnorm *a = &t->args.rmsnorm;
    uint32_t groups = 1 + below(seed, 3);
    *a = (struct iq_rmsnorm){.rows = t->rows, .groups = groups, .n = n, .act = act, .eps = 1e-5f};
    a->ldx = groups * n + below(seed, 3);
    a->ldy = groups * n + below(seed, 3);
    a->x = t->in[0] = fill(seed, t->rows * a->ldx, below(seed, 3) != 0);
    a->weight = t->in[1] = fill(seed, n, below(seed, 3) != 0);
    output(t, 0, &a->y, (size_t)groups * n, a->ldy);
}

static void make_rope(struct trial *t, uint64_t *seed, uint32_t n, uint32_t act)
{
    struct iq_rope *a = &t->args.rope;
    uint32_t dim = n % 150 + 2, positions = 9;
    *a = (struct iq_rope){.rows = t->rows, .dim = dim, .interleaved = below(seed, 2), .act = act};
    a->rotary = below(seed, 3) ? dim & ~1u : 2 + 2 * below(seed, dim / 2);
    a->table = t->in[0] = fill(seed, (size_t)positions * a->rotary, true);
    t->pos = malloc((t->rows + 1) * sizeof *t->pos);
    for (uint32_t r = 0; r < t->rows; r++) t->pos[r] = below(seed, positions);
    a->pos = t->pos;
    for (int p = 0; p < 2; p++) {
        struct iq_rope_part *part = &a->part[p];
        part->heads = below(seed, 5) + (p == 0);
        part->ldx = part->heads * dim + below(seed, 3);
        part->ldy = part->heads * dim + below(seed, 3);
        part->x = t->in[1 + p] = fill(seed, t->rows * part->ldx, false);
        output(t, p, &part->y, part->heads * dim, part->ldy);
    }
}

static const struct {
    const char *kind;
    void (*make)(struct trial *, uint64_t *seed, uint32_t n, uint32_t act);
    uint32_t large; /* columns with which 40 rows are shared out over threads */
} kinds[] = {{"add", make_add, 5000},
             {"swiglu", make_swiglu, 5000},
             {"temper", make_temper, 5000},
             {"rmsnorm", make_rmsnorm, 2000},
             {"rope", make_rope, 149}};

static void free_trial(struct trial *t)
{
    for (int i = 0; i < INPUTS; i++) free(t->in[i]);
    free(t->pos);
}

/* Runs v into fresh outputs whose every byte was GUARD. */
static void run(struct trial *t, const struct iq_variant *v, struct iq_pool *pool, float *out[OUTPUTS])
{
    struct iq_exec x = {.pool = pool};
    for (int k = 0; k < OUTPUTS; k++) {
        out[k] = NULL;
        if (!t->y[k]) continue;
        out[k] = malloc(t->out_floats[k] * sizeof(float));
        memset(out[k], GUARD, t->out_floats[k] * sizeof(float));
        *t->y[k] = out[k];
    }
    ck_assert_int_eq(v->run(&x, NULL, &t->args, NULL, NULL), IQ_OK);
    iq_exec_close(&x);
}

static void compare(const struct trial *t, float *const want[OUTPUTS], float *const got[OUTPUTS],
                    const struct iq_variant *v, const char *what, uint64_t seed)
{
    for (int k = 0; k < OUTPUTS; k++)
        for (size_t i = 0; t->y[k] && i < t->out_floats[k]; i++)
            EXPECT(iq_f32_bits(want[k][i]) == iq_f32_bits(got[k][i]),
                   "%s %s, %s: output %d row %zu column %zu: %08x, reference %08x; IQ_TEST_SEED=%llu replays",
                   v->kind, v->name, what, k, i / t->ld_out[k], i % t->ld_out[k], iq_f32_bits(got[k][i]),
                   iq_f32_bits(want[k][i]), (unsigned long long)seed);
}

static void free_outputs(float *out[OUTPUTS])
{
    for (int k = 0; k < OUTPUTS; k++) free(out[k]);
}

static const struct iq_variant *reference_of(const char *kind)
{
    for (size_t i = 0; iq__variants_vector[i]; i++)
        if (strcmp(iq__variants_vector[i]->kind, kind) == 0) return iq__variants_vector[i];
    return NULL;
}

static void try_kind(size_t kind, uint32_t rows, uint32_t n, struct iq_pool *const pool[3], uint64_t seed)
{
    uint64_t state = seed;
    struct trial t = {.rows = rows};
    float *want[OUTPUTS], *got[OUTPUTS];
    kinds[kind].make(&t, &state, n, below(&state, 3));
    run(&t, reference_of(kinds[kind].kind), NULL, want);
    for (size_t i = 0; iq__variants_vector[i]; i++) {
        const struct iq_variant *v = iq__variants_vector[i];
        if (strcmp(v->kind, kinds[kind].kind) != 0 || (v->usable && !v->usable())) continue;
        for (int p = 0; p < 3; p++) {
            static const char *const threads[] = {"1 thread", "2 threads", "3 threads"};
            run(&t, v, pool[p], got);
            compare(&t, want, got, v, threads[p], seed);
            free_outputs(got);
        }
    }
    free_outputs(want);
    free_trial(&t);
}

static void with_pools(uint32_t trials, bool large)
{
    struct iq_pool *pool[3];
    uint64_t seed = base_seed();
    for (int p = 0; p < 3; p++) ck_assert_int_eq(iq_pool_open(p + 1, &pool[p], NULL), IQ_OK);
    for (uint32_t i = 0; i < trials; i++, seed++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            uint64_t state = iq_mix64(seed);
            uint32_t rows = large ? 40 : below(&state, 6),
                     n = large ? kinds[k].large : 1 + below(&state, 140);
            try_kind(k, large && k == 4 ? 400 : rows, n, pool, seed);
        }
    for (int p = 0; p < 3; p++) iq_pool_close(pool[p]);
}

START_TEST(every_variant_gives_the_bits_of_the_reference) { with_pools(400, false); }
END_TEST

START_TEST(threads_change_no_bit_of_large_calls) { with_pools(2, true); }
END_TEST

START_TEST(a_row_alone_gives_the_bits_of_the_row_in_a_batch)
{
    enum { ROWS = 5, WIDTH = 77 };
    float x[ROWS * WIDTH], weight[WIDTH], batch[ROWS * WIDTH], alone[WIDTH];
    uint64_t seed = base_seed();
    for (int i = 0; i < ROWS * WIDTH; i++) x[i] = value(&seed, true);
    for (int i = 0; i < WIDTH; i++) weight[i] = value(&seed, true);
    for (size_t i = 0; iq__variants_vector[i]; i++) {
        const struct iq_variant *v = iq__variants_vector[i];
        if (strcmp(v->kind, "rmsnorm") != 0 || (v->usable && !v->usable())) continue;
        struct iq_exec exec = {0};
        struct iq_rmsnorm a = {.rows = ROWS,
                               .groups = 1,
                               .n = WIDTH,
                               .eps = 1e-6f,
                               .x = x,
                               .weight = weight,
                               .y = batch,
                               .ldx = WIDTH,
                               .ldy = WIDTH};
        ck_assert_int_eq(v->run(&exec, NULL, &a, NULL, NULL), IQ_OK);
        for (int r = 0; r < ROWS; r++) {
            struct iq_rmsnorm one = a;
            one.rows = 1;
            one.x = x + r * WIDTH;
            one.y = alone;
            ck_assert_int_eq(v->run(&exec, NULL, &one, NULL, NULL), IQ_OK);
            ck_assert(memcmp(alone, batch + r * WIDTH, sizeof alone) == 0);
        }
    }
}
END_TEST

/* Exact data: the squares of one element in each of 32 lanes make every step of the norm exact. */
START_TEST(rmsnorm_of_exact_data_is_exact)
{
    float x[64], weight[64], y[64];
    for (int i = 0; i < 64; i++) x[i] = i % 2 ? 4.0f : -4.0f, weight[i] = (float)(i + 1);
    struct iq_rmsnorm a = {
        .rows = 1, .groups = 1, .n = 64, .x = x, .weight = weight, .y = y, .ldx = 64, .ldy = 64};
    struct iq_exec exec = {0};
    ck_assert_int_eq(reference_of("rmsnorm")->run(&exec, NULL, &a, NULL, NULL), IQ_OK);
    for (int i = 0; i < 64; i++) ck_assert(y[i] == (i % 2 ? 1.0f : -1.0f) * (float)(i + 1));
}
END_TEST

START_TEST(rope_turns_the_pairs_that_its_layout_names)
{
    float x[6] = {1, 2, 3, 4, 5, 6}, table[4] = {0, 1, 1, 0},
          y[6]; /* pair 0 by a quarter turn, pair 1 not at all */
    uint32_t pos[1] = {0};
    struct iq_rope a = {
        .rows = 1, .dim = 6, .rotary = 4, .pos = pos, .table = table, .part = {{1, x, y, 6, 6}}};
    struct iq_exec exec = {0};
    ck_assert_int_eq(reference_of("rope")->run(&exec, NULL, &a, NULL, NULL), IQ_OK);
    const float halves[6] = {-3, 2, 1, 4, 5, 6};
    ck_assert(memcmp(y, halves, sizeof y) == 0);
    a.interleaved = 1;
    ck_assert_int_eq(reference_of("rope")->run(&exec, NULL, &a, NULL, NULL), IQ_OK);
    const float neighbours[6] = {-2, 1, 3, 4, 5, 6};
    ck_assert(memcmp(y, neighbours, sizeof y) == 0);
}
END_TEST

START_TEST(kinds_show_and_take_back_their_rows)
{
    uint64_t seed = base_seed();
    struct trial t = {.rows = 3};
    float *out[OUTPUTS], row[300];
    make_rope(&t, &seed, 64, IQ_ACT_F32);
    run(&t, reference_of("rope"), NULL, out);
    const struct iq_kind *kind = &iq__kind_rope;
    ck_assert_uint_eq(kind->rows(&t.args), 3);
    ck_assert_uint_eq(kind->row_bytes(&t.args, 0), t.width[0] * sizeof(float));
    ck_assert_uint_eq(kind->row_bytes(&t.args, 2), 0);
    ck_assert_ptr_eq(kind->get(&t.args, 0, 2, NULL), out[0] + 2 * t.ld_out[0]);
    memset(row, 0, sizeof row);
    kind->put(&t.args, 0, 1, row);
    ck_assert(memcmp(out[0] + t.ld_out[0], row, t.width[0] * sizeof(float)) == 0);
    ck_assert_uint_eq(kind->field(&t.args, 0), t.args.rope.dim);
    free_outputs(out);
    free_trial(&t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("vector_ops");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, every_variant_gives_the_bits_of_the_reference);
    tcase_add_test(tc, threads_change_no_bit_of_large_calls);
    tcase_add_test(tc, a_row_alone_gives_the_bits_of_the_row_in_a_batch);
    tcase_add_test(tc, rmsnorm_of_exact_data_is_exact);
    tcase_add_test(tc, rope_turns_the_pairs_that_its_layout_names);
    tcase_add_test(tc, kinds_show_and_take_back_their_rows);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
