/* Inside the search for near ties. */
#ifndef IQ_HARNESS_TIES_PARTS_H
#define IQ_HARNESS_TIES_PARTS_H

#include "harness/canary/ties.h"

/* The narrowest ties of one kind of prompt and place, ascending; equal ones as they came. */
struct iq__tie_list {
    struct iq_tie *tie; /* (room) */
    uint32_t n, room;
};

/* Where ties are looked for in an output. */
struct iq__tie_place {
    enum iq_canary_odd kind;
    uint32_t index, front;
    uint32_t first_row; /* rows of the prompt from this one on; past its end: none */
    bool later;         /* rows of the answer */
};

typedef int iq__tie_fn(void *ctx, const struct iq_tie *, struct iq_err *);
/* Calls take for each row that a tie may be at; ids are borrowed from the output. */
int iq__ties_each(const struct iq_output *, const struct iq__tie_place *, iq__tie_fn *take, void *ctx,
                  struct iq_err *err);

/* Is the answer a text, and another one with the rival at its end? */
int iq__tie_readable(const struct iq_model *, const struct iq_tie *, bool *out, struct iq_err *err);
/* Replaces *to by a copy; to may be zeros. */
int iq__tie_copy(const struct iq_tie *, struct iq_tie *to, struct iq_err *err);

/* Takes a copy into the list if it is among the narrowest, and readable. One candidate stands in a list once. */
int iq__ties_offer(struct iq__tie_list *, const struct iq_model *, const struct iq_tie *, struct iq_err *err);

#endif
