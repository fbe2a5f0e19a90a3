/* Drills on the shim: any call of the CUDA runtime fails, at any time. An engine that can't go on says so in a sentence and
 * closes; what was recorded before is right; nothing is left on the device; and the next engine runs as if nothing had
 * been. Not on a GPU: there nothing fails when it is asked to. */
#include "tests/check_main.h"
#include "tests/engine/device_rig.h"
#include "tests/engine/small_models.h"
#include "tests/files/scratch.h"

#include "kernels/cuda/runtime.h"
#include "kernels/cuda/shim/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUESTS = 4, LONGEST = 12, ANSWER = 9 };

/* Where freeing fails, or the device is lost, page-locked memory is the process's until it ends. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:host_malloc\n"; }

static struct iq_model *model;
static struct iq_rig_set set;
static struct iq_rig_recorded golden;
static struct iq_rig_case whole; /* captured, level ops */
static size_t free_before;

static size_t device_free(void)
{
    size_t left = 0, total = 0;
    ck_assert_int_eq(iq_cuda_shim_api()->memory_free(&left, &total), IQ_CUDA_OK);
    return left;
}

static void open_all(void)
{
    iq_scratch_make();
    model = iq_rig_model(iq_small_write(&iq_small_tiny), 1);
    set = iq_rig_set_make(5, &(struct iq_rig_shape){REQUESTS, 97, LONGEST, ANSWER, 0, true});
    for (uint32_t i = 0; i < set.n; i++) {
        set.request[i].max_tokens = ANSWER - i % 2 * 4;
        set.request[i].ignore_stop = true;
    }
    whole = (struct iq_rig_case){
        .what = "drill", .model = model, .config = IQ_ENGINE_CONFIG, .request = set.request, .n = set.n};
    whole.config.batch = 3;
    whole.config.captured = true;
    whole.config.level = IQ_LEVEL_OPS;
    iq_rig_case_run(&whole, NULL, &golden);
    iq_shim_reset();
    free_before = device_free();
}

static void close_all(void)
{
    iq_rig_recorded_close(&golden);
    iq_rig_set_free(&set);
    iq_model_close(model);
    iq_scratch_remove();
}

/* ---- one engine, whatever becomes of it ---- */

struct outcome {
    int status;
    bool opened;
    uint64_t steps;
    struct iq_rig_log log;
    struct iq_err err;
};

static struct outcome attempt(const struct iq_rig_case *k)
{
    struct outcome o = {0};
    struct iq_engine *e;
    struct iq_engine_config c = k->config;
    struct iq_sink sink = iq_rig_log_sink(&o.log);
    c.device = iq_rig_device();
    o.status = iq_engine_open(k->model, &c, k->request, k->n, &e, &o.err);
    o.opened = o.status == IQ_OK;
    if (o.opened) iq_engine_record(e, &sink);
    for (bool more = o.opened; more && o.status == IQ_OK;) o.status = iq_engine_step(e, &more, &o.err);
    if (o.opened) o.steps = iq_engine_stats(e)->steps;
    iq_engine_close(e);
    return o;
}

static void fail_at(const char *call, uint64_t nth, int code)
{
    struct iq_err err = {0};
    iq_shim_reset();
    ck_assert_msg(iq_shim_fail(call, nth, code, &err) == IQ_OK, "%s", err.text);
}

static void one_sentence(const struct outcome *o, const char *call, uint64_t nth)
{
    const char *t = o->err.text;
    ck_assert_msg(o->err.status == o->status && strlen(t) > 20 && !strchr(t, '\n') && strstr(t, "cuda"),
                  "%s:%llu: status %d, sentence '%s' of status %d", call, (unsigned long long)nth, o->status,
                  t, o->err.status);
}

static void as_golden_so_far(const struct outcome *o, const char *call, uint64_t nth)
{
    for (uint32_t i = 0; i < o->log.positions; i++)
        ck_assert_msg(i < golden.log.positions &&
                          !memcmp(&o->log.position[i], &golden.log.position[i], sizeof *o->log.position),
                      "%s:%llu: record %u of those made before it failed is not golden's", call,
                      (unsigned long long)nth, i);
}

static void nothing_left(const char *call, uint64_t nth)
{
    iq_shim_reset();
    size_t now = device_free();
    ck_assert_msg(now == free_before, "%s:%llu left %zd bytes on the device", call, (unsigned long long)nth,
                  (ssize_t)(free_before - now));
}

static void next_works(const char *call)
{
    struct iq_rig_recorded next;
    iq_shim_reset();
    iq_rig_case_run(&whole, iq_rig_device(), &next);
    iq_rig_no_findings(call);
    iq_rig_same_run(call, &golden, &next);
    iq_rig_recorded_close(&next);
}

static uint64_t later(uint64_t nth) { return nth < 12 ? nth + 1 : nth + nth / 3; }

/* ---- the device is not there ---- */

START_TEST(no_device_and_an_old_driver_are_a_sentence)
{
    static const struct {
        int code;
        const char *says;
    } ways[] = {{IQ_CUDA_NO_DEVICE, "device"}, {IQ_CUDA_OLD_DRIVER, "driver"}};
    for (int i = 0; i < 2; i++) {
        fail_at("device_count", 1, ways[i].code);
        struct outcome o = attempt(&whole);
        ck_assert_int_eq(o.status, IQ_UNSUPPORTED);
        ck_assert(!o.opened);
        one_sentence(&o, "device_count", 1);
        ck_assert_msg(strstr(o.err.text, ways[i].says) && strstr(o.err.text, "--device cpu"), "%s",
                      o.err.text);
        nothing_left("device_count", 1);
        iq_rig_log_free(&o.log);
    }
    next_works("device_count");
}
END_TEST

/* ---- memory ---- */

static void run_out_of(const char *call)
{
    uint64_t nth = 1;
    for (;; nth++) {
        fail_at(call, nth, IQ_CUDA_NO_MEMORY);
        struct outcome o = attempt(&whole);
        if (o.status != IQ_OK) {
            ck_assert_msg(o.status == IQ_MEMORY, "%s:%llu: status %d: %s", call, (unsigned long long)nth,
                          o.status, o.err.text);
            one_sentence(&o, call, nth);
            as_golden_so_far(&o, call, nth);
            nothing_left(call, nth);
        }
        iq_rig_log_free(&o.log);
        if (o.status == IQ_OK) break;
        if (nth % 8 == 1) next_works(call);
    }
    ck_assert_msg(nth > 5, "%s was called %llu times", call, (unsigned long long)nth - 1);
    next_works(call);
}

START_TEST(device_memory_may_run_out_at_any_allocation) { run_out_of("malloc"); }
END_TEST

START_TEST(a_device_too_small_is_a_sentence)
{
    uint32_t refused = 0;
    for (uint64_t bytes = 1024; bytes <= 4 << 20; bytes *= 2) {
        iq_shim_reset();
        iq_shim_memory(bytes);
        struct outcome o = attempt(&whole);
        iq_shim_memory(0);
        if (o.status != IQ_OK) {
            ck_assert_msg(o.status == IQ_MEMORY, "%llu bytes: status %d: %s", (unsigned long long)bytes,
                          o.status, o.err.text);
            one_sentence(&o, "memory", bytes);
            refused++;
        }
        nothing_left("memory", bytes);
        iq_rig_log_free(&o.log);
    }
    ck_assert_uint_gt(refused, 3);
    next_works("memory");
}
END_TEST

/* ---- any call ---- */

static const struct {
    const char *call;
    int code;
    bool closes; /* called as the engine closes, too: its failure may stay unheard */
} calls[] = {
    {"device_use", 101, false},      {"device_describe", 101, false}, {"stream_create", 2, false},
    {"memcpy_async", 1, false},      {"memcpy_async", 700, false},    {"memset_async", 1, false},
    {"stream_sync", 700, true},      {"stream_sync", 719, true},      {"launch", 9, false},
    {"launch", 719, false},          {"capture_begin", 900, false},   {"capture_end", 1, false},
    {"graph_instantiate", 2, false}, {"graph_launch", 1, false},      {"graph_launch", 719, false},
    {"host_malloc", 2, false},       {"last_error", 9, false},        {"free", 1, true},
    {"host_free", 1, true},          {"stream_destroy", 400, true},   {"graph_destroy", 400, true},
    {"exec_destroy", 400, true},
};

START_TEST(any_call_may_fail_at_any_time)
{
    const char *call = calls[_i].call;
    bool crash = iq_cuda_is_sticky(calls[_i].code);
    uint64_t nth = 1, failed = 0;
    for (;; nth = later(nth)) {
        fail_at(call, nth, calls[_i].code);
        struct outcome o = attempt(&whole);
        bool done = o.status == IQ_OK;
        if (!done) {
            failed++;
            ck_assert_msg(!crash || o.status == IQ_CRASHED, "%s:%llu:%d: status %d: %s", call,
                          (unsigned long long)nth, calls[_i].code, o.status, o.err.text);
            one_sentence(&o, call, nth);
            as_golden_so_far(&o, call, nth);
            if (!crash) nothing_left(call, nth);
        }
        iq_rig_log_free(&o.log);
        if (failed % 6 == 1) next_works(call);
        if (done && (nth > 8 || !calls[_i].closes)) break;
    }
    if (!calls[_i].closes || crash) ck_assert_msg(failed > 0, "%s is never called", call);
    next_works(call);
}
END_TEST

/* ---- a crash in the middle ---- */

START_TEST(a_crash_names_the_step_and_what_was_recorded_stays)
{
    uint32_t kept = 0, named = 0;
    for (uint64_t nth = 1; nth < 400; nth = later(nth)) {
        char step[40];
        fail_at("stream_sync", nth, IQ_CUDA_ILLEGAL_ADDRESS);
        struct outcome o = attempt(&whole);
        if (o.status == IQ_OK) {
            iq_rig_log_free(&o.log);
            break;
        }
        ck_assert_int_eq(o.status, IQ_CRASHED);
        as_golden_so_far(&o, "stream_sync", nth);
        snprintf(step, sizeof step, "step %llu", (unsigned long long)o.steps);
        ck_assert_msg(!o.opened || strstr(o.err.text, step), "'%s' does not name %s", o.err.text, step);
        named += o.opened;
        kept += o.log.positions > 0;
        iq_rig_log_free(&o.log);
    }
    ck_assert_uint_gt(named, 3);
    ck_assert_uint_gt(kept, 2);
    next_works("stream_sync");
}
END_TEST

/* ---- graphs ---- */

static bool reaches(const struct iq_rig_case *k, const char *call, uint64_t nth)
{
    fail_at(call, nth, IQ_CUDA_INVALID_VALUE);
    struct outcome o = attempt(k);
    iq_rig_log_free(&o.log);
    return o.status != IQ_OK;
}

START_TEST(captured_steps_go_through_graphs_that_serve_again)
{
    struct iq_rig_case eager = whole;
    uint64_t launches = 0, graphs = 0;
    eager.config.captured = false;
    ck_assert(!reaches(&eager, "capture_begin", 1));
    ck_assert(!reaches(&eager, "graph_launch", 1));
    while (reaches(&whole, "graph_launch", launches + 1)) launches++;
    while (reaches(&whole, "graph_instantiate", graphs + 1)) graphs++;
    ck_assert_msg(graphs > 0 && launches > graphs, "%llu graphs, launched %llu times",
                  (unsigned long long)graphs, (unsigned long long)launches);
}
END_TEST

int main(void)
{
    if (strcmp(iq_rig_device(), "cuda-shim")) {
        printf("skipped: a GPU does not fail when it is asked to\n");
        return 77;
    }
    Suite *s = suite_create("drills on a device");
    TCase *c = tcase_create("drills");
    tcase_set_timeout(c, 300);
    tcase_add_checked_fixture(c, open_all, close_all);
    tcase_add_test(c, no_device_and_an_old_driver_are_a_sentence);
    tcase_add_test(c, device_memory_may_run_out_at_any_allocation);
    tcase_add_test(c, a_device_too_small_is_a_sentence);
    tcase_add_loop_test(c, any_call_may_fail_at_any_time, 0, (int)(sizeof calls / sizeof *calls));
    tcase_add_test(c, a_crash_names_the_step_and_what_was_recorded_stays);
    tcase_add_test(c, captured_steps_go_through_graphs_that_serve_again);
    suite_add_tcase(s, c);
    return check_main(s);
}
