#include "kernels/rotary.h"

#include "kernels/rotary_math.h"

static const char *const kind_names[] = {
#define X(id, name) name,
    IQ_ROTARY_KIND_MAP(X)
#undef X
};

const char *iq_rotary_kind_name(uint32_t kind) { return kind < IQ_ROTARY_KINDS ? kind_names[kind] : "?"; }

/* What a scaling kind changes: the pairs' frequencies and the factor on cosine and sine. */
struct work {
    const struct iq_rotary_spec *s;
    uint32_t half;
    uint32_t length;
    iq__dd *freq; /* (half) */
    double attention;
    struct iq_err *err;
};

static int need(const struct work *w, const char *field, double value, double above)
{
    if (value > above && value <= 1e15) return IQ_OK;
    return iq_fail(w->err, IQ_FORMAT,
                   "rotary scaling %s: found %s %g, expected more than %g and at most 1e15",
                   iq_rotary_kind_name(w->s->kind), field, value, above);
}

static int none(struct work *w)
{
    (void)w;
    return IQ_OK;
}

static int linear(struct work *w)
{
    IQ_TRY(need(w, "factor", w->s->factor, 0));
    for (uint32_t i = 0; i < w->half; i++) w->freq[i] = dd_div(w->freq[i], dd_of(w->s->factor));
    return IQ_OK;
}

static void frequencies(struct work *w, iq__dd log_base)
{
    for (uint32_t i = 0; i < w->half; i++) {
        iq__dd share = dd_div(dd_of(-2.0 * i), dd_of(w->s->rotary));
        w->freq[i] = iq__dd_exp(dd_mul(share, log_base));
    }
}

/* base (factor length / context - (factor - 1)) ^ (d / (d - 2)); length at least the context. */
static int dynamic(struct work *w)
{
    const struct iq_rotary_spec *s = w->s;
    IQ_TRY(need(w, "factor", s->factor, 0));
    IQ_TRY(need(w, "max_position_embeddings", s->context, 0));
    IQ_TRY(need(w, "rotary dimensions", s->rotary, 2));
    if (w->length <= s->context) return IQ_OK;
    double stretch = s->factor * (double)(w->length - s->context) / (double)s->context + 1.0;
    iq__dd power = dd_div(dd_of(s->rotary), dd_of(s->rotary - 2.0));
    frequencies(w, dd_add(iq__dd_log(s->base), dd_mul(power, iq__dd_log(stretch))));
    return IQ_OK;
}

/* 0.1 mscale ln(scale) + 1 */
static double yarn_mscale(double scale, double mscale)
{
    return scale <= 1.0 ? 1.0 : 0.1 * mscale * iq__dd_log(scale).hi + 1.0;
}

static double round_down(double x)
{
    double n = (double)(int64_t)x;
    return n > x ? n - 1.0 : n;
}

/* The (fractional) dimension whose wave turns `rotations` times in the original context. */
static double yarn_dimension(const struct iq_rotary_spec *s, double rotations)
{
    double turns = (double)s->original_context / (rotations * (4.0 * IQ_PIO2_HI));
    return (double)s->rotary * iq__dd_log(turns).hi / (2.0 * iq__dd_log(s->base).hi);
}

static int scale_factor(struct work *w, double *factor)
{
    const struct iq_rotary_spec *s = w->s;
    *factor = s->factor;
    IQ_TRY(need(w, "original_max_position_embeddings", s->original_context, 0));
    if (*factor == 0.0) *factor = (double)s->context / (double)s->original_context;
    return need(w, "factor", *factor, 0);
}

static int yarn(struct work *w)
{
    const struct iq_rotary_spec *s = w->s;
    double factor, fast = s->beta_fast == 0.0 ? 32.0 : s->beta_fast,
                   slow = s->beta_slow == 0.0 ? 1.0 : s->beta_slow;
    IQ_TRY(scale_factor(w, &factor));
    IQ_TRY(need(w, "rope_theta", s->base, 1));
    IQ_TRY(need(w, "beta_fast", fast, 0));
    IQ_TRY(need(w, "beta_slow", slow, 0));
    if (s->attention_factor != 0.0)
        w->attention = s->attention_factor;
    else if (s->mscale != 0.0 && s->mscale_all_dim != 0.0)
        w->attention = yarn_mscale(factor, s->mscale) / yarn_mscale(factor, s->mscale_all_dim);
    else
        w->attention = yarn_mscale(factor, 1.0);
    double low = yarn_dimension(s, fast), high = yarn_dimension(s, slow);
    if (!s->no_truncate) {
        low = round_down(low);
        high = -round_down(-high);
    }
    if (low < 0.0) low = 0.0;
    if (high > s->rotary - 1.0) high = s->rotary - 1.0;
    if (low == high) high += 0.001;
    for (uint32_t i = 0; i < w->half; i++) {
        double ramp = ((double)i - low) / (high - low);
        ramp = ramp < 0.0 ? 0.0 : ramp > 1.0 ? 1.0 : ramp;
        iq__dd inside = dd_div(dd_mul(w->freq[i], dd_of(ramp)), dd_of(factor));
        w->freq[i] = dd_add(inside, dd_mul(w->freq[i], dd_of(1.0 - ramp)));
    }
    return IQ_OK;
}

/* Long waves are stretched by the factor, short ones left alone, a smooth blend between. */
static int llama3(struct work *w)
{
    const struct iq_rotary_spec *s = w->s;
    double low = s->low_freq_factor, high = s->high_freq_factor, old = s->original_context;
    IQ_TRY(need(w, "factor", s->factor, 0));
    IQ_TRY(need(w, "original_max_position_embeddings", old, 0));
    IQ_TRY(need(w, "low_freq_factor", low, 0));
    IQ_TRY(need(w, "high_freq_factor", high, low));
    for (uint32_t i = 0; i < w->half; i++) {
        iq__dd f = w->freq[i], stretched = dd_div(f, dd_of(s->factor));
        double turns = old * f.hi / (4.0 * IQ_PIO2_HI); /* in the original context */
        double smooth = (turns - low) / (high - low);
        if (turns < low)
            w->freq[i] = stretched;
        else if (turns <= high)
            w->freq[i] = dd_add(dd_mul(stretched, dd_of(1.0 - smooth)), dd_mul(f, dd_of(smooth)));
    }
    return IQ_OK;
}

static int divide(struct work *w, const double *by, const char *name)
{
    for (uint32_t i = 0; i < w->half; i++) {
        if (!(by[i] >= 1e-9 && by[i] <= 1e9))
            return iq_fail(w->err, IQ_FORMAT, "rotary %s[%u]: found %g, expected 1e-9 to 1e9", name, i,
                           by[i]);
        w->freq[i] = dd_div(w->freq[i], dd_of(by[i]));
    }
    return IQ_OK;
}

static int longrope(struct work *w)
{
    const struct iq_rotary_spec *s = w->s;
    double factor;
    IQ_TRY(scale_factor(w, &factor));
    if (!s->short_factor || !s->long_factor)
        return iq_fail(w->err, IQ_FORMAT, "rotary scaling longrope: short_factor or long_factor is missing");
    w->attention = s->attention_factor;
    if (w->attention == 0.0) {
        w->attention = 1.0;
        if (factor > 1.0) {
            IQ_TRY(need(w, "original_max_position_embeddings", s->original_context, 1));
            iq__dd share = dd_div(iq__dd_log(factor), iq__dd_log(s->original_context));
            w->attention = iq__dd_sqrt(dd_add(dd_of(1.0), share)).hi;
        }
    }
    return w->length > s->original_context ? divide(w, s->long_factor, "long_factor")
                                           : divide(w, s->short_factor, "short_factor");
}

static int (*const scale[IQ_ROTARY_KINDS])(struct work *) = {
    [IQ_ROTARY_NONE] = none, [IQ_ROTARY_LINEAR] = linear, [IQ_ROTARY_DYNAMIC] = dynamic,
    [IQ_ROTARY_YARN] = yarn, [IQ_ROTARY_LLAMA3] = llama3, [IQ_ROTARY_LONGROPE] = longrope,
};

int iq_rotary_frequencies(const struct iq_rotary_spec *s, uint32_t positions, double *inv_freq,
                          double *attention, struct iq_err *err)
{
    iq__dd freq[IQ_ROTARY_DIMS_MAX / 2];
    struct work w = {s, s->rotary / 2, s->length ? s->length : positions, freq, 1.0, err};
    *attention = 1.0;
    if (s->kind >= IQ_ROTARY_KINDS)
        return iq_fail(err, IQ_FORMAT, "rotary scaling kind %u is unknown", s->kind);
    if (s->rotary < 2 || s->rotary % 2 || s->rotary > IQ_ROTARY_DIMS_MAX)
        return iq_fail(err, IQ_FORMAT, "found %u rotary dimensions, expected an even number from 2 to %d",
                       s->rotary, IQ_ROTARY_DIMS_MAX);
    IQ_TRY(need(&w, "rope_theta", s->base, 1e-3));
    frequencies(&w, iq__dd_log(s->base));
    IQ_TRY(scale[s->kind](&w));
    if (s->freq_factors) IQ_TRY(divide(&w, s->freq_factors, "freq_factors"));
    IQ_TRY(need(&w, "attention factor", w.attention, 0));
    for (uint32_t i = 0; i < w.half; i++) {
        inv_freq[i] = freq[i].hi;
        if (!(inv_freq[i] >= 0.0 && inv_freq[i] <= 64.0)) /* keeps every angle below 2^30 */
            return iq_fail(err, IQ_FORMAT, "rotary pair %u turns %g radians a position, expected at most 64",
                           i, inv_freq[i]);
    }
    *attention = w.attention;
    return IQ_OK;
}

static float scaled(iq__dd y, int negative, double attention)
{
    y = dd_mul(y, dd_of(negative ? -attention : attention));
    return iq__round_sum(y.hi, y.lo);
}

/* cos and sin of pos * f, times `attention`. */
static void turn(double pos, double f, double attention, float out[2])
{
    int quadrant;
    iq__dd r = iq__dd_reduce(dd_product(pos, f), &quadrant), s = iq__sin_core(r), c = iq__cos_core(r);
    s = dd_quick(s.hi, s.lo);
    c = dd_quick(c.hi, c.lo);
    out[0] = scaled(quadrant & 1 ? s : c, quadrant == 1 || quadrant == 2, attention);
    out[1] = scaled(quadrant & 1 ? c : s, quadrant >= 2, attention);
}

int iq_rotary_table(const struct iq_rotary_spec *s, uint32_t positions, float *table,
                    struct iq_digest *digest, struct iq_err *err)
{
    double inv_freq[IQ_ROTARY_DIMS_MAX / 2], attention;
    if (digest) *digest = (struct iq_digest){0, 0};
    if (positions > IQ_ROTARY_POSITIONS_MAX)
        return iq_fail(err, IQ_LIMIT, "a rotary table of %u positions; at most %d", positions,
                       IQ_ROTARY_POSITIONS_MAX);
    IQ_TRY(iq_rotary_frequencies(s, positions, inv_freq, &attention, err));
    for (uint32_t p = 0; p < positions; p++)
        for (uint32_t i = 0; i < s->rotary / 2; i++)
            turn(p, inv_freq[i], attention, table + ((size_t)p * s->rotary + 2 * i));
    if (digest) *digest = iq_digest_bytes(table, (size_t)positions * s->rotary * sizeof(float));
    return IQ_OK;
}
