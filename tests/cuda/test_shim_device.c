/* The device language of the shim: indices, warp operations, atomics, shared arrays of templates, what a launch may be. */
#include "kernels/cuda/runtime.h"
#include "kernels/cuda/shim/control.h"
#include "tests/check_main.h"
#include "tests/cuda/shim_kernels.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const struct iq_cuda_api *api;
static void *stream;
static uint32_t *device;
enum { WORDS = 1024 };
static uint32_t out[WORDS];

static const char *const schedules[] = {"forward",      "reverse",  "warp-forward",
                                        "warp-reverse", "random:1", "random:2"};
enum { SCHEDULES = sizeof schedules / sizeof schedules[0] };

static void setup(void)
{
    api = iq_cuda_shim_api();
    iq_shim_reset();
    ck_assert_int_eq(api->stream_create(&stream), 0);
    ck_assert_int_eq(api->malloc((void **)&device, sizeof out), 0);
    ck_assert_int_eq(api->memset_async(device, 0, sizeof out, stream), 0);
}

static void fetch(void)
{
    ck_assert_int_eq(api->memcpy_async(out, device, sizeof out, IQ_CUDA_TO_HOST, stream), 0);
    int code = api->stream_sync(stream);
    ck_assert_msg(code == 0, "%s", iq_shim_report());
}

static uint32_t value(unsigned lane) { return lane * 3 + 1; }

/* What CUDA's guide says of each operation. */
static uint32_t warp_expected(unsigned column, unsigned lane)
{
    uint32_t sum = 0;
    switch (column) {
    case 0:
        return value(5);
    case 1:
        return value((lane & ~7u) + 5);
    case 2:
        return value(lane < 3 ? lane : lane - 3);
    case 3:
        return value(lane + 3 > 31 ? lane : lane + 3);
    case 4:
        return value(lane % 8 + 3 > 7 ? lane : lane + 3);
    case 5:
        return value(lane ^ 17);
    case 6:
        return value((lane ^ 9) > (lane | 7) ? lane : lane ^ 9);
    case 7:
        return 0x49249249u;
    case 8:
    case 9:
        return 2;
    case 10:
        return 31 * 32 / 2 * 3 + 32;
    case 11:
        return (uint32_t)-7;
    case 12:
        return 7;
    case 13:
        return UINT32_MAX; /* 7 - 8 without a sign */
    case 14:
        for (unsigned l = lane & 16; l < (lane & 16) + 16; l++) sum ^= value(l);
        return sum;
    default:
        return (lane ^ 1) * 2 + 1;
    }
}

START_TEST(warp_operations_do_what_the_guide_says)
{
    ck_assert_int_eq(iq_shim_schedule(schedules[_i], NULL), IQ_OK);
    shim_warp_operations(device, stream);
    fetch();
    for (unsigned c = 0; c < WARP_COLUMNS; c++)
        for (unsigned lane = 0; lane < 32; lane++)
            ck_assert_msg(out[c * 32 + lane] == warp_expected(c, lane), "operation %u, lane %u: %08x", c,
                          lane, out[c * 32 + lane]);
}
END_TEST

START_TEST(atomics_lose_nothing_under_any_schedule)
{
    static const uint32_t start[8] = {0, 512, 5000, 0, UINT32_MAX, 0, 0, 0};
    ck_assert_int_eq(iq_shim_schedule(schedules[_i], NULL), IQ_OK);
    ck_assert_int_eq(api->memcpy_async(device, start, sizeof start, IQ_CUDA_TO_DEVICE, stream), 0);
    shim_atomics(device, stream);
    fetch();
    static const uint32_t expected[8] = {511 * 512 / 2, 0, 1000 - 511, 511, 0xffffff00u, UINT32_MAX, 0, 1024};
    for (unsigned i = 0; i < 8; i++) ck_assert_uint_eq(out[i], expected[i]);
}
END_TEST

START_TEST(each_instantiation_of_a_template_has_its_own_shared_array)
{
    ck_assert_int_eq(iq_shim_schedule(schedules[_i], NULL), IQ_OK);
    shim_template_arrays(device, stream);
    fetch();
    for (unsigned i = 0; i < 64; i++) ck_assert_uint_eq(out[i], i % 32 ^ 1);
}
END_TEST

START_TEST(grids_and_blocks_have_three_dimensions)
{
    ck_assert_int_eq(iq_shim_schedule(schedules[_i], NULL), IQ_OK);
    shim_shape(device, stream);
    fetch();
    for (uint32_t i = 0; i < SHAPE_THREADS; i++) ck_assert_uint_eq(out[i], i);
}
END_TEST

static void arrivals(const char *schedule, uint32_t ranks[256])
{
    ck_assert_int_eq(api->stream_sync(stream), 0); /* what was queued before draws from the seed, too */
    ck_assert_int_eq(iq_shim_schedule(schedule, NULL), IQ_OK);
    ck_assert_int_eq(api->memset_async(device, 0, sizeof out, stream), 0);
    shim_arrivals(device, stream);
    fetch();
    memcpy(ranks, out, 256 * sizeof *ranks);
}

START_TEST(a_schedule_orders_threads_and_blocks_as_it_says)
{
    uint32_t ranks[256];
    static const char *const up[] = {"forward", "warp-forward"}, *const down[] = {"reverse", "warp-reverse"};
    for (unsigned k = 0; k < 2; k++) {
        arrivals(up[k], ranks);
        for (uint32_t i = 0; i < 256; i++) ck_assert_uint_eq(ranks[i], i);
        arrivals(down[k], ranks);
        for (uint32_t i = 0; i < 256; i++) ck_assert_uint_eq(ranks[i], 255 - i);
    }
}
END_TEST

START_TEST(a_seed_replays_its_order_and_another_gives_another)
{
    uint32_t a[256], b[256], c[256];
    arrivals("random:11", a);
    arrivals("random:11", b);
    arrivals("random:12", c);
    ck_assert_mem_eq(a, b, sizeof a);
    ck_assert_mem_ne(a, c, sizeof a);
    unsigned in_order = 0, blocks = 0;
    for (unsigned i = 0; i < 255; i++) in_order += a[i] + 1 == a[i + 1];
    for (unsigned i = 0; i < 256; i++) blocks += a[i] / 64 == i / 64;
    ck_assert_uint_lt(in_order, 64);
    ck_assert_uint_lt(blocks, 256); /* blocks are shuffled as well */
}
END_TEST

START_TEST(a_launch_that_no_gpu_takes_is_refused_at_once)
{
    static const struct {
        uint32_t grid[3], block[3];
        uint64_t shared_bytes;
        int code;
    } rows[] = {
        {{1, 1, 1}, {1024, 1, 1}, 227 << 10, 0},
        {{1, 65535, 1}, {1, 1, 1}, 0, 0},
        {{0, 1, 1}, {32, 1, 1}, 0, IQ_CUDA_INVALID_CONFIGURATION},
        {{1, 1, 1}, {0, 1, 1}, 0, IQ_CUDA_INVALID_CONFIGURATION},
        {{1, 65536, 1}, {32, 1, 1}, 0, IQ_CUDA_INVALID_CONFIGURATION},
        {{0x80000000u, 1, 1}, {32, 1, 1}, 0, IQ_CUDA_INVALID_CONFIGURATION},
        {{1, 1, 1}, {1025, 1, 1}, 0, IQ_CUDA_INVALID_CONFIGURATION},
        {{1, 1, 1}, {32, 32, 2}, 0, IQ_CUDA_INVALID_CONFIGURATION},
        {{1, 1, 1}, {1, 1, 65}, 0, IQ_CUDA_INVALID_CONFIGURATION},
        {{1, 1, 1}, {65536, 65536, 1}, 0, IQ_CUDA_INVALID_CONFIGURATION},
        {{1, 1, 1}, {32, 1, 1}, (227 << 10) + 1, IQ_CUDA_INVALID_VALUE},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        shim_nothing(rows[i].grid, rows[i].block, rows[i].shared_bytes, stream);
        ck_assert_msg(api->last_error() == rows[i].code, "row %u", i);
        ck_assert_int_eq(api->stream_sync(stream), 0); /* nothing of it sticks */
    }
}
END_TEST

START_TEST(a_kernel_that_spins_is_a_finding_and_no_hang)
{
    if (_i && iq_shim_has_race_detector()) return; /* a second each */
    ck_assert_int_eq(iq_shim_schedule(schedules[_i], NULL), IQ_OK);
    shim_spin(device, stream);
    ck_assert_int_eq(api->stream_sync(stream), IQ_CUDA_LAUNCH_FAILED);
    ck_assert_ptr_nonnull(strstr(iq_shim_report(), "spin: block"));
}
END_TEST

START_TEST(division_by_zero_is_a_finding)
{
    shim_divide(device, 7, 0, stream);
    ck_assert_int_eq(api->stream_sync(stream), IQ_CUDA_LAUNCH_FAILED);
    ck_assert_ptr_nonnull(strstr(iq_shim_report(), "division by zero"));
}
END_TEST

/* The kernel's faults are the shim's; everybody else's stay whose they were. */
START_TEST(a_fault_outside_kernels_still_kills)
{
    shim_affine(device, WORDS, 1, 1, stream);
    fetch();
    raise(SIGSEGV);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shim_device");
    TCase *tests = tcase_create("device language");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, warp_operations_do_what_the_guide_says, 0, SCHEDULES);
    tcase_add_loop_test(tests, atomics_lose_nothing_under_any_schedule, 0, SCHEDULES);
    tcase_add_loop_test(tests, each_instantiation_of_a_template_has_its_own_shared_array, 0, SCHEDULES);
    tcase_add_loop_test(tests, grids_and_blocks_have_three_dimensions, 0, SCHEDULES);
    tcase_add_test(tests, a_schedule_orders_threads_and_blocks_as_it_says);
    tcase_add_test(tests, a_seed_replays_its_order_and_another_gives_another);
    tcase_add_test(tests, a_launch_that_no_gpu_takes_is_refused_at_once);
    tcase_add_loop_test(tests, a_kernel_that_spins_is_a_finding_and_no_hang, 0, SCHEDULES);
    tcase_add_test(tests, division_by_zero_is_a_finding);
#ifdef __SANITIZE_ADDRESS__ /* sanitizers report the fault and exit */
    tcase_add_exit_test(tests, a_fault_outside_kernels_still_kills, 1);
#elif defined __SANITIZE_THREAD__
    tcase_add_exit_test(tests, a_fault_outside_kernels_still_kills, 66);
#else
    tcase_add_test_raise_signal(tests, a_fault_outside_kernels_still_kills, SIGSEGV);
#endif
    suite_add_tcase(suite, tests);
    return check_main(suite);
}
