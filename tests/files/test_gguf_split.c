/* GGUF models in several files. */
#define _GNU_SOURCE
#include "tests/check_main.h"
#include "tests/files/make_model.h"
#include "tests/files/opening.h"
#include "tests/files/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Split sets: row R4 of the public reports. */

static struct iq_test_spec three_shards(void)
{
    struct iq_test_spec s = iq_test_spec_default();
    s.format = IQ_Q8_0, s.shards = 3;
    char stem[512];
    snprintf(stem, sizeof stem, "%s/m", iq_scratch_dir("set"));
    ck_assert_int_eq(iq_test_write_model(stem, &s, 5, NULL), IQ_OK);
    return s;
}

static void equal_models(struct iq_model_file *a, struct iq_model_file *b)
{
    ck_assert_uint_eq(iq_model_tensor_count(a), iq_model_tensor_count(b));
    for (size_t i = 0; i < iq_model_tensor_count(a); i++) {
        const struct iq_tensor *x = iq_model_tensor_at(a, i), *y = iq_model_tensor_peek(b, x->name);
        ck_assert_msg(y != NULL, "%s", x->name);
        ck_assert(x->nbytes == y->nbytes && x->format == y->format && !memcmp(x->bytes, y->bytes, x->nbytes));
        ck_assert(!memcmp(x->dim, y->dim, sizeof x->dim));
    }
    ck_assert_uint_eq(iq_model_meta_count(a), iq_model_meta_count(b));
    for (size_t i = 0; i < iq_model_meta_count(a); i++) {
        const struct iq_meta *x = iq_model_meta_at(a, i), *y = iq_model_meta_find(b, x->key);
        ck_assert(y && x->type == y->type && x->n == y->n);
    }
}

START_TEST(a_split_set_equals_the_single_file_by_any_door)
{
    struct iq_test_spec s = three_shards();
    s.shards = 0;
    ck_assert_int_eq(iq_test_write_model(iq_scratch("one.gguf"), &s, 5, NULL), IQ_OK);
    struct iq_model_file *one = iq_take_file(iq_scratch("one.gguf"));
    static const char *const doors[] = {"set/m-00001-of-00003.gguf", "set/m-00002-of-00003.gguf",
                                        "set/m-00003-of-00003.gguf", "set", "set/"};
    for (size_t i = 0; i < sizeof doors / sizeof *doors; i++) {
        struct iq_model_file *set = iq_take_file(iq_scratch(doors[i]));
        equal_models(one, set);
        ck_assert_uint_eq(iq_model_file_count(set), 3);
        iq_model_file_close(set);
    }
    iq_model_file_close(one);
}
END_TEST

START_TEST(a_missing_shard_is_named)
{
    three_shards();
    unlink(iq_scratch("set/m-00003-of-00003.gguf"));
    iq_refuse_file(iq_scratch("set/m-00001-of-00003.gguf"), IQ_NOT_FOUND, "m-00003-of-00003.gguf", "missing");
    iq_refuse_file(iq_scratch("set/m-00002-of-00003.gguf"), IQ_NOT_FOUND, "m-00003-of-00003.gguf", "missing");
    iq_refuse_file(iq_scratch("set"), IQ_NOT_FOUND, "m-00003-of-00003.gguf", "missing");
    unlink(iq_scratch("set/m-00001-of-00003.gguf"));
    iq_refuse_file(iq_scratch("set"), IQ_NOT_FOUND, "m-00001-of-00003.gguf", "missing");
}
END_TEST

/* Sets a shard's u16 or i32 key in place. */
static void poke(const char *path, const char *name, uint16_t value)
{
    size_t n;
    char *bytes = iq_slurp(path, &n), *at = memmem(bytes, n, name, strlen(name));
    ck_assert_ptr_nonnull(at);
    memcpy(at + strlen(name) + 4, &value, sizeof value);
    iq_spill(path, bytes, n);
    free(bytes);
}

START_TEST(shards_that_disagree_on_the_count_are_named)
{
    three_shards();
    poke(iq_scratch("set/m-00002-of-00003.gguf"), "split.count", 4);
    iq_refuse_file(iq_scratch("set"), IQ_MISMATCH, "m-00002-of-00003.gguf", "split.count is 4");
    poke(iq_scratch("set/m-00002-of-00003.gguf"), "split.count", 3);
    poke(iq_scratch("set/m-00003-of-00003.gguf"), "split.tensors.count", 7);
    iq_refuse_file(iq_scratch("set"), IQ_MISMATCH, "m-00003-of-00003.gguf", "split.tensors.count is 7");
    for (int i = 1; i <= 3; i++) {
        char name[40];
        snprintf(name, sizeof name, "set/m-%05d-of-00003.gguf", i);
        poke(iq_scratch(name), "split.tensors.count", 20);
    }
    iq_refuse_file(iq_scratch("set"), IQ_MISMATCH, "m-00001-of-00003.gguf", "hold 21 tensors");
}
END_TEST

START_TEST(a_copied_shard_is_named)
{
    three_shards();
    size_t n;
    char *bytes = iq_slurp(iq_scratch("set/m-00002-of-00003.gguf"), &n);
    iq_spill(iq_scratch("set/m-00003-of-00003.gguf"), bytes, n);
    iq_refuse_file(iq_scratch("set/m-00001-of-00003.gguf"), IQ_MISMATCH, "m-00003-of-00003.gguf",
                   "split.no is 1");
    iq_spill(iq_scratch("alone.gguf"), bytes, n);
    iq_refuse_file(iq_scratch("alone.gguf"), IQ_MISMATCH, "shard 2 of 3", "-00002-of-00003.gguf");
    poke(iq_scratch("set/m-00003-of-00003.gguf"), "split.no", 2); /* and with its number mended */
    iq_refuse_file(iq_scratch("set/m-00001-of-00003.gguf"), IQ_FORMAT, "second tensor",
                   "m-00002-of-00003.gguf");
    poke(iq_scratch("set/m-00003-of-00003.gguf"), "split.no", 3);
    iq_refuse_file(iq_scratch("set"), IQ_FORMAT, "split.no", "found 3");
    free(bytes);
}
END_TEST

START_TEST(a_folder_with_two_models_asks_for_the_file)
{
    three_shards();
    struct iq_test_spec s = iq_test_spec_default();
    ck_assert_int_eq(iq_test_write_model(iq_scratch("set/other.gguf"), &s, 5, NULL), IQ_OK);
    iq_refuse_file(iq_scratch("set"), IQ_USAGE, "different models", "name the file");
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("gguf_split");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, iq_scratch_make, iq_scratch_remove);
    tcase_add_test(t, a_split_set_equals_the_single_file_by_any_door);
    tcase_add_test(t, a_missing_shard_is_named);
    tcase_add_test(t, shards_that_disagree_on_the_count_are_named);
    tcase_add_test(t, a_copied_shard_is_named);
    tcase_add_test(t, a_folder_with_two_models_asks_for_the_file);
    Suite *s = suite_create("gguf_split");
    suite_add_tcase(s, t);
    return check_main(s);
}
