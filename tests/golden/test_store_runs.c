/* Runs of a store: names, ids, life cycle. */
#include "tests/check_main.h"
#include "tests/golden/store_scratch.h"

#include <stdlib.h>
#include <string.h>

START_TEST(a_run_is_found_by_name_id_and_prefix)
{
    struct iq_store *s = scratch_open(&dir, 0);
    OK(synth_record(&SYNTH_SMALL, s, IQ_LEVEL_CHAIN, IQ_WRITE_GOLDEN, "golden", &err));
    struct iq_run_info a, b;
    OK(iq_store_find(s, "golden", &a, &err));
    OK(iq_store_find(s, a.id, &b, &err));
    ck_assert_uint_eq(a.ordinal, b.ordinal);
    char prefix[9];
    memcpy(prefix, a.id, 8);
    prefix[8] = 0;
    OK(iq_store_find(s, prefix, &b, &err));
    ck_assert_str_eq(b.name, "golden");
    ck_assert_int_eq(b.state, IQ_RUN_COMPLETE);
    ck_assert_uint_eq(b.requests, 5);
    ck_assert_int_eq(iq_store_find(s, "nothing", &b, &err), IQ_NOT_FOUND);
    iq_store_close(s);
}
END_TEST

START_TEST(a_name_moves_only_when_told)
{
    struct synth other = SYNTH_SMALL;
    other.label = "other";
    struct iq_store *s = scratch_open(&dir, 0);
    OK(synth_record(&SYNTH_SMALL, s, IQ_LEVEL_CHAIN, IQ_WRITE_GOLDEN, "golden", &err));
    ck_assert_int_eq(synth_record(&other, s, IQ_LEVEL_CHAIN, IQ_WRITE_TRIAL, "golden", &err), IQ_EXISTS);
    OK(synth_record(&other, s, IQ_LEVEL_CHAIN, IQ_WRITE_TRIAL, "two", &err));
    ck_assert_int_eq(iq_store_name(s, "two", "golden", false, &err), IQ_EXISTS);
    OK(iq_store_name(s, "two", "golden", true, &err));
    struct iq_run_info a, b;
    OK(iq_store_find(s, "golden", &a, &err));
    OK(iq_store_find(s, "two", &b, &err));
    ck_assert_str_eq(a.id, b.id);
    iq_store_close(s);
}
END_TEST

START_TEST(the_same_manifest_is_refused_unless_it_replaces)
{
    struct iq_store *s = scratch_open(&dir, 0);
    OK(synth_record(&SYNTH_SMALL, s, IQ_LEVEL_CHAIN, IQ_WRITE_TRIAL, "a", &err));
    ck_assert_int_eq(synth_record(&SYNTH_SMALL, s, IQ_LEVEL_CHAIN, IQ_WRITE_TRIAL, "a", &err), IQ_EXISTS);
    uint32_t n;
    struct iq_node *nodes = synth_nodes(&SYNTH_SMALL, &n);
    char *manifest = synth_manifest(&SYNTH_SMALL);
    struct iq_writer *w;
    struct iq_write_spec spec = {.manifest = manifest,
                                 .nodes = nodes,
                                 .n_nodes = n,
                                 .mode = IQ_WRITE_TRIAL,
                                 .name = "a",
                                 .replace = true};
    OK(iq_store_begin(s, &spec, &w, &err));
    struct iq_sink k = iq_writer_sink(w);
    ck_assert_int_eq(synth_run(&SYNTH_SMALL, &k), IQ_OK);
    OK(iq_writer_finish(w, IQ_RUN_COMPLETE, NULL, &err));
    struct iq_run_info *list;
    size_t count;
    OK(iq_store_runs(s, &list, &count, &err));
    ck_assert_uint_eq(count, 1);
    ck_assert_uint_eq(list[0].ordinal, 2);
    struct iq_store_tally sum;
    OK(iq_store_verify(s, &sum, &err));
    iq_store_close(s);
    free(list);
    free(nodes);
    free(manifest);
}
END_TEST

START_TEST(an_aborted_trial_leaves_nothing)
{
    struct iq_store *s = scratch_open(&dir, 0);
    struct synth y = SYNTH_SMALL;
    y.contents = true;
    struct iq_store_tally before, after;
    OK(iq_store_verify(s, &before, &err));
    struct iq_writer *w = scratch_begin(s, &y, "{\"a\":1}", IQ_LEVEL_TENSORS, "r");
    struct iq_sink k = iq_writer_sink(w);
    ck_assert_int_eq(synth_run(&y, &k), IQ_OK);
    iq_writer_abort(w);
    struct iq_run_info *list;
    size_t count;
    OK(iq_store_runs(s, &list, &count, &err));
    ck_assert_uint_eq(count, 0);
    OK(iq_store_verify(s, &after, &err));
    ck_assert_uint_le(after.pages, before.pages + 2);
    iq_store_close(s);
    free(list);
}
END_TEST

START_TEST(a_crashed_run_says_why_and_drops_what_was_in_flight)
{
    struct iq_store *s = scratch_open(&dir, 0);
    struct iq_writer *w = scratch_begin(s, &SYNTH_SMALL, "{}", IQ_LEVEL_CHAIN, "r");
    struct iq_sink k = iq_writer_sink(w);
    for (uint32_t i = 0; i < 60; i++) /* more than a chunk, so that some of it is written */
        ck_assert_int_eq(k.position(k.self, &(struct iq_position){.request = 3, .pos = i, .state = 1}),
                         IQ_OK);
    OK(iq_writer_finish(w, IQ_RUN_CRASHED, "signal 11", &err));
    struct iq_trace t;
    OK(iq_store_trace(s, "r", &t, &err));
    ck_assert_int_eq(t.state, IQ_RUN_CRASHED);
    ck_assert_str_eq(t.message, "signal 11");
    const struct iq_position *p;
    size_t count;
    ck_assert_int_eq(t.positions(t.self, 3, &p, &count, &err), IQ_NOT_FOUND);
    iq_trace_close(&t);
    iq_store_close(s);
}
END_TEST

START_TEST(a_crash_never_takes_the_place_of_the_same_trial_s_whole_run)
{
    static const enum iq_run_state end[] = {IQ_RUN_CRASHED, IQ_RUN_COMPLETE, IQ_RUN_CRASHED, IQ_RUN_COMPLETE};
    struct iq_store *s = scratch_open(&dir, 0);
    struct iq_run_info *list;
    size_t count;
    uint32_t n;
    struct iq_node *nodes = synth_nodes(&SYNTH_SMALL, &n);
    char *manifest = synth_manifest(&SYNTH_SMALL);
    for (unsigned i = 0; i < 4; i++) {
        struct iq_writer *w;
        struct iq_write_spec spec = {.manifest = manifest,
                                     .nodes = nodes,
                                     .n_nodes = n,
                                     .level = IQ_LEVEL_CHAIN,
                                     .mode = IQ_WRITE_TRIAL,
                                     .replace = true};
        OK(iq_store_begin(s, &spec, &w, &err));
        struct iq_sink k = iq_writer_sink(w);
        if (end[i] == IQ_RUN_COMPLETE) ck_assert_int_eq(synth_run(&SYNTH_SMALL, &k), IQ_OK);
        OK(iq_writer_finish(w, end[i], "signal 11", &err));
    }
    OK(iq_store_runs(s, &list, &count, &err));
    ck_assert_uint_eq(count, 2);
    ck_assert_int_eq(list[0].state, IQ_RUN_CRASHED);
    ck_assert_int_eq(list[1].state, IQ_RUN_COMPLETE);
    struct iq_store_tally sum;
    OK(iq_store_verify(s, &sum, &err)); /* ids are the digests of manifests still */
    iq_store_close(s);
    free(list), free(nodes), free(manifest);
}
END_TEST

START_TEST(removing_a_run_keeps_contents_that_another_names)
{
    struct synth a = SYNTH_SMALL, b = SYNTH_SMALL;
    a.contents = b.contents = true;
    b.label = "twin";
    struct iq_store *s = scratch_open(&dir, 0);
    OK(synth_record(&a, s, IQ_LEVEL_TENSORS, IQ_WRITE_GOLDEN, "a", &err));
    struct iq_store_tally one, two, after;
    OK(iq_store_verify(s, &one, &err));
    OK(synth_record(&b, s, IQ_LEVEL_TENSORS, IQ_WRITE_TRIAL, "b", &err));
    OK(iq_store_verify(s, &two, &err));
    ck_assert_uint_lt(two.pages, one.pages * 3 / 2); /* contents are stored once */
    OK(iq_store_rm(s, "a", NULL, &err));
    OK(iq_store_verify(s, &after, &err));
    ck_assert_uint_eq(after.runs, 1);
    ck_assert_uint_eq(after.tensors, one.tensors);
    OK(iq_store_rm(s, "b", NULL, &err));
    OK(iq_store_verify(s, &after, &err));
    ck_assert_uint_lt(after.pages, 40);
    iq_store_close(s);
}
END_TEST

START_TEST(a_run_has_several_names_and_goes_with_the_last)
{
    struct iq_store *s = scratch_open(&dir, 0);
    OK(synth_record(&SYNTH_SMALL, s, IQ_LEVEL_CHAIN, IQ_WRITE_TRIAL, "topk", &err));
    OK(iq_store_name(s, "topk", "topk2", false, &err));
    OK(iq_store_name(s, "topk", "a", false, &err));
    struct iq_run_info info;
    char(*names)[IQ_STORE_NAME + 1], left[IQ_DIGEST_HEX];
    size_t n;
    OK(iq_store_find(s, "topk", &info, &err));
    OK(iq_store_names(s, info.id, &names, &n, &err));
    ck_assert_uint_eq(n, 3);
    ck_assert_str_eq(names[0], "a");
    ck_assert_str_eq(names[1], "topk");
    ck_assert_str_eq(names[2], "topk2");
    free(names);
    OK(iq_store_rm(s, "topk", left, &err));
    ck_assert_str_eq(left, info.id);
    OK(iq_store_rm(s, "a", left, &err));
    ck_assert_int_eq(iq_store_find(s, "topk", &info, &err), IQ_NOT_FOUND);
    OK(iq_store_find(s, "topk2", &info, &err));
    ck_assert_uint_eq(info.n_names, 1);
    OK(iq_store_rm(s, "topk2", left, &err));
    ck_assert_str_eq(left, "");
    ck_assert_int_eq(iq_store_find(s, left, &info, &err), IQ_NOT_FOUND);
    OK(synth_record(&SYNTH_SMALL, s, IQ_LEVEL_CHAIN, IQ_WRITE_TRIAL, "b", &err));
    OK(iq_store_name(s, "b", "c", false, &err));
    OK(iq_store_find(s, "b", &info, &err));
    OK(iq_store_rm(s, info.id, left, &err)); /* by id: with all of its names */
    ck_assert_str_eq(left, "");
    ck_assert_int_eq(iq_store_find(s, "c", &info, &err), IQ_NOT_FOUND);
    iq_store_close(s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store runs");
    TCase *t = tcase_create("store runs");
    tcase_add_checked_fixture(t, scratch_on_disk, scratch_drop);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_run_is_found_by_name_id_and_prefix);
    tcase_add_test(t, a_name_moves_only_when_told);
    tcase_add_test(t, the_same_manifest_is_refused_unless_it_replaces);
    tcase_add_test(t, an_aborted_trial_leaves_nothing);
    tcase_add_test(t, a_crashed_run_says_why_and_drops_what_was_in_flight);
    tcase_add_test(t, a_crash_never_takes_the_place_of_the_same_trial_s_whole_run);
    tcase_add_test(t, removing_a_run_keeps_contents_that_another_names);
    tcase_add_test(t, a_run_has_several_names_and_goes_with_the_last);
    suite_add_tcase(suite, t);
    return check_main(suite);
}
