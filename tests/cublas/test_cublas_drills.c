/* What can go wrong with the library on a machine: each is one sentence with what to do, and the device works on. */
#include "tests/check_main.h"
#include "tests/cublas/cublas_case.h"
#include "tests/cublas/fake.h"

static float x[4 * 96];
static struct product p;
static char path[1024];

static void setup(void)
{
    struct random r = {0xa00, 0};
    uint8_t *raw = random_rows(&r, IQ_F32, 64, 96, 0);
    snprintf(path, sizeof path, "%s/cublas/made.json", getenv("IQ_TEST_DATA"));
    iq_cublas_replace(fake_open(path));
    cuda_open();
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = 1.0f;
    product_open(&p, 4, packed(IQ_F32, 64, 96, IQ_UNIT, raw), x);
    free(raw);
}

static void teardown(void)
{
    free((void *)p.host.data);
    iq_shim_reset();
    cuda_close();
    ck_assert_int_eq(fake_live(), 0);
    fake_close();
}

/* The status of a product by `name`, whose sentence has to say all of `says` and be one. */
static void fails(struct chosen *c, int status, const char *says)
{
    float *y = device_room(4 * 64 * sizeof *y);
    struct iq_matmul m = product_args(&p, 4, y);
    ck_assert_int_eq(c->v->run(&on_device, NULL, &m, c->params, NULL), status);
    ck_assert_str_eq(cuda->err.text, says);
}

/* The next run works. */
static void works(void)
{
    struct chosen c = chosen("cublaslt", IQ_CUBLAS_BF16);
    free(product_run(&p, &c, 4));
}

static const struct {
    const char *variant, *field;
    int code, status;
    const char *says;
} drills[] = {
    {"cublas", "create", 1, IQ_UNSUPPORTED,
     "cuBLAS: creating a handle (cublasCreate) failed with CUBLAS_STATUS_NOT_INITIALIZED (1), the library "
     "was not initialized; it needs a GPU and a driver that nvidia-smi shows; use golden's variant or a "
     "machine with a GPU"},
    {"cublaslt", "create", 3, IQ_MEMORY,
     "cuBLAS: creating a handle (cublasCreate) failed with CUBLAS_STATUS_ALLOC_FAILED (3), the resource "
     "allocation failed; fewer KV blocks or a smaller batch leave more device memory to it"},
    {"cublaslt", "lt_create", 1, IQ_UNSUPPORTED,
     "cuBLAS: creating a handle (cublasLtCreate) failed with CUBLAS_STATUS_NOT_INITIALIZED (1), the library "
     "was not initialized; it needs a GPU and a driver that nvidia-smi shows; use golden's variant or a "
     "machine with a GPU"},
    {"cublaslt", "matmul", 13, IQ_INTERNAL,
     "cuBLAS: multiplying (cublasLtMatmul) failed with CUBLAS_STATUS_EXECUTION_FAILED (13), the function "
     "failed to launch on the GPU; an earlier kernel may have broken the device: run this variant alone, "
     "then under compute-sanitizer"},
    {"cublaslt", "matmul", 14, IQ_INTERNAL,
     "cuBLAS: multiplying (cublasLtMatmul) failed with CUBLAS_STATUS_INTERNAL_ERROR (14), an internal "
     "operation failed; the library gives no reason: try another algorithm (parameter choice), then another "
     "version of it"},
    {"cublaslt", "matmul", 15, IQ_UNSUPPORTED,
     "cuBLAS: multiplying (cublasLtMatmul) failed with CUBLAS_STATUS_NOT_SUPPORTED (15), the requested "
     "functionality is not supported; take another type, choice or pinned algorithm"},
    {"cublas", "gemm", 14, IQ_INTERNAL,
     "cuBLAS: multiplying (cublasGemmEx) failed with CUBLAS_STATUS_INTERNAL_ERROR (14), an internal "
     "operation failed; the library gives no reason: try another algorithm (parameter choice), then another "
     "version of it"},
    {"cublaslt", "heuristic", 7, IQ_INTERNAL,
     "cuBLAS: asking for algorithms (cublasLtMatmulAlgoGetHeuristic) failed with CUBLAS_STATUS_INVALID_VALUE "
     "(7), an unsupported value or parameter was passed to the function; this is a bug in inquest"},
};

START_TEST(a_failing_call_is_one_sentence_and_the_next_run_works)
{
    struct chosen c = chosen(drills[_i].variant, IQ_CUBLAS_BF16);
    fake_fail(drills[_i].field, 1, drills[_i].code);
    fails(&c, drills[_i].status, drills[_i].says);
    works();
}
END_TEST

/* Each call of the library that a product makes, failing in turn, gives an error and leaves nothing behind. */
START_TEST(any_failing_call_is_an_error_and_loses_nothing)
{
    static const char *const fields[] = {"version",       "create",      "set_stream",  "set_workspace",
                                         "set_math_mode", "lt_create",   "desc_create", "desc_set",
                                         "layout_create", "pref_create", "pref_set",    "heuristic",
                                         "algo_get",      "matmul"};
    struct chosen c = chosen("cublaslt", IQ_CUBLAS_BF16);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        for (unsigned nth = 1; nth <= 3; nth++) {
            float *y = device_room(4 * 64 * sizeof *y);
            struct iq_matmul m = product_args(&p, 4, y);
            unsigned before = fake_calls(fields[i]);
            iq_cublas_close(cuda);
            fake_fail(fields[i], nth, IQ_CUBLAS_INTERNAL_ERROR);
            int status = c.v->run(&on_device, NULL, &m, c.params, NULL);
            bool reached = fake_calls(fields[i]) - before >= nth;
            ck_assert_msg(status == (reached ? IQ_INTERNAL : IQ_OK), "%s, call %u: %s", fields[i], nth,
                          cuda->err.text);
            fake_fail(fields[i], 0, 0);
        }
    works();
}
END_TEST

START_TEST(a_library_before_12_is_refused)
{
    struct chosen c = chosen("cublas", IQ_CUBLAS_BF16);
    fake_versions(111103, 111103);
    fails(&c, IQ_UNSUPPORTED,
          "cuBLAS is version 11.11, expected 12.0 or later; pip install nvidia-cublas, or a newer CUDA "
          "toolkit");
    fake_versions(130100, 111103);
    fails(&c, IQ_UNSUPPORTED,
          "cuBLASLt is version 11.11, expected 12.0 or later; pip install nvidia-cublas, or a newer CUDA "
          "toolkit");
    fake_versions(130100, 130100);
    works();
}
END_TEST

START_TEST(no_memory_for_the_workspace_is_a_sentence)
{
    struct chosen c = chosen("cublas", IQ_CUBLAS_BF16);
    struct iq_err err = {0};
    ck_assert_int_eq(iq_shim_fail("malloc", 2, IQ_CUDA_NO_MEMORY, &err), IQ_OK); /* the first is y's */
    fails(&c, IQ_MEMORY,
          "the workspace of cuBLAS (32 MiB): cuda-shim: allocating device memory failed with "
          "cudaErrorMemoryAllocation (2), out of memory; fewer KV blocks or a smaller batch need less device "
          "memory");
    works();
}
END_TEST

START_TEST(a_choice_past_the_list_is_refused_with_how_many_there_are)
{
    struct chosen c = chosen("cublaslt", IQ_CUBLAS_BF16);
    choose(&c, "choice", 2);
    fails(&c, IQ_UNSUPPORTED,
          "cuBLAS offers 2 algorithms for 4 rows, n 64, k 96 in bf16, so there is no choice 2; take a "
          "smaller one, or another type");
}
END_TEST

START_TEST(a_pinned_algorithm_that_the_library_lacks_is_refused)
{
    struct chosen c = chosen("cublaslt", IQ_CUBLAS_FP16);
    choose(&c, "algo", 66);
    fails(&c, IQ_UNSUPPORTED,
          "cuBLAS: taking algorithm 66 for fp16 failed with CUBLAS_STATUS_INVALID_VALUE (7), an unsupported "
          "value or parameter was passed to the function; this version of it has no such algorithm here; pin "
          "one that a run on this machine has recorded");
}
END_TEST

START_TEST(a_pinned_algorithm_with_settings_that_it_lacks_is_refused)
{
    struct chosen c = chosen("cublaslt", IQ_CUBLAS_FP16);
    choose(&c, "algo", 6), choose(&c, "tile", 23), choose(&c, "stages", 8);
    fails(&c, IQ_UNSUPPORTED,
          "cuBLAS: checking "
          "algo=6,tile=23,stages=8,split_k=1,reduction=0,swizzle=0,custom=0,inner=0,cluster=0 for 4 "
          "rows, n 64, k 96 failed with CUBLAS_STATUS_INVALID_VALUE (7), an unsupported value or parameter "
          "was passed to the function; this version of it has no such algorithm here; pin one that a run on "
          "this machine has recorded");
}
END_TEST

START_TEST(the_real_library_is_refused_on_the_shim)
{
    const struct iq_cublas_api *fake;
    struct iq_cublas_api real;
    struct chosen c = chosen("cublas", IQ_CUBLAS_BF16);
    ck_assert_int_eq(iq_cublas_api(&fake, NULL), IQ_OK);
    real = *fake;
    real.shim = false;
    iq_cublas_replace(&real);
    fails(&c, IQ_UNSUPPORTED,
          "cuBLAS can't reach the memory of the CUDA shim, which is the CPU's; use --device cuda on a "
          "machine with a GPU");
    iq_cublas_replace(fake);
    works();
}
END_TEST

int main(void)
{
    if (device_open() || iq_kernels_register(NULL)) return 1;
    Suite *s = suite_create("cublas drills");
    TCase *t = tcase_create("drills");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, a_failing_call_is_one_sentence_and_the_next_run_works, 0,
                        sizeof drills / sizeof *drills);
    tcase_add_test(t, any_failing_call_is_an_error_and_loses_nothing);
    tcase_add_test(t, a_library_before_12_is_refused);
    tcase_add_test(t, no_memory_for_the_workspace_is_a_sentence);
    tcase_add_test(t, a_choice_past_the_list_is_refused_with_how_many_there_are);
    tcase_add_test(t, a_pinned_algorithm_that_the_library_lacks_is_refused);
    tcase_add_test(t, a_pinned_algorithm_with_settings_that_it_lacks_is_refused);
    tcase_add_test(t, the_real_library_is_refused_on_the_shim);
    suite_add_tcase(s, t);
    return check_main(s);
}
