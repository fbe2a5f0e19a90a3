/* Damaged stores: an error with a name, never a signal. Each try runs in a child. */
#include "kernels/base/grow.h"
#include "kernels/base/rng.h"
#include "tests/check_main.h"
#include "tests/golden/store_scratch.h"

#include <fcntl.h>
#include <lmdb.h>
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
        if (iq_store_rm(s, "golden", NULL, &e)) bad = 1;
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

/* Every record of every table as bytes of the image, read without the store: keys and values in turn. */
struct payload {
    size_t at, n;
};

/* A page begins with its number, also where it is mapped. */
static size_t image_offset(const MDB_val *v)
{
    uint64_t page;
    const char *start = (const char *)((uintptr_t)v->mv_data / PAGE * PAGE);
    memcpy(&page, start, sizeof page);
    return page * PAGE + (size_t)((const char *)v->mv_data - start);
}

static struct payload *payloads(size_t *n, size_t *bytes)
{
    static const char *const TABLE[] = {"runs",      "ids",   "names",   "docs",  "requests",
                                        "positions", "cells", "tensors", "blobs", "firings"};
    MDB_env *env;
    MDB_txn *txn;
    struct payload *p = NULL;
    size_t cap = 0;
    *n = *bytes = 0;
    ck_assert_int_eq(mdb_env_create(&env), 0);
    mdb_env_set_maxdbs(env, 16);
    ck_assert_int_eq(mdb_env_open(env, dir.store, MDB_RDONLY | MDB_NOLOCK, 0), 0);
    ck_assert_int_eq(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), 0);
    for (size_t t = 0; t < sizeof TABLE / sizeof *TABLE; t++) {
        MDB_dbi dbi;
        MDB_cursor *c;
        MDB_val part[2];
        ck_assert_int_eq(mdb_dbi_open(txn, TABLE[t], 0, &dbi), 0);
        ck_assert_int_eq(mdb_cursor_open(txn, dbi, &c), 0);
        while (!mdb_cursor_get(c, &part[0], &part[1], MDB_NEXT))
            for (int i = 0; i < 2; i++) {
                OK(iq_grow(&p, &cap, *n + 1, sizeof *p, &err));
                p[*n] = (struct payload){image_offset(&part[i]), part[i].mv_size};
                ck_assert_uint_le(p[*n].at + p[*n].n, image_len);
                ck_assert_mem_eq(image + p[*n].at, part[i].mv_data, part[i].mv_size);
                *bytes += p[(*n)++].n;
            }
        mdb_cursor_close(c);
    }
    mdb_txn_abort(txn);
    mdb_env_close(env);
    return p;
}

static void flip(size_t at, unsigned bit)
{
    image[at] ^= (char)(1u << bit);
    int fd = open(data_path, O_WRONLY);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, image + at, 1, (off_t)at), 1);
    close(fd);
}

START_TEST(verify_names_each_altered_byte_of_what_was_recorded)
{
    uint64_t seed = scratch_seed();
    size_t n, bytes;
    struct payload *p = payloads(&n, &bytes);
    struct iq_store_tally sum;
    struct iq_store *s;
    for (uint64_t i = 0; i < 400; i++) {
        /* Half of the tries by byte, which are mostly contents and cells, half by record. */
        uint64_t r = iq_draw(seed, i, IQ_DRAW_DATA), left = r % bytes;
        size_t k = r % n;
        if (i % 2)
            for (k = 0; left >= p[k].n; k++) left -= p[k].n;
        size_t at = p[k].at + (i % 2 ? left : (r >> 32) % p[k].n);
        flip(at, (r >> 60) % 8);
        err.text[0] = 0;
        int rc = iq_store_open(dir.store, NULL, &s, &err);
        if (!rc) {
            rc = iq_store_verify(s, &sum, &err);
            iq_store_close(s);
        }
        ck_assert_msg(rc == IQ_FORMAT || rc == IQ_MISMATCH,
                      "IQ_TEST_SEED %llu, try %llu, offset %zu, record %zu of %zu bytes: status %d",
                      (unsigned long long)seed, (unsigned long long)i, at, k, p[k].n, rc);
        ck_assert_ptr_nonnull(strstr(err.text, dir.store));
        flip(at, (r >> 60) % 8);
    }
    OK(iq_store_open(dir.store, NULL, &s, &err));
    OK(iq_store_verify(s, &sum, &err));
    ck_assert_uint_eq(sum.bytes, bytes - n / 2 * sizeof(uint64_t)); /* a seal a record */
    iq_store_close(s);
    free(p);
}
END_TEST

START_TEST(a_damaged_run_is_not_exported_and_can_be_removed)
{
    static const char *const RUNS[] = {"golden", "subject"};
    struct iq_run_info info;
    size_t n, bytes, k = 0, refused = 0;
    struct payload *p = payloads(&n, &bytes);
    struct iq_store *s = scratch_open(&dir, 0);
    OK(iq_store_find(s, "subject", &info, &err));
    while (k < n && p[k + 1].n != 17u * info.n_nodes + sizeof(uint64_t)) k += 2;
    ck_assert_uint_lt(k, n); /* the first record of cells */
    iq_store_close(s);
    flip(p[k + 1].at + 3, 0);
    s = scratch_open(&dir, 0);
    for (int i = 0; i < 2; i++) {
        int rc = iq_store_export(s, RUNS[i], dir.file, &err);
        if (rc)
            ck_assert_msg(rc == IQ_FORMAT && strstr(err.text, "cells: request 0 position 0"), "%s", err.text);
        ck_assert_int_eq(access(dir.file, F_OK), rc ? -1 : 0);
        refused += rc != IQ_OK;
        unlink(dir.file);
    }
    ck_assert_uint_eq(refused, 1);
    for (int i = 0; i < 2; i++) OK(iq_store_rm(s, RUNS[i], NULL, &err));
    OK(iq_store_verify(s, &(struct iq_store_tally){0}, &err));
    iq_store_close(s);
    free(p);
}
END_TEST

START_TEST(another_format_version_is_refused_by_name)
{
    char *copy = malloc(image_len), *at = NULL;
    memcpy(copy, image, image_len);
    for (size_t i = 0; i + 16 < image_len; i++)
        if (!memcmp(copy + i, "iq store\0\0\0\0\2\0\0\0", 16)) at = copy + i, at[12] = 9;
    ck_assert_ptr_nonnull(at);
    write_image(copy, image_len);
    struct iq_store *s;
    ck_assert_int_eq(iq_store_open(dir.store, NULL, &s, &err), IQ_ABI);
    ck_assert_ptr_nonnull(strstr(err.text, "format 9, this build reads format 2"));
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
    tcase_add_test(t, verify_names_each_altered_byte_of_what_was_recorded);
    tcase_add_test(t, a_damaged_run_is_not_exported_and_can_be_removed);
    tcase_add_test(t, another_format_version_is_refused_by_name);
    tcase_add_test(t, an_empty_file_and_a_text_file_are_no_store);
    suite_add_tcase(suite, t);
    return check_main(suite);
}
