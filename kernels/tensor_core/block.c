/* The arithmetic of a block, written to be read. The fast forms are held to it bit by bit. */
#include "kernels/tensor_core/block.h"
#include "kernels/arith.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const struct iq_tc_profile iq_tc_profiles[IQ_TC_PROFILES] = {
#define X(id, name, products, fraction) [IQ_TC_##id] = {name, products, fraction, IQ_TC_EMAX_FLOOR},
    IQ_TC_PROFILE_MAP(X)
#undef X
};

struct layout {
    int fraction_bits, exponent_bits;
};
static const struct layout operands[] = {[IQ_TC_BF16] = {7, 8}, [IQ_TC_F16] = {10, 5}};
static const struct layout float32 = {23, 8};

/* A finite number: significand * 2^unit, with the leading bit, if normal, at fraction_bits. */
struct number {
    uint32_t significand;
    int unit;
    bool negative, infinite, nan;
};

static struct number decode(uint32_t bits, struct layout l)
{
    const uint32_t fraction = bits & ((1u << l.fraction_bits) - 1), most = (1u << l.exponent_bits) - 1;
    const uint32_t exponent = bits >> l.fraction_bits & most;
    const int bias = (int)(most >> 1);
    return (struct number){.significand = exponent ? fraction | 1u << l.fraction_bits : fraction,
                           .unit = (int)(exponent ? exponent : 1) - bias - l.fraction_bits,
                           .negative = bits >> (l.fraction_bits + l.exponent_bits) & 1,
                           .infinite = exponent == most && !fraction,
                           .nan = exponent == most && fraction};
}

/* What is to be added: finite terms that are not zero, and whether anything is not finite. */
struct terms {
    struct number term[IQ_TC_BLOCK + 1];
    int n, emax;
    bool nan, infinite[2]; /* +, - */
};

static void take(struct terms *t, struct number x, int fraction_bits)
{
    const int exponent = x.unit + fraction_bits;
    if (!x.significand) return;
    if (exponent > t->emax) t->emax = exponent;
    t->term[t->n++] = x;
}

static void take_product(struct terms *t, struct number a, struct number b, int fraction_bits)
{
    const bool negative = a.negative != b.negative;
    if (a.nan || b.nan)
        t->nan = true;
    else if (a.infinite || b.infinite) {
        if (a.significand && b.significand)
            t->infinite[negative] = true;
        else
            t->nan = true;
    } else
        take(t,
             (struct number){
                 .significand = a.significand * b.significand, .unit = a.unit + b.unit, .negative = negative},
             2 * fraction_bits);
}

/* Magnitude in units of 2^unit, truncated. Terms are at most emax: the shift to the left is less than 32. */
static int64_t aligned(struct number x, int unit)
{
    const int shift = x.unit - unit;
    const uint64_t m = x.significand;
    return (int64_t)(shift >= 0 ? m << shift : shift > -32 ? m >> -shift : 0);
}

static uint32_t to_float32(int64_t sum, int unit)
{
    if (!sum) return 0;
    const uint32_t sign = sum < 0 ? 0x80000000u : 0;
    const uint64_t m = (uint64_t)(sum < 0 ? -sum : sum);
    const int exponent = 63 - __builtin_clzll(m) + unit;
    if (exponent > 127) return sign | 0x7f800000u;
    const int last = exponent < -126 ? -149 : exponent - 23; /* exponent of the result's last bit */
    const uint64_t kept = last >= unit ? m >> (last - unit) : m << (unit - last);
    return sign |
           (((uint32_t)(last + 149) << 23) + (uint32_t)kept); /* a normal number's leading bit adds 1 */
}

uint32_t iq_tc_block(const struct iq_tc_profile *profile, enum iq_tc_format format, const uint16_t *a,
                     const uint16_t *b, uint32_t n, uint32_t c)
{
    const struct layout l = operands[format];
    const struct number acc = decode(c, float32);
    struct terms t = {.n = 0, .emax = profile->emax_floor, .nan = acc.nan};
    for (uint32_t i = 0; i < n; i++) take_product(&t, decode(a[i], l), decode(b[i], l), l.fraction_bits);
    if (acc.infinite)
        t.infinite[acc.negative] = true;
    else
        take(&t, acc, float32.fraction_bits);
    if (t.nan || (t.infinite[0] && t.infinite[1])) return IQ_NAN_BITS;
    if (t.infinite[0] || t.infinite[1]) return t.infinite[1] ? 0xff800000u : 0x7f800000u;

    const int unit = t.emax - profile->fraction;
    int64_t sum = 0;
    for (int i = 0; i < t.n; i++)
        sum += t.term[i].negative ? -aligned(t.term[i], unit) : aligned(t.term[i], unit);
    return to_float32(sum, unit);
}

uint32_t iq_tc_dot(const struct iq_tc_profile *profile, enum iq_tc_format format, const uint16_t *a,
                   const uint16_t *b, uint32_t k, uint32_t c)
{
    for (uint32_t i = 0, n; i < k; i += n) {
        n = k - i < profile->products ? k - i : profile->products;
        c = iq_tc_block(profile, format, a + i, b + i, n, c);
    }
    return c;
}

const char *iq_tc_arithmetic(const char *products, char *text, size_t size)
{
    static const struct {
        const char *name;
        enum iq_tc_profile_id profile;
        const char *format;
    } known[] = {
#define X(id, name, profile, format) {name, IQ_TC_##profile, #format},
        IQ_TC_PRODUCTS_MAP(X)
#undef X
    };
    size_t i = 0;
    while (i < sizeof known / sizeof *known && strcmp(known[i].name, products)) i++;
    if (i == sizeof known / sizeof *known) return NULL;
    const struct iq_tc_profile *p = &iq_tc_profiles[known[i].profile];
    snprintf(text, size, "%s in blocks of %u, fraction %d, emax from %d", known[i].format, p->products,
             p->fraction, p->emax_floor);
    return text;
}
