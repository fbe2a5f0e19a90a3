/* Ids against reference vectors: the real SmolLM2 tokenizer, and Hugging Face `tokenizers` on small trained
 * ones. */
#include "tests/check_main.h"
#include "tests/text/vectors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int failures;

static const cJSON *field(const cJSON *c, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(c, key);
}

static void report(const char *name, const char *sentence)
{
    if (failures++ < 20) fprintf(stderr, "%s: %s\n", name, sentence);
}

static void smollm2_line(const cJSON *line, void *ctx)
{
    const cJSON *text = field(line, "text");
    bool parse = !text || cJSON_IsTrue(field(line, "parse_special"));
    if (!text) text = field(line, "rendered");
    const char *bad = vectors_differ(ctx, text->valuestring, parse ? IQ_ENCODE_PARSE : 0, field(line, "ids"));
    if (bad) report("smollm2", bad);
}

START_TEST(smollm2_ids_equal_the_reference)
{
    struct iq_tokenizer *t = vectors_smollm2();
    failures = 0;
    ck_assert_int_eq(vectors_lines("smollm2/tokenizer.jsonl", smollm2_line, t), 50);
    ck_assert_int_eq(failures, 0);
    iq_tokenizer_free(t);
}
END_TEST

static void smollm2_back(const cJSON *line, void *ctx)
{
    const struct iq_tokenizer *t = ctx;
    struct iq_ids ids = {0};
    struct iq_buf all = IQ_BUF(1 << 20), parts = IQ_BUF(1 << 20);
    struct iq_err err;
    for (const cJSON *c = field(line, "ids")->child; c; c = c->next)
        iq_ids_put(&ids, (uint32_t)c->valuedouble, &err);
    ck_assert_int_eq(iq_tokenizer_decode(t, ids.id, ids.n, 0, &all, &err), IQ_OK);
    for (size_t i = 0; i < ids.n; i++) {
        struct iq_span b = iq_tokenizer_bytes(t, ids.id[i]);
        iq_buf_put(&parts, b.data, b.len);
    }
    iq_buf_put(&all, "", 0);
    iq_buf_put(&parts, "", 0);
    if (all.len != parts.len || memcmp(all.data, parts.data, all.len))
        report("smollm2", "decode is not the joined bytes");
    const cJSON *text = field(line, "text");
    if (!text) text = field(line, "rendered");
    /* Texts with bytes that have no token lose them. */
    bool lossy = false;
    for (const char *p = text->valuestring; *p; p++)
        lossy |= (unsigned char)*p < 0x20 || (unsigned char)*p >= 0xef;
    if (!lossy && strcmp(all.data, text->valuestring)) report("smollm2", all.data);
    iq_ids_free(&ids);
    iq_buf_free(&all);
    iq_buf_free(&parts);
}

START_TEST(smollm2_ids_decode_to_the_text)
{
    struct iq_tokenizer *t = vectors_smollm2();
    failures = 0;
    vectors_lines("smollm2/tokenizer.jsonl", smollm2_back, t);
    ck_assert_int_eq(failures, 0);
    iq_tokenizer_free(t);
}
END_TEST

START_TEST(smollm2_knows_its_special_ids)
{
    struct iq_tokenizer *t = vectors_smollm2();
    ck_assert_uint_eq(iq_tokenizer_vocab(t), 49152);
    ck_assert_uint_eq(iq_tokenizer_bos(t), 1);
    ck_assert_uint_eq(iq_tokenizer_eos(t), 2);
    ck_assert(!iq_tokenizer_adds_bos(t));
    ck_assert(iq_tokenizer_is_special(t, 16) && !iq_tokenizer_is_special(t, 17));
    ck_assert(iq_tokenizer_is_eog(t, 0) && iq_tokenizer_is_eog(t, 2) && !iq_tokenizer_is_eog(t, 1));
    ck_assert_uint_eq(iq_tokenizer_find(t, "<|im_end|>", 10), 2);
    struct iq_err err;
    struct iq_buf out = IQ_BUF(100);
    uint32_t beyond = 49152, skipped[] = {1, 19556, 2};
    ck_assert_int_eq(iq_tokenizer_decode(t, &beyond, 1, 0, &out, &err), IQ_SHAPE);
    ck_assert_int_eq(iq_tokenizer_decode(t, skipped, 3, IQ_DECODE_SKIP, &out, &err), IQ_OK);
    ck_assert_str_eq(out.data, "Hello");
    iq_buf_free(&out);
    iq_tokenizer_free(t);
}
END_TEST

static void check_decoded(const struct iq_tokenizer *t, const char *name, const cJSON *vector)
{
    const cJSON *want = field(vector, "decoded");
    struct iq_ids ids = {0};
    struct iq_buf out = IQ_BUF(1 << 20);
    struct iq_err err;
    if (!want) return;
    for (const cJSON *c = field(vector, "ids")->child; c; c = c->next)
        iq_ids_put(&ids, (uint32_t)c->valuedouble, &err);
    iq_buf_put(&out, "", 0);
    ck_assert_int_eq(iq_tokenizer_decode(t, ids.id, ids.n, 0, &out, &err), IQ_OK);
    if (strcmp(out.data, want->valuestring)) report(name, out.data);
    iq_ids_free(&ids);
    iq_buf_free(&out);
}

static void check_vectors(const struct iq_tokenizer *t, const cJSON *line)
{
    const char *name = field(line, "name")->valuestring;
    for (const cJSON *v = field(line, "vectors")->child; v; v = v->next) {
        unsigned flags = (cJSON_IsTrue(field(v, "parse")) ? IQ_ENCODE_PARSE : 0) |
                         (cJSON_IsTrue(field(v, "special")) ? IQ_ENCODE_SPECIAL : 0);
        const char *bad = vectors_differ(t, field(v, "text")->valuestring, flags, field(v, "ids"));
        if (bad)
            report(name, bad);
        else
            check_decoded(t, name, v);
    }
}

static void hf_line(const cJSON *line, void *ctx)
{
    (void)ctx;
    struct iq_err err;
    struct iq_tokenizer *t = vectors_hf(field(line, "tokenizer")->valuestring, &err);
    if (!t) {
        report(field(line, "name")->valuestring, err.text);
        return;
    }
    check_vectors(t, line);
    iq_tokenizer_free(t);
}

START_TEST(trained_tokenizers_give_hugging_faces_ids)
{
    failures = 0;
    ck_assert_int_ge(vectors_lines("text/trained.jsonl", hf_line, NULL), 8);
    ck_assert_int_eq(failures, 0);
}
END_TEST

START_TEST(added_tokens_splits_and_fallbacks_give_hugging_faces_ids)
{
    failures = 0;
    ck_assert_int_ge(vectors_lines("text/cases.jsonl", hf_line, NULL), 60);
    ck_assert_int_eq(failures, 0);
}
END_TEST

static void spm_line(const cJSON *line, void *ctx)
{
    (void)ctx;
    const cJSON *tokens = field(line, "tokens"), *score = field(line, "scores")->child,
                *type = field(line, "types")->child;
    size_t n = (size_t)cJSON_GetArraySize(tokens), i = 0;
    struct iq_span *text = calloc(n, sizeof *text);
    float *scores = calloc(n, sizeof *scores);
    int32_t *types = calloc(n, sizeof *types);
    for (const cJSON *c = tokens->child; c; c = c->next, score = score->next, type = type->next, i++) {
        text[i] = (struct iq_span){c->valuestring, strlen(c->valuestring)};
        scores[i] = (float)score->valuedouble;
        types[i] = (int32_t)type->valuedouble;
    }
    struct iq_tokenizer_source s = IQ_TOKENIZER_SOURCE;
    s.name = "spm.gguf";
    s.model = "llama";
    s.tokens = text;
    s.scores = scores;
    s.types = types;
    s.n_tokens = n;
    s.unk = 0;
    s.bos = 1;
    s.eos = 2;
    struct iq_tokenizer *t;
    struct iq_err err;
    if (iq_tokenizer_from_gguf(&s, &t, &err) != IQ_OK) {
        report("spm", err.text);
    } else {
        ck_assert(iq_tokenizer_adds_bos(t));
        check_vectors(t, line);
    }
    iq_tokenizer_free(t);
    free(text);
    free(scores);
    free(types);
}

START_TEST(sentencepiece_scores_without_merges_give_hugging_faces_ids)
{
    failures = 0;
    ck_assert_int_eq(vectors_lines("text/scores.jsonl", spm_line, NULL), 1);
    ck_assert_int_eq(failures, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tokenizer");
    TCase *c = tcase_create("vectors");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, smollm2_ids_equal_the_reference);
    tcase_add_test(c, smollm2_ids_decode_to_the_text);
    tcase_add_test(c, smollm2_knows_its_special_ids);
    tcase_add_test(c, trained_tokenizers_give_hugging_faces_ids);
    tcase_add_test(c, added_tokens_splits_and_fallbacks_give_hugging_faces_ids);
    tcase_add_test(c, sentencepiece_scores_without_merges_give_hugging_faces_ids);
    suite_add_tcase(s, c);
    return check_main(s);
}
