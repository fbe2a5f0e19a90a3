/* In vitro: each wrong variant gets the verdict that it deserves, and golden variants get `identical`. */
#include "faults/families.h"
#include "faults/faultset.h"
#include "kernels/arith.h"
#include "kernels/matrix.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/reduce.h"
#include "kernels/vitro.h"
#include "tests/check_main.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum verdict { IDENTICAL, WITHIN, OUTSIDE, VIOLATES };
static const char *const verdict_name[] = {"identical", "within", "outside", "violates"};

static struct iq_exec exec;

static void setup(void)
{
    struct iq_err err = {0};
    ck_assert_msg(!iq_kernels_register(&err) && !iq_faults_register(&err), "%s", err.text);
}
static void teardown(void) { iq_exec_close(&exec); }

static enum verdict verdict(const struct iq_vitro_report *r)
{
    if (!r->exact_equal || !r->invariant_ok) return VIOLATES;
    if (!r->within_bound) return OUTSIDE;
    return r->identical ? IDENTICAL : WITHIN;
}

#define TOPK(k_, vocab_, shards_)                                                                            \
    {                                                                                                        \
        .rows = 2, .k = k_, .vocab = vocab_, .shards = shards_                                               \
    }
#define SAMPLER(k_, vocab_)                                                                                  \
    {                                                                                                        \
        .rows = 12, .k = k_, .vocab = vocab_                                                                 \
    }
#define MATMUL(format_, n_, k_, unit_)                                                                       \
    {                                                                                                        \
        .rows = 3, .n = n_, .k = k_, .unit = unit_, .format = format_                                        \
    }
#define PADDED(format_, n_, k_, unit_)                                                                       \
    {                                                                                                        \
        .rows = 3, .n = n_, .k = k_, .unit = unit_, .format = format_, .padding = 2                          \
    }
#define ATTENTION(rows_, context_)                                                                           \
    {                                                                                                        \
        .rows = rows_, .heads = 4, .kv_heads = 2, .head_dim = 16, .context = context_                        \
    }
#define WIDE(n_)                                                                                             \
    {                                                                                                        \
        .rows = 9, .n = n_                                                                                   \
    }
#define MOE(rows_, ranks_)                                                                                   \
    {                                                                                                        \
        .rows = rows_, .k = 2, .experts = 8, .n = 40, .ranks = ranks_                                        \
    }
#define REDUCE(n_, units_, ranks_)                                                                           \
    {                                                                                                        \
        .rows = 3, .n = n_, .units = units_, .ranks = ranks_                                                 \
    }

static const struct {
    const char *op, *variant, *params;
    struct iq_vitro_shape shape;
    enum verdict verdict;
} cases[] = {
    {"topk", "coarse_bin", "{}", TOPK(40, 49152, 1), VIOLATES},
    {"topk", "coarse_bin", "{\"bits\":16}", TOPK(40, 49152, 1), VIOLATES},
    {"topk", "coarse_bin", "{\"capacity\":49152}", TOPK(40, 49152, 1), IDENTICAL},
    {"topk", "coarse_bin", "{\"capacity\":1}", TOPK(300, 300, 1),
     IDENTICAL}, /* k: the buffer is at least that */
    {"topk", "coarse_bin", "{\"bits\":1,\"capacity\":1}", TOPK(1, 300, 1), VIOLATES},
    {"topk", "shard_merge", "{}", TOPK(40, 49152, 1), IDENTICAL},
    {"topk", "shard_merge", "{}", TOPK(40, 49152, 8), VIOLATES},
    {"topk", "shard_merge", "{\"shards\":8}", TOPK(40, 49152, 1), VIOLATES},
    {"topk", "shard_merge", "{\"shards\":8,\"mistake\":1}", TOPK(40, 49152, 1), VIOLATES},
    {"topk", "shard_merge", "{\"shards\":8,\"mistake\":2}", TOPK(40, 49152, 1), IDENTICAL},
    {"topk", "shard_merge", "{\"shards\":6,\"mistake\":2}", TOPK(40, 49152, 1), VIOLATES},
    {"topk", "shard_merge", "{\"shards\":64}", TOPK(7, 7, 1), VIOLATES}, /* more shards than logits */
    {"topk", "threshold_precision", "{}", TOPK(40, 49152, 1), VIOLATES},
    {"topk", "threshold_precision", "{\"rank\":0}", TOPK(1, 1000, 1), VIOLATES},
    {"topk", "threshold_precision", "{}", TOPK(1, 1, 1), VIOLATES}, /* nothing remains but padding */
    {"topk", "unstable_ties", "{}", TOPK(40, 49152, 1), VIOLATES},
    {"topk", "unstable_ties", "{}", TOPK(1, 300, 1), IDENTICAL}, /* one candidate: nothing to swap */
    {"sample", "token_shift", "{}", SAMPLER(8, 300), VIOLATES},
    {"sample", "token_shift", "{\"delta\":600}", SAMPLER(8, 300), IDENTICAL}, /* twice around */
    {"sample", "fall_through", "{\"bits\":2}", SAMPLER(8, 300), VIOLATES},
    {"sample", "shared_seed", "{}", SAMPLER(8, 300), VIOLATES},
    {"sample", "ties_admitted", "{}", SAMPLER(8, 300), VIOLATES},
    {"sample", "neighbour_parameters", "{}", SAMPLER(8, 300), VIOLATES},
    {"sample", "neighbour_parameters", "{\"which\":0,\"by\":1}", SAMPLER(8, 300), VIOLATES},
    {"sample", "neighbour_parameters", "{\"by\":100}", SAMPLER(8, 300),
     IDENTICAL}, /* nobody is so far away */
    {"temper", "twice_tempered", "{}", SAMPLER(0, 300), VIOLATES},
    {"temper", "neighbour_temperature", "{}", SAMPLER(0, 300), VIOLATES},
    {"temper", "neighbour_temperature", "{\"by\":0}", SAMPLER(0, 300), IDENTICAL},
    {"mask", "neighbour_mask", "{}", SAMPLER(0, 300), VIOLATES},
    {"mask", "neighbour_mask", "{\"by\":-100}", SAMPLER(0, 300), IDENTICAL},
    {"matmul", "rare_script", "{}", MATMUL(IQ_F32, 33, 576, 128), VIOLATES},
    {"matmul", "rare_script", "{\"first\":1}", MATMUL(IQ_F32, 33, 576, 128), IDENTICAL},
    {"matmul", "k_tail", "{}", MATMUL(IQ_F32, 33, 576, 128), VIOLATES},
    {"matmul", "k_tail", "{}", MATMUL(IQ_F16, 33, 577, 128), VIOLATES},
    {"matmul", "k_tail", "{}", MATMUL(IQ_BF16, 65, 577, 128), VIOLATES},
    {"matmul", "k_tail", "{}", MATMUL(IQ_Q8_0, 33, 576, 192), VIOLATES},
    {"matmul", "k_tail", "{}", MATMUL(IQ_Q4_0, 33, 576, 128), VIOLATES},
    {"matmul", "k_tail", "{}", MATMUL(IQ_Q4_1, 33, 576, 128), VIOLATES},
    {"matmul", "k_tail", "{}", MATMUL(IQ_Q4_1, 33, 512, 128), IDENTICAL},
    {"matmul", "k_tail", "{\"drop\":1}", MATMUL(IQ_Q4_1, 33, 512, 128), VIOLATES},
    {"matmul", "k_tail", "{\"drop\":1}", MATMUL(IQ_BF16, 33, 512, 128), VIOLATES},
    {"matmul", "k_tail", "{\"tile\":1000}", MATMUL(IQ_F32, 33, 512, 128), IDENTICAL},
    {"matmul", "reduction_order", "{}", MATMUL(IQ_F32, 33, 576, 128), WITHIN},
    {"matmul", "reduction_order", "{}", MATMUL(IQ_Q4_1, 33, 1536, 192), WITHIN},
    {"matmul", "reduction_order", "{\"unit\":128}", MATMUL(IQ_BF16, 33, 576, 128), IDENTICAL},
    {"matmul", "low_precision", "{}", MATMUL(IQ_F32, 33, 576, 128), OUTSIDE},
    {"matmul", "low_precision", "{}", MATMUL(IQ_Q4_1, 33, 8192, 128), OUTSIDE},
    {"matmul", "low_precision", "{\"bits\":11}", MATMUL(IQ_BF16, 33, 1536, 128), OUTSIDE},
    {"matmul", "low_precision", "{\"bits\":3}", MATMUL(IQ_F32, 33, 576, 128), VIOLATES},
    {"matmul", "low_precision", "{\"bits\":24}", MATMUL(IQ_F32, 33, 576, 128), IDENTICAL},
    {"all_reduce", "stale_peer", "{}", REDUCE(96, 12, 4), VIOLATES},
    {"all_reduce", "stale_peer", "{\"mode\":1,\"fraction\":0.2}", REDUCE(96, 12, 3), VIOLATES},
    {"all_reduce", "stale_peer", "{\"fraction\":0}", REDUCE(96, 12, 4), IDENTICAL},
    {"all_reduce", "stale_peer", "{\"peer\":4}", REDUCE(96, 12, 4), IDENTICAL},
    {"all_reduce", "stale_peer", "{}", REDUCE(96, 12, 1), IDENTICAL},
    {"all_reduce", "reduce_mode", "{\"mode\":2}", REDUCE(160, 8, 2), WITHIN},
    {"topk", "bucket_overflow", "{}", TOPK(40, 49152, 1), VIOLATES},
    {"topk", "bucket_overflow", "{\"capacity\":49152}", TOPK(40, 49152, 1), IDENTICAL},
    {"topk", "cleared_histogram", "{}", TOPK(40, 49152, 1), VIOLATES},
    {"topk", "cleared_histogram", "{\"ties\":49152}", TOPK(40, 49152, 1), IDENTICAL},
    {"topk", "index_bias", "{}", TOPK(40, 49152, 1), VIOLATES},
    {"topk", "index_bias", "{\"step\":0}", TOPK(40, 49152, 1), IDENTICAL},
    {"topk", "row_wrap", "{\"limit\":50000}", TOPK(40, 49152, 1), IDENTICAL}, /* two rows: offset 49152 */
    {"topk", "row_wrap", "{\"limit\":49000}", TOPK(40, 49152, 1), VIOLATES},
    {"matmul", "input_wrap", "{\"limit\":600}", MATMUL(IQ_BF16, 33, 576, 128), VIOLATES},
    {"matmul", "batch_stride", "{}", MATMUL(IQ_Q4_1, 33, 576, 128), VIOLATES},
    {"matmul", "batch_stride", "{\"most\":2}", MATMUL(IQ_Q4_1, 33, 576, 128), IDENTICAL},
    {"matmul", "batch_stride", "{}", MATMUL(IQ_F32, 33, 512, 128), IDENTICAL},
    {"matmul", "tile_by_tokens", "{\"tokens\":3}", MATMUL(IQ_F32, 33, 576, 128), WITHIN},
    {"matmul", "tile_by_tokens", "{\"tokens\":4}", MATMUL(IQ_F32, 33, 576, 128), IDENTICAL},
    {"matmul", "shared_scale", "{}", MATMUL(IQ_F32, 33, 576, 128),
     OUTSIDE}, /* no padding: 8 bits, one scale */
    {"matmul", "shared_scale", "{\"padding\":0}", PADDED(IQ_F32, 33, 576, 128), OUTSIDE},
    {"matmul", "shared_scale", "{\"padding\":1}", PADDED(IQ_F32, 33, 576, 128), VIOLATES},
    {"matmul", "shared_scale", "{\"padding\":2}", PADDED(IQ_BF16, 33, 576, 128), VIOLATES},
    {"matmul", "shared_scale", "{}", PADDED(IQ_Q8_0, 33, 576, 128), VIOLATES},
    {"matmul", "frozen_input", "{}", MATMUL(IQ_F32, 33, 576, 128), VIOLATES},
    {"matmul", "frozen_input", "{\"holds\":1}", MATMUL(IQ_F32, 33, 576, 128), VIOLATES},
    {"matmul", "matmul_upset", "{\"where\":2}", MATMUL(IQ_F32, 130, 576, 128), VIOLATES},
    {"matmul", "matmul_upset", "{\"where\":2,\"bit\":13}", MATMUL(IQ_F16, 130, 576, 128), VIOLATES},
    {"matmul", "matmul_upset", "{\"where\":2,\"bit\":13}", MATMUL(IQ_BF16, 130, 577, 128), VIOLATES},
    {"matmul", "matmul_upset", "{\"where\":2,\"bit\":6}", MATMUL(IQ_Q8_0, 130, 576, 128), VIOLATES},
    {"matmul", "matmul_upset", "{\"where\":2,\"bit\":3}", MATMUL(IQ_Q4_0, 130, 576, 128), VIOLATES},
    {"matmul", "matmul_upset", "{\"where\":2,\"bit\":3}", MATMUL(IQ_Q4_1, 130, 576, 128), VIOLATES},
    {"matmul", "matmul_upset", "{\"where\":1}", MATMUL(IQ_Q4_1, 33, 576, 128), VIOLATES},
    {"matmul", "matmul_upset", "{\"bit\":31}", MATMUL(IQ_Q4_1, 33, 576, 128), VIOLATES},
    {"matmul", "matmul_mode", "{\"mode\":1}", MATMUL(IQ_F32, 33, 576, 128), WITHIN},
    {"matmul", "matmul_mode", "{}", MATMUL(IQ_F32, 33, 576, 128), IDENTICAL},
    {"attention", "split_combine", "{}", ATTENTION(7, 600), VIOLATES},
    {"attention", "split_combine", "{}", ATTENTION(3, 600), IDENTICAL}, /* each sequence has one row */
    {"attention", "split_combine", "{\"mistake\":1}", ATTENTION(7, 600), VIOLATES},
    {"attention", "split_combine", "{\"mistake\":2}", ATTENTION(7, 600), VIOLATES},
    {"attention", "split_combine", "{\"mistake\":2}", ATTENTION(7, 250), IDENTICAL},
    {"attention", "split_by_batch", "{}", ATTENTION(7, 600), WITHIN},
    {"attention", "null_block", "{}", ATTENTION(7, 600), IDENTICAL},
    {"attention", "kv_fp8", "{}", ATTENTION(7, 600), OUTSIDE},
    {"attention", "kv_scale_lost", "{}", ATTENTION(7, 600), VIOLATES},
    {"attention", "kv_scale_lost", "{}", ATTENTION(7, 20), OUTSIDE}, /* too short for a cached block */
    {"attention", "unwritten_tail", "{\"high\":15}", ATTENTION(3, 600), VIOLATES},
    {"attention", "unwritten_tail", "{\"low\":15,\"high\":15}", ATTENTION(3, 600), IDENTICAL},
    {"attention", "attention_upset", "{}", ATTENTION(7, 60), VIOLATES},
    {"attention", "attention_mode", "{\"mode\":1}", ATTENTION(7, 600), WITHIN},
    {"kv_write", "kv_wrap", "{}", ATTENTION(7, 600), VIOLATES},
    {"kv_write", "kv_wrap", "{\"limit\":1000}", ATTENTION(7, 600), IDENTICAL},
    {"kv_write", "kv_upset", "{}", ATTENTION(7, 60), VIOLATES},
    {"rmsnorm", "norm_wrap", "{}", WIDE(576), VIOLATES},
    {"rmsnorm", "norm_wrap", "{\"limit\":6000}", WIDE(576), IDENTICAL},
    {"rmsnorm", "norm_block", "{\"tokens\":9}", WIDE(577), WITHIN},
    {"rmsnorm", "norm_block", "{\"tokens\":9,\"lanes\":7}", WIDE(577), WITHIN},
    {"rmsnorm", "norm_block", "{\"tokens\":9,\"lanes\":32}", WIDE(577), IDENTICAL},
    {"rmsnorm", "norm_upset", "{}", WIDE(576), VIOLATES},
    {"rmsnorm", "norm_mode", "{\"mode\":3}", WIDE(576), WITHIN},
    {"add", "add_upset", "{\"bit\":23}", WIDE(576), VIOLATES},
    {"add", "add_mode", "{\"mode\":3}", WIDE(576), VIOLATES}, /* 1 - 1 is -0 */
    {"add", "add_mode", "{\"mode\":2}", WIDE(576), WITHIN},
    {"route", "expert_bias", "{}", MOE(9, 1), VIOLATES},
    {"route", "expert_bias", "{\"step\":0}", MOE(9, 1), IDENTICAL},
    {"route", "half_candidates", "{}", MOE(9, 1), VIOLATES},
    {"route", "half_candidates", "{\"share\":1}", MOE(9, 1), IDENTICAL},
    {"moe_dispatch", "first_of_block", "{}", MOE(20, 1), VIOLATES},
    {"moe_dispatch", "first_of_block", "{}", MOE(1, 1), IDENTICAL},
    {"moe_dispatch", "shared_counts", "{}", MOE(256, 1), IDENTICAL},
    {"moe_dispatch", "shared_counts", "{}", MOE(257, 1), VIOLATES},
    {"all_to_all", "uneven_ranks", "{}", MOE(9, 2), VIOLATES},
    {"all_to_all", "uneven_ranks", "{}", MOE(8, 2), IDENTICAL},
    {"all_reduce", "warmup_skipped", "{}", REDUCE(97, 12, 4), VIOLATES},
    {"all_reduce", "warmup_skipped", "{}", REDUCE(97, 12, 1), IDENTICAL},
    {"all_reduce", "reduce_upset", "{\"where\":1}", REDUCE(97, 12, 4), VIOLATES},
    {"all_reduce", "ring", "{}", REDUCE(97, 12, 4), WITHIN},
    {"all_reduce", "ring", "{}", REDUCE(97, 12, 2), IDENTICAL},
    {"all_reduce", "backwards", "{}", REDUCE(97, 12, 4), WITHIN},
    {"all_reduce", "backwards", "{}", REDUCE(97, 12, 2), IDENTICAL},
};

static struct iq_vitro_report trial(const char *op, const char *variant, const char *params,
                                    const struct iq_vitro_shape *shape, uint64_t seed)
{
    char text[300];
    struct iq_vitro_report r;
    struct iq_fault f;
    struct iq_err err = {0};
    cJSON *tree;
    int n =
        snprintf(text, sizeof text, "{\"op\":\"%s\",\"variant\":\"%s\",\"params\":%s}", op, variant, params);
    ck_assert_msg(!iq_json_parse(text, (size_t)n, "t", &tree, &err) && !iq_fault_parse(tree, "t", &f, &err),
                  "%s", err.text);
    iq_json_free(tree);
    ck_assert_msg(!iq_vitro(&exec, f.variant, f.params, shape, seed, &r, &err), "%s %s: %s", variant, params,
                  err.text);
    iq_fault_free(&f);
    return r;
}

START_TEST(each_variant_gets_its_verdict)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct iq_vitro_report r =
            trial(cases[_i].op, cases[_i].variant, cases[_i].params, &cases[_i].shape, seed);
        ck_assert_msg(verdict(&r) == cases[_i].verdict, "%s %s seed %llu: %s, expected %s (worst %g): %s",
                      cases[_i].variant, cases[_i].params, (unsigned long long)seed,
                      verdict_name[verdict(&r)], verdict_name[cases[_i].verdict], r.worst, r.first);
        ck_assert_msg((r.first[0] != 0) == !r.identical, "%s %s: %s", cases[_i].variant, cases[_i].params,
                      r.first);
    }
}
END_TEST

/* Shapes at the edges of lanes, panels, units and chunks. */
static const struct {
    const char *kinds;
    struct iq_vitro_shape shape;
} golden_shapes[] = {
    {"attention kv_write", ATTENTION(1, 1)},
    {"attention kv_write", ATTENTION(7, 600)},
    {"rmsnorm add", WIDE(1)},
    {"rmsnorm add", WIDE(577)},
    {"route moe_dispatch all_to_all combine", MOE(1, 1)},
    {"route moe_dispatch all_to_all combine", MOE(300, 4)},
    {"topk", TOPK(1, 1, 1)},
    {"topk", TOPK(40, 3001, 4)},
    {"topk", TOPK(17, 17, 3)},
    {"all_reduce", REDUCE(1, 1, 1)},
    {"all_reduce", REDUCE(577, 12, 4)},
    {"all_reduce", REDUCE(33, 9, 3)},
    {"matmul", MATMUL(IQ_F32, 1, 1, 1)},
    {"matmul", MATMUL(IQ_F16, 65, 131, 64)},
    {"matmul", MATMUL(IQ_BF16, 130, 577, 192)},
    {"matmul", MATMUL(IQ_Q8_0, 64, 576, 128)},
    {"matmul", MATMUL(IQ_Q4_0, 33, 160, 128)},
    {"matmul", MATMUL(IQ_Q4_1, 200, 1536, 128)},
};

START_TEST(every_golden_variant_is_identical)
{
    const struct iq_variant *v;
    const struct iq_vitro_shape *s = &golden_shapes[_i].shape;
    const char *kinds = golden_shapes[_i].kinds;
    int tried = 0;
    for (size_t i = 0; (v = iq_variant_at(i)); i++) {
        struct iq_vitro_report r;
        struct iq_err err = {0};
        if (!strstr(kinds, v->kind) || !(v->flags & IQ_V_GOLDEN) || (v->usable && !v->usable())) continue;
        if (!strcmp(v->device, "cuda")) continue; /* its operands lie elsewhere: tests/cuda */
        int status = iq_vitro(&exec, v, NULL, s, 77, &r, &err);
        if (status == IQ_UNSUPPORTED && v->supports) continue;
        ck_assert_msg(!status && verdict(&r) == IDENTICAL && r.worst <= 1, "%s %s, shape %d: %s%s", v->kind,
                      v->name, _i, err.text, r.first);
        tried++;
    }
    ck_assert_int_ge(tried, 1);
}
END_TEST

/* ---- variants of this test's own ---- */

static int run_nothing(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                       void *state)
{
    (void)x, (void)site, (void)args, (void)params, (void)state;
    return IQ_OK;
}

START_TEST(an_output_that_is_never_written_violates)
{
    static const struct {
        const char *kind;
        struct iq_vitro_shape shape;
    } of[] = {
        {"topk", TOPK(4, 100, 1)}, {"matmul", MATMUL(IQ_F32, 5, 64, 64)}, {"all_reduce", REDUCE(8, 4, 2)}};
    for (int i = 0; i < 3; i++) {
        struct iq_variant v = {.kind = of[i].kind, .name = "nothing", .device = "cpu", .run = run_nothing};
        struct iq_vitro_report r;
        ck_assert_int_eq(iq_vitro(&exec, &v, NULL, &of[i].shape, 1, &r, NULL), IQ_OK);
        ck_assert_msg(verdict(&r) == VIOLATES && !r.exact_equal, "%s: %s", of[i].kind, r.first);
        if (i) ck_assert_msg(isinf(r.worst), "%s: NaN is %g bounds away", of[i].kind, r.worst);
    }
}
END_TEST

/* Products in float32, added downwards without fma: as far from the contract as an honest kernel gets. */
static int run_backwards(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                         void *state)
{
    const struct iq_matmul *a = args;
    const struct iq_matmul_part *p = &a->part[0];
    (void)x, (void)site, (void)params, (void)state;
    float *w = malloc(p->w->k * sizeof *w);
    for (uint32_t o = 0; o < p->w->n; o++) {
        iq_matrix_row(p->w, o, w);
        for (uint32_t r = 0; r < a->rows; r++) {
            float sum = 0;
            for (uint32_t i = p->w->k; i-- > 0;) {
                float product = a->x[r * a->ldx + i] * w[i];
                sum = sum + product;
            }
            p->y[r * p->ldy + o] = sum;
        }
    }
    free(w);
    return IQ_OK;
}

START_TEST(any_order_of_float32_sums_is_within)
{
    static const struct iq_vitro_shape shape = MATMUL(IQ_F32, 17, 4096, 128);
    struct iq_variant v = {.kind = "matmul", .name = "backwards", .device = "cpu", .run = run_backwards};
    for (uint64_t seed = 0; seed < 5; seed++) {
        struct iq_vitro_report r;
        ck_assert_int_eq(iq_vitro(&exec, &v, NULL, &shape, seed, &r, NULL), IQ_OK);
        ck_assert_msg(verdict(&r) == WITHIN && r.worst < 1 && r.worst > 0.01, "seed %llu: worst %g: %s",
                      (unsigned long long)seed, r.worst, r.first);
    }
}
END_TEST

/* Pieces added from the last to the first; `low` rounds each to float16 before. */
static int reduce_backwards(const struct iq_all_reduce *a, bool low)
{
    for (uint32_t r = 0; r < a->rows; r++)
        for (uint32_t i = 0; i < a->n; i++) {
            float sum = 0;
            for (uint32_t p = a->pieces; p-- > 0;) {
                float x = a->piece[p].x[r * a->piece[p].ldx + i];
                sum = sum + (low ? iq_f16_to_f32(iq_f32_to_f16(x)) : x);
            }
            a->y[r * a->ldy + i] = sum;
        }
    return IQ_OK;
}
static int run_reduce(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                      void *state)
{
    (void)x, (void)site, (void)params, (void)state;
    return reduce_backwards(args, false);
}
static int run_reduce_low(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                          void *state)
{
    (void)x, (void)site, (void)params, (void)state;
    return reduce_backwards(args, true);
}

START_TEST(any_order_of_an_all_reduce_is_within)
{
    static const struct iq_vitro_shape shape = REDUCE(96, 12, 4);
    struct iq_variant v = {.kind = "all_reduce", .name = "backwards", .device = "cpu", .run = run_reduce};
    struct iq_vitro_report r;
    ck_assert_int_eq(iq_vitro(&exec, &v, NULL, &shape, 4, &r, NULL), IQ_OK);
    ck_assert_msg(verdict(&r) == WITHIN && r.worst > 0.02, "%s: worst %g: %s", verdict_name[verdict(&r)],
                  r.worst, r.first);
}
END_TEST

START_TEST(a_broken_invariant_violates_though_exact_data_agree)
{
    static const struct iq_vitro_shape shape = REDUCE(96, 12, 4);
    struct iq_variant v = {.kind = "all_reduce", .name = "low", .device = "cpu", .run = run_reduce_low};
    struct iq_vitro_report r;
    ck_assert_int_eq(iq_vitro(&exec, &v, NULL, &shape, 4, &r, NULL), IQ_OK);
    ck_assert_msg(verdict(&r) == VIOLATES && r.exact_equal && !r.invariant_ok && !r.within_bound, "%s",
                  r.first);
    ck_assert_msg(strstr(r.first, "in any order of the sum") != NULL, "%s", r.first);
}
END_TEST

START_TEST(reordering_stays_within_when_outputs_are_rounded)
{
    for (uint32_t act = IQ_ACT_BF16; act <= IQ_ACT_F16; act++) {
        struct iq_vitro_shape shape = MATMUL(IQ_BF16, 64, 576, 128);
        shape.act = act;
        struct iq_vitro_report r = trial("matmul", "reduction_order", "{}", &shape, 3);
        ck_assert_msg(verdict(&r) <= WITHIN, "act %u: %s", act, r.first);
        r = trial("matmul", "k_tail", "{}", &shape, 3);
        ck_assert_msg(verdict(&r) == VIOLATES, "act %u: the tail was not missed", act);
    }
}
END_TEST

START_TEST(one_seed_makes_one_report)
{
    const struct iq_vitro_shape shape = MATMUL(IQ_F32, 33, 576, 128);
    struct iq_vitro_report a = trial("matmul", "low_precision", "{}", &shape, 9);
    struct iq_vitro_report b = trial("matmul", "low_precision", "{}", &shape, 9);
    struct iq_vitro_report c = trial("matmul", "low_precision", "{}", &shape, 10);
    ck_assert(a.worst == b.worst && !strcmp(a.first, b.first) && a.worst != c.worst);
}
END_TEST

static const struct {
    const char *kind;
    struct iq_vitro_shape shape;
    int status;
    const char *says;
} refused[] = {
    {"swiglu", {.rows = 1}, IQ_UNSUPPORTED, "no test in vitro"},
    {"topk", {.rows = 0, .k = 1, .vocab = 1}, IQ_SHAPE, "0 rows"},
    {"topk", {.rows = 5000, .k = 1, .vocab = 1}, IQ_SHAPE, "5000 rows"},
    {"topk", {.rows = 1, .k = 2, .vocab = 1}, IQ_SHAPE, "k <= vocab"},
    {"topk", {.rows = 1, .k = 1, .vocab = UINT32_MAX}, IQ_SHAPE, "vocab <= 4194304"},
    {"topk", {.rows = 4096, .k = 1, .vocab = 1 << 22}, IQ_LIMIT, "too large"},
    {"matmul", {.rows = 1, .k = 100, .n = 1, .unit = 128, .format = IQ_Q8_0}, IQ_SHAPE, "whole blocks"},
    {"matmul",
     {.rows = 1, .k = 100, .n = 1, .unit = 128, .format = (enum iq_format)77},
     IQ_SHAPE,
     "whole blocks"},
    {"matmul", {.rows = 1, .k = 200000, .n = 1, .unit = 128}, IQ_LIMIT, "2^24"},
    {"matmul", {.rows = 1, .k = 100000, .n = UINT32_MAX, .unit = 128}, IQ_LIMIT, "too large"},
    {"all_reduce", {.rows = 1, .n = 0, .units = 1, .ranks = 1}, IQ_SHAPE, "n of at least 1"},
    {"all_reduce", {.rows = 1, .n = 1, .units = 1, .ranks = 2}, IQ_UNSUPPORTED, "units in vitro"},
    {"all_reduce", {.rows = 1, .n = 1, .units = 1, .ranks = 0}, IQ_UNSUPPORTED, "0 ranks"},
};

START_TEST(shapes_that_make_no_sense_are_refused)
{
    struct iq_vitro_report r;
    struct iq_err err = {0};
    const struct iq_variant *v = iq_variant_find(refused[_i].kind, "reference");
    ck_assert_int_eq(iq_vitro(&exec, v, NULL, &refused[_i].shape, 1, &r, &err), refused[_i].status);
    ck_assert_msg(strstr(err.text, refused[_i].says) != NULL, "%s", err.text);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("vitro");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, each_variant_gets_its_verdict, 0, sizeof cases / sizeof *cases);
    tcase_add_loop_test(t, every_golden_variant_is_identical, 0,
                        sizeof golden_shapes / sizeof *golden_shapes);
    tcase_add_test(t, an_output_that_is_never_written_violates);
    tcase_add_test(t, any_order_of_float32_sums_is_within);
    tcase_add_test(t, any_order_of_an_all_reduce_is_within);
    tcase_add_test(t, a_broken_invariant_violates_though_exact_data_agree);
    tcase_add_test(t, reordering_stays_within_when_outputs_are_rounded);
    tcase_add_test(t, one_seed_makes_one_report);
    tcase_add_loop_test(t, shapes_that_make_no_sense_are_refused, 0, sizeof refused / sizeof *refused);
    Suite *s = suite_create("vitro");
    suite_add_tcase(s, t);
    return check_main(s);
}
