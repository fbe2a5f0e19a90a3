/* GGUF files, good and hostile. */
#define _GNU_SOURCE
#include "tests/check_main.h"
#include "tests/files/make_model.h"
#include "tests/files/opening.h"
#include "tests/files/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- a hand-made file ---- */

struct gguf {
    struct iq_buf keys, tensors, data;
    uint64_t n_keys, n_tensors;
};

static struct gguf blank(void)
{
    return (struct gguf){.keys = IQ_BUF(1 << 24), .tensors = IQ_BUF(1 << 24), .data = IQ_BUF(1 << 24)};
}

static void describe(struct gguf *g, const char *name, uint32_t rank, const uint64_t *ne, uint32_t type,
                     uint64_t offset)
{
    iq_test_put_text(&g->tensors, name);
    iq_test_put_u32(&g->tensors, rank);
    for (uint32_t i = 0; i < rank; i++) iq_test_put_u64(&g->tensors, ne[i]);
    iq_test_put_u32(&g->tensors, type);
    iq_test_put_u64(&g->tensors, offset);
    g->n_tensors++;
}

static void key(struct gguf *g, const char *name, uint32_t type)
{
    iq_test_put_text(&g->keys, name);
    iq_test_put_u32(&g->keys, type);
    g->n_keys++;
}

static void data(struct gguf *g, size_t n)
{
    for (size_t i = 0; i < n; i++) iq_buf_put(&g->data, "\x3f", 1);
}

static const char *write_out(struct gguf *g, const char *name)
{
    struct iq_buf b = IQ_BUF(1 << 26);
    iq_buf_put(&b, "GGUF", 4);
    iq_test_put_u32(&b, 3);
    iq_test_put_u64(&b, g->n_tensors);
    iq_test_put_u64(&b, g->n_keys);
    iq_buf_put(&b, g->keys.data, g->keys.len);
    iq_buf_put(&b, g->tensors.data, g->tensors.len);
    while (b.len % 32 && !iq_buf_put(&b, "", 1)) {}
    iq_buf_put(&b, g->data.data, g->data.len);
    const char *path = iq_scratch(name);
    iq_spill(path, b.data, b.len);
    iq_buf_free(&b);
    iq_buf_free(&g->keys);
    iq_buf_free(&g->tensors);
    iq_buf_free(&g->data);
    return path;
}

/* ---- reports: R2 ---- */

static const struct {
    uint32_t rank;
    uint64_t ne[5];
    uint32_t type;
    const char *says;
} bad_dims[] = {
    {2, {4, 0}, 0, "dimension 1 is 0"},
    {1, {0}, 0, "dimension 0 is 0"},
    {4, {4, 1, 1, 0}, 0, "dimension 3 is 0"},
    {3, {4, (1 << 30) - 1, (1 << 30) + 1}, 0, "18446744073709551600 bytes"},
    {3, {4, 1 << 30, 1 << 30}, 0, "wrap around 2^64"},
    {2, {UINT64_C(1) << 62, 4}, 0, "wrap around 2^64"},
    {2, {UINT64_C(1) << 63, 2}, 0, "wrap around 2^64"},
    {4, {1 << 16, 1 << 16, 1 << 16, 1 << 16}, 0, "wrap around 2^64"},
    {4, {32, 1 << 30, 1 << 30, 1}, 8, "wrap around 2^64"},
    {2, {UINT64_MAX, 1}, 1, "wrap around 2^64"},
    {1, {UINT64_MAX}, 24, "bytes at offset"},
    {1, {65}, 0, "bytes at offset"},
    {1, {33}, 8, "a multiple of 32"},
    {1, {32}, 99, "unknown type 99"},
    {1, {32}, 4, "unknown type 4"},
    {0, {0}, 0, "0 dimensions"},
    {5, {1, 1, 1, 1, 1}, 0, "5 dimensions"},
};

START_TEST(bad_dimensions_are_refused_with_the_tensor)
{
    struct gguf g = blank();
    describe(&g, "good", 1, (uint64_t[]){8}, 0, 0);
    describe(&g, "bad", bad_dims[_i].rank, bad_dims[_i].ne, bad_dims[_i].type, 32);
    data(&g, 256);
    const char *path = write_out(&g, "m.gguf");
    iq_limit_memory(256 << 20);
    bool unknown = strstr(bad_dims[_i].says, "unknown") != NULL;
    iq_refuse_file(path, unknown ? IQ_UNSUPPORTED : IQ_FORMAT, bad_dims[_i].says, "`bad`");
}
END_TEST

static const struct {
    const char *name;
    uint32_t type;
    uint64_t value;
    const char *says;
} bad_alignment[] = {
    {"wrong type: string", 8, 0, "type string"},    {"wrong type: u64", 10, 32, "type u64"},
    {"wrong type: f32", 6, 0x42000000, "type f32"}, {"zero", 4, 0, "found 0"},
    {"no power of two", 4, 24, "a power of two"},   {"below 8", 4, 4, "found 4"},
    {"huge", 4, 1u << 31, "found 2147483648"},
};

START_TEST(a_wrong_alignment_is_refused_with_its_offset)
{
    struct gguf g = blank();
    key(&g, "general.alignment", bad_alignment[_i].type);
    size_t size = bad_alignment[_i].type == 4 || bad_alignment[_i].type == 6 ? 4 : 8;
    iq_buf_put(&g.keys, &bad_alignment[_i].value, size);
    describe(&g, "t", 1, (uint64_t[]){8}, 0, 0);
    data(&g, 64);
    iq_refuse_file(write_out(&g, "m.gguf"), IQ_FORMAT, bad_alignment[_i].says, "offset");
}
END_TEST

START_TEST(an_array_longer_than_the_file_is_refused_without_allocation)
{
    static const uint64_t lengths[] = {UINT64_C(1) << 58, UINT64_MAX, UINT64_C(1) << 61,
                                       (UINT64_C(1) << 61) + 1, 1000};
    static const uint32_t elements[] = {0, 4, 6, 7, 8, 10, 12};
    iq_limit_memory(256 << 20);
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (size_t e = 0; e < sizeof elements / sizeof *elements; e++) {
            struct gguf g = blank();
            key(&g, "a.b", 9);
            iq_test_put_u32(&g.keys, elements[e]);
            iq_test_put_u64(&g.keys, lengths[l]);
            data(&g, 64);
            iq_refuse_file(write_out(&g, "m.gguf"), IQ_FORMAT, "key `a.b`", "offset");
        }
}
END_TEST

START_TEST(ten_thousand_nested_arrays_are_refused_at_once)
{
    struct gguf g = blank();
    key(&g, "a.b", 9);
    for (int i = 0; i < 10000; i++) iq_test_put_u32(&g.keys, 9), iq_test_put_u64(&g.keys, 1);
    iq_test_put_u32(&g.keys, 0);
    iq_test_put_u64(&g.keys, 0);
    const char *path = write_out(&g, "m.gguf");
    iq_limit_memory(256 << 20);
    iq_refuse_file(path, IQ_UNSUPPORTED, "array of arrays", "offset 39");
}
END_TEST

START_TEST(counts_that_cannot_fit_are_refused)
{
    static const uint64_t counts[] = {UINT64_MAX, UINT64_C(1) << 60, 1000000};
    iq_limit_memory(256 << 20);
    for (size_t i = 0; i < 6; i++) {
        struct gguf g = blank();
        data(&g, 64);
        *(i < 3 ? &g.n_tensors : &g.n_keys) = counts[i % 3];
        iq_refuse_file(write_out(&g, "m.gguf"), IQ_FORMAT, "do not fit", "offset 8");
    }
}
END_TEST

START_TEST(text_lengths_beyond_the_file_are_refused)
{
    static const uint64_t lengths[] = {UINT64_MAX, UINT64_C(1) << 63, 1 << 20};
    for (size_t i = 0; i < 3; i++) {
        struct gguf g = blank();
        key(&g, "a", 8);
        iq_test_put_u64(&g.keys, lengths[i]);
        data(&g, 32);
        iq_refuse_file(write_out(&g, "m.gguf"), IQ_FORMAT, "ends inside", "offset");
        g = blank();
        iq_test_put_u64(&g.keys, lengths[i]); /* the key's own name */
        g.n_keys = 1;
        data(&g, 32);
        iq_refuse_file(write_out(&g, "m.gguf"), IQ_FORMAT, "offset 32", "a key");
        g = blank();
        key(&g, "a", 9);
        iq_test_put_u32(&g.keys, 8);
        iq_test_put_u64(&g.keys, 2);
        iq_test_put_text(&g.keys, "x");
        iq_test_put_u64(&g.keys, lengths[i]);
        data(&g, 32);
        iq_refuse_file(write_out(&g, "m.gguf"), IQ_FORMAT, "in an array", "offset");
    }
}
END_TEST

/* ---- reports: R5 ---- */

START_TEST(a_second_tensor_of_a_name_is_refused)
{
    struct gguf g = blank();
    describe(&g, "output.weight", 1, (uint64_t[]){8}, 0, 0);
    describe(&g, "output.weight", 1, (uint64_t[]){8}, 0, 32);
    data(&g, 64);
    iq_refuse_file(write_out(&g, "m.gguf"), IQ_FORMAT, "second tensor `output.weight`", "m.gguf");
}
END_TEST

START_TEST(a_second_key_of_a_name_is_refused)
{
    static const char *const names[] = {"llama.block_count", "general.alignment", "split.count"};
    for (size_t i = 0; i < 3; i++) {
        struct gguf g = blank();
        iq_test_key_u32(&g.keys, names[i], 32);
        iq_test_key_u32(&g.keys, "other", 1);
        iq_test_key_u32(&g.keys, names[i], 32); /* even with the same value */
        g.n_keys = 3;
        char says[80];
        snprintf(says, sizeof says, "second key `%s`", names[i]);
        iq_refuse_file(write_out(&g, "m.gguf"), IQ_FORMAT, says, "offset");
    }
}
END_TEST

START_TEST(tensors_that_overlap_are_refused)
{
    struct gguf g = blank();
    describe(&g, "a", 1, (uint64_t[]){16}, 0, 0);
    describe(&g, "b", 1, (uint64_t[]){8}, 0, 32);
    data(&g, 64);
    iq_refuse_file(write_out(&g, "m.gguf"), IQ_FORMAT, "tensor `b` lies inside", "`a`");
}
END_TEST

START_TEST(an_offset_off_the_alignment_is_refused)
{
    struct gguf g = blank();
    describe(&g, "a", 1, (uint64_t[]){4}, 0, 16);
    data(&g, 64);
    iq_refuse_file(write_out(&g, "m.gguf"), IQ_FORMAT, "tensor `a`", "multiple of the alignment 32");
}
END_TEST

START_TEST(names_with_control_characters_or_bad_utf8_are_refused)
{
    static const char *const names[] = {"", "a\x1b[31m", "a\nb", "\xff", "\xc0\x80", "a\x7f"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct gguf g = blank();
        describe(&g, names[i], 1, (uint64_t[]){8}, 0, 0);
        data(&g, 32);
        iq_refuse_file(write_out(&g, "m.gguf"), IQ_FORMAT, "a tensor's name", "offset");
    }
}
END_TEST

START_TEST(what_is_no_gguf_is_refused_by_name)
{
    iq_spill(iq_scratch("a.gguf"), "GGML....................", 24);
    iq_refuse_file(iq_scratch("a.gguf"), IQ_FORMAT, "no GGUF magic", "a.gguf");
    iq_spill(iq_scratch("b.gguf"), "GGUF\1\0\0\0................", 24);
    iq_refuse_file(iq_scratch("b.gguf"), IQ_UNSUPPORTED, "GGUF version 1", "expected 2 or 3");
    iq_spill(iq_scratch("c.gguf"), "GGUF\0\0\0\3................", 24);
    iq_refuse_file(iq_scratch("c.gguf"), IQ_UNSUPPORTED, "big-endian", "c.gguf");
    iq_spill(iq_scratch("d.gguf"), "GG", 2);
    iq_refuse_file(iq_scratch("d.gguf"), IQ_FORMAT, "no GGUF magic", "d.gguf");
    iq_spill(iq_scratch("e.gguf"), "", 0);
    iq_refuse_file(iq_scratch("e.gguf"), IQ_FORMAT, "is empty", "e.gguf");
    iq_refuse_file(iq_scratch("none.gguf"), IQ_NOT_FOUND, "none.gguf", "cannot be opened");
    iq_refuse_file("/dev/null", IQ_IO, "no regular file", "/dev/null");
}
END_TEST

static const char *small_model(enum iq_format format)
{
    struct iq_test_spec s = iq_test_spec_default();
    s.vocab = 262, s.layers = 1, s.format = format;
    const char *path = iq_scratch("m.gguf");
    ck_assert_int_eq(iq_test_write_model(path, &s, 1, NULL), IQ_OK);
    return path;
}

START_TEST(every_prefix_of_a_file_is_refused)
{
    const char *path = small_model(IQ_Q4_1);
    size_t n;
    free(iq_slurp(path, &n));
    for (size_t cut = n - 1; cut > 0; cut -= cut < 8000 ? 1 : cut < 9000 ? 8 : 997) {
        ck_assert_int_eq(truncate(path, (off_t)cut), 0);
        iq_refuse_file(path, IQ_FORMAT, "m.gguf", "");
    }
}
END_TEST

START_TEST(flipped_bits_never_crash)
{
    const char *path = small_model(IQ_F32);
    size_t n, opened = 0;
    char *bytes = iq_slurp(path, &n);
    FILE *f = fopen(path, "r+b");
    for (size_t bit = 0; bit < 8 * (size_t)8000; bit += 3) {
        struct iq_model_file *m;
        char byte = (char)(bytes[bit / 8] ^ 1 << bit % 8);
        fseek(f, (long)(bit / 8), SEEK_SET);
        fwrite(&byte, 1, 1, f);
        fflush(f);
        if (iq_model_file_open(path, &m, NULL) == IQ_OK) opened++, iq_model_file_close(m);
        fseek(f, (long)(bit / 8), SEEK_SET);
        fwrite(&bytes[bit / 8], 1, 1, f);
        fflush(f);
    }
    fclose(f);
    free(bytes);
    ck_assert_uint_gt(opened, 1000); /* most flips hit text or numbers that any value fits */
}
END_TEST

/* ---- access ---- */

START_TEST(getters_read_every_type_and_refuse_the_wrong_one)
{
    struct gguf g = blank();
    struct iq_err err = {0};
    iq_test_key_u32(&g.keys, "u32", 7);
    iq_test_key_f32(&g.keys, "f32", 0.5f);
    iq_test_key_bool(&g.keys, "bool", true);
    iq_test_key_text(&g.keys, "text", "abc");
    g.n_keys = 4;
    key(&g, "i32", 5), iq_test_put_u32(&g.keys, (uint32_t)-3);
    key(&g, "nan", 6), iq_test_put_u32(&g.keys, 0x7fc00000);
    key(&g, "list", 9), iq_test_put_u32(&g.keys, 8), iq_test_put_u64(&g.keys, 2),
        iq_test_put_text(&g.keys, "x"), iq_test_put_text(&g.keys, "yz");
    key(&g, "ints", 9), iq_test_put_u32(&g.keys, 5), iq_test_put_u64(&g.keys, 2), iq_test_put_u32(&g.keys, 9),
        iq_test_put_u32(&g.keys, (uint32_t)-1);
    struct iq_model_file *m = iq_take_file(write_out(&g, "m.gguf"));
    uint64_t u = 0;
    double d = 0;
    bool b = false, found;
    struct iq_text t = {0};
    struct iq_array a = {0};
    ck_assert(iq_model_u64(m, "u32", 0, 9, &u, &found, &err) == IQ_OK && found && u == 7);
    ck_assert(iq_model_u64(m, "u32", 0, 6, &u, &found, &err) == IQ_FORMAT);
    ck_assert(iq_model_u64(m, "i32", 0, 9, &u, NULL, &err) == IQ_FORMAT && strstr(err.text, "found -3"));
    ck_assert(iq_model_u64(m, "f32", 0, 9, &u, NULL, &err) == IQ_FORMAT && strstr(err.text, "type f32"));
    ck_assert(iq_model_u64(m, "absent", 0, 9, &u, &found, &err) == IQ_OK && !found && u == 7);
    ck_assert(iq_model_f64(m, "f32", 0, 1, &d, NULL, &err) == IQ_OK && d == 0.5);
    ck_assert(iq_model_f64(m, "i32", -5, 1, &d, NULL, &err) == IQ_OK && d == -3);
    ck_assert(iq_model_f64(m, "nan", -1e300, 1e300, &d, NULL, &err) == IQ_FORMAT);
    ck_assert(iq_model_bool(m, "bool", &b, NULL, &err) == IQ_OK && b);
    ck_assert(iq_model_bool(m, "u32", &b, NULL, &err) == IQ_FORMAT);
    ck_assert(iq_model_text(m, "text", &t, NULL, &err) == IQ_OK && t.n == 3 && !memcmp(t.s, "abc", 3));
    ck_assert(iq_model_text(m, "list", &t, NULL, &err) == IQ_FORMAT && strstr(err.text, "array of string"));
    ck_assert(iq_model_array(m, "list", IQ_META_STRING, &a, NULL, &err) == IQ_OK && a.n == 2);
    ck_assert(iq_array_next_text(&a).n == 1 && iq_array_next_text(&a).n == 2 &&
              iq_array_next_text(&a).n == 0);
    ck_assert(iq_model_array(m, "ints", IQ_META_I64, &a, NULL, &err) == IQ_OK);
    ck_assert(iq_array_next_i64(&a) == 9 && iq_array_next_i64(&a) == -1 && iq_array_next_i64(&a) == 0);
    ck_assert(iq_model_array(m, "ints", IQ_META_STRING, &a, NULL, &err) == IQ_FORMAT);
    iq_model_file_close(m);
}
END_TEST

START_TEST(what_nothing_read_is_listed)
{
    struct gguf g = blank();
    iq_test_key_u32(&g.keys, "read.me", 1);
    iq_test_key_u32(&g.keys, "forgotten", 1);
    g.n_keys = 2;
    describe(&g, "used", 1, (uint64_t[]){8}, 0, 0);
    describe(&g, "unused", 1, (uint64_t[]){8}, 0, 32);
    data(&g, 64);
    struct iq_model_file *m = iq_take_file(write_out(&g, "m.gguf"));
    uint64_t v = 0;
    ck_assert_int_eq(iq_model_u64(m, "read.me", 0, 9, &v, NULL, NULL), IQ_OK);
    ck_assert_ptr_nonnull(iq_model_tensor_find(m, "used"));
    ck_assert_ptr_nonnull(iq_model_tensor_peek(m, "unused"));
    char *list = iq_unread(m);
    ck_assert_str_eq(list, "forgotten;T:unused;");
    free(list);
    iq_model_file_close(m);
}
END_TEST

START_TEST(released_tensors_stay_readable)
{
    struct iq_test_spec s = iq_test_spec_default();
    ck_assert_int_eq(iq_test_write_model(iq_scratch("m.gguf"), &s, 3, NULL), IQ_OK);
    struct iq_model_file *m = iq_take_file(iq_scratch("m.gguf"));
    const struct iq_tensor *t = iq_model_tensor_find(m, "token_embd.weight");
    char *copy = malloc(t->nbytes);
    memcpy(copy, t->bytes, t->nbytes);
    iq_model_tensor_release(m, t);
    ck_assert(!memcmp(copy, t->bytes, t->nbytes));
    free(copy);
    iq_model_file_close(m);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("gguf");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, iq_scratch_make, iq_scratch_remove);
    tcase_add_loop_test(t, bad_dimensions_are_refused_with_the_tensor, 0, sizeof bad_dims / sizeof *bad_dims);
    tcase_add_loop_test(t, a_wrong_alignment_is_refused_with_its_offset, 0,
                        sizeof bad_alignment / sizeof *bad_alignment);
    tcase_add_test(t, an_array_longer_than_the_file_is_refused_without_allocation);
    tcase_add_test(t, ten_thousand_nested_arrays_are_refused_at_once);
    tcase_add_test(t, counts_that_cannot_fit_are_refused);
    tcase_add_test(t, text_lengths_beyond_the_file_are_refused);
    tcase_add_test(t, a_second_tensor_of_a_name_is_refused);
    tcase_add_test(t, a_second_key_of_a_name_is_refused);
    tcase_add_test(t, tensors_that_overlap_are_refused);
    tcase_add_test(t, an_offset_off_the_alignment_is_refused);
    tcase_add_test(t, names_with_control_characters_or_bad_utf8_are_refused);
    tcase_add_test(t, what_is_no_gguf_is_refused_by_name);
    tcase_add_test(t, every_prefix_of_a_file_is_refused);
    tcase_add_test(t, flipped_bits_never_crash);
    tcase_add_test(t, getters_read_every_type_and_refuse_the_wrong_one);
    tcase_add_test(t, what_nothing_read_is_listed);
    tcase_add_test(t, released_tensors_stay_readable);
    Suite *s = suite_create("gguf");
    suite_add_tcase(s, t);
    return check_main(s);
}
