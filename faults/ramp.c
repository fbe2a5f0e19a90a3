#include "faults/ramp.h"

#include <stdio.h>
#include <stdlib.h>

#define DAY 24.0

/* ---- reading ---- */

static int read_number(const cJSON *item, const char *what, double hi, const char *where, double *out,
                       struct iq_err *err)
{
    if (!cJSON_IsNumber(item))
        return iq_fail(err, IQ_FORMAT, "%s: the %s is no number, expected 0 to %.17g", where, what, hi);
    *out = item->valuedouble;
    if (*out >= 0 && *out <= hi) return IQ_OK;
    return iq_fail(err, IQ_FORMAT, "%s: the %s is %.17g, expected 0 to %.17g", where, what, *out, hi);
}

static int read_point(const cJSON *pair, const char *where, struct iq_ramp *s, struct iq_err *err)
{
    struct iq_ramp_point *p = &s->point[s->n];
    char at[340];
    snprintf(at, sizeof at, "%s: point %zu", where, s->n);
    if (!cJSON_IsArray(pair) || cJSON_GetArraySize(pair) != 2)
        return iq_fail(err, IQ_FORMAT, "%s: expected a pair [%s, probability]", at,
                       s->daily ? "hour" : "milliseconds");
    IQ_TRY(read_number(pair->child, s->daily ? "hour" : "time", s->daily ? DAY : 0x1p53, at, &p->at, err));
    IQ_TRY(read_number(pair->child->next, "probability", 1, at, &p->p, err));
    if (s->n && p->at < p[-1].at)
        return iq_fail(err, IQ_FORMAT, "%s: its time %.17g is before the last one's, %.17g; sort them", at,
                       p->at, p[-1].at);
    s->n++;
    return IQ_OK;
}

int iq_ramp_parse(const cJSON *item, const char *where, struct iq_ramp **out, struct iq_err *err)
{
    static const char *const known[] = {"hours", NULL};
    *out = NULL;
    const cJSON *list = item;
    bool daily = cJSON_IsObject(item);
    if (daily) {
        IQ_TRY(iq_json_known(item, known, where, err));
        list = cJSON_GetObjectItemCaseSensitive(item, "hours");
    }
    if (!cJSON_IsArray(list))
        return iq_fail(err, IQ_FORMAT,
                       "%s: expected a number from 0 to 1, a list [[milliseconds, probability], ...], or "
                       "{\"hours\": [[hour, probability], ...]}",
                       where);
    int n = cJSON_GetArraySize(list);
    if (n < 1) return iq_fail(err, IQ_FORMAT, "%s: an empty list, expected points", where);
    if (n > IQ_RAMP_POINTS)
        return iq_fail(err, IQ_LIMIT, "%s: %d points, expected at most %d", where, n, IQ_RAMP_POINTS);
    struct iq_ramp *s = calloc(1, sizeof *s + (size_t)n * sizeof *s->point);
    if (!s) return iq_fail(err, IQ_MEMORY, "%s: no memory for %d points", where, n);
    s->daily = daily;
    int status = IQ_OK;
    for (const cJSON *pair = list->child; pair && status == IQ_OK; pair = pair->next)
        status = read_point(pair, where, s, err);
    if (status == IQ_OK)
        *out = s;
    else
        free(s);
    return status;
}

/* ---- asking ---- */

static double between(struct iq_ramp_point a, struct iq_ramp_point b, double t)
{
    return a.p + (b.p - a.p) * ((t - a.at) / (b.at - a.at));
}

double iq_ramp_at(const struct iq_ramp *s, uint64_t clock_us, uint32_t start_s)
{
    uint64_t day_us =
        (clock_us % UINT64_C(86400000000) + start_s * UINT64_C(1000000)) % UINT64_C(86400000000);
    double t = s->daily ? (double)day_us / 3.6e9 : (double)clock_us / 1e3;
    size_t lo = 0, hi = s->n; /* of the points, lo are not after t */
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (s->point[mid].at <= t)
            lo = mid + 1;
        else
            hi = mid;
    }
    struct iq_ramp_point first = s->point[0], last = s->point[s->n - 1];
    if (lo && lo < s->n) return between(s->point[lo - 1], s->point[lo], t);
    if (!s->daily || first.at + DAY <= last.at) return lo ? last.p : first.p;
    first.at += DAY;
    return between(last, first, lo ? t : t + DAY);
}

double iq_ramp_most(const struct iq_ramp *s)
{
    double most = 0;
    for (size_t i = 0; i < s->n; i++) most = s->point[i].p > most ? s->point[i].p : most;
    return most;
}

/* ---- writing ---- */

void iq_ramp_json(const struct iq_ramp *s, struct iq_jw *w)
{
    if (s->daily) iq_jw_begin(w, '{'), iq_jw_key(w, "hours");
    iq_jw_begin(w, '[');
    for (size_t i = 0; i < s->n; i++) {
        iq_jw_begin(w, '[');
        iq_jw_f64(w, s->point[i].at);
        iq_jw_f64(w, s->point[i].p);
        iq_jw_end(w, ']');
    }
    iq_jw_end(w, ']');
    if (s->daily) iq_jw_end(w, '}');
}

void iq_ramp_explain(const struct iq_ramp *s, struct iq_buf *b)
{
    enum { SAID = 6 };
    iq_buf_printf(b, "that goes");
    for (size_t i = 0; i < s->n && i < SAID; i++)
        iq_buf_printf(b, s->daily ? " %s %g at %g h" : " %s %g at %.15g ms", i ? "to" : "from", s->point[i].p,
                      s->point[i].at);
    if (s->n > SAID) iq_buf_printf(b, " and through %zu more points", s->n - SAID);
    if (s->daily) iq_buf_printf(b, " of every day");
}
