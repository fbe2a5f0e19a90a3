/* Products: every variant against the reference, and the reference against the contract's words. IQ_TEST_SEED and
 * IQ_TEST_CASES replay or lengthen the random test. */
#include "kernels/cpu/product.h"
#include "kernels/tables.h"
#include "tests/check_main.h"
#include "tests/kernels/matmul_call.h"

static const struct iq_variant *const fast[] = {&iq__matmul_scalar, &iq__matmul_avx2, &iq__matmul_avx512};
enum { FAST = sizeof fast / sizeof *fast };

static bool usable(const struct iq_variant *v) { return !v->usable || v->usable(); }

static void run(const struct iq_variant *v, struct iq_exec *exec, const struct iq_matmul *m)
{
    ck_assert_int_eq(v->run(exec, NULL, m, NULL, NULL), IQ_OK);
}

/* ---- random calls ---- */

static uint32_t random_k(struct random *r, uint32_t i, enum iq_format f)
{
    uint32_t k = 1 + below(r, i % 5 ? 700 : 2200);
    if (i % 7 == 6) k = 1 + below(r, 3); /* so short that whole chains are signed zeros */
    return f >= IQ_Q8_0 ? (k + 31) / 32 * 32 : k;
}

static uint32_t random_rows_count(struct random *r, uint32_t i)
{
    return i % 97 == 96 ? 190 + below(r, 250) : i % 3 ? 1 + below(r, 7) : 1 + below(r, 40);
}

static void random_call(struct random *r, uint32_t i, struct call *c)
{
    static const uint32_t units[] = {128, 192, 64, 256, 320, 24};
    struct iq_matmul m = {.rows = random_rows_count(r, i), .parts = 1 + below(r, CALL_PARTS)};
    const int odd = below(r, 2);
    m.act = i % 11 == 3 ? IQ_ACT_BF16 : i % 11 == 7 ? IQ_ACT_F16 : IQ_ACT_F32;
    call_begin(c, r, m, odd);
    for (uint32_t p = 0; p < m.parts; p++) {
        struct call_part part = {.format = (enum iq_format)((i + p * below(r, 2)) % IQ_FORMATS)};
        part.n = 1 + below(r, 200), part.k = random_k(r, i, part.format);
        part.x_at = below(r, 3) ? 0 : below(r, 40), part.unit = units[below(r, 6)];
        call_part(c, r, p, part, odd);
    }
    call_end(c, r, odd, value);
}

START_TEST(every_instruction_set_and_thread_count_gives_the_references_bits)
{
    uint64_t seed = number("IQ_TEST_SEED", 20261130), cases = number("IQ_TEST_CASES", 400);
    struct iq_exec exec[CALL_THREADS];
    call_pools_open(exec);
    for (uint64_t i = seed; i < seed + cases; i++) {
        struct random r = {iq_mix64(i), 0};
        struct call c;
        random_call(&r, (uint32_t)i, &c);
        run(&iq__matmul_reference, &exec[0], &c.m);
        for (int v = 0; v < FAST; v++)
            for (int t = 0; t < CALL_THREADS && usable(fast[v]); t++) call_compare(&c, fast[v], &exec[t], i);
        call_free(&c);
    }
    call_pools_close(exec);
}
END_TEST

/* ---- the reference says what the contract says ---- */

/* One output of F32 weights: w[i] * x[i] summed. */
static float one_sum(const float *w, const float *x, uint32_t k, uint32_t sum_unit)
{
    struct iq_exec exec = {0};
    float y;
    struct iq_matrix m = packed(IQ_F32, 1, k, sum_unit, (const uint8_t *)w);
    struct iq_matmul call = {.rows = 1, .parts = 1, .x = x, .ldx = k, .part = {{.w = &m, .y = &y, .ldy = 1}}};
    run(&iq__matmul_reference, &exec, &call);
    free((void *)m.data);
    iq_exec_close(&exec);
    return y;
}

static float chain_of(const float *w, const float *x, int from, int to)
{
    float s = 0;
    for (int i = from; i < to; i++) s = fmaf(x[i], w[i], s);
    return s;
}

START_TEST(five_chunks_are_added_as_three_and_two)
{
    float w[600], x[600], c[5];
    struct random r = {7, 0};
    for (int i = 0; i < 600; i++) w[i] = unit(&r), x[i] = unit(&r);
    for (int i = 0; i < 5; i++) c[i] = chain_of(w, x, i * 128, i == 4 ? 600 : (i + 1) * 128);
    float left = (c[0] + c[1]) + c[2], right = c[3] + c[4];
    ck_assert_uint_eq(iq_f32_bits(one_sum(w, x, 600, 128)), iq_f32_bits(left + right));
}
END_TEST

START_TEST(a_unit_of_192_is_a_chunk_of_128_and_one_of_64)
{
    float w[500], x[500], u[3];
    struct random r = {8, 0};
    for (int i = 0; i < 500; i++) w[i] = unit(&r), x[i] = unit(&r);
    for (int i = 0; i < 2; i++)
        u[i] = chain_of(w, x, i * 192, i * 192 + 128) + chain_of(w, x, i * 192 + 128, i * 192 + 192);
    u[2] = chain_of(w, x, 384, 500);
    ck_assert_uint_eq(iq_f32_bits(one_sum(w, x, 500, 192)), iq_f32_bits((u[0] + u[1]) + u[2]));
}
END_TEST

START_TEST(a_product_of_minus_zero_starts_from_plus_zero)
{
    float w[1] = {-0.0f}, x[1] = {1.0f};
    ck_assert_uint_eq(iq_f32_bits(one_sum(w, x, 1, 128)), 0);
}
END_TEST

START_TEST(a_tiny_negative_sum_rounds_to_minus_zero_and_nothing_is_added_to_it)
{
    float w[2] = {-0x1p-100f, 0}, x[2] = {0x1p-100f, 0};
    ck_assert_uint_eq(iq_f32_bits(one_sum(w, x, 1, 128)), 0x80000000u);
    ck_assert_uint_eq(iq_f32_bits(one_sum(w, x, 2, 128)), 0); /* where a term is there, it counts */
}
END_TEST

/* ---- every variant, by name of what could go wrong ---- */

struct small {
    struct iq_exec exec;
    struct iq_matrix w;
    float *x, *y, *want;
    struct iq_matmul m;
};

static void small_open(struct small *s, enum iq_format f, uint32_t rows, uint32_t n, uint32_t k,
                       uint64_t seed)
{
    struct random r = {seed, 0};
    uint8_t *raw = random_rows(&r, f, n, k, 0);
    *s = (struct small){.w = packed(f, n, k, 128, raw)};
    free(raw);
    s->x = malloc(rows * k * sizeof(float));
    s->y = malloc(rows * n * sizeof(float));
    s->want = malloc(rows * n * sizeof(float));
    for (uint32_t i = 0; i < rows * k; i++) s->x[i] = unit(&r);
    s->m = (struct iq_matmul){
        .rows = rows, .parts = 1, .x = s->x, .ldx = k, .part = {{.w = &s->w, .y = s->y, .ldy = n}}};
}

static void small_close(struct small *s)
{
    free((void *)s->w.data);
    free(s->x);
    free(s->y);
    free(s->want);
    iq_exec_close(&s->exec);
}

START_TEST(a_row_has_the_same_bits_alone_and_in_any_batch)
{
    enum { N = 130, K = 320, ROWS = 33 };
    const struct iq_variant *v = fast[_i % FAST];
    if (!usable(v)) return;
    struct small s;
    small_open(&s, (enum iq_format)(_i / FAST), ROWS, N, K, 11);
    for (int r = 0; r < ROWS; r++) {
        struct iq_matmul alone = s.m;
        alone.rows = 1;
        alone.x = s.x + r * K;
        alone.part[0].y = s.want + r * N;
        run(v, &s.exec, &alone);
    }
    for (uint32_t rows = 1; rows <= ROWS; rows++)
        for (uint32_t first = 0; first + rows <= ROWS; first += 7) {
            struct iq_matmul m = s.m;
            m.rows = rows;
            m.x = s.x + first * K;
            run(v, &s.exec, &m);
            ck_assert_msg(!memcmp(s.y, s.want + first * N, rows * N * sizeof(float)), "%s: rows %u to %u",
                          v->name, first, first + rows);
        }
    small_close(&s);
}
END_TEST

START_TEST(nan_results_are_canonical_and_infinities_stay)
{
    const struct iq_variant *v = _i < FAST ? fast[_i] : &iq__matmul_reference;
    if (!usable(v)) return;
    for (uint32_t rows = 1; rows < 9; rows++)
        for (uint32_t n = 63; n <= 64; n++) {
            struct small s;
            small_open(&s, IQ_F32, rows, n, 40, 12);
            s.x[0] = iq_bits_f32(0xffc12345u);
            if (rows > 1)
                s.x[40] = INFINITY, memset((void *)s.w.data, 0, 4 * IQ_PANEL); /* column 0 is 0: inf * 0 */
            if (rows > 2) s.x[81] = INFINITY;
            run(v, &s.exec, &s.m);
            for (uint32_t o = 0; o < n; o++) {
                ck_assert_uint_eq(iq_f32_bits(s.y[o]), IQ_NAN_BITS);
                if (rows > 1) ck_assert_uint_eq(iq_f32_bits(s.y[n + o]), IQ_NAN_BITS);
                if (rows > 2) ck_assert(isinf(s.y[2 * n + o]));
            }
            small_close(&s);
        }
}
END_TEST

START_TEST(the_pieces_of_a_row_parallel_product_add_up_to_the_whole)
{
    enum { N = 70, K = 768, ROWS = 5, PIECE = K / 2 };
    struct small s;
    small_open(&s, IQ_Q4_1, ROWS, N, K, 14);
    run(&iq__matmul_reference, &s.exec, &s.m);
    struct random r = {14, 0};
    uint8_t *raw = random_rows(&r, IQ_Q4_1, N, K, 0);
    struct iq_matrix piece[2];
    float partial[2][ROWS * N];
    struct iq_matmul m = s.m;
    m.parts = 2;
    for (uint32_t p = 0; p < 2; p++) {
        const struct iq_matrix_source from = {
            .raw = raw, .row_bytes = iq_format_row_bytes(IQ_Q4_1, K), .k0 = p * PIECE};
        void *into = aligned(iq_matrix_bytes(IQ_Q4_1, N, PIECE));
        ck_assert_int_eq(iq_matrix_pack(&piece[p], IQ_Q4_1, N, PIECE, 128, &from, into, NULL), IQ_OK);
        m.part[p] = (struct iq_matmul_part){.w = &piece[p], .y = partial[p], .ldy = N, .x_at = p * PIECE};
    }
    for (int v = 0; v < FAST; v++) {
        if (!usable(fast[v])) continue;
        run(fast[v], &s.exec, &m);
        for (int i = 0; i < ROWS * N; i++)
            ck_assert_uint_eq(iq_f32_bits(partial[0][i] + partial[1][i]), iq_f32_bits(s.y[i]));
    }
    for (int p = 0; p < 2; p++) free((void *)piece[p].data);
    free(raw);
    small_close(&s);
}
END_TEST

START_TEST(no_rows_are_no_work)
{
    struct small s;
    small_open(&s, IQ_BF16, 1, 8, 32, 15);
    s.m.rows = 0;
    s.y[0] = 42;
    for (int v = 0; v < FAST; v++)
        if (usable(fast[v])) run(fast[v], &s.exec, &s.m);
    ck_assert_float_eq(s.y[0], 42);
    small_close(&s);
}
END_TEST

START_TEST(a_unit_that_cuts_a_block_is_left_to_the_reference)
{
    struct small s;
    small_open(&s, IQ_Q8_0, 2, 8, 96, 16);
    ck_assert(iq__product_supports(&s.m));
    s.w.unit = 48;
    ck_assert(!iq__product_supports(&s.m));
    s.w.unit = 100; /* one unit holds all of k */
    ck_assert(iq__product_supports(&s.m));
    small_close(&s);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("matmul");
    TCase *c = tcase_create("products");
    tcase_set_timeout(c, 200);
    tcase_add_test(c, every_instruction_set_and_thread_count_gives_the_references_bits);
    tcase_add_test(c, five_chunks_are_added_as_three_and_two);
    tcase_add_test(c, a_unit_of_192_is_a_chunk_of_128_and_one_of_64);
    tcase_add_test(c, a_product_of_minus_zero_starts_from_plus_zero);
    tcase_add_test(c, a_tiny_negative_sum_rounds_to_minus_zero_and_nothing_is_added_to_it);
    tcase_add_loop_test(c, a_row_has_the_same_bits_alone_and_in_any_batch, 0, FAST * IQ_FORMATS);
    tcase_add_loop_test(c, nan_results_are_canonical_and_infinities_stay, 0, FAST + 1);
    tcase_add_test(c, the_pieces_of_a_row_parallel_product_add_up_to_the_whole);
    tcase_add_test(c, no_rows_are_no_work);
    tcase_add_test(c, a_unit_that_cuts_a_block_is_left_to_the_reference);
    suite_add_tcase(s, c);
    return s;
}

int main(void) { return check_main(suite()); }
