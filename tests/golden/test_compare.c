/* What the comparator finds: guilty ops, triggers, labels. */
#include "tests/check_main.h"
#include "tests/golden/compare_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int vitro_says(void *ctx, const struct iq_suspect *s, struct iq_vitro_result *out, struct iq_err *e)
{
    (void)e;
    ck_assert_str_eq(s->op, ((const struct plant *)ctx)->op);
    out->numerics = ((const struct plant *)ctx)->reuse_from ? IQ_NUMERICS_VIOLATES : IQ_NUMERICS_WITHIN;
    snprintf(out->evidence, sizeof out->evidence, "said so");
    return IQ_OK;
}

START_TEST(equal_runs_under_other_batching_are_identical)
{
    struct synth s = BASE;
    s.label = "subject";
    s.batch = batch;
    s.group = 1;
    struct iq_finding *f = diff(&BASE, &s, IQ_LEVEL_OPS, IQ_LEVEL_CHAIN, NULL, NULL);
    ck_assert_int_eq(f->label, IQ_LABEL_IDENTICAL);
    ck_assert_int_eq(f->numerics, IQ_NUMERICS_IDENTICAL);
    ck_assert_int_eq(f->effect, IQ_EFFECT_NONE);
    ck_assert_int_eq(f->weights, IQ_WEIGHTS_VERIFIED);
    ck_assert_uint_eq(f->requests, 24);
    ck_assert_uint_eq(f->n_guilty, 0);
    ck_assert(!f->has_first);
    iq_finding_free(f);
}
END_TEST

/* Whatever op and layer is struck, at one cell of one request, just that cell is guilty. */
START_TEST(one_struck_cell_is_the_one_guilty_cell)
{
    static const char *const ops[] = {"embed",   "attn_norm", "q",   "k",     "v",
                                      "attn",    "attn_out",  "ffn", "resid", "final_norm",
                                      "lm_head", "temper",    "topk"};
    struct plant p = {.op = ops[_i],
                      .layer = _i >= 1 && _i <= 8 ? 1 : -1,
                      .request = 7,
                      .pos = 9,
                      .effect = STRIKE,
                      .margin = 1};
    struct iq_finding *f = diff_planted(&p, IQ_LEVEL_OPS, NULL, NULL);
    ck_assert_uint_eq(f->n_guilty, 1);
    ck_assert_str_eq(f->guilty[0].op, p.op);
    ck_assert_uint_eq(f->guilty[0].cells, 1);
    ck_assert_uint_eq(f->guilty[0].pos, 9);
    ck_assert_str_eq(f->guilty[0].request_id, "q7");
    ck_assert_uint_eq(f->guilty[0].n_layers, 1);
    ck_assert_uint_eq(f->guilty[0].layer[0], p.layer < 0 ? IQ_NO_LAYER : 1);
    ck_assert_uint_eq(f->first_pos, 9);
    ck_assert_str_eq(f->first_op, p.op);
    ck_assert_uint_eq(f->differing, 1);
    ck_assert_int_eq(f->label, IQ_LABEL_SUSPECT);
    ck_assert_int_eq(f->effect, IQ_EFFECT_NONE);
    iq_finding_free(f);
}
END_TEST

START_TEST(a_fault_at_one_batch_size_is_found_with_its_trigger)
{
    struct plant p = {.op = "topk",
                      .layer = -1,
                      .batch = 7,
                      .request = -1,
                      .pos = -1,
                      .effect = STRIKE | FLIP,
                      .margin = 1,
                      .reuse_from = 1};
    struct iq_finding *f = diff_planted(&p, IQ_LEVEL_OPS, vitro_says,
                                        ",\"plan\":{\"faults\":[{\"op\":\"attn\",\"variant\":\"x\"},{\"op\":"
                                        "\"topk\",\"variant\":\"coarse\"}]},\"replay\":\"inquest replay\"");
    ck_assert_uint_eq(f->n_guilty, 1);
    const struct iq_guilty *g = &f->guilty[0];
    ck_assert_str_eq(g->op, "topk");
    ck_assert_str_eq(g->variant, "coarse");
    ck_assert_int_eq(g->fault, 1);
    ck_assert(g->trigger.found);
    ck_assert_int_eq(g->trigger.attr, IQ_ATTR_BATCH);
    for (size_t i = 0; i < g->trigger.n_buckets; i++) {
        const struct iq_bucket *b = &g->trigger.bucket[i];
        ck_assert_int_eq(b->in, b->value == 7);
        ck_assert_uint_eq(b->guilty, b->value == 7 ? b->evaluated : 0);
        ck_assert_uint_gt(b->evaluated, 0);
    }
    ck_assert_int_eq(f->label, IQ_LABEL_WRONG);
    ck_assert_int_eq(f->effect, IQ_EFFECT_DECISIVE_FLIPS);
    ck_assert_uint_gt(f->changed, 0);
    ck_assert_uint_eq(f->answers.asked, 24);
    ck_assert_uint_eq(f->answers.golden_right, 24); /* the expected answer is the first token */
    ck_assert_uint_gt(f->answers.lost, 0);
    ck_assert_uint_eq(f->answers.subject_right, 24 - f->answers.lost);
    uint64_t asked = 0;
    for (size_t i = 0; i < f->n_batches; asked += f->batch[i++].asked)
        ck_assert_uint_eq(f->batch[i].lost, f->batch[i].batch == 7 ? f->answers.lost : 0);
    ck_assert_uint_eq(asked, 24);
    ck_assert_uint_gt(f->n_batches, 1);
    ck_assert_str_eq(f->replay, "inquest replay");
    struct iq_buf buf = IQ_BUF(1 << 20);
    struct iq_jw w = IQ_JW(&buf);
    iq_finding_json(f, &w);
    cJSON *json;
    OK(iq_json_parse(buf.data, buf.len, "finding", &json, &err));
    const cJSON *t = cJSON_GetObjectItem(json, "trigger");
    ck_assert_int_eq(cJSON_GetArrayItem(cJSON_GetObjectItem(t, "batch"), 0)->valueint, 7);
    ck_assert_int_eq(cJSON_GetArraySize(cJSON_GetObjectItem(t, "batch")), 1);
    ck_assert_str_eq(cJSON_GetObjectItem(json, "label")->valuestring, "wrong");
    ck_assert_str_eq(
        cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(json, "guilty"), 0), "op")->valuestring,
        "topk");
    iq_json_free(json);
    iq_buf_free(&buf);
    iq_finding_free(f);
}
END_TEST

START_TEST(without_cells_topk_and_sample_and_head_are_still_told_apart)
{
    static const char *const ops[] = {"lm_head", "topk", "sample"};
    struct plant p = {.op = ops[_i],
                      .layer = -1,
                      .batch = 7,
                      .request = -1,
                      .pos = -1,
                      .effect = STRIKE | FLIP,
                      .margin = 1};
    struct iq_finding *f = diff_planted(&p, IQ_LEVEL_CHAIN, NULL, NULL);
    ck_assert_uint_eq(f->n_guilty, 1);
    ck_assert_str_eq(f->guilty[0].op, ops[_i]);
    ck_assert(f->guilty[0].trigger.found);
    ck_assert_int_eq(f->label, IQ_LABEL_SUSPECT);
    iq_finding_free(f);
}
END_TEST

START_TEST(without_cells_an_earlier_op_is_unknown_and_says_what_to_do)
{
    struct plant p = {
        .op = "ffn", .layer = 1, .batch = 7, .request = -1, .pos = -1, .effect = STRIKE, .margin = 1};
    struct iq_finding *f = diff_planted(&p, IQ_LEVEL_CHAIN, NULL, NULL);
    ck_assert_uint_eq(f->n_guilty, 1);
    ck_assert_str_eq(f->guilty[0].op, "body");
    ck_assert(f->guilty[0].trigger.found);
    ck_assert_uint_eq(f->guilty[0].trigger.bucket[0].guilty, 0);
    ck_assert_ptr_nonnull(strstr(f->guilty_note, "--level ops"));
    iq_finding_free(f);
}
END_TEST

START_TEST(a_fault_everywhere_has_no_trigger_and_says_why)
{
    struct plant p = {.op = "lm_head", .layer = -1, .request = -1, .pos = -1, .effect = STRIKE, .margin = 1};
    struct iq_finding *f = diff_planted(&p, IQ_LEVEL_OPS, vitro_says, NULL);
    ck_assert_uint_eq(f->n_guilty, 1);
    ck_assert(!f->guilty[0].trigger.found);
    ck_assert_ptr_nonnull(strstr(f->guilty[0].trigger.reason, "neither"));
    ck_assert_int_eq(f->label, IQ_LABEL_BENIGN); /* within, and no token flipped */
    iq_finding_free(f);
}
END_TEST

START_TEST(flips_at_ties_stay_benign_and_at_clear_margins_do_not)
{
    struct plant p = {.op = "lm_head",
                      .layer = -1,
                      .batch = 7,
                      .request = -1,
                      .pos = -1,
                      .effect = STRIKE | FLIP,
                      .margin = _i ? 0.5f : 5e-4f};
    struct iq_finding *f = diff_planted(&p, IQ_LEVEL_OPS, vitro_says, NULL);
    ck_assert_int_eq(f->effect, _i ? IQ_EFFECT_DECISIVE_FLIPS : IQ_EFFECT_TIE_FLIPS);
    ck_assert_int_eq(f->label, _i ? IQ_LABEL_SUSPECT : IQ_LABEL_BENIGN);
    iq_finding_free(f);
}
END_TEST

static int vitro_cannot(void *ctx, const struct iq_suspect *s, struct iq_vitro_result *out, struct iq_err *e)
{
    (void)ctx, (void)s, (void)out;
    return iq_fail(e, IQ_UNSUPPORTED, "no such op here");
}

START_TEST(what_was_not_judged_in_vitro_is_suspect_at_most)
{
    struct plant p = {.op = "ffn", .layer = 0, .request = 2, .pos = 8, .effect = STRIKE, .margin = 1};
    struct iq_finding *f = diff_planted(&p, IQ_LEVEL_OPS, vitro_cannot, NULL);
    ck_assert_int_eq(f->label, IQ_LABEL_SUSPECT);
    ck_assert_int_eq(f->numerics, IQ_NUMERICS_OUTSIDE);
    ck_assert(!f->guilty[0].judged);
    iq_finding_free(f);
}
END_TEST

START_TEST(unlike_runs_are_inconclusive_and_say_why)
{
    static const struct {
        const char *extra, *word;
    } cases[] = {{",\"contract\":\"c2\"", "contract"},
                 {",\"model\":{\"sha256\":\"zz\"}", "model's files"},
                 {NULL, "prompt"}};
    struct synth g = BASE, s = BASE;
    char replaced[512];
    s.label = "subject";
    if (_i == 2) s.seed = 10;
    snprintf(replaced, sizeof replaced, "{\"label\":\"s\"%s%s%s}", _i == 0 ? "" : ",\"contract\":\"c1\"",
             _i == 1 ? "" : ",\"model\":{\"sha256\":\"ab\",\"packed\":\"cd\"}",
             cases[_i].extra ? cases[_i].extra : "");
    OK(synth_record(&g, store, IQ_LEVEL_OPS, IQ_WRITE_GOLDEN, "golden", &err));
    struct iq_writer *w = scratch_begin(store, &s, replaced, IQ_LEVEL_OPS, "subject");
    struct iq_sink k = iq_writer_sink(w);
    ck_assert_int_eq(synth_run(&s, &k), IQ_OK);
    OK(iq_writer_finish(w, IQ_RUN_COMPLETE, NULL, &err));
    struct iq_finding *f = compare_recorded(NULL, NULL);
    ck_assert_int_eq(f->label, IQ_LABEL_INCONCLUSIVE);
    ck_assert_msg(strstr(f->reason, cases[_i].word) != NULL, "%s", f->reason);
    iq_finding_free(f);
}
END_TEST

START_TEST(missing_requests_are_counted_and_never_identical)
{
    struct synth s = BASE;
    s.label = "subject";
    s.requests = 20;
    struct iq_finding *f = diff(&BASE, &s, IQ_LEVEL_CHAIN, IQ_LEVEL_CHAIN, NULL, NULL);
    ck_assert_uint_eq(f->missing, 4);
    ck_assert_int_eq(f->label, IQ_LABEL_INCONCLUSIVE);
    iq_finding_free(f);
}
END_TEST

START_TEST(nan_on_both_sides_is_crashed_never_identical)
{
    struct synth g = BASE, s = BASE;
    g.nan_at = s.nan_at = 7;
    s.label = "subject";
    struct iq_finding *f = diff(&g, &s, IQ_LEVEL_CHAIN, IQ_LEVEL_CHAIN, NULL, NULL);
    ck_assert_int_eq(f->label, IQ_LABEL_CRASHED);
    iq_finding_free(f);
}
END_TEST

/* ---- triggers ---- */

/* A fault at some positions only. */
struct when {
    int phase, layer; /* -1: any */
    uint32_t least_pos, batch;
    const char *op;
};
static int strike_when(void *ctx, const struct synth_site *s)
{
    const struct when *w = ctx;
    if (strcmp(s->node->op, w->op) || s->pos < w->least_pos) return 0;
    if (w->phase >= 0 && w->phase != !s->prefill) return 0;
    if (w->layer >= 0 && w->layer != s->node->layer) return 0;
    return !w->batch || w->batch == s->batch ? STRIKE : 0;
}

static struct iq_finding *diff_when(struct when *w, uint32_t (*sizes)(void *, uint32_t, uint32_t))
{
    struct synth s = BASE;
    s.label = "subject";
    s.batch = sizes;
    s.strike = strike_when;
    s.ctx = w;
    return diff(&BASE, &s, IQ_LEVEL_OPS, IQ_LEVEL_OPS, NULL, NULL);
}

/* Sizes that hint at the phase, and do not tell it. */
static uint32_t batch_by_phase(void *ctx, uint32_t request, uint32_t pos)
{
    (void)ctx;
    return pos < 5 ? 3 + (request + pos) % 2 : 1 + (request * 5 + pos / 3) % 4;
}

START_TEST(a_fault_of_one_phase_is_told_by_its_phase_and_not_by_the_sizes_that_go_with_it)
{
    struct when w = {.phase = _i & 1, .layer = -1, .op = "k"};
    struct iq_finding *f = diff_when(&w, _i & 2 ? batch_by_phase : batch);
    const struct iq_trigger *t = &f->guilty[0].trigger;
    ck_assert(t->found);
    ck_assert_int_eq(t->attr, IQ_ATTR_PHASE);
    ck_assert_uint_eq(t->n_buckets, 2);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(t->bucket[i].in, (int)t->bucket[i].value == w.phase);
        ck_assert_uint_eq(t->bucket[i].struck, t->bucket[i].in ? t->bucket[i].positions : 0);
    }
    iq_finding_free(f);
}
END_TEST

START_TEST(a_fault_from_a_position_on_is_told_as_a_range_of_positions)
{
    struct when w = {.phase = -1, .layer = -1, .least_pos = 9, .op = "k"};
    struct iq_finding *f = diff_when(&w, batch);
    const struct iq_trigger *t = &f->guilty[0].trigger;
    ck_assert(t->found && t->range);
    ck_assert_int_eq(t->attr, IQ_ATTR_POS);
    for (size_t i = 0; i < t->n_buckets; i++) ck_assert_int_eq(t->bucket[i].in, t->bucket[i].value >= 9);
    iq_finding_free(f);
}
END_TEST

START_TEST(one_batch_size_alone_is_no_trigger_and_says_so)
{
    struct when w = {.phase = -1, .layer = -1, .batch = 4, .op = "k"};
    struct iq_finding *f = diff_when(&w, NULL);
    ck_assert(!f->guilty[0].trigger.found);
    ck_assert_ptr_nonnull(strstr(f->guilty[0].trigger.reason, "only one batch size was seen"));
    iq_finding_free(f);
}
END_TEST

static uint32_t batch_mostly_four(void *ctx, uint32_t request, uint32_t pos)
{
    (void)ctx;
    return pos >= 20 && request > 20 ? 2 : 4;
}

START_TEST(a_size_of_nearly_all_steps_is_told_when_just_the_others_are_clean)
{
    struct when w = {.phase = -1, .layer = -1, .batch = 4, .op = "k"};
    struct iq_finding *f = diff_when(&w, batch_mostly_four);
    const struct iq_trigger *t = &f->guilty[0].trigger;
    ck_assert(t->found);
    ck_assert_int_eq(t->attr, IQ_ATTR_BATCH);
    iq_finding_free(f);
}
END_TEST

START_TEST(a_fault_of_one_layer_says_so_and_one_of_all_does_not)
{
    struct when w = {.phase = 1, .layer = _i ? 1 : -1, .op = "ffn"};
    struct iq_finding *f = diff_when(&w, batch);
    ck_assert_int_eq(f->guilty[0].trigger.attr, IQ_ATTR_PHASE);
    ck_assert_int_eq(f->guilty[0].layers_told, _i);
    if (_i) ck_assert_uint_eq(f->guilty[0].layer[0], 1);
    iq_finding_free(f);
}
END_TEST

START_TEST(a_missing_trigger_is_not_blamed_on_one_batch_size_when_others_were_seen)
{
    struct when w = {.phase = -1, .layer = -1, .op = "embed"};
    struct iq_finding *f = diff_when(&w, batch);
    ck_assert(!f->guilty[0].trigger.found);
    ck_assert_ptr_null(strstr(f->guilty[0].trigger.reason, "only one batch size was seen"));
    iq_finding_free(f);
}
END_TEST

/* ---- identical, three ways ---- */

START_TEST(identical_runs_say_whether_a_fault_was_planned_fired_or_masked)
{
    static const char *const words[] = {"identical: no fault was planned",
                                        "identical: the plan's faults never fired (check their `when`)",
                                        "masked: fired 2 times over 5 rows, no bit changed"};
    struct synth s = BASE;
    s.label = "subject";
    s.extra = _i ? ",\"plan\":{\"faults\":[{\"op\":\"topk\",\"variant\":\"x\"}]}" : NULL;
    char *manifest = synth_manifest(&s);
    OK(synth_record(&BASE, store, IQ_LEVEL_CHAIN, IQ_WRITE_GOLDEN, "golden", &err));
    struct iq_writer *w = scratch_begin(store, &s, manifest, IQ_LEVEL_CHAIN, "subject");
    struct iq_sink k = iq_writer_sink(w);
    for (uint32_t rows = 2; _i == 2 && rows < 4; rows++) k.fired(k.self, &(struct iq_firing){.rows = rows});
    ck_assert_int_eq(synth_run(&s, &k), IQ_OK);
    OK(iq_writer_finish(w, IQ_RUN_COMPLETE, NULL, &err));
    struct iq_finding *f = compare_recorded(NULL, NULL);
    ck_assert_int_eq(f->label, IQ_LABEL_IDENTICAL);
    ck_assert_msg(!strncmp(f->reason, words[_i], strlen(words[_i])), "%s", f->reason);
    ck_assert_int_eq(iq_finding_term(f) != NULL, _i == 2);
    iq_finding_free(f);
    free(manifest);
}
END_TEST

START_TEST(labels_are_read_by_name)
{
    enum iq_label l;
    OK(iq_label_from_name("wrong", &l, &err));
    ck_assert_int_eq(l, IQ_LABEL_WRONG);
    ck_assert_int_eq(iq_label_from_name("broken", &l, &err), IQ_USAGE);
    ck_assert_ptr_nonnull(strstr(err.text, "crashed"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("compare");
    TCase *t = tcase_create("compare");
    tcase_add_checked_fixture(t, compare_set_up, compare_tear_down);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, equal_runs_under_other_batching_are_identical);
    tcase_add_loop_test(t, one_struck_cell_is_the_one_guilty_cell, 0, 13);
    tcase_add_test(t, a_fault_at_one_batch_size_is_found_with_its_trigger);
    tcase_add_loop_test(t, without_cells_topk_and_sample_and_head_are_still_told_apart, 0, 3);
    tcase_add_test(t, without_cells_an_earlier_op_is_unknown_and_says_what_to_do);
    tcase_add_test(t, a_fault_everywhere_has_no_trigger_and_says_why);
    tcase_add_loop_test(t, flips_at_ties_stay_benign_and_at_clear_margins_do_not, 0, 2);
    tcase_add_test(t, what_was_not_judged_in_vitro_is_suspect_at_most);
    tcase_add_loop_test(t, unlike_runs_are_inconclusive_and_say_why, 0, 3);
    tcase_add_test(t, missing_requests_are_counted_and_never_identical);
    tcase_add_test(t, nan_on_both_sides_is_crashed_never_identical);
    tcase_add_loop_test(t, a_fault_of_one_phase_is_told_by_its_phase_and_not_by_the_sizes_that_go_with_it, 0,
                        4);
    tcase_add_test(t, a_fault_from_a_position_on_is_told_as_a_range_of_positions);
    tcase_add_test(t, one_batch_size_alone_is_no_trigger_and_says_so);
    tcase_add_test(t, a_size_of_nearly_all_steps_is_told_when_just_the_others_are_clean);
    tcase_add_loop_test(t, a_fault_of_one_layer_says_so_and_one_of_all_does_not, 0, 2);
    tcase_add_test(t, a_missing_trigger_is_not_blamed_on_one_batch_size_when_others_were_seen);
    tcase_add_loop_test(t, identical_runs_say_whether_a_fault_was_planned_fired_or_masked, 0, 3);
    tcase_add_test(t, labels_are_read_by_name);
    suite_add_tcase(suite, t);
    return check_main(suite);
}
