/* Rotary position embedding of q and k. table[pos][i] = (cos, sin) of pair i, made once on the host (kernels/rotary.h).
 * Pair i is elements (2i, 2i+1) when interleaved, (i, i + rotary/2) otherwise; elements past `rotary` are copied.
 * a' = fmaf(a, cos, -(b * sin)), b' = fmaf(b, cos, a * sin). */
#ifndef IQ_OPS_ROPE_H
#define IQ_OPS_ROPE_H

#include <stddef.h>
#include <stdint.h>

struct iq_rope_part {
    uint32_t heads;
    const float *x; /* (rows, heads, dim), row stride ldx */
    float *y;
    size_t ldx, ldy;
};

struct iq_rope {
    uint32_t rows, dim, rotary, interleaved, act;
    const uint32_t *pos;         /* (rows) */
    const float *table;          /* (positions, rotary / 2, 2) */
    struct iq_rope_part part[2]; /* q, k */
    /* How many tables stand in `table`, each of `span` positions: pos counts through all of them. */
    uint32_t tables, span;
};

#endif
