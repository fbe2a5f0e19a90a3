/* Inside the dispatch: a set of slots, and what dispatching here and on a device (cuda/watch.h) share. */
#ifndef IQ_DISPATCH_PARTS_H
#define IQ_DISPATCH_PARTS_H

#include "kernels/dispatch.h"
#include "kernels/states.h"

struct iq_slots {
    uint32_t first, ops; /* ops [first, first + ops) */
    uint32_t layers, ranks;
    const struct iq_selector *selector;
    const struct iq_tap *tap;
    struct iq__states states;
    const struct iq_rider *rider; /* (riders) */
    uint32_t riders;
    bool head;  /* calls are the head's: a row a rider */
    void *room; /* golden's outputs while a fault runs; rows gathered for a digest */
    size_t room_cap;
    struct iq_slot slot[]; /* [op][layer + 1][rank]; layer index 0 holds the ops outside the layers */
};

/* At least `bytes` of s->room; NULL: no memory. */
void *iq__slots_room(struct iq_slots *s, size_t bytes);

/* The picks for a call, and which of them win a row and change something. Returns their number, or -(an iq_status). */
int iq__picks(const struct iq_site *, const void *args, struct iq_pick pick[IQ_PICKS], bool wins[IQ_PICKS]);
/* The pick that decides row r, or -1. */
int iq__pick_winner(const struct iq_pick *, int n, uint32_t r);
/* What a pick's variant remembers: *state, NULL where it needs none. IQ_MEMORY. */
int iq__pick_state(const struct iq_exec *, const struct iq_slot *, const struct iq_pick *, void **state);

/* Bytes of a call's outputs, all points, in one row. */
size_t iq__row_bytes(const struct iq_kind *, const void *args);
/* The row, or a copy in `into` in which every NaN has the one bit pattern that digests are taken of. */
const void *iq__canonical_row(const void *row, size_t bytes, size_t elem, void *into);

/* The same as iq__dispatch_watched and iq_tap_whole, for slots whose golden variant runs on a device. */
int iq__cuda_dispatch(struct iq_exec *, const struct iq_site *, const void *args);
int iq__cuda_tap_whole(struct iq_exec *, const struct iq_site *, uint32_t rows, uint16_t node, const float *y,
                       size_t ld, size_t n);

#endif
