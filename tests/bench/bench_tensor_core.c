/* Tensor-core products as JSON lines: products per second of one thread, for each form that runs here, beside the scalar
 * reference (iq_tc_dot on bit patterns) in the same run.
 *
 *   bench_tensor_core SECONDS [ROWS...]      default: rows 1 8 64
 *
 * Weights are a projection of SmolLM2 (576 outputs, 1536 columns), packed as BF16 and Q4_1. A figure is the median of
 * the rounds that fit in SECONDS of CPU time (at least 3); a round runs the reference and then every form, so that a
 * machine whose speed wanders changes both. `times_reference` is the median of the rounds' ratios. */
#include "kernels/arith.h"
#include "kernels/base/rng.h"
#include "kernels/exec.h"
#include "kernels/matrix.h"
#include "kernels/op.h"
#include "kernels/ops/matmul.h"
#include "kernels/tensor_core/block.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N = 576, K = 1536, ROWS_MAX = 512, ROUNDS = 512, FORMS = 3, OUTPUTS = 64 };

static const char *const forms[FORMS] = {"scalar", "avx2", "avx512"};
static const char *const products[] = {"sm80", "sm90", "sm100", "sm80-f16", "sm90-f16", "sm100-f16"};

struct bench {
    struct iq_exec exec;
    struct iq_matrix w;
    float *x, *y;
    uint16_t *a, *b; /* what the reference multiplies */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* one thread: what others take does not count */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float sample(uint64_t i) { return (float)(iq_mix64(i) >> 40) * 0x1p-23f - 1.0f; }

static void build(struct bench *b, enum iq_format f)
{
    const size_t row_bytes = iq_format_row_bytes(f, K), bytes = N * row_bytes;
    uint8_t *raw = malloc(bytes), *into = aligned_alloc(IQ_MATRIX_ALIGN, iq_matrix_bytes(f, N, K));
    struct iq_err err = {0};
    if (!raw || !into) exit(2);
    for (size_t i = 0; i < bytes; i++) raw[i] = (uint8_t)iq_mix64(i);
    for (size_t i = 0; i < bytes; i += iq_format_info(f)->bytes) {
        uint16_t h = f == IQ_BF16 ? iq_f32_to_bf16(sample(i) / 8) : iq_f32_to_f16(0.016f + sample(i) / 256);
        memcpy(raw + i, &h, sizeof h);
        h = iq_f32_to_f16(-0.12f + sample(i + 1) / 64);
        if (f == IQ_Q4_1) memcpy(raw + i + 2, &h, sizeof h);
    }
    const struct iq_matrix_source from = {.raw = raw, .row_bytes = row_bytes};
    if (iq_matrix_pack(&b->w, f, N, K, IQ_UNIT, &from, into, &err)) exit(2);
    free(raw);
}

/* Seconds for one product. */
static double reference(const struct bench *b, enum iq_tc_profile_id profile, enum iq_tc_format format)
{
    double t = now();
    uint32_t sum = 0;
    for (int o = 0; o < OUTPUTS; o++)
        sum ^= iq_tc_dot(&iq_tc_profiles[profile], format, b->a, b->b + (size_t)o * K, K, 0);
    memcpy(b->y, &sum, sizeof sum); /* used: not optimised away */
    return (now() - t) / ((double)OUTPUTS * K);
}

static double form(struct bench *b, const struct iq_variant *v, uint32_t rows)
{
    struct iq_matmul m = {
        .rows = rows, .parts = 1, .x = b->x, .ldx = K, .part = {{.w = &b->w, .y = b->y, .ldy = N}}};
    double t = now();
    if (v->run(&b->exec, NULL, &m, NULL, NULL)) exit(2);
    return (now() - t) / ((double)rows * N * K);
}

static double median(double *d, int n)
{
    for (int i = 1; i < n; i++)
        for (int j = i; j && d[j] < d[j - 1]; j--) {
            double swap = d[j];
            d[j] = d[j - 1];
            d[j - 1] = swap;
        }
    return d[n / 2];
}

static void measure(struct bench *b, int p, const char *weights, uint32_t rows, double seconds)
{
    static double took[FORMS][ROUNDS], ratio[FORMS][ROUNDS], ref[ROUNDS];
    const struct iq_variant *v[FORMS];
    const enum iq_tc_format format = p < IQ_TC_PROFILES ? IQ_TC_BF16 : IQ_TC_F16;
    const enum iq_tc_profile_id profile = (enum iq_tc_profile_id)(p % IQ_TC_PROFILES);
    int rounds = 0;
    for (int i = 0; i < FORMS; i++) {
        char name[40];
        snprintf(name, sizeof name, "%s.%s", products[p], forms[i]);
        v[i] = iq_variant_find("matmul", name);
        if (v[i] && !v[i]->usable()) v[i] = NULL;
    }
    for (int i = 0; i < OUTPUTS * K; i++) {
        float w = sample((uint64_t)i) / 8;
        b->b[i] = format == IQ_TC_F16 ? iq_f32_to_f16(w) : iq_f32_to_bf16(w);
        if (i < K) b->a[i] = format == IQ_TC_F16 ? iq_f32_to_f16(b->x[i]) : iq_f32_to_bf16(b->x[i]);
    }
    for (double t0 = now(); rounds < 3 || (now() - t0 < seconds && rounds < ROUNDS); rounds++) {
        ref[rounds] = reference(b, profile, format);
        for (int i = 0; i < FORMS; i++) {
            if (!v[i]) continue;
            took[i][rounds] =
                form(b, v[i], i ? rows : 1); /* the scalar form is slow, and as fast at one row */
            ratio[i][rounds] = ref[rounds] / took[i][rounds];
        }
    }
    printf("{\"products\":\"%s\",\"weights\":\"%s\",\"rows\":%u,\"reference_mps\":%.1f", products[p], weights,
           rows, 1e-6 / median(ref, rounds));
    for (int i = 0; i < FORMS; i++)
        if (v[i])
            printf(",\"%s\":{\"mps\":%.1f,\"times_reference\":%.1f}", forms[i],
                   1e-6 / median(took[i], rounds), median(ratio[i], rounds));
    printf("}\n");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const char *const defaults[] = {"1", "8", "64"};
    static const enum iq_format stored[] = {IQ_BF16, IQ_Q4_1};
    struct bench b = {.x = malloc(sizeof(float[ROWS_MAX][K])),
                      .y = malloc(sizeof(float[ROWS_MAX][N])),
                      .a = malloc(sizeof(uint16_t[K])),
                      .b = malloc(sizeof(uint16_t[OUTPUTS][K]))};
    struct iq_err err = {0};
    if (argc < 2 || atof(argv[1]) <= 0) {
        fprintf(stderr, "usage: bench_tensor_core SECONDS [ROWS...]\n");
        return 2;
    }
    if (!b.x || !b.y || !b.a || !b.b || iq_kernels_register(&err)) return 2;
    for (size_t i = 0; i < (size_t)ROWS_MAX * K; i++) b.x[i] = sample(i + 77);
    for (size_t s = 0; s < sizeof stored / sizeof *stored; s++) {
        build(&b, stored[s]);
        for (int p = 0; p < 2 * IQ_TC_PROFILES; p++)
            for (int i = 0; i < (argc > 2 ? argc - 2 : 3); i++) {
                int rows = atoi(argc > 2 ? argv[2 + i] : defaults[i]);
                if (rows > 0 && rows <= ROWS_MAX)
                    measure(&b, p, iq_format_info(stored[s])->name, (uint32_t)rows, atof(argv[1]));
            }
        free((void *)b.w.data);
    }
    iq_exec_close(&b.exec);
    free(b.x);
    free(b.y);
    free(b.a);
    free(b.b);
    return 0;
}
