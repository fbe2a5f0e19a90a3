/* What this machine can do at most: float32 fused multiply-adds and reads from memory. Benchmarks print their share of
 * it. Units: FMA peak in GFLOP/s (an FMA is two), reads in GB/s (10^9). Each figure is the best of several short
 * windows, so that a neighbour's burst does not count; on a busy machine it is still too low. */
#ifndef IQ_HARNESS_PEAK_H
#define IQ_HARNESS_PEAK_H

#include "kernels/base/pool.h"
#include "kernels/base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* A way to multiply and add; usable: this CPU and its kernel allow it. */
struct iq_peak_isa {
    const char *name; /* "scalar", "avx2", "avx512" */
    bool (*usable)(void);
    void (*burn)(long rounds); /* `rounds` times IQ_PEAK_CHAINS independent FMAs of `lanes` lanes */
    int lanes;
};

enum { IQ_PEAK_CHAINS = 12 }; /* more than latency times ports, so that the units are full */

extern const struct iq_peak_isa iq_peak_isas[]; /* slowest first; ends with a NULL name */

/* All threads of the pool (NULL: the caller alone) together. */
double iq_peak_fma(const struct iq_peak_isa *, struct iq_pool *);

/* A buffer that no cache holds: 4 times the last cache, at least 256 MiB, at most 1 GiB and a quarter of the memory that
 * is free. Mapped by the reading threads on huge pages where the system gives them. */
size_t iq_peak_read_bytes(void);
int iq_peak_read(size_t bytes, struct iq_pool *, double *gb_per_s, struct iq_err *);

#endif
