/* K16's rounds: a message larger than the mailbox goes in several calls of whole rows. For the families that launch or
 * reduce them; what a round does to an element is in stale_rules.h. */
#ifndef IQ_STALE_ROUNDS_H
#define IQ_STALE_ROUNDS_H

#include "faults/stale_rules.h"
#include "kernels/ops/reduce.h"

#include <math.h>

enum iq__stale_mode { IQ__STALE_WHOLE, IQ__STALE_TORN }; /* parameter `mode` */

/* fraction: share of lines that are late, 0 to 1. */
static inline struct iq__stale_rule iq__stale_rule_of(double fraction, double mode)
{
    return (struct iq__stale_rule){.late = (uint64_t)ceil(fraction * 0x1p32), .torn = mode == IQ__STALE_TORN};
}

/* The call for rows [first, first + most) of a, as far as there are any; its pieces are written to `piece`. */
static inline struct iq_all_reduce iq__stale_round(const struct iq_all_reduce *a, uint32_t first,
                                                   uint32_t most, struct iq_piece piece[IQ_REDUCE_PIECES])
{
    struct iq_all_reduce part = *a;
    part.rows = a->rows - first < most ? a->rows - first : most;
    part.y = a->y + first * a->ldy;
    for (uint32_t i = 0; i < a->pieces && i < IQ_REDUCE_PIECES; i++) {
        piece[i] = a->piece[i];
        piece[i].x += first * piece[i].ldx;
    }
    part.piece = piece;
    return part;
}

#endif
