#include "kernels/states.h"

#include "kernels/base/rng.h"
#include "kernels/cuda/device.h"

#include <stdlib.h>

struct iq__held {
    const struct iq_slot *slot;
    uint32_t fault;
    void *state;
};

static struct iq__held *held_at(struct iq__held *table, size_t cap, const struct iq_slot *slot,
                                uint32_t fault)
{
    size_t i = iq_mix64((uint64_t)(uintptr_t)slot ^ (uint64_t)fault << 48) & (cap - 1);
    while (table[i].state && (table[i].slot != slot || table[i].fault != fault)) i = (i + 1) & (cap - 1);
    return &table[i];
}

static int grow(struct iq__states *s)
{
    size_t cap = s->cap ? s->cap * 2 : 64;
    struct iq__held *grown = calloc(cap, sizeof *grown);
    if (!grown) return -1;
    for (size_t i = 0; i < s->cap; i++)
        if (s->held[i].state) *held_at(grown, cap, s->held[i].slot, s->held[i].fault) = s->held[i];
    free(s->held);
    s->held = grown;
    s->cap = cap;
    return 0;
}

/* On the host calloc'd, so that a large state costs only the pages that are touched. */
static void *fresh(struct iq_cuda *cuda, size_t bytes)
{
    void *state = NULL;
    if (!cuda) return calloc(1, bytes);
    return iq_cuda_alloc(cuda, bytes, &state) ? NULL : state;
}

void *iq__state_of(struct iq__states *s, struct iq_cuda *cuda, const struct iq_slot *slot, uint32_t fault,
                   size_t bytes)
{
    s->cuda = cuda;
    if (s->n * 2 >= s->cap && grow(s)) return NULL;
    struct iq__held *h = held_at(s->held, s->cap, slot, fault);
    if (h->state) return h->state;
    void *state = fresh(cuda, bytes);
    if (!state) return NULL;
    *h = (struct iq__held){slot, fault, state};
    s->n++;
    return state;
}

void iq__states_clear(struct iq__states *s)
{
    for (size_t i = 0; i < s->cap; i++) {
        if (!s->held[i].state) continue;
        if (s->cuda)
            s->cuda->api->free(
                s->held[i].state); /* of a lost device it fails: there is nothing left to free */
        else
            free(s->held[i].state);
    }
    free(s->held);
    *s = (struct iq__states){0};
}
