/* Proof by exhaustion that exp, log, sin, cos and tanh of kernels/arith.h are correctly rounded.
 *
 *   prove_math FUNCTION|all [SLICE/OF [THREADS [STRIDE]]]   FUNCTION: exp log sin cos tanh
 *
 * Every input's result is compared with an independent evaluation in three steps, each for what the one before leaves
 * open: the C library's double function decides when its value, moved by 2^-50 either way, rounds to one float32; then
 * its long double function with 2^-59; then MPFR with 300 bits. The library states errors below 2^-51 and 2^-61; each
 * run measures some against MPFR. Built without MPFR, or where long double has fewer than 64 bits and no MPFR is there,
 * an input that stays open is a failure.
 * For exp the vector forms of every instruction set found here must give the same bits too.
 * With STRIDE s only every s-th input is tried, and all of hard_cases.h and the special values.
 * Output: one line a function. Exit status 1: an input is rounded wrong or undecided.
 */
#include "kernels/arith.h"
#include "kernels/base/pool.h"
#include "tests/exhaustive/vector_forms.h"

#include <float.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef IQ_HAVE_MPFR
#include <mpfr.h>
#endif

static float own_exp(float x) { return iq_exp(x); }
static float own_log(float x) { return iq_log(x); }
static float own_sin(float x) { return iq_sin(x); }
static float own_cos(float x) { return iq_cos(x); }
static float own_tanh(float x) { return iq_tanh(x); }

struct function {
    const char *name;
    float (*own)(float);
    double (*plain)(double);
    long double (*wide)(long double);
#ifdef IQ_HAVE_MPFR
    int (*exact)(mpfr_t, const mpfr_t, mpfr_rnd_t);
#endif
};

#ifdef IQ_HAVE_MPFR
#define ROW(f) {#f, own_##f, f, f##l, mpfr_##f},
#else
#define ROW(f) {#f, own_##f, f, f##l},
#endif
static const struct function functions[] = {ROW(exp) ROW(log) ROW(sin) ROW(cos) ROW(tanh)};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static const struct {
    const char *name;
    uint32_t bits;
} hard[] = {
#include "tests/exhaustive/hard_cases.h"
    {NULL, 0},
};

/* Zeros, subnormals, the ends of the exponents, thresholds in the code and where results leave the float32 range. */
static const uint32_t special[] = {
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff, 0x00800000, 0x80800000,
    0x3f800000, 0xbf800000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7f800001, 0xffc00000,
    0x7fc00000, 0x7fffffff, 0xffffffff, 0x42b17217, 0x42b17218, 0x42b17219, 0xc2cff1b4, 0xc2cff1b5,
    0xc2cff1b6, 0xc2aeac4f, 0xc2aeac50, 0xc2aeac51, 0x42d00000, 0xc2d00000, 0xc2d00001, 0x42b20000,
    0x42b20001, 0x3f3504f2, 0x3f3504f3, 0x3f3504f4, 0x3f7fffff, 0x3f800001, 0x3f490fda, 0x3f490fdb,
    0x3f490fdc, 0x3fc90fda, 0x3fc90fdb, 0x40490fda, 0x40490fdb, 0x40c90fdb, 0x4b800000, 0x5f000000,
    0x38ffffff, 0x39000000, 0x41102cb3, 0x41102cb4, 0x411fffff, 0x41200000, 0x41200001, 0x33000000,
    0x33000001, 0xb3000000, 0x33800000, 0xb3800001, 0x3eb17218, 0xbeb17218,
};

struct tally {
    atomic_ullong tried, wrong, close, exact, vector;
};

struct work {
    const struct function *f;
    uint64_t begin, end, stride;
    struct tally tally;
};

static void complain(const struct work *w, uint32_t u, float got, float want)
{
    if (atomic_fetch_add(&((struct work *)w)->tally.wrong, 1) < 20)
        printf("%s(0x%08x = %a): got 0x%08x, want 0x%08x\n", w->f->name, u, (double)iq_bits_f32(u),
               iq_f32_bits(got), iq_f32_bits(want));
}

#ifdef IQ_HAVE_MPFR
static float exact(const struct function *f, float x)
{
    mpfr_t a, y;
    mpfr_init2(a, 24);
    mpfr_init2(y, 300);
    mpfr_set_flt(a, x, MPFR_RNDN);
    f->exact(y, a, MPFR_RNDN);
    float result = mpfr_get_flt(y, MPFR_RNDN);
    mpfr_clear(a);
    mpfr_clear(y);
    return result;
}

static double relative_error(mpfr_t value, const mpfr_t exact)
{
    mpfr_sub(value, value, exact, MPFR_RNDN);
    mpfr_div(value, value, exact, MPFR_RNDN);
    return fabs(mpfr_get_d(value, MPFR_RNDN));
}

/* Largest relative errors of the double and the long double function over a sample. */
static void library_errors(const struct function *f, double worst[2])
{
    mpfr_t a, y, w;
    mpfr_inits2(300, a, y, w, (mpfr_ptr)0);
    worst[0] = worst[1] = 0;
    for (uint32_t i = 0; i < 20000; i++) {
        float x = iq_bits_f32(i * 214739u + 12345u);
        double plain = f->plain(x);
        if (!isfinite(x) || !isnormal(plain)) continue;
        mpfr_set_flt(a, x, MPFR_RNDN);
        f->exact(y, a, MPFR_RNDN);
        mpfr_set_d(w, plain, MPFR_RNDN);
        worst[0] = fmax(worst[0], relative_error(w, y));
        mpfr_set_ld(w, f->wide(x), MPFR_RNDN);
        worst[1] = fmax(worst[1], relative_error(w, y));
    }
    mpfr_clears(a, y, w, (mpfr_ptr)0);
}
#endif

/* The float32 next to which both of value (1 -+ margin) lie; false if they part. */
#define DECIDED(value, margin, out)                                                                          \
    ((*(out) = (float)((value) * (1 - (margin)))) == (float)((value) * (1 + (margin))))

static float settle(struct work *w, float x)
{
    float want;
    long double wide = w->f->wide(x);
    if (!DECIDED(wide, 0x1p-53L, &want)) {
        atomic_fetch_add(&w->tally.close, 1);
        if (w->stride == 1) printf("    {\"%s\", 0x%08x},\n", w->f->name, iq_f32_bits(x));
    }
    if (LDBL_MANT_DIG >= 64 && DECIDED(wide, 0x1p-59L, &want)) return want;
    atomic_fetch_add(&w->tally.exact, 1);
#ifdef IQ_HAVE_MPFR
    return exact(w->f, x);
#else
    printf("%s(0x%08x): undecided in long double; build with libmpfr-dev\n", w->f->name, iq_f32_bits(x));
    atomic_fetch_add(&w->tally.wrong, 1);
    return want;
#endif
}

static void try_one(struct work *w, uint32_t u, float got)
{
    float x = iq_bits_f32(u), want;
    double plain = w->f->plain(x);
    if (plain != plain)
        want = iq_nan();
    else if (!DECIDED(plain, 0x1p-50, &want))
        want = settle(w, x);
    if (iq_f32_bits(got) != iq_f32_bits(want)) complain(w, u, got, want);
}

enum { BATCH = 1024 };

static void try_vectors(struct work *w, const float *x, const float *own)
{
    float y[BATCH];
    for (int k = 0; k < VECTOR_FORMS; k++) {
        if (!all_vector_forms[k]->usable || !all_vector_forms[k]->usable())
            continue; /* scalar is iq_exp itself */
        all_vector_forms[k]->exp(x, y, BATCH);
        for (int i = 0; i < BATCH; i++)
            if (iq_f32_bits(y[i]) != iq_f32_bits(own[i])) complain(w, iq_f32_bits(x[i]), y[i], own[i]);
        atomic_fetch_add(&w->tally.vector, BATCH);
    }
}

/* Inputs begin + (first + i) stride, i < BATCH; a batch past the end repeats the last one. */
static void try_batch(struct work *w, uint64_t first)
{
    uint32_t u[BATCH];
    float x[BATCH], y[BATCH];
    uint64_t n = (w->end - w->begin + w->stride - 1) / w->stride;
    for (int i = 0; i < BATCH; i++) {
        uint64_t at = first + (uint64_t)i < n ? first + (uint64_t)i : n - 1;
        u[i] = (uint32_t)(w->begin + at * w->stride);
        x[i] = iq_bits_f32(u[i]);
        y[i] = w->f->own(x[i]);
        if (first + (uint64_t)i < n) try_one(w, u[i], y[i]);
    }
    if (w->f->own == own_exp) try_vectors(w, x, y);
    atomic_fetch_add(&w->tally.tried, n - first < BATCH ? n - first : BATCH);
}

static void part(void *ctx, int index, int parts)
{
    struct work *w = ctx;
    uint64_t n = (w->end - w->begin + w->stride - 1) / w->stride;
    for (uint64_t first = (uint64_t)index * BATCH; first < n; first += (uint64_t)parts * BATCH)
        try_batch(w, first);
}

static bool prove(const struct function *f, uint64_t slice, uint64_t of, uint64_t stride,
                  struct iq_pool *pool)
{
    struct work w = {.f = f, .begin = (slice << 32) / of, .end = ((slice + 1) << 32) / of, .stride = stride};
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        try_one(&w, special[i], f->own(iq_bits_f32(special[i])));
    for (size_t i = 0; hard[i].name; i++)
        if (strcmp(hard[i].name, f->name) == 0) try_one(&w, hard[i].bits, f->own(iq_bits_f32(hard[i].bits)));
    w.tally.close = w.tally.exact = 0;
    iq_pool_run(pool, part, &w);
    bool accurate = true;
    printf("%-4s slice %llu/%llu stride %llu: %llu inputs, %llu wrong, %llu within 2^-53 of a boundary, %llu "
           "decided "
           "by MPFR, %llu vector results",
           f->name, (unsigned long long)slice, (unsigned long long)of, (unsigned long long)stride,
           w.tally.tried, w.tally.wrong, w.tally.close, w.tally.exact, w.tally.vector);
#ifdef IQ_HAVE_MPFR
    double worst[2];
    library_errors(f, worst);
    accurate = worst[0] < 0x1p-51 && worst[1] < 0x1p-60;
    printf("; library within 2^%.2f, 2^%.2f", log2(worst[0]), log2(worst[1]));
#endif
    printf("\n");
    fflush(stdout);
    return w.tally.wrong == 0 && accurate;
}

int main(int argc, char **argv)
{
    unsigned long long slice = 0, of = 1, stride = 1;
    int threads = argc > 3 ? atoi(argv[3]) : 1;
    if (argc > 4) stride = strtoull(argv[4], NULL, 10);
    if (argc < 2 || (argc > 2 && sscanf(argv[2], "%llu/%llu", &slice, &of) != 2) || of == 0 || of > 65536 ||
        slice >= of || stride == 0 || stride > 1u << 24) {
        fprintf(stderr, "usage: prove_math exp|log|sin|cos|tanh|all [SLICE/OF [THREADS [STRIDE]]]\n");
        return 2;
    }
    struct iq_pool *pool;
    struct iq_err err = {0};
    if (iq_pool_open(threads, &pool, &err) != IQ_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 2;
    }
    bool good = true, known = false;
    for (int i = 0; i < FUNCTIONS; i++) {
        if (strcmp(argv[1], "all") != 0 && strcmp(argv[1], functions[i].name) != 0) continue;
        known = true;
        if (!prove(&functions[i], slice, of, stride, pool)) good = false;
    }
    iq_pool_close(pool);
    if (!known) fprintf(stderr, "unknown function %s: exp, log, sin, cos, tanh or all\n", argv[1]);
    return known ? !good : 2;
}
