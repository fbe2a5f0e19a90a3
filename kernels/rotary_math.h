/* Double-double arithmetic for the rotary table: sums of two doubles, about 100 bits. Host only, internal to
 * kernels/rotary*.c. Source: Dekker 1971; Hida, Li, Bailey 2001. */
#ifndef IQ_ROTARY_MATH_H
#define IQ_ROTARY_MATH_H

#include "kernels/arith.h"

typedef struct iq__pair iq__dd;

static inline iq__dd dd_of(double x) { return (iq__dd){x, 0.0}; }

/* |a| >= |b|, or a is 0 */
static inline iq__dd dd_quick(double a, double b)
{
    double s = a + b;
    return (iq__dd){s, b - (s - a)};
}

static inline iq__dd dd_sum(double a, double b)
{
    double s = a + b, t = s - a;
    return (iq__dd){s, (a - (s - t)) + (b - t)};
}

static inline iq__dd dd_product(double a, double b)
{
    double p = a * b;
    return (iq__dd){p, IQ_FMA(a, b, -p)};
}

static inline iq__dd dd_add(iq__dd a, iq__dd b)
{
    iq__dd s = dd_sum(a.hi, b.hi), t = dd_sum(a.lo, b.lo);
    s = dd_quick(s.hi, s.lo + t.hi);
    return dd_quick(s.hi, s.lo + t.lo);
}

static inline iq__dd dd_negate(iq__dd a) { return (iq__dd){-a.hi, -a.lo}; }
static inline iq__dd dd_sub(iq__dd a, iq__dd b) { return dd_add(a, dd_negate(b)); }

static inline iq__dd dd_mul(iq__dd a, iq__dd b)
{
    iq__dd p = dd_product(a.hi, b.hi);
    return dd_quick(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}

static inline iq__dd dd_div(iq__dd a, iq__dd b)
{
    double q = a.hi / b.hi;
    iq__dd r = dd_sub(a, dd_mul(dd_of(q), b));
    double q2 = r.hi / b.hi;
    r = dd_sub(r, dd_mul(dd_of(q2), b));
    return dd_add(dd_quick(q, q2), dd_of(r.hi / b.hi));
}

iq__dd iq__dd_exp(iq__dd x);  /* |x| < 700 */
iq__dd iq__dd_log(double x);  /* x > 0, normal */
iq__dd iq__dd_sqrt(iq__dd x); /* x > 0 */
/* The multiple of pi/2 next to `angle` is taken off, |angle| < 2^30; *quadrant: that multiple modulo 4. */
iq__dd iq__dd_reduce(iq__dd angle, int *quadrant);

#endif
