/* Real weights on a device: SmolLM2 cut to its first layers (cut_model.py) has the bits of the CPU. That the cut is right
 * is shown first: all layers give the file back, and two give the whole model's cells up to there. */
#include "tests/check_main.h"
#include "tests/engine/device_rig.h"
#include "tests/files/scratch.h"

#include "kernels/cuda/shim/control.h"
#include "kernels/ops/kv.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { LAYERS = 2, REQUESTS = 8, VOCAB = 49152 };
extern char **environ;

static struct iq_rig_set set;

static const char *cut(uint32_t layers)
{
    char count[12], *path = strdup(iq_scratch("cut.gguf"));
    snprintf(count, sizeof count, "%u", layers);
    char *argv[] = {"python3", getenv("IQ_TEST_CUT"), (char *)iq_rig_real_model(), count, path, NULL};
    pid_t pid;
    int how;
    ck_assert_int_eq(posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ), 0);
    ck_assert_int_eq(waitpid(pid, &how, 0), pid);
    ck_assert_msg(how == 0, "cut_model.py ended with status %d", how);
    return path;
}

/* Short: a row is 7 million products, a prediction 28 million more. */
static void open_all(void)
{
    static const uint32_t lengths[REQUESTS] = {20, 3, 18, 1, 19, 2, 5, 1};
    iq_scratch_make();
    set = iq_rig_set_make(3, &(struct iq_rig_shape){REQUESTS, VOCAB, 20, 3, 0, true});
    for (uint32_t i = 0; i < REQUESTS; i++) {
        for (uint32_t p = 0; p < lengths[i]; p++)
            set.tokens[i * 20 + p] = (uint32_t)(iq_rig_draw(p < 17 ? 1 : 2 + i, p) % VOCAB);
        set.request[i].n_prompt = lengths[i];
        set.request[i].max_tokens = 1 + i % 2;
        set.request[i].ignore_stop = true;
    }
}

static void close_all(void)
{
    iq_rig_set_free(&set);
    iq_scratch_remove();
}

START_TEST(a_cut_to_all_layers_is_the_file)
{
    size_t n, m;
    char *whole = iq_slurp(iq_rig_real_model(), &n), *same = iq_slurp(cut(30), &m);
    ck_assert_uint_eq(n, m);
    ck_assert(!memcmp(whole, same, n));
    free(whole);
    free(same);
}
END_TEST

static void record(const char *path, struct iq_rig_recorded *out, struct iq_model **model)
{
    *model = iq_rig_model(path, 1);
    struct iq_rig_case k = {
        .what = path, .model = *model, .config = IQ_ENGINE_CONFIG, .request = set.request, .n = 1};
    k.config.level = IQ_LEVEL_OPS;
    k.config.prefix_cache = false;
    iq_rig_case_run(&k, NULL, out);
}

START_TEST(a_cut_model_computes_what_the_whole_one_does_up_to_there)
{
    struct iq_rig_recorded a, b;
    struct iq_model *whole, *two;
    uint32_t nodes, equal = 0, last = 0;
    record(iq_rig_real_model(), &a, &whole);
    record(cut(LAYERS), &b, &two);
    const struct iq_node *node = iq_engine_nodes(b.rig.engine, &nodes);
    for (uint32_t i = 0; i < nodes; i++)
        if (node[i].layer == LAYERS - 1) last = i;
    for (uint32_t i = 0; i < a.log.cells; i++) {
        const struct iq_rig_cell *x = &a.log.cell[i];
        for (uint32_t j = 0; x->cell.node <= last && x->cell.pos < set.request[0].n_prompt && j < b.log.cells;
             j++)
            if (!memcmp(&x->cell, &b.log.cell[j].cell, sizeof x->cell)) {
                ck_assert_msg(iq_digest_equal(x->digest, b.log.cell[j].digest),
                              "position %u: another %s.%s of layer %u", x->cell.pos, node[x->cell.node].op,
                              node[x->cell.node].point, node[x->cell.node].layer);
                equal++;
            }
    }
    ck_assert_uint_eq(equal, last * set.request[0].n_prompt); /* prefix, node 0, has no cells */
    iq_rig_recorded_close(&a), iq_rig_recorded_close(&b);
    iq_model_close(whole), iq_model_close(two);
}
END_TEST

static const struct trial {
    const char *name;
    uint32_t n, batch, chunk, tp;
    bool prefix, captured;
    enum iq_level level;
    enum iq_act act;
    const char *schedule;
} trials[] = {
    {"batch 1", 2, 1, 0, 1, false, false, IQ_LEVEL_OPS, IQ_ACT_F32, "forward"},
    {"batch 3, captured", 4, 3, 0, 1, false, true, IQ_LEVEL_OPS, IQ_ACT_F32, "reverse"},
    {"batch 8, captured", 8, 8, 0, 1, false, true, IQ_LEVEL_CHAIN, IQ_ACT_F32, "random:3"},
    {"a prefix hit", 3, 1, 0, 1, true, false, IQ_LEVEL_OPS, IQ_ACT_F32, "random:4"},
    {"chunks of 7", 3, 2, 7, 1, false, false, IQ_LEVEL_OPS, IQ_ACT_F32, "forward"},
    {"two ranks", 3, 3, 0, 2, false, true, IQ_LEVEL_OPS, IQ_ACT_F32, "reverse"},
    {"three ranks, bf16", 2, 2, 0, 3, false, false, IQ_LEVEL_CHAIN, IQ_ACT_BF16, "forward"},
};

START_TEST(real_weights_have_the_bits_of_the_cpu)
{
    const struct trial *t = &trials[_i];
    struct iq_model *model = iq_rig_model(cut(LAYERS), t->tp);
    struct iq_rig_recorded device;
    struct iq_rig_case k = {
        .what = t->name, .model = model, .config = IQ_ENGINE_CONFIG, .request = set.request, .n = t->n};
    k.config.batch = t->batch;
    k.config.chunk = t->chunk;
    k.config.prefix_cache = t->prefix;
    k.config.captured = t->captured;
    k.config.level = t->level;
    k.config.act = t->act;
    k.config.threads = 2;
    iq_rig_schedule(t->schedule, IQ_SHIM_POISON_NAN);
    iq_rig_twins(&k, &device);
    ck_assert(!t->prefix || iq_engine_stats(device.rig.engine)->hits >= IQ_KV_BLOCK);
    ck_assert_uint_eq(device.rig.seen.batch, t->batch);
    iq_rig_recorded_close(&device);
    iq_model_close(model);
}
END_TEST

int main(void)
{
    iq_rig_real_model();
    iq_rig_device();
    if (!getenv("IQ_TEST_CUT")) {
        printf("skipped: IQ_TEST_CUT does not name tests/engine/cut_model.py\n");
        return 77;
    }
    if (system("python3 -c '' 2> /dev/null")) {
        printf("skipped: there is no python3 to cut the model with\n");
        return 77;
    }
    Suite *s = suite_create("SmolLM2's first layers on a device");
    TCase *c = tcase_create("smollm2");
    tcase_set_timeout(c, 300);
    tcase_add_checked_fixture(c, open_all, close_all);
    tcase_add_test(c, a_cut_to_all_layers_is_the_file);
    tcase_add_test(c, a_cut_model_computes_what_the_whole_one_does_up_to_there);
    tcase_add_loop_test(c, real_weights_have_the_bits_of_the_cpu, 0, (int)(sizeof trials / sizeof *trials));
    suite_add_tcase(s, c);
    return check_main(s);
}
