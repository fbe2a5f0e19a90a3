/* The comparator where a position was not computed once: prefix hits and preemption. */
#include "tests/check_main.h"
#include "tests/golden/compare_case.h"

#include <stdlib.h>
#include <string.h>

/* ---- prefix hits ---- */

static uint32_t reuse(void *ctx, uint32_t request)
{
    return ctx && request >= ((struct plant *)ctx)->reuse_from ? 4 : 0;
}

START_TEST(a_foreign_block_on_a_prefix_hit_is_the_prefix_ops_fault)
{
    struct plant p = {
        .op = "k", .layer = -1, .request = 9, .pos = 2, .effect = STRIKE, .margin = 1, .reuse_from = 1};
    struct synth g = BASE, s = BASE;
    s.label = "subject";
    s.strike = strike;
    s.reuse = reuse;
    s.ctx = &p;
    s.batch = batch;
    struct iq_finding *f = diff(&g, &s, IQ_LEVEL_OPS, _i ? IQ_LEVEL_OPS : IQ_LEVEL_CHAIN, NULL, NULL);
    ck_assert_uint_ge(f->n_guilty, 1);
    ck_assert_str_eq(f->guilty[0].op, "prefix");
    ck_assert_uint_ge(f->guilty[0].cells, 1);
    ck_assert_str_eq(f->guilty[0].request_id, "q9");
    ck_assert_uint_eq(f->guilty[0].pos, 2);
    if (_i) ck_assert_uint_eq(f->n_guilty, 1);
    iq_finding_free(f);
}
END_TEST

static int strike_donor(void *ctx, const struct synth_site *s)
{
    /* The first request computes a wrong k; the others reuse just that. */
    (void)ctx;
    return !strcmp(s->node->op, "k") && s->node->layer == 1 && s->pos == 2 ? STRIKE : 0;
}

START_TEST(a_hit_on_what_was_computed_wrong_is_not_the_prefix_ops_fault)
{
    struct plant p = {.reuse_from = 1};
    struct synth g = BASE, s = BASE;
    g.share = s.share = true;
    s.label = "subject";
    s.strike = strike_donor;
    s.reuse = reuse;
    s.ctx = &p;
    struct iq_finding *f = diff(&g, &s, IQ_LEVEL_OPS, IQ_LEVEL_OPS, NULL, NULL);
    ck_assert_uint_eq(f->n_guilty, 1);
    ck_assert_str_eq(f->guilty[0].op, "k");
    ck_assert_uint_eq(f->guilty[0].cells, 1);
    ck_assert_uint_eq(f->differing, 24);
    iq_finding_free(f);
}
END_TEST

/* ---- preemption ---- */

enum { FOLDED = 3, FROM = 9, NODES = 64, LENGTH = 64 };
/* Passes a run on; request 3 is computed again from position 9 on, with the bits of `clean`. */
struct fold {
    struct iq_sink to;
    struct iq_digest clean[LENGTH][NODES];
    struct iq_position clean_pos[LENGTH], pos[LENGTH];
    uint32_t n, nodes;
    bool learn;
};
static int fold_row(void *self, const struct iq_cell *c, struct iq_digest d, const void *bytes, size_t n)
{
    struct fold *f = self;
    if (f->learn && c->request == FOLDED) f->clean[c->pos][c->node] = d;
    return f->learn ? IQ_OK : f->to.row(f->to.self, c, d, bytes, n);
}
static int fold_position(void *self, const struct iq_position *p)
{
    struct fold *f = self;
    if (p->request == FOLDED) (f->learn ? f->clean_pos : f->pos)[p->pos] = *p;
    if (p->request == FOLDED) f->n = p->pos + 1;
    return f->learn ? IQ_OK : f->to.position(f->to.self, p);
}
static int fold_done(void *self, const struct iq_request_end *e)
{
    struct fold *f = self;
    struct iq_request_end end = *e;
    if (f->learn) return IQ_OK;
    if (e->request == FOLDED) end.chain = (struct iq_digest){0, 0};
    for (uint32_t p = 0; e->request == FOLDED && p < f->n; p++) {
        struct iq_position *now = &f->pos[p];
        for (uint32_t i = 0; p >= FROM && i < f->nodes; i++) {
            struct iq_cell c = {FOLDED, p, 1, (uint16_t)i, IQ_CELL_COMPUTED, 0};
            if (!iq_digest_is_zero(f->clean[p][i])) f->to.row(f->to.self, &c, f->clean[p][i], NULL, 0);
        }
        if (p >= FROM && !iq_digest_equal(now->body, f->clean_pos[p].body)) {
            now->body = iq_digest_list((struct iq_digest[]){now->body, f->clean_pos[p].body}, 2);
            now->attempt = 1;
            f->to.position(f->to.self, now);
        }
        end.chain = iq_digest_chain(end.chain, now->token, iq_position_digest(now));
    }
    return f->to.done(f->to.self, &end);
}

START_TEST(a_wrong_first_attempt_stays_guilty_when_the_second_is_right)
{
    struct plant p = {.op = "ffn", .layer = 1, .request = FOLDED, .pos = FROM, .effect = STRIKE, .margin = 1};
    struct synth s = BASE;
    uint32_t n;
    struct iq_node *nodes = synth_nodes(&s, &n);
    struct fold *f = calloc(1, sizeof *f);
    struct iq_sink k = {f, fold_row, fold_position, NULL, fold_done};
    ck_assert_uint_le(n, NODES);
    f->nodes = n;
    f->learn = true;
    ck_assert_int_eq(synth_run(&BASE, &k), IQ_OK);
    f->learn = false;
    s.strike = strike;
    s.ctx = &p;
    OK(synth_record(&BASE, store, IQ_LEVEL_OPS, IQ_WRITE_GOLDEN, "golden", &err));
    struct iq_writer *w;
    struct iq_write_spec spec = {.manifest = "{\"contract\":\"c1\"}",
                                 .nodes = nodes,
                                 .n_nodes = n,
                                 .level = IQ_LEVEL_OPS,
                                 .mode = IQ_WRITE_TRIAL,
                                 .name = "subject"};
    OK(iq_store_begin(store, &spec, &w, &err));
    f->to = iq_writer_sink(w);
    ck_assert_int_eq(synth_run(&s, &k), IQ_OK);
    OK(iq_writer_finish(w, IQ_RUN_COMPLETE, NULL, &err));
    struct iq_finding *found = compare_recorded(NULL, NULL);
    ck_assert_uint_eq(found->n_guilty, 1);
    ck_assert_str_eq(found->guilty[0].op, "ffn");
    ck_assert_uint_eq(found->guilty[0].cells, 1);
    ck_assert_uint_eq(found->first_pos, FROM);
    iq_finding_free(found);
    free(nodes);
    free(f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("compare reuse");
    TCase *t = tcase_create("compare reuse");
    tcase_add_checked_fixture(t, compare_set_up, compare_tear_down);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, a_foreign_block_on_a_prefix_hit_is_the_prefix_ops_fault, 0, 2);
    tcase_add_test(t, a_hit_on_what_was_computed_wrong_is_not_the_prefix_ops_fault);
    tcase_add_test(t, a_wrong_first_attempt_stays_guilty_when_the_second_is_right);
    suite_add_tcase(suite, t);
    return check_main(suite);
}
