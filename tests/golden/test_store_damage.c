/* Damaged stores: an error with a name, never a signal. Each try runs in a child. */
#include "kernels/base/rng.h"
#include "tests/check_main.h"
#include "tests/golden/store_scratch.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096 };
static char *image, data_path[128];
static size_t image_len, live_pages;

static const struct synth RUN = {
    .layers = 12, .requests = 12, .prompt = 6, .generate = 40, .group = 3, .seed = 5, .label = "run"};

static void write_image(const char *bytes, size_t n)
{
    int fd = open(data_path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes, n), (ssize_t)n);
    close(fd);
}

static void set_up(void)
{
    scratch_in_memory();
    snprintf(data_path, sizeof data_path, "%s/data.mdb", dir.store);
    struct iq_store *s = scratch_open(&dir, 0);
    struct synth y = RUN;
    y.contents = true;
    OK(synth_record(&y, s, IQ_LEVEL_TENSORS, IQ_WRITE_GOLDEN, "golden", &err));
    y.label = "subject";
    y.contents = false;
    OK(synth_record(&y, s, IQ_LEVEL_OPS, IQ_WRITE_TRIAL, "subject", &err));
    struct iq_store_tally sum;
    OK(iq_store_verify(s, &sum, &err));
    live_pages = sum.pages;
    iq_store_close(s);
    FILE *f = fopen(data_path, "rb");
    struct stat st;
    stat(data_path, &st);
    image_len = (size_t)st.st_size;
    image = malloc(image_len);
    ck_assert_uint_eq(fread(image, 1, image_len, f), image_len);
    fclose(f);
}
static void tear_down(void)
{
    free(image);
    scratch_drop();
}

/* Everything that a program does with a store; 0 when all of it worked. */
static int exercise(bool write_too)
{
    struct iq_store *s;
    struct iq_store_tally sum;
    struct iq_trace t;
    struct iq_err e = {0};
    if (iq_store_open(dir.store, NULL, &s, &e)) return 1;
    int bad = iq_store_verify(s, &sum, &e) != IQ_OK;
    const char *const names[] = {"golden", "subject"};
    for (int i = 0; i < 2; i++) {
        if (iq_store_trace(s, names[i], &t, &e)) {
            bad = 1;
            continue;
        }
        struct iq_request_end end;
        for (uint32_t at = 0; !t.request(t.self, at, &end, &e); at = end.request + 1) {
            const struct iq_position *p;
            const struct iq_digest *d;
            const uint8_t *state;
            size_t n = 0;
            if (t.positions(t.self, end.request, &p, &n, &e)) n = 0;
            for (uint32_t k = 0; k < n; k++) t.cells(t.self, end.request, k, 0, &d, &state, &e);
            if (at > 100000) break;
        }
        iq_trace_close(&t);
    }
    struct synth y = RUN;
    y.label = "later";
    y.requests = 2;
    if (write_too) {
        if (synth_record(&y, s, IQ_LEVEL_OPS, IQ_WRITE_TRIAL, "later", &e)) bad = 1;
        if (iq_store_rm(s, "golden", &e)) bad = 1;
        if (iq_store_verify(s, &sum, &e)) bad = 1;
    }
    iq_store_close(s);
    return bad;
}

/* True when all worked. A signal fails the test. */
static bool survives(bool write_too, const char *what, uint64_t a, uint64_t b)
{
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        alarm(20);
        _exit(exercise(write_too));
    }
    int status;
    waitpid(pid, &status, 0);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) <= 1, "%s %llu %llu: status %x", what,
                  (unsigned long long)a, (unsigned long long)b, status);
    return WEXITSTATUS(status) == 0;
}

START_TEST(a_cut_file_is_an_error_at_every_length)
{
    ck_assert(survives(false, "whole", 0, 0));
    for (int i = 0; i < 60; i++) {
        size_t n = image_len * (size_t)i / 60;
        if (i % 3 == 0) n = n / PAGE * PAGE;
        write_image(image, n);
        ck_assert_msg(!survives(false, "cut", n, 0), "cut to %zu of %zu was not seen", n, image_len);
    }
    write_image(image, image_len / 2);
    struct iq_store *s;
    ck_assert_int_eq(iq_store_open(dir.store, NULL, &s, &err), IQ_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.text, "data.mdb"));
}
END_TEST

START_TEST(a_zeroed_page_is_seen_unless_nothing_uses_it)
{
    size_t pages = image_len / PAGE, seen = 0, step = pages / 150 + 1, tried = 0;
    char *copy = malloc(image_len);
    for (size_t p = 2; p < pages; p += p < 40 ? 1 : step) {
        memcpy(copy, image, image_len);
        memset(copy + p * PAGE, 0, PAGE);
        write_image(copy, image_len);
        seen += !survives(false, "zeroed page", p, 0);
        tried++;
    }
    free(copy);
    size_t dead = pages - 2 > live_pages ? pages - 2 - live_pages : 0;
    ck_assert_msg(seen + dead >= tried, "%zu of %zu zeroed pages were seen, %zu pages are free", seen, tried,
                  dead);
    ck_assert_uint_gt(seen, tried / 2);
}
END_TEST

START_TEST(a_zeroed_meta_page_is_an_error)
{
    for (size_t p = 0; p < 2; p++) {
        char *copy = malloc(image_len);
        memcpy(copy, image, image_len);
        memset(copy + p * PAGE, 0, PAGE);
        write_image(copy, image_len);
        ck_assert(!survives(true, "meta", p, 0));
        free(copy);
    }
}
END_TEST

START_TEST(a_tree_that_hangs_on_a_meta_page_is_an_error)
{
    enum {
        ROOT = 16 + 24 + 40,
        TREE = 48
    }; /* page header, what stands before the trees, before a tree's root */
    for (size_t tree = 0; tree < 2; tree++)
        for (uint64_t root = 0; root < 2; root++) {
            char *copy = malloc(image_len);
            memcpy(copy, image, image_len);
            for (size_t p = 0; p < 2; p++) memcpy(copy + p * PAGE + ROOT + tree * TREE, &root, sizeof root);
            write_image(copy, image_len);
            free(copy);
            ck_assert(!survives(true, "root", tree, root));
        }
    struct iq_store *s;
    ck_assert_int_eq(iq_store_open(dir.store, NULL, &s, &err), IQ_FORMAT);
    ck_assert_msg(strstr(err.text, "a pointer leads out of the store") != NULL, "%s", err.text);
}
END_TEST

START_TEST(random_bits_never_kill_the_process)
{
    uint64_t seed = scratch_seed(), errors = 0;
    char *copy = malloc(image_len);
    for (uint64_t i = 0; i < 250; i++) {
        memcpy(copy, image, image_len);
        for (uint64_t k = 0; k <= iq_draw(seed, i, IQ_DRAW_FAULT) % 4; k++) {
            uint64_t r = iq_draw(seed, i * 8 + k, IQ_DRAW_DATA), at = r % image_len;
            /* Mostly where it hurts: headers, pointers and nodes of a page. */
            if (r >> 60 < 12) at = at / PAGE * PAGE + (r >> 40) % 64;
            if (r >> 60 < 4) at = (r >> 20) % 2 * PAGE + (r >> 40) % 160;
            copy[at] ^= (char)(1u << (r >> 50) % 8);
        }
        write_image(copy, image_len);
        errors += !survives(true, "IQ_TEST_SEED, try", seed, i);
    }
    free(copy);
    ck_assert_uint_gt(errors, 100);
}
END_TEST

START_TEST(random_pages_swapped_or_filled_never_kill_the_process)
{
    uint64_t seed = scratch_seed();
    char *copy = malloc(image_len);
    size_t pages = image_len / PAGE;
    for (uint64_t i = 0; i < 120; i++) {
        uint64_t r = iq_draw(seed, i, IQ_DRAW_DATA), a = r % pages, b = (r >> 24) % pages;
        memcpy(copy, image, image_len);
        if (i % 3 == 0)
            memset(copy + a * PAGE, 0xff, PAGE);
        else
            memcpy(copy + a * PAGE, image + b * PAGE, PAGE);
        if (i % 3 == 2) memcpy(copy + a * PAGE, &a, 8); /* the right number on the wrong page */
        write_image(copy, image_len);
        survives(true, "IQ_TEST_SEED, try", seed, i);
    }
    free(copy);
}
END_TEST

START_TEST(another_format_version_is_refused_by_name)
{
    char *copy = malloc(image_len), *at = NULL;
    memcpy(copy, image, image_len);
    for (size_t i = 0; i + 16 < image_len; i++)
        if (!memcmp(copy + i, "iq store\0\0\0\0\1\0\0\0", 16)) at = copy + i, at[12] = 9;
    ck_assert_ptr_nonnull(at);
    write_image(copy, image_len);
    struct iq_store *s;
    ck_assert_int_eq(iq_store_open(dir.store, NULL, &s, &err), IQ_ABI);
    ck_assert_ptr_nonnull(strstr(err.text, "format 9, this build reads format 1"));
    free(copy);
}
END_TEST

START_TEST(an_empty_file_and_a_text_file_are_no_store)
{
    struct iq_store *s;
    write_image("", 0);
    ck_assert_int_eq(iq_store_open(dir.store, NULL, &s, &err), IQ_FORMAT);
    char text[20000];
    memset(text, 'x', sizeof text);
    write_image(text, sizeof text);
    ck_assert_int_eq(iq_store_open(dir.store, NULL, &s, &err), IQ_FORMAT);
    struct iq_store_options o = {.create = true};
    ck_assert_int_eq(iq_store_open(dir.store, &o, &s, &err), IQ_FORMAT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store damage");
    TCase *t = tcase_create("damage");
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_set_timeout(t, 240);
    tcase_add_test(t, a_cut_file_is_an_error_at_every_length);
    tcase_add_test(t, a_zeroed_page_is_seen_unless_nothing_uses_it);
    tcase_add_test(t, a_zeroed_meta_page_is_an_error);
    tcase_add_test(t, a_tree_that_hangs_on_a_meta_page_is_an_error);
    tcase_add_test(t, random_bits_never_kill_the_process);
    tcase_add_test(t, random_pages_swapped_or_filled_never_kill_the_process);
    tcase_add_test(t, another_format_version_is_refused_by_name);
    tcase_add_test(t, an_empty_file_and_a_text_file_are_no_store);
    suite_add_tcase(suite, t);
    return check_main(suite);
}
