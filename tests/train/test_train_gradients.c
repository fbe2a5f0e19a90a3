/* Every gradient against central differences of the same formula in double. A loss is the sum of dy * y with random dy. */
#include "kernels/arith.h"
#include "kernels/rotary.h"
#include "tests/check_main.h"
#include "tests/train/double_model.h"
#include "tests/train/rig.h"

#include <math.h>
#include <string.h>

static const double base = 100.0; /* rotary: small, so that all pairs turn */

/* The inputs that a loss depends on, as doubles, and what else it needs. */
struct problem {
    size_t rows, unit, n, k, heads, kv_heads;
    size_t inputs, outputs;
    double *in;       /* (inputs) */
    double *y;        /* (outputs) room */
    const float *dy;  /* (outputs) */
    uint32_t *choice; /* (rows) ids or targets */
    void (*run)(struct problem *);
};

static double loss_of(struct problem *p)
{
    double s = 0;
    p->run(p);
    for (size_t i = 0; i < p->outputs; i++) s += p->y[i] * (double)p->dy[i];
    return s;
}

/* float32 gradients of sums of some ten to a hundred terms near 1 are good to a few 1e-6. */
static void check_gradient(struct problem *p, const char *op, const float *got)
{
    for (size_t i = 0; i < p->inputs; i++) {
        const double h = 1e-5, x = p->in[i];
        p->in[i] = x + h;
        double up = loss_of(p);
        p->in[i] = x - h;
        double down = loss_of(p), want = (up - down) / (2 * h);
        p->in[i] = x;
        ck_assert_msg(fabs((double)got[i] - want) <= 2e-5 * (1 + fabs(want)),
                      "%s: input %zu: gradient %.9g, difference quotient %.9g (IQ_TEST_SEED=%llu)", op, i,
                      (double)got[i], want, (unsigned long long)rig_seed());
    }
}

static float *in_floats; /* p->in rounded: they are floats to begin with */

static void set_up(struct problem *p, uint64_t salt)
{
    struct rig_random r = {rig_seed() + salt, 0};
    in_floats = rig_floats(&r, p->inputs);
    p->in = malloc(p->inputs * sizeof *p->in);
    p->y = calloc(p->outputs, sizeof *p->y);
    p->dy = rig_floats(&r, p->outputs);
    for (size_t i = 0; i < p->inputs; i++) p->in[i] = (double)in_floats[i];
}

static void tear_down(struct problem *p)
{
    free(in_floats);
    free(p->in);
    free(p->y);
    free((void *)p->dy);
    free(p->choice);
}

static struct iq_exec x;

static void linear(struct problem *p)
{
    double_linear(p->rows, p->n, p->k, p->in, p->in + p->rows * p->k, p->y);
}

START_TEST(of_linear_layers)
{
    struct problem p = {
        .rows = 9, .n = 7, .k = 13, .inputs = 9 * 13 + 7 * 13, .outputs = 9 * 7, .run = linear};
    set_up(&p, 1);
    float got[9 * 13 + 7 * 13], *w = in_floats + 9 * 13;
    struct iq_train_product dx = {9, 13, 7, 128, p.dy, w, 7, 1, 13, 1, got, 13, NULL, 0};
    struct iq_train_product dw = {7, 13, 9, 3, p.dy, in_floats, 1, 7, 13, 1, got + 9 * 13, 13, NULL, 0};
    ck_assert_int_eq(iq_train_ops_at(0)->product(&x, &dx), IQ_OK);
    ck_assert_int_eq(iq_train_ops_at(0)->product(&x, &dw), IQ_OK);
    check_gradient(&p, "product", got);
    tear_down(&p);
}
END_TEST

static void norm(struct problem *p) { double_norm(p->rows, p->n, 1e-3, p->in, p->in + p->rows * p->n, p->y); }

START_TEST(of_the_norm)
{
    struct problem p = {.rows = 6, .n = 37, .inputs = 7 * 37, .outputs = 6 * 37, .run = norm};
    set_up(&p, 2);
    float got[7 * 37] = {0};
    struct iq_train_norm_back a = {6, 3, 37, 1e-3f, in_floats, in_floats + 6 * 37, p.dy, got, got + 6 * 37};
    ck_assert_int_eq(iq_train_ops_at(0)->norm_back(&x, &a), IQ_OK);
    check_gradient(&p, "norm_back", got);
    tear_down(&p);
}
END_TEST

static void rope(struct problem *p) { double_rope(p->rows, p->unit, p->heads, p->n, base, p->in, p->y); }

START_TEST(of_the_rotary_embedding)
{
    struct problem p = {
        .rows = 10, .unit = 5, .heads = 2, .n = 6, .inputs = 120, .outputs = 120, .run = rope};
    set_up(&p, 3);
    float got[120], table[5 * 6];
    struct iq_rotary_spec spec = {.rotary = 6, .base = base};
    rig_check_ok(iq_rotary_table(&spec, 5, table, NULL, &err));
    memcpy(got, p.dy, sizeof got);
    struct iq_train_rope_back a = {10, 5, 2, 6, table, got, 12};
    ck_assert_int_eq(iq_train_ops_at(0)->rope_back(&x, &a), IQ_OK);
    check_gradient(&p, "rope_back", got);
    tear_down(&p);
}
END_TEST

static void swiglu(struct problem *p) { double_swiglu(p->rows, p->n, p->in, p->y); }

START_TEST(of_swiglu)
{
    struct problem p = {.rows = 5, .n = 21, .inputs = 5 * 42, .outputs = 5 * 21, .run = swiglu};
    set_up(&p, 4);
    float got[5 * 42];
    struct iq_train_swiglu_back a = {5, 21, in_floats, in_floats + 21, p.dy, got, got + 21, 42, 21};
    ck_assert_int_eq(iq_train_ops_at(0)->swiglu_back(&x, &a), IQ_OK);
    check_gradient(&p, "swiglu_back", got);
    tear_down(&p);
}
END_TEST

static void attention(struct problem *p)
{
    double_attention(p->rows / p->unit, p->unit, p->heads, p->kv_heads, p->n, p->in, p->y);
}

START_TEST(of_grouped_query_attention)
{
    enum { ROWS = 18, WIDTH = (4 + 2 * 2) * 6 };
    struct problem p = {.rows = ROWS,
                        .unit = 9,
                        .heads = 4,
                        .kv_heads = 2,
                        .n = 6,
                        .inputs = ROWS * WIDTH,
                        .outputs = ROWS * 24,
                        .run = attention};
    set_up(&p, 5);
    float got[ROWS * WIDTH], y[ROWS * 24];
    p.run(&p);
    for (size_t i = 0; i < ROWS * 24; i++) y[i] = (float)p.y[i];
    struct iq_train_attention_back a = {.sequences = 2,
                                        .unit = 9,
                                        .heads = 4,
                                        .kv_heads = 2,
                                        .dim = 6,
                                        .scale = 1.0f / sqrtf(6.0f),
                                        .q = in_floats,
                                        .k = in_floats + 24,
                                        .v = in_floats + 36,
                                        .y = y,
                                        .dy = p.dy,
                                        .dq = got,
                                        .dk = got + 24,
                                        .dv = got + 36,
                                        .ld = WIDTH};
    ck_assert_int_eq(iq_train_ops_at(0)->attention_back(&x, &a), IQ_OK);
    check_gradient(&p, "attention_back", got);
    tear_down(&p);
}
END_TEST

/* n experts, k of a row: the weights by slot, then the balance's term. */
static void mixture(struct problem *p)
{
    double *weight = p->y + p->outputs, *y = p->y;
    double_route(p->rows, p->n, p->k, p->in, weight);
    for (size_t i = 0; i < p->rows * p->n; i++)
        if (weight[i] > 0) *y++ = weight[i];
    *y = double_balance(p->rows, p->unit, p->n, p->k, p->in, weight);
}

START_TEST(of_routing_and_its_balance)
{
    enum { ROWS = 15, UNIT = 5, EXPERTS = 6, ACTIVE = 3, SLOTS = ROWS * ACTIVE };
    struct problem p = {.rows = ROWS,
                        .unit = UNIT,
                        .n = EXPERTS,
                        .k = ACTIVE,
                        .inputs = ROWS * EXPERTS,
                        .outputs = SLOTS + 1,
                        .run = mixture};
    set_up(&p, 9);
    p.y = realloc(p.y, (SLOTS + 1 + ROWS * EXPERTS) * sizeof *p.y);
    float got[ROWS * EXPERTS], weight[SLOTS], balance[ROWS] = {0}, scale = p.dy[SLOTS] * EXPERTS;
    double sum = 0;
    p.choice = malloc(SLOTS * sizeof *p.choice);
    p.run(&p);
    for (uint32_t i = 0, s = 0; i < ROWS * EXPERTS; i++)
        if (p.y[SLOTS + 1 + i] > 0) p.choice[s] = i % EXPERTS, weight[s] = (float)p.y[s], s++;
    struct iq_train_route_back a = {.rows = ROWS,
                                    .unit = UNIT,
                                    .experts = EXPERTS,
                                    .k = ACTIVE,
                                    .scale = scale / (ACTIVE * UNIT * UNIT * (ROWS / UNIT)),
                                    .logits = in_floats,
                                    .expert = p.choice,
                                    .weight = weight,
                                    .dweight = p.dy,
                                    .dlogits = got,
                                    .balance = balance};
    ck_assert_int_eq(iq_train_ops_at(0)->route_back(&x, &a), IQ_OK);
    for (int i = 0; i < ROWS; i++) sum += (double)balance[i];
    ck_assert(fabs(sum * EXPERTS / (ACTIVE * UNIT * ROWS) - p.y[SLOTS]) <= 1e-5);
    check_gradient(&p, "route_back", got);
    tear_down(&p);
}
END_TEST

/* Two slots a row, the second's rows lying before the first's; x by slots, then weights. */
enum { MIXED = 8 };
static uint32_t mixed_at(size_t slot) { return (uint32_t)(slot % 2 ? slot / 2 : MIXED + slot / 2); }

static void combine(struct problem *p)
{
    const double *weight = p->in + 2 * MIXED * p->n;
    for (size_t i = 0; i < p->outputs; i++) {
        size_t slot = i / p->n * 2, a = mixed_at(slot) * p->n, b = mixed_at(slot + 1) * p->n;
        p->y[i] = weight[slot] * p->in[a + i % p->n] + weight[slot + 1] * p->in[b + i % p->n];
    }
}

START_TEST(of_combining_what_experts_gave)
{
    enum { N = 11 };
    struct problem p = {.n = N, .inputs = 2 * MIXED * (N + 1), .outputs = MIXED * N, .run = combine};
    set_up(&p, 10);
    uint32_t place[2 * MIXED];
    float got[2 * MIXED * (N + 1)];
    for (uint32_t i = 0; i < 2 * MIXED; i++) place[i] = mixed_at(i);
    struct iq_train_combine_back a = {
        MIXED, 2, N, place, in_floats + 2 * MIXED * N, in_floats, p.dy, got + 2 * MIXED * N, got};
    ck_assert_int_eq(iq_train_ops_at(0)->combine_back(&x, &a), IQ_OK);
    check_gradient(&p, "combine_back", got);
    tear_down(&p);
}
END_TEST

static void dispatch(struct problem *p)
{
    for (size_t i = 0; i < p->outputs; i++) {
        size_t place = i / p->n, row = place < MIXED ? place : place - MIXED;
        p->y[i] = p->in[row * p->n + i % p->n];
    }
}

START_TEST(of_sending_rows_to_experts)
{
    enum { N = 11 };
    struct problem p = {.n = N, .inputs = MIXED * N, .outputs = 2 * MIXED * N, .run = dispatch};
    set_up(&p, 11);
    uint32_t place[2 * MIXED];
    float got[MIXED * N] = {0};
    for (uint32_t i = 0; i < 2 * MIXED; i++) place[i] = mixed_at(i);
    struct iq_train_dispatch_back a = {MIXED, 2, N, place, p.dy, got};
    ck_assert_int_eq(iq_train_ops_at(0)->dispatch_back(&x, &a), IQ_OK);
    check_gradient(&p, "dispatch_back", got);
    tear_down(&p);
}
END_TEST

static void loss(struct problem *p) { p->y[0] = double_loss(p->rows, p->n, p->in, p->choice); }

START_TEST(of_cross_entropy)
{
    struct problem p = {.rows = 7, .n = 19, .inputs = 7 * 19, .outputs = 1, .run = loss};
    set_up(&p, 6);
    float one[7];
    uint8_t hit[7];
    p.choice = malloc(7 * sizeof *p.choice);
    for (uint32_t i = 0; i < 7; i++) p.choice[i] = i == 3 ? IQ_TRAIN_NO_TARGET : i * 5 % 19;
    double want = (p.run(&p), p.y[0]), sum = 0;
    float *got = malloc(7 * 19 * sizeof *got);
    memcpy(got, in_floats, 7 * 19 * sizeof *got);
    struct iq_train_loss a = {7, 19, p.dy[0], p.choice, got, one, hit};
    ck_assert_int_eq(iq_train_ops_at(0)->loss(&x, &a), IQ_OK);
    for (int i = 0; i < 7; i++) sum += (double)one[i];
    ck_assert(fabs(sum - want) <= 1e-5 * want);
    check_gradient(&p, "loss", got);
    free(got);
    tear_down(&p);
}
END_TEST

static void embed(struct problem *p)
{
    for (size_t r = 0; r < p->rows; r++)
        memcpy(p->y + r * p->n, p->in + p->choice[r] * p->n, p->n * sizeof *p->y);
}

START_TEST(of_the_embedding)
{
    struct problem p = {.rows = 30, .n = 5, .inputs = 8 * 5, .outputs = 30 * 5, .run = embed};
    set_up(&p, 7);
    float got[8 * 5];
    p.choice = malloc(30 * sizeof *p.choice);
    for (uint32_t i = 0; i < 30; i++) p.choice[i] = i * i % 7; /* 7 is never there */
    struct iq_train_embed_back a = {30, 6, 8, 5, p.choice, p.dy, got};
    ck_assert_int_eq(iq_train_ops_at(0)->embed_back(&x, &a), IQ_OK);
    check_gradient(&p, "embed_back", got);
    tear_down(&p);
}
END_TEST

/* Dropout is linear: forward on a branch, and its gradient, must scale or drop the same elements; about p of them. */
START_TEST(of_dropout_drops_what_forward_dropped)
{
    enum { ROWS = 40, N = 50 };
    float one[ROWS * N], zero[ROWS * N] = {0}, y[ROWS * N], g[ROWS * N];
    for (int i = 0; i < ROWS * N; i++) one[i] = 1.0f;
    struct iq_train_residual forward = {.rows = ROWS,
                                        .unit = 8,
                                        .n = N,
                                        .p = 0.25f,
                                        .seed = 3,
                                        .step = 4,
                                        .site = 5,
                                        .x = zero,
                                        .b = one,
                                        .y = y};
    struct iq_train_residual back = forward;
    back.x = NULL;
    back.y = g;
    ck_assert_int_eq(iq_train_ops_at(0)->residual(&x, &forward), IQ_OK);
    ck_assert_int_eq(iq_train_ops_at(0)->residual(&x, &back), IQ_OK);
    ck_assert_mem_eq(y, g, sizeof y);
    int dropped = 0;
    for (int i = 0; i < ROWS * N; i++) {
        ck_assert(y[i] == 0.0f || y[i] == 1.0f / 0.75f);
        dropped += y[i] == 0.0f;
    }
    ck_assert_int_ge(dropped, 400); /* 500 expected, deviation 19 */
    ck_assert_int_le(dropped, 600);
}
END_TEST

/* The whole model: the trainer's gradient, and its loss, against differences of the double model's loss. */
static double minimised(const struct iq_train_recipe *c, const double *weights,
                        const struct iq_train_batch *b)
{
    double balance, loss = double_model_loss(c, weights, b, &balance);
    return loss + c->balance * balance;
}

static void check_model(struct iq_train_recipe c)
{
    struct rig_random r = {rig_seed() + 8, 0};
    struct iq_train_batch b = rig_batch(&r, &c, 3, 11);
    struct iq_train_result result;
    size_t n;
    struct iq_train *t = rig_open(&c, (struct iq_train_options){.threads = 2});
    const float *w = iq_train_weights(t, &n);
    double *weights = malloc(n * sizeof *weights);
    for (size_t i = 0; i < n; i++) weights[i] = (double)w[i];
    rig_check_ok(iq_train_step(t, &b, &result, &err));
    const float *got = iq_train_gradient(t);
    double balance, loss = double_model_loss(&c, weights, &b, &balance), squares = 0;
    ck_assert_msg(fabs(loss - result.loss) <= 1e-5 * loss, "loss %.9g, in double %.9g", result.loss, loss);
    ck_assert_msg(fabs(balance - result.balance) <= 1e-5 * balance, "balance %.9g, in double %.9g",
                  result.balance, balance);
    for (size_t i = 0; i < n; i++) squares += (double)got[i] * (double)got[i];
    ck_assert(fabs(sqrt(squares) - result.norm) <= 1e-9 * result.norm);
    const struct iq_train_tensor *x;
    for (size_t k = 0; (x = iq_train_tensor_at(t, k)); k++)
        for (int round = 0; round < 12; round++) {
            size_t i = x->at + rig_below(&r, x->rows * x->cols);
            const double h = 1e-5, kept = weights[i];
            weights[i] = kept + h;
            double up = minimised(&c, weights, &b);
            weights[i] = kept - h;
            double down = minimised(&c, weights, &b), want = (up - down) / (2 * h);
            weights[i] = kept;
            ck_assert_msg(fabs((double)got[i] - want) <= 1e-6 + 2e-4 * fabs(want),
                          "%s, element %zu: gradient %.9g, difference quotient %.9g (IQ_TEST_SEED=%llu)",
                          x->name, i - x->at, (double)got[i], want, (unsigned long long)rig_seed());
        }
    free(weights);
    rig_batch_free(&b);
    iq_train_close(t);
}

START_TEST(of_a_whole_model) { check_model(rig_recipe()); }
END_TEST

START_TEST(of_a_whole_model_whose_head_is_tied)
{
    struct iq_train_recipe c = rig_recipe();
    c.tied = 1;
    check_model(c);
}
END_TEST

/* One of five, two, and all: with one, only the balance moves the router. */
START_TEST(of_whole_mixtures_of_experts)
{
    struct iq_train_recipe c = rig_experts();
    check_model(c);
    c.active = 1;
    check_model(c);
    c.active = c.experts;
    c.balance = 0;
    check_model(c);
}
END_TEST

/* AdamW and clipping, against the paper's formulas in double over ten steps of one weight. */
START_TEST(adamw_follows_its_formulas)
{
    double m = 0, v = 0, w = 0.5;
    float fw = 0.5f, fm = 0, fv = 0;
    for (int step = 1; step <= 10; step++) {
        float g = (float)sin(step), slope = g * 0.5f;
        m = 0.9 * m + 0.1 * (double)slope;
        v = 0.95 * v + 0.05 * (double)slope * (double)slope;
        w -= 0.02 * 0.1 * w;
        w -= 0.02 * (m / (1 - pow(0.9, step))) / (sqrt(v / (1 - pow(0.95, step))) + 1e-8);
        struct iq_train_adamw a = {.n = 1,
                                   .clip = 0.5f,
                                   .lr = 0.02f,
                                   .beta1 = 0.9f,
                                   .beta2 = 0.95f,
                                   .eps = 1e-8f,
                                   .decay = 0.1f,
                                   .rate1 = (float)(1 / (1 - pow(0.9, step))),
                                   .rate2 = (float)(1 / (1 - pow(0.95, step))),
                                   .g = &g,
                                   .w0 = &fw,
                                   .m0 = &fm,
                                   .v0 = &fv,
                                   .w = &fw,
                                   .m = &fm,
                                   .v = &fv};
        ck_assert_int_eq(iq_train_ops_at(0)->adamw(&x, &a), IQ_OK);
        ck_assert(fabs((double)fw - w) <= 1e-6);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("train_gradients");
    TCase *c = tcase_create("differences");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, of_linear_layers);
    tcase_add_test(c, of_the_norm);
    tcase_add_test(c, of_the_rotary_embedding);
    tcase_add_test(c, of_swiglu);
    tcase_add_test(c, of_grouped_query_attention);
    tcase_add_test(c, of_routing_and_its_balance);
    tcase_add_test(c, of_combining_what_experts_gave);
    tcase_add_test(c, of_sending_rows_to_experts);
    tcase_add_test(c, of_cross_entropy);
    tcase_add_test(c, of_the_embedding);
    tcase_add_test(c, of_dropout_drops_what_forward_dropped);
    tcase_add_test(c, of_a_whole_model);
    tcase_add_test(c, of_a_whole_model_whose_head_is_tied);
    tcase_add_test(c, of_whole_mixtures_of_experts);
    tcase_add_test(c, adamw_follows_its_formulas);
    suite_add_tcase(s, c);
    int rc = check_main(s);
    iq_exec_close(&x);
    return rc;
}
