/* K16's arithmetic: which of a peer's elements have landed when they are read. One source for host and devices. */
#ifndef IQ_STALE_RULES_H
#define IQ_STALE_RULES_H

#include "kernels/base/rng.h"

#include <stdbool.h>
#include <stddef.h>

enum { IQ__STALE_LINE = 32, IQ__STALE_HALF = 16 }; /* floats in 128 and in 64 bytes */
enum { IQ__STALE_MAILBOX = 1 << 20 };              /* floats; touched as far as messages reach */

/* On the side where the op runs. The round is part of it, so that a captured graph sees it advance. */
struct iq__stale_state {
    uint64_t round; /* lines are drawn by it */
    float mailbox[IQ__STALE_MAILBOX];
};

/* A piece of the peer's message: (rows, n), row stride ldx, to lie densely from mailbox[at] on. */
struct iq__stale_piece {
    const float *x;
    size_t ldx;
    uint32_t rows, n;
    uint64_t at;
};

struct iq__stale_rule {
    uint64_t late; /* of 2^32: share of lines that are read too early; 0: all is there */
    bool torn;     /* the first half of a late line is there */
};

IQ_HD bool iq__stale_is_late(struct iq__stale_rule rule, uint64_t round, uint64_t line)
{
    return rule.late && iq_philox(round, IQ_DRAW_FAULT, line).v[0] < rule.late;
}

/* Whether element `at` of the message is there, given whether its line is late. */
IQ_HD bool iq__stale_lands(struct iq__stale_rule rule, bool late, uint64_t at)
{
    return !late || (rule.torn && at % IQ__STALE_LINE < IQ__STALE_HALF);
}

#endif
