/* What fails around NCCL, one call at a time; and the real library as far as it goes without a GPU. */
#include "tests/check_main.h"
#include "tests/nccl/nccl_rig.h"

#include <fcntl.h>
#include <unistd.h>

static struct call *call;
static const struct iq_nccl_options plain = {0}, scatter = {.scatter = true}, channels = {.channels = 2};

static void setup(void)
{
    uint64_t seed = 11;
    rig_devices(4);
    call = call_open(&seed, 4, IQ_ACT_F32, true);
    call_output(call);
}

static void close_all(void)
{
    call_close(call);
    rig_close();
}

static void expect(int status, int wanted, const char *words)
{
    ck_assert_msg(status == wanted, "found %s, expected %s: %s", iq_status_text(status),
                  iq_status_text(wanted), cuda->err.text);
    ck_assert_msg(strstr(cuda->err.text, words), "'%s' is not in: %s", words, cuda->err.text);
    ck_assert_msg(!strchr(cuda->err.text, '\n'), "more than a sentence: %s", cuda->err.text);
}

/* After any failure the next call opens communicators of its own and works. */
static void expect_recovery(void)
{
    fake_fail("", 0, 0);
    fake_async(0);
    OK(iq_nccl_all_reduce(&exec, &call->a, &plain, NULL));
    call_expect_golden(call, 11, "after a failure");
    OK(iq_nccl_gather(&exec, &call->a, false));
    call_expect_golden(call, 11, "after a failure");
}

static const struct {
    const char *function;
    int nth, code, status;
    const struct iq_nccl_options *options; /* NULL: the gather */
    const char *words;
} drills[] = {
    {"comm_init_all", 1, IQ_NCCL_CUDA_ERROR, IQ_UNSUPPORTED, &plain, "opening 4 communicators failed"},
    {"comm_init_all", 1, IQ_NCCL_INVALID_USAGE, IQ_UNSUPPORTED, &plain, "each rank needs a GPU of its own"},
    {"comm_init_all", 1, IQ_NCCL_SYSTEM_ERROR, IQ_IO, NULL, "what NCCL said; "},
    {"unique_id", 1, IQ_NCCL_SYSTEM_ERROR, IQ_IO, &channels, "opening 4 communicators failed"},
    {"comm_init_rank", 3, IQ_NCCL_CUDA_ERROR, IQ_UNSUPPORTED, &channels, "opening 4 communicators failed"},
    {"group_start", 1, IQ_NCCL_INTERNAL_ERROR, IQ_INTERNAL, &plain, "an all-reduce failed"},
    {"all_reduce", 1, IQ_NCCL_CUDA_ERROR, IQ_UNSUPPORTED, &plain, "what the rank said; "},
    {"all_reduce", 3, IQ_NCCL_INVALID_ARGUMENT, IQ_INTERNAL, &plain, "a bug in inquest"},
    {"all_reduce", 4, IQ_NCCL_REMOTE_ERROR, IQ_CRASHED, &plain, "another rank failed first"},
    {"all_reduce", 2, 99, IQ_INTERNAL, &plain, "(99)"},
    {"group_end", 1, IQ_NCCL_CUDA_ERROR, IQ_UNSUPPORTED, &plain, "an all-reduce failed"},
    {"reduce_scatter", 2, IQ_NCCL_CUDA_ERROR, IQ_UNSUPPORTED, &scatter, "a reduce-scatter failed"},
    {"all_gather", 2, IQ_NCCL_CUDA_ERROR, IQ_UNSUPPORTED, &scatter, "an all-gather failed"},
    {"group_end", 2, IQ_NCCL_CUDA_ERROR, IQ_UNSUPPORTED, &scatter, "an all-gather failed"},
    {"send", 2, IQ_NCCL_CUDA_ERROR, IQ_UNSUPPORTED, NULL, "a gather failed"},
    {"recv", 3, IQ_NCCL_CUDA_ERROR, IQ_UNSUPPORTED, NULL, "a gather failed"},
};
enum { DRILLS = sizeof drills / sizeof drills[0] };

START_TEST(each_failure_of_nccl_is_a_sentence_and_the_next_call_works)
{
    fake_fail(drills[_i].function, drills[_i].nth, drills[_i].code);
    int status = drills[_i].options ? iq_nccl_all_reduce(&exec, &call->a, drills[_i].options, NULL)
                                    : iq_nccl_gather(&exec, &call->a, false);
    expect(status, drills[_i].status, drills[_i].words);
    expect_recovery();
    close_all();
}
END_TEST

START_TEST(an_asynchronous_error_is_met_at_the_check_and_at_the_next_call)
{
    for (int by_check = 0; by_check < 2; by_check++) {
        OK(iq_nccl_all_reduce(&exec, &call->a, &plain, NULL));
        OK(iq_nccl_check(cuda));
        fake_async(IQ_NCCL_REMOTE_ERROR);
        int status = by_check ? iq_nccl_check(cuda) : iq_nccl_all_reduce(&exec, &call->a, &plain, NULL);
        expect(status, IQ_CRASHED, "a collective that was queued before failed");
        fake_async(0);
        int opened = fake_facts().opened, aborted = fake_facts().aborted;
        expect_recovery();
        ck_assert_int_eq(fake_facts().opened, opened + 4);
        ck_assert_int_eq(fake_facts().aborted, aborted + 4);
    }
    close_all();
}
END_TEST

/* Every call of the runtime that the collective makes, failing in turn: a sentence each time, and nothing is left behind. */
START_TEST(each_failure_of_cuda_is_a_sentence_and_the_next_call_works)
{
    static const char *const calls[] = {"device_count", "device_current", "device_use",
                                        "event_create", "stream_create",  "malloc",
                                        "memcpy_async", "memset_async",   "event_record",
                                        "stream_wait",  "launch",         "stream_capturing"};
    unsigned failures = 0;
    for (size_t f = 0; f < sizeof calls / sizeof calls[0]; f++)
        for (uint64_t nth = 1;; nth++) {
            struct iq_err err = {0};
            iq_nccl_close(cuda);
            iq_shim_reset();
            ck_assert_int_eq(iq_shim_fail(calls[f], nth, IQ_CUDA_NO_MEMORY, &err), IQ_OK);
            int status = iq_nccl_all_reduce(&exec, &call->a, f == 7 ? &scatter : &plain, NULL);
            iq_shim_reset();
            if (status == IQ_OK) break;
            ck_assert_msg(strstr(cuda->err.text, "cudaErrorMemoryAllocation") ||
                              strstr(cuda->err.text, "failed with an error (1)"), /* inside the library */
                          "%s", cuda->err.text);
            failures++;
            expect_recovery();
        }
    ck_assert_uint_gt(failures, 20);
    close_all();
}
END_TEST

START_TEST(more_ranks_than_gpus_are_refused_in_one_sentence)
{
    iq_shim_devices(3);
    expect(iq_nccl_all_reduce(&exec, &call->a, &plain, NULL), IQ_UNSUPPORTED,
           "4 ranks need 4 GPUs and this machine has 3, as NCCL refuses two ranks on one; use --tp 3");
    expect(iq_nccl_gather(&exec, &call->a, false), IQ_UNSUPPORTED, "--tp 3");
    iq_shim_devices(4);
    expect_recovery();
    close_all();
}
END_TEST

START_TEST(the_real_library_does_not_work_on_the_shim)
{
    static struct iq_nccl_api real;
    real = fake_nccl;
    real.shim = false;
    iq_nccl_use(&real);
    expect(iq_nccl_all_reduce(&exec, &call->a, &plain, NULL), IQ_UNSUPPORTED, "use --device cuda");
    iq_nccl_use(&fake_nccl);
    expect_recovery();
    close_all();
}
END_TEST

START_TEST(pieces_that_are_no_call_are_refused)
{
    struct iq_all_reduce a = call->a;
    a.pieces = 0;
    expect(iq_nccl_all_reduce(&exec, &a, &plain, NULL), IQ_SHAPE, "found 0 pieces");
    a = call->a;
    a.rows = a.n = UINT32_MAX;
    expect(iq_nccl_gather(&exec, &a, false), IQ_LIMIT, "more than memory has");
    a = call->a;
    a.units++; /* the pieces are no nodes of this tree */
    expect(iq_nccl_gather(&exec, &a, false), IQ_SHAPE, "golden's tree");
    close_all();
}
END_TEST

/* The device knows them: its synchronization asks, and closing it closes them. */
START_TEST(communicators_live_as_long_as_their_device)
{
    OK(iq_nccl_gather(&exec, &call->a, false));
    fake_async(IQ_NCCL_REMOTE_ERROR);
    expect(iq_cuda_sync(cuda, "a step"), IQ_CRASHED, "a collective that was queued before failed");
    fake_async(0);
    OK(iq_cuda_sync(cuda, "a step"));
    expect_recovery();
    ck_assert_int_eq(fake_facts().open, 4); /* the sum's and the gather's are the same */
    call_close(call);
    device_release();
    iq_cuda_close(cuda);
    ck_assert_int_eq(fake_facts().open, 0);
    ck_assert_msg(!iq_shim_findings(), "%s", iq_shim_report());
}
END_TEST

/* A kernel that crashed before: what follows is refused, closing is safe, and a new process (here a reset) works. */
START_TEST(a_lost_device_is_closed_safely)
{
    struct iq_err err = {0};
    OK(iq_nccl_all_reduce(&exec, &call->a, &plain, NULL));
    ck_assert_int_eq(iq_shim_fail("stream_sync", 1, IQ_CUDA_ILLEGAL_ADDRESS, &err), IQ_OK);
    ck_assert_int_eq(cuda->api->stream_sync(cuda->stream), IQ_CUDA_ILLEGAL_ADDRESS);
    expect(iq_nccl_all_reduce(&exec, &call->a, &plain, NULL), IQ_CRASHED, "the device is lost");
    iq_nccl_close(cuda);
    ck_assert_int_eq(fake_facts().open, 0);
    ck_assert_int_eq(fake_facts().aborted, 4);
    iq_shim_reset();
    expect_recovery();
    close_all();
}
END_TEST

START_TEST(a_listing_says_what_is_there)
{
    char text[300];
    struct iq_err err = {0};
    ck_assert_int_eq(iq_nccl_describe(2, text, sizeof text, &err), IQ_OK);
    ck_assert_str_eq(
        text, "NCCL 2.28.9 (fake): at most 2 ranks on these GPUs; two ranks on one GPU are not possible");
    ck_assert_int_eq(iq_nccl_describe(1, text, sizeof text, &err), IQ_OK);
    ck_assert_ptr_nonnull(strstr(text, "at most 1 rank on the one GPU"));
    ck_assert_int_eq(iq_nccl_describe(0, text, sizeof text, &err), IQ_OK);
    ck_assert_ptr_nonnull(strstr(text, "no GPU, so no communicator"));
    fake_fail("version", 1, IQ_NCCL_INTERNAL_ERROR);
    ck_assert_int_eq(iq_nccl_describe(-1, text, sizeof text, &err), IQ_INTERNAL);
    ck_assert_str_eq(text, "");
    close_all();
}
END_TEST

/* ---- the library itself ---- */

/* NCCL leaves some of its own behind. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libnccl\n"; }

START_TEST(the_library_is_there_or_is_missed_in_one_sentence)
{
    const struct iq_nccl_api *api;
    struct iq_err err = {0};
    iq_nccl_use(NULL);
    int status = iq_nccl_api(&api, &err);
    if (status) {
        printf("no NCCL here: its own answers are not tested\n");
        ck_assert_int_eq(status, IQ_UNSUPPORTED);
        ck_assert_ptr_null(api);
        ck_assert_ptr_nonnull(strstr(err.text, "libnccl2"));
        return;
    }
    int version = 0;
    struct iq_nccl_id id = {0};
    char text[300];
    ck_assert_int_eq(api->version(&version), 0);
    ck_assert_int_ge(version, 21700);
    ck_assert_int_eq(api->group_start(), 0);
    ck_assert_int_eq(api->group_end(), 0);
    ck_assert_int_eq(iq_nccl_describe(0, text, sizeof text, &err), IQ_OK);
    ck_assert_ptr_nonnull(strstr(text, api->name));
    if (api->unique_id(&id) == 0) {
        int set = 0;
        for (size_t i = 0; i < sizeof id; i++) set |= id.bytes[i];
        ck_assert_int_ne(set, 0);
    }
}
END_TEST

/* As in this process's doctor and in a run without a driver: at once, and without a crash. */
START_TEST(without_a_gpu_the_library_opens_no_communicator)
{
    const struct iq_nccl_api *api;
    struct iq_err err = {0};
    void *comm[2] = {0};
    const int device[2] = {0, 0};
    iq_nccl_use(NULL);
    if (iq_nccl_api(&api, &err)) return;
    int code = api->comm_init_all(comm, 2, device); /* two on one: fails on every machine */
    ck_assert_int_ne(code, 0);
    ck_assert_int_eq(iq_nccl_check_code(api, code, NULL, "opening 2 communicators", &err), IQ_UNSUPPORTED);
    ck_assert_msg(strstr(err.text, "NCCL: opening 2 communicators failed with ") == err.text, "%s", err.text);
    ck_assert_msg(!strchr(err.text, '\n'), "more than a sentence: %s", err.text);
}
END_TEST

/* In a root that holds nothing, where the test may make one: as on a machine without the library. */
START_TEST(a_machine_without_the_library_gets_one_sentence)
{
    const struct iq_nccl_api *api;
    struct iq_err err = {0};
    char found[300], dir[] = "/tmp/iq-nccl-XXXXXX", text[10];
    iq_nccl_use(NULL);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    int root = open("/", O_RDONLY | O_DIRECTORY);
    ck_assert_int_eq(chdir(dir), 0);
    ck_assert_int_eq(rmdir(dir), 0);
    if (chroot(".")) {
        printf("no right to change the root: the missing library is not tested\n");
        return;
    }
    ck_assert_ptr_null(iq__nccl_library(found, sizeof found));
    ck_assert_ptr_nonnull(strstr(found, "libnccl.so.2"));
    ck_assert_int_eq(iq_nccl_api(&api, &err), IQ_UNSUPPORTED);
    ck_assert_ptr_null(api);
    ck_assert_ptr_nonnull(strstr(err.text, "pip install nvidia-nccl"));
    ck_assert_int_eq(iq_nccl_describe(0, text, sizeof text, &err), IQ_UNSUPPORTED);
    ck_assert_str_eq(text, "");
    setup();
    iq_nccl_use(NULL);
    expect(iq_nccl_all_reduce(&exec, &call->a, &plain, NULL), IQ_UNSUPPORTED,
           "no libnccl.so.2 for the loader");
    iq_nccl_use(&fake_nccl);
    expect_recovery();
    close_all();
    ck_assert(!fchdir(root) && !chroot(".") && !close(root)); /* sanitizers need /proc at the end */
}
END_TEST

/* Where it is, it is named by its path. */
START_TEST(the_library_is_found_where_it_is)
{
    char found[300];
    void *lib = iq__nccl_library(found, sizeof found);
    ck_assert_msg(!lib || (*found == '/' && access(found, R_OK) == 0), "%s", found);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("nccl_drills");
    TCase *tests = tcase_create("drills"), *real = tcase_create("library");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_loop_test(tests, each_failure_of_nccl_is_a_sentence_and_the_next_call_works, 0, DRILLS);
    tcase_add_test(tests, an_asynchronous_error_is_met_at_the_check_and_at_the_next_call);
    tcase_add_test(tests, each_failure_of_cuda_is_a_sentence_and_the_next_call_works);
    tcase_add_test(tests, more_ranks_than_gpus_are_refused_in_one_sentence);
    tcase_add_test(tests, the_real_library_does_not_work_on_the_shim);
    tcase_add_test(tests, pieces_that_are_no_call_are_refused);
    tcase_add_test(tests, communicators_live_as_long_as_their_device);
    tcase_add_test(tests, a_lost_device_is_closed_safely);
    tcase_add_test(tests, a_listing_says_what_is_there);
    suite_add_tcase(suite, tests);
    tcase_add_test(real, the_library_is_there_or_is_missed_in_one_sentence);
    tcase_add_test(real, without_a_gpu_the_library_opens_no_communicator);
    tcase_add_test(real, a_machine_without_the_library_gets_one_sentence);
    tcase_add_test(real, the_library_is_found_where_it_is);
    suite_add_tcase(suite, real);
    return check_main(suite);
}
