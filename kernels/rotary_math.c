#include "kernels/rotary_math.h"

static double nearest(double x) { return (x + IQ_RINT_MAGIC) - IQ_RINT_MAGIC; }

static const iq__dd ln2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};

/* x = k ln 2 + 256 r; the Taylor series of exp(r) to r^11, |r| < 0.0014, squared eight times. */
iq__dd iq__dd_exp(iq__dd x)
{
    double k = nearest(x.hi * IQ_LOG2E);
    iq__dd r = dd_sub(x, dd_mul(dd_of(k), ln2));
    r.hi *= 0x1p-8;
    r.lo *= 0x1p-8;
    iq__dd e = dd_of(1.0); /* expm1 would lose fewer bits; eight squarings cost eight of about 104 */
    for (int i = 11; i >= 1; i--) e = dd_add(dd_of(1.0), dd_div(dd_mul(e, r), dd_of(i)));
    for (int i = 0; i < 8; i++) e = dd_mul(e, e);
    double scale = iq_bits_f64((uint64_t)((int64_t)k + 1023) << 52);
    return (iq__dd){e.hi * scale, e.lo * scale};
}

/* Newton's steps y += x exp(-y) - 1 from the logarithm of the leading bits: 24 bits, 48, 96. */
iq__dd iq__dd_log(double x)
{
    uint64_t u = iq_f64_bits(x), top = u - 0x3fe6a09e667f3bcdu;
    double k = (double)((int64_t)top >> 52), m = iq_bits_f64(u - (top & 0xfff0000000000000u));
    iq__dd y = dd_of((double)iq_log((float)m));
    for (int i = 0; i < 3; i++) y = dd_add(y, dd_sub(dd_mul(dd_of(m), iq__dd_exp(dd_negate(y))), dd_of(1.0)));
    return dd_add(y, dd_mul(dd_of(k), ln2));
}

iq__dd iq__dd_sqrt(iq__dd x)
{
    double y = sqrt(x.hi);
    iq__dd rest = dd_sub(x, dd_product(y, y));
    return dd_quick(y, rest.hi / (2.0 * y));
}

iq__dd iq__dd_reduce(iq__dd angle, int *quadrant)
{
    /* pi/2 in three doubles: the product with q < 2^30 is good to 2^-130. */
    static const double pio2[3] = {IQ_PIO2_HI, IQ_PIO2_LO, -0x1.f1976b7ed8fbcp-110};
    double q = nearest(angle.hi * 0x1.45f306dc9c883p-1);
    *quadrant = (int)((int64_t)q & 3);
    for (int i = 0; i < 3; i++) angle = dd_sub(angle, dd_product(q, pio2[i]));
    return angle;
}
