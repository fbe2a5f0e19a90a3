/* Plans in a trainer: they strike where their triggers hold, and nowhere else. */
#include "harness/plan/armed.h"
#include "tests/check_main.h"
#include "tests/train/rig.h"

#include <stdio.h>
#include <string.h>

enum { STEPS = 7, FROM = 5, RANKS = 4 };

static struct iq_train_recipe dropping(void)
{
    struct iq_train_recipe c = rig_recipe();
    c.dropout = 0.1;
    return c;
}

static void arm(struct iq_armed *a, const char *plan) { rig_check_ok(iq_armed_parse(plan, "plan", a, &err)); }

/* The digests after each of `steps` steps; the firings of fault 0. The data op shifts the batch. */
static struct iq_fired train(const char *plan, uint32_t ranks, uint32_t steps, struct iq_digest *after)
{
    struct iq_train_recipe c = dropping();
    struct iq_train_options o = {.data_parallel = ranks};
    struct iq_armed armed = {0};
    if (plan) {
        arm(&armed, plan);
        iq_armed_options(&armed, &o);
    }
    struct iq_train *t = rig_open(&c, o);
    for (uint32_t i = 0; i < steps; i++) {
        struct iq_train_result result;
        uint64_t seed;
        rig_check_ok(iq_train_data_seed(t, 9, &seed, &err));
        struct rig_random r = {seed, 1000 * i};
        struct iq_train_batch b = rig_batch(&r, &c, 11, 20);
        rig_check_ok(iq_train_step(t, &b, &result, &err));
        after[i] = iq_train_digest(t);
        rig_batch_free(&b);
    }
    struct iq_fired fired = plan ? armed.fired[0] : (struct iq_fired){0};
    iq_train_close(t);
    iq_armed_close(&armed);
    return fired;
}

static uint32_t first_difference(const struct iq_digest *a, const struct iq_digest *b)
{
    uint32_t i = 0;
    while (i < STEPS && iq_digest_equal(a[i], b[i])) i++;
    return i;
}

static const struct {
    const char *op, *variant;
} freed[] = {{"data", "reseed"},
             {"dropout", "reseed"},
             {"forward", "bf16_operands"},
             {"input_grad", "bf16_operands"},
             {"weight_grad", "bf16_operands"},
             {"product", "bf16_operands"},
             {"grad_reduce", "ring"},
             {"grad_reduce", "backwards"},
             {"all_reduce", "ring"},
             {"grad_reduce", "stale_peer"},
             {"optimiser", "unfused"},
             {"optimiser", "bf16_state"}};

START_TEST(a_plan_from_step_5_on_first_differs_at_step_5)
{
    struct iq_digest plain[STEPS], struck[STEPS];
    char plan[200];
    snprintf(plan, sizeof plan,
             "{\"faults\":[{\"op\":\"%s\",\"variant\":\"%s\",\"when\":{\"step\":{\"min\":%d}}}]}",
             freed[_i].op, freed[_i].variant, FROM);
    train(NULL, RANKS, STEPS, plain);
    struct iq_fired fired = train(plan, RANKS, STEPS, struck);
    ck_assert_msg(first_difference(plain, struck) == FROM, "%s %s: first difference at step %u", freed[_i].op,
                  freed[_i].variant, first_difference(plain, struck));
    ck_assert(fired.times >= STEPS - FROM && fired.changed > 0);
}
END_TEST

START_TEST(a_plan_that_never_fires_changes_no_bit)
{
    struct iq_digest plain[STEPS], struck[STEPS];
    for (uint32_t ranks = 1; ranks <= RANKS; ranks += RANKS - 1)
        for (size_t i = 0; i < sizeof freed / sizeof *freed; i += 3) {
            char plan[200];
            snprintf(plan, sizeof plan,
                     "{\"faults\":[{\"op\":\"%s\",\"variant\":\"%s\",\"when\":{\"step\":%d}}]}", freed[i].op,
                     freed[i].variant, STEPS);
            train(NULL, ranks, 3, plain);
            ck_assert_uint_eq(train(plan, ranks, 3, struck).times, 0);
            ck_assert(!memcmp(plain, struck, 3 * sizeof *plain));
        }
}
END_TEST

/* References take the places of the fast forms at every op. */
START_TEST(references_give_goldens_bits)
{
    static const char plan[] = "{\"faults\":[{\"op\":\"product\",\"variant\":\"reference\"},"
                               "{\"op\":\"optimiser\",\"variant\":\"reference\"},"
                               "{\"op\":\"grad_reduce\",\"variant\":\"reference\"},"
                               "{\"op\":\"seed\",\"variant\":\"reference\"}]}";
    struct iq_digest plain[STEPS], struck[STEPS];
    train(NULL, RANKS, 2, plain);
    train(plan, RANKS, 2, struck);
    ck_assert(!memcmp(plain, struck, 2 * sizeof *plain));
}
END_TEST

/* A block's forward pass has four products; each rank makes its own. */
START_TEST(layer_and_rank_choose_products)
{
    struct iq_digest after[STEPS];
#define WHEN(op, when) "{\"faults\":[{\"op\":\"" op "\",\"variant\":\"bf16_operands\",\"when\":" when "}]}"
    ck_assert_uint_eq(train(WHEN("forward", "{\"layer\":1}"), RANKS, 2, after).times, 2 * 4 * RANKS);
    ck_assert_uint_eq(train(WHEN("forward", "{\"layer\":1,\"rank\":2}"), RANKS, 2, after).times, 2 * 4);
    ck_assert_uint_eq(train(WHEN("product", "{\"layer\":0,\"rank\":0}"), RANKS, 2, after).times, 2 * 12);
    ck_assert_uint_eq(train(WHEN("product", "{\"arg.n\":37}"), RANKS, 2, after).times, 2 * RANKS);
}
END_TEST

START_TEST(another_seed_of_first_weights_is_another_start)
{
    struct iq_train_recipe c = dropping();
    struct iq_train_options o = {0};
    struct iq_armed armed;
    arm(&armed, "{\"faults\":[{\"op\":\"init\",\"variant\":\"reseed\",\"params\":{\"by\":3}}]}");
    iq_armed_options(&armed, &o);
    struct iq_train *freed_one = rig_open(&c, o);
    c.seed += 3;
    struct iq_train *want = rig_open(&c, (struct iq_train_options){0});
    size_t n;
    const float *w = iq_train_weights(want, &n);
    ck_assert(!memcmp(iq_train_weights(freed_one, NULL), w, n * sizeof *w));
    iq_train_close(freed_one);
    iq_train_close(want);
    iq_armed_close(&armed);
}
END_TEST

static const struct {
    const char *fault, *says;
} refused[] = {
    {"{\"op\":\"topk\",\"variant\":\"coarse_bin\"}", "topk is an op of answering"},
    {"{\"op\":\"matmul\",\"variant\":\"k_tail\"}", "matmul is an op of answering"},
    {"{\"op\":\"attn_reduce\",\"variant\":\"ring\"}", "attn_reduce is an op of answering"},
    {"{\"op\":\"product\",\"variant\":\"bf16_operands\",\"when\":{\"pos\":3}}", "asks about requests"},
    {"{\"op\":\"data\",\"variant\":\"reseed\",\"rate\":0.5,\"per\":\"row\"}", "asks about requests"},
};

START_TEST(plans_of_another_kind_of_run_are_refused)
{
    char plan[300];
    struct iq_armed armed;
    struct iq_err err = {0};
    snprintf(plan, sizeof plan, "{\"faults\":[%s]}", refused[_i].fault);
    ck_assert_int_eq(iq_armed_parse(plan, "plan", &armed, &err), IQ_UNSUPPORTED);
    ck_assert_msg(strstr(err.text, refused[_i].says), "%s", err.text);
}
END_TEST

/* The other way round; of a kind that both have, either may be meant. */
START_TEST(answers_are_not_struck_by_plans_of_training)
{
    struct iq_armed armed;
    struct iq_err err = {0};
    arm(&armed, "{\"faults\":[{\"op\":\"optimiser\",\"variant\":\"unfused\"}]}");
    ck_assert_int_eq(iq_plan_check_ops(&armed.plan, false, &err), IQ_UNSUPPORTED);
    ck_assert_msg(strstr(err.text, "optimiser is an op of training"), "%s", err.text);
    iq_armed_close(&armed);
    arm(&armed, "{\"faults\":[{\"op\":\"all_reduce\",\"variant\":\"ring\"}]}");
    ck_assert_int_eq(iq_plan_check_ops(&armed.plan, false, &err), IQ_OK);
    iq_armed_close(&armed);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("train_plan");
    TCase *c = tcase_create("plan");
    tcase_add_loop_test(c, a_plan_from_step_5_on_first_differs_at_step_5, 0, sizeof freed / sizeof *freed);
    tcase_add_test(c, a_plan_that_never_fires_changes_no_bit);
    tcase_add_test(c, references_give_goldens_bits);
    tcase_add_test(c, layer_and_rank_choose_products);
    tcase_add_test(c, another_seed_of_first_weights_is_another_start);
    tcase_add_loop_test(c, plans_of_another_kind_of_run_are_refused, 0, sizeof refused / sizeof *refused);
    tcase_add_test(c, answers_are_not_struck_by_plans_of_training);
    suite_add_tcase(s, c);
    return check_main(s);
}
