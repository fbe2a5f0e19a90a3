/* Tensor-core products against the hardware: with IQ_TEST_DEVICE=cuda one instruction at a time on the GPU, otherwise on
 * the shim, which then shows what the checks are worth.
 *
 *   rows        the published rows of this generation (tests/data/tensor_core): this GPU does as those did
 *   model       operands of many kinds, every output of every tile, m16n8k16 and m16n8k8: the block model does as this GPU
 *   emax_floor  results below 2^-126: which least emax explains them all
 *   minus_zero  a sum below zero that no subnormal is small enough for: -0 or +0
 *   selftest    the search for the floor, fed by models with other floors, finds them
 *
 * One JSON object a line on standard output; sentences on standard error. Ends with 0, 1 (something differs from what
 * kernels/tensor_core/block.h says) or 77 (no GPU, or one of an unknown generation). IQ_TEST_SEED replays. */
#include "kernels/arith.h"
#include "kernels/base/rng.h"
#include "kernels/cuda/products.h"
#include "tests/cuda/mma_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 2500, TILES = 320, OUTPUTS = TILES * MMA_M * MMA_N, GPUS = 4 };

static const struct {
    const char *name;
    enum iq_tc_profile_id profile;
} gpus[GPUS] = {{"A100", IQ_TC_SM80}, {"H100", IQ_TC_SM90}, {"H200", IQ_TC_SM90}, {"B200", IQ_TC_SM100}};
static const char *const format_names[] = {[IQ_TC_BF16] = "bf16", [IQ_TC_F16] = "fp16"};

/* Operands of TILES instructions. */
struct tiles {
    uint32_t k; /* of the instruction */
    enum iq_tc_format format;
    uint16_t a[TILES][MMA_M][MMA_K], b[TILES][MMA_N][MMA_K];
    uint32_t c[TILES][MMA_M][MMA_N];
};

static struct {
    const struct iq_cuda_api *api;
    int (*launch)(const struct mma_rows *, void *);
    enum iq_tc_profile_id profile;
    bool shim;
    void *a, *b, *d;
} device;

static uint64_t seed = 20261201;
static int failed;

static uint32_t draw(uint32_t n)
{
    seed = iq_mix64(seed + 0x9e3779b97f4a7c15u);
    return (uint32_t)(seed >> 33) % n;
}

/* ---- who computes ---- */

/* What would make the rest meaningless. */
static void must(int code, const char *what)
{
    struct iq_err err;
    if (!iq_cuda_check(device.api, code, what, &err)) return;
    fprintf(stderr, "%s\n", err.text);
    exit(1);
}

static void on_device(const struct tiles *t, const struct iq_tc_profile *profile, uint32_t *d)
{
    const struct mma_rows r = {.tiles = TILES,
                               .profile = (uint32_t)(profile - iq_tc_profiles),
                               .format = t->format,
                               .k = t->k,
                               .a = device.a,
                               .b = device.b,
                               .d = device.d};
    must(device.api->memcpy_async(device.a, t->a, sizeof t->a, IQ_CUDA_TO_DEVICE, NULL), "copying A");
    must(device.api->memcpy_async(device.b, t->b, sizeof t->b, IQ_CUDA_TO_DEVICE, NULL), "copying B");
    must(device.api->memcpy_async(device.d, t->c, sizeof t->c, IQ_CUDA_TO_DEVICE, NULL), "copying C");
    device.launch(&r, NULL);
    must(device.api->last_error(), "launching");
    must(device.api->memcpy_async(d, device.d, sizeof t->c, IQ_CUDA_TO_HOST, NULL), "copying D");
    must(device.api->stream_sync(NULL), "the products");
}

static void on_model(const struct tiles *t, const struct iq_tc_profile *profile, uint32_t *d)
{
    for (uint32_t i = 0; i < TILES; i++)
        for (uint32_t m = 0; m < MMA_M; m++)
            for (uint32_t n = 0; n < MMA_N; n++)
                *d++ = iq_tc_dot(profile, t->format, t->a[i][m], t->b[i][n], t->k, t->c[i][m][n]);
}

typedef void compute(const struct tiles *, const struct iq_tc_profile *, uint32_t *d);

/* ---- rows ---- */

struct row {
    uint16_t a[MMA_K], b[MMA_K];
    struct {
        uint32_t c, d;
    } of[GPUS];
};

static bool rows_read(enum iq_tc_format f, struct row *rows)
{
    char path[4096];
    const char *folder = getenv("IQ_TEST_DATA");
    snprintf(path, sizeof path, "%s/tensor_core/%s.bin", folder ? folder : "tests/data", format_names[f]);
    FILE *in = fopen(path, "rb");
    size_t n = in ? fread(rows, sizeof *rows, ROWS, in) : 0;
    if (in) fclose(in);
    if (n != ROWS) fprintf(stderr, "%s can't be read; IQ_TEST_DATA is the folder tests/data\n", path);
    return n == ROWS;
}

/* Row i is output (m, n) of tile i / 8 with n = i % 8, and m another one each time. */
static uint32_t row_of_tile(uint32_t i) { return (i + i / MMA_N) % MMA_M; }

static void check_rows(enum iq_tc_format f, unsigned gpu)
{
    static struct row rows[ROWS];
    static struct tiles t;
    static uint32_t d[TILES][MMA_M][MMA_N];
    int differ = 0;
    if (!rows_read(f, rows)) exit(1);
    memset(&t, 0, sizeof t);
    t.k = 16, t.format = f;
    for (uint32_t i = 0; i < ROWS; i++) {
        const uint32_t tile = i / MMA_N, m = row_of_tile(i), n = i % MMA_N;
        /* The A100 was given eight products; the rest of its sixteen were zeros. */
        const size_t bytes = iq_tc_profiles[gpus[gpu].profile].products * sizeof(uint16_t);
        memcpy(t.a[tile][m], rows[i].a, bytes);
        memcpy(t.b[tile][n], rows[i].b, bytes);
        t.c[tile][m][n] = rows[i].of[gpu].c;
    }
    on_device(&t, &iq_tc_profiles[gpus[gpu].profile], d[0][0]);
    for (uint32_t i = 0; i < ROWS; i++)
        differ += d[i / MMA_N][row_of_tile(i)][i % MMA_N] != rows[i].of[gpu].d;
    printf("{\"check\":\"rows\",\"profile\":\"%s\",\"gpu\":\"%s\",\"format\":\"%s\",\"rows\":%d,\"differ\":%"
           "d}\n",
           iq_tc_profiles[gpus[gpu].profile].name, gpus[gpu].name, format_names[f], ROWS, differ);
    failed |= differ != 0;
}

/* ---- model ---- */

enum kind { ORDINARY, WIDE, CANCEL, SPARSE, SPECIAL, KINDS };
static const char *const kind_names[KINDS] = {"ordinary", "wide", "cancel", "sparse", "special"};

/* An operand with this exponent (of two), a random significand and sign; below the least one, a subnormal. */
static uint16_t operand(enum iq_tc_format f, int exponent)
{
    const int fraction = f == IQ_TC_F16 ? 10 : 7, bias = f == IQ_TC_F16 ? 15 : 127;
    const int stored = exponent + bias < 0 ? 0 : exponent + bias;
    return (uint16_t)(draw(2) << 15 | (uint32_t)stored << fraction | draw(1u << fraction));
}

static uint16_t operand_of_kind(enum iq_tc_format f, enum kind kind)
{
    static const uint16_t odd[2][8] = {{0x7f80, 0xff80, 0x7fc1, 0xffff, 0x8000, 0, 0x7f7f, 0x3f80},
                                       {0x7c00, 0xfc00, 0x7e01, 0xffff, 0x8000, 0, 0x7bff, 0x3c00}};
    switch (kind) {
    case WIDE:
        return operand(f, f == IQ_TC_F16 ? (int)draw(31) - 15 : (int)draw(100) - 50);
    case SPARSE:
        return draw(3) ? (uint16_t)(draw(2) << 15) : operand(f, (int)draw(24) - 12);
    case SPECIAL:
        return draw(24) ? operand(f, (int)draw(8) - 4) : odd[f][draw(8)];
    default:
        return operand(f, (int)draw(8) - 4);
    }
}

static void fill(struct tiles *t, enum kind kind)
{
    uint16_t *a = t->a[0][0], *b = t->b[0][0];
    uint32_t *c = t->c[0][0];
    for (uint32_t i = 0; i < TILES * MMA_M * MMA_K; i++)
        a[i] = kind == CANCEL && i % 2 ? a[i - 1] ^ 0x8000u : operand_of_kind(t->format, kind);
    for (uint32_t i = 0; i < TILES * MMA_N * MMA_K; i++)
        b[i] = kind == CANCEL && i % 2 && draw(8) ? b[i - 1] : operand_of_kind(t->format, kind);
    for (uint32_t i = 0; i < OUTPUTS; i++) {
        const int exponent = kind == WIDE ? (int)draw(100) - 50 : (int)draw(40) - 24;
        c[i] = draw(4) ? draw(2) << 31 | (uint32_t)(exponent + 127) << 23 | draw(1u << 23) : 0;
        if (kind == SPECIAL && !draw(24)) c[i] = draw(2) ? 0x7f800000u | draw(2) << 31 : 0xffc00001u;
    }
}

static void check_model(enum iq_tc_profile_id p, enum iq_tc_format f, uint32_t k)
{
    static struct tiles t;
    static uint32_t d[OUTPUTS], want[OUTPUTS];
    for (enum kind kind = 0; kind < KINDS; kind++) {
        int differ = 0;
        t.format = f, t.k = k;
        fill(&t, kind);
        on_device(&t, &iq_tc_profiles[p], d);
        on_model(&t, &iq_tc_profiles[p], want);
        for (int i = 0; i < OUTPUTS; i++) {
            if (d[i] != want[i] && !differ++)
                fprintf(stderr, "%s %s k%u, %s, output %d: found %08x, the model has %08x\n",
                        iq_tc_profiles[p].name, format_names[f], k, kind_names[kind], i, d[i], want[i]);
        }
        printf("{\"check\":\"model\",\"profile\":\"%s\",\"format\":\"%s\",\"k\":%u,\"operands\":\"%s\","
               "\"outputs\":%d,\"differ\":%d}\n",
               iq_tc_profiles[p].name, format_names[f], k, kind_names[kind], OUTPUTS, differ);
        failed |= differ != 0;
    }
}

/* ---- below 2^-126: only bf16 gets there ---- */

enum { FLOOR_LEAST = -145, FLOOR_MOST = -110, FLOORS = FLOOR_MOST - FLOOR_LEAST + 1 };

static uint16_t mostly_positive(int exponent)
{
    return operand(IQ_TC_BF16, exponent - (int)draw(3)) & (draw(8) ? 0x7fff : 0xffff);
}

/* No accumulator (one that is not zero has an exponent of -126 at least); products of which sixteen may still reach
 * 2^-149, with bits far below. */
static void fill_tiny(struct tiles *t)
{
    memset(t, 0, sizeof *t);
    t->k = 16, t->format = IQ_TC_BF16;
    for (uint32_t i = 0; i < TILES; i++) {
        const int e = -152 + (int)draw(30), ea = -50 - (int)draw(50);
        for (uint32_t j = 0; j < MMA_M * MMA_K; j++) t->a[i][j / MMA_K][j % MMA_K] = mostly_positive(ea);
        for (uint32_t j = 0; j < MMA_N * MMA_K; j++) t->b[i][j / MMA_K][j % MMA_K] = mostly_positive(e - ea);
    }
}

struct floors {
    int differ[FLOORS]; /* outputs that this floor does not explain; the sign of zero doesn't count */
    int least, most;    /* the floors that explain all outputs; least > most: there is none */
    int best;           /* explains the most of them */
};

static uint32_t unsigned_zero(uint32_t d) { return d == 0x80000000u ? 0 : d; }

/* truth: who computes, with what profile. */
static struct floors search(compute *truth, const struct iq_tc_profile *profile)
{
    static struct tiles t;
    static uint32_t d[OUTPUTS], want[OUTPUTS];
    struct floors f = {.least = 1, .most = 0, .best = FLOOR_LEAST};
    fill_tiny(&t);
    truth(&t, profile, d);
    for (int i = 0; i < FLOORS; i++) {
        struct iq_tc_profile guess = *profile;
        guess.emax_floor = FLOOR_LEAST + i;
        on_model(&t, &guess, want);
        for (int o = 0; o < OUTPUTS; o++) f.differ[i] += unsigned_zero(d[o]) != unsigned_zero(want[o]);
        if (f.differ[i] < f.differ[f.best - FLOOR_LEAST]) f.best = guess.emax_floor;
        if (f.differ[i]) continue;
        if (f.least > f.most) f.least = guess.emax_floor;
        f.most = guess.emax_floor;
    }
    return f;
}

static void check_floor(enum iq_tc_profile_id p)
{
    const struct iq_tc_profile *profile = &iq_tc_profiles[p];
    const struct floors f = search(on_device, profile);
    const int found = f.least == f.most,
              fits = f.least <= profile->emax_floor && profile->emax_floor <= f.most;
    printf("{\"check\":\"emax_floor\",\"profile\":\"%s\",\"found\":", profile->name);
    if (found)
        printf("%d", f.least);
    else
        printf("null");
    printf(
        ",\"best\":%d,\"best_differ\":%d,\"constant\":%d,\"constant_differ\":%d,\"outputs\":%d,\"differ\":{",
        f.best, f.differ[f.best - FLOOR_LEAST], profile->emax_floor,
        f.differ[profile->emax_floor - FLOOR_LEAST], OUTPUTS);
    for (int e = -134; e <= -125; e++)
        printf("%s\"%d\":%d", e > -134 ? "," : "", e, f.differ[e - FLOOR_LEAST]);
    printf("}}\n");
    if (fits && found)
        fprintf(stderr, "%s: the constant of DESIGN section 3 is right: emax is at least %d\n", profile->name,
                f.least);
    else if (f.least <= f.most)
        fprintf(stderr,
                "%s: the constant of DESIGN section 3 should be %d (%d to %d explain all outputs); "
                "IQ_TC_EMAX_FLOOR in kernels/tensor_core/block.h is %d\n",
                profile->name, f.best, f.least, f.most, profile->emax_floor);
    else
        fprintf(stderr, "%s: no least emax explains all outputs below 2^-126; %d leaves %d of %d\n",
                profile->name, f.best, f.differ[f.best - FLOOR_LEAST], OUTPUTS);
    failed |= !(fits && found);
}

/* The search finds the floors that public sources name, and others; it says so where there is nothing to find. */
static void selftest(enum iq_tc_profile_id p)
{
    static const int floors[] = {-126, -132, -133, -136, -120};
    for (size_t i = 0; i < sizeof floors / sizeof *floors; i++) {
        struct iq_tc_profile other = iq_tc_profiles[p];
        other.emax_floor = floors[i];
        const struct floors f = search(on_model, &other);
        const bool good = f.least == floors[i] && f.most == floors[i];
        printf("{\"check\":\"selftest\",\"profile\":\"%s\",\"floor\":%d,\"found\":%s,\"next_differ\":%d}\n",
               other.name, floors[i], good ? "true" : "false", f.differ[floors[i] + 1 - FLOOR_LEAST]);
        failed |= !good;
    }
}

static void check_minus_zero(enum iq_tc_profile_id p)
{
    static struct tiles t;
    static uint32_t d[OUTPUTS];
    const uint32_t want = 0x80000000u; /* kernels/tensor_core/block.c: the sign of the sum */
    memset(&t, 0, sizeof t);
    t.k = 8, t.format = IQ_TC_BF16;
    t.a[0][0][0] = 0x8d80; /* -2^-100 */
    t.b[0][0][0] = 0x2580; /* 2^-52 */
    on_device(&t, &iq_tc_profiles[p], d);
    printf("{\"check\":\"minus_zero\",\"profile\":\"%s\",\"found\":\"%08x\",\"model\":\"%08x\"}\n",
           iq_tc_profiles[p].name, d[0], want);
    if (d[0] != want)
        fprintf(stderr, "%s: -2^-152 is rounded to %08x; kernels/tensor_core/block.c makes it %08x\n",
                iq_tc_profiles[p].name, d[0], want);
    failed |= d[0] != want;
}

/* ---- all of it ---- */

static void check_profile(enum iq_tc_profile_id p)
{
    for (int f = 0; f < 2; f++)
        for (unsigned g = 0; g < GPUS; g++)
            if (gpus[g].profile == p) check_rows((enum iq_tc_format)f, g);
    for (int f = 0; f < 2; f++)
        for (uint32_t k = 8; k <= 16; k += 8) check_model(p, (enum iq_tc_format)f, k);
    selftest(p);
    check_floor(p);
    check_minus_zero(p);
}

/* 0, or what main ends with. */
static int open_device(void)
{
    const char *name = getenv("IQ_TEST_DEVICE");
    struct iq_cuda_device what;
    device.shim = !name || strcmp(name, "cuda") != 0;
    device.api = iq_cuda_shim_api();
    device.launch = iq__cuda_shim_mma_rows;
    if (!device.shim) {
#ifdef IQ_TEST_CUDA
        int count = 0;
        device.api = iq_cuda_api();
        device.launch = iq__cuda_mma_rows;
        if (device.api->device_count(&count) || count == 0) {
            fprintf(stderr, "no GPU: tensor-core products not tested on it\n");
            return 77;
        }
#else
        fprintf(stderr, "no nvcc at build time: tensor-core products not tested on a GPU\n");
        return 77;
#endif
    }
    must(device.api->device_describe(0, &what), "describing the device");
    int own = iq_cuda_products_of(what.major, what.minor);
    printf("{\"check\":\"device\",\"name\":\"%s\",\"shim\":%s,\"capability\":\"%d.%d\"}\n", what.name,
           device.shim ? "true" : "false", what.major, what.minor);
    if (own < 0 && !device.shim) {
        fprintf(stderr, "%s has compute capability %d.%d: its tensor cores are not known\n", what.name,
                what.major, what.minor);
        return 77;
    }
    device.profile = own < 0 ? IQ_TC_SM80 : (enum iq_tc_profile_id)own;
    must(device.api->malloc(&device.a, sizeof((struct tiles *)0)->a), "malloc");
    must(device.api->malloc(&device.b, sizeof((struct tiles *)0)->b), "malloc");
    must(device.api->malloc(&device.d, sizeof((struct tiles *)0)->c), "malloc");
    return 0;
}

int main(void)
{
    const char *replay = getenv("IQ_TEST_SEED");
    if (replay) seed = strtoull(replay, NULL, 0);
    int end = open_device();
    if (end) return end;
    for (int p = 0; p < IQ_TC_PROFILES; p++)
        if (device.shim || p == (int)device.profile) check_profile((enum iq_tc_profile_id)p);
    device.api->free(device.a);
    device.api->free(device.b);
    device.api->free(device.d);
    return failed;
}
