/* Tensor-parallel shards of a sum over K.
 *
 * The contract's tree halves a list of units (first half = ceil(n/2)). A rank owns a contiguous run of
 * units. Where the number of ranks is a power of two, rank r owns the r-th node at depth log2(ranks),
 * uneven where need be; else the runs are as even as possible, the first ranks the larger ones. The sums
 * that a rank sends are those of the largest tree nodes inside its run, so that all_reduce finishes the one
 * tree and no rank count changes a bit. Units are KV groups (attention output) or 128 columns of the FFN.
 */
#ifndef IQ_SHARD_H
#define IQ_SHARD_H

#include "kernels/base/status.h"

#include <stdint.h>

enum { IQ_SHARD_RANKS = 64, IQ_SHARD_NODES = 16 }; /* nodes: the parts of one matmul call */

struct iq_shard_node {
    uint32_t unit, units;
};

struct iq_shard {
    uint32_t unit, units; /* the rank's run */
    uint32_t nodes;
    struct iq_shard_node node[IQ_SHARD_NODES]; /* ascending, covering the run */
};

/* Fills shard[0 .. ranks). `what` names the units in errors ("KV groups of the attention output").
 * IQ_UNSUPPORTED: more ranks than units, no rank, or more than IQ_SHARD_RANKS. IQ_LIMIT: a run would need
 * more than IQ_SHARD_NODES nodes, or all runs more than one all_reduce takes. On error nothing is to be
 * used. */
int iq_shard_plan(uint32_t units, uint32_t ranks, const char *what, struct iq_shard *shard,
                  struct iq_err *err);

#endif
