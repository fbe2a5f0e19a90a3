/* What a run holds is read back, and verify sees each lie in it. */
#include "tests/check_main.h"
#include "tests/golden/store_scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    struct synth y = SYNTH_SMALL;
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
    struct synth y = SYNTH_SMALL;
    struct iq_store *s = scratch_open(&dir, 0);
    struct iq_writer *w = scratch_begin(s, &y, "{}", IQ_LEVEL_CHAIN, "r");
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
}
END_TEST

START_TEST(the_firing_log_keeps_its_order_over_chunks)
{
    struct synth y = SYNTH_SMALL;
    struct iq_store *s = scratch_open(&dir, 0);
    struct iq_writer *w = scratch_begin(s, &y, "{}", IQ_LEVEL_CHAIN, "r");
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
    struct synth y = SYNTH_SMALL;
    y.contents = true;
    struct iq_store *s = scratch_open(&dir, 0);
    struct iq_writer *w = scratch_begin(s, &y, "{}", IQ_LEVEL_TENSORS, "r");
    struct liar l = {iq_writer_sink(w), _i};
    struct iq_sink k = {&l, lie_row, lie_position, NULL, lie_done};
    ck_assert_int_eq(synth_run(&y, &k), IQ_OK);
    OK(iq_writer_finish(w, IQ_RUN_COMPLETE, NULL, &err));
    ck_assert_int_eq(iq_store_verify(s, &(struct iq_store_tally){0}, &err), IQ_MISMATCH);
    ck_assert_ptr_nonnull(strstr(err.text, "request 2"));
    iq_store_close(s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store");
    TCase *t = tcase_create("store");
    tcase_add_checked_fixture(t, scratch_on_disk, scratch_drop);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, what_is_recorded_is_read_back);
    tcase_add_test(t, a_later_attempt_replaces_a_position_and_keeps_its_prediction);
    tcase_add_test(t, the_firing_log_keeps_its_order_over_chunks);
    tcase_add_loop_test(t, verify_sees_each_kind_of_lie, 0, 5);
    suite_add_tcase(suite, t);
    return check_main(suite);
}
