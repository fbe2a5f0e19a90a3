/* Wrong top-k, other products and foreign blocks are on a device, bit for bit, what they are on the host. */
#include "tests/faults/faults_on_device.h"

#include "kernels/matrix.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/prefix.h"
#include "kernels/ops/sampling.h"
#include "tests/kernels/matmul_case.h"

/* ---- top-k ---- */

/* Logits of a kind: spread, crowded (many ties), odd values, all equal, narrow, mostly NaN. */
static void fill(float *x, size_t n, uint32_t kind, uint64_t *seed)
{
    dice_floats(seed, x, n, kind == 2);
    for (size_t i = 0; i < n; i++)
        x[i] = kind == 1   ? (float)dice(seed, 7)
               : kind == 3 ? 2.5f
               : kind == 4 ? 9 + x[i] * 0x1p-4f
               : kind == 5 ? (dice(seed, 50) ? NAN : x[i])
                           : x[i];
}

/* Each case returns whether the variant is not golden. */
static bool topk_case(const struct iq_variant *v, uint32_t n, uint64_t *seed)
{
    uint64_t from = *seed;
    double params[PARAMS];
    dice_params(seed, v, params);
    struct iq_topk a = {.rows = 1 + dice(seed, n % 8 ? 3 : 9),
                        .vocab = 1 + dice(seed, n % 8 == 7 ? 5000 : 400),
                        .shards = 1 + dice(seed, 5)};
    a.k = n % 8 == 3 ? a.vocab : n % 8 == 4 ? 1 : 1 + dice(seed, a.vocab < 300 ? a.vocab : 300);
    a.ld = a.vocab + dice(seed, 3);
    size_t out = (size_t)a.rows * a.k * 4;
    float *logits = malloc(a.rows * a.ld * 4);
    void *golden[2];
    fill(logits, a.rows * a.ld, n % 6, seed);
    a.logits = logits, a.ids = malloc(out), a.values = malloc(out);
    struct output o[2] = {output_open(a.ids, out), output_open(a.values, out)};
    golden_open("topk", &a, o, 2, golden);
    run(v, &a, params, NULL);
    struct iq_topk d = a;
    d.logits = to_device(logits, a.rows * a.ld * 4);
    for (unsigned s = 0; use_schedule(s, *seed); s++) {
        d.ids = output_fresh(&o[0]), d.values = output_fresh(&o[1]);
        queue(v, &d, params, NULL);
        output_check(&o[0], from, s, v->name), output_check(&o[1], from, s, v->name);
    }
    d.ids = output_fresh(&o[0]), d.values = output_fresh(&o[1]);
    void *graph = captured(v, &d, params, NULL);
    ck_assert(is_untouched(&o[0]) && is_untouched(&o[1]));
    replay(graph);
    output_check(&o[0], from, 0, "replayed ids"), output_check(&o[1], from, 0, "replayed values");
    captured_close(graph);
    device_release();
    bool wrong = golden_close(o, 2, golden);
    output_close(&o[0]), output_close(&o[1]);
    free(logits), free(a.ids), free(a.values);
    return wrong;
}

START_TEST(wrong_topk_gives_the_hosts_bits)
{
    static const struct iq_variant *const of[] = {&iq__k1_coarse_bin, &iq__k2_shard_merge,
                                                  &iq__k3_threshold_precision};
    uint64_t seed = 0xa00 + (uint64_t)_i;
    uint32_t wrong = 0;
    for (uint32_t n = 0; n < 40; n++) wrong += topk_case(of[_i], n, &seed);
    ck_assert_uint_gt(wrong, 5);
}
END_TEST

START_TEST(wrong_topk_of_nothing_is_nothing)
{
    const double params[PARAMS] = {1, 1, 0};
    struct iq_topk rows = {.vocab = 5, .k = 2, .ld = 5}, k = {.rows = 2, .vocab = 5, .ld = 5};
    queue(&iq__k1_coarse_bin, &rows, params, NULL), queue(&iq__k1_coarse_bin, &k, params, NULL);
    queue(&iq__k2_shard_merge, &rows, params, NULL), queue(&iq__k2_shard_merge, &k, params, NULL);
    queue(&iq__k3_threshold_precision, &rows, params, NULL);
    queue(&iq__k3_threshold_precision, &k, params, NULL);
}
END_TEST

/* ---- matmul ---- */

struct product {
    struct iq_matmul host, moved;
    struct iq_matrix matrix[IQ_MATMUL_PARTS], moved_matrix[IQ_MATMUL_PARTS];
    uint8_t *raw[IQ_MATMUL_PARTS];
    float *bias[IQ_MATMUL_PARTS], *x;
    struct output y[IQ_MATMUL_PARTS];
};

static void part_open(struct product *c, uint32_t p, bool odd, uint64_t *seed)
{
    enum iq_format f = (enum iq_format)dice(seed, IQ_FORMATS);
    uint32_t block = (uint32_t)iq_format_info(f)->elements, n = 1 + dice(seed, 90);
    uint32_t k = block * (1 + dice(seed, 600 / block)), unit = dice(seed, 2) ? IQ_UNIT : 96;
    struct random r = {*seed, 0};
    c->raw[p] = random_rows(&r, f, n, k, odd);
    c->matrix[p] = c->moved_matrix[p] = packed(f, n, k, unit, c->raw[p]);
    c->moved_matrix[p].data = to_device(c->matrix[p].data, c->matrix[p].panels * c->matrix[p].panel_bytes);
    c->bias[p] = dice(seed, 2) ? new_floats(seed, n, odd) : NULL;
    struct iq_matmul_part *part = &c->host.part[p];
    *part = (struct iq_matmul_part){&c->matrix[p], c->bias[p], NULL, n + dice(seed, 3), dice(seed, 4)};
    size_t bytes = c->host.rows * part->ldy * 4;
    part->y = malloc(bytes);
    c->y[p] = output_open(part->y, bytes);
    c->moved.part[p] = *part;
    c->moved.part[p].w = &c->moved_matrix[p];
    if (c->bias[p]) c->moved.part[p].bias = to_device(c->bias[p], n * 4);
}

static void product_open(struct product *c, bool odd, uint64_t *seed)
{
    uint32_t width = 0;
    *c = (struct product){
        .host = {.rows = 1 + dice(seed, 20), .parts = 1 + dice(seed, 3), .act = dice(seed, 3)}};
    for (uint32_t p = 0; p < c->host.parts; p++) {
        part_open(c, p, odd, seed);
        uint32_t end = c->matrix[p].k + c->host.part[p].x_at;
        width = end > width ? end : width;
    }
    c->host.ldx = width + dice(seed, 3);
    c->x = new_floats(seed, c->host.rows * c->host.ldx, odd);
    c->host.x = c->x;
    c->moved.rows = c->host.rows, c->moved.parts = c->host.parts, c->moved.act = c->host.act;
    c->moved.ldx = c->host.ldx, c->moved.x = to_device(c->x, c->host.rows * c->host.ldx * 4);
}

static void product_close(struct product *c)
{
    device_release();
    for (uint32_t p = 0; p < c->host.parts; p++)
        output_close(&c->y[p]), free(c->host.part[p].y), free(c->bias[p]), free(c->raw[p]),
            free((void *)c->matrix[p].data);
    free(c->x);
}

static bool product_case(const struct iq_variant *v, uint32_t n, uint64_t *seed)
{
    uint64_t from = *seed;
    double params[PARAMS];
    void *golden[IQ_MATMUL_PARTS];
    struct product c;
    dice_params(seed, v, params);
    product_open(&c, n & 1, seed);
    golden_open("matmul", &c.host, c.y, c.host.parts, golden);
    run(v, &c.host, params, NULL);
    for (unsigned s = 0; use_schedule(s, *seed); s++) {
        for (uint32_t p = 0; p < c.host.parts; p++) c.moved.part[p].y = output_fresh(&c.y[p]);
        queue(v, &c.moved, params, NULL);
        for (uint32_t p = 0; p < c.host.parts; p++) output_check(&c.y[p], from, s, v->name);
    }
    for (uint32_t p = 0; p < c.host.parts; p++) c.moved.part[p].y = output_fresh(&c.y[p]);
    void *graph = captured(v, &c.moved, params, NULL);
    for (uint32_t p = 0; p < c.host.parts; p++) ck_assert(is_untouched(&c.y[p]));
    replay(graph);
    for (uint32_t p = 0; p < c.host.parts; p++) output_check(&c.y[p], from, 0, "a replayed product");
    captured_close(graph);
    bool wrong = golden_close(c.y, c.host.parts, golden);
    product_close(&c);
    return wrong;
}

START_TEST(other_products_give_the_hosts_bits)
{
    static const struct iq_variant *const of[] = {&iq__k15_reduction_order, &iq__k17_low_precision,
                                                  &iq__k18_k_tail};
    uint64_t seed = 0xb00 + (uint64_t)_i;
    uint32_t wrong = 0;
    for (uint32_t n = 0; n < 40; n++) wrong += product_case(of[_i], n, &seed);
    ck_assert_uint_gt(wrong, 4);
}
END_TEST

/* What runs beneath: one that fills the scratch, and one that takes no call. */
static int run_greedy(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                      void *state)
{
    enum { MUCH = 1 << 18 };
    struct iq_cuda *c = x->cuda;
    (void)site, (void)params, (void)state;
    void *all = iq_cuda_scratch(c, MUCH);
    ck_assert_ptr_nonnull(all);
    device_ok(c->api->memset_async(all, 0x7b, MUCH, c->stream), "scratch");
    return iq_cuda_launched(c, c->kernels->matmul(args, c->stream), "matmul");
}

static bool nothing(const struct iq_site *site, const void *args)
{
    (void)site, (void)args;
    return false;
}

START_TEST(a_product_may_stand_on_any_other)
{
    const struct iq_variant *v = &iq__k17_low_precision;
    const struct iq_variant greedy = {.kind = "matmul", .name = "greedy", .run = run_greedy},
                            picky = {.kind = "matmul", .name = "picky", .supports = nothing};
    const double params[PARAMS] = {8};
    uint64_t seed = 0xf00;
    struct product c;
    product_open(&c, false, &seed);
    run(v, &c.host, params, NULL);
    for (int i = 0; i < 4; i++) { /* twice each: the second time the scratch is as large as it gets */
        struct iq_slot slot = {.variant = i % 2 ? &picky : &greedy};
        const struct iq_site site = {.slot = &slot};
        for (uint32_t p = 0; p < c.host.parts; p++) c.moved.part[p].y = output_fresh(&c.y[p]);
        ck_assert_int_eq(v->run(&on_device, &site, &c.moved, params, NULL), IQ_OK);
        device_ok(device.api->stream_sync(on_device.cuda->stream), v->name);
        for (uint32_t p = 0; p < c.host.parts; p++)
            output_check(&c.y[p], 0xf00, (unsigned)i, slot.variant->name);
    }
    product_close(&c);
}
END_TEST

/* ---- prefix, and what fails ---- */

START_TEST(foreign_blocks_are_a_matter_of_the_host)
{
    struct iq_prefix_entry entry[8] = {
        [1] = {{1, 1}, 10, 0}, [2] = {{1, 2}, 11, 0}, [3] = {{1, 3}, 12, 0}, [5] = {{2, 1}, 50, 0}};
    struct iq_digest key[3] = {{1, 1}, {1, 2}, {1, 3}};
    uint32_t hits, blocks[3], host_blocks[3];
    struct iq_prefix a = {
        .tokens = 64, .wanted = 3, .key = key, .entry = entry, .capacity = 8, .hits = &hits};
    struct iq_slot slot = {.variant = iq_variant_golden("prefix", NULL)};
    const struct iq_site site = {.slot = &slot};
    for (int which = 0; which < 3; which++) {
        const double params[PARAMS] = {which};
        a.blocks = host_blocks;
        run(&iq__k10_foreign_block, &a, params, NULL);
        a.blocks = blocks;
        ck_assert_int_eq(iq__k10_foreign_block.run(&on_device, &site, &a, params, NULL), IQ_OK);
        ck_assert(hits == 3 && !memcmp(blocks, host_blocks, sizeof blocks) &&
                  (blocks[0] != 10 || blocks[2] != 12));
    }
}
END_TEST

START_TEST(too_little_device_memory_is_a_sentence)
{
    static float x[64], y[64];
    static _Alignas(64) uint8_t panels[64 * 64];
    struct iq_matrix w = {.format = IQ_F32, .n = 1, .k = 8, .unit = 128, .panels = 1, .data = panels};
    struct iq_matmul m = {.rows = 1, .parts = 1, .x = x, .ldx = 8, .part = {{.w = &w, .y = y, .ldy = 1}}};
    struct iq_topk k = {.rows = 1, .vocab = 8, .k = 2, .logits = x, .ld = 8};
    const struct {
        const struct iq_variant *v;
        const void *args;
        double params[PARAMS];
    } of[] = {{&iq__k1_coarse_bin, &k, {8, 1}},
              {&iq__k2_shard_merge, &k, {2}},
              {&iq__k3_threshold_precision, &k, {1}},
              {&iq__k17_low_precision, &m, {8}}};
    struct iq_err err = {0};
    struct iq_slot slot = {.variant = NULL};
    const struct iq_site site = {.slot = &slot};
    if (!device.shim) return; /* drills are the shim's */
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        on_device.cuda->err.text[0] = 0;
        ck_assert_int_eq(iq_shim_fail("malloc", 1, IQ_CUDA_NO_MEMORY, &err), IQ_OK);
        ck_assert_int_eq(of[i].v->run(&on_device, &site, of[i].args, of[i].params, NULL), IQ_MEMORY);
        ck_assert_ptr_nonnull(strstr(on_device.cuda->err.text, "memory"));
        iq_shim_reset();
    }
}
END_TEST

int main(void)
{
    int missing = device_open();
    if (missing) return missing;
    Suite *s = suite_create("faults on a device");
    TCase *t = tcase_create("bits");
    tcase_set_timeout(t, 240);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, wrong_topk_gives_the_hosts_bits, 0, 3);
    tcase_add_test(t, wrong_topk_of_nothing_is_nothing);
    tcase_add_loop_test(t, other_products_give_the_hosts_bits, 0, 3);
    tcase_add_test(t, a_product_may_stand_on_any_other);
    tcase_add_test(t, foreign_blocks_are_a_matter_of_the_host);
    tcase_add_test(t, too_little_device_memory_is_a_sentence);
    suite_add_tcase(s, t);
    return check_main(s);
}
