/* Ascending sort of distinct 64-bit entries. Include it in files that are compiled for one instruction set
 * each. */
#ifndef IQ_CPU_SORT_ENTRIES_H
#define IQ_CPU_SORT_ENTRIES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { SORT_BY_RANK = 384 }; /* up to here counting smaller entries, which vectorises, beats merging */

/* Sorts e[0..n); `other` has room for as many. Returns where the result lies: e or other. */
static inline uint64_t *sort_entries(uint64_t *e, uint64_t *other, size_t n)
{
    if (n <= SORT_BY_RANK) {
        for (size_t i = 0; i < n; i++) {
            uint64_t rank = 0, mine = e[i];
            for (size_t j = 0; j < n; j++) rank += e[j] < mine;
            other[rank] = mine;
        }
        return other;
    }
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t lo = 0; lo < n; lo += 2 * width) {
            size_t mid = lo + width < n ? lo + width : n, hi = mid + width < n ? mid + width : n;
            size_t a = lo, b = mid;
            for (size_t i = lo; i < hi; i++) other[i] = a < mid && (b == hi || e[a] < e[b]) ? e[a++] : e[b++];
        }
        uint64_t *swap = e;
        e = other, other = swap;
    }
    return e;
}

#endif
