/* Faults on a device: the same tokens, chains, cells and firing records as on the CPU, to the bit, for each of the eight
 * and however it is armed: by rows, rates and triggers, two at an op, with a workaround, in captured graphs. */
#include "tests/check_main.h"
#include "tests/engine/device_rig.h"
#include "tests/engine/eight_faults.h"

#include "harness/plan/plan.h"
#include "kernels/cuda/shim/control.h"

#include <stdio.h>
#include <string.h>

static void open_all(void)
{
    models_open();
    set = iq_rig_few(iq_rig_seed(), models[0][1]->config.vocab, true);
}

/* ---- one way to run it ---- */

struct way {
    const char *more; /* members of the fault */
    const char *also; /* faults behind it */
    uint32_t n, batch, every;
    bool captured;
    enum iq_level level;
    const char *schedule;
    bool spared; /* steps that it strikes and steps that it does not must take turns */
};

static char *plan_text(const struct entry *e, const struct way *w)
{
    static char text[1024];
    char behind[256];
    snprintf(behind, sizeof behind, w->also ? w->also : "", e->op);
    snprintf(text, sizeof text,
             "{\"faults\":[{\"op\":\"%s\",\"variant\":\"%s\",\"params\":%s%s}%s%s],\"seed\":3}", e->op,
             e->variant, e->params, w->more, w->also ? "," : "", behind);
    return text;
}

struct armed {
    struct iq_plan plan;
    struct iq_faultset *faults;
    struct iq_selector selector;
};

static void arm(struct armed *a, const char *text)
{
    struct iq_err err = {0};
    cJSON *json;
    int status = iq_json_parse(text, strlen(text), "plan", &json, &err);
    if (status == IQ_OK) status = iq_plan_parse(json, "plan", &a->plan, NULL, &err);
    if (status == IQ_OK) status = iq_faultset_open(a->plan.fault, a->plan.n, a->plan.seed, &a->faults, &err);
    ck_assert_msg(status == IQ_OK, "%s: %s", text, err.text);
    iq_faultset_selector(a->faults, &a->selector);
    iq_json_free(json);
}

static void disarm(struct armed *a)
{
    iq_faultset_close(a->faults);
    iq_plan_free(&a->plan);
}

/* Steps that follow each other: how often one with firings stands beside one without. */
static uint32_t turns(const struct iq_rig_recorded *r)
{
    uint64_t steps = iq_engine_stats(r->rig.engine)->steps;
    uint32_t n = 0;
    bool before = false;
    for (uint64_t s = 0; s < steps; s++) {
        bool now = false;
        for (uint32_t i = 0; i < r->log.firings; i++) now |= r->log.firing[i].step == s;
        n += s && now != before;
        before = now;
    }
    return n;
}

static void twins(const char *text, const struct way *w, const struct iq_model *m,
                  struct iq_rig_recorded *device)
{
    struct armed a;
    arm(&a, text);
    struct iq_rig_case k = {.what = text,
                            .model = m,
                            .config = IQ_ENGINE_CONFIG,
                            .request = set.request,
                            .n = w->n,
                            .faults = &a.selector};
    k.config.batch = w->batch;
    k.config.captured = w->captured;
    k.config.level = w->level;
    for (uint32_t i = 0; i < w->n; i++) set.request[i].arrive_us = (uint64_t)i * w->every;
    iq_rig_schedule(w->schedule, IQ_SHIM_POISON_HIGH);
    iq_rig_twins(&k, device);
    disarm(&a);
}

static void same_findings(const struct entry *e, const struct way *w)
{
    struct iq_rig_recorded device;
    const char *text = plan_text(e, w);
    twins(text, w, model_of(e), &device);
    const struct iq_rig_seen *seen = &device.rig.seen;
    ck_assert_msg(seen->fired > 0 && seen->changed > 0, "%s: %u fired, %u rows changed", text, seen->fired,
                  seen->changed);
    ck_assert_msg(!w->captured || turns(&device) > 1 || !w->spared, "%s: struck in a row, or never", text);
    iq_rig_recorded_close(&device);
}

START_TEST(every_call_struck)
{
    static const struct way w = {
        .more = "", .n = 4, .batch = 3, .level = IQ_LEVEL_OPS, .schedule = "reverse"};
    same_findings(&entries[_i], &w);
}
END_TEST

START_TEST(rows_at_half_rate)
{
    static const struct way w = {.more = ",\"rate\":0.5,\"per\":\"row\"",
                                 .n = 5,
                                 .batch = 4,
                                 .level = IQ_LEVEL_CHAIN,
                                 .schedule = "random:3"};
    same_findings(&entries[_i], &w);
}
END_TEST

/* Calls struck at random: a graph of one set of picks is followed by that of another, and comes again. */
START_TEST(calls_at_half_rate_in_captured_graphs)
{
    static const struct way w = {.more = ",\"rate\":0.5,\"seed\":5",
                                 .n = 6,
                                 .batch = 3,
                                 .captured = true,
                                 .level = IQ_LEVEL_OPS,
                                 .schedule = "reverse",
                                 .spared = true};
    same_findings(&entries[_i], &w);
}
END_TEST

START_TEST(rows_at_half_rate_in_captured_graphs)
{
    static const struct way w = {.more = ",\"rate\":0.5,\"per\":\"row\"",
                                 .n = 6,
                                 .batch = 6,
                                 .every = 700,
                                 .captured = true,
                                 .level = IQ_LEVEL_CHAIN,
                                 .schedule = "forward"};
    same_findings(&entries[_i], &w);
}
END_TEST

/* Batches grow and shrink, through the trigger and out of it. */
START_TEST(from_a_batch_size_on_in_captured_graphs)
{
    static const struct way w = {.more = ",\"when\":{\"batch\":[2,3]}",
                                 .n = 8,
                                 .batch = 5,
                                 .every = 1200,
                                 .captured = true,
                                 .level = IQ_LEVEL_CHAIN,
                                 .schedule = "random:5",
                                 .spared = true};
    same_findings(&entries[_i], &w);
}
END_TEST

/* A workaround at some sizes: golden's bits there, the fault's elsewhere. */
START_TEST(with_a_workaround_at_some_batch_sizes)
{
    static const struct way w = {.more = "",
                                 .also =
                                     "{\"op\":\"%s\",\"variant\":\"reference\",\"when\":{\"batch\":[1,3]}}",
                                 .n = 5,
                                 .batch = 4,
                                 .every = 600,
                                 .captured = true,
                                 .level = IQ_LEVEL_OPS,
                                 .schedule = "forward"};
    same_findings(&entries[_i], &w);
}
END_TEST

/* ---- several at once ---- */

static const struct {
    uint32_t tp;
    const char *faults;
} crowds[] = {
    /* Rows of the last one that covers them. */
    {1, "{\"op\":\"down\",\"variant\":\"low_precision\",\"params\":{\"bits\":8}},"
        "{\"op\":\"down\",\"variant\":\"k_tail\",\"params\":{\"tile\":128},\"rate\":0.5,\"per\":\"row\"}"},
    {1, "{\"op\":\"topk\",\"variant\":\"coarse_bin\",\"params\":{\"bits\":4,\"capacity\":8}},"
        "{\"op\":\"topk\",\"variant\":\"threshold_precision\",\"rate\":0.6,\"per\":\"row\"},"
        "{\"op\":\"topk\",\"variant\":\"reference\",\"rate\":0.3,\"per\":\"row\"}"},
    /* Every op of a kind: one to three parts, heads, columns of ranks. */
    {2, "{\"op\":\"matmul\",\"variant\":\"low_precision\",\"params\":{\"bits\":9},\"rate\":0.4,\"per\":"
        "\"row\"}"},
    {1,
     "{\"op\":\"matmul\",\"variant\":\"reduction_order\",\"params\":{\"unit\":64},\"when\":{\"layer\":1}}"},
    /* One behind the other. */
    {2, "{\"op\":\"ffn_reduce\",\"variant\":\"stale_peer\"},"
        "{\"op\":\"down\",\"variant\":\"k_tail\",\"params\":{\"tile\":128},\"when\":{\"rank\":1}},"
        "{\"op\":\"topk\",\"variant\":\"shard_merge\",\"params\":{\"shards\":4},\"rate\":0.5}"},
};

START_TEST(several_faults_at_once)
{
    static const struct way eager = {.n = 4, .batch = 3, .level = IQ_LEVEL_OPS, .schedule = "reverse"},
                            captured = {.n = 6,
                                        .batch = 6,
                                        .every = 500,
                                        .captured = true,
                                        .level = IQ_LEVEL_CHAIN,
                                        .schedule = "random:9"};
    char text[1024];
    struct iq_rig_recorded device;
    snprintf(text, sizeof text, "{\"faults\":[%s],\"seed\":%d}", crowds[_i / 2].faults, _i);
    twins(text, _i % 2 ? &captured : &eager, models[0][crowds[_i / 2].tp], &device);
    ck_assert_uint_gt(device.rig.seen.changed, 0);
    iq_rig_recorded_close(&device);
}
END_TEST

/* What stale_peer remembers is forgotten when it's armed again: the second run is the first. */
START_TEST(armed_again_it_remembers_nothing)
{
    static const struct way w = {
        .n = 3, .batch = 3, .captured = true, .level = IQ_LEVEL_CHAIN, .schedule = "forward"};
    const char *text = "{\"faults\":[{\"op\":\"ffn_reduce\",\"variant\":\"stale_peer\",\"rate\":0.5}]}";
    struct iq_rig_recorded first, second;
    twins(text, &w, models[0][2], &first);
    twins(text, &w, models[0][2], &second);
    iq_rig_same_run("again", &first, &second);
    iq_rig_recorded_close(&first), iq_rig_recorded_close(&second);
}
END_TEST

/* Armed and disarmed between steps, while graphs of both kinds are kept. */
static void armed_in_turns(const char *device, const struct iq_selector *faults, struct iq_rig_recorded *out)
{
    struct iq_err err = {0};
    struct iq_engine_config c = IQ_ENGINE_CONFIG;
    bool more = true;
    c.captured = true;
    c.level = IQ_LEVEL_OPS;
    c.device = device;
    out->log = (struct iq_rig_log){0};
    iq_rig_open(&out->rig, models[0][2], &c, set.request, 5, NULL, false);
    out->rig.also = iq_rig_log_sink(&out->log);
    for (int step = 0; more; step++) {
        if (step % 2 == 0) iq_engine_arm(out->rig.engine, step % 4 ? NULL : faults);
        ck_assert_msg(iq_engine_step(out->rig.engine, &more, &err) == IQ_OK, "%s", err.text);
    }
}

START_TEST(armed_and_disarmed_between_steps)
{
    static const char *const texts[] = {
        "{\"faults\":[{\"op\":\"ffn_reduce\",\"variant\":\"stale_peer\"}]}",
        "{\"faults\":[{\"op\":\"down\",\"variant\":\"low_precision\",\"params\":{\"bits\":9}}]}"};
    struct iq_rig_recorded cpu, device;
    struct armed a;
    arm(&a, texts[_i]);
    armed_in_turns(NULL, &a.selector, &cpu);
    armed_in_turns(iq_rig_device(), &a.selector, &device);
    iq_rig_same_run(texts[_i], &cpu, &device);
    ck_assert_uint_gt(turns(&device), 1);
    iq_rig_recorded_close(&cpu), iq_rig_recorded_close(&device);
    disarm(&a);
}
END_TEST

int main(void)
{
    iq_rig_device();
    Suite *s = suite_create("faults on a device");
    const struct {
        const char *name;
        const TTest *test;
        int end;
    } cases[] = {{"every-call", every_call_struck, ENTRIES},
                 {"rows", rows_at_half_rate, DENSE},
                 {"captured-calls", calls_at_half_rate_in_captured_graphs, DENSE},
                 {"captured-rows", rows_at_half_rate_in_captured_graphs, DENSE},
                 {"captured-batch", from_a_batch_size_on_in_captured_graphs, DENSE},
                 {"workaround", with_a_workaround_at_some_batch_sizes, DENSE},
                 {"several", several_faults_at_once, 2 * (int)(sizeof crowds / sizeof *crowds)},
                 {"again", armed_again_it_remembers_nothing, 1},
                 {"in-turns", armed_and_disarmed_between_steps, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        TCase *c = tcase_create(cases[i].name);
        tcase_set_timeout(c, 300);
        tcase_add_checked_fixture(c, open_all, close_all);
        tcase_add_loop_test(c, cases[i].test, 0, cases[i].end);
        suite_add_tcase(s, c);
    }
    return check_main(s);
}
