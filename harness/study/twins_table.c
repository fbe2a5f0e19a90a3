/* The study as a table, and as JSON. */
#include "harness/study/twins.h"
#include "kernels/base/json.h"

#include <stdio.h>

static void bits_text(const struct iq_twin *t, bool reference, char *out, size_t size)
{
    const char *moments = t->moments ? " (moments)" : "";
    if (reference)
        snprintf(out, size, "the reference");
    else if (t->step == IQ_TWIN_EQUAL)
        snprintf(out, size, "equal to the bit");
    else if (t->step == IQ_TWIN_START)
        snprintf(out, size, "at the start: %s", t->tensor);
    else
        snprintf(out, size, "step %lld: %s%s", (long long)t->step, t->tensor, moments);
}

void iq_twins_text(const struct iq_twins *s, struct iq_buf *b)
{
    iq_buf_printf(
        b, "%llu weights, %u steps; %u held-out questions, %llu tokens of answers; intervals have 95 %%\n",
        (unsigned long long)s->weights, s->steps, s->asked, (unsigned long long)s->tokens);
    iq_buf_printf(b, "%-15s  %-28s  %8s  %6s  %-21s  %-22s  %6s  %s\n", "freed", "first difference",
                  "distance", "loss", "right", "less the reference's", "nll", "less the reference's");
    for (size_t i = 0; i < s->n; i++) {
        const struct iq_twin *t = &s->twin[i];
        char bits[80], right[64], by[64] = "-", nll_by[64] = "-";
        bits_text(t, i == 0, bits, sizeof bits);
        snprintf(right, sizeof right, "%5.1f %% [%5.1f, %5.1f]", 100.0 * t->right / s->asked, 100 * t->low,
                 100 * t->high);
        if (i)
            snprintf(by, sizeof by, "%+5.1f [%+5.1f, %+5.1f]", 100 * t->right_by, 100 * t->right_by_low,
                     100 * t->right_by_high);
        if (i)
            snprintf(nll_by, sizeof nll_by, "%+.4f [%+.4f, %+.4f]", t->nll_by, t->nll_by_low, t->nll_by_high);
        iq_buf_printf(b, "%-15s  %-28s  %8.2g  %6.4f  %-21s  %-22s  %6.4f  %s\n", t->factor->name, bits,
                      t->distance, t->loss, right, by, t->nll, nll_by);
    }
    iq_buf_printf(
        b,
        "%u copies of different bits: right %.1f %% with a standard deviation of %.1f points; nll %.4f, "
        "%.4f\n",
        s->copies, 100 * s->right_mean, 100 * s->right_deviation, s->nll_mean, s->nll_deviation);
}

static void number(struct iq_jw *w, const char *key, double value)
{
    iq_jw_key(w, key);
    iq_jw_f64(w, value);
}

static void interval(struct iq_jw *w, const char *key, double low, double high)
{
    iq_jw_key(w, key);
    iq_jw_begin(w, '[');
    iq_jw_f64(w, low);
    iq_jw_f64(w, high);
    iq_jw_end(w, ']');
}

static void difference_json(const struct iq_twin *t, struct iq_jw *w)
{
    iq_jw_key(w, "first_difference");
    if (t->step == IQ_TWIN_EQUAL) {
        iq_jw_null(w);
        return;
    }
    iq_jw_begin(w, '{');
    iq_jw_key(w, "step");
    if (t->step == IQ_TWIN_START)
        iq_jw_null(w);
    else
        iq_jw_i64(w, t->step);
    iq_jw_key(w, "tensor"), iq_jw_str(w, t->tensor);
    iq_jw_key(w, "moments"), iq_jw_bool(w, t->moments);
    iq_jw_end(w, '}');
}

static void twin_json(const struct iq_twins *s, const struct iq_twin *t, struct iq_jw *w)
{
    iq_jw_begin(w, '{');
    iq_jw_key(w, "twin"), iq_jw_str(w, t->factor->name);
    iq_jw_key(w, "freed"), iq_jw_str(w, t->factor->what);
    iq_jw_key(w, "plan");
    if (t->factor->plan)
        iq_jw_raw(w, t->factor->plan);
    else
        iq_jw_null(w);
    iq_jw_key(w, "data_parallel"), iq_jw_u64(w, t->factor->ranks);
    iq_jw_key(w, "equal"), iq_jw_bool(w, t->step == IQ_TWIN_EQUAL);
    difference_json(t, w);
    number(w, "distance", t->distance);
    number(w, "loss", t->loss);
    iq_jw_key(w, "right"), iq_jw_u64(w, t->right);
    number(w, "accuracy", (double)t->right / s->asked);
    interval(w, "accuracy_95", t->low, t->high);
    number(w, "accuracy_change", t->right_by);
    interval(w, "accuracy_change_95", t->right_by_low, t->right_by_high);
    number(w, "nll", t->nll);
    number(w, "nll_change", t->nll_by);
    interval(w, "nll_change_95", t->nll_by_low, t->nll_by_high);
    iq_jw_end(w, '}');
}

void iq_twins_json(const struct iq_twins *s, struct iq_buf *b)
{
    struct iq_jw w = IQ_JW(b);
    iq_jw_begin(&w, '{');
    iq_jw_key(&w, "weights"), iq_jw_u64(&w, s->weights);
    iq_jw_key(&w, "steps"), iq_jw_u64(&w, s->steps);
    iq_jw_key(&w, "questions"), iq_jw_u64(&w, s->asked);
    iq_jw_key(&w, "tokens"), iq_jw_u64(&w, s->tokens);
    iq_jw_key(&w, "repeated"), iq_jw_bool(&w, s->repeated);
    iq_jw_key(&w, "copies"), iq_jw_u64(&w, s->copies);
    number(&w, "accuracy_mean", s->right_mean);
    number(&w, "accuracy_deviation", s->right_deviation);
    number(&w, "nll_mean", s->nll_mean);
    number(&w, "nll_deviation", s->nll_deviation);
    iq_jw_key(&w, "twins"), iq_jw_begin(&w, '[');
    for (size_t i = 0; i < s->n; i++) twin_json(s, &s->twin[i], &w);
    iq_jw_end(&w, ']');
    iq_jw_end(&w, '}');
}
