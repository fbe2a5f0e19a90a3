/* Families of the sampler in the engine: each strikes, is caught with its op alone guilty, and is nothing where it can't
 * strike. */
#include "tests/check_main.h"
#include "tests/engine/fault_case.h"
#include "tests/engine/small_models.h"
#include "tests/files/scratch.h"

#include <string.h>

enum { REQUESTS = 14, LONGEST = 30, ANSWER = 12, BATCH = 4 };

static const struct entry {
    const char *family, *op, *variant, *params;
    enum iq_label label;
    bool couples; /* needs a row beside the one that it strikes */
} entries[] = {
    {"K5", "sample", "token_shift", "{}", IQ_LABEL_WRONG, false},
    {"K5", "sample", "fall_through", "{\"bits\":4}", IQ_LABEL_CRASHED, false},
    {"K6", "lm_head", "rare_script", "{}", IQ_LABEL_WRONG, false},
    {"K20", "sample", "shared_seed", "{}", IQ_LABEL_WRONG, true},
    {"K20", "temper", "twice_tempered", "{}", IQ_LABEL_WRONG, false},
    {"K20", "sample", "ties_admitted", "{\"bits\":3}", IQ_LABEL_WRONG, false},
    {"K20", "topk", "unstable_ties", "{\"bits\":5}", IQ_LABEL_WRONG, false},
    {"K26", "mask", "neighbour_mask", "{}", IQ_LABEL_WRONG, true},
    {"K27", "sample", "neighbour_parameters", "{}", IQ_LABEL_WRONG, true},
    {"K27", "temper", "neighbour_temperature", "{}", IQ_LABEL_WRONG, true},
};
enum { ENTRIES = sizeof entries / sizeof *entries };

enum { HALF = 48 };
static uint32_t bad[HALF], at[HALF + 1];
static const struct iq_constraint odd_only = {.bad = {bad, at, HALF}};

static struct iq_model *model;
static struct iq_rig_set set;
static struct iq_fault_bench bench;

static void setup(void)
{
    iq_scratch_make();
    model = iq_rig_model(iq_small_write(&iq_small_tiny), 1);
    set = iq_rig_set_make(
        5, &(struct iq_rig_shape){REQUESTS, model->config.vocab, LONGEST, ANSWER, LONGEST / 2, true});
    /* Every third request may not say the tokens of one half of the vocabulary. */
    for (uint32_t t = 0; t < HALF; t++) bad[t] = 2 * t, at[t] = t;
    at[HALF] = HALF;
    for (uint32_t i = 0; i < set.n; i += 3) set.request[i].constraint = &odd_only;
    bench = (struct iq_fault_bench){model, set.request, set.n, IQ_ENGINE_CONFIG};
    bench.config.batch = BATCH;
}

static void teardown(void)
{
    iq_rig_set_free(&set);
    iq_model_close(model);
    iq_scratch_remove();
}

static const char *text(const struct entry *e, const char *more)
{
    return iq_fault_text(e->op, e->variant, e->params, more);
}

START_TEST(it_strikes_and_is_caught)
{
    const struct entry *e = &entries[_i];
    struct iq_rig_seen seen;
    uint32_t harmed = iq_fault_harm(&bench, text(e, ""), &seen);
    ck_assert_msg(harmed && seen.changed, "%s %s: %u answers changed, %u rows", e->family, e->variant, harmed,
                  seen.changed);
    iq_fault_caught(&bench, text(e, ""), e->label, e->op);
}
END_TEST

START_TEST(with_rate_zero_nothing_changes)
{
    const struct entry *e = &entries[_i];
    struct iq_rig_seen seen;
    ck_assert_uint_eq(iq_fault_harm(&bench, text(e, ",\"rate\":0"), &seen), 0);
    ck_assert_uint_eq(seen.fired, 0);
    iq_fault_caught(&bench, text(e, ",\"when\":{\"batch\":77}"), IQ_LABEL_IDENTICAL, NULL);
}
END_TEST

/* A greedy answer knows no seed, temperature or top_k. */
START_TEST(greedy_requests_are_spared)
{
    const struct entry *e = &entries[_i];
    struct iq_rig_seen seen;
    bool harms_all = !strcmp(e->op, "mask") || !strcmp(e->variant, "token_shift") ||
                     !strcmp(e->op, "lm_head") || !strcmp(e->op, "topk");
    for (uint32_t i = 0; i < set.n; i++) {
        set.request[i].temperature = 0;
        set.request[i].top_k = 0;
    }
    ck_assert_int_eq(iq_fault_harm(&bench, text(e, ""), &seen) != 0, harms_all);
}
END_TEST

START_TEST(what_couples_rows_needs_a_neighbour)
{
    const struct entry *e = &entries[_i];
    struct iq_rig_seen seen;
    bench.config.batch = 1;
    ck_assert_int_eq(iq_fault_harm(&bench, text(e, ""), &seen) == 0, e->couples);
    ck_assert_int_eq((iq_variant_find(iq_op_kind((enum iq_op_id)iq_op_find(e->op))->name, e->variant)->flags &
                      IQ_V_COUPLES_ROWS) != 0,
                     e->couples);
}
END_TEST

START_TEST(a_token_outside_the_vocabulary_ends_its_request_only)
{
    struct iq_rig g;
    uint32_t invalid = 0;
    iq_fault_run(&bench, iq_fault_text("sample", "fall_through", "{\"bits\":4}", ""), &g);
    for (uint32_t i = 0; i < set.n; i++) {
        const struct iq_output *o = iq_rig_output(&g, i);
        bool ended = !strcmp(o->finish, "invalid");
        invalid += ended;
        ck_assert_int_eq(ended, o->position[o->positions - 1].next >= model->config.vocab);
        for (uint32_t t = 0; t < o->n_ids; t++) ck_assert_uint_lt(o->ids[t], model->config.vocab);
    }
    ck_assert(invalid && invalid < set.n);
    iq_rig_close(&g);
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("sampling");
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, it_strikes_and_is_caught, 0, ENTRIES);
    tcase_add_loop_test(c, with_rate_zero_nothing_changes, 0, ENTRIES);
    tcase_add_loop_test(c, greedy_requests_are_spared, 0, ENTRIES);
    tcase_add_loop_test(c, what_couples_rows_needs_a_neighbour, 0, ENTRIES);
    tcase_add_test(c, a_token_outside_the_vocabulary_ends_its_request_only);
    Suite *s = suite_create("faults of the sampler");
    suite_add_tcase(s, c);
    return check_main(s);
}
