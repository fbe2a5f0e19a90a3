/* Counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011). A draw is a pure function of its key and
 * counter, so it depends on no order of calls, row or thread. */
#ifndef IQ_BASE_RNG_H
#define IQ_BASE_RNG_H

#include "kernels/base/device.h"

#include <stdint.h>

struct iq_philox {
    uint32_t v[4];
};

IQ_HD struct iq_philox iq_philox(uint64_t key, uint64_t hi, uint64_t lo)
{
    uint32_t c0 = (uint32_t)lo, c1 = (uint32_t)(lo >> 32), c2 = (uint32_t)hi, c3 = (uint32_t)(hi >> 32);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xd2511f53u * c0, b = (uint64_t)0xcd9e8d57u * c2;
        uint32_t n0 = (uint32_t)(b >> 32) ^ c1 ^ k0, n2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
        c0 = n0;
        c2 = n2;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    struct iq_philox out = {{c0, c1, c2, c3}};
    return out;
}

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
IQ_HD uint64_t iq_draw(uint64_t seed, uint64_t position, enum iq_purpose purpose)
{
    struct iq_philox p = iq_philox(seed, purpose, position);
    return (uint64_t)p.v[1] << 32 | p.v[0];
}

/* Bijective 64-bit mixer (SplitMix64's finaliser), for combining seeds. */
IQ_HD uint64_t iq_mix64(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

#endif
