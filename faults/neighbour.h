/* The row beside a row. */
#ifndef IQ_NEIGHBOUR_H
#define IQ_NEIGHBOUR_H

#include <stdint.h>

/* Row r + by of a call of `rows`; r itself where there is none. */
static inline uint32_t iq__neighbour(uint32_t r, int64_t by, uint32_t rows)
{
    int64_t n = (int64_t)r + by;
    return n >= 0 && n < (int64_t)rows ? (uint32_t)n : r;
}

#endif
