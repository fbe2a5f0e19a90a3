/* The shim's several devices, and streams that wait for each other. */
#include "kernels/cuda/runtime.h"
#include "kernels/cuda/shim/control.h"
#include "tests/check_main.h"
#include "tests/cuda/shim_kernels.h"

#include <string.h>

static const struct iq_cuda_api *api;
static void *a, *b, *event, *other;
enum { WORDS = 100, BYTES = WORDS * 4 };
static uint32_t *x, *y, host[WORDS];

static void setup(void)
{
    api = iq_cuda_shim_api();
    iq_shim_reset();
    iq_shim_devices(2);
    ck_assert_int_eq(api->stream_create(&a), 0);
    ck_assert_int_eq(api->stream_create(&b), 0);
    ck_assert_int_eq(api->event_create(&event), 0);
    ck_assert_int_eq(api->event_create(&other), 0);
    ck_assert_int_eq(api->malloc((void **)&x, BYTES), 0);
    ck_assert_int_eq(api->malloc((void **)&y, BYTES), 0);
    ck_assert_int_eq(api->memset_async(x, 0, BYTES, a), 0);
    ck_assert_int_eq(api->memset_async(y, 0, BYTES, a), 0);
    ck_assert_int_eq(api->stream_sync(a), 0);
}

static void copy(void *to, const void *from, void *stream)
{
    ck_assert_int_eq(api->memcpy_async(to, from, BYTES, IQ_CUDA_ON_DEVICE, stream), 0);
}

static uint32_t word(const uint32_t *from)
{
    ck_assert_int_eq(api->memcpy_async(host, from, BYTES, IQ_CUDA_TO_HOST, NULL), 0);
    ck_assert_int_eq(api->stream_sync(NULL), 0);
    return host[7];
}

static const char *const schedules[] = {"forward", "reverse", "random:1", "random:2", "random:3"};
enum { SCHEDULES = sizeof schedules / sizeof schedules[0] };

/* Whatever is waited for first: b's copy sees what a was given before the record. */
START_TEST(a_stream_waits_for_what_an_event_marks)
{
    ck_assert_int_eq(iq_shim_schedule(schedules[_i], NULL), IQ_OK);
    shim_affine(x, WORDS, 1, 5, a);
    ck_assert_int_eq(api->event_record(event, a), 0);
    ck_assert_int_eq(api->stream_wait(b, event), 0);
    copy(y, x, b);
    ck_assert_int_eq(api->stream_sync(b), 0);
    ck_assert_uint_eq(word(y), 5);
}
END_TEST

START_TEST(without_the_wait_nothing_orders_two_streams)
{
    shim_affine(x, WORDS, 1, 5, a);
    copy(y, x, b);
    ck_assert_int_eq(api->stream_sync(b), 0);
    ck_assert_uint_eq(word(y), 0);
}
END_TEST

/* a -> b -> a: each wait is for the record that stood when it was made, not for a later one. */
START_TEST(streams_wait_in_turn)
{
    ck_assert_int_eq(iq_shim_schedule(schedules[_i], NULL), IQ_OK);
    for (uint32_t round = 0; round < 3; round++) {
        shim_affine(x, WORDS, 1, 1, a);
        ck_assert_int_eq(api->event_record(event, a), 0);
        ck_assert_int_eq(api->stream_wait(b, event), 0);
        copy(y, x, b);
        ck_assert_int_eq(api->event_record(other, b), 0);
        ck_assert_int_eq(api->stream_wait(a, other), 0);
    }
    shim_affine(x, WORDS, 1, 100, a);
    ck_assert_int_eq(api->stream_sync(a), 0);
    ck_assert_uint_eq(word(y), 3);
    ck_assert_uint_eq(word(x), 103);
}
END_TEST

START_TEST(an_event_that_was_never_recorded_is_not_waited_for)
{
    ck_assert_int_eq(api->stream_wait(b, event), 0);
    copy(y, x, b);
    ck_assert_int_eq(api->stream_sync(b), 0);
    ck_assert_int_eq(api->event_record(event, a), 0);
    ck_assert_int_eq(api->event_destroy(event), 0); /* what is queued keeps it */
    ck_assert_int_eq(api->stream_sync(a), 0);
    ck_assert_int_eq(api->stream_wait(b, event), IQ_CUDA_INVALID_HANDLE);
    ck_assert_int_eq(api->event_destroy(event), IQ_CUDA_INVALID_HANDLE);
    ck_assert_int_eq(api->event_record(event, a), IQ_CUDA_INVALID_HANDLE);
}
END_TEST

/* ---- captures that spread ---- */

START_TEST(a_stream_that_waits_for_a_capture_joins_it)
{
    void *graph, *exec;
    int capturing;
    ck_assert_int_eq(api->capture_begin(a), 0);
    shim_affine(x, WORDS, 1, 5, a);
    ck_assert_int_eq(api->event_record(event, a), 0);
    ck_assert_int_eq(api->stream_wait(b, event), 0);
    ck_assert_int_eq(api->stream_capturing(b, &capturing), 0);
    ck_assert_int_eq(capturing, 1);
    copy(y, x, b);
    ck_assert_int_eq(api->stream_sync(b), IQ_CUDA_CAPTURE_UNSUPPORTED);
    ck_assert_int_eq(api->capture_end(b, &graph), IQ_CUDA_CAPTURE_UNMATCHED);
    ck_assert_int_eq(api->event_record(other, b), 0);
    ck_assert_int_eq(api->stream_wait(a, other), 0);
    ck_assert_int_eq(api->capture_end(a, &graph), 0);
    ck_assert_int_eq(api->stream_capturing(b, &capturing), 0);
    ck_assert_int_eq(capturing, 0);
    ck_assert_int_eq(api->graph_instantiate(&exec, graph), 0);
    ck_assert_uint_eq(word(y), 0);
    ck_assert_int_eq(api->graph_launch(exec, a), 0);
    ck_assert_int_eq(api->graph_launch(exec, a), 0);
    ck_assert_int_eq(api->stream_sync(a), 0);
    ck_assert_uint_eq(word(y), 10);
    ck_assert_int_eq(api->stream_wait(b, event), IQ_CUDA_CAPTURED_EVENT);
}
END_TEST

START_TEST(a_capture_that_leaves_work_unjoined_has_no_graph)
{
    void *graph;
    ck_assert_int_eq(api->capture_begin(a), 0);
    ck_assert_int_eq(api->event_record(event, a), 0);
    ck_assert_int_eq(api->stream_wait(b, event), 0);
    copy(y, x, b);
    ck_assert_int_eq(api->event_record(other, b), 0);
    ck_assert_int_eq(api->stream_wait(a, other), 0);
    copy(y, x, b); /* after what a waits for */
    ck_assert_int_eq(api->capture_end(a, &graph), IQ_CUDA_CAPTURE_UNJOINED);
    ck_assert_ptr_null(graph);
    copy(y, x, b); /* both are ordinary streams again */
    ck_assert_int_eq(api->stream_sync(b), 0);
    ck_assert_int_eq(api->stream_sync(a), 0);
}
END_TEST

START_TEST(a_capture_waits_for_nothing_outside_and_merges_with_none)
{
    void *graph;
    ck_assert_int_eq(api->event_record(event, b), 0);
    ck_assert_int_eq(api->capture_begin(a), 0);
    ck_assert_int_eq(api->stream_wait(a, event), IQ_CUDA_CAPTURE_ISOLATION);
    ck_assert_int_eq(api->capture_begin(b), 0);
    ck_assert_int_eq(api->event_record(event, b), 0);
    ck_assert_int_eq(api->stream_wait(a, event), IQ_CUDA_CAPTURE_MERGE);
    ck_assert_int_eq(api->stream_wait(NULL, event), IQ_CUDA_CAPTURE_UNSUPPORTED);
    ck_assert_int_eq(api->capture_end(a, &graph), 0);
    ck_assert_int_eq(api->capture_end(b, &graph), 0);
}
END_TEST

/* ---- several devices ---- */

START_TEST(devices_are_as_many_as_was_said)
{
    struct iq_cuda_device what;
    int n;
    iq_shim_devices(3);
    ck_assert_int_eq(api->device_count(&n), 0);
    ck_assert_int_eq(n, 3);
    ck_assert_int_eq(api->device_use(2), 0);
    ck_assert_int_eq(api->device_current(&n), 0);
    ck_assert_int_eq(n, 2);
    ck_assert_int_eq(api->device_describe(2, &what), 0);
    ck_assert_int_eq(api->device_use(3), IQ_CUDA_INVALID_DEVICE);
    ck_assert_int_eq(api->device_use(-1), IQ_CUDA_INVALID_DEVICE);
}
END_TEST

START_TEST(streams_and_events_stay_with_their_device)
{
    void *far, *far_event;
    ck_assert_int_eq(api->device_use(1), 0);
    ck_assert_int_eq(api->stream_create(&far), 0);
    ck_assert_int_eq(api->event_create(&far_event), 0);
    ck_assert_int_eq(api->event_record(far_event, a), IQ_CUDA_INVALID_HANDLE);
    shim_affine(x, WORDS, 1, 1, a);
    ck_assert_int_eq(api->last_error(), IQ_CUDA_INVALID_HANDLE);
    ck_assert_int_eq(api->device_use(0), 0);
    ck_assert_int_eq(api->event_record(event, a), 0);
    ck_assert_int_eq(api->stream_wait(far, event), 0); /* across devices, as on GPUs */
    copy(y, x, far);
    ck_assert_int_eq(api->stream_sync(far), 0);
    ck_assert_uint_eq(iq_shim_findings(), 0);
}
END_TEST

START_TEST(a_kernel_that_is_handed_another_devices_memory_is_a_finding)
{
    ck_assert_int_eq(api->device_use(1), 0);
    shim_affine(x, WORDS, 1, 1, NULL);
    ck_assert_int_eq(api->last_error(), IQ_CUDA_ILLEGAL_ADDRESS);
    ck_assert_ptr_nonnull(strstr(iq_shim_report(), "memory of device 0, the kernel runs on device 1"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shim_events");
    TCase *tests = tcase_create("events");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_loop_test(tests, a_stream_waits_for_what_an_event_marks, 0, SCHEDULES);
    tcase_add_test(tests, without_the_wait_nothing_orders_two_streams);
    tcase_add_loop_test(tests, streams_wait_in_turn, 0, SCHEDULES);
    tcase_add_test(tests, an_event_that_was_never_recorded_is_not_waited_for);
    tcase_add_test(tests, a_stream_that_waits_for_a_capture_joins_it);
    tcase_add_test(tests, a_capture_that_leaves_work_unjoined_has_no_graph);
    tcase_add_test(tests, a_capture_waits_for_nothing_outside_and_merges_with_none);
    tcase_add_test(tests, devices_are_as_many_as_was_said);
    tcase_add_test(tests, streams_and_events_stay_with_their_device);
    tcase_add_test(tests, a_kernel_that_is_handed_another_devices_memory_is_a_finding);
    suite_add_tcase(suite, tests);
    return check_main(suite);
}
