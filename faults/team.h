/* The threads that share a row: one on the host, a block on a device. What is written for a team is one source
 * for both, in C that is C++ too: loops go from t.lane in strides of t.lanes, and every thread makes the same
 * calls in the same order. Results do not depend on the number of threads. */
#ifndef IQ_TEAM_H
#define IQ_TEAM_H

#include <stdint.h>

enum { IQ_TEAM_LANES = 256 /* at most */, IQ_TEAM_DIGITS = 256 };

/* Shared memory of a team. */
struct iq__team_room {
    uint32_t count[IQ_TEAM_DIGITS]; /* by digit of an entry, or by lane */
    uint32_t found;
};

struct iq__team {
    uint32_t lane, lanes;
    struct iq__team_room *room;
};

/* Entry i of a list of distinct entries (kernels/cpu/topk_order.h), or IQ_TEAM_LOST: it is not in the list. */
typedef uint64_t iq__team_item(const void *list, uint32_t i);
#define IQ_TEAM_LOST UINT64_MAX

/* Two forms give
 *   IQ_TEAM_FN       before a function for teams
 *   iq__team_meet()  all have come here, and see what the others wrote
 *   iq__team_best(t, item, list, n, k, out)
 *                    the smallest k (at least 1) of a list's n entries, ascending, into `out`; returns how many
 *                    there are: fewer where the list is shorter. What lanes wrote into the list before the call
 *                    is seen by all.
 *   iq__team_nth(t, item, list, n, nth)
 *                    the index of the nth (from 1) of a list's entries as they stand; n - 1: there are fewer */
#ifdef __cplusplus
#include "faults/cuda/team_block.h"
#else
#include "faults/team_host.h"
#endif

#endif
