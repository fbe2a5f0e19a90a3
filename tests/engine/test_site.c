/* What triggers see of the engine: each number of a site against the requests and rows that are there. */
#include "tests/check_main.h"
#include "tests/engine/rig.h"
#include "tests/engine/small_models.h"
#include "tests/files/scratch.h"

#include "kernels/ops/kv.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { REQUESTS = 20, LONGEST = 40, ANSWER = 8, STEM = 36, SESSIONS = 4 };

static struct iq_model *model;
static struct iq_rig_set set;

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

struct spy {
    const struct iq_engine_config *config;
    bool seen[REQUESTS];
    uint32_t ordinal[REQUESTS];
    uint32_t started, lookups, heads, steps, crowded, preempted, waited;
    uint64_t ended_us, idle_us, clock_us, last_step;
    uint32_t hits;
};

/* The requests of a call's rows, each once. */
static uint32_t requests_of(const struct iq_site *s, uint32_t *request)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < s->rows; r++)
        if (!r || s->row[r].request != s->row[r - 1].request) request[n++] = s->row[r].request;
    return n;
}

static void expect_others(const struct iq_site *s, uint32_t r, const uint32_t *request, uint32_t n)
{
    const struct iq_others *o = &s->row[r].others;
    float temperature = 0, top_p = 1, min_p = 0;
    uint32_t top_k = 0;
    ck_assert_uint_eq(o->n, n - 1);
    for (uint32_t i = 0; i < n; i++) {
        const struct iq_request *q = &set.request[request[i]];
        if (request[i] == s->row[r].request) continue;
        temperature = q->temperature > temperature ? q->temperature : temperature;
        top_p = q->top_p < top_p ? q->top_p : top_p;
        min_p = q->min_p > min_p ? q->min_p : min_p;
        if (q->top_k && (!top_k || q->top_k < top_k)) top_k = q->top_k;
    }
    if (n == 1) return;
    ck_assert(o->temperature == temperature && o->top_p == top_p && o->min_p == min_p);
    ck_assert_uint_eq(o->top_k, top_k);
}

static uint64_t session_start(uint32_t session, uint64_t own)
{
    uint64_t first = own;
    for (uint32_t i = 0; i < set.n && session; i++)
        if (set.request[i].session == session && set.request[i].arrive_us < first)
            first = set.request[i].arrive_us;
    return first;
}

static void expect_row(struct spy *p, const struct iq_site *s, uint32_t r)
{
    const struct iq_row *row = &s->row[r];
    const struct iq_request *q = &set.request[row->request];
    ck_assert_uint_eq(row->arrived_us, q->arrive_us);
    ck_assert_uint_eq(row->session_us, session_start(q->session, q->arrive_us));
    if (p->seen[row->request]) ck_assert_uint_eq(row->ordinal, p->ordinal[row->request]);
    p->seen[row->request] = true;
    p->ordinal[row->request] = row->ordinal;
    ck_assert_uint_lt(row->ordinal, s->step->started);
}

/* The first op of a pass sees all rows of the step: of each request those from `before` to `after`. */
static void expect_step(struct spy *p, const struct iq_site *s)
{
    uint32_t request[REQUESTS], n = requests_of(s, request), longest = 0, shortest = UINT32_MAX, waiting = 0;
    const struct iq_step *t = s->step;
    ck_assert_uint_eq(n, t->batch);
    ck_assert_uint_eq(s->rows, t->tokens);
    for (uint32_t r = 0; r < s->rows; r++) {
        const struct iq_row *row = &s->row[r];
        bool first = !r || row[-1].request != row->request;
        bool last = r + 1 == s->rows || row[1].request != row->request;
        if (first) ck_assert_uint_eq(row->before, row->pos);
        if (last) ck_assert_uint_eq(row->after, row->pos + 1);
        ck_assert(row->before <= row->pos && row->pos < row->after);
        longest = row->after > longest ? row->after : longest;
        shortest = row->after < shortest ? row->after : shortest;
        expect_row(p, s, r);
        expect_others(s, r, request, n);
    }
    ck_assert(t->longest == longest && t->shortest == shortest);
    for (uint32_t i = 0; i < set.n; i++) {
        bool in = false;
        for (uint32_t k = 0; k < n; k++) in |= request[k] == i;
        waiting += !in && set.request[i].arrive_us <= t->clock_us;
    }
    ck_assert(t->running >= t->batch && t->running <= p->config->batch);
    ck_assert_uint_eq(t->waiting + t->running + t->finished,
                      waiting + n); /* who has arrived is one of them */
    ck_assert(t->kv_free <= t->kv_blocks && t->max_batch == p->config->batch && t->chunk == p->config->chunk);
    ck_assert_uint_eq(t->start_s, 3600);
    ck_assert_uint_eq(t->clock_us, p->ended_us + t->idle_us);
    p->ended_us = t->clock_us + 1000 + 100 * (uint64_t)t->tokens; /* what a step costs: engine/schedule.h */
    p->idle_us += t->idle_us;
    p->started = t->started;
    p->preempted = t->preempted;
    p->hits = t->hits;
    p->steps++;
    p->crowded += n > 2;
    p->waited += t->waiting > 0;
}

static int on_pick(void *self, const struct iq_site *s, const void *args, struct iq_pick out[IQ_PICKS])
{
    struct spy *p = self;
    (void)args, (void)out;
    if (s->op == IQ_OP_PREFIX) {
        const struct iq_request *q = &set.request[s->row->request];
        p->lookups++;
        ck_assert(s->row->before == 0 && s->row->after == s->row->context && s->row->others.n == 0);
        ck_assert(s->row->temperature == q->temperature && s->row->top_k == q->top_k);
        expect_row(p, s, 0);
    } else if (s->op == IQ_OP_EMBED)
        expect_step(p, s);
    else {
        for (uint32_t r = 0; r < s->rows; r++) ck_assert_uint_eq(s->row[r].after, s->row[r].context);
        p->heads++;
    }
    return 0;
}

static bool may_strike(void *self, enum iq_op_id op)
{
    (void)self;
    return op == IQ_OP_PREFIX || op == IQ_OP_EMBED || op == IQ_OP_SAMPLE;
}

static struct spy watch(const struct iq_engine_config *c, uint64_t apart)
{
    struct spy p = {.config = c};
    struct iq_selector spy = {&p, on_pick, may_strike};
    struct iq_rig g;
    for (uint32_t i = 0; i < set.n; i++) {
        set.request[i].arrive_us = i * apart;
        set.request[i].session = i % (SESSIONS + 1);
    }
    iq_rig_run(&g, model, c, set.request, set.n, &spy, false);
    const struct iq_engine_stats *s = iq_engine_stats(g.engine);
    ck_assert_uint_eq(p.steps, s->steps);
    ck_assert_uint_eq(p.started, REQUESTS);
    ck_assert_uint_eq(p.ended_us, s->clock_us);
    ck_assert_uint_eq(p.preempted, s->preemptions);
    for (uint32_t i = 0; i < REQUESTS; i++)
        for (uint32_t k = 0; k < i; k++) ck_assert(p.seen[i] && p.ordinal[i] != p.ordinal[k]);
    ck_assert(p.lookups > 0 && p.heads > 0);
    iq_rig_close(&g);
    return p;
}

static struct iq_engine_config config(void)
{
    struct iq_engine_config c = IQ_ENGINE_CONFIG;
    c.batch = 6;
    c.chunk = 9;
    c.start_s = 3600;
    c.prefix_min = IQ_KV_BLOCK;
    return c;
}

START_TEST(a_site_is_what_the_step_is)
{
    struct iq_engine_config c = config();
    struct spy p = watch(&c, 0);
    ck_assert(p.crowded > 0 && p.waited > 0 && p.hits > 0 && p.idle_us == 0);
}
END_TEST

START_TEST(idle_time_is_what_the_clock_jumps)
{
    struct iq_engine_config c = config();
    struct spy p = watch(&c, 50000);
    ck_assert(p.idle_us > 0 && p.waited == 0);
}
END_TEST

START_TEST(preemptions_leave_a_request_its_ordinal)
{
    struct iq_engine_config c = config();
    uint32_t preempted = 0;
    for (c.kv_blocks = 3; c.kv_blocks < 9; c.kv_blocks++) preempted += watch(&c, 0).preempted;
    ck_assert_uint_gt(preempted, 0);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("site");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, open_all, close_all);
    tcase_add_test(t, a_site_is_what_the_step_is);
    tcase_add_test(t, idle_time_is_what_the_clock_jumps);
    tcase_add_test(t, preemptions_leave_a_request_its_ordinal);
    Suite *s = suite_create("site");
    suite_add_tcase(s, t);
    return check_main(s);
}
