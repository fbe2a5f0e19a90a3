#include "kernels/kind/values.h"

#include "kernels/arith.h"
#include "kernels/cpu/topk_order.h"

#include <math.h>

#define COUNT(name, condition)                                                                               \
    double iq__values_##name(struct iq__numbers a)                                                           \
    {                                                                                                        \
        size_t n = 0;                                                                                        \
        for (size_t i = 0; i < a.n; i++) {                                                                   \
            float x = a.x[i];                                                                                \
            n += (condition);                                                                                \
        }                                                                                                    \
        return (double)n;                                                                                    \
    }
COUNT(nans, x != x)
COUNT(infinities, fabsf(x) == INFINITY)
COUNT(subnormals, x != 0 && fabsf(x) < 0x1p-126f)
COUNT(zeros, x == 0)

double iq__values_absmax(struct iq__numbers a)
{
    double most = NAN;
    for (size_t i = 0; i < a.n; i++) most = fmax(most, fabs((double)a.x[i])); /* fmax leaves NaN out */
    return most;
}

/* ---- the best ---- */

struct best {
    float first, second; /* NaN: there is none, or it is none */
    size_t ties;
};

static struct best best_of(struct iq__numbers a)
{
    struct best b = {NAN, NAN, 0};
    uint32_t first = UINT32_MAX, second = UINT32_MAX;
    for (size_t i = 0; i < a.n; i++) {
        uint32_t key = iq__topk_key(a.x[i]);
        if (key < first) {
            second = first, b.second = b.first;
            first = key, b.first = a.x[i], b.ties = 0;
        } else if (key != UINT32_MAX) {
            b.ties += key == first;
            if (key < second) second = key, b.second = a.x[i];
        }
    }
    return b;
}

double iq__values_largest(struct iq__numbers a) { return (double)best_of(a).first; }
double iq__values_ties(struct iq__numbers a) { return (double)best_of(a).ties; }
double iq__values_gap(struct iq__numbers a)
{
    struct best b = best_of(a);
    return (double)b.first - (double)b.second;
}
bool iq__values_rounds_down(struct iq__numbers a)
{
    float best = best_of(a).first;
    return best > iq_bf16_to_f32(iq_f32_to_bf16(best));
}

/* ---- the cut ---- */

/* The numbers whose keys agree with `key` above bit `shift`, by the next 8 bits. */
static void histogram(struct iq__numbers a, uint32_t key, unsigned shift, size_t bin[256])
{
    for (unsigned b = 0; b < 256; b++) bin[b] = 0;
    for (size_t i = 0; i < a.n; i++) {
        uint32_t own = iq__topk_key(a.x[i]);
        if ((uint64_t)(own ^ key) >> (shift + 8) == 0) bin[own >> shift & 255]++;
    }
}

struct cut {
    uint32_t key;         /* of the k-th best */
    size_t before, equal; /* better ones; those that equal it */
    size_t bin;           /* those in its coarse bin */
};

/* By radix, so that a row of any size needs no memory. k <= a.n. */
static struct cut cut_at(struct iq__numbers a, size_t k)
{
    struct cut c = {0};
    size_t bin[256];
    for (unsigned shift = 32; shift; shift -= 8) {
        unsigned b = 0;
        histogram(a, c.key, shift - 8, bin);
        for (; c.before + bin[b] < k; b++) c.before += bin[b];
        c.key |= b << (shift - 8);
        c.equal = bin[b];
        if (shift == 32) c.bin = bin[b];
    }
    return c;
}

static bool has_cut(struct iq__numbers a, uint32_t k) { return k && k <= a.n; }

/* The number that has the key. */
static double number_of(uint32_t key)
{
    uint32_t bits = key >> 31 ? key : 0x7fffffffu - key;
    return key == UINT32_MAX ? NAN : (double)iq_bits_f32(bits);
}

double iq__values_cut_gap(struct iq__numbers a, uint32_t k)
{
    if (!has_cut(a, k) || k == a.n) return NAN;
    return number_of(cut_at(a, k).key) - number_of(cut_at(a, (size_t)k + 1).key);
}

double iq__values_cut_ties(struct iq__numbers a, uint32_t k)
{
    if (!has_cut(a, k)) return NAN;
    struct cut c = cut_at(a, k);
    return (double)(c.before + c.equal - k);
}

double iq__values_cut_bin(struct iq__numbers a, uint32_t k)
{
    return has_cut(a, k) ? (double)cut_at(a, k).bin : NAN;
}

double iq__values_full_bin(struct iq__numbers a)
{
    size_t bin[256], most = 0;
    histogram(a, 0, 24, bin);
    for (unsigned b = 0; b < 256; b++) most = bin[b] > most ? bin[b] : most;
    return (double)most;
}
