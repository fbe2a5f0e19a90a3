/* For a machine with a GPU: the whole of SmolLM2 has the CPU's chains there, captured graphs have eager's, and how fast it
 * is: a JSON line on standard output for each figure, everything else on standard error.
 * IQ_TEST_DEVICE=cuda-shim runs it in small on the CPU, which shows that this program works and nothing more. */
#include "tests/engine/device_rig.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct iq_model *model;
static bool small; /* on the shim */

static void open_model(void) { model = iq_rig_model(iq_rig_real_model(), 1); }
static void close_model(void) { iq_model_close(model); }

/* ---- bits ---- */

static const struct trial {
    const char *name;
    uint32_t batch, chunk, tp;
    bool prefix, captured;
    enum iq_level level;
    enum iq_act act;
} trials[] = {
    {"batch 1", 1, 0, 1, false, false, IQ_LEVEL_CHAIN, IQ_ACT_F32},
    {"batch 3, every op", 3, 0, 1, false, true, IQ_LEVEL_OPS, IQ_ACT_F32},
    {"batch 8, captured", 8, 0, 1, true, true, IQ_LEVEL_CHAIN, IQ_ACT_F32},
    {"batch 8, chunks of 16", 8, 16, 1, true, true, IQ_LEVEL_CHAIN, IQ_ACT_F32},
    {"two ranks", 4, 0, 2, false, true, IQ_LEVEL_OPS, IQ_ACT_F32},
    {"three ranks", 4, 0, 3, false, false, IQ_LEVEL_CHAIN, IQ_ACT_F32},
    {"bf16", 8, 64, 1, true, true, IQ_LEVEL_CHAIN, IQ_ACT_BF16},
};

static struct iq_rig_set requests(void)
{
    struct iq_rig_shape shape = {12, model->config.vocab, 200, 32, 100, true};
    if (small) shape = (struct iq_rig_shape){3, model->config.vocab, 4, 2, 0, true};
    return iq_rig_set_make(iq_rig_seed(), &shape);
}

static struct iq_rig_case case_of(const struct trial *t, const struct iq_model *m,
                                  const struct iq_rig_set *set)
{
    struct iq_rig_case k = {
        .what = t->name, .model = m, .config = IQ_ENGINE_CONFIG, .request = set->request, .n = set->n};
    k.config.batch = t->batch;
    k.config.chunk = t->chunk;
    k.config.prefix_cache = t->prefix;
    k.config.captured = t->captured;
    k.config.level = t->level;
    k.config.act = t->act;
    k.config.threads = 2;
    return k;
}

START_TEST(the_whole_model_has_the_chains_of_the_cpu)
{
    const struct trial *t = &trials[_i];
    struct iq_model *m = t->tp == 1 ? model : iq_rig_model(iq_rig_real_model(), t->tp);
    struct iq_rig_set set = requests();
    struct iq_rig_recorded device;
    struct iq_rig_case k = case_of(t, m, &set);
    iq_rig_twins(&k, &device);
    iq_rig_recorded_close(&device);
    iq_rig_set_free(&set);
    if (m != model) iq_model_close(m);
}
END_TEST

START_TEST(captured_graphs_have_the_chains_of_eager_steps)
{
    static const struct trial t = {"graphs", 8, 16, 1, true, true, IQ_LEVEL_CHAIN, IQ_ACT_F32};
    struct iq_rig_set set = requests();
    struct iq_rig_recorded eager, graphs;
    struct iq_rig_case k = case_of(&t, model, &set);
    iq_rig_case_run(&k, iq_rig_device(), &graphs);
    k.config.captured = false;
    iq_rig_case_run(&k, iq_rig_device(), &eager);
    iq_rig_same_run(t.name, &eager, &graphs);
    iq_rig_recorded_close(&eager), iq_rig_recorded_close(&graphs);
    iq_rig_set_free(&set);
}
END_TEST

/* ---- speed ---- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Steps until there are none, or at most `most`; the tokens that they computed. */
static uint64_t steps(struct iq_engine *e, uint64_t most, bool *more)
{
    struct iq_err err = {0};
    uint64_t before = iq_engine_stats(e)->tokens;
    for (*more = true; most && *more; most--)
        ck_assert_msg(iq_engine_step(e, more, &err) == IQ_OK, "%s", err.text);
    return iq_engine_stats(e)->tokens - before;
}

/* `batch` prompts of equal length: prefill in one step, then decoding, of which the first steps (graphs are captured
 * there) are not counted. */
static void measure(uint32_t batch, bool captured, bool untraced)
{
    const uint32_t prompt = small ? 4 : batch == 1 ? 512 : 64, answer = small ? 4 : 136, warm = small ? 1 : 8;
    struct iq_rig_set set =
        iq_rig_set_make(batch, &(struct iq_rig_shape){batch, model->config.vocab, prompt, answer, 0, false});
    for (uint32_t i = 0; i < batch; i++) {
        for (uint32_t p = 0; p < prompt; p++)
            set.tokens[i * prompt + p] = (uint32_t)(iq_rig_draw(i, p) % model->config.vocab);
        set.request[i].n_prompt = prompt;
        set.request[i].max_tokens = answer;
        set.request[i].ignore_stop = true;
    }
    struct iq_err err = {0};
    struct iq_engine *e;
    struct iq_engine_config c = IQ_ENGINE_CONFIG;
    bool more;
    c.batch = batch;
    c.captured = captured;
    c.untraced = untraced;
    c.prefix_cache = false;
    c.device = iq_rig_device();
    ck_assert_msg(iq_engine_open(model, &c, set.request, batch, &e, &err) == IQ_OK, "%s", err.text);
    double t0 = now();
    uint64_t fed = 0;
    while (!iq_engine_stats(e)->generated) fed += steps(e, 1, &more);
    double t1 = now();
    steps(e, warm, &more);
    double t2 = now();
    uint64_t made = steps(e, UINT64_MAX, &more);
    double t3 = now();
    printf("{\"what\":\"engine\",\"device\":\"%s\",\"batch\":%u,\"captured\":%s,\"traced\":%s,\"prompt\":%u,"
           "\"prefill_tokens_per_s\":%.1f,\"decode_tokens_per_s\":%.1f}\n",
           iq_rig_device(), batch, captured ? "true" : "false", untraced ? "false" : "true", prompt,
           (double)fed / (t1 - t0), (double)made / (t3 - t2));
    fflush(stdout);
    iq_engine_close(e);
    iq_rig_set_free(&set);
}

START_TEST(speed)
{
    static const uint32_t batches[] = {1, 8, 32};
    for (int i = 0; i < (small ? 1 : 3); i++)
        for (int way = 0; way < 4; way++) measure(batches[i], way & 1, way & 2);
}
END_TEST

int main(void)
{
    setenv("IQ_TEST_DEVICE", "cuda", 0);
    small = strcmp(iq_rig_device(), "cuda") != 0;
    iq_rig_real_model();
    Suite *s = suite_create("the engine on a GPU");
    TCase *c = tcase_create("gpu");
    tcase_set_timeout(c, 600);
    tcase_add_unchecked_fixture(c, open_model, close_model);
    tcase_add_loop_test(c, the_whole_model_has_the_chains_of_the_cpu, 0,
                        (int)(sizeof trials / sizeof *trials));
    tcase_add_test(c, captured_graphs_have_the_chains_of_eager_steps);
    tcase_add_test(c, speed);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    fflush(stdout);
    srunner_run_all(r, CK_SILENT);
    int failed = srunner_ntests_failed(r);
    TestResult **bad = srunner_failures(r);
    for (int i = 0; i < failed; i++) fprintf(stderr, "%s: %s\n", tr_tcname(bad[i]), tr_msg(bad[i]));
    free(bad);
    srunner_free(r);
    return failed != 0;
}
