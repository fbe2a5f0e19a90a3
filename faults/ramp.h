/* A rate over the clock: points between which it is linear. Before the first point it is the first's, after the last the
 * last's; two points of one time are a jump, the later one holding from there on. By the hour of the day it goes round:
 * from the last point on to the first of the next day.
 *
 *     [[0, 0.008], [60000, 0.16]]              milliseconds of the clock
 *     {"hours": [[0, 0], [9, 0.1], [17, 0]]}   hours of the day, 0 to 24
 */
#ifndef IQ_RAMP_H
#define IQ_RAMP_H

#include "kernels/base/json.h"

enum { IQ_RAMP_POINTS = 4096 };

struct iq_ramp_point {
    double at, p; /* milliseconds, or hours; 0 to 1 */
};

struct iq_ramp {
    bool daily;
    size_t n; /* at least 1 */
    struct iq_ramp_point point[];
};

/* A list, or an object of "hours". IQ_FORMAT; IQ_LIMIT: more than IQ_RAMP_POINTS. The caller frees *out by free(). */
int iq_ramp_parse(const cJSON *, const char *where, struct iq_ramp **out, struct iq_err *err);
/* start_s: the time of day at clock 0. */
double iq_ramp_at(const struct iq_ramp *, uint64_t clock_us, uint32_t start_s);
double iq_ramp_most(const struct iq_ramp *);
void iq_ramp_json(const struct iq_ramp *, struct iq_jw *);
/* "that goes from 0.008 at 0 ms to 0.16 at 60000 ms". */
void iq_ramp_explain(const struct iq_ramp *, struct iq_buf *);

#endif
