#include "golden/answer.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

static void trim(const char **s, size_t *n)
{
    while (*n && isspace((unsigned char)(*s)[*n - 1])) --*n;
    while (*n && isspace((unsigned char)**s)) ++*s, --*n;
}

bool iq_answer_right(const char *text, size_t n, const char *expect)
{
    size_t m = strlen(expect);
    trim(&text, &n);
    trim(&expect, &m);
    return n == m && !memcmp(text, expect, n);
}

static const double z = IQ_ANSWER_Z;

void iq_answer_interval(uint64_t right, uint64_t asked, double *low, double *high)
{
    *low = 0;
    *high = 1;
    if (!asked) return;
    double n = (double)asked, p = (double)right / n, t = z * z / n;
    double centre = (p + t / 2) / (1 + t), half = z * sqrt(p * (1 - p) / n + t / (4 * n)) / (1 + t);
    if (right) *low = centre - half;
    if (right < asked) *high = centre + half;
}

/* Half a question is added to each cell of the table of pairs. */
void iq_answer_difference(uint64_t lost, uint64_t gained, uint64_t asked, double *low, double *high)
{
    *low = -1;
    *high = 1;
    if (!asked) return;
    double n = (double)asked + 2, b = (double)lost + 0.5, c = (double)gained + 0.5, d = (c - b) / n;
    double half = z * sqrt(b + c - n * d * d) / n;
    if (d - half > -1) *low = d - half;
    if (d + half < 1) *high = d + half;
}
