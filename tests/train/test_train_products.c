/* The trainer's products: their forms against the reference, and the reference against the engine's. */
#include "kernels/arith.h"
#include "kernels/matrix.h"
#include "kernels/op.h"
#include "kernels/ops/matmul.h"
#include "tests/check_main.h"
#include "tests/train/forms.h"

/* Sizes of the trial in hand: `one` has no other way to them. */
static uint32_t size[8];

static int one_product(struct iq_exec *x, const struct iq_train_ops *o, struct rig_random *r, float *out)
{
    uint32_t m = size[0], n = size[1], k = size[2];
    float *a = rig_floats(r, (size_t)m * k), *b = rig_floats(r, (size_t)n * k);
    struct iq_train_product p = {.m = m, .n = n, .k = k, .unit = size[3], .a = a, .b = b, .y = out, .ldy = n};
    p.a_i = size[4] ? 1 : k, p.a_k = size[4] ? m : 1;
    p.b_j = size[5] ? 1 : k, p.b_k = size[5] ? n : 1;
    int rc = o->product(x, &p);
    free(a);
    free(b);
    return rc;
}

START_TEST(products_of_all_three_uses_give_the_references_bits)
{
    REPEAT(24)
    {
        struct rig_random r = forms_start(round);
        size[0] = 1 + rig_below(&r, 60), size[1] = 1 + rig_below(&r, 90), size[2] = 1 + rig_below(&r, 500);
        size[3] = round % 3 ? 1 + rig_below(&r, 200) : 128;
        size[4] = round & 1, size[5] = round >> 1 & 1;
        forms_compare("product", &(struct forms_trial){r, (size_t)size[0] * size[1], one_product});
    }
}
END_TEST

/* Columns of `n_units` units, some of them empty; all of them where most is 0. */
static uint32_t draw_units(struct rig_random *r, uint32_t n_units, uint32_t most, uint32_t *units)
{
    uint32_t k = 0;
    for (uint32_t u = 0; u < n_units; u++) k += units[u] = rig_below(r, 3) ? rig_below(r, most + 1) : 0;
    return k;
}

static int one_uneven(struct iq_exec *x, const struct iq_train_ops *o, struct rig_random *r, float *out)
{
    uint32_t m = size[0], n = size[1], units[40], k = draw_units(r, size[2], size[3], units);
    float *a = rig_floats(r, (size_t)m * k), *b = rig_floats(r, (size_t)n * k);
    struct iq_train_product p = {.m = m,
                                 .n = n,
                                 .k = k,
                                 .unit = size[3] + 1,
                                 .a = a,
                                 .a_i = 1,
                                 .a_k = m,
                                 .b = b,
                                 .b_k = n,
                                 .b_j = 1,
                                 .y = out,
                                 .ldy = n,
                                 .units = units,
                                 .n_units = size[2]};
    int rc = o->product(x, &p);
    free(a);
    free(b);
    return rc;
}

START_TEST(products_over_uneven_and_empty_units_give_the_references_bits)
{
    REPEAT(24)
    {
        struct rig_random r = forms_start(round);
        size[0] = 1 + rig_below(&r, 60), size[1] = 1 + rig_below(&r, 90), size[2] = 1 + rig_below(&r, 40);
        size[3] = round % 4 ? 1 + rig_below(&r, round % 4 == 1 ? 300 : 40) : 0;
        forms_compare("product, uneven units",
                      &(struct forms_trial){r, (size_t)size[0] * size[1], one_uneven});
    }
}
END_TEST

/* What an expert sums in a part of the batch is a node of what it sums in the whole, and an empty unit is +0. */
START_TEST(an_uneven_sum_is_the_tree_over_its_units_sums)
{
    enum { UNITS = 5 };
    const uint32_t units[UNITS] = {3, 0, 200, 1, 0};
    struct rig_random r = forms_start(0);
    float *a = rig_floats(&r, 204), *b = rig_floats(&r, 204), one[UNITS], y;
    a[203] = -0x1p-149f, b[203] = 0.25f; /* unit 3: rounds to -0, which an empty unit beside it is not */
    for (uint32_t u = 0, at = 0; u < UNITS; at += units[u++]) {
        struct iq_train_product p = {1, 1, units[u], 300,     a + at, b + at,    0,
                                     1, 1, 0,        &one[u], 1,      &units[u], 1};
        ck_assert_int_eq(iq_train_ops_find(NULL)->product(&forms_exec[1], &p), IQ_OK);
    }
    struct iq_train_product p = {1, 1, 204, 300, a, b, 0, 1, 1, 0, &y, 1, units, UNITS};
    ck_assert_int_eq(iq_train_ops_find(NULL)->product(&forms_exec[1], &p), IQ_OK);
    ck_assert(iq_f32_bits(one[1]) == 0 && iq_f32_bits(one[4]) == 0 && iq_f32_bits(one[3]) == 0x80000000u);
    float want = ((one[0] + one[1]) + one[2]) + (one[3] + one[4]);
    ck_assert_msg(iq_f32_bits(y) == iq_f32_bits(want), "found %a, expected %a", y, want);
    free(a);
    free(b);
}
END_TEST

/* The engine's own reference of a product: what is trained is what is served. */
START_TEST(a_forward_product_has_the_bits_of_the_engines)
{
    REPEAT(6)
    {
        struct rig_random r = forms_start(round);
        uint32_t rows = 1 + rig_below(&r, 20), n = 1 + rig_below(&r, 70), k = 1 + rig_below(&r, 400);
        uint32_t unit = round & 1 ? 24 : 128;
        float *a = rig_floats(&r, (size_t)rows * k), *w = rig_floats(&r, (size_t)n * k);
        float *want = calloc((size_t)rows * n, sizeof *want), *got = calloc((size_t)rows * n, sizeof *got);
        size_t bytes = iq_matrix_bytes(IQ_F32, n, k);
        struct iq_matrix matrix;
        struct iq_matrix_source source = {.raw = (const uint8_t *)w, .row_bytes = k * sizeof *w};
        void *panels = aligned_alloc(IQ_MATRIX_ALIGN, (bytes + 63) / 64 * 64);
        rig_check_ok(iq_matrix_pack(&matrix, IQ_F32, n, k, unit, &source, panels, &err));
        struct iq_matmul m = {.rows = rows,
                              .parts = 1,
                              .act = IQ_ACT_F32,
                              .x = a,
                              .ldx = k,
                              .part = {{.w = &matrix, .y = want, .ldy = n}}};
        struct iq_train_product p = {rows, n, k, unit, a, w, k, 1, 1, k, got, n, NULL, 0};
        rig_check_ok(iq_kernels_register(&err));
        ck_assert_int_eq(iq_variant_find("matmul", "reference")->run(&forms_exec[2], NULL, &m, NULL, NULL),
                         IQ_OK);
        ck_assert_int_eq(iq_train_ops_find(NULL)->product(&forms_exec[2], &p), IQ_OK);
        ck_assert_mem_eq(got, want, (size_t)rows * n * sizeof *got);
        free(panels);
        free(a);
        free(w);
        free(want);
        free(got);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("train_products");
    TCase *c = tcase_create("forms");
    tcase_set_timeout(c, 240);
    tcase_add_checked_fixture(c, forms_open, forms_close);
    tcase_add_test(c, products_of_all_three_uses_give_the_references_bits);
    tcase_add_test(c, products_over_uneven_and_empty_units_give_the_references_bits);
    tcase_add_test(c, an_uneven_sum_is_the_tree_over_its_units_sums);
    tcase_add_test(c, a_forward_product_has_the_bits_of_the_engines);
    suite_add_tcase(s, c);
    return check_main(s);
}
