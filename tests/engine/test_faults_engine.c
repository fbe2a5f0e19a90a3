/* The eight faults inside the engine: what is armed but does not strike changes nothing; what strikes changes chains or
 * is masked, as the firing log says; and the comparator, which never reads that log, names op and label. */
#include "tests/engine/eight_faults.h"
#include "tests/engine/finding_rig.h"

#include "faults/faultset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUESTS = 14, LONGEST = 44, ANSWER = 8, STEM = 36, BATCH = 4 };

static void open_all(void)
{
    models_open();
    set = iq_rig_set_make(
        11, &(struct iq_rig_shape){REQUESTS, models[0][1]->config.vocab, LONGEST, ANSWER, STEM, false});
}

/* ---- one fault, armed ---- */

struct armed {
    struct iq_fault fault;
    struct iq_faultset *faults;
    struct iq_selector selector;
};

static char *fault_text(const struct entry *e, const char *op, const char *more)
{
    static char text[512];
    snprintf(text, sizeof text, "{\"op\":\"%s\",\"variant\":\"%s\",\"params\":%s%s}", op, e->variant,
             e->params, more);
    return text;
}

static void arm(struct armed *a, const char *text)
{
    struct iq_err err = {0};
    cJSON *json;
    int status = iq_json_parse(text, strlen(text), "fault", &json, &err);
    if (status == IQ_OK) status = iq_fault_parse(json, "fault", &a->fault, &err);
    if (status == IQ_OK) status = iq_faultset_open(&a->fault, 1, 3, &a->faults, &err);
    ck_assert_msg(status == IQ_OK, "%s: %s", text, err.text);
    iq_faultset_selector(a->faults, &a->selector);
    iq_json_free(json);
}

static void disarm(struct armed *a)
{
    iq_faultset_close(a->faults);
    iq_fault_free(&a->fault);
}

static struct iq_engine_config config(void)
{
    struct iq_engine_config c = IQ_ENGINE_CONFIG;
    c.batch = BATCH;
    return c;
}

static void run(struct iq_rig *g, const struct iq_model *m, const struct iq_selector *faults,
                const struct iq_engine_config *c)
{
    iq_rig_run(g, m, c, set.request, set.n, faults, false);
}

static uint32_t differing(const struct iq_model *m, const struct iq_engine_config *c,
                          const struct iq_rig *subject)
{
    struct iq_rig golden;
    run(&golden, m, NULL, c);
    uint32_t n = iq_rig_differing(&golden, subject);
    iq_rig_close(&golden);
    return n;
}

static void unharmed(const struct entry *e, const char *more, const struct iq_engine_config *c, bool may_fire)
{
    struct armed a;
    struct iq_rig g;
    arm(&a, fault_text(e, e->op, more));
    run(&g, model_of(e), &a.selector, c);
    ck_assert_msg(differing(model_of(e), c, &g) == 0, "%s%s changed a chain", e->family, more);
    ck_assert_msg((may_fire || g.seen.fired == 0) && g.seen.changed == 0, "%s%s: %u fired, %u rows changed",
                  e->family, more, g.seen.fired, g.seen.changed);
    iq_rig_close(&g);
    disarm(&a);
}

START_TEST(rate_zero_and_triggers_that_never_hold_change_nothing)
{
    const struct iq_engine_config c = config();
    unharmed(&entries[_i], ",\"rate\":0", &c, false);
    unharmed(&entries[_i], ",\"when\":{\"batch\":77}", &c, false);
    unharmed(&entries[_i], ",\"when\":{\"tracing\":true}", &c, false);
}
END_TEST

START_TEST(a_fault_that_strikes_changes_chains)
{
    const struct entry *e = &entries[_i];
    const struct iq_engine_config c = config();
    struct armed a;
    struct iq_rig g;
    arm(&a, fault_text(e, e->op, ""));
    run(&g, model_of(e), &a.selector, &c);
    uint32_t n = differing(model_of(e), &c, &g);
    ck_assert_msg(g.seen.fired > 0 && g.seen.changed > 0 && n > 0,
                  "%s: %u fired, %u rows changed, %u of %u differ", e->family, g.seen.fired, g.seen.changed,
                  n, set.n);
    iq_rig_close(&g);
    disarm(&a);
}
END_TEST

START_TEST(a_batch_trigger_strikes_in_those_steps_only)
{
    const struct entry *e = &entries[_i];
    const struct iq_engine_config c = config();
    struct armed a;
    struct iq_rig g;
    uint32_t in = 0, out = 0;
    arm(&a, fault_text(e, e->op, ",\"when\":{\"batch\":[2,3]}"));
    run(&g, model_of(e), &a.selector, &c);
    for (uint32_t b = 0; b < 64; b++) *(b == 2 || b == 3 ? &in : &out) += g.seen.batches_fired[b];
    ck_assert_msg(in > 0 && out == 0, "%s: fired %u times at batch 2 and 3, %u times elsewhere", e->family,
                  in, out);
    iq_rig_close(&g);
    disarm(&a);
}
END_TEST

START_TEST(a_half_rate_strikes_some_rows_and_repeats)
{
    const struct entry *e = &entries[_i];
    const struct iq_engine_config c = config();
    struct armed a;
    struct iq_rig g, all, again;
    arm(&a, fault_text(e, e->op, ""));
    run(&all, model_of(e), &a.selector, &c);
    disarm(&a);
    arm(&a, fault_text(e, e->op, ",\"rate\":0.5,\"per\":\"row\""));
    run(&g, model_of(e), &a.selector, &c);
    run(&again, model_of(e), &a.selector, &c);
    ck_assert_msg(g.seen.rows > 0 && g.seen.rows < all.seen.rows, "%s: %u of %u rows", e->family, g.seen.rows,
                  all.seen.rows);
    ck_assert_uint_eq(iq_rig_differing(&g, &again), 0);
    ck_assert_uint_eq(g.seen.fired, again.seen.fired);
    iq_rig_close(&g), iq_rig_close(&all), iq_rig_close(&again);
    disarm(&a);
}
END_TEST

/* ---- masked ---- */

static const struct entry *entry(const char *family)
{
    for (int i = 0; i < ENTRIES; i++)
        if (!strcmp(entries[i].family, family)) return &entries[i];
    ck_abort_msg("no family %s", family);
}

START_TEST(a_stale_peer_on_one_rank_is_masked)
{
    struct entry e = *entry("K16");
    const struct iq_engine_config c = config();
    e.tp = 1;
    unharmed(&e, "", &c, true);
}
END_TEST

START_TEST(a_shard_merge_of_one_shard_is_masked)
{
    struct entry e = *entry("K2");
    const struct iq_engine_config c = config();
    e.params = "{\"shards\":1}";
    unharmed(&e, "", &c, true);
}
END_TEST

START_TEST(a_k_tail_of_whole_tiles_is_masked)
{
    struct entry e = *entry("K18");
    const struct iq_engine_config c = config();
    e.params = "{\"tile\":53}"; /* 901 is 17 times 53 */
    unharmed(&e, "", &c, true);
}
END_TEST

START_TEST(a_foreign_block_needs_a_hit)
{
    struct iq_engine_config c = config();
    c.prefix_min = 1000; /* the lookup runs, and what it finds is too short to be used */
    struct armed a;
    struct iq_rig g;
    arm(&a, fault_text(entry("K10"), "prefix", ""));
    run(&g, models[0][1], &a.selector, &c);
    ck_assert_uint_eq(iq_engine_stats(g.engine)->hits, 0);
    ck_assert_uint_eq(differing(models[0][1], &c, &g), 0);
    iq_rig_close(&g);
    disarm(&a);
    c = config();
    c.batch = 1;
    for (uint32_t i = 0; i < set.n; i++) { /* each prompt beside none that shares its head */
        const struct iq_request one = set.request[i];
        arm(&a, fault_text(entry("K10"), "prefix", ""));
        iq_rig_run(&g, models[0][1], &c, &one, 1, &a.selector, false);
        ck_assert_uint_eq(g.seen.changed, 0);
        iq_rig_close(&g);
        disarm(&a);
    }
}
END_TEST

START_TEST(a_foreign_block_harms_only_requests_with_a_hit)
{
    const struct iq_engine_config c = config();
    struct armed a;
    struct iq_rig g, golden;
    char why[256];
    uint32_t harmed = 0;
    arm(&a, fault_text(entry("K10"), "prefix", ""));
    run(&g, models[0][1], &a.selector, &c);
    run(&golden, models[0][1], NULL, &c);
    for (uint32_t i = 0; i < set.n; i++) {
        bool same = iq_rig_same(&golden, i, &g, i, why);
        harmed += !same;
        ck_assert_msg(same || iq_rig_output(&g, i)->cached > 0, "request %u had no hit: %s", i, why);
    }
    ck_assert_uint_gt(harmed, 0);
    iq_rig_close(&g), iq_rig_close(&golden);
    disarm(&a);
}
END_TEST

START_TEST(a_workaround_behind_the_fault_hides_it)
{
    const struct entry *e = &entries[_i];
    const struct iq_engine_config c = config();
    struct iq_err err = {0};
    struct iq_fault faults[2];
    struct iq_faultset *armed;
    struct iq_selector selector;
    struct iq_rig g;
    char workaround[128];
    const struct iq_kind *kind = iq_op_kind((enum iq_op_id)iq_op_find(e->op));
    snprintf(workaround, sizeof workaround, "{\"op\":\"%s\",\"variant\":\"reference\"}", e->op);
    const char *texts[2] = {fault_text(e, e->op, ""), workaround};
    for (int i = 0; i < 2; i++) {
        cJSON *json;
        ck_assert_int_eq(iq_json_parse(texts[i], strlen(texts[i]), "fault", &json, &err), IQ_OK);
        ck_assert_msg(iq_fault_parse(json, "fault", &faults[i], &err) == IQ_OK, "%s", err.text);
        iq_json_free(json);
    }
    ck_assert_ptr_nonnull(iq_variant_find(kind->name, "reference"));
    ck_assert_int_eq(iq_faultset_open(faults, 2, 3, &armed, &err), IQ_OK);
    iq_faultset_selector(armed, &selector);
    run(&g, model_of(e), &selector, &c);
    ck_assert_uint_eq(g.seen.fired, 0);
    ck_assert_uint_eq(differing(model_of(e), &c, &g), 0);
    iq_rig_close(&g);
    iq_faultset_close(armed);
    iq_fault_free(&faults[0]), iq_fault_free(&faults[1]);
}
END_TEST

/* ---- through the store and the comparator ---- */

static void record(struct iq_store *store, const char *name, const struct iq_model *m, const char *plan,
                   const struct iq_selector *faults)
{
    struct iq_engine_config c = config();
    c.level = IQ_LEVEL_OPS;
    iq_rig_record(store, name, m, &c, set.request, set.n, plan, faults, NULL);
}

static struct iq_finding *recorded_finding(const struct entry *e, const char *more)
{
    struct iq_err err = {0};
    struct iq_store *store;
    struct iq_store_tally tally;
    struct armed a;
    const struct iq_store_options create = {.create = true};
    char plan[512];
    ck_assert_msg(iq_store_open(iq_scratch("store"), &create, &store, &err) == IQ_OK, "%s", err.text);
    snprintf(plan, sizeof plan, "%s", fault_text(e, e->op, more));
    record(store, "golden", model_of(e), NULL, NULL);
    arm(&a, plan);
    record(store, "subject", model_of(e), plan, &a.selector);
    disarm(&a);
    ck_assert_msg(iq_store_verify(store, &tally, &err) == IQ_OK, "%s: %s", e->family, err.text);
    struct iq_finding *f = iq_rig_compare(store);
    iq_store_close(store);
    return f;
}

START_TEST(the_comparator_names_the_op_and_the_label)
{
    const struct entry *e = &entries[_i];
    struct iq_finding *f = recorded_finding(e, "");
    ck_assert_msg(f->label == e->label, "%s: label %s (%s), expected %s", e->family,
                  iq_label_text((int)f->label), f->reason, iq_label_text((int)e->label));
    ck_assert_msg(f->n_guilty > 0 && !strcmp(f->guilty[0].op, e->guilty), "%s: guilty %s, expected %s",
                  e->family, f->n_guilty ? f->guilty[0].op : "none", e->guilty);
    for (size_t i = 0; i < f->n_guilty; i++)
        ck_assert_msg(!strcmp(f->guilty[i].op, e->guilty), "%s: %s is called guilty too", e->family,
                      f->guilty[i].op);
    iq_finding_free(f);
}
END_TEST

START_TEST(what_never_strikes_is_identical)
{
    struct iq_finding *f = recorded_finding(&entries[_i], ",\"when\":{\"batch\":77}");
    ck_assert_msg(f->label == IQ_LABEL_IDENTICAL, "%s: label %s (%s)", entries[_i].family,
                  iq_label_text((int)f->label), f->reason);
    iq_finding_free(f);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("faults in the engine");
    TCase *c = tcase_create("faults");
    tcase_set_timeout(c, 300);
    tcase_add_checked_fixture(c, open_all, close_all);
    tcase_add_loop_test(c, rate_zero_and_triggers_that_never_hold_change_nothing, 0, ENTRIES);
    tcase_add_loop_test(c, a_fault_that_strikes_changes_chains, 0, ENTRIES);
    tcase_add_loop_test(c, a_batch_trigger_strikes_in_those_steps_only, 0, ENTRIES);
    tcase_add_loop_test(c, a_half_rate_strikes_some_rows_and_repeats, 0, ENTRIES);
    tcase_add_loop_test(c, a_workaround_behind_the_fault_hides_it, 0, ENTRIES);
    tcase_add_test(c, a_stale_peer_on_one_rank_is_masked);
    tcase_add_test(c, a_shard_merge_of_one_shard_is_masked);
    tcase_add_test(c, a_k_tail_of_whole_tiles_is_masked);
    tcase_add_test(c, a_foreign_block_needs_a_hit);
    tcase_add_test(c, a_foreign_block_harms_only_requests_with_a_hit);
    tcase_add_loop_test(c, the_comparator_names_the_op_and_the_label, 0, ENTRIES);
    tcase_add_loop_test(c, what_never_strikes_is_identical, 0, ENTRIES);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
