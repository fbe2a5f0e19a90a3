/* Files that are damaged, strange or hostile, and texts that are. */
#include "tests/check_main.h"
#include "tests/text/vectors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MODEL(rest)                                                                                          \
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}" rest "}"

static char *with(const char *rest)
{
    static char text[8192];
    snprintf(text, sizeof text,
             "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}%s}",
             rest);
    return text;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Each is refused with this status, and its sentence names this. */
static const struct {
    const char *rest, *names;
    int status;
} refused[] = {
    {",\"normalizer\":{\"type\":\"Precompiled\"}", "Precompiled", IQ_UNSUPPORTED},
    {",\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}", "UnicodeScripts", IQ_UNSUPPORTED},
    {",\"pre_tokenizer\":{\"type\":\"Sequence\"}", "pretokenizers", IQ_FORMAT},
    {",\"decoder\":{\"type\":\"WordPiece\"}", "WordPiece", IQ_UNSUPPORTED},
    {",\"post_processor\":{\"type\":\"Odd\"}", "Odd", IQ_UNSUPPORTED},
    {",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a\"},\"behavior\":\"Isolated\"}", "(a",
     IQ_FORMAT},
    {",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a&&b]\"}}", "[a&&b]", IQ_UNSUPPORTED},
    {",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Odd\"}", "Odd",
     IQ_UNSUPPORTED},
    {",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},"
     "{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[3]}}}",
     "TemplateProcessing", IQ_FORMAT},
    {",\"added_tokens\":[{\"id\":3,\"content\":7}]", "content", IQ_FORMAT},
};

START_TEST(unknown_components_are_refused_by_name)
{
    struct iq_err err;
    struct iq_tokenizer *t = vectors_hf(with(refused[_i].rest), &err);
    ck_assert_ptr_null(t);
    ck_assert_msg(err.status == refused[_i].status && strstr(err.text, refused[_i].names), "%d %s",
                  err.status, err.text);
}
END_TEST

static const struct {
    const char *json, *names;
} models[] = {
    {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", "Unigram"},
    {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{}}}", "WordPiece"},
    {"{\"model\":{\"type\":\"BPE\",\"dropout\":0.1,\"vocab\":{},\"merges\":[]}}", "dropout"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", "'b'"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":4294967295},\"merges\":[]}}", "'a'"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0.5},\"merges\":[]}}", "'a'"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a c\"]}}", "merges[0]"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}}", "merges[0]"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}", "merges"},
    {"{\"model\":{\"vocab\":{\"a\":0}}}", "model.type"},
    {"{}", "model"},
    {"[]", "object"},
    {"{\"model\":", "tokenizer.json"},
};

START_TEST(damaged_models_are_refused_by_field)
{
    struct iq_err err;
    ck_assert_ptr_null(vectors_hf(models[_i].json, &err));
    ck_assert_msg(strstr(err.text, models[_i].names) != NULL, "%s", err.text);
}
END_TEST

static size_t encode(const struct iq_tokenizer *t, const char *text, size_t n, int want, struct iq_err *err)
{
    struct iq_ids ids = {0};
    ck_assert_int_eq(iq_tokenizer_encode(t, text, n, IQ_ENCODE_PARSE | IQ_ENCODE_SPECIAL, &ids, err), want);
    size_t have = ids.n;
    iq_ids_free(&ids);
    return have;
}

START_TEST(runaway_pattern_ends_in_bounded_time_and_says_so)
{
    struct iq_err err;
    struct iq_tokenizer *t = vectors_hf(with(",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":"
                                             "\"(a+)+$\"},\"behavior\":\"Isolated\"}"),
                                        &err);
    ck_assert_ptr_nonnull(t);
    char text[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!";
    ck_assert_uint_eq(encode(t, text, 40, IQ_OK, &err), 40);
    double start = seconds();
    ck_assert_uint_eq(encode(t, text, 41, IQ_LIMIT, &err), 0);
    ck_assert_double_lt(seconds() - start, 5);
    ck_assert_msg(strstr(err.text, "(a+)+$") != NULL, "%s", err.text);
    iq_tokenizer_free(t);
}
END_TEST

START_TEST(a_missing_unk_token_is_an_error_at_its_first_use)
{
    struct iq_err err;
    struct iq_tokenizer *t = vectors_hf(
        "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"vocab\":{\"a\":0},\"merges\":[]}}", &err);
    ck_assert_ptr_nonnull(t);
    ck_assert_uint_eq(encode(t, "a", 1, IQ_OK, &err), 1);
    encode(t, "ax", 2, IQ_FORMAT, &err);
    ck_assert_msg(strstr(err.text, "<unk>") != NULL, "%s", err.text);
    iq_tokenizer_free(t);
}
END_TEST

START_TEST(text_that_is_no_utf8_is_refused_with_its_offset)
{
    struct iq_err err;
    struct iq_tokenizer *t = vectors_hf(MODEL(""), &err);
    static const char *const bad[] = {"ab\xff", "ab\xc0\x80", "ab\xed\xa0\x80", "ab\xf0\x9f\x98"};
    for (int i = 0; i < 4; i++) {
        encode(t, bad[i], strlen(bad[i]), IQ_FORMAT, &err);
        ck_assert_msg(strstr(err.text, "byte 2") != NULL, "%s", err.text);
    }
    iq_tokenizer_free(t);
}
END_TEST

START_TEST(an_added_id_that_disagrees_is_told)
{
    struct iq_err err;
    struct iq_tokenizer *t =
        vectors_hf(MODEL(",\"added_tokens\":[{\"id\":9,\"content\":\"<x>\",\"special\":true}]"), &err);
    ck_assert_ptr_nonnull(t);
    ck_assert_uint_eq(iq_tokenizer_find(t, "<x>", 3), 3);
    ck_assert_ptr_nonnull(iq_tokenizer_warning(t));
    iq_tokenizer_free(t);
}
END_TEST

START_TEST(config_names_the_special_tokens)
{
    static const char config[] =
        "{\"tokenizer_class\":\"LlamaTokenizerFast\",\"bos_token\":{\"content\":\"a\"},"
        "\"eos_token\":\"b\",\"add_bos_token\":true,\"add_eos_token\":true}";
    struct iq_err err;
    struct iq_tokenizer *t;
    static const char json[] = MODEL("");
    ck_assert_int_eq(iq_tokenizer_from_hf(json, strlen(json), "t", config, strlen(config), &t, &err), IQ_OK);
    ck_assert_uint_eq(iq_tokenizer_bos(t), 0);
    ck_assert_uint_eq(iq_tokenizer_eos(t), 1);
    ck_assert(iq_tokenizer_is_eog(t, 1));
    ck_assert_uint_eq(encode(t, "ab", 2, IQ_OK, &err), 3);
    iq_tokenizer_free(t);
}
END_TEST

static int from_gguf(struct iq_tokenizer_source *s, struct iq_err *err)
{
    static struct iq_span tokens[] = {{"a", 1}, {"b", 1}, {"ab", 2}}, merges[] = {{"a b", 3}};
    struct iq_tokenizer *t;
    s->name = "x.gguf";
    if (!s->tokens) s->tokens = tokens, s->n_tokens = 3;
    if (!s->merges) s->merges = merges, s->n_merges = 1;
    int status = iq_tokenizer_from_gguf(s, &t, err);
    iq_tokenizer_free(t);
    return status;
}

START_TEST(gguf_that_is_damaged_is_refused_by_key)
{
    struct iq_err err;
    static struct iq_span twice[] = {{"a", 1}, {"a", 1}}, bad_merge[] = {{"ab", 2}};
    static int32_t types[] = {1, 9, 1};
    struct iq_tokenizer_source good = IQ_TOKENIZER_SOURCE, s;
    good.model = "gpt2";
    good.pre = "gpt-2";
    ck_assert_int_eq(from_gguf(&good, &err), IQ_OK);
    s = good, s.pre = "odd-one";
    ck_assert(from_gguf(&s, &err) == IQ_UNSUPPORTED && strstr(err.text, "odd-one") &&
              strstr(err.text, "smollm"));
    s = good, s.model = "t5";
    ck_assert(from_gguf(&s, &err) == IQ_UNSUPPORTED && strstr(err.text, "t5"));
    s = good, s.model = "llama";
    ck_assert(from_gguf(&s, &err) == IQ_FORMAT && strstr(err.text, "scores"));
    s = good, s.bos = 3;
    ck_assert(from_gguf(&s, &err) == IQ_FORMAT && strstr(err.text, "bos_token_id"));
    s = good, s.unk = 4294967295, s.pad = -1;
    ck_assert_int_eq(from_gguf(&s, &err), IQ_OK);
    s = good, s.tokens = twice, s.n_tokens = 2;
    ck_assert(from_gguf(&s, &err) == IQ_FORMAT && strstr(err.text, "tokens[1]"));
    s = good, s.merges = bad_merge, s.n_merges = 1;
    ck_assert(from_gguf(&s, &err) == IQ_FORMAT && strstr(err.text, "merges[0]"));
    s = good, s.types = types;
    ck_assert(from_gguf(&s, &err) == IQ_FORMAT && strstr(err.text, "token_type[1]"));
    s = good, s.n_tokens = 0, s.tokens = twice;
    ck_assert_int_eq(from_gguf(&s, &err), IQ_FORMAT);
}
END_TEST

START_TEST(a_megabyte_of_one_letter_is_quick)
{
    static const char *const letters[] = {"a", " ", "\n", "7", "<", "\xc3\xa9", "<|im_start|"};
    struct iq_tokenizer *t = vectors_smollm2();
    struct iq_err err;
    size_t n = 1 << 20, k = strlen(letters[_i]);
    char *text = malloc(n);
    n -= n % k;
    for (size_t i = 0; i < n; i++) text[i] = letters[_i][i % k];
    double start = seconds();
    size_t ids = encode(t, text, n, IQ_OK, &err);
    ck_assert_double_lt(seconds() - start,
                        20); /* quadratic would be minutes; the sanitizers and a busy machine fit */
    ck_assert(ids > n / 200);
    free(text);
    iq_tokenizer_free(t);
}
END_TEST

START_TEST(a_megabyte_of_accents_is_quick)
{
    static const char nfc[] = ",\"normalizer\":{\"type\":\"NFC\"}";
    struct iq_err err;
    struct iq_tokenizer *t = vectors_hf(with(nfc), &err);
    size_t n = 1 << 20;
    char *text = malloc(n);
    for (size_t i = 0; i < n; i++)
        text[i] = "\xcc\x81\xcc\xa3"[i % 4]; /* above, below: each pair out of order */
    double start = seconds();
    encode(t, text, n, IQ_OK, &err);
    ck_assert_double_lt(seconds() - start, 20);
    free(text);
    iq_tokenizer_free(t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tokenizer_odd");
    TCase *c = tcase_create("odd");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, unknown_components_are_refused_by_name, 0,
                        (int)(sizeof refused / sizeof *refused));
    tcase_add_loop_test(c, damaged_models_are_refused_by_field, 0, (int)(sizeof models / sizeof *models));
    tcase_add_test(c, runaway_pattern_ends_in_bounded_time_and_says_so);
    tcase_add_test(c, a_missing_unk_token_is_an_error_at_its_first_use);
    tcase_add_test(c, text_that_is_no_utf8_is_refused_with_its_offset);
    tcase_add_test(c, an_added_id_that_disagrees_is_told);
    tcase_add_test(c, config_names_the_special_tokens);
    tcase_add_test(c, gguf_that_is_damaged_is_refused_by_key);
    tcase_add_loop_test(c, a_megabyte_of_one_letter_is_quick, 0, 7);
    tcase_add_test(c, a_megabyte_of_accents_is_quick);
    suite_add_tcase(s, c);
    return check_main(s);
}
