/* The real library, as far as it goes on this machine: found, its version, what needs no handle; and the ways in which it is
 * not there. */
#define _GNU_SOURCE /* dladdr */
#include "tests/check_main.h"

#include "kernels/cublas/algo.h"
#include "kernels/cublas/load.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct iq_cublas_api *api;

/* cublasLtCreate keeps 192 bytes where it fails. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libcublasLt\n"; }

START_TEST(the_library_is_found_in_a_version_that_we_know)
{
    int version = 0;
    ck_assert_int_eq(api->version(NULL, &version), 0);
    ck_assert_int_ge(version, 120000);
    ck_assert_uint_eq(api->lt_version(), (size_t)version);
    ck_assert(!api->shim);
    ck_assert_str_eq(api->status_name(15), "CUBLAS_STATUS_NOT_SUPPORTED");
}
END_TEST

START_TEST(descriptors_layouts_and_preferences_are_made_and_set)
{
    void *desc = NULL, *layout = NULL, *pref = NULL;
    int32_t transpose = IQ_CUBLAS_OP_T;
    uint64_t bytes = 32 << 20;
    for (unsigned t = 0; t < IQ_CUBLAS_TYPES; t++) {
        const struct iq_cublas_type *type = &iq_cublas_types[t];
        ck_assert_int_eq(api->desc_create(&desc, type->compute, IQ_CUBLAS_R_32F), 0);
        ck_assert_int_eq(api->desc_set(desc, IQ_CUBLAS_DESC_TRANSA, &transpose, sizeof transpose), 0);
        ck_assert_int_eq(api->desc_set(desc, IQ_CUBLAS_DESC_TRANSA, &transpose, 3), IQ_CUBLAS_INVALID_VALUE);
        ck_assert_int_eq(api->layout_create(&layout, type->data, 576, 1536, 576), 0);
        ck_assert_int_eq(api->layout_destroy(layout), 0);
        ck_assert_int_eq(api->desc_destroy(desc), 0);
    }
    ck_assert_int_eq(api->pref_create(&pref), 0);
    ck_assert_int_eq(api->pref_set(pref, IQ_CUBLAS_PREF_WORKSPACE, &bytes, sizeof bytes), 0);
    ck_assert_int_eq(api->pref_destroy(pref), 0);
}
END_TEST

START_TEST(without_a_gpu_a_handle_is_refused_in_one_sentence)
{
    void *handle = NULL, *lt = NULL;
    struct iq_err err = {0};
    int code = api->create(&handle), lt_code = api->lt_create(&lt);
    if (!code) { /* a GPU: nothing to show */
        ck_assert_int_eq(lt_code, 0);
        api->destroy(handle), api->lt_destroy(lt);
        return;
    }
    ck_assert_int_eq(code, IQ_CUBLAS_NOT_INITIALIZED);
    ck_assert_int_eq(lt_code, IQ_CUBLAS_NOT_INITIALIZED);
    ck_assert_int_eq(iq_cublas_check(api, code, "creating a handle (cublasCreate)", &err), IQ_UNSUPPORTED);
    ck_assert_str_eq(
        err.text,
        "cuBLAS: creating a handle (cublasCreate) failed with CUBLAS_STATUS_NOT_INITIALIZED (1), the library "
        "was not initialized; it needs a GPU and a driver that nvidia-smi shows; use golden's variant or a "
        "machine with a GPU");
}
END_TEST

START_TEST(asking_for_algorithms_without_a_handle_is_refused)
{
    int ids[8], found = 0;
    struct iq_cublas_blob blob;
    ck_assert_int_eq(api->algo_ids(NULL, IQ_CUBLAS_COMPUTE_32F, IQ_CUBLAS_R_32F, IQ_CUBLAS_R_16BF,
                                   IQ_CUBLAS_R_16BF, IQ_CUBLAS_R_32F, IQ_CUBLAS_R_32F, 8, ids, &found),
                     IQ_CUBLAS_NOT_INITIALIZED);
    ck_assert_int_eq(api->algo_init(NULL, IQ_CUBLAS_COMPUTE_32F, IQ_CUBLAS_R_32F, IQ_CUBLAS_R_16BF,
                                    IQ_CUBLAS_R_16BF, IQ_CUBLAS_R_32F, IQ_CUBLAS_R_32F, 0, &blob),
                     IQ_CUBLAS_NOT_INITIALIZED);
}
END_TEST

/* ---- without it ---- */

static char dir[] = "/tmp/iq-cublas-XXXXXX";

static void load_from(const char *folder, struct iq_err *err)
{
    struct iq_cublas_api table;
    char *at[1] = {(char *)folder};
    const struct iq_cuda_folders folders = {at, 1, 1};
    ck_assert_int_eq(iq__cublas_load(&folders, &table, err), IQ_UNSUPPORTED);
}

static void put(const char *name, const char *text, const char *link)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (link) {
        ck_assert_int_eq(symlink(link, path), 0);
        return;
    }
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static void drop(const char *name)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    unlink(path);
}

START_TEST(a_library_that_is_nowhere_is_a_sentence_with_what_to_install)
{
    struct iq_err err = {0};
    load_from("/nonexistent", &err);
    ck_assert_str_eq(
        err.text,
        "libcublas.so.13 and .12 were not found by the loader, under CUDA_HOME, /usr/local/cuda or in "
        "python3's site-packages (1 folders); pip install nvidia-cublas, or add their folder to "
        "LD_LIBRARY_PATH");
}
END_TEST

START_TEST(a_file_that_is_no_library_is_named_with_the_loaders_reason)
{
    struct iq_err err = {0};
    ck_assert_ptr_nonnull(mkdtemp(dir));
    put("libcublasLt.so.13", "not a library", NULL);
    load_from(dir, &err);
    drop("libcublasLt.so.13"), rmdir(dir);
    ck_assert_msg(strstr(err.text, "cuBLAS is there but the loader can't open it: /tmp/iq-cublas-") ==
                      err.text,
                  "%s", err.text);
    ck_assert_ptr_nonnull(strstr(err.text, "pip install nvidia-cublas"));
}
END_TEST

START_TEST(a_library_without_the_functions_is_named_with_the_first_that_lacks)
{
    struct iq_err err = {0};
    Dl_info info;
    ck_assert_int_ne(dladdr((void *)(uintptr_t)&cos, &info), 0); /* any library will do */
    ck_assert_ptr_nonnull(mkdtemp(dir));
    put("libcublasLt.so.12", NULL, info.dli_fname), put("libcublas.so.12", NULL, info.dli_fname);
    load_from(dir, &err);
    drop("libcublasLt.so.12"), drop("libcublas.so.12"), rmdir(dir);
    ck_assert_msg(strstr(err.text,
                         "libcublas.so.12 has no function cublasCreate_v2, so it is not the cuBLAS that its "
                         "name says; remove it, or put the right one's folder first in LD_LIBRARY_PATH"),
                  "%s", err.text);
}
END_TEST

START_TEST(wheels_of_an_environment_are_searched)
{
    struct iq_cuda_folders f;
    struct iq_err err = {0};
    char path[300], want[300];
    bool seen = false;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    static const char *const deep[] = {"lib",
                                       "lib/python3.99",
                                       "lib/python3.99/site-packages",
                                       "lib/python3.99/site-packages/nvidia",
                                       "lib/python3.99/site-packages/nvidia/cu13",
                                       "lib/python3.99/site-packages/nvidia/cu13/lib"};
    enum { DEEP = sizeof deep / sizeof *deep };
    for (int i = 0; i < DEEP; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, deep[i]);
        ck_assert_int_eq(mkdir(path, 0700), 0);
    }
    snprintf(want, sizeof want, "%s", path);
    setenv("VIRTUAL_ENV", dir, 1);
    ck_assert_msg(!iq_cuda_folders("cublas", &f, &err), "%s", err.text);
    for (size_t i = 0; i < f.n; i++) seen |= !strcmp(f.at[i], want);
    ck_assert_str_eq(f.at[0], "");
    iq_cuda_folders_free(&f);
    for (int i = DEEP; i--;) {
        snprintf(path, sizeof path, "%s/%s", dir, deep[i]);
        rmdir(path);
    }
    rmdir(dir);
    ck_assert_msg(seen, "%s was not among the folders", want);
}
END_TEST

int main(void)
{
    struct iq_err err = {0};
    bool there = !iq_cublas_api(&api, &err);
    Suite *s = suite_create("cublas library");
    TCase *t = tcase_create("library");
    if (there) {
        tcase_add_test(t, the_library_is_found_in_a_version_that_we_know);
        tcase_add_test(t, descriptors_layouts_and_preferences_are_made_and_set);
        tcase_add_test(t, without_a_gpu_a_handle_is_refused_in_one_sentence);
        tcase_add_test(t, asking_for_algorithms_without_a_handle_is_refused);
    }
    tcase_add_test(t, a_library_that_is_nowhere_is_a_sentence_with_what_to_install);
    tcase_add_test(t, a_file_that_is_no_library_is_named_with_the_loaders_reason);
    tcase_add_test(t, a_library_without_the_functions_is_named_with_the_first_that_lacks);
    tcase_add_test(t, wheels_of_an_environment_are_searched);
    suite_add_tcase(s, t);
    int failed = check_main(s);
    if (there || failed) return failed;
    printf("what needs the library was skipped: %s\n", err.text);
    return 77;
}
