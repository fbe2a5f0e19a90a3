/* Counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011). A draw is a pure function of its key and
 * counter, so it depends on no order of calls, row or thread. */
#ifndef IQ_BASE_RNG_H
#define IQ_BASE_RNG_H

#include <stdint.h>

struct iq_philox {
    uint32_t v[4];
};

struct iq_philox iq_philox(uint64_t key, uint64_t counter_hi, uint64_t counter_lo);

/* What a draw of the engine is for; part of the arithmetic contract. */
enum iq_purpose {
    IQ_DRAW_SAMPLE,
    IQ_DRAW_DRAFT,
    IQ_DRAW_ACCEPT,
    IQ_DRAW_RESIDUAL,
    IQ_DRAW_FAULT,
    IQ_DRAW_ARRIVAL,
    IQ_DRAW_DATA
};

/* 64 random bits for (seed, position, purpose). */
static inline uint64_t iq_draw(uint64_t seed, uint64_t position, enum iq_purpose purpose)
{
    struct iq_philox p = iq_philox(seed, purpose, position);
    return (uint64_t)p.v[1] << 32 | p.v[0];
}

/* Bijective 64-bit mixer (SplitMix64's finaliser), for combining seeds. */
static inline uint64_t iq_mix64(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

#endif
