/* all_reduce: finishes the contract's tree over K from the partial sums that ranks hold. A piece is one tree node over
 * units [unit, unit + units); pieces cover [0, units) in ascending order. Rounding to the activation type happens here,
 * once. With one rank it is the copy of its only piece. */
#ifndef IQ_OPS_REDUCE_H
#define IQ_OPS_REDUCE_H

#include <stddef.h>
#include <stdint.h>

enum { IQ_REDUCE_PIECES = 256 };

struct iq_piece {
    uint32_t unit, units, rank;
    const float *x; /* (rows, n), row stride ldx */
    size_t ldx;
};

struct iq_all_reduce {
    uint32_t rows, n, units, pieces, act;
    const struct iq_piece *piece; /* (pieces) */
    float *y;                     /* (rows, n), row stride ldy */
    size_t ldy;
};

#endif
