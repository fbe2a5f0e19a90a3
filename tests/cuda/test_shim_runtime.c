/* The shim's table: order of streams, graphs, memory, calls that fail. */
#include "kernels/cuda/runtime.h"
#include "kernels/cuda/shim/control.h"
#include "tests/check_main.h"
#include "tests/cuda/shim_kernels.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const struct iq_cuda_api *api;
static void *stream;
static uint32_t *device;
enum { WORDS = 100, BYTES = WORDS * 4 };
static uint32_t host[WORDS];

static void setup(void)
{
    api = iq_cuda_shim_api();
    iq_shim_reset();
    ck_assert_int_eq(api->stream_create(&stream), 0);
    ck_assert_int_eq(api->malloc((void **)&device, BYTES), 0);
    for (uint32_t i = 0; i < WORDS; i++) host[i] = i;
}

static void to_device(void)
{
    ck_assert_int_eq(api->memcpy_async(device, host, BYTES, IQ_CUDA_TO_DEVICE, stream), 0);
}
static void to_host(void)
{
    ck_assert_int_eq(api->memcpy_async(host, device, BYTES, IQ_CUDA_TO_HOST, stream), 0);
}

START_TEST(a_stream_runs_in_order_and_not_before_it_is_waited_for)
{
    to_device();
    shim_affine(device, WORDS, 2, 1, stream);
    shim_affine(device, WORDS, 3, 0, stream);
    to_host();
    ck_assert_uint_eq(host[7], 7);
    ck_assert_int_eq(api->stream_sync(stream), 0);
    for (uint32_t i = 0; i < WORDS; i++) ck_assert_uint_eq(host[i], (i * 2 + 1) * 3);
}
END_TEST

/* The error that it makes on a GPU: the copy sees what the host has written since. */
START_TEST(a_buffer_reused_before_the_wait_is_seen)
{
    to_device();
    host[7] = 1000;
    ck_assert_int_eq(api->stream_sync(stream), 0);
    host[7] = 0;
    to_host();
    ck_assert_int_eq(api->stream_sync(stream), 0);
    ck_assert_uint_eq(host[7], 1000);
}
END_TEST

/* As with streams that are made non-blocking. */
START_TEST(the_default_stream_waits_for_no_other)
{
    to_device();
    ck_assert_int_eq(api->stream_sync(stream), 0);
    shim_affine(device, WORDS, 2, 0, stream);
    shim_affine(device, WORDS, 1, 5, NULL);
    ck_assert_int_eq(api->stream_sync(NULL), 0);
    to_host();
    ck_assert_int_eq(api->stream_sync(stream), 0);
    ck_assert_uint_eq(host[7], (7 + 5) * 2);
    ck_assert_int_eq(api->capture_begin(NULL), IQ_CUDA_CAPTURE_UNSUPPORTED);
    ck_assert_int_eq(api->stream_destroy(NULL), IQ_CUDA_INVALID_HANDLE);
}
END_TEST

START_TEST(a_graph_replays_with_the_arguments_it_was_captured_with)
{
    void *graph, *exec;
    uint32_t term = 1;
    to_device();
    ck_assert_int_eq(api->capture_begin(stream), 0);
    shim_affine(device, WORDS, 2, term, stream);
    term = 1000; /* as a captured batch keeps old lengths */
    ck_assert_int_eq(api->capture_end(stream, &graph), 0);
    ck_assert_int_eq(api->graph_instantiate(&exec, graph), 0);
    ck_assert_int_eq(api->graph_destroy(graph), 0);
    for (int i = 0; i < 3; i++) ck_assert_int_eq(api->graph_launch(exec, stream), 0);
    to_host();
    ck_assert_int_eq(api->stream_sync(stream), 0);
    ck_assert_uint_eq(host[7], ((7 * 2 + 1) * 2 + 1) * 2 + 1);
    ck_assert_int_eq(api->exec_destroy(exec), 0);
    ck_assert_int_eq(api->graph_launch(exec, stream), IQ_CUDA_INVALID_VALUE);
}
END_TEST

START_TEST(a_capture_runs_nothing_and_forbids_to_wait_and_to_allocate)
{
    void *graph, *memory;
    to_device();
    ck_assert_int_eq(api->stream_sync(stream), 0);
    ck_assert_int_eq(api->capture_begin(stream), 0);
    ck_assert_int_eq(api->capture_begin(stream), IQ_CUDA_CAPTURE_UNSUPPORTED);
    shim_affine(device, WORDS, 0, 0, stream);
    ck_assert_int_eq(api->stream_sync(stream), IQ_CUDA_CAPTURE_UNSUPPORTED);
    ck_assert_int_eq(api->malloc(&memory, 1), IQ_CUDA_CAPTURE_UNSUPPORTED);
    ck_assert_ptr_null(memory);
    ck_assert_int_eq(api->capture_end(stream, &graph), 0);
    host[7] = 0;
    to_host();
    ck_assert_int_eq(api->stream_sync(stream), 0);
    ck_assert_uint_eq(host[7], 7);
    ck_assert_int_eq(api->capture_end(stream, &graph), IQ_CUDA_INVALID_VALUE);
    ck_assert_ptr_null(graph);
}
END_TEST

START_TEST(device_memory_has_an_end)
{
    void *a, *b;
    size_t left, total;
    iq_shim_memory(10000 + BYTES);
    ck_assert_int_eq(api->malloc(&a, 8000), 0);
    ck_assert_int_eq(api->memory_free(&left, &total), 0);
    ck_assert_uint_eq(left, 2000);
    ck_assert_int_eq(api->malloc(&b, 2001), IQ_CUDA_NO_MEMORY);
    ck_assert_ptr_null(b);
    ck_assert_int_eq(api->malloc(&b, SIZE_MAX), IQ_CUDA_NO_MEMORY);
    ck_assert_int_eq(api->malloc(&b, 0), IQ_CUDA_INVALID_VALUE);
    ck_assert_int_eq(api->free(a), 0);
    ck_assert_int_eq(api->malloc(&b, 10000), 0);
    ck_assert_int_eq(api->last_error(), IQ_CUDA_INVALID_VALUE); /* none of it was sticky */
    ck_assert_int_eq(api->last_error(), 0);
}
END_TEST

START_TEST(memory_is_freed_once_and_only_as_it_was_given)
{
    void *memory;
    ck_assert_int_eq(api->malloc(&memory, 64), 0);
    ck_assert_int_eq(api->free((char *)memory + 16), IQ_CUDA_INVALID_VALUE);
    ck_assert_int_eq(api->free(memory), 0);
    ck_assert_int_eq(api->free(memory), IQ_CUDA_INVALID_VALUE);
    ck_assert_int_eq(api->free(host), IQ_CUDA_INVALID_VALUE);
    ck_assert_int_eq(api->free(NULL), 0);
}
END_TEST

START_TEST(a_kernel_that_uses_freed_memory_is_a_finding)
{
    void *memory;
    ck_assert_int_eq(api->malloc(&memory, BYTES), 0);
    ck_assert_int_eq(api->free(memory), 0);
    shim_affine(memory, WORDS, 1, 1, stream);
    ck_assert_int_eq(api->stream_sync(stream), IQ_CUDA_ILLEGAL_ADDRESS);
    ck_assert_ptr_nonnull(strstr(iq_shim_report(), "a freed allocation of 400 bytes"));
}
END_TEST

START_TEST(a_copy_stays_inside_its_allocation_and_on_its_side)
{
    ck_assert_int_eq(api->memcpy_async(device, host, BYTES + 1, IQ_CUDA_TO_DEVICE, stream),
                     IQ_CUDA_INVALID_VALUE);
    ck_assert_int_eq(api->memcpy_async(device + 1, host, BYTES, IQ_CUDA_TO_DEVICE, stream),
                     IQ_CUDA_INVALID_VALUE);
    ck_assert_int_eq(api->memcpy_async(host, device, BYTES, IQ_CUDA_TO_DEVICE, stream),
                     IQ_CUDA_INVALID_VALUE);
    ck_assert_int_eq(api->memcpy_async(device, host, BYTES, IQ_CUDA_TO_HOST, stream), IQ_CUDA_INVALID_VALUE);
    ck_assert_int_eq(api->memcpy_async(host, host, BYTES, IQ_CUDA_ON_DEVICE, stream), IQ_CUDA_INVALID_VALUE);
    ck_assert_int_eq(api->memset_async(host, 0, BYTES, stream), IQ_CUDA_INVALID_VALUE);
    ck_assert_uint_eq(iq_shim_findings(), 6);
    to_device();
    ck_assert_int_eq(api->stream_sync(stream), 0);
}
END_TEST

/* volatile: the compiler must not drop the load. */
START_TEST(locked_device_memory_kills_a_host_that_reads_it)
{
    iq_shim_lock(1);
    to_device();
    shim_affine(device, WORDS, 1, 1, stream);
    to_host();
    ck_assert_int_eq(api->stream_sync(stream), 0);
    ck_assert_uint_eq(host[7], 8);
    uint32_t stray = *(volatile uint32_t *)&device[7];
    ck_abort_msg("read %u", stray);
}
END_TEST

START_TEST(streams_of_a_random_schedule_interleave_and_keep_their_own_order)
{
    void *other;
    uint32_t *there, back[WORDS];
    ck_assert_int_eq(iq_shim_schedule("random:3", NULL), 0);
    ck_assert_int_eq(api->stream_create(&other), 0);
    ck_assert_int_eq(api->malloc((void **)&there, BYTES), 0);
    to_device();
    ck_assert_int_eq(api->memcpy_async(there, host, BYTES, IQ_CUDA_TO_DEVICE, other), 0);
    for (int i = 0; i < 5; i++) {
        shim_affine(device, WORDS, 3, 1, stream);
        shim_affine(there, WORDS, 5, 2, other);
    }
    ck_assert_int_eq(api->memcpy_async(back, there, BYTES, IQ_CUDA_TO_HOST, other), 0);
    ck_assert_int_eq(api->stream_sync(stream), 0);
    to_host();
    ck_assert_int_eq(api->stream_sync(stream), 0);
    ck_assert_int_eq(api->stream_sync(other), 0);
    uint32_t a = 7, b = 7;
    for (int i = 0; i < 5; i++) a = a * 3 + 1, b = b * 5 + 2;
    ck_assert_uint_eq(host[7], a);
    ck_assert_uint_eq(back[7], b);
}
END_TEST

enum { CALLERS = 4, ROUNDS = 20 };

static void *caller(void *done)
{
    void *mine;
    uint32_t *there, here[WORDS];
    for (uint32_t i = 0; i < WORDS; i++) here[i] = i;
    if (api->stream_create(&mine) || api->malloc((void **)&there, BYTES)) return NULL;
    if (api->memcpy_async(there, here, BYTES, IQ_CUDA_TO_DEVICE, mine)) return NULL;
    for (int round = 0; round < ROUNDS; round++) {
        shim_affine(there, WORDS, 3, 1, mine);
        if (api->stream_sync(mine)) return NULL;
    }
    if (api->memcpy_async(here, there, BYTES, IQ_CUDA_TO_HOST, mine) || api->stream_sync(mine)) return NULL;
    uint32_t expected = 7;
    for (int round = 0; round < ROUNDS; round++) expected = expected * 3 + 1;
    if (api->free(there) || api->stream_destroy(mine)) return NULL;
    return here[7] == expected ? done : NULL;
}

START_TEST(threads_may_use_the_table_at_the_same_time)
{
    pthread_t threads[CALLERS];
    ck_assert_int_eq(iq_shim_schedule("random:9", NULL), 0);
    for (int i = 0; i < CALLERS; i++) ck_assert_int_eq(pthread_create(&threads[i], NULL, caller, threads), 0);
    for (int i = 0; i < CALLERS; i++) {
        void *done;
        ck_assert_int_eq(pthread_join(threads[i], &done), 0);
        ck_assert_msg(done == threads, "%s", iq_shim_report());
    }
}
END_TEST

START_TEST(the_nth_call_of_a_function_fails_as_planned)
{
    void *memory;
    int count;
    ck_assert_int_eq(iq_shim_fail("malloc", 2, IQ_CUDA_NO_MEMORY, NULL), IQ_OK);
    ck_assert_int_eq(iq_shim_fail("device_count", 1, IQ_CUDA_OLD_DRIVER, NULL), IQ_OK);
    ck_assert_int_eq(api->malloc(&memory, 16), 0);
    ck_assert_int_eq(api->malloc(&memory, 16), IQ_CUDA_NO_MEMORY);
    ck_assert_ptr_null(memory);
    ck_assert_int_eq(api->malloc(&memory, 16), 0);
    ck_assert_int_eq(api->device_count(&count), IQ_CUDA_OLD_DRIVER);
    ck_assert_int_eq(count, 0);
    ck_assert_int_eq(api->device_count(&count), 0);
    ck_assert_int_eq(count, 1);
    struct iq_err err = {0};
    ck_assert_int_eq(iq_shim_fail("maloc", 1, 2, &err), IQ_USAGE);
    ck_assert_int_eq(iq_shim_fail("malloc", 0, 2, &err), IQ_USAGE);
    ck_assert_int_eq(iq_shim_fail("malloc", 1, 0, &err), IQ_USAGE);
}
END_TEST

START_TEST(a_sticky_error_stays_until_the_process_would_end)
{
    void *memory;
    ck_assert_int_eq(iq_shim_fail("launch", 2, IQ_CUDA_LAUNCH_FAILED, NULL), IQ_OK);
    to_device();
    shim_affine(device, WORDS, 1, 1, stream);
    ck_assert_int_eq(api->last_error(), 0);
    shim_affine(device, WORDS, 1, 1, stream);
    ck_assert_int_eq(api->last_error(), IQ_CUDA_LAUNCH_FAILED);
    ck_assert_int_eq(api->last_error(), IQ_CUDA_LAUNCH_FAILED);
    ck_assert_int_eq(api->stream_sync(stream), IQ_CUDA_LAUNCH_FAILED);
    ck_assert_int_eq(api->malloc(&memory, 16), IQ_CUDA_LAUNCH_FAILED);
    iq_shim_reset();
    ck_assert_int_eq(api->stream_sync(stream), 0);
}
END_TEST

START_TEST(an_error_becomes_a_sentence_with_its_status)
{
    static const struct {
        int code, status;
        const char *part;
    } rows[] = {
        {IQ_CUDA_NO_MEMORY, IQ_MEMORY,
         "cuda-shim: copying the logits failed with cudaErrorMemoryAllocation (2), out of memory"},
        {IQ_CUDA_OLD_DRIVER, IQ_UNSUPPORTED, "install a driver"},
        {IQ_CUDA_NO_DEVICE, IQ_UNSUPPORTED, "--device cpu"},
        {IQ_CUDA_ILLEGAL_ADDRESS, IQ_CRASHED, "what was recorded before stays"},
        {IQ_CUDA_INVALID_VALUE, IQ_INTERNAL, "invalid argument"},
    };
    ck_assert_int_eq(iq_cuda_check(api, 0, "x", NULL), IQ_OK);
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct iq_err err = {0};
        ck_assert_int_eq(iq_cuda_check(api, rows[i].code, "copying the logits", &err), rows[i].status);
        ck_assert_msg(strstr(err.text, rows[i].part) != NULL, "expected '%s' in: %s", rows[i].part, err.text);
    }
}
END_TEST

/* Each test is a process of its own, so the environment is read anew. */
START_TEST(the_environment_plans_what_the_functions_do)
{
    void *memory;
    setenv("IQ_SHIM_SCHEDULE", "random:5", 1);
    setenv("IQ_SHIM_POISON", "01020304", 1);
    setenv("IQ_SHIM_MEMORY", "1000", 1);
    setenv("IQ_SHIM_FAIL", "malloc:2:2,stream_create:1:999", 1);
    api = iq_cuda_shim_api();
    ck_assert_int_eq(api->stream_create(&memory), 999);
    ck_assert_int_eq(api->stream_create(&stream), 0);
    ck_assert_int_eq(api->malloc(&memory, BYTES), 0);
    device = memory;
    to_host();
    ck_assert_int_eq(api->stream_sync(stream), 0);
    ck_assert_uint_eq(host[7], 0x01020304u);
    ck_assert_int_eq(api->malloc(&memory, 4), IQ_CUDA_NO_MEMORY);
    ck_assert_int_eq(api->malloc(&memory, 1001 - BYTES), IQ_CUDA_NO_MEMORY);
    ck_assert_int_eq(api->malloc(&memory, 1000 - BYTES), 0);
}
END_TEST

START_TEST(a_setting_that_is_not_understood_fails_every_call)
{
    static const char *const rows[][2] = {
        {"IQ_SHIM_SCHEDULE", "fast"},  {"IQ_SHIM_POISON", "xyz"},    {"IQ_SHIM_MEMORY", "-1"},
        {"IQ_SHIM_LOCK", "yes"},       {"IQ_SHIM_FAIL", "malloc:1"}, {"IQ_SHIM_FAIL", "malloc:1:2;free:1:2"},
        {"IQ_SHIM_FAIL", "nosuch:1:2"}};
    int count;
    setenv(rows[_i][0], rows[_i][1], 1);
    api = iq_cuda_shim_api();
    ck_assert_int_eq(api->device_count(&count), IQ_CUDA_INVALID_VALUE);
    ck_assert_int_eq(api->device_count(&count), IQ_CUDA_INVALID_VALUE);
    ck_assert_ptr_nonnull(strstr(iq_shim_report(), rows[_i][0]));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shim_runtime");
    TCase *tests = tcase_create("table"), *environment = tcase_create("environment");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, a_stream_runs_in_order_and_not_before_it_is_waited_for);
    tcase_add_test(tests, a_buffer_reused_before_the_wait_is_seen);
    tcase_add_test(tests, the_default_stream_waits_for_no_other);
    tcase_add_test(tests, a_graph_replays_with_the_arguments_it_was_captured_with);
    tcase_add_test(tests, a_capture_runs_nothing_and_forbids_to_wait_and_to_allocate);
    tcase_add_test(tests, device_memory_has_an_end);
    tcase_add_test(tests, memory_is_freed_once_and_only_as_it_was_given);
    tcase_add_test(tests, a_kernel_that_uses_freed_memory_is_a_finding);
    tcase_add_test(tests, a_copy_stays_inside_its_allocation_and_on_its_side);
#ifdef __SANITIZE_ADDRESS__ /* sanitizers report the fault and exit */
    tcase_add_exit_test(tests, locked_device_memory_kills_a_host_that_reads_it, 1);
#elif defined __SANITIZE_THREAD__
    tcase_add_exit_test(tests, locked_device_memory_kills_a_host_that_reads_it, 66);
#else
    tcase_add_test_raise_signal(tests, locked_device_memory_kills_a_host_that_reads_it, SIGSEGV);
#endif
    tcase_add_test(tests, streams_of_a_random_schedule_interleave_and_keep_their_own_order);
    tcase_add_test(tests, threads_may_use_the_table_at_the_same_time);
    tcase_add_test(tests, the_nth_call_of_a_function_fails_as_planned);
    tcase_add_test(tests, a_sticky_error_stays_until_the_process_would_end);
    tcase_add_test(tests, an_error_becomes_a_sentence_with_its_status);
    tcase_add_test(environment, the_environment_plans_what_the_functions_do);
    tcase_add_loop_test(environment, a_setting_that_is_not_understood_fails_every_call, 0, 7);
    suite_add_tcase(suite, tests);
    suite_add_tcase(suite, environment);
    return check_main(suite);
}
