/* K17's arithmetic: an activation with fewer significant bits. One source for host and devices. */
#ifndef IQ_ROUND_RULES_H
#define IQ_ROUND_RULES_H

#include "kernels/arith.h"

/* Nearest even to `bits` (1 to 24) significant bits; the exponent keeps its range, as bfloat16's does. */
IQ_HD float iq__rounded(float f, uint32_t bits)
{
    uint32_t u = iq_f32_bits(f), drop = 24 - bits;
    if (!drop || (u & 0x7f800000u) == 0x7f800000u) return f;
    u += (1u << (drop - 1)) - 1 + (u >> drop & 1u);
    return iq_bits_f32(u >> drop << drop);
}

#endif
