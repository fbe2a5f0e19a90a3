/* Weights that change while an engine runs: a request knows one version only, whatever the batch; what goes wrong is found in
 * the weights and nowhere else. */
#include "tests/check_main.h"
#include "tests/engine/fault_case.h"
#include "tests/engine/small_models.h"
#include "tests/files/scratch.h"

#include <stdio.h>
#include <string.h>

enum { REQUESTS = 14, LONGEST = 40, ANSWER = 8, BATCH = 3, STEP = 6 };

static struct iq_model *before, *after;
static struct iq_rig_set set;
static struct iq_weights_event event;
static struct iq_fault_bench bench;

/* Another seed: the same shape, other weights. */
static struct iq_model *other(const struct iq_small *s, const char *name, uint32_t tp)
{
    struct iq_err err = {0};
    ck_assert_int_eq(iq_test_write_model(iq_scratch(name), &s->spec, 8, &err), IQ_OK);
    return iq_rig_model(iq_scratch(name), tp);
}

static void open_models(const struct iq_small *s, uint32_t tp)
{
    before = iq_rig_model(iq_small_write(s), tp);
    after = other(s, "after", tp);
    set = iq_rig_set_make(
        5, &(struct iq_rig_shape){REQUESTS, before->config.vocab, LONGEST, ANSWER, LONGEST - 4, false});
    event = (struct iq_weights_event){STEP, after};
    bench = (struct iq_fault_bench){before, set.request, set.n, IQ_ENGINE_CONFIG};
    bench.config.batch = BATCH;
    bench.config.event = &event;
    bench.config.events = 1;
}

static void setup(void)
{
    iq_scratch_make();
    open_models(&iq_small_tiny, 1);
}

static void close_models(void)
{
    iq_rig_set_free(&set);
    iq_model_close(before);
    iq_model_close(after);
}

static void teardown(void)
{
    close_models();
    iq_scratch_remove();
}

static void run(struct iq_rig *g, const struct iq_model *m, const struct iq_engine_config *c)
{
    iq_rig_run(g, m, c, set.request, set.n, NULL, false);
}

START_TEST(a_request_is_answered_by_one_version_in_any_batch)
{
    const struct iq_engine_config golden = {.threads = 1, .batch = 1, .level = IQ_LEVEL_CHAIN, .top = IQ_TOP};
    struct iq_rig old, new, g;
    char why[256];
    run(&old, before, &golden);
    run(&new, after, &golden);
    for (int how = 0; how < 5; how++) {
        struct iq_engine_config c = bench.config;
        uint32_t of_old = 0;
        c.batch = how == 4 ? 5 : BATCH;
        c.chunk = how == 1 ? 5 : 0;
        c.captured = how == 2;
        c.kv_blocks = how == 3 ? 4 : 0; /* preemptions */
        run(&g, before, &c);
        for (uint32_t i = 0; i < set.n; i++) {
            bool is_old = iq_rig_same(&old, i, &g, i, why);
            of_old += is_old;
            ck_assert_msg(is_old || iq_rig_same(&new, i, &g, i, why), "how %d request %u: %s", how, i, why);
        }
        ck_assert_msg(of_old && of_old < set.n, "how %d: %u of %u before the update", how, of_old, set.n);
        ck_assert_uint_eq(iq_engine_stats(g.engine)->updates, 1);
        iq_rig_close(&g);
    }
    iq_rig_close(&old), iq_rig_close(&new);
}
END_TEST

START_TEST(a_sleep_changes_nothing)
{
    struct iq_engine_config plain = bench.config;
    struct iq_rig g, slept;
    event.from = NULL;
    plain.events = 0;
    run(&g, before, &plain);
    run(&slept, before, &bench.config);
    ck_assert_uint_eq(iq_rig_differing(&g, &slept), 0);
    ck_assert_uint_eq(iq_engine_stats(slept.engine)->updates, 1);
    ck_assert(iq_engine_has(slept.engine, IQ_OP_WEIGHTS) && !iq_engine_has(g.engine, IQ_OP_WEIGHTS));
    iq_rig_close(&g), iq_rig_close(&slept);
}
END_TEST

/* Of an update, of a sleep; on a dense model, over two ranks, with experts. */
static void caught(const char *variant, const char *params, bool sleep)
{
    struct iq_rig_seen seen;
    char text[256];
    if (sleep) event.from = NULL;
    snprintf(text, sizeof text, "%s", iq_fault_text("weights", variant, params, ""));
    ck_assert_uint_gt(iq_fault_harm(&bench, text, &seen), 0);
    ck_assert_uint_gt(seen.changed, 0);
    iq_fault_caught(&bench, text, IQ_LABEL_WRONG, "weights");
}

START_TEST(k23_is_found_in_the_weights)
{
    static const struct {
        const char *variant, *params;
        bool sleep;
    } cases[] = {{"partial_update", "{}", false},
                 {"partial_update", "{\"share\":0}", true},
                 {"partial_update", "{\"share\":0.9}", false},
                 {"wrong_copy", "{}", false},
                 {"wrong_copy", "{\"first\":3}", true}};
    caught(cases[_i].variant, cases[_i].params, cases[_i].sleep);
}
END_TEST

START_TEST(k23_over_ranks_and_experts)
{
    close_models();
    open_models(&iq_small[_i ? IQ_SMALL_EXPERTS : IQ_SMALL_WIDE], _i ? 1 : 2);
    caught("wrong_copy", _i ? "{\"first\":8}" : "{}", false);
}
END_TEST

START_TEST(k23_that_does_not_strike_changes_nothing)
{
    struct iq_rig_seen seen;
    ck_assert_uint_eq(
        iq_fault_harm(&bench, iq_fault_text("weights", "wrong_copy", "{}", ",\"rate\":0"), &seen), 0);
    ck_assert_uint_eq(
        iq_fault_harm(&bench, iq_fault_text("weights", "partial_update", "{\"share\":1}", ""), &seen), 0);
    ck_assert(seen.fired && !seen.changed);
    iq_fault_caught(&bench, iq_fault_text("weights", "wrong_copy", "{}", ",\"when\":{\"layer\":77}"),
                    IQ_LABEL_IDENTICAL, NULL);
}
END_TEST

/* Requests of one prompt, before and after the update. */
START_TEST(k24_attaches_kv_of_the_old_weights_and_is_caught)
{
    struct iq_rig_seen seen;
    char text[256];
    uint32_t longest = 0;
    for (uint32_t i = 1; i < set.n; i++)
        if (set.request[i].n_prompt > set.request[longest].n_prompt) longest = i;
    for (uint32_t i = 0; i < set.n; i++) {
        set.request[i].prompt = set.request[longest].prompt;
        set.request[i].n_prompt = set.request[longest].n_prompt;
    }
    bench.config.batch = 1;
    bench.config.kv_blocks = 40;
    snprintf(text, sizeof text, "%s", iq_fault_text("identity", "shared_identity", "{\"what\":0}", ""));
    ck_assert_uint_gt(iq_fault_harm(&bench, text, &seen), 0);
    iq_fault_caught(&bench, text, IQ_LABEL_WRONG, "identity");
    event.from = NULL; /* asleep, awake, and the same weights */
    ck_assert_uint_eq(iq_fault_harm(&bench, text, &seen), 0);
}
END_TEST

START_TEST(another_shape_is_refused)
{
    struct iq_err err = {0};
    struct iq_engine *e;
    struct iq_small wide = iq_small_tiny;
    wide.spec.ffn = 64;
    struct iq_model *m = other(&wide, "wide", 1);
    event.from = m;
    ck_assert_int_eq(iq_engine_open(before, &bench.config, set.request, set.n, &e, &err), IQ_MISMATCH);
    ck_assert_ptr_nonnull(strstr(err.text, "the model of step 6 has another shape"));
    iq_model_close(m);
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("weights");
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, a_request_is_answered_by_one_version_in_any_batch);
    tcase_add_test(c, a_sleep_changes_nothing);
    tcase_add_loop_test(c, k23_is_found_in_the_weights, 0, 5);
    tcase_add_loop_test(c, k23_over_ranks_and_experts, 0, 2);
    tcase_add_test(c, k23_that_does_not_strike_changes_nothing);
    tcase_add_test(c, k24_attaches_kv_of_the_old_weights_and_is_caught);
    tcase_add_test(c, another_shape_is_refused);
    Suite *s = suite_create("weights");
    suite_add_tcase(s, c);
    return check_main(s);
}
