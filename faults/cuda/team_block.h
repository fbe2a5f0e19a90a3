/* A block as a team (faults/team.h): the descent of kernels/cuda/select.h, for lists that have gaps. Internal to
 * team.h. */
#ifndef IQ_TEAM_BLOCK_H
#define IQ_TEAM_BLOCK_H

#include "kernels/cuda/cuda.h"

#define IQ_TEAM_FN static __device__ __forceinline__
IQ_TEAM_FN void iq__team_meet() { __syncthreads(); }

/* Counts the entries that begin with `prefix` by their next digit, at bit `shift`. */
IQ_TEAM_FN void iq__team_count(struct iq__team t, iq__team_item *item, const void *list, uint32_t n,
                               uint64_t prefix, int shift)
{
    for (uint32_t i = t.lane; i < IQ_TEAM_DIGITS; i += t.lanes) t.room->count[i] = 0;
    iq__team_meet();
    for (uint32_t i = t.lane; i < n; i += t.lanes) {
        uint64_t entry = item(list, i);
        if (entry != IQ_TEAM_LOST && entry >> shift >> 8 == prefix)
            atomicAdd(&t.room->count[entry >> shift & (IQ_TEAM_DIGITS - 1)], 1u);
    }
    iq__team_meet();
}

/* Ascending, by merge exchange (Knuth, vol. 3, 5.2.2 M): which pairs are compared depends on n alone. */
IQ_TEAM_FN void iq__team_sort(struct iq__team t, uint64_t *entry, uint32_t n)
{
    uint32_t top = 1;
    if (n < 2) return;
    while (top < n - top) top *= 2;
    for (uint32_t p = top; p; p /= 2) {
        uint32_t q = top, r = 0, d = p;
        for (;; d = q - p, q /= 2, r = p) {
            for (uint32_t i = t.lane; i < n - d; i += t.lanes) {
                if ((i & p) != r) continue;
                uint64_t a = entry[i], b = entry[i + d];
                if (a > b) entry[i] = b, entry[i + d] = a;
            }
            iq__team_meet();
            if (q == p) break;
        }
    }
}

/* A descent by digits finds where the wanted ones end. */
IQ_TEAM_FN uint32_t iq__team_best(struct iq__team t, iq__team_item *item, const void *list, uint32_t n,
                                  uint32_t k, uint64_t *out)
{
    uint64_t prefix = 0; /* the wanted ones are those with entry >> shift <= prefix */
    int shift = 64;
    for (uint32_t rest = k, here = 0; here != rest;) {
        uint32_t digit = 0;
        shift -= 8;
        iq__team_count(t, item, list, n, prefix, shift);
        while (digit < IQ_TEAM_DIGITS && t.room->count[digit] < rest) rest -= t.room->count[digit++];
        here = digit < IQ_TEAM_DIGITS ? t.room->count[digit] : rest; /* past the last digit: all are wanted */
        prefix = prefix << 8 | digit;
        iq__team_meet();
    }
    if (t.lane == 0) t.room->found = 0;
    iq__team_meet();
    for (uint32_t i = t.lane; i < n; i += t.lanes) {
        uint64_t entry = item(list, i);
        if (entry != IQ_TEAM_LOST && entry >> shift <= prefix) out[atomicAdd(&t.room->found, 1u)] = entry;
    }
    iq__team_meet();
    uint32_t found = t.room->found;
    iq__team_sort(t, out, found);
    iq__team_meet(); /* the room is free */
    return found;
}

/* A lane a slice. */
IQ_TEAM_FN uint32_t iq__team_nth(struct iq__team t, iq__team_item *item, const void *list, uint32_t n,
                                 uint32_t nth)
{
    uint32_t begin = (uint32_t)((uint64_t)n * t.lane / t.lanes), own = 0, before = 0;
    uint32_t end = (uint32_t)((uint64_t)n * (t.lane + 1) / t.lanes);
    for (uint32_t i = begin; i < end; i++) own += item(list, i) != IQ_TEAM_LOST;
    t.room->count[t.lane] = own;
    if (t.lane == 0) t.room->found = n - 1;
    iq__team_meet();
    for (uint32_t i = 0; i < t.lane; i++) before += t.room->count[i];
    if (before < nth && nth <= before + own) {
        uint32_t i = begin;
        for (;; i++)
            if (item(list, i) != IQ_TEAM_LOST && ++before == nth) break;
        t.room->found = i;
    }
    iq__team_meet();
    uint32_t found = t.room->found;
    iq__team_meet();
    return found;
}

#endif
