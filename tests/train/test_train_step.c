/* The step as a whole: what its bits may not depend on, that it learns, and that it continues from a checkpoint. */
#include "tests/check_main.h"
#include "tests/train/rig.h"

#include <math.h>
#include <string.h>

static void check_same(struct iq_digest got, struct iq_digest want, const char *what, uint32_t value)
{
    ck_assert_msg(iq_digest_equal(got, want), "%s %u: other bits than the plain run's (IQ_TEST_SEED=%llu)",
                  what, value, (unsigned long long)rig_seed());
}

/* Dense, and with experts: tests run with each. */
enum { DENSE, EXPERTS, KINDS };

static struct iq_train_recipe dropping(int kind)
{
    struct iq_train_recipe c = kind == EXPERTS ? rig_experts() : rig_recipe();
    c.dropout = 0.1;
    return c;
}

/* Eleven rows a step: the nodes that ranks and micro-batches own are uneven. */
START_TEST(data_parallel_sizes_give_one_models_bits)
{
    struct iq_train_recipe c = dropping(_i);
    struct iq_digest want = rig_train(&c, (struct iq_train_options){0}, 5);
    for (uint32_t n = 2; n <= 8; n *= 2)
        check_same(rig_train(&c, (struct iq_train_options){.data_parallel = n}, 5), want, "data-parallel", n);
}
END_TEST

START_TEST(micro_batches_give_the_whole_batchs_bits)
{
    struct iq_train_recipe c = dropping(_i);
    c.tied = 1;
    struct iq_digest want = rig_train(&c, (struct iq_train_options){0}, 5);
    for (uint32_t n = 2; n <= 8; n *= 2)
        check_same(rig_train(&c, (struct iq_train_options){.micro = n}, 5), want, "micro-batches", n);
    struct iq_train_options both = {.data_parallel = 2, .micro = 4};
    check_same(rig_train(&c, both, 5), want, "two ranks with micro-batches", 4);
}
END_TEST

START_TEST(threads_change_no_bit)
{
    struct iq_train_recipe c = dropping(_i);
    struct iq_digest want = rig_train(&c, (struct iq_train_options){.threads = 1}, 5);
    for (uint32_t n = 2; n <= 3; n++)
        check_same(rig_train(&c, (struct iq_train_options){.threads = n}, 5), want, "threads", n);
}
END_TEST

START_TEST(instruction_sets_give_the_references_bits)
{
    struct iq_train_recipe c = dropping(_i);
    struct iq_digest want = rig_train(&c, (struct iq_train_options){.isa = "reference"}, 3);
    const struct iq_train_ops *o;
    for (size_t i = 1; (o = iq_train_ops_at(i)); i++)
        if (!o->usable || o->usable())
            check_same(rig_train(&c, (struct iq_train_options){.isa = o->name}, 3), want, o->name, 0);
}
END_TEST

/* A sequence's rows longer than a chunk of 128 and than attention's 256 keys. */
START_TEST(long_rows_give_the_same_bits_under_every_grouping)
{
    struct iq_train_recipe c = dropping(_i);
    struct rig_random r = {rig_seed(), 0};
    struct iq_train_batch b = rig_batch(&r, &c, 3, 277);
    struct iq_train_options o[] = {{.isa = "reference"}, {.threads = 2, .data_parallel = 2}, {.micro = 2}};
    struct iq_digest first = {0, 0};
    for (size_t i = 0; i < sizeof o / sizeof *o; i++) {
        struct iq_train *t = rig_open(&c, o[i]);
        struct iq_train_result result;
        rig_check_ok(iq_train_step(t, &b, &result, &err));
        if (i == 0) first = iq_train_digest(t);
        check_same(iq_train_digest(t), first, "options", (uint32_t)i);
        iq_train_close(t);
    }
    rig_batch_free(&b);
}
END_TEST

START_TEST(each_number_of_the_recipe_that_enters_a_step_changes_its_bits)
{
    struct iq_train_recipe c = dropping(_i);
    struct iq_digest want = rig_train(&c, (struct iq_train_options){0}, 3);
#define CHANGE(field, value)                                                                                 \
    c = dropping(_i), c.field = (value);                                                                     \
    ck_assert_msg(!iq_digest_equal(rig_train(&c, (struct iq_train_options){0}, 3), want), #field)
    CHANGE(seed, c.seed + 1);
    CHANGE(dropout, 0);
    CHANGE(rope_base, 500);
    CHANGE(norm_eps, 1e-3);
    CHANGE(warmup, 3);
    CHANGE(rate, 0.02);
    CHANGE(beta1, 0.8);
    CHANGE(beta2, 0.9);
    CHANGE(eps, 1e-6);
    CHANGE(decay, 0);
    CHANGE(clip, 0.01);
    if (_i != EXPERTS) return;
    CHANGE(experts, 6);
    CHANGE(active, 3);
    CHANGE(balance, 0);
    CHANGE(init_router, 0.1);
}
END_TEST

/* On every machine and compiler: the contract leaves nothing to them. */
START_TEST(twenty_steps_end_at_the_pinned_digest)
{
    struct iq_train_recipe c = dropping(_i);
    const char *want[KINDS] = {"b6d3eec53251040e1f4ca2ec1ea9f1b4", "8e19c8071d5a6d093ce607e3242fea24"};
    char hex[IQ_DIGEST_HEX];
    c.seed = 1;
    iq_digest_hex(rig_train(&c, (struct iq_train_options){.threads = 2}, 20), hex);
    ck_assert_str_eq(hex, want[_i]);
}
END_TEST

/* A router of zeros finds all experts equal: the first two serve every row, and the load is as even as can be measured by
 * probabilities. */
START_TEST(experts_that_serve_no_row_have_gradients_of_plus_zero)
{
    struct iq_train_recipe c = rig_experts();
    c.init_router = 0;
    struct iq_train *t = rig_open(&c, (struct iq_train_options){.micro = 2});
    struct rig_random r = {rig_seed(), 0};
    struct iq_train_batch b = rig_batch(&r, &c, 3, 20);
    struct iq_train_result result;
    rig_check_ok(iq_train_step(t, &b, &result, &err));
    ck_assert(fabs(result.balance - c.layers) < 1e-6);
    const struct iq_train_tensor *x;
    for (size_t i = 0; (x = iq_train_tensor_at(t, i)); i++) {
        const float *g = iq_train_gradient(t) + x->at;
        size_t n = (size_t)x->rows * x->cols, served = n / c.experts * 2, used = 0;
        if (!strstr(x->name, "gate_up") && !strstr(x->name, "down")) continue;
        for (size_t k = 0; k < served; k++) used += g[k] != 0;
        ck_assert_msg(used > served / 2, "%s", x->name);
        for (size_t k = served; k < n; k++)
            ck_assert_msg(!memcmp(&g[k], &(float){0}, sizeof *g), "%s, element %zu: %a", x->name, k, g[k]);
    }
    rig_batch_free(&b);
    iq_train_close(t);
}
END_TEST

START_TEST(rates_follow_the_schedule)
{
    struct iq_train_recipe c = rig_recipe();
    c.steps = 100, c.warmup = 10, c.rate = 2, c.tail = 0.5;
    ck_assert(iq_train_rate(&c, 0) == 0.2 && iq_train_rate(&c, 9) == 2 && iq_train_rate(&c, 50) == 2);
    ck_assert(iq_train_rate(&c, 75) == 1);
    ck_assert(iq_train_rate(&c, 99) < 0.05);
    c.schedule = IQ_TRAIN_FLAT;
    ck_assert(iq_train_rate(&c, 99) == 2);
    c.schedule = IQ_TRAIN_COSINE;
    ck_assert(iq_train_rate(&c, 4) == 1 && iq_train_rate(&c, 10) == 2);
    ck_assert(iq_train_rate(&c, 55) > 0.999999 && iq_train_rate(&c, 55) < 1.000001);
    c.encore = 10, c.encore_rate = 0.5;
    ck_assert(iq_train_rate(&c, 100) == 0.5 && iq_train_rate(&c, 105) == 0.25);
    ck_assert_uint_eq(iq_train_steps(&c), 110);
}
END_TEST

/* ---- a task that can be learned ---- */

enum { DIGITS = 10, MARK = DIGITS, WORD = 4, ROW = 2 * WORD + 2 };

/* MARK d d d d MARK d d d d: the second word is the first. */
static void fill_copies(uint64_t step, uint32_t rows, uint32_t *tokens, uint8_t *mask)
{
    struct rig_random r = {1000 + step, 0};
    for (uint32_t row = 0; row < rows; row++, tokens += ROW, mask += ROW) {
        memset(mask, 0, ROW);
        tokens[0] = tokens[WORD + 1] = MARK;
        for (uint32_t i = 1; i <= WORD; i++) {
            tokens[i] = tokens[WORD + 1 + i] = rig_below(&r, DIGITS);
            mask[WORD + 1 + i] = 1;
        }
    }
}

START_TEST(a_toy_model_learns_to_copy)
{
    enum { ROWS = 32, STEPS = 400 };
    struct iq_train_recipe c = rig_recipe();
    c.vocab = MARK + 1, c.hidden = 32, c.heads = c.kv_heads = 4, c.head_dim = 8, c.ffn = 64, c.length = ROW;
    c.init_out = 0, c.init_in = 0.09, c.init_head = 0.09, c.steps = STEPS, c.warmup = 20, c.rate = 0.01;
    c.seed = 1;
    if (_i == EXPERTS) c.experts = 4, c.active = 2, c.ffn = 32, c.balance = 0.01, c.init_router = 0.02;
    struct iq_train *t = rig_open(&c, (struct iq_train_options){.threads = 1});
    uint32_t tokens[ROWS * ROW];
    uint8_t mask[ROWS * ROW];
    struct iq_train_batch b = {ROWS, ROW, tokens, mask};
    struct iq_train_result result = {0};
    for (uint32_t step = 0; step < STEPS; step++) {
        fill_copies(step, ROWS, tokens, mask);
        rig_check_ok(iq_train_step(t, &b, &result, &err));
        if (step == 0) ck_assert_msg(result.loss > 2.0 && result.loss < 3.5, "first loss %g", result.loss);
    }
    ck_assert_msg(result.loss < 0.05, "loss %g after %d steps, expected below 0.05", result.loss, STEPS);
    ck_assert_uint_eq(result.targets, ROWS * WORD);
    ck_assert_uint_eq(result.hits, ROWS * WORD);
    float logits[ROW * (MARK + 1)];
    fill_copies(STEPS, 1, tokens, mask); /* a row that it has not seen */
    rig_check_ok(iq_train_logits(t, tokens, ROW, logits, &err));
    for (uint32_t i = WORD + 1; i < ROW - 1; i++)
        for (uint32_t v = 0; v <= MARK; v++) {
            const float *row = logits + i * (MARK + 1);
            ck_assert(v == tokens[i + 1] || row[v] < row[tokens[i + 1]]);
        }
    iq_train_close(t);
}
END_TEST

/* ---- what is refused ---- */

static int refused(const char *text, int status, int rc, const struct iq_err *err)
{
    ck_assert_msg(rc == status && strstr(err->text, text), "found %d \"%s\", expected %d \"%s\"", rc,
                  err->text, status, text);
    return 1;
}

START_TEST(wrong_recipes_and_options_are_refused_by_name)
{
    struct iq_train *t;
    struct iq_err err = {0};
    struct iq_train_recipe c = rig_recipe();
#define REFUSE(field, value, text)                                                                           \
    c = rig_recipe(), c.field = (value), refused(text, IQ_FORMAT, iq_train_open(&c, NULL, &t, &err), &err)
    REFUSE(steps, 0, "found steps 0");
    REFUSE(head_dim, 7, "head_dim 7");
    REFUSE(kv_heads, 3, "kv_heads 3");
    REFUSE(rate, 0.0 / 0.0, "rate");
    REFUSE(schedule, 9, "schedule 9");
    REFUSE(tail, 0, "tail 0");
    REFUSE(encore, 5, "encore 5 at rate 0");
    REFUSE(encore_rate, 0.1, "encore 0 at rate 0.1");
    REFUSE(experts, 4, "found active 0, expected 1 to the 4 experts");
    REFUSE(experts, 1025, "experts 1025");
    REFUSE(active, 1, "active 1, balance 0 and init_router 0 without experts");
    REFUSE(balance, 0.5, "balance 0.5");
    REFUSE(init_router, 0.25, "init_router 0.25");
    c = rig_experts(), c.active = 6;
    refused("found active 6, expected 1 to the 5", IQ_FORMAT, iq_train_open(&c, NULL, &t, &err), &err);
    c = rig_recipe();
    struct iq_train_options o = {.data_parallel = 3};
    refused("data-parallel 3", IQ_USAGE, iq_train_open(&c, &o, &t, &err), &err);
    o = (struct iq_train_options){.isa = "sse9"};
    refused("sse9", IQ_USAGE, iq_train_open(&c, &o, &t, &err), &err);
    ck_assert_ptr_null(t);
}
END_TEST

START_TEST(wrong_batches_are_refused_and_change_nothing)
{
    struct iq_train_recipe c = rig_recipe();
    struct iq_train *t = rig_open(&c, (struct iq_train_options){.data_parallel = 2});
    struct iq_digest before = iq_train_digest(t);
    struct iq_train_result result;
    struct iq_err err = {0};
    uint32_t tokens[6] = {1, 2, 3, 4, 5, 6};
    uint8_t mask[6] = {0, 1, 0, 0, 0, 1};
    struct iq_train_batch b = {1, 6, tokens, mask};
    refused("found 1 rows, expected at least 2", IQ_SHAPE, iq_train_step(t, &b, &result, &err), &err);
    b = (struct iq_train_batch){2, 3, tokens, mask};
    tokens[4] = 37;
    refused("row 1 column 1: found token 37", IQ_FORMAT, iq_train_step(t, &b, &result, &err), &err);
    tokens[4] = 5, mask[3] = 1;
    refused("row 1: the mask asks for token 0", IQ_FORMAT, iq_train_step(t, &b, &result, &err), &err);
    memset(mask, 0, sizeof mask);
    refused("no token to predict", IQ_FORMAT, iq_train_step(t, &b, &result, &err), &err);
    b.length = 301;
    refused("301 tokens", IQ_SHAPE, iq_train_step(t, &b, &result, &err), &err);
    ck_assert(iq_digest_equal(iq_train_digest(t), before));
    iq_train_close(t);
}
END_TEST

START_TEST(a_gradient_that_is_no_number_is_refused_and_changes_nothing)
{
    struct iq_train_recipe c = rig_recipe();
    struct iq_train *t = rig_open(&c, (struct iq_train_options){0});
    float *weights = (float *)iq_train_weights(t, NULL);
    weights[iq_train_tensor_at(t, 3)->at] = INFINITY;
    struct iq_digest before = iq_train_digest(t);
    struct rig_random r = {1, 0};
    struct iq_train_batch b = rig_batch(&r, &c, 2, 8);
    struct iq_train_result result;
    struct iq_err err = {0};
    int rc = iq_train_step(t, &b, &result, &err);
    refused("norm", IQ_LIMIT, rc, &err);
    ck_assert(iq_digest_equal(iq_train_digest(t), before));
    rig_batch_free(&b);
    iq_train_close(t);
}
END_TEST

START_TEST(a_finished_recipe_is_refused)
{
    struct iq_train_recipe c = rig_recipe();
    c.steps = 1, c.encore = 1, c.encore_rate = 0.01;
    struct iq_train *t = rig_open(&c, (struct iq_train_options){0});
    struct iq_train_result result;
    struct iq_err err = {0};
    rig_run(t, 0, 2);
    struct rig_random r = {1, 0};
    struct iq_train_batch b = rig_batch(&r, &c, 2, 8);
    refused("all 2 steps", IQ_LIMIT, iq_train_step(t, &b, &result, &err), &err);
    rig_batch_free(&b);
    iq_train_close(t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("train_step");
    TCase *c = tcase_create("step");
    tcase_set_timeout(c, 240);
    tcase_add_loop_test(c, data_parallel_sizes_give_one_models_bits, 0, KINDS);
    tcase_add_loop_test(c, micro_batches_give_the_whole_batchs_bits, 0, KINDS);
    tcase_add_loop_test(c, threads_change_no_bit, 0, KINDS);
    tcase_add_loop_test(c, instruction_sets_give_the_references_bits, 0, KINDS);
    tcase_add_loop_test(c, long_rows_give_the_same_bits_under_every_grouping, 0, KINDS);
    tcase_add_loop_test(c, each_number_of_the_recipe_that_enters_a_step_changes_its_bits, 0, KINDS);
    tcase_add_loop_test(c, twenty_steps_end_at_the_pinned_digest, 0, KINDS);
    tcase_add_test(c, experts_that_serve_no_row_have_gradients_of_plus_zero);
    tcase_add_test(c, rates_follow_the_schedule);
    tcase_add_loop_test(c, a_toy_model_learns_to_copy, 0, KINDS);
    tcase_add_test(c, wrong_recipes_and_options_are_refused_by_name);
    tcase_add_test(c, wrong_batches_are_refused_and_change_nothing);
    tcase_add_test(c, a_gradient_that_is_no_number_is_refused_and_changes_nothing);
    tcase_add_test(c, a_finished_recipe_is_refused);
    suite_add_tcase(s, c);
    return check_main(s);
}
