/* The contract as a property: a request has one chain, whatever else is in the batch and however it was run. First one
 * factor at a time, each with the proof that it was at work; then all of them mixed at random.
 * IQ_TEST_SEED=s IQ_TEST_CASE=c repeats one mixed case of every model. */
#include "tests/engine/rig.h"
#include "tests/engine/small_models.h"
#include "tests/files/scratch.h"

#include "kernels/ops/kv.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { MIXED = 6 };
#else
enum { MIXED = 6 };
#endif
enum { REQUESTS = 36, LONGEST = 56, ANSWER = 10, STEM = 54 };

/* What a trial may turn, beyond the engine's configuration. */
struct trial {
    struct iq_engine_config config;
    const struct iq_model *model; /* NULL: of one rank */
    bool watch, reversed;
    uint32_t first, n; /* which requests take part */
    uint64_t arrivals; /* mean distance in virtual us; 0: all at once */
    uint32_t tight;    /* blocks beyond what the longest needs; 0: enough for all */
};

static struct iq_rig_set set;
static struct iq_model *models[16]; /* every pair of sizes; [0]: one rank */
static int n_models;
static const struct iq_small *small;
static struct iq_rig golden;
static char why[256];

static const char *const isas[] = {"scalar", "avx2", "avx512"};

static void open_small(int index)
{
    small = &iq_small[index];
    const char *path = iq_small_write(small);
    n_models = 0;
    for (int i = 0; !i || (i < 4 && small->tp[i - 1]); i++)
        for (int k = 0; !k || (k < 4 && small->expert_parallel[k - 1]); k++)
            models[n_models++] =
                iq_rig_model_experts(path, i ? small->tp[i - 1] : 1, k ? small->expert_parallel[k - 1] : 1);
    set = iq_rig_set_make(iq_rig_seed() + (uint64_t)index,
                          &(struct iq_rig_shape){REQUESTS, small->spec.vocab, LONGEST, ANSWER, STEM, true});
    struct iq_engine_config c = IQ_ENGINE_CONFIG;
    c.batch = 1;
    c.prefix_cache = false;
    c.act = small->act;
    iq_rig_run(&golden, models[0], &c, set.request, set.n, NULL, false);
    ck_assert_uint_eq(golden.seen.batch, 1);
}

static void close_small(void)
{
    iq_rig_close(&golden);
    iq_rig_set_free(&set);
    for (int i = 0; i < n_models; i++) iq_model_close(models[i]);
}

static uint32_t most_blocks(const struct iq_request *r, uint32_t n)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < n; i++)
        if (r[i].n_prompt + r[i].max_tokens > most) most = r[i].n_prompt + r[i].max_tokens;
    return (most + IQ_KV_BLOCK - 1) / IQ_KV_BLOCK;
}

/* Runs a trial and compares each of its requests with golden's. */
static void run_trial(const struct trial *t, const char *what, struct iq_rig *g)
{
    struct iq_request *r = calloc(t->n, sizeof *r);
    struct iq_engine_config c = t->config;
    uint64_t clock = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        r[i] = set.request[t->first + (t->reversed ? t->n - 1 - i : i)];
        clock += t->arrivals ? iq_rig_draw(t->arrivals, i) % (2 * t->arrivals) : 0;
        r[i].arrive_us = clock;
    }
    c.act = small->act;
    if (t->tight) c.kv_blocks = most_blocks(r, t->n) + t->tight - 1;
    iq_rig_run(g, t->model ? t->model : models[0], &c, r, t->n, NULL, t->watch);
    for (uint32_t i = 0; i < t->n; i++)
        ck_assert_msg(iq_rig_same(&golden, r[i].index, g, i, why), "%s: %s: request %u: %s", small->name,
                      what, r[i].index, why);
    free(r);
}

static struct trial plain(void)
{
    struct trial t = {.config = IQ_ENGINE_CONFIG, .watch = true, .n = REQUESTS};
    t.config.prefix_cache = false;
    return t;
}

static uint64_t preemptions(const struct iq_rig *g) { return iq_engine_stats(g->engine)->preemptions; }
static uint64_t hits(const struct iq_rig *g) { return iq_engine_stats(g->engine)->hits; }

START_TEST(batches_of_any_size_and_order)
{
    static const uint32_t sizes[] = {1, 2, 7, 8, 9, 32};
    open_small(_i);
    for (int k = 0; k < 12; k++) {
        struct iq_rig g;
        struct trial t = plain();
        t.config.batch = sizes[k / 2];
        t.reversed = k & 1;
        run_trial(&t, "batch", &g);
        ck_assert_uint_eq(g.seen.batch, sizes[k / 2]);
        ck_assert_uint_gt(g.seen.tempered, 0);
        if (sizes[k / 2] > 1) ck_assert_uint_gt(g.seen.mixed, 0);
        iq_rig_close(&g);
    }
    close_small();
}
END_TEST

START_TEST(prompts_whole_or_in_chunks)
{
    static const uint32_t chunks[] = {1, 5, 16, 64, 512, 0};
    open_small(_i);
    for (int k = 0; k < 6; k++) {
        struct iq_rig g;
        struct trial t = plain();
        t.config.chunk = chunks[k];
        run_trial(&t, "chunk", &g);
        if (chunks[k] && chunks[k] < LONGEST / 2) ck_assert_uint_gt(g.seen.chunks, 0);
        if (chunks[k] > LONGEST)
            ck_assert_uint_le(g.seen.chunks, 8); /* the budget of a step cuts at most some */
        iq_rig_close(&g);
    }
    close_small();
}
END_TEST

START_TEST(prefixes_found_or_computed)
{
    static const uint32_t least[] = {0, 1, 20, 1000};
    open_small(_i);
    for (int k = 0; k < 4; k++) {
        struct iq_rig g;
        struct trial t = plain();
        t.config.prefix_cache = true;
        t.config.prefix_min = least[k];
        t.config.batch = 4;
        run_trial(&t, "prefix", &g);
        ck_assert_msg(least[k] == 1000 ? hits(&g) == 0 : hits(&g) >= IQ_KV_BLOCK, "%llu tokens hit",
                      (unsigned long long)hits(&g));
        iq_rig_close(&g);
    }
    close_small();
}
END_TEST

START_TEST(preempted_or_not)
{
    open_small(_i);
    for (int k = 0; k < 6; k++) {
        struct iq_rig g;
        struct trial t = plain();
        t.config.prefix_cache = k & 1;
        t.config.chunk = k & 2 ? 7 : 0;
        t.tight = 1 + (uint32_t)k / 4;
        run_trial(&t, "preemption", &g);
        ck_assert_uint_gt(preemptions(&g), 0);
        iq_rig_close(&g);
    }
    close_small();
}
END_TEST

START_TEST(threads_and_instruction_sets)
{
    open_small(_i);
    for (int k = 0; k < 6; k++) {
        struct iq_rig g;
        struct trial t = plain();
        t.config.threads = 1 + (uint32_t)k % 2;
        t.config.isa = isas[k / 2];
        t.watch = false;
        run_trial(&t, isas[k / 2], &g);
        iq_rig_close(&g);
    }
    close_small();
}
END_TEST

START_TEST(levels_captured_padding_and_arrivals)
{
    open_small(_i);
    for (int k = 0; k < 6; k++) {
        struct iq_rig g;
        struct trial t = plain();
        t.config.level = (enum iq_level)(k % 3);
        t.config.captured = k & 1;
        t.config.top = k < 3 ? 20 : 8;
        t.arrivals = k < 3 ? 0 : 2500;
        run_trial(&t, "level", &g);
        ck_assert(k & 1 ? g.seen.padded > 0 : g.seen.padded == 0);
        iq_rig_close(&g);
    }
    close_small();
}
END_TEST

START_TEST(tensor_and_expert_parallel_sizes)
{
    open_small(_i);
    for (int k = 1; k < n_models; k++)
        for (int level = 0; level < 2; level++) {
            if (n_models > 4 && level != k % 2) continue; /* sixteen pairs: one way each */
            struct iq_rig g;
            struct trial t = plain();
            t.model = models[k];
            t.config.level = level ? IQ_LEVEL_OPS : IQ_LEVEL_CHAIN;
            t.config.threads = 1 + (uint32_t)level;
            run_trial(&t, "ranks", &g);
            ck_assert_uint_gt(models[k]->tp * models[k]->expert_parallel, 1);
            iq_rig_close(&g);
        }
    close_small();
}
END_TEST

/* ---- everything at once ---- */

static uint32_t pick(uint64_t seed, uint32_t i, const uint32_t *from, uint32_t n)
{
    return from[iq_rig_draw(seed, i) % n];
}

static struct trial mixed(uint64_t seed)
{
    static const uint32_t batch[] = {1, 2, 7, 8, 9, 32}, chunk[] = {0, 0, 1, 3, 16, 64, 512},
                          top[] = {8, 8, 20, 300};
    static const uint32_t least[] = {0, 0, 1, 40}, tight[] = {0, 0, 1, 2, 5};
    struct trial t = plain();
    uint32_t at = 0;
    t.config.batch = pick(seed, at++, batch, 6);
    t.config.chunk = pick(seed, at++, chunk, 7);
    t.config.top = pick(seed, at++, top, 4);
    t.config.prefix_min = pick(seed, at++, least, 4);
    t.tight = pick(seed, at++, tight, 5);
    t.config.threads = 1 + iq_rig_draw(seed, at++) % 2;
    t.config.prefix_cache = iq_rig_draw(seed, at++) % 4 != 0;
    t.config.captured = iq_rig_draw(seed, at++) % 2;
    uint32_t isa = iq_rig_draw(seed, at++) % 6; /* mostly the best: scalar takes its time */
    t.config.isa = isa < 3 ? isas[isa] : NULL;
    t.config.level = (enum iq_level)(iq_rig_draw(seed, at++) % IQ_LEVELS);
    t.watch = iq_rig_draw(seed, at++) % 2;
    t.reversed = iq_rig_draw(seed, at++) % 2;
    t.arrivals = iq_rig_draw(seed, at++) % 2 ? 500 + iq_rig_draw(seed, at) % 5000 : 0;
    at++;
    t.first = iq_rig_draw(seed, at++) % (REQUESTS / 2);
    t.n = 1 + iq_rig_draw(seed, at++) % (REQUESTS - t.first);
    uint64_t ranks = iq_rig_draw(seed, at++) % (2 * (uint64_t)n_models);
    if (ranks < (uint64_t)n_models) t.model = models[ranks];
    return t;
}

START_TEST(any_mixture)
{
    uint32_t preempted = 0, hit = 0, sharded = 0, padded = 0, full = 0;
    open_small(_i);
    for (uint32_t k = 0; k < MIXED; k++) {
        if (iq_rig_only_case() != UINT32_MAX && iq_rig_only_case() != k) continue;
        struct iq_rig g;
        char what[160];
        struct trial t = mixed(iq_rig_draw(iq_rig_seed(), (uint64_t)_i << 32 | k));
        snprintf(what, sizeof what,
                 "IQ_TEST_SEED=%llu IQ_TEST_CASE=%u CK_RUN_CASE=mixed test_invariance repeats it",
                 (unsigned long long)iq_rig_seed(), k);
        run_trial(&t, what, &g);
        preempted += preemptions(&g) > 0;
        hit += hits(&g) > 0;
        sharded += t.model && t.model != models[0];
        padded += g.seen.padded > 0;
        full += g.seen.batch == t.config.batch;
        iq_rig_close(&g);
    }
    if (iq_rig_only_case() == UINT32_MAX)
        ck_assert_msg(preempted >= MIXED / 8 && hit >= MIXED / 8 && full >= MIXED / 8 &&
                          (sharded || !small->tp[0]),
                      "of %d cases: %u preempted, %u with hits, %u sharded, %u padded, %u with a full batch",
                      MIXED, preempted, hit, sharded, padded, full);
    printf("%s: %d mixed cases: %u preempted, %u with hits, %u sharded, %u padded, %u with a full batch\n",
           small->name, MIXED, preempted, hit, sharded, padded, full);
    close_small();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("invariance");
    const struct {
        const char *name;
        const TTest *test;
    } factors[] = {
        {"batch", batches_of_any_size_and_order},    {"chunk", prompts_whole_or_in_chunks},
        {"prefix", prefixes_found_or_computed},      {"preempt", preempted_or_not},
        {"threads", threads_and_instruction_sets},   {"levels", levels_captured_padding_and_arrivals},
        {"ranks", tensor_and_expert_parallel_sizes}, {"mixed", any_mixture}};
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        TCase *c = tcase_create(factors[i].name);
        tcase_set_timeout(c, 300);
        tcase_add_checked_fixture(c, iq_scratch_make, iq_scratch_remove);
        tcase_add_loop_test(c, factors[i].test, 0, iq_smalls);
        suite_add_tcase(s, c);
    }
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
