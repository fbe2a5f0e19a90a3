/* Status, buffers, lists, digests, random numbers, SHA-256, pools, UTF-8. */
#define _GNU_SOURCE
#include "kernels/base/buf.h"
#include "kernels/base/digest.h"
#include "kernels/base/grow.h"
#include "kernels/base/pool.h"
#include "kernels/base/rng.h"
#include "kernels/base/sha256.h"
#include "kernels/base/status.h"
#include "kernels/base/utf8.h"
#include "tests/check_main.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

START_TEST(every_status_has_a_text)
{
    ck_assert_str_eq(iq_status_text(IQ_OK), "success");
    ck_assert_str_eq(iq_status_text(IQ_INTERNAL), "a bug in inquest");
    ck_assert_str_eq(iq_status_text(IQ_INTERNAL + 1), "unknown status");
    ck_assert_str_eq(iq_status_text(-1), "unknown status");
}
END_TEST

START_TEST(an_error_holds_status_and_sentence)
{
    struct iq_err err = {0};
    ck_assert_int_eq(iq_fail(&err, IQ_SHAPE, "found %d", 7), IQ_SHAPE);
    ck_assert_int_eq(iq_err_prefix(&err, "file %s: ", "a"), IQ_SHAPE);
    ck_assert_str_eq(err.text, "file a: found 7");
    ck_assert_int_eq(iq_fail(NULL, IQ_IO, "x"), IQ_IO);
    char longer[2000];
    memset(longer, 'y', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    iq_err_prefix(&err, "%s", longer);
    ck_assert_uint_lt(strlen(err.text), sizeof err.text);
}
END_TEST

START_TEST(a_buffer_keeps_its_maximum_and_stays_failed)
{
    struct iq_buf b = IQ_BUF(10);
    ck_assert_int_eq(iq_buf_put(&b, "12345", 5), 0);
    ck_assert_int_eq(iq_buf_printf(&b, "%d", 67890), 0);
    ck_assert_str_eq(b.data, "1234567890");
    ck_assert_int_eq(iq_buf_put(&b, "x", 1), -1);
    ck_assert_int_eq(iq_buf_put(&b, "", 0), -1);
    ck_assert(b.failed && b.len == 10);
    iq_buf_free(&b);
    ck_assert(!b.failed && b.max == 10);
}
END_TEST

START_TEST(a_buffer_takes_prints_longer_than_its_scratch)
{
    struct iq_buf b = IQ_BUF(5000);
    ck_assert_int_eq(iq_buf_printf(&b, "%04000d", 1), 0);
    ck_assert_uint_eq(b.len, 4000);
    ck_assert_int_eq(b.data[3999], '1');
    iq_buf_free(&b);
}
END_TEST

START_TEST(a_list_doubles_keeps_its_entries_and_is_zero_beyond_them)
{
    uint64_t *list = NULL;
    size_t cap = 0;
    for (size_t n = 0; n < 100; n++) {
        size_t before = cap;
        ck_assert_int_eq(iq_grow(&list, &cap, n + 1, sizeof *list, NULL), IQ_OK);
        ck_assert(cap == before || cap == (before ? 2 * before : 16));
        for (size_t i = before; i < cap; i++) ck_assert_uint_eq(list[i], 0);
        list[n] = n + 1;
    }
    for (size_t n = 0; n < 100; n++) ck_assert_uint_eq(list[n], n + 1);
    free(list);
}
END_TEST

START_TEST(a_list_too_large_for_memory_stays_as_it_was)
{
    uint64_t *list = NULL;
    size_t cap = 0;
    struct iq_err err = {0};
    ck_assert_int_eq(iq_grow(&list, &cap, 3, sizeof *list, &err), IQ_OK);
    const uint64_t *old = list;
    ck_assert_int_eq(iq_grow(&list, &cap, SIZE_MAX / 4, sizeof *list, &err), IQ_MEMORY);
    ck_assert_int_eq(iq_grow(&list, &cap, SIZE_MAX, sizeof *list, &err), IQ_MEMORY);
    ck_assert(list == old && cap == 16);
    free(list);
}
END_TEST

static void fill(unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) p[i] = (unsigned char)iq_mix64(i);
}

START_TEST(digests_of_shards_compose_to_the_digest_of_the_row)
{
    static const size_t lengths[] = {1, 127, 128, 129, 576, 1536, 8192, 8193, 49152};
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        for (size_t elem = 2; elem <= 4; elem += 2) {
            size_t n = lengths[l], segments = (n + IQ_DIGEST_SEGMENT - 1) / IQ_DIGEST_SEGMENT;
            unsigned char *row = malloc(n * elem);
            struct iq_digest *d = calloc(segments, sizeof *d);
            fill(row, n * elem);
            for (size_t s = segments; s-- > 0;) { /* any order, as shards come */
                size_t at = s * IQ_DIGEST_SEGMENT,
                       len = n - at < IQ_DIGEST_SEGMENT ? n - at : IQ_DIGEST_SEGMENT;
                d[s] = iq_digest_bytes(row + at * elem, len * elem);
            }
            ck_assert(iq_digest_equal(iq_digest_row(row, n, elem), iq_digest_list(d, segments)));
            row[n * elem / 2] ^= 1;
            ck_assert(!iq_digest_equal(iq_digest_row(row, n, elem), iq_digest_list(d, segments)));
            free(row);
            free(d);
        }
    }
}
END_TEST

START_TEST(digests_are_xxh3_as_published)
{
    char hex[IQ_DIGEST_HEX];
    iq_digest_hex(iq_digest_bytes("", 0), hex);
    ck_assert_str_eq(hex, "99aa06d3014798d86001c324468d497f"); /* XXH3_128bits of nothing, seed 0 */
}
END_TEST

START_TEST(a_digest_survives_hex)
{
    struct iq_digest d = iq_digest_bytes("abc", 3), back;
    char hex[IQ_DIGEST_HEX];
    iq_digest_hex(d, hex);
    ck_assert(iq_digest_parse(hex, &back) && iq_digest_equal(d, back));
    hex[3] = 'g';
    ck_assert(!iq_digest_parse(hex, &back));
    ck_assert(!iq_digest_parse("00", &back));
}
END_TEST

START_TEST(the_chain_depends_on_all_three_of_its_parts)
{
    struct iq_digest zero = {0, 0}, one = {0, 1};
    struct iq_digest c = iq_digest_chain(zero, 5, one);
    ck_assert(iq_digest_equal(c, iq_digest_chain(zero, 5, one)));
    ck_assert(!iq_digest_equal(c, iq_digest_chain(one, 5, one)));
    ck_assert(!iq_digest_equal(c, iq_digest_chain(zero, 6, one)));
    ck_assert(!iq_digest_equal(c, iq_digest_chain(zero, 5, zero)));
    ck_assert(!iq_digest_is_zero(iq_digest_chain(zero, 0, zero)));
}
END_TEST

START_TEST(philox_gives_the_published_vectors)
{
    static const struct {
        uint64_t key, hi, lo;
        uint32_t v[4];
    } known[] = {/* Random123 kat_vectors, philox4x32 10 */
                 {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
                 {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
                 {0x299f31d0a4093822,
                  0x0370734413198a2e,
                  0x85a308d3243f6a88,
                  {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct iq_philox p = iq_philox(known[i].key, known[i].hi, known[i].lo);
        for (int j = 0; j < 4; j++)
            ck_assert_msg(p.v[j] == known[i].v[j], "vector %zu word %d: %08x", i, j, p.v[j]);
    }
}
END_TEST

START_TEST(sha256_gives_the_published_vectors_and_files_agree)
{
    char hex[IQ_SHA256_HEX], path[] = "/tmp/iq_sha_XXXXXX";
    iq_sha256("abc", 3, hex);
    ck_assert_str_eq(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    iq_sha256("", 0, hex);
    ck_assert_str_eq(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    int fd = mkstemp(path);
    char letters[1000];
    memset(letters, 'a', sizeof letters);
    for (int i = 0; i < 1000; i++) ck_assert_int_eq(write(fd, letters, 1000), 1000); /* NIST's long vector */
    close(fd);
    ck_assert_int_eq(iq_sha256_file(path, hex, NULL), IQ_OK);
    ck_assert_str_eq(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    unlink(path);
    struct iq_err err = {0};
    ck_assert_int_eq(iq_sha256_file(path, hex, &err), IQ_IO);
    ck_assert_ptr_nonnull(strstr(err.text, path));
}
END_TEST

struct rounds {
    int seen[64], parts;
};

static void count(void *ctx, int part, int parts)
{
    struct rounds *r = ctx;
    r->seen[part]++; /* each part is one thread's: plain ints show a part that ran twice at once under TSan */
    if (part == 0) r->parts = parts;
}

START_TEST(a_pool_runs_every_part_once_in_each_of_many_rounds)
{
    static const int threads[] = {1, 2, 3, 5};
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        struct iq_pool *pool;
        struct rounds r = {0};
        int rounds = threads[t] <= 2 ? 10000 : 500; /* more threads than cores wait for the scheduler */
        ck_assert_int_eq(iq_pool_open(threads[t], &pool, NULL), IQ_OK);
        ck_assert_int_eq(iq_pool_threads(pool), threads[t]);
        for (int i = 0; i < rounds; i++) {
            iq_pool_run(pool, count, &r);
            for (int p = 0; p < threads[t]; p++) ck_assert_int_eq(r.seen[p], i + 1);
        }
        ck_assert_int_eq(r.parts, threads[t]);
        iq_pool_close(pool);
    }
}
END_TEST

START_TEST(a_pool_wakes_after_it_slept)
{
    struct iq_pool *pool;
    struct rounds r = {0};
    ck_assert_int_eq(iq_pool_open(2, &pool, NULL), IQ_OK);
    for (int i = 0; i < 5; i++) {
        usleep(30000);
        iq_pool_run(pool, count, &r);
        ck_assert_int_eq(r.seen[1], i + 1);
    }
    iq_pool_close(pool);
}
END_TEST

START_TEST(no_pool_is_one_part_and_odd_counts_are_refused)
{
    struct rounds r = {0};
    iq_pool_run(NULL, count, &r);
    ck_assert(r.seen[0] == 1 && r.parts == 1 && iq_pool_threads(NULL) == 1);
    struct iq_pool *pool;
    ck_assert_int_eq(iq_pool_open(0, &pool, NULL), IQ_USAGE);
    ck_assert_int_eq(iq_pool_open(257, &pool, NULL), IQ_USAGE);
    ck_assert_ptr_null(pool);
    iq_pool_close(NULL);
}
END_TEST

START_TEST(slices_cover_every_item_once)
{
    for (int n = 0; n < 40; n++)
        for (int parts = 1; parts < 9; parts++) {
            int next = 0;
            for (int p = 0; p < parts; p++) {
                int begin, end;
                iq_slice(n, p, parts, &begin, &end);
                ck_assert(begin == next && end >= begin && end - begin <= n / parts + 1);
                next = end;
            }
            ck_assert_int_eq(next, n);
        }
}
END_TEST

START_TEST(utf8_round_trips_every_scalar_value_and_nothing_else)
{
    for (uint32_t cp = 1; cp < 0x110000; cp++) {
        char s[4];
        uint32_t back;
        int n = iq_utf8_put(cp, s), got = iq_utf8_next(s, (size_t)n, &back);
        if (cp >= 0xd800 && cp < 0xe000) {
            ck_assert(got < 0 && back == 0xfffd);
            continue;
        }
        if (got != n || back != cp) ck_abort_msg("U+%04X", cp);
        if (n > 1 && iq_utf8_next(s, (size_t)n - 1, &back) != 1 - n) ck_abort_msg("cut U+%04X", cp);
    }
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("base");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, every_status_has_a_text);
    tcase_add_test(t, an_error_holds_status_and_sentence);
    tcase_add_test(t, a_buffer_keeps_its_maximum_and_stays_failed);
    tcase_add_test(t, a_buffer_takes_prints_longer_than_its_scratch);
    tcase_add_test(t, a_list_doubles_keeps_its_entries_and_is_zero_beyond_them);
    tcase_add_test(t, a_list_too_large_for_memory_stays_as_it_was);
    tcase_add_test(t, digests_of_shards_compose_to_the_digest_of_the_row);
    tcase_add_test(t, digests_are_xxh3_as_published);
    tcase_add_test(t, a_digest_survives_hex);
    tcase_add_test(t, the_chain_depends_on_all_three_of_its_parts);
    tcase_add_test(t, philox_gives_the_published_vectors);
    tcase_add_test(t, sha256_gives_the_published_vectors_and_files_agree);
    tcase_add_test(t, a_pool_runs_every_part_once_in_each_of_many_rounds);
    tcase_add_test(t, a_pool_wakes_after_it_slept);
    tcase_add_test(t, no_pool_is_one_part_and_odd_counts_are_refused);
    tcase_add_test(t, slices_cover_every_item_once);
    tcase_add_test(t, utf8_round_trips_every_scalar_value_and_nothing_else);
    Suite *s = suite_create("base");
    suite_add_tcase(s, t);
    return check_main(s);
}
