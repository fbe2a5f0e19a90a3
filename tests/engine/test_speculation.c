/* Speculation changes no answer: drafts of any length, in any batch, chunked, sharded, preempted, padded, from prefix hits,
 * greedy and sampled, give golden's tokens, chains and logits. Each factor with the proof that it was at work.
 * Random models repeat themselves too seldom for a lookup; an oracle drafts most of what they are going to say. */
#include "tests/engine/rig.h"
#include "tests/engine/small_models.h"
#include "tests/files/scratch.h"

#include "kernels/ops/kv.h"
#include "kernels/ops/speculate.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUESTS = 12, LONGEST = 40, ANSWER = 30, STEM = 36 };

static const uint32_t lengths[] = {1, 2, 3, 5};
static struct iq_rig_set set;
static struct iq_model *models[3]; /* by tensor-parallel size; [0]: none */
static const struct iq_small *small;
static struct iq_rig golden;
static char why[256];

enum { OTHER = 5 };
static const int tried[] = {3, 4, 11}; /* dense, groups of 3; bf16, wide heads; a mixture of experts */

/* ---- an oracle ---- */

/* Golden's next tokens, every fourth of them wrong, and what comes to mind behind their end. */
static int foresee(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                   void *state)
{
    const struct iq_draft *a = args;
    const struct iq_output *o = iq_rig_output(&golden, a->request);
    (void)x, (void)site, (void)params, (void)state;
    for (uint32_t i = 0; i < a->wanted; i++) {
        uint32_t at = a->tokens + i, right = at < o->n_ids ? o->ids[at] : 40;
        bool wrong = iq_rig_draw(a->request, at) % 4 == 0;
        a->draft[i] = wrong ? (right + 1) % a->vocab : right;
    }
    *a->drafts = a->wanted;
    return IQ_OK;
}

static const struct iq_variant oracle = {
    .kind = "draft", .name = "oracle", .device = "cpu", .flags = IQ_V_FAULTY, .run = foresee};

static int pick(void *self, const struct iq_site *site, const void *args, struct iq_pick out[IQ_PICKS])
{
    (void)self, (void)args;
    out[0] = (struct iq_pick){.variant = &oracle};
    return site->op == IQ_OP_DRAFT;
}

static bool may_strike(void *self, enum iq_op_id op) { return (void)self, op == IQ_OP_DRAFT; }

static const struct iq_selector foresight = {.pick = pick, .may_strike = may_strike};

/* ---- runs ---- */

static void open_small(int i)
{
    struct iq_engine_config c = IQ_ENGINE_CONFIG;
    small = &iq_small[tried[i]];
    const char *path = iq_small_write(small);
    for (uint32_t tp = 1; tp <= 2; tp++) models[tp] = iq_rig_model(path, tp);
    set = iq_rig_set_make(iq_rig_seed() + (uint64_t)i,
                          &(struct iq_rig_shape){REQUESTS, small->spec.vocab, LONGEST, ANSWER, STEM, true});
    c.batch = 1;
    c.prefix_cache = false;
    c.act = small->act;
    iq_rig_run(&golden, models[1], &c, set.request, set.n, NULL, false);
}

static void close_small(void)
{
    iq_rig_close(&golden);
    iq_rig_set_free(&set);
    for (uint32_t tp = 1; tp <= 2; tp++) iq_model_close(models[tp]);
}

static struct iq_engine_config config(uint32_t speculate)
{
    struct iq_engine_config c = IQ_ENGINE_CONFIG;
    c.speculate = speculate;
    c.prefix_cache = false;
    c.act = small->act;
    return c;
}

/* Runs and compares; many drafts were accepted and many were not. */
static void run(struct iq_rig *g, const struct iq_model *m, const struct iq_engine_config *c,
                const char *what)
{
    iq_rig_run(g, m, c, set.request, set.n, &foresight, true);
    const struct iq_engine_stats *s = iq_engine_stats(g->engine);
    uint64_t drafted = 0, accepted = 0;
    for (uint32_t i = 0; i < set.n; i++) {
        ck_assert_msg(iq_rig_same(&golden, i, g, i, why), "%s: %s, draft %u: request %u: %s", small->name,
                      what, c->speculate, i, why);
        drafted += iq_rig_output(g, i)->drafted;
        accepted += iq_rig_output(g, i)->accepted;
    }
    ck_assert_uint_eq(drafted, s->drafted);
    ck_assert_uint_eq(accepted, s->accepted);
    ck_assert_msg(accepted > 40 && accepted + 20 < drafted, "%s: %s, draft %u: %u of %u accepted",
                  small->name, what, c->speculate, (unsigned)accepted, (unsigned)drafted);
}

START_TEST(drafts_of_any_length_in_any_batch)
{
    static const uint32_t batch[] = {1, 5, REQUESTS};
    open_small(_i);
    for (int k = 0; k < 4; k++) {
        struct iq_rig g, plain;
        struct iq_engine_config c = config(lengths[k]);
        c.batch = batch[k % 3];
        run(&g, models[1], &c, "batch");
        c.speculate = 0;
        iq_rig_run(&plain, models[1], &c, set.request, set.n, NULL, true);
        ck_assert_uint_lt(iq_engine_stats(g.engine)->steps, iq_engine_stats(plain.engine)->steps);
        struct iq_digest a = iq_engine_contract(g.engine), b = iq_engine_contract(plain.engine);
        ck_assert(iq_digest_equal(a, b));
        iq_rig_close(&g), iq_rig_close(&plain);
    }
    close_small();
}
END_TEST

/* Without an oracle: wide heads in bf16 repeat themselves now and then. */
START_TEST(drafts_that_are_looked_up)
{
    open_small(1);
    for (int k = 0; k < 4; k++) {
        struct iq_rig g;
        struct iq_engine_config c = config(lengths[k]);
        iq_rig_run(&g, models[1], &c, set.request, set.n, NULL, false);
        for (uint32_t i = 0; i < set.n; i++)
            ck_assert_msg(iq_rig_same(&golden, i, &g, i, why), "draft %u: request %u: %s", lengths[k], i,
                          why);
        const struct iq_engine_stats *s = iq_engine_stats(g.engine);
        ck_assert_uint_gt(s->accepted, 4);
        ck_assert_uint_gt(s->drafted, s->accepted);
        iq_rig_close(&g);
    }
    close_small();
}
END_TEST

/* A draft model that is the model itself guesses every token, greedy or drawn; another's guesses cost nothing but time. */
START_TEST(drafts_of_a_model)
{
    open_small(_i);
    struct iq_model *other = iq_rig_model(iq_small_write(&iq_small[OTHER]), 1);
    for (int k = 0; k < 8; k += k % 4 ? 1 : 3) { /* 0, 3, 4, 7: each length once */
        struct iq_rig g;
        struct iq_engine_config c = config(lengths[k / 2]);
        c.draft = k % 2 ? other : models[1];
        c.batch = k < 4 ? 3 : 8;
        c.prefix_cache = k >= 4;
        c.threads = 1 + (uint32_t)k % 3 / 2;
        if (k == 4) c.kv_blocks = (LONGEST + ANSWER) / IQ_KV_BLOCK + 2;
        iq_rig_run(&g, models[1 + k / 6], &c, set.request, set.n, NULL, false);
        for (uint32_t i = 0; i < set.n; i++)
            ck_assert_msg(iq_rig_same(&golden, i, &g, i, why), "draft %u: request %u: %s", c.speculate, i,
                          why);
        const struct iq_engine_stats *s = iq_engine_stats(g.engine);
        ck_assert_uint_gt(s->drafted, 60);
        if (k % 2)
            ck_assert_uint_lt(s->accepted, s->drafted / 4);
        else /* all but those behind the end of an answer */
            ck_assert_uint_ge(s->accepted + c.speculate * set.n, s->drafted);
        if (k == 4) ck_assert_uint_gt(s->preemptions, 0);
        iq_rig_close(&g);
    }
    iq_model_close(other);
    close_small();
}
END_TEST

/* Its positions end before the request's: from there on nothing is drafted. */
START_TEST(a_draft_model_with_few_positions)
{
    struct iq_rig g;
    struct iq_err err = {0};
    struct iq_model *brief;
    open_small(0);
    const struct iq_model_options o = {.tp = 1, .threads = 1, .positions = 30, .weights = true};
    ck_assert_msg(!iq_model_open(iq_small_write(small), &o, &brief, &err), "%s", err.text);
    struct iq_engine_config c = config(3);
    c.draft = brief;
    iq_rig_run(&g, models[1], &c, set.request, set.n, NULL, false);
    for (uint32_t i = 0; i < set.n; i++) {
        const struct iq_output *x = iq_rig_output(&g, i);
        ck_assert_msg(iq_rig_same(&golden, i, &g, i, why), "request %u: %s", i, why);
        ck_assert(x->n_prompt < 30 || x->drafted == 0);
    }
    ck_assert_uint_gt(iq_engine_stats(g.engine)->drafted, 0);
    iq_rig_close(&g);
    iq_model_close(brief);
    close_small();
}
END_TEST

START_TEST(a_draft_model_must_share_the_vocabulary)
{
    struct iq_engine *e;
    struct iq_err err = {0};
    open_small(0);
    struct iq_test_spec spec = iq_test_spec_default(); /* 320 tokens, not 333 */
    ck_assert_int_eq(iq_test_write_model(iq_scratch("short.gguf"), &spec, 5, &err), IQ_OK);
    struct iq_model *other = iq_rig_model(iq_scratch("short.gguf"), 1);
    struct iq_engine_config c = config(2);
    c.draft = other;
    ck_assert_int_eq(iq_engine_open(models[1], &c, set.request, set.n, &e, &err), IQ_MISMATCH);
    ck_assert_msg(strstr(err.text, "320 tokens") && strstr(err.text, "333"), "%s", err.text);
    c.draft = models[1];
    c.speculate = 0;
    ck_assert_int_eq(iq_engine_open(models[1], &c, set.request, set.n, &e, &err), IQ_USAGE);
    ck_assert_msg(strstr(err.text, "--speculate") != NULL, "%s", err.text);
    iq_model_close(other);
    close_small();
}
END_TEST

/* An answer that ends with a drafted token ends there: what was computed behind it is not its own. */
START_TEST(an_answer_ends_within_a_draft)
{
    uint32_t stops = 0;
    open_small(_i);
    for (uint32_t i = 0; i < set.n; i++) {
        const struct iq_output *o = iq_rig_output(&golden, i);
        uint32_t last = o->n_ids - 1;
        stops += !strcmp(o->finish, "stop") && last > o->n_prompt && iq_rig_draw(i, last) % 4 != 0;
    }
    struct iq_rig g;
    struct iq_engine_config c = config(5);
    run(&g, models[1], &c, "stops");
    ck_assert_uint_gt(stops, 0);
    iq_rig_close(&g);
    close_small();
}
END_TEST

START_TEST(chunks_ranks_and_levels)
{
    open_small(_i);
    for (int k = 0; k < 4; k++) {
        struct iq_rig g;
        struct iq_engine_config c = config(lengths[k]);
        c.chunk = k & 1 ? 5 : 1;
        c.threads = 1 + (uint32_t)k / 2;
        c.level = (enum iq_level)(k % IQ_LEVELS);
        run(&g, models[1 + k / 2], &c, "chunks and ranks");
        ck_assert_uint_gt(g.seen.chunks, 0);
        iq_rig_close(&g);
    }
    close_small();
}
END_TEST

/* Preempted while drafts are under way, and computed again from the prompt or from a cached prefix, in which no rejected
 * draft may stand. */
START_TEST(preemption_and_prefix_hits)
{
    open_small(_i);
    for (int k = 0; k < 4; k++) {
        struct iq_rig g;
        struct iq_engine_config c = config(lengths[k]);
        c.prefix_cache = k != 3;
        c.prefix_min = 1;
        c.kv_blocks = (LONGEST + ANSWER) / IQ_KV_BLOCK + 2;
        run(&g, models[1], &c, "preemption");
        ck_assert_uint_gt(iq_engine_stats(g.engine)->preemptions, 0);
        if (c.prefix_cache) ck_assert_uint_gt(iq_engine_stats(g.engine)->hits, 0);
        iq_rig_close(&g);
    }
    close_small();
}
END_TEST

START_TEST(captured_padding)
{
    open_small(_i);
    for (int k = 0; k < 4; k++) {
        struct iq_rig g;
        struct iq_engine_config c = config(lengths[k]);
        c.captured = true;
        c.batch = k & 1 ? 3 : 8;
        run(&g, models[1], &c, "captured");
        ck_assert_uint_gt(g.seen.padded, 0);
        iq_rig_close(&g);
    }
    close_small();
}
END_TEST

/* ---- the steps, followed again ---- */

START_TEST(a_recorded_trajectory_gives_the_same_steps)
{
    open_small(_i);
    for (int k = 0; k < 2; k++) {
        struct iq_rig a, b;
        struct iq_engine_config c = config(3);
        struct iq_buf text = IQ_BUF(1 << 20);
        struct iq_jw w = IQ_JW(&text);
        struct iq_err err = {0};
        cJSON *steps;
        if (k) c.kv_blocks = (LONGEST + ANSWER) / IQ_KV_BLOCK + 2;
        run(&a, models[1], &c, "recorded");
        ck_assert_int_eq(iq_engine_trajectory(a.engine, &w), IQ_OK);
        ck_assert_msg(!iq_json_parse(text.data, text.len, "trajectory", &steps, &err), "%s", err.text);
        c.trajectory = steps;
        run(&b, models[1], &c, "followed");
        const struct iq_engine_stats *x = iq_engine_stats(a.engine), *y = iq_engine_stats(b.engine);
        ck_assert(x->steps == y->steps && x->tokens == y->tokens && x->drafted == y->drafted &&
                  x->preemptions == y->preemptions && x->clock_us == y->clock_us);
        ck_assert(k ? x->preemptions > 0 : x->preemptions == 0);
        iq_rig_close(&b);
        c.speculate = 1; /* the record has more drafts than this engine makes */
        iq_rig_open(&b, models[1], &c, set.request, set.n, &foresight, false);
        int status = IQ_OK;
        for (bool more = true; more && status == IQ_OK;) status = iq_engine_step(b.engine, &more, &err);
        ck_assert_int_eq(status, IQ_MISMATCH);
        ck_assert_msg(strstr(err.text, "--speculate") != NULL, "%s", err.text);
        iq_rig_close(&a), iq_rig_close(&b);
        iq_json_free(steps);
        iq_buf_free(&text);
    }
    close_small();
}
END_TEST

/* ---- cells ---- */

enum { POSITIONS = LONGEST + ANSWER };
static struct {
    uint32_t rejected, first;           /* cells of the first node, by state */
    uint8_t state[REQUESTS][POSITIONS]; /* of the cell that came last */
    uint8_t recorded[REQUESTS][POSITIONS];
} marks;

static int on_row(void *self, const struct iq_cell *c, struct iq_digest d, const void *bytes, size_t n)
{
    (void)self, (void)d, (void)bytes, (void)n;
    ck_assert(c->request < REQUESTS && c->pos < POSITIONS);
    marks.state[c->request][c->pos] = (uint8_t)c->state;
    marks.rejected += c->state == IQ_CELL_REJECTED;
    return IQ_OK;
}

static int on_position(void *self, const struct iq_position *p)
{
    (void)self;
    ck_assert_int_eq(p->state, IQ_CELL_COMPUTED);
    ck_assert_uint_eq(marks.state[p->request][p->pos], IQ_CELL_COMPUTED);
    ck_assert_uint_eq(marks.recorded[p->request][p->pos], 0); /* once: nothing is preempted here */
    marks.recorded[p->request][p->pos] = 1;
    return IQ_OK;
}

START_TEST(rejected_rows_leave_cells_and_no_position)
{
    struct iq_rig g;
    open_small(_i);
    struct iq_engine_config c = config(3);
    c.level = IQ_LEVEL_OPS;
    memset(&marks, 0, sizeof marks);
    iq_rig_open(&g, models[1], &c, set.request, set.n, &foresight, false);
    g.also = (struct iq_sink){.row = on_row, .position = on_position};
    iq_rig_go(&g);
    ck_assert_uint_gt(marks.rejected, 0);
    for (uint32_t r = 0; r < set.n; r++)
        for (uint32_t p = 0; p < POSITIONS; p++)
            ck_assert_int_eq(marks.recorded[r][p], p < iq_rig_output(&g, r)->positions);
    iq_rig_close(&g);
    close_small();
}
END_TEST

START_TEST(too_long_a_draft_is_refused)
{
    struct iq_engine *e;
    struct iq_err err = {0};
    open_small(0);
    struct iq_engine_config c = config(IQ_DRAFT_MAX + 1);
    ck_assert_int_eq(iq_engine_open(models[1], &c, set.request, set.n, &e, &err), IQ_USAGE);
    ck_assert_msg(strstr(err.text, "speculate") != NULL, "%s", err.text);
    close_small();
}
END_TEST

int main(void)
{
    enum { TRIED = sizeof tried / sizeof *tried };
    Suite *s = suite_create("speculation");
    TCase *c = tcase_create("speculation");
    tcase_set_timeout(c, 300);
    tcase_add_checked_fixture(c, iq_scratch_make, iq_scratch_remove);
    tcase_add_loop_test(c, drafts_of_any_length_in_any_batch, 0, TRIED);
    tcase_add_test(c, drafts_that_are_looked_up);
    tcase_add_loop_test(c, drafts_of_a_model, 0, TRIED);
    tcase_add_test(c, a_draft_model_with_few_positions);
    tcase_add_test(c, a_draft_model_must_share_the_vocabulary);
    tcase_add_loop_test(c, an_answer_ends_within_a_draft, 1, TRIED);
    tcase_add_loop_test(c, chunks_ranks_and_levels, 0, TRIED);
    tcase_add_loop_test(c, preemption_and_prefix_hits, 0, TRIED);
    tcase_add_loop_test(c, captured_padding, 0, TRIED);
    tcase_add_loop_test(c, a_recorded_trajectory_gives_the_same_steps, 0, 1);
    tcase_add_loop_test(c, rejected_rows_leave_cells_and_no_position, 0, TRIED);
    tcase_add_test(c, too_long_a_draft_is_refused);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
