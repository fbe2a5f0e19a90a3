/* The monotonic clock: for rates, limits of time and bars. */
#ifndef IQ_BASE_CLOCK_H
#define IQ_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t iq_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline int64_t iq_clock_ms(void) { return (int64_t)(iq_clock_ns() / 1000000); }
static inline double iq_clock_s(void) { return (double)iq_clock_ns() * 1e-9; }

#endif
