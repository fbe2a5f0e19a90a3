#include "kernels/arith.h"
#include "kernels/base/rng.h"
#include "kernels/exec.h"
#include "kernels/ops/sampling.h"
#include "kernels/tables.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const struct iq_variant *variant(const char *kind, size_t n)
{
    for (size_t i = 0; iq__variants_sampling[i]; i++) {
        const struct iq_variant *v = iq__variants_sampling[i];
        if (!strcmp(v->kind, kind) && (!v->usable || v->usable()) && n-- == 0) return v;
    }
    return NULL;
}

static uint32_t below(uint64_t *seed, uint32_t n)
{
    *seed = iq_mix64(*seed + 0x9e3779b97f4a7c15u);
    return (uint32_t)(*seed >> 33) % n;
}

/* Logits of a kind: spread, crowded (many ties), odd values, all equal, rising, mostly NaN. */
static void fill(float *x, size_t n, uint32_t kind, uint64_t seed)
{
    static const float odd[] = {NAN,       INFINITY,   -INFINITY, 0.0f,   -0.0f,
                                0x1p-149f, -0x1p-149f, 3e38f,     -3e38f, 1.0f};
    for (size_t i = 0; i < n; i++) {
        uint64_t z = iq_mix64(seed ^ iq_mix64(i));
        float spread = (float)(int32_t)(z >> 32) * 0x1p-28f;
        x[i] = kind == 0   ? spread
               : kind == 1 ? (float)(z % 7)
               : kind == 2 ? (z % 3 ? spread : odd[(z >> 8) % 10])
               : kind == 3 ? 2.5f
               : kind == 4 ? (float)i * 0x1p-10f
                           : (z % 50 ? NAN : spread);
    }
}

struct topk_case {
    struct iq_topk a;
    float *logits;
};

static void topk_open(struct topk_case *c, uint32_t rows, uint32_t vocab, uint32_t k)
{
    c->logits = calloc((size_t)rows * (vocab + 3) + 1, sizeof(float));
    c->a = (struct iq_topk){rows,
                            vocab,
                            k,
                            1,
                            c->logits,
                            vocab + 3,
                            calloc((size_t)rows * k + 1, 4),
                            calloc((size_t)rows * k + 1, 4)};
}

static void topk_close(struct topk_case *c) { free(c->logits), free(c->a.ids), free(c->a.values); }

START_TEST(topk_of_every_variant_is_the_reference)
{
    struct iq_pool *pool[3];
    for (int t = 0; t < 3; t++) ck_assert_int_eq(iq_pool_open(t + 1, &pool[t], NULL), IQ_OK);
    uint64_t seed = 11;
    for (int n = 0; n < 400; n++) {
        uint64_t replay = seed;
        uint32_t vocab = 1 + below(&seed, n % 4 ? 3000 : 20000), rows = below(&seed, 5);
        uint32_t k = n % 7 == 0 ? below(&seed, vocab < 400 ? vocab + 1 : 400)
                                : 1 + below(&seed, vocab < 64 ? vocab : 64);
        struct topk_case c;
        topk_open(&c, rows, vocab, k);
        fill(c.logits, (size_t)rows * c.a.ld, below(&seed, 6), seed);
        size_t bytes = (size_t)rows * k * 4;
        ck_assert_int_eq(variant("topk", 0)->run(&(struct iq_exec){0}, NULL, &c.a, NULL, NULL), IQ_OK);
        struct iq_err err;
        ck_assert_msg(iq__kind_topk.check(&c.a, &err) == IQ_OK, "%s", err.text);
        struct iq_topk got = c.a;
        got.ids = malloc(bytes + 1), got.values = malloc(bytes + 1);
        for (size_t v = 1; variant("topk", v); v++)
            for (int t = 0; t < 3; t++) {
                struct iq_exec x = {.pool = pool[t]};
                memset(got.ids, 0xee, bytes), memset(got.values, 0xee, bytes);
                ck_assert_int_eq(variant("topk", v)->run(&x, NULL, &got, NULL, NULL), IQ_OK);
                ck_assert_msg(!memcmp(got.ids, c.a.ids, bytes) && !memcmp(got.values, c.a.values, bytes),
                              "seed %#llx: %s, vocab %u, k %u, %u rows, %d threads",
                              (unsigned long long)replay, variant("topk", v)->name, vocab, k, rows, t + 1);
                iq_exec_close(&x);
            }
        free(got.ids), free(got.values);
        topk_close(&c);
    }
    for (int t = 0; t < 3; t++) iq_pool_close(pool[t]);
}
END_TEST

START_TEST(topk_may_ask_for_the_whole_vocabulary)
{
    for (size_t v = 0; variant("topk", v); v++) {
        struct topk_case c;
        struct iq_exec x = {0};
        struct iq_err err;
        topk_open(&c, 1, 3001, 3001);
        fill(c.logits, 3001, 2, 5);
        ck_assert_int_eq(variant("topk", v)->run(&x, NULL, &c.a, NULL, NULL), IQ_OK);
        ck_assert_msg(iq__kind_topk.check(&c.a, &err) == IQ_OK, "%s: %s", variant("topk", v)->name, err.text);
        c.a.k = 3002;
        ck_assert_int_eq(variant("topk", v)->run(&x, NULL, &c.a, NULL, NULL), IQ_SHAPE);
        iq_exec_close(&x);
        topk_close(&c);
    }
}
END_TEST

START_TEST(topk_orders_by_value_then_id_with_nan_last_and_zeros_equal)
{
    static const float logits[] = {NAN, -0.0f, 1.0f, 0.0f, -INFINITY, 1.0f, INFINITY, -0.0f};
    static const uint32_t want[] = {6, 2, 5, 1, 3, 7, 4, 0};
    for (size_t v = 0; variant("topk", v); v++) {
        uint32_t ids[8];
        float values[8];
        struct iq_exec x = {0};
        struct iq_topk a = {1, 8, 8, 1, logits, 8, ids, values};
        ck_assert_int_eq(variant("topk", v)->run(&x, NULL, &a, NULL, NULL), IQ_OK);
        for (int i = 0; i < 8; i++) ck_assert_uint_eq(ids[i], want[i]);
        ck_assert_uint_eq(iq_f32_bits(values[3]), 0x80000000u); /* as the logit has it */
        ck_assert_uint_eq(iq_f32_bits(values[7]), IQ_NAN_BITS);
        iq_exec_close(&x);
    }
}
END_TEST

/* Each way of being wrong that incidents tell of is seen. */
START_TEST(the_check_of_topk_sees_each_kind_of_wrong_result)
{
    struct topk_case c;
    struct iq_exec x = {0};
    struct iq_err err;
    topk_open(&c, 1, 500, 8);
    fill(c.logits, 500, 0, 3);
    ck_assert_int_eq(variant("topk", 0)->run(&x, NULL, &c.a, NULL, NULL), IQ_OK);
    uint32_t id[8];
    float value[8];
    memcpy(id, c.a.ids, 32), memcpy(value, c.a.values, 32);
    for (int wrong = 0; wrong < 6; wrong++) {
        memcpy(c.a.ids, id, 32), memcpy(c.a.values, value, 32);
        uint32_t outside = 0;
        for (uint32_t i = 0; i < 8; i++) outside += outside == id[i];
        switch (wrong) {
        case 0: /* the argmax is left out */
            memmove(c.a.ids, id + 1, 28), memmove(c.a.values, value + 1, 28);
            for (uint32_t i = 0; i < 500; i++) { /* the ninth best */
                bool inside = false;
                for (int j = 0; j < 8; j++) inside |= id[j] == i;
                if (!inside && (c.logits[i] > c.logits[outside] || i == outside)) outside = i;
            }
            c.a.ids[7] = outside, c.a.values[7] = c.logits[outside];
            break;
        case 1:
            c.a.ids[3] = 500;
            break;
        case 2:
            c.a.ids[3] = id[2], c.a.values[3] = value[2];
            break;
        case 3:
            c.a.values[5] = value[4];
            break;
        case 4:
            c.a.ids[0] = id[1], c.a.values[0] = value[1], c.a.ids[1] = id[0], c.a.values[1] = value[0];
            break;
        case 5: /* one in the middle is left out */
            memmove(c.a.ids + 4, id + 5, 12), memmove(c.a.values + 4, value + 5, 12);
            for (uint32_t i = 0; i < 500; i++)
                if (c.logits[i] < value[7] &&
                    (c.logits[i] > c.logits[outside] || c.logits[outside] >= value[7]))
                    outside = i;
            c.a.ids[7] = outside, c.a.values[7] = c.logits[outside];
            break;
        }
        ck_assert_msg(iq__kind_topk.check(&c.a, &err) == IQ_MISMATCH, "wrong %d goes unseen", wrong);
    }
    iq_exec_close(&x);
    topk_close(&c);
}
END_TEST

START_TEST(a_row_of_topk_is_its_ids_then_its_values)
{
    struct topk_case c;
    struct iq_exec x = {0};
    uint32_t row[16];
    topk_open(&c, 3, 100, 8);
    fill(c.logits, 309, 0, 3);
    variant("topk", 0)->run(&x, NULL, &c.a, NULL, NULL);
    ck_assert_uint_eq(iq__kind_topk.row_bytes(&c.a, 0), 64);
    ck_assert_uint_eq(iq__kind_topk.row_bytes(&c.a, 1), 0);
    memcpy(row, iq__kind_topk.get(&c.a, 0, 1, row), 64);
    ck_assert(!memcmp(row, c.a.ids + 8, 32) && !memcmp(row + 8, c.a.values + 8, 32));
    iq__kind_topk.put(&c.a, 0, 2, row);
    ck_assert(!memcmp(c.a.ids + 16, c.a.ids + 8, 32) && !memcmp(c.a.values + 16, c.a.values + 8, 32));
    iq_exec_close(&x);
    topk_close(&c);
}
END_TEST

enum { ROWS = 24 };

struct sample_case {
    struct topk_case top;
    struct iq_sample a;
    uint32_t pos[ROWS], top_k[ROWS], token[ROWS];
    uint64_t seed[ROWS];
    float temperature[ROWS], top_p[ROWS], min_p[ROWS];
};

static void sample_open(struct sample_case *c, uint32_t rows, uint32_t vocab, uint32_t k, uint32_t kind,
                        uint64_t *seed)
{
    static const float p[] = {1, 0.9f, 0.5f, 0, 0.999f, NAN, 2, -1, 1e-9f},
                       m[] = {0, 0.05f, 0.5f, 1, NAN, 3, 1e-7f};
    topk_open(&c->top, rows, vocab, k);
    fill(c->top.logits, (size_t)rows * c->top.a.ld, kind, *seed);
    variant("topk", 0)->run(&(struct iq_exec){0}, NULL, &c->top.a, NULL, NULL);
    for (uint32_t r = 0; r < rows; r++) {
        c->pos[r] = below(seed, 5000);
        c->seed[r] = below(seed, 1000);
        c->temperature[r] = below(seed, 8) ? 0.7f : 0;
        c->top_p[r] = p[below(seed, 9)];
        c->min_p[r] = m[below(seed, 7)];
        c->top_k[r] = below(seed, 2) ? below(seed, k + 1) : 0;
    }
    c->a = (struct iq_sample){.rows = rows,
                              .vocab = vocab,
                              .k = k,
                              .logits = c->top.logits,
                              .ld = c->top.a.ld,
                              .ids = c->top.a.ids,
                              .values = c->top.a.values,
                              .pos = c->pos,
                              .seed = c->seed,
                              .temperature = c->temperature,
                              .top_p = c->top_p,
                              .min_p = c->min_p,
                              .top_k = c->top_k,
                              .token = c->token};
}

START_TEST(sample_of_every_variant_is_the_reference)
{
    struct iq_pool *pool[3];
    for (int t = 0; t < 3; t++) ck_assert_int_eq(iq_pool_open(t + 1, &pool[t], NULL), IQ_OK);
    uint64_t seed = 7;
    int drawn = 0;
    for (int n = 0; n < 300; n++) {
        uint64_t replay = seed;
        uint32_t vocab = 1 + below(&seed, n % 4 ? 200 : 6000), rows = below(&seed, ROWS + 1);
        uint32_t k = below(&seed, vocab < 50 ? vocab + 1 : 50);
        static struct sample_case c;
        sample_open(&c, rows, vocab, k, below(&seed, 6), &seed);
        if (n % 16 == 0 && rows)
            fill(c.top.logits, vocab, 3, 0); /* candidates of other logits: still defined */
        uint32_t want[ROWS];
        struct iq_exec ref = {0};
        int status = variant("sample", 0)->run(&ref, NULL, &c.a, NULL, NULL);
        iq_exec_close(&ref);
        memcpy(want, c.token, sizeof want);
        for (uint32_t r = 0; r < rows; r++) drawn += want[r] != UINT32_MAX;
        for (size_t v = 1; variant("sample", v); v++)
            for (int t = 0; t < 3; t++) {
                struct iq_exec x = {.pool = pool[t]};
                memset(c.token, 0xee, sizeof c.token);
                ck_assert_int_eq(variant("sample", v)->run(&x, NULL, &c.a, NULL, NULL), status);
                for (uint32_t r = 0; r < rows; r++)
                    ck_assert_msg(
                        c.token[r] == want[r],
                        "seed %#llx: %s, row %u of %u: token %u, reference %u (vocab %u, top_k %u, top_p %g, "
                        "min_p %g)",
                        (unsigned long long)replay, variant("sample", v)->name, r, rows, c.token[r], want[r],
                        vocab, c.top_k[r], c.top_p[r], c.min_p[r]);
                iq_exec_close(&x);
            }
        topk_close(&c.top);
    }
    ck_assert_int_gt(drawn, 1000);
    for (int t = 0; t < 3; t++) iq_pool_close(pool[t]);
}
END_TEST

/* What `draws` draws of one row give, as counts. Seeds differ, all else is one. */
static void count(const struct iq_variant *v, const float *logits, uint32_t vocab, uint32_t top_k,
                  float top_p, float min_p, uint32_t *counts, uint32_t draws)
{
    struct iq_exec x = {0};
    uint32_t ids[8], pos = 9, token;
    float values[8], one = 1;
    struct iq_topk t = {1, vocab, vocab < 8 ? vocab : 8, 1, logits, vocab, ids, values};
    variant("topk", 0)->run(&x, NULL, &t, NULL, NULL);
    memset(counts, 0, vocab * sizeof *counts);
    for (uint64_t seed = 0; seed < draws; seed++) {
        struct iq_sample a = {1,    vocab, t.k,  logits, vocab,  ids,    values,
                              &pos, &seed, &one, &top_p, &min_p, &top_k, &token};
        ck_assert_int_eq(v->run(&x, NULL, &a, NULL, NULL), IQ_OK);
        ck_assert_uint_lt(token, vocab);
        counts[token]++;
    }
    iq_exec_close(&x);
}

START_TEST(tokens_are_drawn_as_often_as_their_weights_say)
{
    static const float logits[] = {0.0f, 1.0f, -30.0f, 2.0f, NAN, 1.0f}; /* e^0 e^1 0 e^2 0 e^1 */
    static const double weight[] = {1, 2.718281828, 0, 7.389056099, 0, 2.718281828};
    enum { DRAWS = 20000 };
    for (size_t v = 0; variant("sample", v); v++)
        for (uint32_t top_k = 0; top_k < 7; top_k += 5) {
            uint32_t n[6];
            count(variant("sample", v), logits, 6, top_k, 1, 0, n, DRAWS);
            for (int i = 0; i < 6; i++) {
                double p = weight[i] / 13.825619924, sigma = sqrt(DRAWS * p * (1 - p));
                ck_assert_msg(fabs(n[i] - DRAWS * p) <= 5 * sigma, "token %d: %u of %d draws, expected %.0f",
                              i, n[i], DRAWS, DRAWS * p);
            }
        }
}
END_TEST

START_TEST(filters_keep_exactly_the_tokens_that_their_rules_name)
{
    /* Equal steps of ln 2: weights 8 4 4 2 1 1, in units of 2^37; sum 20. */
    static const float ln2 = 0.693147182f;
    const float logits[] = {-1 * ln2, -3 * ln2, 0, -1 * ln2, -2 * ln2, -3 * ln2};
    static const struct {
        uint32_t top_k;
        float top_p, min_p;
        uint32_t kept; /* bit per token */
    } rule[] = {
        {0, 1, 0, 0x3f},     /* all */
        {3, 1, 0, 0x0d},     /* 2, 0, 3: the tie of 0 and 3 is inside */
        {2, 1, 0, 0x05},     /* tie cut by id: 0 before 3 */
        {5, 1, 0, 0x1f},     /* tie cut by id: 1 before 5 */
        {0, 1, 0.24f, 0x1d}, /* at least a quarter of the largest, about */
        {0, 1, 0.26f, 0x0d},     {0, 1, 1, 0x04},     {0, 0, 0, 0x04},     /* one always stays */
        {0, 0.39f, 0, 0x04},                                               /* 8 / 20 = 0.4 */
        {0, 0.41f, 0, 0x05},                                               /* then the tie by id */
        {0, 0.61f, 0, 0x0d},                                               /* 12 / 20 = 0.6 */
        {0, 0.79f, 0, 0x0d},     {0, 0.81f, 0, 0x1d}, {0, 0.91f, 0, 0x1f}, /* 18 / 20 = 0.9 */
        {0, 0.96f, 0, 0x3f},     {3, 0.51f, 0, 0x05}, /* of 16: top_p looks at what top_k left */
        {0, 0.51f, 0.26f, 0x05},                      /* of 16 too: min_p comes first */
    };
    for (size_t v = 0; variant("sample", v); v++)
        for (size_t i = 0; i < sizeof rule / sizeof *rule; i++) {
            uint32_t n[6], kept = 0;
            count(variant("sample", v), logits, 6, rule[i].top_k, rule[i].top_p, rule[i].min_p, n, 600);
            for (int t = 0; t < 6; t++) kept |= (uint32_t)(n[t] > 0) << t;
            ck_assert_msg(kept == rule[i].kept, "%s, rule %zu: tokens %#x, expected %#x",
                          variant("sample", v)->name, i, kept, rule[i].kept);
        }
}
END_TEST

START_TEST(a_draw_depends_on_no_row_but_its_own)
{
    uint64_t seed = 99;
    static struct sample_case c;
    sample_open(&c, ROWS, 700, 20, 0, &seed);
    for (size_t v = 0; variant("sample", v); v++) {
        struct iq_exec x = {0};
        uint32_t token;
        ck_assert_int_eq(variant("sample", v)->run(&x, NULL, &c.a, NULL, NULL), IQ_OK);
        for (uint32_t r = 0; r < ROWS; r++) {
            struct iq_sample a = {1,
                                  700,
                                  20,
                                  c.a.logits + r * c.a.ld,
                                  c.a.ld,
                                  c.a.ids + r * 20,
                                  c.a.values + r * 20,
                                  &c.pos[r],
                                  &c.seed[r],
                                  &c.temperature[r],
                                  &c.top_p[r],
                                  &c.min_p[r],
                                  &c.top_k[r],
                                  &token};
            ck_assert_int_eq(variant("sample", v)->run(&x, NULL, &a, NULL, NULL), IQ_OK);
            ck_assert_uint_eq(token, c.token[r]);
        }
        iq_exec_close(&x);
    }
    topk_close(&c.top);
}
END_TEST

/* A row that can't be drawn says so and leaves its neighbours alone. */
START_TEST(rows_that_can_not_be_drawn_are_errors)
{
    static const struct {
        float temperature;
        uint32_t top_k;
        int spoil, status;
    } row[] = {{0, 0, 1, IQ_NOT_FOUND}, {1, 0, 1, IQ_NOT_FOUND}, {1, 2, 1, IQ_NOT_FOUND},
               {1, 5, 0, IQ_SHAPE},     {1, 2, 2, IQ_MISMATCH},  {0, 0, 2, IQ_MISMATCH}};
    for (size_t v = 0; variant("sample", v); v++)
        for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
            float logits[3][4] = {{1, 2, 3, 4}, {1, 2, 3, 4}, {4, 3, 2, 1}}, values[3][4], off = 0;
            float temperature[3] = {0, row[i].temperature, 0}, top_p[3] = {1, 1, 1},
                  min_p[3] = {off, off, off};
            uint32_t ids[3][4], pos[3] = {0}, top_k[3] = {0, row[i].top_k, 0}, token[3];
            uint64_t seed[3] = {0};
            struct iq_exec x = {0};
            for (int j = 0; j < 4 && row[i].spoil == 1; j++) logits[1][j] = NAN;
            struct iq_topk t = {3, 4, 4, 1, logits[0], 4, ids[0], values[0]};
            variant("topk", 0)->run(&x, NULL, &t, NULL, NULL);
            if (row[i].spoil == 2) ids[1][0] = 4;
            struct iq_sample a = {3,   4,    4,           logits[0], 4,     ids[0], values[0],
                                  pos, seed, temperature, top_p,     min_p, top_k,  token};
            ck_assert_int_eq(variant("sample", v)->run(&x, NULL, &a, NULL, NULL), row[i].status);
            ck_assert_uint_eq(token[0], 3);
            ck_assert_uint_eq(token[1], UINT32_MAX);
            ck_assert_uint_eq(token[2], 0);
            iq_exec_close(&x);
        }
    float none = 0;
    uint32_t token = 0, zero = 0;
    uint64_t seed = 0;
    struct iq_exec x = {0};
    struct iq_sample a = {1,     4,     0,     (float[4]){0}, 4,     &zero, &none,
                          &zero, &seed, &none, &none,         &none, &zero, &token};
    for (size_t v = 0; variant("sample", v); v++) /* k = 0 */
        ck_assert_int_eq(variant("sample", v)->run(&x, NULL, &a, NULL, NULL), IQ_NOT_FOUND);
    iq_exec_close(&x);
}
END_TEST

START_TEST(the_check_of_sample_sees_tokens_that_were_not_allowed)
{
    uint64_t seed = 5;
    struct iq_err err;
    struct iq_exec x = {0};
    static struct sample_case c;
    sample_open(&c, 4, 300, 10, 0, &seed);
    c.temperature[0] = 0, c.temperature[1] = 1, c.top_k[1] = 3, c.temperature[2] = 1, c.top_k[2] = 0;
    ck_assert_int_eq(variant("sample", 0)->run(&x, NULL, &c.a, NULL, NULL), IQ_OK);
    ck_assert_msg(iq__kind_sample.check(&c.a, &err) == IQ_OK, "%s", err.text);
    static const struct {
        uint32_t row, candidate;
    } wrong[] = {{0, 1}, {1, 3}};
    for (int i = 0; i < 2; i++) {
        uint32_t was = c.token[wrong[i].row];
        c.token[wrong[i].row] = c.a.ids[wrong[i].row * 10 + wrong[i].candidate];
        ck_assert_int_eq(iq__kind_sample.check(&c.a, &err), IQ_MISMATCH);
        c.token[wrong[i].row] = was;
    }
    c.token[2] = 300;
    ck_assert_int_eq(iq__kind_sample.check(&c.a, &err), IQ_MISMATCH);
    iq_exec_close(&x);
    topk_close(&c.top);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sampling");
    TCase *t = tcase_create("sampling");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, topk_of_every_variant_is_the_reference);
    tcase_add_test(t, topk_may_ask_for_the_whole_vocabulary);
    tcase_add_test(t, topk_orders_by_value_then_id_with_nan_last_and_zeros_equal);
    tcase_add_test(t, the_check_of_topk_sees_each_kind_of_wrong_result);
    tcase_add_test(t, a_row_of_topk_is_its_ids_then_its_values);
    tcase_add_test(t, sample_of_every_variant_is_the_reference);
    tcase_add_test(t, tokens_are_drawn_as_often_as_their_weights_say);
    tcase_add_test(t, filters_keep_exactly_the_tokens_that_their_rules_name);
    tcase_add_test(t, a_draw_depends_on_no_row_but_its_own);
    tcase_add_test(t, rows_that_can_not_be_drawn_are_errors);
    tcase_add_test(t, the_check_of_sample_sees_tokens_that_were_not_allowed);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
