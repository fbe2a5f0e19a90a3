/* The invariance property in depth: SmolLM2's 30 layers, weights of Q4_1, 3 KV groups, 12 units of FFN. Golden runs at
 * batch 1; each trial says what it turns and proves that it was at work. */
#include "tests/check_main.h"
#include "tests/engine/rig.h"

#include "kernels/ops/kv.h"

#include <stdio.h>
#include <stdlib.h>

enum { REQUESTS = 9, LONGEST = 72, ANSWER = 6, STEM = 40 };
#ifdef __SANITIZE_ADDRESS__
enum { FEWER = 4, WHOLE = 0 }; /* only the first requests: everything is slow there */
#else
enum { FEWER = REQUESTS, WHOLE = 1 };
#endif

static const struct trial {
    const char *name;
    uint32_t batch, chunk, threads, tp, kv_blocks, n;
    bool prefix, captured, reversed;
    enum iq_level level;
    const char *isa;
    bool hits, preempts;
} trials[] = {
    {"batch 2, ops", 2, 0, 2, 1, 0, REQUESTS, false, false, false, IQ_LEVEL_OPS, NULL, false, false},
    {"batch 7, chunk 1 and captured", 7, 1, 2, 1, 0, REQUESTS, false, true, false, IQ_LEVEL_CHAIN, NULL,
     false, false},
    {"batch 8, chunk 64, prefix cache", 8, 64, 1, 1, 0, REQUESTS, true, false, true, IQ_LEVEL_CHAIN, NULL,
     false, false},
    {"batch 9, avx2", 9, 512, 2, 1, 0, REQUESTS, false, false, true, IQ_LEVEL_CHAIN, "avx2", false, false},
    {"batch 2, prefix hits, tensors", 2, 0, 2, 1, 0, REQUESTS, true, false, false, IQ_LEVEL_TENSORS, NULL,
     true, false},
    {"preempted", 4, 16, 2, 1, 7, REQUESTS, false, false, false, IQ_LEVEL_CHAIN, NULL, false, true},
    {"preempted, with hits", 4, 0, 2, 1, 6, REQUESTS, true, false, true, IQ_LEVEL_CHAIN, NULL, true, true},
    {"three ranks", 5, 0, 2, 3, 0, REQUESTS, false, false, false, IQ_LEVEL_CHAIN, NULL, false, false},
    {"three ranks, ops, prefix hits", 2, 7, 1, 3, 0, REQUESTS, true, true, true, IQ_LEVEL_OPS, NULL, true,
     false},
    {"scalar", 3, 0, 2, 1, 0, 3, false, false, false, IQ_LEVEL_CHAIN, "scalar", false, false},
};
enum { TRIALS = sizeof trials / sizeof *trials };

static struct iq_model *models[4];
static struct iq_rig_set set;
static struct iq_rig golden;

static void open_all(void)
{
    models[1] = iq_rig_model(iq_rig_real_model(), 1);
    models[3] = iq_rig_model(iq_rig_real_model(), 3);
    set =
        iq_rig_set_make(iq_rig_seed(), &(struct iq_rig_shape){REQUESTS, 40000, LONGEST, ANSWER, STEM, true});
    struct iq_engine_config c = IQ_ENGINE_CONFIG;
    c.batch = 1;
    c.threads = 2;
    c.prefix_cache = false;
    iq_rig_run(&golden, models[1], &c, set.request, FEWER, NULL, false);
    ck_assert_uint_eq(golden.seen.batch, 1);
}

static void close_all(void)
{
    iq_rig_close(&golden);
    iq_rig_set_free(&set);
    iq_model_close(models[1]);
    iq_model_close(models[3]);
}

START_TEST(a_request_has_one_chain_however_it_is_run)
{
    for (int k = 0; k < TRIALS; k++) {
        const struct trial *t = &trials[k];
        struct iq_request r[REQUESTS];
        struct iq_rig g;
        char why[256];
        uint32_t n = t->n < FEWER ? t->n : FEWER;
        for (uint32_t i = 0; i < n; i++) r[i] = set.request[t->reversed ? n - 1 - i : i];
        struct iq_engine_config c = IQ_ENGINE_CONFIG;
        c.batch = t->batch;
        c.chunk = t->chunk;
        c.threads = t->threads;
        c.kv_blocks = t->kv_blocks;
        c.prefix_cache = t->prefix;
        c.captured = t->captured;
        c.level = t->level;
        c.isa = t->isa;
        iq_rig_run(&g, models[t->tp], &c, r, n, NULL, k % 2 == 0);
        for (uint32_t i = 0; i < n; i++)
            ck_assert_msg(iq_rig_same(&golden, r[i].index, &g, i, why), "%s: request %u: %s", t->name,
                          r[i].index, why);
        if (WHOLE) {
            const struct iq_engine_stats *s = iq_engine_stats(g.engine);
            ck_assert_uint_eq(g.seen.batch, t->preempts ? g.seen.batch : t->batch);
            ck_assert_msg(!t->hits || s->hits >= IQ_KV_BLOCK, "%s: no prefix was hit", t->name);
            ck_assert_msg(t->preempts == (s->preemptions > 0), "%s: %llu preemptions", t->name,
                          (unsigned long long)s->preemptions);
        }
        iq_rig_close(&g);
    }
}
END_TEST

int main(void)
{
    iq_rig_real_model();
    Suite *s = suite_create("invariance of SmolLM2");
    TCase *c = tcase_create("smollm2");
    tcase_set_timeout(c, 600);
    tcase_add_checked_fixture(c, open_all, close_all);
    tcase_add_test(c, a_request_has_one_chain_however_it_is_run);
    suite_add_tcase(s, c);
    return check_main(s);
}
