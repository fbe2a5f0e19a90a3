/* A trained canary as a file: every tensor, every token, and the logits that come out of the engine. */
#include "harness/canary/export.h"

#include "golden/canary/canary.h"
#include "harness/canary/recipe.h"
#include "kernels/arith.h"
#include "tests/check_main.h"
#include "tests/engine/rig.h"
#include "tests/files/scratch.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PROMPT = 270, ANSWER = 20 }; /* past attention's first 256 keys */

static struct iq_err err;

static struct iq_train_recipe small_recipe(void)
{
    return (struct iq_train_recipe){.vocab = IQ_CANARY_VOCAB,
                                    .hidden = 48,
                                    .layers = 2,
                                    .heads = 6,
                                    .kv_heads = 2,
                                    .head_dim = 10,
                                    .ffn = 40,
                                    .length = 512,
                                    .rope_base = 50000,
                                    .norm_eps = 1e-5,
                                    .init_embed = 1,
                                    .init_in = 0.2,
                                    .init_out = 0.2,
                                    .init_head = 0.2,
                                    .steps = 1,
                                    .seed = 3};
}

static struct iq_train_recipe expert_recipe(void)
{
    struct iq_train_recipe r = small_recipe();
    r.experts = 5;
    r.active = 2;
    r.init_router = 0.2;
    return r;
}

/* Norms too are made uneven: a norm in another's place shows. */
static struct iq_train *open_trainer(const struct iq_train_recipe *r)
{
    struct iq_train *t;
    ck_assert_msg(iq_train_open(r, NULL, &t, &err) == IQ_OK, "%s", err.text);
    float *w = (float *)iq_train_weights(t, NULL);
    const struct iq_train_tensor *x;
    for (size_t i = 0; (x = iq_train_tensor_at(t, i)); i++)
        for (uint32_t k = 0; x->init < 0 && k < x->cols; k++)
            w[x->at + k] = 0.75F + (float)(iq_rig_draw(i, k) % 512) / 1024;
    return t;
}

static const char *export_to(const struct iq_train *t, const char *name, char sha256[IQ_SHA256_HEX])
{
    const char *path = iq_scratch(name);
    ck_assert_msg(iq_canary_export(t, path, sha256, &err) == IQ_OK, "%s", err.text);
    return path;
}

/* ---- tensors ---- */

static const float *weights_of(const struct iq_train *t, uint32_t layer, const char *name, uint32_t *cols)
{
    char full[40];
    const struct iq_train_tensor *x;
    if (layer == UINT32_MAX)
        snprintf(full, sizeof full, "%s", name);
    else
        snprintf(full, sizeof full, "layer.%u.%s", layer, name);
    for (size_t i = 0; (x = iq_train_tensor_at(t, i)); i++) {
        if (strcmp(x->name, full)) continue;
        *cols = x->cols;
        return iq_train_weights(t, NULL) + x->at;
    }
    ck_abort_msg("the trainer has no %s", full);
    return NULL;
}

/* The file's row (expert, row) holds these floats, exact or as bf16. */
static void check_row(const struct iq_tensor *x, uint64_t expert, uint64_t row, const float *want,
                      uint32_t cols)
{
    const uint64_t rows = x->rank == 3 ? x->dim[1] : x->rank == 2 ? x->dim[0] : 1;
    const uint64_t at = (expert * rows + row) * cols;
    ck_assert_uint_eq(x->dim[x->rank - 1], cols);
    for (uint32_t i = 0; i < cols; i++) {
        if (x->format == IQ_F32) {
            ck_assert_msg(!memcmp((const float *)x->bytes + at + i, &want[i], sizeof *want), "%s: column %u",
                          x->name, i);
            continue;
        }
        uint16_t bits = iq_f32_to_bf16(want[i]);
        ck_assert(x->format == IQ_BF16);
        ck_assert_msg(((const uint16_t *)x->bytes)[at + i] == bits, "%s: row %llu, column %u", x->name,
                      (unsigned long long)row, i);
    }
}

static const struct iq_tensor *tensor(struct iq_model_file *m, uint32_t layer, const char *name)
{
    char full[64];
    if (layer == UINT32_MAX)
        snprintf(full, sizeof full, "%s.weight", name);
    else
        snprintf(full, sizeof full, "blk.%u.%s.weight", layer, name);
    const struct iq_tensor *x = iq_model_tensor_find(m, full);
    ck_assert_msg(x != NULL, "the file has no %s", full);
    return x;
}

/* rows of the trainer's tensor from `first` on; of each of `experts`, whose parts have `part` rows. */
static void check_tensor(struct iq_model_file *m, const struct iq_train *t, uint32_t layer, const char *name,
                         const char *source, uint32_t first, uint32_t rows, uint32_t experts, uint32_t part)
{
    uint32_t cols;
    const float *w = weights_of(t, layer, source, &cols);
    const struct iq_tensor *x = tensor(m, layer, name);
    ck_assert_int_eq(x->rank, experts ? 3 : rows ? 2 : 1);
    if (experts) ck_assert_uint_eq(x->dim[0], experts);
    if (rows) ck_assert_uint_eq(x->dim[experts != 0], rows);
    for (uint32_t e = 0; e < (experts ? experts : 1); e++)
        for (uint32_t r = 0; r < (rows ? rows : 1); r++)
            check_row(x, e, r, w + ((size_t)e * part + first + r) * cols, cols);
}

/* As transformers' halves become neighbours: element i of a head, and i + d / 2 beside it. */
static void check_rotated(struct iq_model_file *m, const struct iq_train *t, uint32_t layer, const char *name,
                          uint32_t first, uint32_t heads)
{
    const uint32_t d = iq_train_recipe_of(t)->head_dim;
    uint32_t cols;
    const float *w = weights_of(t, layer, "qkv", &cols) + (size_t)first * cols;
    const struct iq_tensor *x = tensor(m, layer, name);
    ck_assert_uint_eq(x->dim[0], (uint64_t)heads * d);
    for (uint32_t h = 0; h < heads; h++)
        for (uint32_t i = 0; i < d / 2; i++) {
            check_row(x, 0, h * d + 2 * i, w + (size_t)(h * d + i) * cols, cols);
            check_row(x, 0, h * d + 2 * i + 1, w + (size_t)(h * d + i + d / 2) * cols, cols);
        }
}

static void check_layer(struct iq_model_file *m, const struct iq_train *t, uint32_t layer)
{
    const struct iq_train_recipe *r = iq_train_recipe_of(t);
    const uint32_t q = r->heads * r->head_dim, kv = r->kv_heads * r->head_dim, n = r->experts;
    check_tensor(m, t, layer, "attn_norm", "attn_norm", 0, 0, 0, 0);
    check_rotated(m, t, layer, "attn_q", 0, r->heads);
    check_rotated(m, t, layer, "attn_k", q, r->kv_heads);
    check_tensor(m, t, layer, "attn_v", "qkv", q + kv, kv, 0, 0);
    check_tensor(m, t, layer, "attn_output", "out", 0, r->hidden, 0, 0);
    check_tensor(m, t, layer, "ffn_norm", "ffn_norm", 0, 0, 0, 0);
    check_tensor(m, t, layer, n ? "ffn_gate_exps" : "ffn_gate", "gate_up", 0, r->ffn, n, 2 * r->ffn);
    check_tensor(m, t, layer, n ? "ffn_up_exps" : "ffn_up", "gate_up", r->ffn, r->ffn, n, 2 * r->ffn);
    check_tensor(m, t, layer, n ? "ffn_down_exps" : "ffn_down", "down", 0, r->hidden, n, r->hidden);
    if (n) check_tensor(m, t, layer, "ffn_gate_inp", "router", 0, n, 0, 0);
}

static void check_file(const struct iq_train_recipe *r, bool tied)
{
    char sha256[IQ_SHA256_HEX];
    struct iq_model_file *m;
    struct iq_train *t = open_trainer(r);
    const char *path = export_to(t, "m.gguf", sha256);
    ck_assert_msg(iq_model_file_open(path, &m, &err) == IQ_OK, "%s", err.text);
    check_tensor(m, t, UINT32_MAX, "token_embd", "embed", 0, r->vocab, 0, 0);
    for (uint32_t i = 0; i < r->layers; i++) check_layer(m, t, i);
    check_tensor(m, t, UINT32_MAX, "output_norm", "final_norm", 0, 0, 0, 0);
    if (!tied) check_tensor(m, t, UINT32_MAX, "output", "head", 0, r->vocab, 0, 0);
    ck_assert_uint_eq(iq_model_tensor_count(m), (tied ? 2 : 3) + (r->experts ? 10 : 9) * r->layers);
    iq_model_file_close(m);
    iq_train_close(t);
}

START_TEST(every_weight_of_a_dense_model_is_in_its_place)
{
    struct iq_train_recipe r = small_recipe();
    check_file(&r, false);
    r.tied = 1;
    check_file(&r, true);
}
END_TEST

START_TEST(every_weight_of_a_mixture_of_experts_is_in_its_place)
{
    struct iq_train_recipe r = expert_recipe();
    check_file(&r, false);
}
END_TEST

/* ---- the model in the engine ---- */

static void round_weights(struct iq_train *t)
{
    float *w = (float *)iq_train_weights(t, NULL);
    const struct iq_train_tensor *x;
    for (size_t i = 0; (x = iq_train_tensor_at(t, i)); i++) {
        const bool exact = x->init < 0 || strstr(x->name, "router");
        for (size_t k = 0; !exact && k < (size_t)x->rows * x->cols; k++)
            w[x->at + k] = iq_bf16_to_f32(iq_f32_to_bf16(w[x->at + k]));
    }
}

/* All that differs is the order in which a score's products are summed: each side is within the bound of the exact logit. */
static void check_logits(struct iq_train *t, const struct iq_model *m, const struct iq_output *out)
{
    const uint32_t vocab = m->config.vocab;
    float *logits = malloc((size_t)(PROMPT + ANSWER) * vocab * sizeof *logits);
    double worst = 0;
    ck_assert_uint_eq(out->n_ids, PROMPT + ANSWER);
    ck_assert_uint_eq(out->top, vocab);
    ck_assert_msg(iq_train_logits(t, out->ids, out->n_ids, logits, &err) == IQ_OK, "%s", err.text);
    for (uint32_t i = 0; i < ANSWER; i++) {
        const float *row = &logits[(size_t)(PROMPT - 1 + i) * vocab];
        double largest = 0;
        for (uint32_t j = 0; j < vocab; j++) largest = fmax(largest, fabs((double)row[j]));
        for (uint32_t j = 0; j < vocab; j++) {
            double error =
                fabs((double)row[out->top_id[i * vocab + j]] - (double)out->top_logit[i * vocab + j]);
            worst = fmax(worst, error / iq_rig_logit_bound(&m->config, PROMPT + i, largest));
        }
    }
    ck_assert_msg(worst <= 2, "a logit is %g bounds away from the trainer's", worst);
    free(logits);
}

static void check_model(const struct iq_train_recipe *r)
{
    char sha256[IQ_SHA256_HEX];
    struct iq_train *t = open_trainer(r);
    struct iq_model *m = iq_rig_model(export_to(t, "m.gguf", sha256), 1);
    struct iq_engine_config config = IQ_ENGINE_CONFIG;
    struct iq_rig rig;
    uint32_t prompt[PROMPT];
    ck_assert_str_eq(m->sha256, sha256);
    ck_assert_uint_eq(m->config.context, r->length);
    for (uint32_t i = 0; i < PROMPT; i++) prompt[i] = (uint32_t)(iq_rig_draw(7, i) % r->vocab);
    struct iq_request request = {.id = "0",
                                 .params = "{}",
                                 .prompt = prompt,
                                 .n_prompt = PROMPT,
                                 .max_tokens = ANSWER,
                                 .top_p = 1,
                                 .ignore_stop = true};
    config.top = r->vocab;
    iq_rig_run(&rig, m, &config, &request, 1, NULL, false);
    round_weights(t);
    check_logits(t, m, iq_rig_output(&rig, 0));
    iq_rig_close(&rig);
    iq_model_close(m);
    iq_train_close(t);
}

START_TEST(the_engine_gives_the_trainers_logits_up_to_rounding)
{
    struct iq_train_recipe r = small_recipe();
    check_model(&r);
    r.tied = 1;
    r.head_dim = 8; /* heads as wide as hidden: 6 * 8 = 48 */
    check_model(&r);
}
END_TEST

START_TEST(the_engine_gives_the_trainers_logits_of_a_mixture_up_to_rounding)
{
    struct iq_train_recipe r = expert_recipe();
    check_model(&r);
}
END_TEST

/* ---- tokens ---- */

static struct iq_model *canary(void)
{
    char sha256[IQ_SHA256_HEX];
    struct iq_train_recipe r = small_recipe();
    r.length = IQ_CANARY_CONTEXT;
    struct iq_train *t = open_trainer(&r);
    struct iq_model *m = iq_rig_model(export_to(t, "m.gguf", sha256), 1);
    iq_train_close(t);
    return m;
}

static void check_ids(const struct iq_model *m, const char *text)
{
    static uint32_t want[IQ_CANARY_TEXT];
    struct iq_ids got = {0};
    const size_t n = iq_canary_encode(text, strlen(text), want, IQ_CANARY_TEXT);
    ck_assert_msg(iq_tokenizer_encode(m->tokenizer, text, strlen(text), IQ_ENCODE_SPECIAL | IQ_ENCODE_PARSE,
                                      &got, &err) == IQ_OK,
                  "%s", err.text);
    ck_assert_msg(got.n == n && !memcmp(got.id, want, n * sizeof *want), "other ids: %s", text);
    iq_ids_free(&got);
}

START_TEST(every_question_has_the_ids_that_the_model_was_trained_on)
{
    struct iq_model *m = canary();
    struct iq_canary_prompt p;
    for (unsigned task = 0; task < IQ_CANARY_TASKS; task++)
        for (uint32_t level = 0; level < IQ_CANARY_LEVELS; level++)
            for (uint64_t i = 0; i < 30; i++) {
                ck_assert_int_eq(
                    iq_canary_draw((enum iq_canary_id)task, level, 1, i, IQ_CANARY_HELD_OUT, &p, &err),
                    IQ_OK);
                check_ids(m, p.text);
                check_ids(m, p.answer);
            }
    iq_model_close(m);
}
END_TEST

START_TEST(any_text_is_its_bytes)
{
    struct iq_model *m = canary();
    char text[8] = "";
    for (uint32_t c = 1; c < 128; c++) {
        text[0] = (char)c;
        check_ids(m, text);
    }
    check_ids(m, "");
    check_ids(m, "  two  spaces\n\n\tand don't 12345 '’ª \xc2\xad\xc3\xbf\xe2\x82\xac\xf0\x9f\x90\xa6 "
                 "<|end|><|end|>x<|en");
    iq_model_close(m);
}
END_TEST

/* A letter of three bytes each, never an id of a text. */
START_TEST(spare_ids_are_letters_that_no_text_encodes_to)
{
    struct iq_model *m = canary();
    struct iq_buf all = IQ_BUF(4096);
    for (uint32_t id = IQ_CANARY_SPARE; id < IQ_CANARY_VOCAB; id++) {
        ck_assert_int_eq(iq_tokenizer_decode(m->tokenizer, &id, 1, IQ_DECODE_SKIP, &all, &err), IQ_OK);
        ck_assert_uint_eq(all.len, 3 * (size_t)(id - IQ_CANARY_SPARE + 1));
    }
    check_ids(m, all.data);
    ck_assert_msg(!strncmp(all.data, "กข", 6), "the first are Thai");
    iq_buf_free(&all);
    iq_model_close(m);
}
END_TEST

START_TEST(begin_goes_in_front_and_end_ends)
{
    struct iq_model *m = canary();
    const struct iq_tokenizer *t = m->tokenizer;
    ck_assert_uint_eq(iq_tokenizer_vocab(t), IQ_CANARY_VOCAB);
    ck_assert_uint_eq(iq_tokenizer_bos(t), IQ_CANARY_BEGIN);
    ck_assert_uint_eq(iq_tokenizer_eos(t), IQ_CANARY_END);
    ck_assert_uint_eq(iq_tokenizer_pad(t), IQ_CANARY_PAD);
    ck_assert(iq_tokenizer_adds_bos(t) && iq_tokenizer_is_eog(t, IQ_CANARY_END));
    ck_assert_uint_eq(iq_tokenizer_eog(t)->n, 1);
    for (uint32_t id = 0; id < IQ_CANARY_VOCAB; id++)
        ck_assert(iq_tokenizer_is_special(t, id) == (id >= IQ_CANARY_BEGIN && id < IQ_CANARY_SPARE));
    iq_model_close(m);
}
END_TEST

/* ---- the file ---- */

START_TEST(the_shipped_models_fit_in_four_million_bytes_and_have_room_for_every_question)
{
    const struct iq_canary_recipe *const shipped[] = {&iq_canary_dense, &iq_canary_moe};
    for (int i = 0; i < 2; i++) {
        size_t n;
        char sha256[IQ_SHA256_HEX];
        struct iq_train *t = open_trainer(&shipped[i]->train);
        free(iq_slurp(export_to(t, "m.gguf", sha256), &n));
        ck_assert_msg(n <= 4000000, "%s: %zu bytes", shipped[i]->name, n);
        ck_assert_uint_eq(shipped[i]->train.length, IQ_CANARY_CONTEXT);
        iq_train_close(t);
    }
}
END_TEST

START_TEST(the_same_weights_are_the_same_bytes)
{
    char sha256[3][IQ_SHA256_HEX], of_file[IQ_SHA256_HEX];
    struct iq_train_recipe r = small_recipe();
    struct iq_train *t = open_trainer(&r);
    export_to(t, "a.gguf", sha256[0]);
    ck_assert_int_eq(iq_sha256_file(export_to(t, "b.gguf", sha256[1]), of_file, &err), IQ_OK);
    ck_assert_str_eq(sha256[0], sha256[1]);
    ck_assert_str_eq(sha256[0], of_file);
    float *w = (float *)iq_train_weights(t, NULL);
    w[7] = w[7] * 1.01F;
    export_to(t, "b.gguf", sha256[2]);
    ck_assert_str_ne(sha256[0], sha256[2]);
    iq_train_close(t);
}
END_TEST

START_TEST(a_full_disk_is_told_and_leaves_the_file_that_was_there)
{
    char sha256[IQ_SHA256_HEX], after[IQ_SHA256_HEX];
    struct iq_train_recipe r = small_recipe();
    struct iq_train *t = open_trainer(&r);
    const char *path = export_to(t, "m.gguf", sha256);
    ((float *)iq_train_weights(t, NULL))[0] = 5;
    struct rlimit old, limit = {5000, 5000};
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
    limit.rlim_max = old.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    int status = iq_canary_export(t, path, after, &err);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
    ck_assert_int_eq(status, IQ_FULL);
    ck_assert_ptr_nonnull(strstr(err.text, "m.gguf.part: cannot write it"));
    ck_assert_int_eq(iq_sha256_file(path, after, &err), IQ_OK);
    ck_assert_str_eq(after, sha256);
    ck_assert_int_ne(access(iq_scratch("m.gguf.part"), F_OK), 0);
    iq_train_close(t);
}
END_TEST

START_TEST(a_trainer_with_another_vocabulary_is_refused)
{
    char sha256[IQ_SHA256_HEX];
    struct iq_train_recipe r = small_recipe();
    r.vocab = IQ_CANARY_VOCAB - 1;
    struct iq_train *t = open_trainer(&r);
    ck_assert_int_eq(iq_canary_export(t, iq_scratch("m.gguf"), sha256, &err), IQ_SHAPE);
    ck_assert_ptr_nonnull(strstr(err.text, "319 tokens, expected the canary's 320"));
    ck_assert_int_ne(access(iq_scratch("m.gguf"), F_OK), 0);
    iq_train_close(t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("export");
    TCase *c = tcase_create("export");
    tcase_add_checked_fixture(c, iq_scratch_make, iq_scratch_remove);
    tcase_add_test(c, every_weight_of_a_dense_model_is_in_its_place);
    tcase_add_test(c, every_weight_of_a_mixture_of_experts_is_in_its_place);
    tcase_add_test(c, the_engine_gives_the_trainers_logits_up_to_rounding);
    tcase_add_test(c, the_engine_gives_the_trainers_logits_of_a_mixture_up_to_rounding);
    tcase_add_test(c, every_question_has_the_ids_that_the_model_was_trained_on);
    tcase_add_test(c, any_text_is_its_bytes);
    tcase_add_test(c, spare_ids_are_letters_that_no_text_encodes_to);
    tcase_add_test(c, begin_goes_in_front_and_end_ends);
    tcase_add_test(c, the_shipped_models_fit_in_four_million_bytes_and_have_room_for_every_question);
    tcase_add_test(c, the_same_weights_are_the_same_bytes);
    tcase_add_test(c, a_full_disk_is_told_and_leaves_the_file_that_was_there);
    tcase_add_test(c, a_trainer_with_another_vocabulary_is_refused);
    suite_add_tcase(s, c);
    return check_main(s);
}
