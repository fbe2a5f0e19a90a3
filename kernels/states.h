/* What faulty variants remember from call to call: a zeroed block for each pick in each slot, on the side where ops run.
 * Internal to kernels' dispatch. */
#ifndef IQ_STATES_H
#define IQ_STATES_H

#include <stddef.h>
#include <stdint.h>

struct iq_cuda;
struct iq_slot;

struct iq__states {
    struct iq__held *held; /* open-addressed, cap a power of two */
    size_t cap, n;
    struct iq_cuda *cuda; /* whose memory it is; NULL: the host's */
};

/* The state of a fault in a slot: `bytes`, zeroed when it is first asked for. NULL: no memory. cuda: the same in every
 * call until iq__states_clear. */
void *iq__state_of(struct iq__states *, struct iq_cuda *cuda, const struct iq_slot *, uint32_t fault,
                   size_t bytes);
void iq__states_clear(struct iq__states *);

#endif
