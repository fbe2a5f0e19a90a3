/* A thread of the host as a team of its own (faults/team.h): a heap that holds the best so far. Internal to team.h. */
#ifndef IQ_TEAM_HOST_H
#define IQ_TEAM_HOST_H

#define IQ_TEAM_FN static inline __attribute__((always_inline, unused))
IQ_TEAM_FN void iq__team_meet(void) {}

/* Into a max-heap of n, from the root on, in place of what stood there. */
static inline void iq__heap_sink(uint64_t *heap, uint32_t n, uint64_t entry)
{
    uint32_t i = 0;
    for (uint32_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && heap[child + 1] > heap[child]) child++;
        if (entry >= heap[child]) break;
        heap[i] = heap[child];
    }
    heap[i] = entry;
}

static inline void iq__heap_rise(uint64_t *heap, uint32_t i, uint64_t entry)
{
    for (; i && heap[(i - 1) / 2] < entry; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = entry;
}

IQ_TEAM_FN uint32_t iq__team_best(struct iq__team t, iq__team_item *item, const void *list, uint32_t n,
                                  uint32_t k, uint64_t *out)
{
    uint32_t found = 0;
    (void)t;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t entry = item(list, i);
        if (found < k && entry != IQ_TEAM_LOST)
            iq__heap_rise(out, found++, entry);
        else if (found == k && entry < out[0])
            iq__heap_sink(out, k, entry);
    }
    for (uint32_t left = found; left > 1;) {
        uint64_t worst = out[0];
        iq__heap_sink(out, left - 1, out[left - 1]);
        out[--left] = worst;
    }
    return found;
}

IQ_TEAM_FN uint32_t iq__team_nth(struct iq__team t, iq__team_item *item, const void *list, uint32_t n,
                                 uint32_t nth)
{
    (void)t;
    for (uint32_t i = 0; i + 1 < n; i++)
        if (item(list, i) != IQ_TEAM_LOST && --nth == 0) return i;
    return n - 1;
}

#endif
