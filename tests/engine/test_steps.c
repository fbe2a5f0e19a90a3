/* Steps as such: recorded and followed trajectories, cells of reused prefixes, requests at the edges. */
#include "tests/engine/rig.h"
#include "tests/engine/small_models.h"
#include "tests/files/scratch.h"

#include "kernels/ops/kv.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUESTS = 20, LONGEST = 40, ANSWER = 8, STEM = 36, POSITIONS = LONGEST + ANSWER, NODES = 64 };

static struct iq_model *model;
static struct iq_rig_set set;
static char why[256];

static void open_all(void)
{
    iq_scratch_make();
    struct iq_test_spec spec = iq_test_spec_default();
    struct iq_err err = {0};
    ck_assert_int_eq(iq_test_write_model(iq_scratch("m.gguf"), &spec, 5, &err), IQ_OK);
    model = iq_rig_model(iq_scratch("m.gguf"), 1);
    set = iq_rig_set_make(iq_rig_seed(),
                          &(struct iq_rig_shape){REQUESTS, model->config.vocab, LONGEST, ANSWER, STEM, true});
}

static void close_all(void)
{
    iq_rig_set_free(&set);
    iq_model_close(model);
    iq_scratch_remove();
}

static cJSON *steps_of(const struct iq_rig *g)
{
    struct iq_buf text = IQ_BUF(1 << 20);
    struct iq_jw w = IQ_JW(&text);
    struct iq_err err = {0};
    cJSON *json;
    ck_assert_int_eq(iq_engine_trajectory(g->engine, &w), IQ_OK);
    ck_assert_msg(iq_json_parse(text.data, text.len, "trajectory", &json, &err) == IQ_OK, "%s", err.text);
    iq_buf_free(&text);
    return json;
}

/* Records a run, follows its steps in another engine, and expects the same of all that a trigger may ask. */
static uint64_t follow(struct iq_engine_config c, uint64_t apart)
{
    struct iq_rig a, b;
    for (uint32_t i = 0; i < set.n; i++) set.request[i].arrive_us = i * apart;
    iq_rig_run(&a, model, &c, set.request, set.n, NULL, true);
    const struct iq_engine_stats *x = iq_engine_stats(a.engine);
    cJSON *steps = steps_of(&a), *again;
    c.trajectory = steps;
    iq_rig_run(&b, model, &c, set.request, set.n, NULL, true);
    const struct iq_engine_stats *y = iq_engine_stats(b.engine);
    again = steps_of(&b);
    ck_assert(cJSON_Compare(steps, again, 1));
    ck_assert_uint_eq(x->steps, y->steps);
    ck_assert_uint_eq(x->tokens, y->tokens);
    ck_assert_uint_eq(x->hits, y->hits);
    ck_assert_uint_eq(x->preemptions, y->preemptions);
    ck_assert_uint_eq(x->clock_us, y->clock_us);
    for (uint32_t i = 0; i < set.n; i++) {
        const struct iq_output *o = iq_rig_output(&a, i), *p = iq_rig_output(&b, i);
        ck_assert_msg(iq_rig_same(&a, i, &b, i, why), "request %u: %s", i, why);
        ck_assert_uint_eq(o->attempts, p->attempts);
        for (uint32_t k = 0; k < o->positions; k++) {
            ck_assert_uint_eq(o->position[k].step, p->position[k].step);
            ck_assert_uint_eq(o->position[k].batch, p->position[k].batch);
            ck_assert_uint_eq(o->position[k].state, p->position[k].state);
        }
    }
    uint64_t preempted = x->preemptions;
    iq_json_free(steps), iq_json_free(again);
    iq_rig_close(&a), iq_rig_close(&b);
    return preempted;
}

START_TEST(a_recorded_trajectory_gives_the_same_steps)
{
    struct iq_engine_config c = IQ_ENGINE_CONFIG;
    c.batch = 6;
    c.chunk = 9;
    ck_assert_uint_eq(follow(c, 0), 0);
    ck_assert_uint_eq(follow(c, 3000), 0);
    ck_assert_uint_eq(follow(c, 50000), 0); /* time jumps from one arrival to the next */
}
END_TEST

START_TEST(a_recorded_trajectory_repeats_its_preemptions)
{
    uint32_t preempting = 0;
    for (uint32_t blocks = 3; blocks < 9; blocks++)
        for (int cache = 0; cache < 2; cache++)
            for (uint32_t chunk = 0; chunk < 12; chunk += 5) {
                struct iq_engine_config c = IQ_ENGINE_CONFIG;
                c.kv_blocks = blocks;
                c.prefix_cache = cache;
                c.chunk = chunk;
                preempting += follow(c, 0) > 0;
            }
    ck_assert_uint_ge(preempting, 20); /* of 36 */
}
END_TEST

START_TEST(a_trajectory_may_break_the_batch_up)
{
    /* One request alone, then the other: what no scheduler of this engine would do. */
    static const char text[] = "[[[1,2]],[[0,1]],[[1,1]],[[0,2],[1,1]],[[0,1]]]";
    static const uint32_t prompt[] = {40, 50, 60};
    struct iq_request r[2] = {
        {.id = "a", .params = "{}", .prompt = prompt, .n_prompt = 3, .max_tokens = 2, .top_p = 1},
        {.id = "b", .params = "{}", .prompt = prompt, .n_prompt = 3, .max_tokens = 2, .top_p = 1}};
    struct iq_err err = {0};
    struct iq_engine_config c = IQ_ENGINE_CONFIG;
    struct iq_rig a, b;
    cJSON *steps;
    r[1].index = 1;
    r[0].ignore_stop = r[1].ignore_stop = true;
    iq_rig_run(&a, model, &c, r, 2, NULL, false);
    ck_assert_int_eq(iq_json_parse(text, strlen(text), "trajectory", &steps, &err), IQ_OK);
    c.trajectory = steps;
    iq_rig_run(&b, model, &c, r, 2, NULL, false);
    ck_assert_uint_eq(iq_engine_stats(b.engine)->steps, 5);
    ck_assert_uint_eq(iq_rig_differing(&a, &b), 0);
    iq_rig_close(&a), iq_rig_close(&b);
    iq_json_free(steps);
}
END_TEST

START_TEST(a_trajectory_that_can_t_be_is_refused)
{
    static const char *const texts[] = {
        "[]",        "[[]]", "[[[0,1]],[[0,9]]]", "[[[0,1],[0,1]]]", "[[[7,1]]]",     "[[[0]]]", "[[0,1]]",
        "[[[0,1]]]", "{}",   "[[[0,-1]]]",        "[[[0,1.5]]]",     "[[[\"0\",1]]]", "[null]"};
    static const uint32_t prompt[] = {40, 50, 60};
    struct iq_request r = {
        .id = "a", .params = "{}", .prompt = prompt, .n_prompt = 3, .max_tokens = 2, .top_p = 1};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct iq_err err = {0};
        struct iq_engine_config c = IQ_ENGINE_CONFIG;
        struct iq_engine *e;
        cJSON *steps;
        bool more = true;
        ck_assert_int_eq(iq_json_parse(texts[i], strlen(texts[i]), "trajectory", &steps, &err), IQ_OK);
        c.trajectory = steps;
        int status = iq_engine_open(model, &c, &r, 1, &e, &err);
        for (int k = 0; k < 10 && status == IQ_OK && more; k++) status = iq_engine_step(e, &more, &err);
        ck_assert_msg(status == IQ_FORMAT || status == IQ_MISMATCH, "%s: status %d %s", texts[i], status,
                      err.text);
        ck_assert_msg(strstr(err.text, "trajectory") != NULL, "%s: %s", texts[i], err.text);
        iq_engine_close(e);
        iq_json_free(steps);
    }
}
END_TEST

/* ---- cells ---- */

struct cells {
    struct iq_digest d[REQUESTS][POSITIONS][NODES];
    uint8_t predicts[REQUESTS][POSITIONS], reused[REQUESTS][POSITIONS];
};

static int on_row(void *self, const struct iq_cell *c, struct iq_digest d, const void *bytes, size_t n)
{
    struct cells *all = self;
    (void)bytes, (void)n;
    ck_assert(c->request < REQUESTS && c->pos < POSITIONS && c->node < NODES);
    all->d[c->request][c->pos][c->node] = d;
    return IQ_OK;
}

static int on_position(void *self, const struct iq_position *p)
{
    struct cells *all = self;
    all->predicts[p->request][p->pos] = p->has_logits != 0;
    all->reused[p->request][p->pos] = p->state == IQ_CELL_REUSED;
    return IQ_OK;
}

/* Where a position predicts the head has cells, where it does not it has none, computed or reused. */
START_TEST(cells_of_a_reused_prefix_are_those_of_a_computed_one)
{
    struct cells *with = calloc(2, sizeof *with), *without = with + 1;
    uint32_t reused = 0, n_nodes;
    struct iq_rig g[2];
    for (uint32_t i = 0; i < set.n; i += 3)
        set.request[i].n_prompt = set.request[i].n_prompt / IQ_KV_BLOCK * IQ_KV_BLOCK;
    for (uint32_t i = 0; i < set.n; i++)
        if (!set.request[i].n_prompt) set.request[i].n_prompt = 1;
    for (int k = 0; k < 2; k++) {
        struct iq_engine_config c = IQ_ENGINE_CONFIG;
        c.level = IQ_LEVEL_OPS;
        c.batch = 3;
        c.prefix_cache = k == 0;
        iq_rig_open(&g[k], model, &c, set.request, set.n, NULL, false);
        g[k].also = (struct iq_sink){.self = k ? without : with, .row = on_row, .position = on_position};
        iq_rig_go(&g[k]);
    }
    const struct iq_node *node = iq_engine_nodes(g[0].engine, &n_nodes);
    ck_assert_uint_le(n_nodes, NODES);
    for (uint32_t r = 0; r < set.n; r++)
        for (uint32_t p = 0; p < iq_rig_output(&g[0], r)->positions; p++)
            for (uint32_t i = 0; i < n_nodes; i++) {
                bool head = node[i].flags & IQ_NODE_LOGITS, control = node[i].flags & IQ_NODE_CONTROL;
                struct iq_digest a = with->d[r][p][i], b = without->d[r][p][i];
                reused += with->reused[r][p] && !i;
                ck_assert_msg(iq_digest_equal(a, b), "request %u position %u %s.%s: another cell", r, p,
                              node[i].op, node[i].point);
                ck_assert_msg(control || iq_digest_is_zero(a) == (head && !with->predicts[r][p]),
                              "request %u position %u %s.%s: %s", r, p, node[i].op, node[i].point,
                              iq_digest_is_zero(a) ? "no cell" : "a cell where nothing is predicted");
            }
    ck_assert_uint_gt(reused, 0);
    iq_rig_close(&g[0]), iq_rig_close(&g[1]);
    free(with);
}
END_TEST

/* ---- requests at the edges ---- */

START_TEST(a_top_k_beyond_the_vocabulary_is_no_limit)
{
    static const uint32_t prompt[] = {40, 50, 60};
    struct iq_request r = {.id = "a",
                           .params = "{}",
                           .prompt = prompt,
                           .n_prompt = 3,
                           .max_tokens = 6,
                           .temperature = 2,
                           .top_p = 1,
                           .ignore_stop = true};
    struct iq_engine_config c = IQ_ENGINE_CONFIG;
    struct iq_rig a, b;
    iq_rig_run(&a, model, &c, &r, 1, NULL, false);
    struct iq_request wide = r;
    wide.top_k = 100000;
    iq_rig_run(&b, model, &c, &wide, 1, NULL, false);
    ck_assert_msg(iq_rig_same(&a, 0, &b, 0, why), "%s", why);
    iq_rig_close(&a), iq_rig_close(&b);
}
END_TEST

START_TEST(requests_that_generate_nothing_end)
{
    static const uint32_t prompt[] = {40, 50, 60};
    struct iq_request r = {.id = "a", .params = "{}", .prompt = prompt, .n_prompt = 3, .top_p = 1};
    struct iq_engine_config c = IQ_ENGINE_CONFIG;
    struct iq_rig g;
    iq_rig_run(&g, model, &c, &r, 1, NULL, false);
    ck_assert_uint_eq(iq_rig_output(&g, 0)->n_ids, 3);
    ck_assert_uint_eq(iq_rig_output(&g, 0)->positions, 3);
    ck_assert_str_eq(iq_rig_output(&g, 0)->finish, "length");
    iq_rig_close(&g);
    r.score = true;
    iq_rig_run(&g, model, &c, &r, 1, NULL, false);
    ck_assert(iq_rig_output(&g, 0)->nll[0] == 0 && iq_rig_output(&g, 0)->nll[2] > 0);
    iq_rig_close(&g);
}
END_TEST

START_TEST(no_requests_are_no_work)
{
    struct iq_engine_config c = IQ_ENGINE_CONFIG;
    struct iq_rig g;
    iq_rig_run(&g, model, &c, set.request, 0, NULL, false);
    ck_assert_uint_eq(iq_engine_stats(g.engine)->steps, 0);
    iq_rig_close(&g);
}
END_TEST

START_TEST(bad_requests_are_refused_by_name)
{
    static const uint32_t prompt[] = {40, 50, 100000};
    const struct iq_request good = {
        .id = "bad one", .params = "{}", .prompt = prompt, .n_prompt = 2, .max_tokens = 1, .top_p = 1};
    struct iq_request bad[8];
    for (int i = 0; i < 8; i++) bad[i] = good;
    bad[0].n_prompt = 0;
    bad[1].n_prompt = 3;
    bad[2].max_tokens = 100000;
    bad[3].temperature = -1;
    bad[4].top_p = 0;
    bad[5].min_p = 1.5f;
    bad[6].max_tokens = UINT32_MAX;
    bad[7].temperature = (float)(0.0 / 0.0);
    for (int i = 0; i < 8; i++) {
        struct iq_err err = {0};
        struct iq_engine_config c = IQ_ENGINE_CONFIG;
        struct iq_engine *e;
        int status = iq_engine_open(model, &c, &bad[i], 1, &e, &err);
        ck_assert_msg(status == IQ_USAGE || status == IQ_LIMIT, "%d: status %d", i, status);
        ck_assert_ptr_null(e);
        ck_assert_msg(strstr(err.text, "bad one") != NULL, "%s", err.text);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("steps");
    TCase *c = tcase_create("steps");
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, open_all, close_all);
    tcase_add_test(c, a_recorded_trajectory_gives_the_same_steps);
    tcase_add_test(c, a_recorded_trajectory_repeats_its_preemptions);
    tcase_add_test(c, a_trajectory_may_break_the_batch_up);
    tcase_add_test(c, a_trajectory_that_can_t_be_is_refused);
    tcase_add_test(c, cells_of_a_reused_prefix_are_those_of_a_computed_one);
    tcase_add_test(c, a_top_k_beyond_the_vocabulary_is_no_limit);
    tcase_add_test(c, requests_that_generate_nothing_end);
    tcase_add_test(c, no_requests_are_no_work);
    tcase_add_test(c, bad_requests_are_refused_by_name);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
