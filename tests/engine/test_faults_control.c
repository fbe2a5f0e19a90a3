/* Faults in the engine's decisions: about KV blocks, about requests. Each strikes where it can, is masked where it can't,
 * and the comparator names the decision. */
#include "tests/check_main.h"
#include "tests/engine/control_rig.h"

enum { REQUESTS = 14, LONGEST = 44, ANSWER = 8, STEM = 36, BATCH = 4 };

static struct iq_model *model;
static struct iq_rig_set set;

static void open_all(void)
{
    struct iq_err err = {0};
    iq_scratch_make();
    model = iq_rig_model(iq_small_write(&iq_small[IQ_SMALL_WIDE]), 1);
    set = iq_rig_set_make(
        11, &(struct iq_rig_shape){REQUESTS, model->config.vocab, LONGEST, ANSWER, STEM, false});
    ck_assert_int_eq(iq_faults_register(&err), IQ_OK);
}

static void close_all(void)
{
    iq_rig_set_free(&set);
    iq_model_close(model);
    iq_scratch_remove();
}

static struct scene scene(void)
{
    struct scene s = {.model = model, .config = IQ_ENGINE_CONFIG, .request = set.request, .n = set.n};
    s.config.batch = BATCH;
    return s;
}

static const char *fault(const char *op, const char *variant, const char *more)
{
    static char text[512];
    snprintf(text, sizeof text, "{\"op\":\"%s\",\"variant\":\"%s\"%s}", op, variant, more);
    return text;
}

static void masked_at_rate_zero_and_elsewhere(const struct scene *s, const char *op, const char *variant)
{
    scene_unharmed(s, fault(op, variant, ",\"rate\":0"));
    scene_unharmed(s, fault(op, variant, ",\"when\":{\"batch\":77}"));
}

/* ---- K25: blocks ---- */

START_TEST(a_block_that_is_handed_out_twice)
{
    struct scene s = scene();
    scene_harms(&s, fault("kv_alloc", "held_block", ""));
    scene_caught(&s, fault("kv_alloc", "held_block", ""), "kv_alloc");
    masked_at_rate_zero_and_elsewhere(&s, "kv_alloc", "held_block");
}
END_TEST

/* Few blocks: what is cached must go for what is wanted. */
START_TEST(a_block_that_is_evicted_while_it_is_read)
{
    struct scene s = scene();
    s.config.kv_blocks = 9;
    scene_harms(&s, fault("kv_evict", "evicts_held", ""));
    scene_caught(&s, fault("kv_evict", "evicts_held", ""), "kv_evict");
    masked_at_rate_zero_and_elsewhere(&s, "kv_evict", "evicts_held");
    s.config.kv_blocks = 200; /* no pressure */
    scene_unharmed(&s, fault("kv_evict", "evicts_held", ""));
}
END_TEST

/* The first is cancelled after two chunks and its blocks are freed; the second overwrites them; the third and the fourth
 * begin as the first did, the fifth does not. */
static void cancelled_requests(struct iq_request out[5])
{
    static uint32_t tokens[5][48];
    static char id[5][8];
    for (uint32_t i = 0; i < 5; i++) {
        for (uint32_t p = 0; p < 48; p++) {
            bool shared = i != 1 && i != 4 && p < 40;
            tokens[i][p] = (uint32_t)(iq_rig_draw(shared ? 900 : 900 + i, p) % model->config.vocab);
        }
        snprintf(id[i], sizeof id[i], "c%u", i);
        out[i] = (struct iq_request){.index = i,
                                     .id = id[i],
                                     .params = "{}",
                                     .prompt = tokens[i],
                                     .n_prompt = 48,
                                     .max_tokens = 4,
                                     .top_p = 1,
                                     .ignore_stop = true};
    }
    out[0].cancel_after = 40;
}

START_TEST(a_cancelled_request_whose_blocks_are_still_cached)
{
    struct iq_request request[5];
    struct scene s = scene();
    char why[256];
    cancelled_requests(request);
    s.request = request;
    s.n = 5;
    s.config.batch = 1;
    s.config.chunk = 16;
    scene_caught(&s, fault("kv_free", "frees_cached", ""), "kv_free");
    masked_at_rate_zero_and_elsewhere(&s, "kv_free", "frees_cached");
    struct iq_rig golden, subject;
    scene_run(&s, NULL, &golden);
    scene_run(&s, fault("kv_free", "frees_cached", ""), &subject);
    ck_assert_str_eq(iq_rig_output(&golden, 0)->finish, "cancelled");
    for (uint32_t i = 0; i < 5; i++) /* those who share the prefix are harmed, and nobody else */
        ck_assert_msg(iq_rig_same(&golden, i, &subject, i, why) == (i != 2 && i != 3), "request %u: %s", i,
                      why);
    iq_rig_close(&golden), iq_rig_close(&subject);
    request[0].cancel_after = 0; /* nobody is cancelled */
    scene_unharmed(&s, fault("kv_free", "frees_cached", ""));
}
END_TEST

/* ---- cancelling, in golden ---- */

START_TEST(a_cancelled_request_is_the_same_in_any_batch)
{
    struct iq_request request[5];
    struct scene s = scene();
    struct iq_rig one, many;
    char why[256];
    cancelled_requests(request);
    request[3].cancel_after = 50; /* two tokens into its answer */
    s.request = request;
    s.n = 5;
    s.config.batch = 1;
    scene_run(&s, NULL, &one);
    s.config.batch = 5;
    s.config.chunk = 7;
    scene_run(&s, NULL, &many);
    for (uint32_t i = 0; i < 5; i++)
        ck_assert_msg(iq_rig_same(&one, i, &many, i, why), "request %u: %s", i, why);
    ck_assert_uint_eq(iq_rig_output(&many, 0)->positions, 40);
    ck_assert_uint_eq(iq_rig_output(&many, 3)->positions, 50);
    ck_assert_uint_eq(iq_rig_output(&many, 3)->n_ids, 51);
    iq_rig_close(&one), iq_rig_close(&many);
}
END_TEST

START_TEST(a_request_is_cancelled_between_steps)
{
    struct iq_request request[5];
    struct iq_err err = {0};
    struct scene s = scene();
    struct iq_rig golden, g;
    bool more = true;
    char why[256];
    cancelled_requests(request);
    request[0].cancel_after = 0;
    s.request = request;
    s.n = 5;
    scene_run(&s, NULL, &golden);
    iq_rig_open(&g, model, &s.config, request, 5, NULL, false);
    ck_assert_int_eq(iq_engine_step(g.engine, &more, &err), IQ_OK);
    ck_assert_int_eq(iq_engine_cancel(g.engine, 1, &err), IQ_OK); /* it runs */
    ck_assert_int_eq(iq_engine_cancel(g.engine, 4, &err), IQ_OK); /* it waits */
    ck_assert_int_eq(iq_engine_cancel(g.engine, 4, &err), IQ_OK); /* it is done */
    ck_assert_int_eq(iq_engine_cancel(g.engine, 5, &err), IQ_USAGE);
    iq_rig_go(&g);
    ck_assert_str_eq(iq_rig_output(&g, 1)->finish, "cancelled");
    ck_assert_str_eq(iq_rig_output(&g, 4)->finish, "cancelled");
    ck_assert_uint_eq(iq_rig_output(&g, 4)->positions, 0);
    for (uint32_t i = 0; i < 5; i++)
        if (i != 1 && i != 4) ck_assert_msg(iq_rig_same(&golden, i, &g, i, why), "request %u: %s", i, why);
    iq_rig_close(&golden), iq_rig_close(&g);
}
END_TEST

/* ---- K12, R21: blocks that are copied ---- */

START_TEST(a_prefix_that_is_read_before_it_landed)
{
    struct scene s = scene();
    struct iq_rig here, remote;
    scene_run(&s, NULL, &here);
    s.config.remote_kv = true;
    scene_run(&s, NULL, &remote);
    ck_assert_uint_gt(iq_engine_stats(remote.engine)->hits, 0);
    ck_assert_uint_eq(iq_rig_differing(&here, &remote), 0); /* golden: where KV comes from changes no bit */
    iq_rig_close(&here), iq_rig_close(&remote);
    scene_harms(&s, fault("kv_land", "no_wait", ""));
    scene_caught(&s, fault("kv_land", "no_wait", ""), "kv_land");
    scene_caught(&s, fault("kv_land", "no_wait", ",\"params\":{\"share\":0.5}"), "kv_land");
    masked_at_rate_zero_and_elsewhere(&s, "kv_land", "no_wait");
    scene_unharmed(&s, fault("kv_land", "no_wait", ",\"params\":{\"share\":1},\"when\":{\"arg.flying\":1}"));
    s.config.remote_kv = false;
    scene_unharmed(&s, fault("kv_land", "no_wait", ""));
}
END_TEST

START_TEST(a_block_that_moves_by_half)
{
    struct scene s = scene();
    struct iq_rig still, moving;
    scene_run(&s, NULL, &still);
    s.config.defragment = 3;
    scene_run(&s, NULL, &moving);
    ck_assert_uint_gt(iq_engine_stats(moving.engine)->moves, 3);
    ck_assert_uint_eq(iq_rig_differing(&still, &moving), 0);
    iq_rig_close(&still), iq_rig_close(&moving);
    scene_harms(&s, fault("kv_move", "partial_move", ""));
    scene_caught(&s, fault("kv_move", "partial_move", ""), "kv_move");
    scene_caught(&s, fault("kv_move", "partial_move", ",\"when\":{\"moves\":{\"min\":1}}"), "kv_move");
    masked_at_rate_zero_and_elsewhere(&s, "kv_move", "partial_move");
    s.config.defragment = 0;
    scene_unharmed(&s, fault("kv_move", "partial_move", ""));
}
END_TEST

/* ---- K21: what is asked ---- */

/* Three messages of 8, 12 and 14 tokens behind one special token; the last request is longer than it may be. */
static void assembled_requests(struct iq_request out[3])
{
    static uint32_t tokens[3][60];
    static const uint32_t part[3] = {1, 9, 21};
    static char id[3][8];
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t p = 0; p < 60; p++)
            tokens[i][p] = p ? (uint32_t)(iq_rig_draw(700 + i, p) % model->config.vocab) : 1;
        snprintf(id[i], sizeof id[i], "a%u", i);
        out[i] = (struct iq_request){.index = i,
                                     .id = id[i],
                                     .params =
                                         "{\"temperature\":0,\"top_k\":0,\"top_p\":1,\"min_p\":0,\"seed\":0}",
                                     .prompt = tokens[i],
                                     .n_prompt = 35,
                                     .special = 1,
                                     .part = part,
                                     .parts = 3,
                                     .max_tokens = 4,
                                     .top_p = 1,
                                     .ignore_stop = true};
    }
    out[2].n_prompt = 60;
    out[2].truncate = 35;
}

START_TEST(a_prompt_that_is_assembled_wrong)
{
    struct iq_request request[3];
    struct scene s = scene();
    struct iq_rig golden;
    char more[64];
    assembled_requests(request);
    s.request = request;
    s.n = 3;
    scene_run(&s, NULL, &golden); /* the oldest tokens go, the special one stays */
    const struct iq_output *cut = iq_rig_output(&golden, 2);
    ck_assert_uint_eq(cut->n_prompt, 35);
    ck_assert_uint_eq(cut->ids[0], request[2].prompt[0]);
    ck_assert_int_eq(memcmp(cut->ids + 1, request[2].prompt + 60 - 34, 34 * sizeof *cut->ids), 0);
    iq_rig_close(&golden);
    for (int what = 0; what < 4; what++) {
        snprintf(more, sizeof more, ",\"params\":{\"what\":%d}", what);
        scene_caught(&s, fault("assemble", "misassembled", more), "assemble");
    }
    masked_at_rate_zero_and_elsewhere(&s, "assemble", "misassembled");
    for (uint32_t i = 0; i < 3; i++)
        request[i].parts = 1, request[i].truncate = 0; /* what they can't strike */
    request[2].n_prompt = 35;
    scene_unharmed(&s, fault("assemble", "misassembled", ",\"params\":{\"what\":1}"));
    scene_unharmed(&s, fault("assemble", "misassembled", ",\"params\":{\"what\":2}"));
    scene_unharmed(&s, fault("assemble", "misassembled", ",\"params\":{\"what\":3,\"temperature\":0}"));
}
END_TEST

/* ---- K13, K24: two pools ---- */

static struct iq_model *two_pools(void)
{
    const struct iq_model_options o = {.tp = 1, .threads = 2, .weights = true, .long_factor = 4};
    struct iq_err err = {0};
    struct iq_model *m;
    int status = iq_model_open(iq_small_write(&iq_small[IQ_SMALL_WIDE]), &o, &m, &err);
    ck_assert_msg(status == IQ_OK, "%s", err.text);
    return m;
}

enum { LIMIT = 40 };

/* Sessions of two requests each. */
static void give_sessions(void)
{
    for (uint32_t i = 0; i < set.n; i++) set.request[i].session = 1 + i / 2;
}

START_TEST(requests_of_either_pool_answer_as_they_do_alone)
{
    struct iq_model *m = two_pools();
    struct scene s = scene();
    struct iq_rig all, one, plain;
    uint32_t served_long = 0;
    char why[256];
    s.model = m;
    s.config.long_from = LIMIT;
    scene_run(&s, NULL, &all);
    for (uint32_t i = 0; i < set.n; i++) {
        bool is_long = set.request[i].n_prompt + set.request[i].max_tokens > LIMIT;
        iq_rig_run(&one, m, &s.config, &set.request[i], 1, NULL, false);
        ck_assert_msg(iq_rig_same(&all, i, &one, 0, why), "request %u: %s", i, why);
        iq_rig_close(&one);
        iq_rig_run(&plain, model, &s.config, &set.request[i], 1, NULL, false);
        if (set.request[i].n_prompt > 1) /* position 0 is turned by no table */
            ck_assert_msg(iq_rig_same(&all, i, &plain, 0, why) != is_long, "request %u: %s", i, why);
        iq_rig_close(&plain);
        served_long += is_long;
    }
    ck_assert(served_long > 0 && served_long < set.n);
    iq_rig_close(&all);
    iq_model_close(m);
}
END_TEST

START_TEST(short_requests_in_the_pool_for_long_ones)
{
    struct iq_model *m = two_pools();
    struct scene s = scene();
    struct iq_rig golden, subject;
    char why[256];
    uint32_t harmed = 0, spared = 0;
    s.model = m;
    s.config.long_from = LIMIT;
    give_sessions();
    scene_caught(&s, fault("place", "misrouted", ""), "place");
    scene_caught(&s, fault("place", "misrouted", ",\"params\":{\"share\":0.4,\"last\":0.4}"), "place");
    masked_at_rate_zero_and_elsewhere(&s, "place", "misrouted");
    scene_unharmed(&s, fault("place", "misrouted", ",\"params\":{\"share\":0,\"last\":0}"));
    scene_run(&s, NULL, &golden);
    scene_run(&s, fault("place", "misrouted", ",\"params\":{\"share\":0.4,\"last\":0.4}"), &subject);
    for (uint32_t i = 0; i + 1 < set.n; i += 2) { /* a session goes wrong as a whole */
        bool can[2], hit[2];
        for (uint32_t k = 0; k < 2; k++) {
            const struct iq_request *r = &set.request[i + k];
            can[k] = r->n_prompt + r->max_tokens <= LIMIT;
            hit[k] = !iq_rig_same(&golden, i + k, &subject, i + k, why);
            ck_assert(can[k] || !hit[k]);
            harmed += hit[k];
            spared += can[k] && !hit[k];
        }
        ck_assert_msg(!can[0] || !can[1] || hit[0] == hit[1], "session of request %u", i);
    }
    ck_assert_msg(harmed && spared, "%u harmed, %u spared", harmed, spared);
    iq_rig_close(&golden), iq_rig_close(&subject);
    s.model = model; /* one pool */
    scene_unharmed(&s, fault("place", "misrouted", ""));
    iq_model_close(m);
}
END_TEST

START_TEST(one_set_of_factors_for_a_batch)
{
    struct iq_model *m = two_pools();
    struct scene s = scene();
    s.model = m;
    s.config.long_from = LIMIT;
    scene_called(&s, fault("rope", "one_set", ""), "rope", IQ_LABEL_SUSPECT);
    scene_called(&s, fault("rope", "one_set", ",\"params\":{\"threshold\":20}"), "rope", IQ_LABEL_SUSPECT);
    masked_at_rate_zero_and_elsewhere(&s, "rope", "one_set");
    s.config.long_from = 10000; /* no long request is there */
    scene_unharmed(&s, fault("rope", "one_set", ""));
    iq_model_close(m);
}
END_TEST

/* Two requests of one prompt, the second with a longer answer: it goes to the other pool. */
START_TEST(a_prefix_that_was_computed_under_other_position_settings)
{
    struct iq_model *m = two_pools();
    struct iq_request request[5];
    struct scene s = scene();
    struct iq_rig golden, subject;
    char why[256];
    cancelled_requests(request);
    request[0].cancel_after = 0;
    request[2].max_tokens = 6;
    s.model = m;
    s.request = request;
    s.n = 5;
    s.config.batch = 1;
    s.config.long_from = 52; /* 48 + 4 */
    const char *text = fault("identity", "shared_identity", "");
    scene_run(&s, NULL, &golden);
    scene_run(&s, text, &subject);
    ck_assert_uint_eq(iq_rig_output(&golden, 2)->cached, 0);
    ck_assert_uint_gt(iq_rig_output(&subject, 2)->cached, 0);
    ck_assert(!iq_rig_same(&golden, 2, &subject, 2, why) && iq_rig_same(&golden, 1, &subject, 1, why));
    iq_rig_close(&golden), iq_rig_close(&subject);
    scene_caught(&s, fault("identity", "shared_identity", ""), "identity");
    masked_at_rate_zero_and_elsewhere(&s, "identity", "shared_identity");
    request[2].tenant = 7; /* the same bits, whoever computed them: a leak, and masked */
    request[2].max_tokens = 4;
    scene_run(&s, NULL, &golden);
    scene_run(&s, fault("identity", "shared_identity", ",\"params\":{\"what\":4}"), &subject);
    ck_assert_uint_eq(iq_rig_output(&golden, 2)->cached, 0);
    ck_assert_uint_gt(iq_rig_output(&subject, 2)->cached, 0);
    iq_rig_close(&golden), iq_rig_close(&subject);
    scene_unharmed(&s, fault("identity", "shared_identity", ",\"params\":{\"what\":4}"));
    iq_model_close(m);
}
END_TEST

/* ---- K15: a control ---- */

START_TEST(batches_that_are_formed_unfairly)
{
    struct scene s = scene();
    struct iq_rig golden, subject;
    scene_run(&s, NULL, &golden);
    scene_run(&s, fault("form", "unfair", ",\"params\":{\"most\":5}"), &subject);
    ck_assert_uint_gt(subject.seen.changed, 0);
    ck_assert_uint_gt(iq_engine_stats(subject.engine)->steps, iq_engine_stats(golden.engine)->steps);
    iq_rig_close(&golden), iq_rig_close(&subject);
    scene_unharmed(&s, fault("form", "unfair", ",\"params\":{\"most\":5}"));
    s.config.kv_blocks = 9;
    scene_unharmed(&s, fault("form", "unfair", ""));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("faults in control ops");
    TCase *t = tcase_create("control");
    tcase_set_timeout(t, 300);
    tcase_add_checked_fixture(t, open_all, close_all);
    tcase_add_test(t, a_block_that_is_handed_out_twice);
    tcase_add_test(t, a_block_that_is_evicted_while_it_is_read);
    tcase_add_test(t, a_cancelled_request_whose_blocks_are_still_cached);
    tcase_add_test(t, a_cancelled_request_is_the_same_in_any_batch);
    tcase_add_test(t, a_request_is_cancelled_between_steps);
    tcase_add_test(t, a_prefix_that_is_read_before_it_landed);
    tcase_add_test(t, a_block_that_moves_by_half);
    tcase_add_test(t, a_prompt_that_is_assembled_wrong);
    tcase_add_test(t, requests_of_either_pool_answer_as_they_do_alone);
    tcase_add_test(t, short_requests_in_the_pool_for_long_ones);
    tcase_add_test(t, one_set_of_factors_for_a_batch);
    tcase_add_test(t, a_prefix_that_was_computed_under_other_position_settings);
    tcase_add_test(t, batches_that_are_formed_unfairly);
    suite_add_tcase(s, t);
    return check_main(s);
}
