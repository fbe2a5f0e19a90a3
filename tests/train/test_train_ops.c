/* Each form of each op gives the reference's bits: odd sizes, 1, 2 and 3 threads. Replay with IQ_TEST_SEED. */
#include "kernels/arith.h"
#include "kernels/cpu/features.h"
#include "kernels/matrix.h"
#include "kernels/op.h"
#include "kernels/ops/matmul.h"
#include "tests/check_main.h"
#include "tests/train/rig.h"

#include <string.h>

/* With 1, 2 and 3 threads: each test's own. */
static struct iq_exec execs[4];

static void open_execs(void)
{
    for (int i = 1; i <= 3; i++) rig_check_ok(iq_pool_open(i, &execs[i].pool, &err));
}

static void close_execs(void)
{
    for (int i = 1; i <= 3; i++) {
        iq_exec_close(&execs[i]);
        iq_pool_close(execs[i].pool);
    }
}

/* Calls `one` with the reference's output first, then with every other form's, and compares the bits. */
struct trial {
    struct rig_random random; /* as it stood before: each form draws the same inputs */
    size_t outputs;           /* floats */
    int (*one)(struct iq_exec *, const struct iq_train_ops *, struct rig_random *, float *out);
};

static void compare_forms(const char *op, const struct trial *t)
{
    float *want = calloc(t->outputs, sizeof *want), *got = calloc(t->outputs, sizeof *got);
    struct rig_random r = t->random;
    ck_assert_int_eq(t->one(&execs[1], iq_train_ops_at(0), &r, want), IQ_OK);
    const struct iq_train_ops *o;
    for (size_t i = 1; (o = iq_train_ops_at(i)); i++)
        for (int threads = 1; threads <= 3 && (!o->usable || o->usable()); threads++) {
            memset(got, 0x5a, t->outputs * sizeof *got);
            r = t->random;
            ck_assert_int_eq(t->one(&execs[threads], o, &r, got), IQ_OK);
            for (size_t k = 0; k < t->outputs; k++)
                ck_assert_msg(
                    iq_f32_bits(got[k]) == iq_f32_bits(want[k]),
                    "%s, %s with %d threads: float %zu is %a, the reference's %a (IQ_TEST_SEED=%llu)", op,
                    o->name, threads, k, got[k], want[k], (unsigned long long)rig_seed());
        }
    free(want);
    free(got);
}

/* Sizes of the trial in hand: `one` has no other way to them. */
static uint32_t size[8];

#define REPEAT(times) for (int round = 0; round < (times); round++)

static struct rig_random start(int round)
{
    return (struct rig_random){rig_seed() * 1000 + (uint64_t)round, 0};
}

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
        struct rig_random r = start(round);
        size[0] = 1 + rig_below(&r, 60), size[1] = 1 + rig_below(&r, 90), size[2] = 1 + rig_below(&r, 500);
        size[3] = round % 3 ? 1 + rig_below(&r, 200) : 128;
        size[4] = round & 1, size[5] = round >> 1 & 1;
        compare_forms("product", &(struct trial){r, (size_t)size[0] * size[1], one_product});
    }
}
END_TEST

/* The engine's own reference of a product: what is trained is what is served. */
START_TEST(a_forward_product_has_the_bits_of_the_engines)
{
    REPEAT(6)
    {
        struct rig_random r = start(round);
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
        struct iq_train_product p = {rows, n, k, unit, a, w, k, 1, 1, k, got, n};
        rig_check_ok(iq_kernels_register(&err));
        ck_assert_int_eq(iq_variant_find("matmul", "reference")->run(&execs[2], NULL, &m, NULL, NULL), IQ_OK);
        ck_assert_int_eq(iq_train_ops_find(NULL)->product(&execs[2], &p), IQ_OK);
        ck_assert_mem_eq(got, want, (size_t)rows * n * sizeof *got);
        free(panels);
        free(a);
        free(w);
        free(want);
        free(got);
    }
}
END_TEST

static int one_norm(struct iq_exec *x, const struct iq_train_ops *o, struct rig_random *r, float *out)
{
    size_t n = size[0], rows = size[1] * size[2], dx = rows * n;
    float *in = rig_floats(r, dx), *w = rig_floats(r, n), *dy = rig_floats(r, dx),
          *before = rig_floats(r, dx);
    memcpy(out, before, dx * sizeof *out);
    struct iq_train_norm_back a = {(uint32_t)rows, size[1], (uint32_t)n, 1e-5f, in, w, dy, out, out + dx};
    int rc = o->norm_back(x, &a);
    free(in), free(w), free(dy), free(before);
    return rc;
}

START_TEST(gradients_of_norms_give_the_references_bits)
{
    REPEAT(12)
    {
        struct rig_random r = start(round);
        size[0] = 1 + rig_below(&r, 100), size[1] = 1 + rig_below(&r, 150), size[2] = 1 + rig_below(&r, 6);
        compare_forms("norm_back",
                      &(struct trial){r, (size_t)size[0] * size[1] * size[2] + size[0], one_norm});
    }
}
END_TEST

static int one_rope(struct iq_exec *x, const struct iq_train_ops *o, struct rig_random *r, float *out)
{
    size_t dim = size[0], heads = size[1], unit = size[2], rows = unit * size[3], ld = heads * dim;
    float *table = rig_floats(r, unit * dim), *dx = rig_floats(r, rows * ld);
    memcpy(out, dx, rows * ld * sizeof *out);
    struct iq_train_rope_back a = {
        (uint32_t)rows, (uint32_t)unit, (uint32_t)heads, (uint32_t)dim, table, out, ld};
    int rc = o->rope_back(x, &a);
    free(table), free(dx);
    return rc;
}

START_TEST(gradients_of_rotary_give_the_references_bits)
{
    REPEAT(8)
    {
        struct rig_random r = start(round);
        size[0] = 2 * (1 + rig_below(&r, 40)), size[1] = 1 + rig_below(&r, 5);
        size[2] = 1 + rig_below(&r, 70), size[3] = 1 + rig_below(&r, 5);
        compare_forms("rope_back",
                      &(struct trial){r, (size_t)size[0] * size[1] * size[2] * size[3], one_rope});
    }
}
END_TEST

static int one_swiglu(struct iq_exec *x, const struct iq_train_ops *o, struct rig_random *r, float *out)
{
    size_t n = size[0], rows = size[1];
    float *in = rig_floats(r, rows * 2 * n), *dy = rig_floats(r, rows * n);
    for (size_t i = 0; i < rows * 2 * n; i++) in[i] *= 20.0f;
    in[0] = -200.0f; /* whose exponential is infinite */
    struct iq_train_swiglu_back a = {(uint32_t)rows, (uint32_t)n, in, in + n, dy, out, out + n, 2 * n, n};
    int rc = o->swiglu_back(x, &a);
    free(in), free(dy);
    return rc;
}

START_TEST(gradients_of_swiglu_give_the_references_bits)
{
    REPEAT(8)
    {
        struct rig_random r = start(round);
        size[0] = 1 + rig_below(&r, 300), size[1] = 1 + rig_below(&r, 150);
        compare_forms("swiglu_back", &(struct trial){r, 2 * (size_t)size[0] * size[1], one_swiglu});
    }
}
END_TEST

static int one_attention(struct iq_exec *x, const struct iq_train_ops *o, struct rig_random *r, float *out)
{
    size_t dim = size[0], kv = size[1], heads = kv * size[2], unit = size[3], rows = unit * size[4];
    size_t ld = (heads + 2 * kv) * dim;
    float *q = rig_floats(r, rows * ld), *y = rig_floats(r, rows * heads * dim);
    float *dy = rig_floats(r, rows * heads * dim);
    struct iq_train_attention_back a = {.sequences = size[4],
                                        .unit = (uint32_t)unit,
                                        .heads = (uint32_t)heads,
                                        .kv_heads = (uint32_t)kv,
                                        .dim = (uint32_t)dim,
                                        .scale = 0.7f,
                                        .q = q,
                                        .k = q + heads * dim,
                                        .v = q + (heads + kv) * dim,
                                        .y = y,
                                        .dy = dy,
                                        .dq = out,
                                        .dk = out + heads * dim,
                                        .dv = out + (heads + kv) * dim,
                                        .ld = ld};
    int rc = o->attention_back(x, &a);
    free(q), free(y), free(dy);
    return rc;
}

START_TEST(gradients_of_attention_give_the_references_bits)
{
    REPEAT(12)
    {
        struct rig_random r = start(round);
        size[0] = 2 * (1 + rig_below(&r, round % 4 ? 20 : 64)), size[1] = 1 + rig_below(&r, 3);
        size[2] = 1 + rig_below(&r, 3), size[3] = 1 + rig_below(&r, round % 3 ? 50 : 290);
        size[4] = 1 + rig_below(&r, 3);
        size_t rows = (size_t)size[3] * size[4], width = (size_t)(size[2] + 2) * size[1] * size[0];
        compare_forms("attention_back", &(struct trial){r, rows * width, one_attention});
    }
}
END_TEST

static int one_loss(struct iq_exec *x, const struct iq_train_ops *o, struct rig_random *r, float *out)
{
    size_t vocab = size[0], rows = size[1];
    float *logits = rig_floats(r, rows * vocab);
    uint32_t *target = malloc(rows * sizeof *target);
    uint8_t *hit = malloc(rows);
    for (size_t i = 0; i < rows; i++)
        target[i] = rig_below(r, 3) ? rig_below(r, (uint32_t)vocab) : IQ_TRAIN_NO_TARGET;
    for (size_t i = 0; i < rows * vocab; i++) out[i] = logits[i] * 30.0f;
    struct iq_train_loss a = {(uint32_t)rows, (uint32_t)vocab, 0.125f, target, out, out + rows * vocab, hit};
    int rc = o->loss(x, &a);
    for (size_t i = 0; i < rows; i++) out[rows * vocab + rows + i] = hit[i];
    free(logits), free(target), free(hit);
    return rc;
}

START_TEST(cross_entropy_gives_the_references_bits)
{
    REPEAT(10)
    {
        struct rig_random r = start(round);
        size[0] = 1 + rig_below(&r, 400), size[1] = 1 + rig_below(&r, 90);
        compare_forms("loss", &(struct trial){r, (size_t)size[0] * size[1] + 2 * size[1], one_loss});
    }
}
END_TEST

static int one_residual(struct iq_exec *x, const struct iq_train_ops *o, struct rig_random *r, float *out)
{
    size_t n = (size_t)size[0] * size[1] * size[2];
    float *in = rig_floats(r, n), *b = rig_floats(r, n);
    struct iq_train_residual a = {.rows = size[1] * size[2],
                                  .unit = size[1],
                                  .n = size[0],
                                  .p = size[3] ? 0.3f : 0.0f,
                                  .seed = 5,
                                  .step = 7,
                                  .site = 3,
                                  .sequence = 2,
                                  .x = size[4] ? in : NULL,
                                  .b = b,
                                  .y = out};
    int rc = o->residual(x, &a);
    free(in), free(b);
    return rc;
}

START_TEST(residuals_with_and_without_dropout_give_the_references_bits)
{
    REPEAT(8)
    {
        struct rig_random r = start(round);
        size[0] = 1 + rig_below(&r, 130), size[1] = 1 + rig_below(&r, 40), size[2] = 1 + rig_below(&r, 6);
        size[3] = round & 1, size[4] = round >> 1 & 1;
        compare_forms("residual", &(struct trial){r, (size_t)size[0] * size[1] * size[2], one_residual});
    }
}
END_TEST

static int one_embed(struct iq_exec *x, const struct iq_train_ops *o, struct rig_random *r, float *out)
{
    size_t rows = (size_t)size[1] * size[2];
    float *dx = rig_floats(r, rows * size[0]);
    uint32_t *ids = malloc(rows * sizeof *ids);
    for (size_t i = 0; i < rows; i++) ids[i] = rig_below(r, size[3]);
    struct iq_train_embed_back a = {(uint32_t)rows, size[1], size[3], size[0], ids, dx, out};
    int rc = o->embed_back(x, &a);
    free(dx), free(ids);
    return rc;
}

START_TEST(gradients_of_embeddings_give_the_references_bits)
{
    REPEAT(8)
    {
        struct rig_random r = start(round);
        size[0] = 1 + rig_below(&r, 70), size[1] = 1 + rig_below(&r, 50), size[2] = 1 + rig_below(&r, 17);
        size[3] = 1 + rig_below(&r, 300);
        compare_forms("embed_back", &(struct trial){r, (size_t)size[3] * size[0], one_embed});
    }
}
END_TEST

static int one_update(struct iq_exec *x, const struct iq_train_ops *o, struct rig_random *r, float *out)
{
    size_t n = size[0];
    float *g = rig_floats(r, n), *w = rig_floats(r, n), *m = rig_floats(r, n), *v = rig_floats(r, n);
    double squares;
    for (size_t i = 0; i < n; i++) v[i] = v[i] * v[i];
    memcpy(out, w, n * sizeof *w), memcpy(out + n, m, n * sizeof *m), memcpy(out + 2 * n, v, n * sizeof *v);
    struct iq_train_adamw a = {.n = n,
                               .clip = 0.75f,
                               .lr = 0.01f,
                               .beta1 = 0.9f,
                               .beta2 = 0.95f,
                               .eps = 1e-8f,
                               .decay = 0.1f,
                               .rate1 = 1.5f,
                               .rate2 = 2.5f,
                               .g = g,
                               .w = out,
                               .m = out + n,
                               .v = out + 2 * n};
    struct iq_train_squares s = {n, g, &squares};
    struct iq_train_add add = {n, g, out + 3 * n};
    memcpy(out + 3 * n, w, n * sizeof *w);
    int rc = o->adamw(x, &a);
    if (rc == IQ_OK) rc = o->squares(x, &s);
    if (rc == IQ_OK) rc = o->add(x, &add);
    memcpy(out + 4 * n, &squares, sizeof squares);
    free(g), free(w), free(m), free(v);
    return rc;
}

START_TEST(updates_norms_and_sums_give_the_references_bits)
{
    REPEAT(6)
    {
        struct rig_random r = start(round);
        size[0] = 1 + rig_below(&r, round % 2 ? 13000 : 90);
        compare_forms("adamw, squares, add", &(struct trial){r, 4 * (size_t)size[0] + 2, one_update});
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("train_ops");
    TCase *c = tcase_create("forms");
    tcase_set_timeout(c, 240);
    tcase_add_checked_fixture(c, open_execs, close_execs);
    tcase_add_test(c, products_of_all_three_uses_give_the_references_bits);
    tcase_add_test(c, a_forward_product_has_the_bits_of_the_engines);
    tcase_add_test(c, gradients_of_norms_give_the_references_bits);
    tcase_add_test(c, gradients_of_rotary_give_the_references_bits);
    tcase_add_test(c, gradients_of_swiglu_give_the_references_bits);
    tcase_add_test(c, gradients_of_attention_give_the_references_bits);
    tcase_add_test(c, cross_entropy_gives_the_references_bits);
    tcase_add_test(c, residuals_with_and_without_dropout_give_the_references_bits);
    tcase_add_test(c, gradients_of_embeddings_give_the_references_bits);
    tcase_add_test(c, updates_norms_and_sums_give_the_references_bits);
    suite_add_tcase(s, c);
    return check_main(s);
}
