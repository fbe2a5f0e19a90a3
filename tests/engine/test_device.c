/* The golden chain on a device is the CPU's, to the bit: every cell, position, candidate and likelihood, however the
 * requests are batched, cut, cached, sharded, preempted, sampled and captured. On random models; SmolLM2's first layers
 * are test_device_smollm2's. IQ_TEST_DEVICE=cuda: on the GPU. */
#include "tests/check_main.h"
#include "tests/engine/device_rig.h"
#include "tests/engine/small_models.h"
#include "tests/files/scratch.h"

#include "kernels/arith.h"
#include "kernels/cuda/shim/control.h"
#include "kernels/ops/kv.h"

#include <stdlib.h>
#include <string.h>

/* EXPERTS: the mixture of experts, its ranks as many as those of tensors. */
enum { PREFIX = 1, CAPTURED = 2, SCORED = 4, SAMPLED = 8, WATCHED = 16, UNTRACED = 32, EXPERTS = 64 };
/* What the run must show, so that it was put to the test. */
enum { HITS = 1, PREEMPTS = 2, PADDED = 4, CHUNKS = 8, MIXED = 16, TEMPERED = 32 };

#define FORWARD "forward", IQ_SHIM_POISON_NAN
#define REVERSE "reverse", IQ_SHIM_POISON_HIGH
#define SHUFFLE "random:7", IQ_SHIM_POISON_LOW

static const struct trial {
    const char *name;
    uint32_t n, batch, chunk, tp;
    enum iq_level level;
    enum iq_act act;
    unsigned how, shows;
    uint32_t blocks; /* of KV; 0: enough */
    uint32_t every;  /* virtual us between arrivals; 0: all at once */
    const char *schedule;
    uint32_t poison;
} trials[] = {
    {"batch 1", 3, 1, 0, 1, IQ_LEVEL_OPS, IQ_ACT_F32, SAMPLED | WATCHED, 0, 0, 0, FORWARD},
    {"batch 3", 4, 3, 0, 1, IQ_LEVEL_OPS, IQ_ACT_F32, SAMPLED | WATCHED, MIXED | TEMPERED, 0, 0, REVERSE},
    {"batch 8", 8, 8, 0, 1, IQ_LEVEL_CHAIN, IQ_ACT_F32, SAMPLED, 0, 0, 0, SHUFFLE},
    {"batch 8 once more", 8, 8, 0, 1, IQ_LEVEL_OPS, IQ_ACT_F32, 0, 0, 0, 0, FORWARD},
    {"prefix hits", 6, 2, 0, 1, IQ_LEVEL_OPS, IQ_ACT_F32, PREFIX, HITS, 0, 0, REVERSE},
    {"chunks of 1", 3, 3, 1, 1, IQ_LEVEL_OPS, IQ_ACT_F32, WATCHED, CHUNKS, 0, 0, FORWARD},
    {"chunks of 7, prefix hits", 5, 3, 7, 1, IQ_LEVEL_CHAIN, IQ_ACT_F32, PREFIX | WATCHED, CHUNKS | HITS, 0,
     0, SHUFFLE},
    {"chunks of 16", 4, 3, 16, 1, IQ_LEVEL_OPS, IQ_ACT_F32, SAMPLED | WATCHED, CHUNKS, 0, 0, REVERSE},
    {"two ranks, prefix hits", 4, 3, 0, 2, IQ_LEVEL_OPS, IQ_ACT_F32, PREFIX, HITS, 0, 0, REVERSE},
    {"four ranks", 3, 3, 0, 4, IQ_LEVEL_CHAIN, IQ_ACT_F32, SAMPLED, 0, 0, 0, FORWARD},
    {"eight ranks", 3, 2, 16, 8, IQ_LEVEL_OPS, IQ_ACT_F32, CAPTURED | WATCHED, 0, 0, 0, SHUFFLE},
    {"preempted", 6, 3, 0, 1, IQ_LEVEL_OPS, IQ_ACT_F32, 0, PREEMPTS, 4, 0, FORWARD},
    {"preempted, captured, with hits", 6, 4, 7, 1, IQ_LEVEL_CHAIN, IQ_ACT_F32, PREFIX | CAPTURED | SAMPLED,
     PREEMPTS | HITS, 4, 0, REVERSE},
    {"scored", 4, 2, 0, 1, IQ_LEVEL_CHAIN, IQ_ACT_F32, SCORED, 0, 0, 0, SHUFFLE},
    {"bf16", 4, 3, 0, 1, IQ_LEVEL_OPS, IQ_ACT_BF16, SAMPLED | WATCHED, MIXED, 0, 0, FORWARD},
    {"f16, two ranks", 3, 3, 0, 2, IQ_LEVEL_OPS, IQ_ACT_F16, CAPTURED, 0, 0, 0, REVERSE},
    {"captured, all at once", 8, 8, 0, 1, IQ_LEVEL_OPS, IQ_ACT_F32, CAPTURED | SAMPLED | WATCHED,
     PADDED | TEMPERED, 0, 0, FORWARD},
    {"captured, come and go", 8, 8, 4, 1, IQ_LEVEL_CHAIN, IQ_ACT_F32, CAPTURED | WATCHED, PADDED | CHUNKS, 0,
     1500, SHUFFLE},
    {"captured, chunks of 1, two ranks", 5, 5, 1, 2, IQ_LEVEL_CHAIN, IQ_ACT_F32, CAPTURED | SAMPLED | WATCHED,
     PADDED | CHUNKS, 0, 900, REVERSE},
    {"tensors", 2, 2, 0, 1, IQ_LEVEL_TENSORS, IQ_ACT_F32, SAMPLED, 0, 0, 0, FORWARD},
    {"tensors, captured, two ranks", 2, 2, 0, 2, IQ_LEVEL_TENSORS, IQ_ACT_BF16, CAPTURED, 0, 0, 0, REVERSE},
    {"nothing digested", 4, 4, 0, 1, IQ_LEVEL_CHAIN, IQ_ACT_F32, CAPTURED | SAMPLED | UNTRACED, 0, 0, 0,
     SHUFFLE},
    {"experts, chunks of 7, hits", 5, 3, 7, 1, IQ_LEVEL_OPS, IQ_ACT_F32, EXPERTS | PREFIX | WATCHED,
     CHUNKS | HITS, 0, 0, FORWARD},
    {"experts, two ranks, captured, come and go", 8, 8, 4, 2, IQ_LEVEL_OPS, IQ_ACT_BF16,
     EXPERTS | CAPTURED | SAMPLED | WATCHED, PADDED | CHUNKS | TEMPERED, 0, 1500, REVERSE},
    {"experts, eight ranks, preempted, captured", 6, 4, 7, 8, IQ_LEVEL_CHAIN, IQ_ACT_F32,
     EXPERTS | PREFIX | CAPTURED | SAMPLED, PREEMPTS | HITS, 4, 0, SHUFFLE},
    {"experts, tensors, four ranks", 2, 2, 0, 4, IQ_LEVEL_TENSORS, IQ_ACT_F16, EXPERTS | SAMPLED, 0, 0, 0,
     REVERSE},
};
enum { TRIALS = sizeof trials / sizeof *trials };

static struct iq_model *model;
static struct iq_rig_set set;

static void open_model(const struct iq_small *small, uint32_t tp, bool sampled)
{
    uint32_t experts = small->spec.experts ? tp : 1;
    model = iq_rig_model_experts(iq_small_write(small), tp, experts);
    set = iq_rig_few(iq_rig_seed(), model->config.vocab, sampled);
}

static void close_model(void)
{
    iq_rig_set_free(&set);
    iq_model_close(model);
}

static struct iq_rig_case case_of(const struct trial *t)
{
    struct iq_rig_case k = {.what = t->name,
                            .model = model,
                            .config = IQ_ENGINE_CONFIG,
                            .request = set.request,
                            .n = t->n,
                            .watch = t->how & WATCHED};
    k.config.batch = t->batch;
    k.config.chunk = t->chunk;
    k.config.level = t->level;
    k.config.act = t->act;
    k.config.kv_blocks = t->blocks;
    k.config.prefix_cache = t->how & PREFIX;
    k.config.captured = t->how & CAPTURED;
    k.config.untraced = t->how & UNTRACED;
    for (uint32_t i = 0; i < t->n; i++) {
        set.request[i].arrive_us = (uint64_t)i * t->every;
        set.request[i].score = t->how & SCORED;
    }
    return k;
}

static void proof(const struct trial *t, const struct iq_rig *g)
{
    const struct iq_engine_stats *s = iq_engine_stats(g->engine);
    const struct iq_rig_seen *seen = &g->seen;
    const bool shown[] = {s->hits >= IQ_KV_BLOCK, s->preemptions > 0, seen->padded > 0,
                          seen->chunks > 0,       seen->mixed > 0,    seen->tempered > 0};
    static const char *const what[] = {"prefix hits", "preemptions", "padded steps",
                                       "chunks",      "mixed steps", "temper"};
    for (int i = 0; i < 6; i++)
        ck_assert_msg(!(t->shows >> i & 1) || shown[i], "%s: no %s", t->name, what[i]);
    for (uint32_t i = 0; (t->how & SCORED) && i < g->n; i++) ck_assert_ptr_nonnull(iq_rig_output(g, i)->nll);
    ck_assert_msg(t->how & UNTRACED || seen->batch == t->batch || t->shows & PREEMPTS || t->every,
                  "%s: batches of %u", t->name, seen->batch);
}

START_TEST(the_device_gives_the_bits_of_the_cpu)
{
    const struct trial *t = &trials[_i];
    struct iq_rig_recorded device;
    open_model(&iq_small[t->how & EXPERTS ? IQ_SMALL_EXPERTS : IQ_SMALL_WIDE], t->tp, t->how & SAMPLED);
    iq_rig_schedule(t->schedule, t->poison);
    struct iq_rig_case k = case_of(t);
    iq_rig_twins(&k, &device);
    proof(t, &device.rig);
    iq_rig_recorded_close(&device);
    close_model();
}
END_TEST

START_TEST(every_architecture_and_weight_format_has_the_bits_of_the_cpu)
{
    struct trial t = {iq_small[_i].name,
                      4,
                      3,
                      0,
                      1,
                      IQ_LEVEL_OPS,
                      iq_small[_i].act,
                      SAMPLED | PREFIX | CAPTURED,
                      0,
                      0,
                      0,
                      _i % 2 ? "random:11" : "warp-reverse",
                      IQ_SHIM_POISON_HIGH};
    struct iq_rig_recorded device;
    t.tp = iq_small[_i].tp[0] ? iq_small[_i].tp[0] : 1;
    open_model(&iq_small[_i], t.tp, true);
    iq_rig_schedule(t.schedule, t.poison);
    struct iq_rig_case k = case_of(&t);
    iq_rig_twins(&k, &device);
    iq_rig_recorded_close(&device);
    close_model();
}
END_TEST

/* A request alone and eager, and the same beside seven that come and go through graphs. */
START_TEST(captured_steps_have_the_bits_of_eager_ones)
{
    static const struct trial eager = {"eager", 8, 1, 0, 1, IQ_LEVEL_CHAIN, IQ_ACT_F32, 0, 0, 0, 0, FORWARD},
                              graphs = {
                                  "captured",         8,      8, 5,    1,      IQ_LEVEL_CHAIN, IQ_ACT_F32,
                                  CAPTURED | WATCHED, PADDED, 0, 1100, REVERSE};
    struct iq_rig_recorded a, b;
    char why[256];
    open_model(&iq_small[IQ_SMALL_WIDE], 1, true);
    struct iq_rig_case k = case_of(&eager);
    iq_rig_case_run(&k, iq_rig_device(), &a);
    iq_rig_schedule(graphs.schedule, graphs.poison);
    k = case_of(&graphs);
    iq_rig_case_run(&k, iq_rig_device(), &b);
    proof(&graphs, &b.rig);
    iq_rig_no_findings("captured");
    for (uint32_t i = 0; i < k.n; i++)
        ck_assert_msg(iq_rig_same(&a.rig, i, &b.rig, i, why), "request %u: %s", i, why);
    iq_rig_recorded_close(&a), iq_rig_recorded_close(&b);
    close_model();
}
END_TEST

/* A hit takes blocks over from the request before, and what is digested then is read back from the device. */
START_TEST(a_hit_digests_what_the_device_holds)
{
    static const struct trial t = {"hits", 2, 1, 0, 1, IQ_LEVEL_OPS, IQ_ACT_F32, PREFIX, HITS, 0, 0, FORWARD};
    struct iq_rig_recorded device;
    open_model(&iq_small[IQ_SMALL_WIDE], 1, false);
    struct iq_rig_case k = case_of(&t);
    uint32_t prompt[2][IQ_RIG_SHORT];
    for (uint32_t i = 0; i < 2 * IQ_RIG_SHORT; i++)
        prompt[i / IQ_RIG_SHORT][i % IQ_RIG_SHORT] = 3 + i % IQ_RIG_SHORT * 5;
    prompt[1][IQ_RIG_SHORT - 2] = 7; /* the second leaves the first after two blocks */
    for (int i = 0; i < 2; i++) set.request[i].prompt = prompt[i], set.request[i].n_prompt = IQ_RIG_SHORT;
    iq_rig_twins(&k, &device);
    uint32_t reused = 0;
    for (uint32_t i = 0; i < device.log.cells; i++) reused += device.log.cell[i].cell.state == IQ_CELL_REUSED;
    ck_assert_uint_eq(iq_rig_output(&device.rig, 1)->cached, 2 * IQ_KV_BLOCK);
    ck_assert_uint_gt(reused, 2 * IQ_KV_BLOCK * 2 * model->config.layers);
    iq_rig_recorded_close(&device);
    close_model();
}
END_TEST

/* A graph that is captured while all contexts end in one chunk of keys serves when the longest has grown into the next. */
START_TEST(a_graph_serves_past_the_end_of_a_chunk_of_keys)
{
    static const struct trial t = {"long",     2,        2, 0, 1, IQ_LEVEL_CHAIN,
                                   IQ_ACT_F32, CAPTURED, 0, 0, 0, REVERSE};
    const uint32_t lengths[] = {IQ_KEY_CHUNK * (uint32_t)(_i + 1) - 5, 3};
    static uint32_t prompt[3 * IQ_KEY_CHUNK];
    struct iq_rig_recorded device;
    open_model(&iq_small_tiny, 1, true);
    struct iq_rig_case k = case_of(&t);
    iq_rig_schedule(t.schedule, t.poison);
    for (uint32_t i = 0; i < lengths[0]; i++) prompt[i] = (uint32_t)(iq_rig_draw(9, i) % model->config.vocab);
    for (int i = 0; i < 2; i++) {
        set.request[i].prompt = prompt;
        set.request[i].n_prompt = lengths[i];
        set.request[i].max_tokens = 10;
        set.request[i].ignore_stop = true;
    }
    iq_rig_twins(&k, &device);
    iq_rig_recorded_close(&device);
    close_model();
}
END_TEST

/* Writes a value over a weight of a packed F32 matrix: all columns of one output. */
static void poison_output(const struct iq_matrix *m, uint32_t output, uint32_t bits)
{
    ck_assert_uint_eq(m->format, IQ_F32);
    uint32_t *panel = (uint32_t *)(uintptr_t)(m->data + output / IQ_PANEL * m->panel_bytes);
    for (uint32_t k = 0; k < m->k; k++) panel[k * IQ_PANEL + output % IQ_PANEL] = bits;
}

/* Payloads, signs and infinities in some logits: no digest and no choice depends on what the hardware makes of them. */
START_TEST(logits_that_are_no_numbers_have_the_bits_of_the_cpu)
{
    static const struct trial t = {"NaN", 6, 4, 0, 1, IQ_LEVEL_OPS, IQ_ACT_F32, CAPTURED, 0, 0, 0, REVERSE};
    static const uint32_t odd[] = {0x7fc12345, 0xffc54321, 0x7f812345, 0x7f800000, 0xff800000};
    struct iq_rig_recorded device;
    open_model(&iq_small_tiny, 1, _i);
    for (uint32_t i = 0; i < 5; i++) poison_output(&model->head, 3 + 17 * i, odd[i]);
    struct iq_rig_case k = case_of(&t);
    iq_rig_twins(&k, &device);
    iq_rig_recorded_close(&device);
    close_model();
}
END_TEST

/* A row in which nothing is a number is a crash of the run, in the same words. */
START_TEST(a_row_of_nan_ends_the_run_as_on_the_cpu)
{
    struct iq_err err[2] = {0};
    open_model(&iq_small_tiny, 1, false);
    poison_output(&model->layer[1].rank[0].down[0], 5, 0xffc00001);
    for (int i = 0; i < 2; i++) {
        struct iq_engine_config c = IQ_ENGINE_CONFIG;
        struct iq_engine *e;
        int status;
        bool more = true;
        c.device = i ? iq_rig_device() : NULL;
        ck_assert_int_eq(iq_engine_open(model, &c, set.request, 3, &e, &err[i]), IQ_OK);
        while (more && (status = iq_engine_step(e, &more, &err[i])) == IQ_OK) {}
        ck_assert_int_eq(status, IQ_CRASHED);
        iq_engine_close(e);
    }
    ck_assert_str_eq(err[0].text, err[1].text);
    close_model();
}
END_TEST

/* Tensor-core products run on the device as the CPU's emulation does. */
START_TEST(products_have_the_bits_of_the_cpu)
{
    static const char *const products[] = {"sm80", "sm90", "sm100-f16"};
    static const struct trial t = {"products", 3,        3, 0, 2, IQ_LEVEL_OPS,
                                   IQ_ACT_F32, CAPTURED, 0, 0, 0, FORWARD};
    struct iq_rig_recorded device;
    open_model(&iq_small[IQ_SMALL_WIDE], t.tp, true);
    struct iq_rig_case k = case_of(&t);
    k.what = k.config.products = products[_i];
    iq_rig_twins(&k, &device);
    iq_rig_recorded_close(&device);
    close_model();
}
END_TEST

int main(void)
{
    iq_rig_device();
    Suite *s = suite_create("golden on a device");
    const struct {
        const char *name;
        const TTest *test;
        int first, end;
    } cases[] = {{"trials", the_device_gives_the_bits_of_the_cpu, 0, TRIALS},
                 {"models", every_architecture_and_weight_format_has_the_bits_of_the_cpu, 1, 0},
                 {"captured", captured_steps_have_the_bits_of_eager_ones, 0, 1},
                 {"hits", a_hit_digests_what_the_device_holds, 0, 1},
                 {"long", a_graph_serves_past_the_end_of_a_chunk_of_keys, 0, 3},
                 {"odd", logits_that_are_no_numbers_have_the_bits_of_the_cpu, 0, 2},
                 {"nan", a_row_of_nan_ends_the_run_as_on_the_cpu, 0, 1},
                 {"products", products_have_the_bits_of_the_cpu, 0, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        TCase *c = tcase_create(cases[i].name);
        tcase_set_timeout(c, 300);
        tcase_add_checked_fixture(c, iq_scratch_make, iq_scratch_remove);
        tcase_add_loop_test(c, cases[i].test, cases[i].first, cases[i].end ? cases[i].end : iq_smalls);
        suite_add_tcase(s, c);
    }
    return check_main(s);
}
