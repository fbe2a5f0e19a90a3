/* Each form of each op but the product (test_train_products.c) gives the reference's bits. */
#include "tests/check_main.h"
#include "tests/train/forms.h"

#include <string.h>

/* Sizes of the trial in hand: `one` has no other way to them. */
static uint32_t size[8];

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
        struct rig_random r = forms_start(round);
        size[0] = 1 + rig_below(&r, 100), size[1] = 1 + rig_below(&r, 150), size[2] = 1 + rig_below(&r, 6);
        forms_compare("norm_back",
                      &(struct forms_trial){r, (size_t)size[0] * size[1] * size[2] + size[0], one_norm});
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
        struct rig_random r = forms_start(round);
        size[0] = 2 * (1 + rig_below(&r, 40)), size[1] = 1 + rig_below(&r, 5);
        size[2] = 1 + rig_below(&r, 70), size[3] = 1 + rig_below(&r, 5);
        forms_compare("rope_back",
                      &(struct forms_trial){r, (size_t)size[0] * size[1] * size[2] * size[3], one_rope});
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
        struct rig_random r = forms_start(round);
        size[0] = 1 + rig_below(&r, 300), size[1] = 1 + rig_below(&r, 150);
        forms_compare("swiglu_back", &(struct forms_trial){r, 2 * (size_t)size[0] * size[1], one_swiglu});
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
        struct rig_random r = forms_start(round);
        size[0] = 2 * (1 + rig_below(&r, round % 4 ? 20 : 64)), size[1] = 1 + rig_below(&r, 3);
        size[2] = 1 + rig_below(&r, 3), size[3] = 1 + rig_below(&r, round % 3 ? 50 : 290);
        size[4] = 1 + rig_below(&r, 3);
        size_t rows = (size_t)size[3] * size[4], width = (size_t)(size[2] + 2) * size[1] * size[0];
        forms_compare("attention_back", &(struct forms_trial){r, rows * width, one_attention});
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
        struct rig_random r = forms_start(round);
        size[0] = 1 + rig_below(&r, 400), size[1] = 1 + rig_below(&r, 90);
        forms_compare("loss", &(struct forms_trial){r, (size_t)size[0] * size[1] + 2 * size[1], one_loss});
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
        struct rig_random r = forms_start(round);
        size[0] = 1 + rig_below(&r, 130), size[1] = 1 + rig_below(&r, 40), size[2] = 1 + rig_below(&r, 6);
        size[3] = round & 1, size[4] = round >> 1 & 1;
        forms_compare("residual",
                      &(struct forms_trial){r, (size_t)size[0] * size[1] * size[2], one_residual});
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
        struct rig_random r = forms_start(round);
        size[0] = 1 + rig_below(&r, 70), size[1] = 1 + rig_below(&r, 50), size[2] = 1 + rig_below(&r, 17);
        size[3] = 1 + rig_below(&r, 300);
        forms_compare("embed_back", &(struct forms_trial){r, (size_t)size[3] * size[0], one_embed});
    }
}
END_TEST

/* Routing of rows to size[3] of size[2] experts each: ids and, by expert then row, the slots' places. */
struct routing {
    uint32_t *expert, *place;
};

static struct routing draw_routing(struct rig_random *r, uint32_t rows, uint32_t experts, uint32_t k)
{
    struct routing to = {malloc(rows * k * sizeof *to.expert), malloc(rows * k * sizeof *to.place)};
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t e = 0, s = 0; s < k; e++)
            if (rig_below(r, experts - e) < k - s) to.expert[row * k + s++] = e;
    for (uint32_t e = 0, at = 0; e < experts; e++)
        for (uint32_t i = 0; i < rows * k; i++)
            if (to.expert[i] == e) to.place[i] = at++;
    return to;
}

static int one_mixture(struct iq_exec *x, const struct iq_train_ops *o, struct rig_random *r, float *out)
{
    const uint32_t unit = size[0], rows = unit * size[1], experts = size[2], k = size[3], n = size[4];
    const size_t slots = (size_t)rows * k;
    struct routing to = draw_routing(r, rows, experts, k);
    float *logits = rig_floats(r, (size_t)rows * experts), *weight = rig_floats(r, slots);
    float *served = rig_floats(r, slots * n), *dy = rig_floats(r, (size_t)rows * n);
    float *dweight = out, *dx = dweight + slots, *dlogits = dx + slots * n,
          *balance = dlogits + rows * experts, *dh = balance + rows;
    for (size_t i = 0; i < (size_t)rows * experts; i++) logits[i] *= 20.0f;
    for (size_t i = 0; i < rows; i++) balance[i] = 0.25f;
    for (size_t i = 0; i < (size_t)rows * n; i++) dh[i] = dy[i];
    struct iq_train_combine_back combine = {rows, k, n, to.place, weight, served, dy, dweight, dx};
    struct iq_train_route_back route = {rows,      unit,   experts, k,       0.01f,  logits,
                                        to.expert, weight, dweight, dlogits, balance};
    struct iq_train_dispatch_back dispatch = {rows, k, n, to.place, served, dh};
    int rc = o->combine_back(x, &combine);
    if (rc == IQ_OK) rc = o->route_back(x, &route);
    if (rc == IQ_OK) rc = o->dispatch_back(x, &dispatch);
    free(to.expert), free(to.place), free(logits), free(weight), free(served), free(dy);
    return rc;
}

START_TEST(gradients_of_mixtures_of_experts_give_the_references_bits)
{
    REPEAT(12)
    {
        struct rig_random r = forms_start(round);
        size[0] = 1 + rig_below(&r, 90), size[1] = 1 + rig_below(&r, 6);
        size[2] = 1 + rig_below(&r, round % 3 ? 12 : 100);
        size[3] = 1 + rig_below(&r, size[2] < IQ_EXPERT_SLOTS ? size[2] : IQ_EXPERT_SLOTS);
        size[4] = 1 + rig_below(&r, 130);
        size_t rows = (size_t)size[0] * size[1], slots = rows * size[3];
        forms_compare(
            "combine_back, route_back, dispatch_back",
            &(struct forms_trial){r, slots + slots * size[4] + rows * (size[2] + 1 + size[4]), one_mixture});
    }
}
END_TEST

static int one_update(struct iq_exec *x, const struct iq_train_ops *o, struct rig_random *r, float *out)
{
    size_t n = size[0];
    float *g = rig_floats(r, n), *w = rig_floats(r, n), *m = rig_floats(r, n), *v = rig_floats(r, n);
    double squares;
    for (size_t i = 0; i < n; i++) v[i] = v[i] * v[i];
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
                               .w0 = w,
                               .m0 = m,
                               .v0 = v,
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
        struct rig_random r = forms_start(round);
        size[0] = 1 + rig_below(&r, round % 2 ? 13000 : 90);
        forms_compare("adamw, squares, add", &(struct forms_trial){r, 4 * (size_t)size[0] + 2, one_update});
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("train_ops");
    TCase *c = tcase_create("forms");
    tcase_set_timeout(c, 240);
    tcase_add_checked_fixture(c, forms_open, forms_close);
    tcase_add_test(c, gradients_of_norms_give_the_references_bits);
    tcase_add_test(c, gradients_of_rotary_give_the_references_bits);
    tcase_add_test(c, gradients_of_swiglu_give_the_references_bits);
    tcase_add_test(c, gradients_of_attention_give_the_references_bits);
    tcase_add_test(c, cross_entropy_gives_the_references_bits);
    tcase_add_test(c, residuals_with_and_without_dropout_give_the_references_bits);
    tcase_add_test(c, gradients_of_embeddings_give_the_references_bits);
    tcase_add_test(c, gradients_of_mixtures_of_experts_give_the_references_bits);
    tcase_add_test(c, updates_norms_and_sums_give_the_references_bits);
    suite_add_tcase(s, c);
    return check_main(s);
}
