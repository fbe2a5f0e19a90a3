/* The table of the real runtime. Where there is no GPU: every call says so, and says what to do. Where there is one: what
 * the shim's table promises holds there, too. */
#include "kernels/cuda/runtime.h"
#include "tests/check_main.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct iq_cuda_api *api;
static int devices;

static void setup(void)
{
    api = iq_cuda_api();
    (void)api->device_count(&devices);
}

START_TEST(without_a_device_each_call_fails_with_a_sentence)
{
    int count = 77;
    if (devices) return;
    int code = api->device_count(&count);
    ck_assert_msg(code == IQ_CUDA_OLD_DRIVER || code == IQ_CUDA_NO_DEVICE, "code %d", code);
    ck_assert_int_eq(count, 0);
    void *memory = &count, *stream = &count;
    ck_assert_int_ne(api->malloc(&memory, 16), 0);
    ck_assert_ptr_null(memory);
    ck_assert_int_ne(api->stream_create(&stream), 0);
    ck_assert_ptr_null(stream);
    struct iq_err err = {0};
    ck_assert_int_eq(iq_cuda_check(api, code, "counting devices", &err), IQ_UNSUPPORTED);
    ck_assert_msg(strstr(err.text, "cuda: counting devices failed with cudaError") == err.text, "%s",
                  err.text);
    ck_assert_ptr_nonnull(strstr(err.text, "--device cpu"));
}
END_TEST

START_TEST(on_a_device_copies_fills_and_graphs_are_done_in_order)
{
    enum { BYTES = 1000 };
    unsigned char host[BYTES];
    void *stream, *memory, *graph, *exec;
    if (!devices) return;
    ck_assert_int_eq(api->device_use(0), 0);
    ck_assert_int_eq(api->stream_create(&stream), 0);
    ck_assert_int_eq(api->malloc(&memory, BYTES), 0);
    ck_assert_int_eq(api->capture_begin(stream), 0);
    ck_assert_int_eq(api->memset_async(memory, 5, BYTES / 2, stream), 0);
    ck_assert_int_eq(api->capture_end(stream, &graph), 0);
    ck_assert_int_eq(api->graph_instantiate(&exec, graph), 0);
    ck_assert_int_eq(api->memset_async(memory, 3, BYTES, stream), 0);
    ck_assert_int_eq(api->graph_launch(exec, stream), 0);
    ck_assert_int_eq(api->memcpy_async(host, memory, BYTES, IQ_CUDA_TO_HOST, stream), 0);
    ck_assert_int_eq(api->stream_sync(stream), 0);
    for (int i = 0; i < BYTES; i++) ck_assert_int_eq(host[i], i < BYTES / 2 ? 5 : 3);
    ck_assert_int_eq(api->exec_destroy(exec), 0);
    ck_assert_int_eq(api->graph_destroy(graph), 0);
    ck_assert_int_eq(api->free(memory), 0);
    ck_assert_int_eq(api->stream_destroy(stream), 0);
}
END_TEST

START_TEST(on_a_device_too_much_memory_is_an_error_that_passes)
{
    void *memory;
    if (!devices) return;
    ck_assert_int_eq(api->malloc(&memory, (size_t)1 << 50), IQ_CUDA_NO_MEMORY);
    ck_assert_ptr_null(memory);
    ck_assert_int_eq(api->last_error(), IQ_CUDA_NO_MEMORY);
    ck_assert_int_eq(api->last_error(), 0);
    ck_assert_int_eq(api->malloc(&memory, 1 << 20), 0);
    ck_assert_int_eq(api->free(memory), 0);
}
END_TEST

int main(void)
{
    const char *asked = getenv("IQ_TEST_DEVICE");
    if (asked && !strcmp(asked, "cuda")) {
        setenv("CK_FORK", "no", 1); /* CUDA does not outlive a fork */
        if (iq_cuda_api()->device_count(&devices) || !devices) {
            printf("no GPU: the runtime's table not tested on it\n");
            return 77;
        }
    }
    Suite *suite = suite_create("cuda_runtime");
    TCase *tests = tcase_create("table");
    tcase_add_checked_fixture(tests, setup,
                              NULL); /* in the test's own process: a fork may not inherit a device */
    tcase_add_test(tests, without_a_device_each_call_fails_with_a_sentence);
    tcase_add_test(tests, on_a_device_copies_fills_and_graphs_are_done_in_order);
    tcase_add_test(tests, on_a_device_too_much_memory_is_an_error_that_passes);
    suite_add_tcase(suite, tests);
    return check_main(suite);
}
