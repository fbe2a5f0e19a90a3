/* Hugging Face folders and their safetensors files, good and hostile. */
#define _GNU_SOURCE
#include "tests/check_main.h"
#include "tests/files/make_model.h"
#include "tests/files/opening.h"
#include "tests/files/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Writes a folder with an empty config and one safetensors file of this header and `data` bytes. */
static const char *file_with(const char *header, uint64_t length, size_t data)
{
    struct iq_buf b = IQ_BUF(1 << 26);
    iq_test_put_u64(&b, length);
    iq_buf_put(&b, header, strlen(header));
    for (size_t i = 0; i < data; i++) iq_buf_put(&b, "\xff", 1); /* NaN in every float format */
    iq_spill(iq_scratch("config.json"), "{}", 2);
    iq_spill(iq_scratch("model.safetensors"), b.data, b.len);
    iq_buf_free(&b);
    return iq_scratch("");
}

static const struct {
    const char *header, *says;
    size_t data;
} bad_headers[] = {
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "tensors end at offset", 9},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
     "found 8, expected an integer from 0 to 7", 7},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", "need 8", 8},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", "need 8", 8},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}", "found -8", 8},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0.5,8]}}", "exact integer", 8},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", "two offsets", 8},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", "`data_offsets` is no list", 8},
    {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", "`dtype` is missing", 8},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", "`shape` is no list", 8},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}}", "`shape` is no list", 8},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}",
     "found 0, expected an integer from 1", 0},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,0]}}", "found -1", 0},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}",
     "wraps around 2^64", 0},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4,1073741823,1073741825],\"data_offsets\":[0,0]}}",
     "need 18446744073709551600", 0},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,2],\"data_offsets\":[0,8]}}", "at most 4", 8},
    {"{\"a\":{\"dtype\":\"Q9\",\"shape\":[2],\"data_offsets\":[0,8]}}", "found \"Q9\"", 8},
    {"{\"a\":{\"dtype\":3,\"shape\":[2],\"data_offsets\":[0,8]}}", "found a number, expected a string", 8},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}}", "unknown key `x`", 8},
    {"{\"a\":[]}", "found an array", 0},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"a\":{\"dtype\":\"F32\",\"shape\":[2],"
     "\"data_offsets\":[8,16]}}",
     "stands twice", 16},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":[2],"
     "\"data_offsets\":[4,12]}}",
     "an overlap", 12},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":[2],"
     "\"data_offsets\":[0,8]}}",
     "an overlap", 8},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":[2],"
     "\"data_offsets\":[12,20]}}",
     "a hole", 20},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", "a hole", 12},
    {"{\"\\u001b[31m\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "control characters", 8},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}", "(header):1:", 8},
    {"[]", "does not begin with '{'", 0},
    {" {}", "does not begin with '{'", 0},
};

START_TEST(a_lying_header_is_refused_with_tensor_and_field)
{
    const char *h = bad_headers[_i].header, *path = file_with(h, strlen(h), bad_headers[_i].data);
    iq_limit_memory(256 << 20);
    bool unknown = strstr(h, "Q9") != NULL;
    iq_refuse_file(path, unknown ? IQ_UNSUPPORTED : IQ_FORMAT, bad_headers[_i].says, "model.safetensors");
}
END_TEST

START_TEST(a_header_length_that_lies_is_refused)
{
    static const uint64_t lengths[] = {UINT64_MAX, UINT64_C(1) << 63, 100000, 61, 1, 0};
    iq_limit_memory(256 << 20);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        iq_refuse_file(
            file_with("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", lengths[i], 4),
            IQ_FORMAT, "header", "model.safetensors");
    iq_spill(iq_scratch("model.safetensors"), "1234567", 7);
    iq_refuse_file(iq_scratch(""), IQ_FORMAT, "file of 7", "model.safetensors");
}
END_TEST

START_TEST(scalars_metadata_padding_and_foreign_types_are_taken)
{
    struct iq_model_file *m;
    const char *h = "{\"__metadata__\":{\"format\":\"pt\"},\"s\":{\"dtype\":\"I64\",\"shape\":[],\"data_"
                    "offsets\":[4,12]},"
                    "\"a\":{\"dtype\":\"BF16\",\"shape\":[1,2],\"data_offsets\":[0,4]}}      ";
    m = iq_take_file(file_with(h, strlen(h), 12));
    const struct iq_tensor *a = iq_model_tensor_find(m, "a"), *s = iq_model_tensor_find(m, "s");
    ck_assert(a && a->format == IQ_BF16 && a->rank == 2 && a->dim[0] == 1 && a->dim[1] == 2 &&
              a->nbytes == 4);
    ck_assert(s && s->format == IQ_FORMAT_NONE && s->rank == 1 && s->dim[0] == 1 && !strcmp(s->type, "I64"));
    ck_assert_uint_eq(s->offset, 8 + strlen(h) + 4);
    iq_model_file_close(m);
}
END_TEST

START_TEST(ten_thousand_nested_arrays_in_a_header_are_refused)
{
    char *h = malloc(30000);
    memset(h, '[', 20000);
    memcpy(h, "{\"a\":", 5);
    h[20000] = 0;
    iq_refuse_file(file_with(h, 20000, 0), IQ_FORMAT, "nested deeper", "model.safetensors");
    free(h);
}
END_TEST

/* ---- reports: R11 ---- */

static void model_of_two_shards(void)
{
    struct iq_test_spec s = iq_test_spec_default();
    s.hf = true, s.shards = 2, s.format = IQ_BF16;
    ck_assert_int_eq(iq_test_write_model(iq_scratch(""), &s, 5, NULL), IQ_OK);
}

static const char *const shard_names[] = {"model-00001-of-00002.safetensors",
                                          "model-00002-of-00002.safetensors"};

/* Copies shard `from` and adds it under a name that sorts before (or after) with all bytes of its data inverted, as a
 * stale copy that the index names for one other tensor only. */
static void add_stale(const char *from, const char *as, const char *extra)
{
    size_t n;
    uint64_t length;
    char *bytes = iq_slurp(iq_scratch(from), &n);
    memcpy(&length, bytes, 8);
    struct iq_buf b = IQ_BUF(1 << 26);
    char head[300];
    snprintf(head, sizeof head, ",\"%s\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[%llu,%llu]}}",
             extra, (unsigned long long)(n - 8 - length), (unsigned long long)(n - 4 - length));
    while (bytes[8 + length - 1] != '}') length--;
    size_t body = length - 1, data = n - 8;
    memcpy(&length, bytes, 8);
    data -= length;
    iq_test_put_u64(&b, body + strlen(head));
    iq_buf_put(&b, bytes + 8, body);
    iq_buf_put(&b, head, strlen(head));
    for (size_t i = 0; i < data; i++) iq_buf_put(&b, &(char){(char)~bytes[n - data + i]}, 1);
    iq_buf_put(&b, "\0\0\0\0", 4);
    iq_spill(iq_scratch(as), b.data, b.len);
    iq_buf_free(&b);
    free(bytes);
    char entry[200];
    snprintf(entry, sizeof entry, "\"weight_map\":{\"%s\":\"%s\",", extra, as);
    ck_assert(iq_edit(iq_scratch("model.safetensors.index.json"), "\"weight_map\":{", entry));
}

START_TEST(the_mapped_copy_wins_over_stale_ones_in_either_order)
{
    model_of_two_shards();
    struct iq_model_file *clean = iq_take_file(iq_scratch(""));
    add_stale(shard_names[0], "a-first.safetensors", "extra.first");
    add_stale(shard_names[1], "z-last.safetensors", "extra.last");
    struct iq_model_file *m = iq_take_file(iq_scratch(""));
    ck_assert_uint_eq(iq_model_tensor_count(m), iq_model_tensor_count(clean) + 2);
    for (size_t i = 0; i < iq_model_tensor_count(clean); i++) {
        const struct iq_tensor *x = iq_model_tensor_at(clean, i), *y = iq_model_tensor_peek(m, x->name);
        ck_assert(y && y->nbytes == x->nbytes && !memcmp(x->bytes, y->bytes, x->nbytes));
    }
    ck_assert_uint_eq(iq_model_file_note_count(m), 1);
    ck_assert_ptr_nonnull(strstr(iq_model_file_note(m, 0), "21 other copies"));
    iq_model_file_close(clean);
    iq_model_file_close(m);
}
END_TEST

START_TEST(a_stray_single_file_beside_the_index_is_ignored_and_said)
{
    model_of_two_shards();
    struct iq_model_file *clean = iq_take_file(iq_scratch(""));
    struct iq_test_spec s = iq_test_spec_default();
    s.hf = true, s.format = IQ_BF16, s.no_tokenizer = true;
    ck_assert_int_eq(iq_test_write_model(iq_scratch(""), &s, 99, NULL),
                     IQ_OK); /* other weights, the same names */
    struct iq_model_file *m = iq_take_file(iq_scratch(""));
    for (size_t i = 0; i < iq_model_tensor_count(clean); i++) {
        const struct iq_tensor *x = iq_model_tensor_at(clean, i), *y = iq_model_tensor_peek(m, x->name);
        ck_assert(y && !memcmp(x->bytes, y->bytes, x->nbytes));
    }
    ck_assert_uint_eq(iq_model_file_note_count(m), 1);
    ck_assert_ptr_nonnull(strstr(iq_model_file_note(m, 0), "model.safetensors lies beside"));
    iq_model_file_close(clean);
    iq_model_file_close(m);
}
END_TEST

START_TEST(a_missing_shard_is_named)
{
    model_of_two_shards();
    unlink(iq_scratch(shard_names[1]));
    iq_refuse_file(iq_scratch(""), IQ_NOT_FOUND, shard_names[1], "missing");
    iq_refuse_file(iq_scratch(shard_names[0]), IQ_NOT_FOUND, shard_names[1], "missing"); /* any door */
}
END_TEST

START_TEST(an_index_entry_absent_from_its_shard_is_named)
{
    model_of_two_shards();
    ck_assert(iq_edit(iq_scratch("model.safetensors.index.json"), "\"weight_map\":{",
                      "\"weight_map\":{\"ghost.weight\":\"model-00002-of-00002.safetensors\","));
    iq_refuse_file(iq_scratch(""), IQ_NOT_FOUND, "`ghost.weight`", shard_names[1]);
}
END_TEST

START_TEST(a_tensor_mapped_to_the_wrong_shard_is_named)
{
    model_of_two_shards();
    ck_assert(iq_edit(iq_scratch("model.safetensors.index.json"), "\"model.norm.weight\":\"model-00002",
                      "\"model.norm.weight\":\"model-00001"));
    iq_refuse_file(iq_scratch(""), IQ_NOT_FOUND, "`model.norm.weight`", shard_names[0]);
}
END_TEST

START_TEST(an_index_that_leads_out_of_the_folder_is_refused)
{
    static const char *const names[] = {"../x.safetensors", "/etc/passwd", "sub/x.safetensors", "",
                                        ".hidden"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[200];
        int n = snprintf(text, sizeof text, "{\"weight_map\":{\"a\":\"%s\"}}", names[i]);
        iq_spill(iq_scratch("config.json"), "{}", 2);
        iq_spill(iq_scratch("model.safetensors.index.json"), text, (size_t)n);
        iq_refuse_file(iq_scratch(""), IQ_FORMAT, "a plain name", "index.json");
    }
    static const char *const maps[] = {
        "{}", "{\"weight_map\":[]}", "{\"weight_map\":{}}", "{\"weight_map\":{\"a\":1}}", "[]", "{"};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        iq_spill(iq_scratch("model.safetensors.index.json"), maps[i], strlen(maps[i]));
        iq_refuse_file(iq_scratch(""), IQ_FORMAT, "index.json", "");
    }
}
END_TEST

START_TEST(folders_without_a_model_say_what_is_expected)
{
    iq_refuse_file(iq_scratch(""), IQ_NOT_FOUND, "config.json", ".gguf");
    iq_spill(iq_scratch("config.json"), "{}", 2);
    iq_refuse_file(iq_scratch(""), IQ_NOT_FOUND, "neither model.safetensors nor", "");
    iq_spill(iq_scratch("pytorch_model.bin"), "x", 1);
    iq_refuse_file(iq_scratch(""), IQ_NOT_FOUND, "pytorch_model.bin is not read", "");
}
END_TEST

START_TEST(a_safetensors_file_is_a_door_to_its_folder)
{
    model_of_two_shards();
    struct iq_model_file *m = iq_take_file(iq_scratch(shard_names[1]));
    ck_assert_uint_eq(iq_model_tensor_count(m), 21);
    ck_assert_int_eq(iq_model_file_kind(m), IQ_MODEL_HF);
    iq_model_file_close(m);
}
END_TEST

START_TEST(files_of_the_folder_are_given_and_hashed)
{
    model_of_two_shards();
    struct iq_err err = {0};
    struct iq_text text;
    const cJSON *json;
    char hex[IQ_SHA256_HEX], want[IQ_SHA256_HEX];
    struct iq_model_file *m = iq_take_file(iq_scratch(""));
    ck_assert_int_eq(iq_model_bytes(m, "tokenizer.json", 1 << 20, &text, &err), IQ_OK);
    ck_assert(text.s && text.n > 1000 && text.s[0] == '{');
    ck_assert_int_eq(iq_model_bytes(m, "tokenizer.json", 10, &text, &err), IQ_LIMIT);
    ck_assert(iq_model_bytes(m, "chat_template.jinja", 10, &text, &err) == IQ_OK && !text.s);
    ck_assert(iq_model_json(m, "tokenizer_config.json", &json, &err) == IQ_OK && json);
    ck_assert(iq_model_json(m, "special_tokens_map.json", &json, &err) == IQ_OK && !json);
    size_t n, files = iq_model_file_count(m);
    char *bytes = iq_slurp(iq_scratch(shard_names[0]), &n);
    iq_sha256(bytes, n, want);
    bool seen = false;
    for (size_t i = 0; i < files; i++) {
        ck_assert_int_eq(iq_model_file_sha256(m, i, hex, &err), IQ_OK);
        seen |= !strcmp(hex, want);
    }
    ck_assert(seen && files == 6); /* config, index, two shards, tokenizer, its config */
    free(bytes);
    iq_model_file_close(m);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("safetensors");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, iq_scratch_make, iq_scratch_remove);
    tcase_add_loop_test(t, a_lying_header_is_refused_with_tensor_and_field, 0,
                        sizeof bad_headers / sizeof *bad_headers);
    tcase_add_test(t, a_header_length_that_lies_is_refused);
    tcase_add_test(t, scalars_metadata_padding_and_foreign_types_are_taken);
    tcase_add_test(t, ten_thousand_nested_arrays_in_a_header_are_refused);
    tcase_add_test(t, the_mapped_copy_wins_over_stale_ones_in_either_order);
    tcase_add_test(t, a_stray_single_file_beside_the_index_is_ignored_and_said);
    tcase_add_test(t, a_missing_shard_is_named);
    tcase_add_test(t, an_index_entry_absent_from_its_shard_is_named);
    tcase_add_test(t, a_tensor_mapped_to_the_wrong_shard_is_named);
    tcase_add_test(t, an_index_that_leads_out_of_the_folder_is_refused);
    tcase_add_test(t, folders_without_a_model_say_what_is_expected);
    tcase_add_test(t, a_safetensors_file_is_a_door_to_its_folder);
    tcase_add_test(t, files_of_the_folder_are_given_and_hashed);
    Suite *s = suite_create("safetensors");
    suite_add_tcase(s, t);
    return check_main(s);
}
