/* exp, log, sin, cos, tanh of the contract `ieee`: correctly rounded to float32 for every one of the 2^32 inputs, from
 * double +, -, *, /, fma and integer steps in a fixed order. Part of arith.h; include that.
 *
 * Method: reduce, evaluate a polynomial in double so that the result is an unevaluated sum hi + lo with a relative
 * error well under 2^-53, and round that sum once. That no input is rounded the wrong way is not argued but counted:
 * tests/exhaustive/prove_math.c compares all inputs with an independent evaluation.
 * Coefficients are minimax for the interval beside them, rounded to double (hexadecimal: no decimal conversion).
 */
#ifndef IQ_ARITH_MATH_H
#define IQ_ARITH_MATH_H

#define IQ_LOG2E      0x1.71547652b82fep+0
#define IQ_LN2_HI     0x1.62e42fefap-1      /* 36 bits: k * IQ_LN2_HI is exact for |k| < 2^17 */
#define IQ_LN2_LO     0x1.cf79abc9e3b3ap-40 /* ln 2 - IQ_LN2_HI, rounded */
#define IQ_RINT_MAGIC 0x1.8p52              /* adding it leaves the nearest integer in the low bits */

/* exp(r) = 1 + r + r^2 / 2 + r^3 q(r), |r| <= ln(2) / 2; error of r^3 q: 2^-64 */
#define IQ_EXP_Q0 0x1.555555555555bp-3
#define IQ_EXP_Q1 0x1.555555555555ap-5
#define IQ_EXP_Q2 0x1.111111110ebf7p-7
#define IQ_EXP_Q3 0x1.6c16c16c14156p-10
#define IQ_EXP_Q4 0x1.a01a01b3a5d5ap-13
#define IQ_EXP_Q5 0x1.a01a01b1fcd34p-16
#define IQ_EXP_Q6 0x1.71ddefc072383p-19
#define IQ_EXP_Q7 0x1.27e4c2c425281p-22
#define IQ_EXP_Q8 0x1.af6c89a38a775p-26
#define IQ_EXP_Q9 0x1.1f99b91bdfe41p-29

/* exp(x) for |x| <= 708 as a double, before it is rounded to float: the steps that v_exp (cpu/vec_math.h) repeats in
 * vectors. Error below 0.6 ulp of double where x is a float, below 1 ulp elsewhere. */
IQ_HD double iq__exp(double x)
{
    double shifted = IQ_FMA(x, IQ_LOG2E, IQ_RINT_MAGIC), k = shifted - IQ_RINT_MAGIC;
    double r = IQ_FMA(k, -IQ_LN2_LO, IQ_FMA(k, -IQ_LN2_HI, x));
    double r2 = r * r, r4 = r2 * r2;
    double q01 = IQ_FMA(IQ_EXP_Q1, r, IQ_EXP_Q0), q23 = IQ_FMA(IQ_EXP_Q3, r, IQ_EXP_Q2);
    double q45 = IQ_FMA(IQ_EXP_Q5, r, IQ_EXP_Q4), q67 = IQ_FMA(IQ_EXP_Q7, r, IQ_EXP_Q6);
    double q89 = IQ_FMA(IQ_EXP_Q9, r, IQ_EXP_Q8);
    double q = IQ_FMA(IQ_FMA(q89, r4, IQ_FMA(q67, r2, q45)), r4, IQ_FMA(q23, r2, q01));
    double tail = IQ_FMA(r2, IQ_FMA(r, q, 0.5), r);
    double p = 1.0 + tail;
    return p * iq_bits_f64((iq_f64_bits(shifted) << 52) + 0x3ff0000000000000u); /* 2^k */
}

IQ_HD float iq_exp(float x)
{
    if (x != x) return iq_nan();
    x = x < -104.0f ? -104.0f : x; /* the exponential rounds to 0 there */
    x = x > 89.0f ? 89.0f : x;     /* and to infinity there */
    return (float)iq__exp(x);
}

/* The pinned E of sampling weights, x <= 0: 1 at 0, within 2^-52 (relative); 0 below -708 and for NaN. Not correctly
 * rounded, but the same bits everywhere. */
IQ_HD double iq_exp_double(double x) { return x >= -708.0 ? iq__exp(x) : 0.0; }

/* hi + lo, |lo| <= |hi|, rounded once to float32: rounded to odd in double first, so that the conversion can't round a
 * second time in the wrong direction. */
IQ_HD float iq__round_sum(double hi, double lo)
{
    double h = hi + lo, l = lo - (h - hi);
    uint64_t u = iq_f64_bits(h);
    if (l != 0.0 && !(u & 1)) u += (l > 0.0) == (h > 0.0) ? 1 : (uint64_t)-1;
    return (float)iq_bits_f64(u);
}

/* log(1 + f) = f - f^2/2 + s (f^2/2 + z t(z)), s = f / (2 + f), z = s^2, sqrt(1/2) <= 1 + f < sqrt(2); error of
 * s z t: 2^-65 */
#define IQ_LOG_T0 0x1.5555555555555p-1
#define IQ_LOG_T1 0x1.9999999999bebp-2
#define IQ_LOG_T2 0x1.249249244bbe5p-2
#define IQ_LOG_T3 0x1.c71c72398bba7p-3
#define IQ_LOG_T4 0x1.745ce691e448bp-3
#define IQ_LOG_T5 0x1.3b1f6d1cf94a1p-3
#define IQ_LOG_T6 0x1.0f75a8ce0cf4fp-3
#define IQ_LOG_T7 0x1.0e97afc7a6beap-3

IQ_HD float iq_log(float x)
{
    if (x == 0.0f) return iq_bits_f32(0xff800000u);
    if (!(x > 0.0f)) return iq_nan();
    if (x > 0x1.fffffep127f) return x;
    /* x = 2^e (1 + f): subtracting the bits of sqrt(1/2) leaves e in the exponent field. */
    uint64_t u = iq_f64_bits((double)x), top = u - 0x3fe6a09e667f3bcdu;
    double k = (double)((int64_t)top >> 52);
    double f = iq_bits_f64(u - (top & 0xfff0000000000000u)) - 1.0;
    double half = 0.5 * (f * f), u1 = f - half; /* both exact: f has at most 24 bits */
    double s = f / (2.0 + f), z = s * s;
    double t = IQ_FMA(IQ_LOG_T7, z, IQ_LOG_T6);
    t = IQ_FMA(t, z, IQ_LOG_T5);
    t = IQ_FMA(t, z, IQ_LOG_T4);
    t = IQ_FMA(t, z, IQ_LOG_T3);
    t = IQ_FMA(t, z, IQ_LOG_T2);
    t = IQ_FMA(t, z, IQ_LOG_T1);
    t = IQ_FMA(t, z, IQ_LOG_T0);
    double kh = k * IQ_LN2_HI, hi = kh + u1, lo = u1 - (hi - kh); /* |kh| > |u1| unless k is 0 */
    lo = lo + IQ_FMA(k, IQ_LN2_LO, s * IQ_FMA(z, t, half));
    return iq__round_sum(hi, lo);
}

/* sin(r) = r + r^3 s(z), cos(r) = 1 - z/2 + z^2 c(z), z = r^2, |r| <= pi/4; errors 2^-68 and 2^-75 */
#define IQ_SIN_S0  -0x1.5555555555555p-3
#define IQ_SIN_S1  0x1.111111111110ep-7
#define IQ_SIN_S2  -0x1.a01a01a0190a2p-13
#define IQ_SIN_S3  0x1.71de3a539cef5p-19
#define IQ_SIN_S4  -0x1.ae64530814792p-26
#define IQ_SIN_S5  0x1.6120d1990a55fp-33
#define IQ_SIN_S6  -0x1.aac1479cf9cc0p-41
#define IQ_COS_C0  0x1.5555555555555p-5
#define IQ_COS_C1  -0x1.6c16c16c16c12p-10
#define IQ_COS_C2  0x1.a01a01a0191a0p-16
#define IQ_COS_C3  -0x1.27e4fb7634c0ep-22
#define IQ_COS_C4  0x1.1eed8cdabcaddp-29
#define IQ_COS_C5  -0x1.9393706709b87p-37
#define IQ_COS_C6  0x1.aadcb578d675fp-45
#define IQ_PIO2_HI 0x1.921fb54442d18p+0
#define IQ_PIO2_LO 0x1.1a62633145c07p-54

/* An unevaluated sum of two doubles, |lo| <= ulp(hi). */
struct iq__pair {
    double hi, lo;
};

/* sin(r) and cos(r) of |r| <= pi/4, to about 2^-57 relative. */
IQ_HD struct iq__pair iq__sin_core(struct iq__pair r)
{
    double z = r.hi * r.hi;
    double s = IQ_FMA(IQ_SIN_S6, z, IQ_SIN_S5);
    s = IQ_FMA(s, z, IQ_SIN_S4);
    s = IQ_FMA(s, z, IQ_SIN_S3);
    s = IQ_FMA(s, z, IQ_SIN_S2);
    s = IQ_FMA(s, z, IQ_SIN_S1);
    s = IQ_FMA(s, z, IQ_SIN_S0);
    struct iq__pair y = {r.hi, IQ_FMA(r.hi * z, s, IQ_FMA(r.lo, -0.5 * z, r.lo))};
    return y;
}

IQ_HD struct iq__pair iq__cos_core(struct iq__pair r)
{
    double z = r.hi * r.hi, zl = IQ_FMA(r.hi, r.hi, -z) + 2.0 * (r.hi * r.lo);
    double c = IQ_FMA(IQ_COS_C6, z, IQ_COS_C5);
    c = IQ_FMA(c, z, IQ_COS_C4);
    c = IQ_FMA(c, z, IQ_COS_C3);
    c = IQ_FMA(c, z, IQ_COS_C2);
    c = IQ_FMA(c, z, IQ_COS_C1);
    c = IQ_FMA(c, z, IQ_COS_C0);
    double hi = 1.0 - 0.5 * z;
    struct iq__pair y = {hi, IQ_FMA(z * z, c, ((1.0 - hi) - 0.5 * z) - 0.5 * zl)};
    return y;
}

/* Writes the 192-bit product of m (24 bits) and a window of 2/pi into p, most significant word first. The window
 * starts at the bit of weight 2^(1 - e), so that p / 2^190 is m 2^e * 2/pi modulo 4, to 2^-166. -25 < e < 105. */
IQ_HD void iq__two_over_pi_times(uint32_t m, int e, uint64_t p[3])
{
    const uint64_t digits[6] = {0,
                                0xa2f9836e4e441529u,
                                0xfc2757d1f534ddc0u,
                                0xdb6295993c439041u,
                                0xfe5163abdebbc561u,
                                0xb7246e3a424dd2e0u};
    int at = e + 62, word = at >> 6, shift = at & 63;
    uint64_t carry = 0;
    for (int i = 2; i >= 0; i--) {
        uint64_t w = digits[word + i];
        if (shift) w = w << shift | digits[word + i + 1] >> (64 - shift);
        uint64_t low = m * (w & 0xffffffffu) + carry, high = m * (w >> 32) + (low >> 32);
        p[i] = high << 32 | (low & 0xffffffffu);
        carry = high >> 32;
    }
}

/* |x| = q pi/2 + r, |r| <= pi/4: returns r; *quadrant is q modulo 4. x finite. Payne and Hanek, in integers: the
 * float32 that comes nearest to a multiple of pi/2 leaves more than 90 good bits. */
IQ_HD struct iq__pair iq__reduce_pio2(float x, int *quadrant)
{
    uint32_t u = iq_f32_bits(x) & 0x7fffffffu;
    struct iq__pair r = {(double)iq_bits_f32(u), 0.0};
    *quadrant = 0;
    if (u <= 0x3f490fdau) return r; /* pi/4 */
    uint64_t p[3];
    iq__two_over_pi_times((u & 0x7fffffu) | 0x800000u, (int)(u >> 23) - 150, p);
    *quadrant = (int)((p[0] + 0x2000000000000000u) >> 62 & 3u);
    uint64_t a = p[0] << 2 | p[1] >> 62, b = p[1] << 2 | p[2] >> 62; /* fraction of pi/2, two's complement */
    int negative = (int)(a >> 63);
    if (negative) {
        b = ~b + 1;
        a = ~a + (b == 0);
    }
    double d0 = (double)(a >> 32) * 0x1p-32, d1 = (double)(a & 0xffffffffu) * 0x1p-64;
    double d2 = (double)(b >> 32) * 0x1p-96, d3 = (double)(b & 0xffffffffu) * 0x1p-128;
    double h = d0 + d1, l = (d1 - (h - d0)) + (d2 + d3);
    double fh = h + l, fl = l - (fh - h);
    double rh = fh * IQ_PIO2_HI, rl = IQ_FMA(fh, IQ_PIO2_HI, -rh) + IQ_FMA(fh, IQ_PIO2_LO, fl * IQ_PIO2_HI);
    r.hi = negative ? -rh : rh;
    r.lo = negative ? -rl : rl;
    return r;
}

/* sin(|x| + shift pi/2), negated where `negate` is set. */
IQ_HD float iq__sine(float x, int shift, int negate)
{
    int quadrant;
    struct iq__pair r = iq__reduce_pio2(x, &quadrant);
    quadrant += shift;
    struct iq__pair y = quadrant & 1 ? iq__cos_core(r) : iq__sin_core(r);
    float f = iq__round_sum(y.hi, y.lo);
    return (quadrant >> 1 & 1) != negate ? -f : f;
}

IQ_HD float iq_sin(float x)
{
    uint32_t mag = iq_f32_bits(x) & 0x7fffffffu;
    if (mag >= 0x7f800000u) return iq_nan();
    return mag ? iq__sine(x, 0, x < 0.0f) : x; /* the sign of a zero stays */
}

IQ_HD float iq_cos(float x)
{
    if ((iq_f32_bits(x) & 0x7fffffffu) >= 0x7f800000u) return iq_nan();
    return iq__sine(x, 1, 0);
}

/* exp(z) - 1 for 0 <= z < 40, z with 24 bits, to about 2^-58 relative. */
IQ_HD struct iq__pair iq__expm1(double z)
{
    double shifted = IQ_FMA(z, IQ_LOG2E, IQ_RINT_MAGIC), k = shifted - IQ_RINT_MAGIC;
    double rh = IQ_FMA(k, -IQ_LN2_HI, z), r = IQ_FMA(k, -IQ_LN2_LO, rh);
    double rl = IQ_FMA(k, -IQ_LN2_LO, rh - r); /* r + rl is z - k ln 2 */
    double q = IQ_FMA(IQ_EXP_Q9, r, IQ_EXP_Q8);
    q = IQ_FMA(q, r, IQ_EXP_Q7);
    q = IQ_FMA(q, r, IQ_EXP_Q6);
    q = IQ_FMA(q, r, IQ_EXP_Q5);
    q = IQ_FMA(q, r, IQ_EXP_Q4);
    q = IQ_FMA(q, r, IQ_EXP_Q3);
    q = IQ_FMA(q, r, IQ_EXP_Q2);
    q = IQ_FMA(q, r, IQ_EXP_Q1);
    q = IQ_FMA(q, r, IQ_EXP_Q0);
    double s = 0.5 * (r * r), sl = 0.5 * IQ_FMA(r, r, -(r * r));
    double h = r + s, l = (s - (h - r)) + (sl + IQ_FMA(rl, r, rl));
    l = IQ_FMA(r * (s + s), q, l);
    if (k > 0.0) { /* 2^k (1 + h + l) - 1; 2^k (1 + h) is above 1 */
        double scale = iq_bits_f64((iq_f64_bits(shifted) << 52) + 0x3ff0000000000000u);
        double a = 1.0 + h, al = (h - (a - 1.0)) + l, b = scale * a;
        h = b - 1.0;
        l = IQ_FMA(scale, al, (b - h) - 1.0);
    }
    struct iq__pair y = {h + l, 0.0};
    y.lo = l - (y.hi - h);
    return y;
}

/* tanh(x) = e / (e + 2), e = exp(2 |x|) - 1. */
IQ_HD float iq_tanh(float x)
{
    uint32_t mag = iq_f32_bits(x) & 0x7fffffffu;
    float sign = x < 0.0f ? -1.0f : 1.0f;
    if (mag > 0x7f800000u) return iq_nan();
    if (mag > 0x41200000u) return sign; /* 10: past 9.02 the result rounds to 1 */
    if (mag < 0x39000000u) return x;    /* 2^-13: x^3 / 3 is below half an ulp */
    struct iq__pair e = iq__expm1(2.0 * (double)iq_bits_f32(mag));
    double d = e.hi + 2.0, dl = e.hi > 2.0 ? (e.hi - d) + 2.0 : (2.0 - d) + e.hi;
    dl = dl + e.lo;
    double q = e.hi / d;
    double rest = IQ_FMA(-q, d, e.hi) + IQ_FMA(-q, dl, e.lo);
    return sign * iq__round_sum(q, rest / d);
}

#endif
