#define _GNU_SOURCE
#include "harness/bench/peak.h"

#include "harness/bench/sysfile.h"
#include "kernels/base/clock.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { WINDOWS = 5 };

/* Twelve accumulators, written out one by one because an array would live in memory. x * 1 + 0 neither grows nor turns
 * subnormal; the empty asm hides that from the compiler and keeps the results alive. */
#define CHAINS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define DECLARE(i)                                                                                           \
    vec a##i = one;                                                                                          \
    __asm__ volatile("" : "+" REG(a##i));
#define STEP(i) a##i = FMA(a##i, one, zero);
#define USE(i)  __asm__ volatile("" ::REG(a##i));
#define BURN                                                                                                 \
    __asm__ volatile("" : "+" REG(one), "+" REG(zero));                                                      \
    CHAINS(DECLARE)                                                                                          \
    for (long i = 0; i < rounds; i++) {                                                                      \
        CHAINS(STEP)                                                                                         \
        __asm__ volatile("");                                                                                \
    }                                                                                                        \
    CHAINS(USE)

#if defined __x86_64__
#include <immintrin.h>

#define REG(x) "x"(x)
#define FMA    __builtin_fmaf
__attribute__((target("fma"))) static void burn_scalar(long rounds)
{
    typedef float vec;
    vec one = 1, zero = 0;
    BURN
}
#undef FMA

#define FMA _mm256_fmadd_ps
__attribute__((target("avx2,fma"))) static void burn_avx2(long rounds)
{
    typedef __m256 vec;
    vec one = _mm256_set1_ps(1), zero = _mm256_setzero_ps();
    BURN
}
#undef FMA
#undef REG

#define REG(x) "v"(x)
#define FMA    _mm512_fmadd_ps
__attribute__((target("avx512f"))) static void burn_avx512(long rounds)
{
    typedef __m512 vec;
    vec one = _mm512_set1_ps(1), zero = _mm512_setzero_ps();
    BURN
}

static bool has_fma(void) { return __builtin_cpu_supports("fma"); }
static bool has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
static bool has_avx512(void) { return __builtin_cpu_supports("avx512f"); }

const struct iq_peak_isa iq_peak_isas[] = {
    {"scalar", has_fma, burn_scalar, 1},
    {"avx2", has_avx2, burn_avx2, 8},
    {"avx512", has_avx512, burn_avx512, 16},
    {0},
};
#else
#define REG(x) "w"(x)
#define FMA    __builtin_fmaf
static void burn_scalar(long rounds)
{
    typedef float vec;
    vec one = 1, zero = 0;
    BURN
}

static bool always(void) { return true; }

const struct iq_peak_isa iq_peak_isas[] = {{"scalar", always, burn_scalar, 1}, {0}};
#endif

struct burn {
    const struct iq_peak_isa *isa;
    long rounds;
};

static void burn_part(void *ctx, int part, int parts)
{
    (void)part, (void)parts;
    const struct burn *b = ctx;
    b->isa->burn(b->rounds);
}

double iq_peak_fma(const struct iq_peak_isa *isa, struct iq_pool *pool)
{
    struct burn b = {isa, 1000000}; /* a few milliseconds */
    double best = 0;
    iq_pool_run(pool, burn_part, &b); /* wakes threads and clocks */
    for (int w = 0; w < WINDOWS; w++) {
        double began = iq_clock_s();
        iq_pool_run(pool, burn_part, &b);
        double rate = (double)b.rounds * IQ_PEAK_CHAINS * isa->lanes * 2 * iq_pool_threads(pool) /
                      (iq_clock_s() - began);
        if (rate > best) best = rate;
    }
    return best * 1e-9;
}

size_t iq_peak_read_bytes(void)
{
    uint64_t cache = iq_sys_number("/sys/devices/system/cpu/cpu0/cache/index3/size", "");
    uint64_t spare = iq_sys_number("/proc/meminfo", "MemAvailable:");
    uint64_t bytes = 4 * cache < 256u << 20 ? 256u << 20 : 4 * cache > 1u << 30 ? 1u << 30 : 4 * cache;
    if (spare && bytes > spare / 4) bytes = spare / 4;
    return (size_t)(bytes >> 21 << 21);
}

struct reading {
    const unsigned char *bytes;
    size_t blocks; /* of 4 KiB */
    uint64_t sum[256];
};

typedef uint64_t vec8 __attribute__((vector_size(64)));

/* Eight cache lines at a time, asked for 16 KiB ahead: without that one thread reaches about a tenth less. The compiler
 * makes of a 64-byte vector what the target has. */
#define READ_BLOCKS                                                                                          \
    vec8 a = {0}, b = {0}, c = {0}, d = {0};                                                                 \
    const vec8 *p = (const vec8 *)from, *end = (const vec8 *)to;                                             \
    for (; p < end; p += 8) {                                                                                \
        for (int i = 0; i < 8; i++) __builtin_prefetch((const char *)(p + i) + 16384, 0, 0);                 \
        a += p[0], b += p[1], c += p[2], d += p[3];                                                          \
        a += p[4], b += p[5], c += p[6], d += p[7];                                                          \
    }                                                                                                        \
    a += b + c + d;                                                                                          \
    return a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7];

static uint64_t read_plain(const unsigned char *from, const unsigned char *to) { READ_BLOCKS }
#if defined __x86_64__
__attribute__((target("avx2"))) static uint64_t read_avx2(const unsigned char *from, const unsigned char *to)
{
    READ_BLOCKS
}
__attribute__((target("avx512f"))) static uint64_t read_avx512(const unsigned char *from,
                                                               const unsigned char *to)
{
    READ_BLOCKS
}
static uint64_t read_blocks(const unsigned char *from, const unsigned char *to)
{
    return has_avx512() ? read_avx512(from, to) : has_avx2() ? read_avx2(from, to) : read_plain(from, to);
}
#else
static uint64_t read_blocks(const unsigned char *from, const unsigned char *to)
{
    return read_plain(from, to);
}
#endif

static void slice_of(const struct reading *r, int part, int parts, const unsigned char **from,
                     const unsigned char **to)
{
    int begin, end;
    iq_slice((int)r->blocks, part, parts, &begin, &end);
    *from = r->bytes + (size_t)begin * 4096;
    *to = r->bytes + (size_t)end * 4096;
}

static void fill_part(void *ctx, int part, int parts)
{
    const unsigned char *from, *to;
    slice_of(ctx, part, parts, &from, &to);
    memset((void *)(uintptr_t)from, part + 1, (size_t)(to - from));
}

static void read_part(void *ctx, int part, int parts)
{
    struct reading *r = ctx;
    const unsigned char *from, *to;
    slice_of(r, part, parts, &from, &to);
    r->sum[part] += read_blocks(from, to);
}

int iq_peak_read(size_t bytes, struct iq_pool *pool, double *gb_per_s, struct iq_err *err)
{
    struct reading r = {.blocks = bytes / 4096};
    double best = 0;
    *gb_per_s = 0;
    if (!r.blocks) return iq_fail(err, IQ_MEMORY, "no memory is free to measure reads with");
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return iq_fail(err, IQ_MEMORY, "%zu bytes to measure reads with: %s", bytes, strerror(errno));
    madvise(map, bytes, MADV_HUGEPAGE); /* a wish */
    r.bytes = map;
    iq_pool_run(pool, fill_part, &r);
    for (int w = 0; w < WINDOWS; w++) {
        double began = iq_clock_s();
        iq_pool_run(pool, read_part, &r);
        double rate = (double)(r.blocks * 4096) / (iq_clock_s() - began);
        if (rate > best) best = rate;
    }
    munmap(map, bytes);
    *gb_per_s = best * 1e-9;
    return IQ_OK;
}
