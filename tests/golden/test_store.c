#include "tests/golden/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct scratch dir;
static struct iq_err err;

static void set_up(void)
{
    err = (struct iq_err){0};
    scratch_make(&dir, false);
}
static void tear_down(void) { scratch_drop(&dir); }

static const struct synth SMALL = {
    .layers = 2, .requests = 5, .prompt = 6, .generate = 40, .group = 3, .seed = 11, .label = "small"};

/* ---- what a run holds ---- */

struct seen {
    struct iq_position pos[5][64];
    struct iq_digest cell[5][64][32];
    struct iq_digest chain[5];
    uint32_t n_ids[5];
};
static int see_row(void *self, const struct iq_cell *c, struct iq_digest d, const void *bytes, size_t n)
{
    (void)bytes, (void)n;
    ((struct seen *)self)->cell[c->request][c->pos][c->node] = d;
    return IQ_OK;
}
static int see_position(void *self, const struct iq_position *p)
{
    ((struct seen *)self)->pos[p->request][p->pos] = *p;
    return IQ_OK;
}
static int see_done(void *self, const struct iq_request_end *e)
{
    ((struct seen *)self)->chain[e->request] = e->chain;
    ((struct seen *)self)->n_ids[e->request] = e->n_ids;
    return IQ_OK;
}

START_TEST(what_is_recorded_is_read_back)
{
    struct synth y = SMALL;
    y.contents = true;
    struct seen *seen = calloc(1, sizeof *seen);
    struct iq_sink sink = {seen, see_row, see_position, NULL, see_done};
    ck_assert_int_eq(synth_run(&y, &sink), IQ_OK);
    struct iq_store *s = scratch_open(&dir, 0);
    OK(synth_record(&y, s, IQ_LEVEL_TENSORS, IQ_WRITE_GOLDEN, "golden", &err));
    struct iq_trace t;
    OK(iq_store_trace(s, "golden", &t, &err));
    struct iq_request_end e;
    uint32_t met = 0;
    for (uint32_t at = 0; t.request(t.self, at, &e, &err) == IQ_OK; at = e.request + 1, met++) {
        const struct iq_position *p;
        size_t n;
        char id[16];
        snprintf(id, sizeof id, "q%u", e.request);
        ck_assert_str_eq(e.id, id);
        ck_assert_uint_eq(e.n_ids, seen->n_ids[e.request]);
        ck_assert(iq_digest_equal(e.chain, seen->chain[e.request]));
        OK(t.positions(t.self, e.request, &p, &n, &err));
        ck_assert_uint_eq(n, 45);
        ck_assert_mem_eq(p, seen->pos[e.request], n * sizeof *p);
        for (uint32_t i = 0; i < n; i++) {
            const struct iq_digest *d;
            const uint8_t *state;
            OK(t.cells(t.self, e.request, i, 0, &d, &state, &err));
            for (uint32_t k = 0; k < t.n_nodes; k++) {
                ck_assert_uint_eq(
                    state[k], p[i].has_logits || !(t.nodes[k].flags & IQ_NODE_LOGITS) ? IQ_CELL_COMPUTED : 0);
                if (state[k]) ck_assert(iq_digest_equal(d[k], seen->cell[e.request][i][k]));
            }
        }
        struct iq_cell c = {.request = e.request, .pos = 44, .node = (uint16_t)(t.n_nodes - 4)};
        const void *bytes;
        OK(t.tensor(t.self, &c, &bytes, &n, &err));
        ck_assert_uint_eq(n, 4 * SYNTH_VOCAB);
        ck_assert(iq_digest_equal(iq_digest_row(bytes, SYNTH_VOCAB, 4), p[44].logits));
    }
    ck_assert_uint_eq(met, 5);
    iq_trace_close(&t);
    struct iq_store_tally sum;
    OK(iq_store_verify(s, &sum, &err));
    ck_assert_uint_eq(sum.positions, 5 * 45);
    iq_store_close(s);
    free(seen);
}
END_TEST

START_TEST(a_later_attempt_replaces_a_position_and_keeps_its_prediction)
{
    struct synth y = SMALL;
    uint32_t n;
    struct iq_node *nodes = synth_nodes(&y, &n);
    struct iq_store *s = scratch_open(&dir, 0);
    struct iq_writer *w;
    struct iq_write_spec spec = {
        .manifest = "{}", .nodes = nodes, .n_nodes = n, .mode = IQ_WRITE_TRIAL, .name = "r"};
    OK(iq_store_begin(s, &spec, &w, &err));
    struct iq_sink k = iq_writer_sink(w);
    struct iq_position p = {
        .token = 3, .next = 9, .has_logits = 1, .state = 1, .step = 1, .body = {1, 1}, .logits = {2, 2}};
    struct iq_position again = {.token = 3, .state = 1, .step = 7, .attempt = 1, .body = {1, 1}};
    ck_assert_int_eq(k.position(k.self, &p), IQ_OK);
    ck_assert_int_eq(k.position(k.self, &again), IQ_OK);
    uint32_t ids[2] = {3, 9};
    struct iq_request_end e = {.id = "a",
                               .ids = ids,
                               .n_ids = 2,
                               .n_prompt = 1,
                               .chain = iq_digest_chain((struct iq_digest){0, 0}, 3, iq_position_digest(&p))};
    ck_assert_int_eq(k.done(k.self, &e), IQ_OK);
    OK(iq_writer_finish(w, IQ_RUN_COMPLETE, NULL, &err));
    struct iq_trace t;
    const struct iq_position *got;
    size_t count;
    OK(iq_store_trace(s, "r", &t, &err));
    OK(t.positions(t.self, 0, &got, &count, &err));
    ck_assert_uint_eq(count, 1);
    ck_assert_uint_eq(got->attempt, 1);
    ck_assert_uint_eq(got->step, 7);
    ck_assert_uint_eq(got->next, 9);
    iq_trace_close(&t);
    OK(iq_store_verify(s, &(struct iq_store_tally){0}, &err));
    iq_store_close(s);
    free(nodes);
}
END_TEST

START_TEST(the_firing_log_keeps_its_order_over_chunks)
{
    struct synth y = SMALL;
    uint32_t n;
    struct iq_node *nodes = synth_nodes(&y, &n);
    struct iq_store *s = scratch_open(&dir, 0);
    struct iq_writer *w;
    struct iq_write_spec spec = {
        .manifest = "{}", .nodes = nodes, .n_nodes = n, .mode = IQ_WRITE_TRIAL, .name = "r"};
    OK(iq_store_begin(s, &spec, &w, &err));
    struct iq_sink k = iq_writer_sink(w);
    for (uint32_t i = 0; i < 300; i++)
        ck_assert_int_eq(k.fired(k.self, &(struct iq_firing){.step = i}), IQ_OK);
    OK(iq_writer_finish(w, IQ_RUN_COMPLETE, NULL, &err));
    struct iq_trace t;
    struct iq_firing f;
    OK(iq_store_trace(s, "r", &t, &err));
    for (uint32_t i = 0; i < 300; i++) {
        OK(t.firing(t.self, i, &f, &err));
        ck_assert_uint_eq(f.step, i);
    }
    ck_assert_int_eq(t.firing(t.self, 300, &f, &err), IQ_NOT_FOUND);
    iq_trace_close(&t);
    OK(iq_store_verify(s, &(struct iq_store_tally){0}, &err));
    iq_store_close(s);
    free(nodes);
}
END_TEST

/* Passes a run on with one lie in it. */
struct liar {
    struct iq_sink to;
    int what;
};
static int lie_row(void *self, const struct iq_cell *c, struct iq_digest d, const void *bytes, size_t n)
{
    struct liar *l = self;
    if (l->what == 0 && c->request == 2 && c->pos == 5 && c->node == 3) d.lo ^= 1; /* contents, and a body */
    if (l->what == 1 && c->request == 2 && c->pos == 5 && c->node == 3) return IQ_OK;
    return l->to.row(l->to.self, c, d, bytes, n);
}
static int lie_position(void *self, const struct iq_position *p)
{
    struct liar *l = self;
    struct iq_position q = *p;
    if (l->what == 2 && p->request == 2 && p->pos == 8) q.logits.hi ^= 1;
    if (l->what == 3 && p->request == 2 && p->pos == 8) q.token ^= 1;
    return l->to.position(l->to.self, &q);
}
static int lie_done(void *self, const struct iq_request_end *e)
{
    struct liar *l = self;
    struct iq_request_end q = *e;
    if (l->what == 4 && e->request == 2) q.chain.lo ^= 1;
    return l->to.done(l->to.self, &q);
}

START_TEST(verify_sees_each_kind_of_lie)
{
    struct synth y = SMALL;
    uint32_t n;
    y.contents = true;
    struct iq_node *nodes = synth_nodes(&y, &n);
    struct iq_store *s = scratch_open(&dir, 0);
    struct iq_writer *w;
    struct iq_write_spec spec = {.manifest = "{}",
                                 .nodes = nodes,
                                 .n_nodes = n,
                                 .level = IQ_LEVEL_TENSORS,
                                 .mode = IQ_WRITE_TRIAL,
                                 .name = "r"};
    OK(iq_store_begin(s, &spec, &w, &err));
    struct liar l = {iq_writer_sink(w), _i};
    struct iq_sink k = {&l, lie_row, lie_position, NULL, lie_done};
    ck_assert_int_eq(synth_run(&y, &k), IQ_OK);
    OK(iq_writer_finish(w, IQ_RUN_COMPLETE, NULL, &err));
    ck_assert_int_eq(iq_store_verify(s, &(struct iq_store_tally){0}, &err), IQ_MISMATCH);
    ck_assert_ptr_nonnull(strstr(err.text, "request 2"));
    iq_store_close(s);
    free(nodes);
}
END_TEST

/* ---- names, ids, life cycle ---- */

START_TEST(a_run_is_found_by_name_id_and_prefix)
{
    struct iq_store *s = scratch_open(&dir, 0);
    OK(synth_record(&SMALL, s, IQ_LEVEL_CHAIN, IQ_WRITE_GOLDEN, "golden", &err));
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
    struct synth other = SMALL;
    other.label = "other";
    struct iq_store *s = scratch_open(&dir, 0);
    OK(synth_record(&SMALL, s, IQ_LEVEL_CHAIN, IQ_WRITE_GOLDEN, "golden", &err));
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
    OK(synth_record(&SMALL, s, IQ_LEVEL_CHAIN, IQ_WRITE_TRIAL, "a", &err));
    ck_assert_int_eq(synth_record(&SMALL, s, IQ_LEVEL_CHAIN, IQ_WRITE_TRIAL, "a", &err), IQ_EXISTS);
    uint32_t n;
    struct iq_node *nodes = synth_nodes(&SMALL, &n);
    char *manifest = synth_manifest(&SMALL);
    struct iq_writer *w;
    struct iq_write_spec spec = {.manifest = manifest,
                                 .nodes = nodes,
                                 .n_nodes = n,
                                 .mode = IQ_WRITE_TRIAL,
                                 .name = "a",
                                 .replace = true};
    OK(iq_store_begin(s, &spec, &w, &err));
    struct iq_sink k = iq_writer_sink(w);
    ck_assert_int_eq(synth_run(&SMALL, &k), IQ_OK);
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
    uint32_t n;
    struct synth y = SMALL;
    y.contents = true;
    struct iq_node *nodes = synth_nodes(&y, &n);
    struct iq_writer *w;
    struct iq_write_spec spec = {.manifest = "{\"a\":1}",
                                 .nodes = nodes,
                                 .n_nodes = n,
                                 .level = IQ_LEVEL_TENSORS,
                                 .mode = IQ_WRITE_TRIAL,
                                 .name = "r"};
    struct iq_store_tally before, after;
    OK(iq_store_verify(s, &before, &err));
    OK(iq_store_begin(s, &spec, &w, &err));
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
    free(nodes);
}
END_TEST

START_TEST(a_crashed_run_says_why_and_drops_what_was_in_flight)
{
    struct iq_store *s = scratch_open(&dir, 0);
    uint32_t n;
    struct iq_node *nodes = synth_nodes(&SMALL, &n);
    struct iq_writer *w;
    struct iq_write_spec spec = {
        .manifest = "{}", .nodes = nodes, .n_nodes = n, .mode = IQ_WRITE_TRIAL, .name = "r"};
    OK(iq_store_begin(s, &spec, &w, &err));
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
    free(nodes);
}
END_TEST

START_TEST(removing_a_run_keeps_contents_that_another_names)
{
    struct synth a = SMALL, b = SMALL;
    a.contents = b.contents = true;
    b.label = "twin";
    struct iq_store *s = scratch_open(&dir, 0);
    OK(synth_record(&a, s, IQ_LEVEL_TENSORS, IQ_WRITE_GOLDEN, "a", &err));
    struct iq_store_tally one, two, after;
    OK(iq_store_verify(s, &one, &err));
    OK(synth_record(&b, s, IQ_LEVEL_TENSORS, IQ_WRITE_TRIAL, "b", &err));
    OK(iq_store_verify(s, &two, &err));
    ck_assert_uint_lt(two.pages, one.pages * 3 / 2); /* contents are stored once */
    OK(iq_store_rm(s, "a", &err));
    OK(iq_store_verify(s, &after, &err));
    ck_assert_uint_eq(after.runs, 1);
    ck_assert_uint_eq(after.tensors, one.tensors);
    OK(iq_store_rm(s, "b", &err));
    OK(iq_store_verify(s, &after, &err));
    ck_assert_uint_lt(after.pages, 40);
    iq_store_close(s);
}
END_TEST

/* ---- processes ---- */

START_TEST(one_store_opens_twice_in_a_process)
{
    struct iq_store *a = scratch_open(&dir, 0), *b = scratch_open(&dir, 0);
    OK(synth_record(&SMALL, a, IQ_LEVEL_CHAIN, IQ_WRITE_GOLDEN, "golden", &err));
    struct iq_trace x, y;
    OK(iq_store_trace(a, "golden", &x, &err));
    OK(iq_store_trace(b, "golden", &y, &err));
    ck_assert_str_eq(x.id, y.id);
    iq_trace_close(&x);
    iq_store_close(a);
    struct iq_request_end e;
    OK(y.request(y.self, 0, &e, &err));
    iq_trace_close(&y);
    iq_store_close(b);
}
END_TEST

START_TEST(a_handle_from_before_a_fork_is_refused_and_a_new_one_works)
{
    struct iq_store *s = scratch_open(&dir, 0);
    OK(synth_record(&SMALL, s, IQ_LEVEL_CHAIN, IQ_WRITE_GOLDEN, "golden", &err));
    struct iq_trace t;
    OK(iq_store_trace(s, "golden", &t, &err));
    pid_t pid = fork();
    if (!pid) {
        struct iq_run_info info;
        int bad = iq_store_find(s, "golden", &info, &err) != IQ_USAGE;
        struct iq_store *mine;
        bad |= iq_store_open(dir.store, NULL, &mine, &err) != IQ_OK;
        bad |= iq_store_find(mine, "golden", &info, &err) != IQ_OK;
        iq_store_close(mine);
        iq_store_close(s);
        _exit(bad);
    }
    int status;
    waitpid(pid, &status, 0);
    ck_assert_int_eq(status, 0);
    struct iq_request_end e;
    OK(t.request(t.self, 0, &e, &err));
    iq_trace_close(&t);
    iq_store_close(s);
}
END_TEST

START_TEST(a_second_writer_is_told_the_pid_of_the_first)
{
    struct iq_store *s = scratch_open(&dir, 0);
    uint32_t n;
    struct iq_node *nodes = synth_nodes(&SMALL, &n);
    struct iq_writer *w, *w2;
    struct iq_write_spec spec = {
        .manifest = "{}", .nodes = nodes, .n_nodes = n, .mode = IQ_WRITE_TRIAL, .name = "r"};
    OK(iq_store_begin(s, &spec, &w, &err));
    char pid[32];
    snprintf(pid, sizeof pid, "process %ld", (long)getpid());
    ck_assert_int_eq(iq_store_begin(s, &spec, &w2, &err), IQ_LIMIT);
    pid_t child = fork();
    if (!child) {
        struct iq_store *mine;
        int bad = iq_store_open(dir.store, NULL, &mine, &err) != IQ_OK;
        bad |= iq_store_begin(mine, &spec, &w2, &err) != IQ_LIMIT || !strstr(err.text, pid);
        iq_store_close(mine);
        _exit(bad);
    }
    int status;
    waitpid(child, &status, 0);
    ck_assert_int_eq(status, 0);
    iq_writer_abort(w);
    iq_store_close(s);
    free(nodes);
}
END_TEST

START_TEST(two_hundred_killed_readers_block_nobody)
{
    struct iq_store *s = scratch_open(&dir, 0);
    OK(synth_record(&SMALL, s, IQ_LEVEL_CHAIN, IQ_WRITE_GOLDEN, "golden", &err));
    iq_store_close(s);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 200; i++) {
            pid_t pid = fork();
            if (!pid) {
                struct iq_store *mine;
                struct iq_trace t;
                if (iq_store_open(dir.store, NULL, &mine, &err) || iq_store_trace(mine, "golden", &t, &err))
                    _exit(1);
                raise(SIGKILL);
            }
            int status;
            waitpid(pid, &status, 0);
            ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        }
    }
    struct synth more = SMALL;
    more.label = "more";
    s = scratch_open(&dir, 0);
    OK(synth_record(&more, s, IQ_LEVEL_CHAIN, IQ_WRITE_GOLDEN, "more", &err));
    OK(iq_store_verify(s, &(struct iq_store_tally){0}, &err));
    iq_store_close(s);
}
END_TEST

START_TEST(a_reader_keeps_its_snapshot_while_another_process_writes_and_grows)
{
    struct iq_store *s = scratch_open(&dir, 0);
    OK(synth_record(&SMALL, s, IQ_LEVEL_CHAIN, IQ_WRITE_GOLDEN, "golden", &err));
    struct iq_trace t;
    OK(iq_store_trace(s, "golden", &t, &err));
    pid_t pid = fork();
    if (!pid) {
        struct synth big = SMALL;
        big.label = "big";
        big.layers = 30;
        big.requests = 20;
        big.generate = 60;
        struct iq_store *mine = scratch_open(&dir, 0);
        _exit(synth_record(&big, mine, IQ_LEVEL_OPS, IQ_WRITE_TRIAL, "big", &err));
    }
    int status;
    waitpid(pid, &status, 0);
    ck_assert_int_eq(status, 0);
    const struct iq_position *p;
    size_t n;
    OK(t.positions(t.self, 4, &p, &n, &err));
    ck_assert_uint_eq(n, 45);
    iq_trace_close(&t);
    struct iq_run_info info;
    OK(iq_store_find(s, "big", &info, &err)); /* the map of this process follows */
    OK(iq_store_verify(s, &(struct iq_store_tally){0}, &err));
    iq_store_close(s);
}
END_TEST

START_TEST(a_folder_without_a_store_is_not_found)
{
    struct iq_store *s;
    ck_assert_int_eq(iq_store_open(dir.dir, NULL, &s, &err), IQ_NOT_FOUND);
    ck_assert_ptr_null(s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store");
    TCase *t = tcase_create("store");
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, what_is_recorded_is_read_back);
    tcase_add_test(t, a_later_attempt_replaces_a_position_and_keeps_its_prediction);
    tcase_add_test(t, the_firing_log_keeps_its_order_over_chunks);
    tcase_add_loop_test(t, verify_sees_each_kind_of_lie, 0, 5);
    tcase_add_test(t, a_run_is_found_by_name_id_and_prefix);
    tcase_add_test(t, a_name_moves_only_when_told);
    tcase_add_test(t, the_same_manifest_is_refused_unless_it_replaces);
    tcase_add_test(t, an_aborted_trial_leaves_nothing);
    tcase_add_test(t, a_crashed_run_says_why_and_drops_what_was_in_flight);
    tcase_add_test(t, removing_a_run_keeps_contents_that_another_names);
    tcase_add_test(t, one_store_opens_twice_in_a_process);
    tcase_add_test(t, a_handle_from_before_a_fork_is_refused_and_a_new_one_works);
    tcase_add_test(t, a_second_writer_is_told_the_pid_of_the_first);
    tcase_add_test(t, two_hundred_killed_readers_block_nobody);
    tcase_add_test(t, a_reader_keeps_its_snapshot_while_another_process_writes_and_grows);
    tcase_add_test(t, a_folder_without_a_store_is_not_found);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
