/* Each planted bug is found, its right twin is left alone. Built twice: as it is, and with kernels compiled for the race
 * detector. */
#include "kernels/cuda/runtime.h"
#include "kernels/cuda/shim/control.h"
#include "tests/check_main.h"
#include "tests/cuda/planted.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { WORDS = PLANTED_WORDS, BYTES = WORDS * 4, SEEDS = 30 };
static const struct iq_cuda_api *api;
static uint32_t input[WORDS];

static void setup(void)
{
    api = iq_cuda_shim_api();
    for (uint32_t i = 0; i < WORDS; i++) input[i] = i * 2654435761u >> 5; /* all different */
}

static char report[4096]; /* of the last run */

/* One run on fresh memory: 0, or what stream_sync gave. */
static int run(const struct planted *p, int bug, const char *schedule, uint32_t poison, uint32_t out[WORDS])
{
    void *stream, *in_device, *out_device;
    iq_shim_reset();
    ck_assert_int_eq(iq_shim_schedule(schedule, NULL), IQ_OK);
    iq_shim_poison(poison);
    ck_assert_int_eq(api->stream_create(&stream), 0);
    ck_assert_int_eq(api->malloc(&in_device, BYTES), 0);
    ck_assert_int_eq(api->malloc(&out_device, BYTES), 0);
    memset(out, 0, BYTES);
    ck_assert_int_eq(api->memcpy_async(in_device, input, BYTES, IQ_CUDA_TO_DEVICE, stream), 0);
    ck_assert_int_eq(api->memset_async(out_device, 0, BYTES, stream), 0);
    p->launch(bug, in_device, out_device, stream);
    ck_assert_int_eq(api->memcpy_async(out, out_device, BYTES, IQ_CUDA_TO_HOST, stream), 0);
    int code = api->stream_sync(stream);
    snprintf(report, sizeof report, "%s", iq_shim_report());
    uint64_t findings = iq_shim_findings();
    ck_assert_msg((code != 0) == (findings != 0), "%s: code %d, %" PRIu64 " findings", p->name, code,
                  findings);
    if (code) iq_shim_reset(); /* or nothing could be freed */
    api->free(in_device);
    api->free(out_device);
    api->stream_destroy(stream);
    return code;
}

/* Something is wrong with it: a finding, or other results than expected under one of the poisons. */
static int is_found(const struct planted *p, int bug, const char *schedule)
{
    static const uint32_t poisons[] = {IQ_SHIM_POISON_NAN, IQ_SHIM_POISON_HIGH, IQ_SHIM_POISON_LOW};
    uint32_t out[WORDS], expected[WORDS] = {0};
    p->expect(input, expected);
    for (unsigned i = 0; i < sizeof poisons / sizeof poisons[0]; i++)
        if (run(p, bug, schedule, poisons[i], out) || memcmp(out, expected, BYTES)) return 1;
    return 0;
}

static const char *const orders[] = {"forward", "reverse", "warp-forward", "warp-reverse"};
enum { ORDERS = sizeof orders / sizeof orders[0] };

START_TEST(a_right_kernel_stays_clean_under_every_order_and_ten_seeds)
{
    const struct planted *p = &planted[_i];
    for (unsigned i = 0; i < ORDERS; i++)
        ck_assert_msg(!is_found(p, 0, orders[i]), "%s, %s", p->name, orders[i]);
    for (unsigned seed = 0; seed < 10; seed++) {
        char schedule[32];
        snprintf(schedule, sizeof schedule, "random:%u", seed);
        ck_assert_msg(!is_found(p, 0, schedule), "%s, %s", p->name, schedule);
    }
}
END_TEST

START_TEST(a_planted_bug_is_found_under_every_random_schedule)
{
    const struct planted *p = &planted[_i];
    unsigned found = 0, expected = p->race_only && !iq_shim_has_race_detector() ? 0 : SEEDS;
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        char schedule[32];
        snprintf(schedule, sizeof schedule, "random:%u", seed);
        found += is_found(p, 1, schedule) != 0;
    }
    ck_assert_msg(found == expected, "%s: found in %u of %u schedules, expected %u", p->name, found, SEEDS,
                  expected);
}
END_TEST

/* The race detector looks at what orders two accesses, not at what came of them: one schedule is enough, any. */
START_TEST(the_race_detector_finds_a_planted_bug_under_every_order)
{
    const struct planted *p = &planted[_i];
    if (!iq_shim_has_race_detector()) return;
    for (unsigned i = 0; i < ORDERS; i++) {
        uint32_t out[WORDS];
        ck_assert_msg(run(p, 1, orders[i], IQ_SHIM_POISON_NAN, out), "%s, %s", p->name, orders[i]);
    }
}
END_TEST

START_TEST(a_finding_says_what_is_wrong)
{
    const struct planted *p = &planted[_i];
    uint32_t out[WORDS];
    if (iq_shim_has_race_detector()) return; /* which may be the first to find it */
    for (unsigned i = 0; i < 2 && p->finding[i].part; i++) {
        ck_assert(run(p, 1, p->finding[i].schedule, IQ_SHIM_POISON_NAN, out));
        ck_assert_msg(strstr(report, p->finding[i].part) != NULL, "%s, %s: expected '%s' in: %s", p->name,
                      p->finding[i].schedule, p->finding[i].part, report);
    }
}
END_TEST

static const struct planted *planted_named(const char *name)
{
    for (unsigned i = 0; i < planted_n; i++)
        if (!strcmp(planted[i].name, name)) return &planted[i];
    ck_abort_msg("no kernel %s", name);
}

START_TEST(a_finding_names_kernel_block_thread_line_and_schedule)
{
    void *stream, *memory;
    iq_shim_reset();
    ck_assert_int_eq(iq_shim_schedule("random:7", NULL), IQ_OK);
    ck_assert_int_eq(api->stream_create(&stream), 0);
    ck_assert_int_eq(api->malloc(&memory, BYTES), 0);
    planted_named("divergent_barrier")->launch(1, memory, memory, stream);
    ck_assert_int_eq(api->stream_sync(stream), IQ_CUDA_LAUNCH_FAILED);
    static const char *const parts[] = {
        "divergent_barrier: block (0, 0, 0) thread (",
        "__syncthreads at planted.cu:", "threads wait at planted.cu:", "schedule random:7"};
    for (unsigned i = 0; i < sizeof parts / sizeof parts[0]; i++)
        ck_assert_msg(strstr(iq_shim_report(), parts[i]) != NULL, "expected '%s' in: %s", parts[i],
                      iq_shim_report());
}
END_TEST

START_TEST(an_unknown_schedule_is_refused_with_the_choices)
{
    static const char *const wrong[] = {
        "", "forwards", "random", "random:", "random:x", "random:-1", "random:1x"};
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct iq_err err = {0};
        ck_assert_int_eq(iq_shim_schedule(wrong[i], &err), IQ_USAGE);
        ck_assert_ptr_nonnull(strstr(err.text, "random:SEED"));
    }
}
END_TEST

START_TEST(the_race_detector_refuses_a_host_pointer)
{
    void *stream, *memory;
    if (!iq_shim_has_race_detector()) return;
    iq_shim_reset();
    ck_assert_int_eq(api->stream_create(&stream), 0);
    ck_assert_int_eq(api->malloc(&memory, BYTES), 0);
    uint32_t host[WORDS] = {0};
    planted_named("missing_barrier")->launch(0, host, memory, stream);
    ck_assert_int_eq(api->stream_sync(stream), IQ_CUDA_ILLEGAL_ADDRESS);
    ck_assert_ptr_nonnull(strstr(iq_shim_report(), "no device memory"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shim");
    TCase *rows = tcase_create("planted bugs"), *rest = tcase_create("findings");
    tcase_add_checked_fixture(rows, setup, NULL);
    tcase_add_checked_fixture(rest, setup, NULL);
    tcase_set_timeout(rows, 60);
    int n = (int)planted_n;
    tcase_add_loop_test(rows, a_right_kernel_stays_clean_under_every_order_and_ten_seeds, 0, n);
    tcase_add_loop_test(rows, a_planted_bug_is_found_under_every_random_schedule, 0, n);
    tcase_add_loop_test(rows, the_race_detector_finds_a_planted_bug_under_every_order, 0, n);
    tcase_add_loop_test(rows, a_finding_says_what_is_wrong, 0, n);
    tcase_add_test(rest, a_finding_names_kernel_block_thread_line_and_schedule);
    tcase_add_test(rest, an_unknown_schedule_is_refused_with_the_choices);
    tcase_add_test(rest, the_race_detector_refuses_a_host_pointer);
    suite_add_tcase(suite, rows);
    suite_add_tcase(suite, rest);
    return check_main(suite);
}
