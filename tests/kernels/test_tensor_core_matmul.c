/* The op matmul with tensor-core products: every variant against the op in words. IQ_TEST_SEED and IQ_TEST_CASES replay
 * the random test. */
#include "kernels/base/pool.h"
#include "kernels/exec.h"
#include "kernels/op.h"
#include "kernels/ops/matmul.h"
#include "kernels/tensor_core/block.h"
#include "tests/check_main.h"
#include "tests/kernels/matmul_case.h"

#include <math.h>
#include <stdio.h>

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : otherwise;
}

static uint16_t narrowed(enum iq_tc_format f, float x)
{
    return f == IQ_TC_F16 ? iq_f32_to_f16(x) : iq_f32_to_bf16(x);
}

enum { PARTS_MAX = 3, THREADS = 3 };

struct call {
    struct iq_matrix w[PARTS_MAX];
    struct iq_matmul m;
    float *x, *bias, *y[PARTS_MAX], *want[PARTS_MAX];
    size_t floats[PARTS_MAX];
};

static float odd_value(struct random *r, int odd)
{
    if (odd && below(r, 400) == 0) return below(r, 2) ? INFINITY : NAN;
    return value(r, odd && below(r, 4) == 0);
}

static void random_call(struct random *r, struct call *c)
{
    const int odd = below(r, 3) == 0;
    uint32_t width = 0;
    *c = (struct call){.m = {.rows = 1 + below(r, 20), .parts = 1 + below(r, PARTS_MAX), .act = below(r, 3)}};
    c->bias = malloc(200 * sizeof *c->bias);
    for (int i = 0; i < 200; i++) c->bias[i] = unit(r);
    for (uint32_t p = 0; p < c->m.parts; p++) {
        const enum iq_format f = (enum iq_format)below(r, IQ_FORMATS);
        const uint32_t n = 1 + below(r, 150), k = f >= IQ_Q8_0 ? 32 * (1 + below(r, 8)) : 1 + below(r, 200);
        const uint32_t x_at = below(r, 2) ? 0 : below(r, 40);
        uint8_t *raw = random_rows(r, f, n, k, odd);
        c->w[p] = packed(f, n, k, IQ_UNIT, raw);
        free(raw);
        const size_t ldy = n + below(r, 3);
        c->floats[p] = c->m.rows * ldy;
        c->y[p] = malloc(c->floats[p] * sizeof(float));
        c->want[p] = malloc(c->floats[p] * sizeof(float));
        memset(c->want[p], 0x55, c->floats[p] * sizeof(float));
        c->m.part[p] = (struct iq_matmul_part){
            .w = &c->w[p], .y = c->y[p], .ldy = ldy, .x_at = x_at, .bias = below(r, 3) ? NULL : c->bias};
        if (x_at + k > width) width = x_at + k;
    }
    c->m.ldx = width + below(r, 3);
    c->x = malloc(c->m.rows * c->m.ldx * sizeof(float));
    for (size_t i = 0; i < c->m.rows * c->m.ldx; i++) c->x[i] = odd_value(r, odd);
    c->m.x = c->x;
}

static void free_call(struct call *c)
{
    for (uint32_t p = 0; p < c->m.parts; p++) {
        free((void *)c->w[p].data);
        free(c->y[p]);
        free(c->want[p]);
    }
    free(c->x);
    free(c->bias);
}

/* The op in words: operands rounded, one chain over the part's K from +0, the bias added, the activation rounded. */
static void expect(const struct call *c, enum iq_tc_profile_id profile, enum iq_tc_format f)
{
    for (uint32_t p = 0; p < c->m.parts; p++) {
        const struct iq_matmul_part *part = &c->m.part[p];
        const uint32_t k = part->w->k;
        float *row = malloc(k * sizeof *row);
        uint16_t *a = malloc(k * sizeof *a), *b = malloc(k * sizeof *b);
        for (uint32_t o = 0; o < part->w->n; o++) {
            iq_matrix_row(part->w, o, row);
            for (uint32_t i = 0; i < k; i++) b[i] = narrowed(f, row[i]);
            for (uint32_t r = 0; r < c->m.rows; r++) {
                for (uint32_t i = 0; i < k; i++) a[i] = narrowed(f, c->m.x[r * c->m.ldx + part->x_at + i]);
                float y = iq_bits_f32(iq_tc_dot(&iq_tc_profiles[profile], f, a, b, k, 0));
                if (part->bias) y = y + part->bias[o];
                c->want[p][r * part->ldy + o] = iq_act_round(y, c->m.act);
            }
        }
        free(row);
        free(a);
        free(b);
    }
}

static void compare(const struct call *c, const char *name, struct iq_exec *exec, uint64_t seed)
{
    const struct iq_variant *v = iq_variant_find("matmul", name);
    ck_assert_msg(v != NULL, "no variant %s", name);
    if (!v->usable()) return;
    for (uint32_t p = 0; p < c->m.parts; p++) memset(c->y[p], 0x55, c->floats[p] * sizeof(float));
    if (exec->scratch) memset(exec->scratch, 0xff, exec->scratch_cap); /* shows a read of what nobody wrote */
    ck_assert_int_eq(v->run(exec, NULL, &c->m, NULL, NULL), IQ_OK);
    for (uint32_t p = 0; p < c->m.parts; p++)
        ck_assert_msg(!memcmp(c->y[p], c->want[p], c->floats[p] * sizeof(float)),
                      "%s with %d threads: part %u of %u (%s, rows %u, n %u, k %u, act %u) differs; replay: "
                      "IQ_TEST_SEED=%llu IQ_TEST_CASES=1",
                      name, iq_pool_threads(exec->pool), p, c->m.parts, iq_format_info(c->w[p].format)->name,
                      c->m.rows, c->w[p].n, c->w[p].k, c->m.act, (unsigned long long)seed);
}

START_TEST(every_variant_and_thread_count_does_what_the_op_says)
{
    static const char *const names[] = {
        "",
        ".scalar",
#if defined __x86_64__
        ".avx2",
        ".avx512"
#endif
    };
    uint64_t seed = number("IQ_TEST_SEED", 7), cases = number("IQ_TEST_CASES", 60);
    struct iq_exec exec[THREADS] = {{0}};
    for (int t = 1; t < THREADS; t++) ck_assert_int_eq(iq_pool_open(t + 1, &exec[t].pool, NULL), IQ_OK);
    for (uint64_t i = seed; i < seed + cases; i++) {
        struct random r = {iq_mix64(i), 0};
        const enum iq_tc_profile_id profile = (enum iq_tc_profile_id)(i % IQ_TC_PROFILES);
        const enum iq_tc_format f = (enum iq_tc_format)(i / IQ_TC_PROFILES % 2);
        struct call c;
        random_call(&r, &c);
        expect(&c, profile, f);
        for (size_t v = 0; v < sizeof names / sizeof *names; v++)
            for (int t = 0; t < THREADS; t++) {
                char name[40];
                snprintf(name, sizeof name, "%s%s%s", iq_tc_profiles[profile].name,
                         f == IQ_TC_F16 ? "-f16" : "", names[v]);
                compare(&c, name, &exec[t], i);
            }
        free_call(&c);
    }
    for (int t = 0; t < THREADS; t++) {
        iq_pool_close(exec[t].pool);
        iq_exec_close(&exec[t]);
    }
}
END_TEST

START_TEST(no_rows_are_no_work)
{
    struct iq_exec exec = {0};
    struct iq_matmul m = {.parts = 1};
    ck_assert_int_eq(iq_variant_find("matmul", "sm90")->run(&exec, NULL, &m, NULL, NULL), IQ_OK);
}
END_TEST

/* What --products means for an engine: known by name, best form not above the instruction set, never golden. */
START_TEST(products_are_found_by_name_and_never_serve_golden)
{
    ck_assert_str_eq(iq_variant_products("sm80-f16", "scalar")->name, "sm80-f16.scalar");
    ck_assert_ptr_null(iq_variant_products("sm70", NULL));
    ck_assert_ptr_null(iq_variant_products("ieee", NULL));
    for (int p = 0; p < IQ_TC_PROFILES; p++) {
        const struct iq_variant *v = iq_variant_products(iq_tc_profiles[p].name, NULL);
        ck_assert_ptr_nonnull(v);
        ck_assert_uint_eq(v->flags, IQ_V_BENIGN);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("tensor_core_matmul");
    TCase *c = tcase_create("op");
    tcase_set_timeout(c, 200);
    tcase_add_test(c, every_variant_and_thread_count_does_what_the_op_says);
    tcase_add_test(c, no_rows_are_no_work);
    tcase_add_test(c, products_are_found_by_name_and_never_serve_golden);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    struct iq_err err;
    if (iq_kernels_register(&err)) return 1;
    return check_main(suite());
}
