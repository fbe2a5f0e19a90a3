/* The op matmul with tensor-core products: every variant against the op in words. IQ_TEST_SEED and IQ_TEST_CASES replay
 * the random test. */
#include "kernels/tensor_core/block.h"
#include "tests/check_main.h"
#include "tests/kernels/matmul_call.h"

#include <math.h>
#include <stdio.h>

static uint16_t narrowed(enum iq_tc_format f, float x)
{
    return f == IQ_TC_F16 ? iq_f32_to_f16(x) : iq_f32_to_bf16(x);
}

static float odd_value(struct random *r, int odd)
{
    if (odd && below(r, 400) == 0) return below(r, 2) ? INFINITY : NAN;
    return value(r, odd && below(r, 4) == 0);
}

static void random_call(struct random *r, struct call *c)
{
    const int odd = below(r, 3) == 0;
    struct iq_matmul m = {.rows = 1 + below(r, 20), .parts = 1 + below(r, CALL_PARTS), .act = below(r, 3)};
    call_begin(c, r, m, 0);
    for (uint32_t p = 0; p < m.parts; p++) {
        struct call_part part = {.format = (enum iq_format)below(r, IQ_FORMATS), .unit = IQ_UNIT};
        part.n = 1 + below(r, 150);
        part.k = part.format >= IQ_Q8_0 ? 32 * (1 + below(r, 8)) : 1 + below(r, 200);
        part.x_at = below(r, 2) ? 0 : below(r, 40);
        call_part(c, r, p, part, odd);
    }
    call_end(c, r, odd, odd_value);
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
    struct iq_exec exec[CALL_THREADS];
    call_pools_open(exec);
    for (uint64_t i = seed; i < seed + cases; i++) {
        struct random r = {iq_mix64(i), 0};
        const enum iq_tc_profile_id profile = (enum iq_tc_profile_id)(i % IQ_TC_PROFILES);
        const enum iq_tc_format f = (enum iq_tc_format)(i / IQ_TC_PROFILES % 2);
        struct call c;
        random_call(&r, &c);
        expect(&c, profile, f);
        for (size_t v = 0; v < sizeof names / sizeof *names; v++) {
            char name[40];
            snprintf(name, sizeof name, "%s%s%s", iq_tc_profiles[profile].name, f == IQ_TC_F16 ? "-f16" : "",
                     names[v]);
            const struct iq_variant *form = iq_variant_find("matmul", name);
            ck_assert_msg(form != NULL, "no variant %s", name);
            for (int t = 0; t < CALL_THREADS && form->usable(); t++) call_compare(&c, form, &exec[t], i);
        }
        call_free(&c);
    }
    call_pools_close(exec);
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
