/* Checkpoints: continued to the bit, whole or not at all, and hostile ones refused with a sentence. */
#include "kernels/base/sha256.h"
#include "tests/check_main.h"
#include "tests/train/rig.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/train-XXXXXX", path[64], part[72];

static void make_folder(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/run.ckpt", folder);
    snprintf(part, sizeof part, "%s.part", path);
}

static void remove_folder(void)
{
    unlink(path);
    unlink(part);
    rmdir(folder);
}

static struct iq_train_recipe small(void)
{
    struct iq_train_recipe c = rig_recipe();
    c.dropout = 0.1;
    return c;
}

START_TEST(three_steps_and_three_after_reloading_are_six)
{
    struct iq_train_recipe c = _i ? rig_experts() : small();
    struct iq_train_options plain = {0}, other = {.threads = 2, .data_parallel = 4, .micro = 2};
    struct iq_digest want = rig_train(&c, plain, 6);
    struct iq_train *t = rig_open(&c, plain);
    rig_run(t, 0, 3);
    rig_check_ok(iq_train_save(t, path, &err));
    iq_train_close(t);
    rig_check_ok(iq_train_load(path, &other, &t, &err));
    ck_assert_uint_eq(iq_train_steps_done(t), 3);
    rig_run(t, 3, 6);
    ck_assert(iq_digest_equal(iq_train_digest(t), want));
    iq_train_close(t);
    ck_assert_int_ne(access(part, F_OK), 0);
}
END_TEST

/* The child saves without pause, step after step, and dies at a moment of the clock's choice. */
START_TEST(a_kill_leaves_a_checkpoint_that_loads_and_continues_to_the_bit)
{
    struct iq_train_recipe c = small();
    struct iq_train *t = rig_open(&c, (struct iq_train_options){0});
    rig_check_ok(iq_train_save(t, path, &err));
    for (int round = 0; round < 6; round++) {
        pid_t child = fork();
        if (child == 0) {
            for (uint32_t step = 0;; step++) {
                rig_run(t, step, step + 1);
                if (iq_train_save(t, path, NULL) != IQ_OK) _exit(1);
            }
        }
        usleep(20000 + 17000 * (useconds_t)round);
        kill(child, SIGKILL);
        int status;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFSIGNALED(status));
        struct iq_train *again;
        rig_check_ok(iq_train_load(path, NULL, &again, &err));
        uint32_t done = iq_train_steps_done(again);
        rig_run(again, done, done + 1);
        struct iq_digest want = rig_train(&c, (struct iq_train_options){0}, done + 1);
        ck_assert(iq_digest_equal(iq_train_digest(again), want));
        iq_train_close(again);
    }
    iq_train_close(t);
}
END_TEST

START_TEST(a_write_that_fails_is_told_and_leaves_the_last_checkpoint)
{
    struct iq_train_recipe c = small();
    struct iq_train *t = rig_open(&c, (struct iq_train_options){0});
    struct iq_err err = {0};
    char before[IQ_SHA256_HEX], after[IQ_SHA256_HEX];
    rig_check_ok(iq_train_save(t, path, &err));
    rig_check_ok(iq_sha256_file(path, before, &err));
    rig_run(t, 0, 1);
    struct rlimit old, limit = {5000, 5000};
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
    limit.rlim_max = old.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    int rc = iq_train_save(t, path, &err);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
    ck_assert_int_eq(rc, IQ_FULL);
    ck_assert_ptr_nonnull(strstr(err.text, "cannot write"));
    rig_check_ok(iq_sha256_file(path, after, &err));
    ck_assert_str_eq(before, after);
    ck_assert_int_ne(access(part, F_OK), 0);
    ck_assert_int_eq(iq_train_save(t, "/nowhere/at/all", &err), IQ_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "/nowhere/at/all.part: cannot create"));
    iq_train_close(t);
}
END_TEST

/* ---- hostile files ---- */

static unsigned char *file;
static size_t size;

static void read_checkpoint(void)
{
    struct iq_train_recipe c = small();
    struct iq_train *t = rig_open(&c, (struct iq_train_options){0});
    rig_check_ok(iq_train_save(t, path, &err));
    iq_train_close(t);
    struct stat st;
    ck_assert_int_eq(stat(path, &st), 0);
    size = (size_t)st.st_size;
    file = malloc(size);
    FILE *f = fopen(path, "rb");
    ck_assert(fread(file, 1, size, f) == size);
    fclose(f);
}

static int load_bytes(const unsigned char *bytes, size_t n, struct iq_err *err)
{
    struct iq_train *t;
    FILE *f = fopen(path, "wb");
    ck_assert(fwrite(bytes, 1, n, f) == n);
    fclose(f);
    int rc = iq_train_load(path, NULL, &t, err);
    ck_assert((rc == IQ_OK) == (t != NULL));
    iq_train_close(t);
    if (rc != IQ_OK)
        ck_assert_msg(strstr(err->text, path) == err->text, "the file is not named: %s", err->text);
    return rc;
}

START_TEST(cut_off_files_are_refused)
{
    struct iq_err err = {0};
    read_checkpoint();
    for (size_t n = 0; n < size; n += n < 400 ? 1 : size / 50) {
        ck_assert_int_eq(load_bytes(file, n, &err), IQ_FORMAT);
        ck_assert_ptr_nonnull(strstr(err.text, "bytes, expected"));
    }
    file = realloc(file, size + 1);
    file[size] = 0;
    ck_assert_int_eq(load_bytes(file, size + 1, &err), IQ_FORMAT);
    free(file);
}
END_TEST

/* Any bit of any byte of the header, and of some of the rest. */
START_TEST(flipped_bits_are_refused)
{
    struct iq_err err = {0};
    read_checkpoint();
    for (size_t i = 0; i < size; i += i < 300 ? 1 : size / 40) {
        file[i] ^= (unsigned char)(1u << i % 8);
        int rc = load_bytes(file, size, &err);
        ck_assert_msg(rc == IQ_FORMAT || rc == IQ_MISMATCH, "byte %zu: %d %s", i, rc, err.text);
        file[i] ^= (unsigned char)(1u << i % 8);
    }
    ck_assert_int_eq(load_bytes(file, size, &err), IQ_OK);
    free(file);
}
END_TEST

/* A header that promises the largest model in the world, with a SHA-256 that is right. */
START_TEST(a_file_that_promises_more_than_it_holds_is_refused)
{
    struct iq_err err = {0};
    read_checkpoint();
    const uint32_t vocab = 1 << 20, hidden = 1 << 14;
    memcpy(file + 12, &vocab, 4);
    memcpy(file + 16, &hidden, 4);
    char sha[IQ_SHA256_HEX];
    iq_sha256(file, size - 64, sha);
    memcpy(file + size - 64, sha, 64);
    ck_assert_int_eq(load_bytes(file, size, &err), IQ_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.text, "weights, expected"));
    free(file);
}
END_TEST

START_TEST(what_is_no_checkpoint_is_told_apart)
{
    struct iq_train *t;
    struct iq_err err = {0};
    unsigned char text[1000];
    memset(text, 'x', sizeof text);
    ck_assert_int_eq(load_bytes(text, sizeof text, &err), IQ_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.text, "not a checkpoint"));
    unlink(path);
    ck_assert_int_eq(iq_train_load(path, NULL, &t, &err), IQ_NOT_FOUND);
    ck_assert_int_eq(iq_train_load(folder, NULL, &t, &err), IQ_FORMAT);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(iq_train_load(path, NULL, &t, &err), IQ_FORMAT);
    ck_assert_ptr_null(t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("train_checkpoint");
    TCase *c = tcase_create("checkpoint");
    tcase_set_timeout(c, 240);
    tcase_add_checked_fixture(c, make_folder, remove_folder);
    tcase_add_loop_test(c, three_steps_and_three_after_reloading_are_six, 0, 2);
    tcase_add_test(c, a_kill_leaves_a_checkpoint_that_loads_and_continues_to_the_bit);
    tcase_add_test(c, a_write_that_fails_is_told_and_leaves_the_last_checkpoint);
    tcase_add_test(c, cut_off_files_are_refused);
    tcase_add_test(c, flipped_bits_are_refused);
    tcase_add_test(c, a_file_that_promises_more_than_it_holds_is_refused);
    tcase_add_test(c, what_is_no_checkpoint_is_told_apart);
    suite_add_tcase(s, c);
    return check_main(s);
}
