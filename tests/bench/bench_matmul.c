/* The matrix products of SmolLM2-135M (30 layers and the LM head) on random weights, as JSON lines: tokens per second if
 * there were nothing else, and the share of what this machine can do at most.
 *
 *   bench_matmul FORMAT ISA THREADS SECONDS ROWS...      e.g. bench_matmul q4_1 avx512 1 1 1 8 16 32 512
 *
 * q4_1 and q4_0 have a Q8_0 head, as the model's file has. Above 64 rows the head runs for one row, as in a prefill.
 * Each figure is the median of the runs that fit in SECONDS (at least 3); "best" is the fastest of them. */
#include "harness/bench/peak.h"
#include "kernels/arith.h"
#include "kernels/base/arena.h"
#include "kernels/base/rng.h"
#include "kernels/exec.h"
#include "kernels/matrix.h"
#include "kernels/op.h"
#include "kernels/ops/matmul.h"
#include "kernels/tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { LAYERS = 30, VOCAB = 49152, DIM = 576, KV = 192, FFN = 1536, MAX_ROWS = 512, CALLS = 4, RUNS = 4096 };

/* The calls of a layer: (outputs of each part), columns, unit of the sum. */
static const struct {
    uint32_t n[3], parts, k, unit;
} calls[CALLS] = {{{DIM, KV, KV}, 3, DIM, IQ_UNIT},
                  {{DIM}, 1, DIM, 192},
                  {{FFN, FFN}, 2, DIM, IQ_UNIT},
                  {{DIM}, 1, FFN, IQ_UNIT}};

struct model {
    struct iq_arena arena;
    struct iq_matrix w[LAYERS][CALLS][3], head;
    double pack_s, values;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void put16(uint8_t *p, uint16_t v) { memcpy(p, &v, 2); }

/* Plausible rows: small values, scales that make them so, offsets that centre them. */
static void fill(enum iq_format f, uint8_t *raw, size_t bytes)
{
    const struct iq_format_info *info = iq_format_info(f);
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        uint64_t r = iq_mix64(i);
        memcpy(raw + i, &r, 8);
    }
    for (size_t i = 0; i + info->bytes <= bytes; i += info->bytes) {
        float small = (float)(iq_mix64(i) >> 40) * 0x1p-26f - 0.125f;
        if (f == IQ_F32) memcpy(raw + i, &small, 4);
        if (f == IQ_F16) put16(raw + i, iq_f32_to_f16(small));
        if (f == IQ_BF16) put16(raw + i, iq_f32_to_bf16(small));
        if (f >= IQ_Q8_0) put16(raw + i, iq_f32_to_f16(f == IQ_Q8_0 ? 0.001f : 0.016f + small / 64));
        if (f == IQ_Q4_1) put16(raw + i + 2, iq_f32_to_f16(-0.12f + small / 8));
    }
}

static void pack(struct model *m, struct iq_matrix *w, enum iq_format f, uint32_t n, uint32_t k,
                 uint32_t unit, uint8_t *raw)
{
    struct iq_err err = {0};
    const struct iq_matrix_source from = {.raw = raw, .row_bytes = iq_format_row_bytes(f, k)};
    void *into = iq_arena_take(&m->arena, iq_matrix_bytes(f, n, k));
    double t = now();
    if (!into || iq_matrix_pack(w, f, n, k, unit, &from, into, &err)) {
        fprintf(stderr, "bench_matmul: %s\n", into ? err.text : "arena too small");
        exit(2);
    }
    m->pack_s += now() - t;
    m->values += (double)n * k;
}

static void build(struct model *m, enum iq_format f)
{
    enum iq_format head = f >= IQ_Q4_0 ? IQ_Q8_0 : f;
    struct iq_err err = {0};
    uint8_t *raw = calloc((size_t)VOCAB * DIM, 4);
    if (!raw || iq_arena_open((size_t)600 << 20, &m->arena, &err)) exit(2);
    fill(f, raw, iq_format_row_bytes(f, (size_t)FFN * DIM));
    for (int l = 0; l < LAYERS; l++)
        for (int c = 0; c < CALLS; c++)
            for (uint32_t p = 0; p < calls[c].parts; p++)
                pack(m, &m->w[l][c][p], f, calls[c].n[p], calls[c].k, calls[c].unit, raw);
    fill(head, raw, iq_format_row_bytes(head, (size_t)VOCAB * DIM));
    pack(m, &m->head, head, VOCAB, DIM, IQ_UNIT, raw);
    free(raw);
}

struct bench {
    struct model model;
    struct iq_exec exec;
    const struct iq_variant *variant;
    float *x, *y;
};

static void product(struct bench *b, const struct iq_matrix *w, uint32_t parts, uint32_t rows)
{
    struct iq_matmul m = {.rows = rows, .parts = parts, .x = b->x, .ldx = w->k};
    float *y = b->y;
    for (uint32_t p = 0; p < parts; y += (size_t)rows * w[p].n, p++)
        m.part[p] = (struct iq_matmul_part){.w = &w[p], .y = y, .ldy = w[p].n};
    if (b->variant->run(&b->exec, NULL, &m, NULL, NULL)) exit(2);
}

static double step(struct bench *b, uint32_t rows, uint32_t head_rows)
{
    double t = now();
    for (int l = 0; l < LAYERS; l++)
        for (int c = 0; c < CALLS; c++) product(b, b->model.w[l][c], calls[c].parts, rows);
    product(b, &b->model.head, 1, head_rows);
    return now() - t;
}

static int ascending(const void *a, const void *b)
{
    double d = *(const double *)a - *(const double *)b;
    return (d > 0) - (d < 0);
}

static const struct iq_variant *variant_of(const char *isa)
{
    for (const struct iq_variant *const *v = iq__variants_matmul; *v; v++)
        if (!strcmp((*v)->kind, "matmul") && !strcmp((*v)->name, isa) && (!(*v)->usable || (*v)->usable()))
            return *v;
    return NULL;
}

static double peak_of(const char *isa, struct iq_pool *pool)
{
    for (const struct iq_peak_isa *p = iq_peak_isas; p->name; p++)
        if (!strcmp(p->name, isa)) return iq_peak_fma(p, pool);
    return 0;
}

int main(int argc, char **argv)
{
    static struct bench b;
    static double took[RUNS];
    struct iq_err err = {0};
    enum iq_format f = IQ_F32;
    while (argc > 1 && f < IQ_FORMATS && strcasecmp(iq_format_info(f)->name, argv[1])) f++;
    int threads = argc > 3 ? atoi(argv[3]) : 0;
    double seconds = argc > 4 ? atof(argv[4]) : 0, read = 0, fma;
    if (argc < 6 || f == IQ_FORMATS || !(b.variant = variant_of(argv[2])) || threads < 1) {
        fprintf(
            stderr,
            "usage: bench_matmul f32|f16|bf16|q8_0|q4_0|q4_1 scalar|avx2|avx512 THREADS SECONDS ROWS...\n");
        return 2;
    }
    if (iq_pool_open(threads, &b.exec.pool, &err) ||
        iq_peak_read(iq_peak_read_bytes(), b.exec.pool, &read, &err)) {
        fprintf(stderr, "bench_matmul: %s\n", err.text);
        return 2;
    }
    fma = peak_of(argv[2], b.exec.pool);
    build(&b.model, f);
    b.x = aligned_alloc(64, sizeof(float[MAX_ROWS][FFN]));
    b.y = calloc((size_t)VOCAB * 64 + (size_t)MAX_ROWS * 2 * FFN, sizeof *b.y);
    for (int i = 0; i < MAX_ROWS * FFN; i++) b.x[i] = (float)(iq_mix64((uint64_t)i) >> 40) * 0x1p-23f - 1.0f;
    printf("{\"fma_peak_gflops\":%.1f,\"read_peak_gbs\":%.1f,\"packed_bytes\":%zu,\"pack_s\":%.3f}\n", fma,
           read, b.model.arena.used, b.model.pack_s);
    for (int a = 5; a < argc; a++) {
        uint32_t rows = (uint32_t)atoi(argv[a]), head_rows = rows > 64 ? 1 : rows;
        if (rows < 1 || rows > MAX_ROWS) continue;
        double flop = 2 * (b.model.values - (double)VOCAB * DIM) * rows + 2.0 * VOCAB * DIM * head_rows;
        int runs = 0;
        step(&b, rows, head_rows);
        for (double t0 = now(); runs < 3 || (now() - t0 < seconds && runs < RUNS); runs++)
            took[runs] = step(&b, rows, head_rows);
        qsort(took, (size_t)runs, sizeof *took, ascending);
        double t = took[runs / 2], gflops = flop / t * 1e-9, gbs = (double)b.model.arena.used / t * 1e-9;
        printf(
            "{\"format\":\"%s\",\"isa\":\"%s\",\"rows\":%u,\"threads\":%d,\"tok_s\":%.1f,\"tok_s_best\":%.1f,"
            "\"gflops\":%.1f,\"gbs\":%.2f,\"fma_share\":%.3f,\"read_share\":%.3f}\n",
            argv[1], argv[2], rows, threads, rows / t, rows / took[0], gflops, gbs, gflops / fma, gbs / read);
        fflush(stdout);
    }
    iq_pool_close(b.exec.pool);
    iq_exec_close(&b.exec);
    iq_arena_close(&b.model.arena);
    free(b.x);
    free(b.y);
    return 0;
}
