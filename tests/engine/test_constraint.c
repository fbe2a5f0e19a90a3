/* What a request may generate: bad words never come, an answer is one of those allowed, and neither depends on the batch
 * nor touches a neighbour. */
#include "tests/check_main.h"
#include "tests/engine/rig.h"
#include "tests/engine/small_models.h"
#include "tests/files/scratch.h"

#include <stdlib.h>
#include <string.h>

enum { REQUESTS = 12, LONGEST = 30, ANSWER = 12 };

static struct iq_model *model;
static struct iq_rig_set set;
static struct iq_rig free_run; /* without constraints */

static void setup(void)
{
    struct iq_engine_config c = IQ_ENGINE_CONFIG;
    iq_scratch_make();
    model = iq_rig_model(iq_small_write(&iq_small_tiny), 1);
    set = iq_rig_set_make(
        9, &(struct iq_rig_shape){REQUESTS, model->config.vocab, LONGEST, ANSWER, LONGEST / 2, true});
    for (uint32_t i = 0; i < set.n; i++) set.request[i].ignore_stop = true;
    iq_rig_run(&free_run, model, &c, set.request, set.n, NULL, false);
}

static void teardown(void)
{
    iq_rig_close(&free_run);
    iq_rig_set_free(&set);
    iq_model_close(model);
    iq_scratch_remove();
}

static void run(struct iq_rig *g, uint32_t batch)
{
    struct iq_engine_config c = IQ_ENGINE_CONFIG;
    c.batch = batch;
    iq_rig_run(g, model, &c, set.request, set.n, NULL, false);
}

/* The free answers' first two tokens of every other request, as a bad word of `n` of them. */
static struct iq_constraint *ban_answers(uint32_t n)
{
    static uint32_t ids[REQUESTS][2];
    static const uint32_t one[] = {0, 1}, two[] = {0, 2};
    static struct iq_constraint c[REQUESTS];
    for (uint32_t i = 0; i < set.n; i += 2) {
        const struct iq_output *o = iq_rig_output(&free_run, i);
        memcpy(ids[i], o->ids + o->n_prompt, sizeof ids[i]);
        c[i] = (struct iq_constraint){.bad = {ids[i], n == 1 ? one : two, 1}};
        set.request[i].constraint = &c[i];
    }
    return c;
}

static bool contains(const struct iq_output *o, const uint32_t *word, uint32_t n)
{
    for (uint32_t at = o->n_prompt; at + n <= o->n_ids; at++)
        if (!memcmp(o->ids + at, word, n * sizeof *word)) return true;
    return false;
}

START_TEST(a_bad_word_never_comes_and_neighbours_are_untouched)
{
    char why[256];
    struct iq_rig g;
    uint32_t n = (uint32_t)_i;
    const struct iq_constraint *c = ban_answers(n);
    run(&g, 4);
    for (uint32_t i = 0; i < set.n; i++) {
        const struct iq_output *o = iq_rig_output(&g, i);
        if (i % 2)
            ck_assert_msg(iq_rig_same(&free_run, i, &g, i, why), "request %u: %s", i, why);
        else
            ck_assert(!contains(o, c[i].bad.ids, n));
        /* Of a word of two tokens the first may come. */
        if (i % 2 == 0 && n == 2) ck_assert_uint_eq(o->ids[o->n_prompt], c[i].bad.ids[0]);
    }
    iq_rig_close(&g);
}
END_TEST

START_TEST(masks_do_not_depend_on_the_batch)
{
    char why[256];
    struct iq_rig alone, g;
    ban_answers(1);
    run(&alone, 1);
    for (int how = 0; how < 4; how++) {
        struct iq_engine_config c = IQ_ENGINE_CONFIG;
        c.batch = 5;
        c.chunk = how == 1 ? 3 : 0;
        c.captured = how == 2;
        c.kv_blocks = how == 3 ? 6 : 0;
        c.threads = how == 3 ? 2 : 1;
        iq_rig_run(&g, model, &c, set.request, set.n, NULL, false);
        for (uint32_t i = 0; i < set.n; i++)
            ck_assert_msg(iq_rig_same(&alone, i, &g, i, why), "how %d request %u: %s", how, i, why);
        iq_rig_close(&g);
    }
    iq_rig_close(&alone);
}
END_TEST

/* Three answers, one the beginning of another: each run gives one of them and ends. */
START_TEST(an_answer_is_one_of_those_allowed)
{
    static const uint32_t ids[] = {5, 6, 7, 5, 6, 9, 9, 9}, first[] = {0, 3, 5, 8};
    static const struct iq_constraint c = {.allowed = {ids, first, 3}};
    struct iq_rig g;
    for (uint32_t i = 0; i < set.n; i++) {
        set.request[i].constraint = &c;
        set.request[i].ignore_stop = false;
    }
    run(&g, 4);
    for (uint32_t i = 0; i < set.n; i++) {
        const struct iq_output *o = iq_rig_output(&g, i);
        const uint32_t *made = o->ids + o->n_prompt;
        uint32_t n = o->n_ids - o->n_prompt;
        while (n && iq_tokenizer_is_eog(model->tokenizer, made[n - 1])) n--;
        bool found = false;
        for (uint32_t w = 0; w < 3; w++)
            found |= n == first[w + 1] - first[w] && !memcmp(made, ids + first[w], n * sizeof *made);
        ck_assert_msg(found, "request %u: %u tokens, first %u", i, n, made[0]);
        ck_assert_str_eq(o->finish, "stop");
    }
    iq_rig_close(&g);
}
END_TEST

START_TEST(a_request_that_may_say_nothing_is_blocked)
{
    static const uint32_t ids[] = {5}, first[] = {0, 1};
    static const struct iq_constraint c = {.bad = {ids, first, 1}, .allowed = {ids, first, 1}};
    char why[256];
    struct iq_rig g;
    set.request[0].constraint = &c;
    run(&g, 4);
    const struct iq_output *o = iq_rig_output(&g, 0);
    ck_assert_str_eq(o->finish, "blocked");
    ck_assert_uint_eq(o->n_ids, o->n_prompt);
    for (uint32_t i = 1; i < set.n; i++) ck_assert_msg(iq_rig_same(&free_run, i, &g, i, why), "%s", why);
    iq_rig_close(&g);
}
END_TEST

START_TEST(words_outside_the_vocabulary_are_refused)
{
    static const uint32_t ids[] = {5, 97}, first[] = {0, 2}, empty[] = {0, 0};
    struct iq_constraint c = {.bad = {ids, first, 1}};
    struct iq_engine_config config = IQ_ENGINE_CONFIG;
    struct iq_engine *e;
    struct iq_err err = {0};
    set.request[3].constraint = &c;
    ck_assert_int_eq(iq_engine_open(model, &config, set.request, set.n, &e, &err), IQ_LIMIT);
    ck_assert_ptr_nonnull(strstr(err.text, "request r3: bad_words 0 has token 97; the vocabulary has 97"));
    c = (struct iq_constraint){.allowed = {ids, empty, 1}};
    ck_assert_int_eq(iq_engine_open(model, &config, set.request, set.n, &e, &err), IQ_USAGE);
    c = (struct iq_constraint){.bad = {ids, (const uint32_t[]){0, 1}, 1}};
    config.device = "cuda-shim";
    ck_assert_int_eq(iq_engine_open(model, &config, set.request, set.n, &e, &err), IQ_UNSUPPORTED);
}
END_TEST

/* The op is part of the contract of runs that use it, and of no other. */
START_TEST(only_runs_with_a_constraint_have_the_op)
{
    struct iq_rig g;
    ban_answers(1);
    run(&g, 4);
    ck_assert(iq_engine_has(g.engine, IQ_OP_MASK) && !iq_engine_has(free_run.engine, IQ_OP_MASK));
    ck_assert(!iq_digest_equal(iq_engine_contract(g.engine), iq_engine_contract(free_run.engine)));
    iq_rig_close(&g);
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("constraint");
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, a_bad_word_never_comes_and_neighbours_are_untouched, 1, 3);
    tcase_add_test(c, masks_do_not_depend_on_the_batch);
    tcase_add_test(c, an_answer_is_one_of_those_allowed);
    tcase_add_test(c, a_request_that_may_say_nothing_is_blocked);
    tcase_add_test(c, words_outside_the_vocabulary_are_refused);
    tcase_add_test(c, only_runs_with_a_constraint_have_the_op);
    Suite *s = suite_create("constraint");
    suite_add_tcase(s, c);
    return check_main(s);
}
