#include "kernels/shard.h"

#include "kernels/arith.h"
#include "kernels/ops/reduce.h"

/* The r-th node at depth log2(ranks): bits of r, highest first, turn right where they are set. */
static void node_of_rank(uint32_t units, uint32_t ranks, uint32_t r, struct iq_shard *s)
{
    s->unit = 0, s->units = units;
    for (uint32_t bit = ranks / 2; bit; bit /= 2) {
        uint32_t left = iq_tree_left(s->units);
        s->unit += r & bit ? left : 0;
        s->units = r & bit ? s->units - left : left;
    }
}

/* The largest tree node that starts at `from` and ends no later than `to`. */
static uint32_t largest_node(uint32_t units, uint32_t from, uint32_t to)
{
    uint32_t unit = 0;
    while (unit != from || unit + units > to) {
        uint32_t left = iq_tree_left(units);
        if (from < unit + left) {
            units = left;
        } else {
            unit += left;
            units -= left;
        }
    }
    return units;
}

static int cover(uint32_t units, uint32_t r, const char *what, struct iq_shard *s, struct iq_err *err)
{
    s->nodes = 0;
    for (uint32_t at = s->unit, end = s->unit + s->units; at < end;) {
        if (s->nodes == IQ_SHARD_NODES)
            return iq_fail(
                err, IQ_LIMIT,
                "tensor parallel: rank %u's %u of %u %s are more than %d nodes of the tree; use a power "
                "of two of ranks",
                r, s->units, units, what, IQ_SHARD_NODES);
        struct iq_shard_node *n = &s->node[s->nodes++];
        *n = (struct iq_shard_node){at, largest_node(units, at, end)};
        at += n->units;
    }
    return IQ_OK;
}

int iq_shard_plan(uint32_t units, uint32_t ranks, const char *what, struct iq_shard *shard,
                  struct iq_err *err)
{
    if (ranks == 0 || ranks > IQ_SHARD_RANKS)
        return iq_fail(err, IQ_UNSUPPORTED, "tensor parallel: found %u ranks, expected 1 to %d", ranks,
                       IQ_SHARD_RANKS);
    if (ranks > units)
        return iq_fail(err, IQ_UNSUPPORTED,
                       "tensor parallel: %u ranks are more than the model's %u %s; use at most %u", ranks,
                       units, what, units);
    uint32_t pieces = 0, even = units / ranks, larger = units % ranks;
    for (uint32_t r = 0; r < ranks; r++) {
        struct iq_shard *s = &shard[r];
        if ((ranks & (ranks - 1)) == 0) {
            node_of_rank(units, ranks, r, s);
        } else {
            s->unit = r * even + (r < larger ? r : larger);
            s->units = even + (r < larger);
        }
        IQ_TRY(cover(units, r, what, s, err));
        pieces += s->nodes;
    }
    if (pieces > IQ_REDUCE_PIECES)
        return iq_fail(err, IQ_LIMIT,
                       "tensor parallel: %u %s over %u ranks need %u partial sums, at most %d are taken",
                       units, what, ranks, pieces, IQ_REDUCE_PIECES);
    return IQ_OK;
}
