/* The graph: which ops run in which order for this model, and the nodes that a run records of them.
 *
 * Column-parallel ops (qkv, attention, gate_up) and those of expert-parallel ranks (expert_gate_up, expert_down) write into
 * whole logical rows, whatever ranks made them: their nodes are whole rows for every number of ranks. The partial sums of row-parallel ops (attn_out, down) are nodes of
 * their rank, and comparable only between runs of one size; the reductions behind them are whole again.
 */
#ifndef IQ_ENGINE_GRAPH_H
#define IQ_ENGINE_GRAPH_H

#include "engine/model.h"
#include "kernels/base/cell.h"
#include "kernels/dispatch.h"

/* What a run and its requests ask for: ops that exist only where it is asked. */
struct iq_uses {
    bool mask, adapters, weights;
};

struct iq_graph {
    struct iq_node *node;
    uint32_t nodes;
    /* [op][layer + 1]: node of the op's point 0 as a whole row (rank 0's for partial sums). */
    uint16_t *first;
    uint16_t *chain; /* nodes of the chain, ascending */
    uint32_t chains;
    uint16_t
        *kept; /* nodes whose digests a KV block keeps for those who reuse it: what is digested of a position,
                       without what it predicts */
    uint32_t kepts;
    uint32_t layers;
    enum iq_op_id prev[IQ_OPS], next[IQ_OPS]; /* neighbours in execution order; IQ_OP_NONE at the ends */
};

/* Builds the graph and tells each slot its nodes and which of them are digested at `level`. */
int iq_graph_open(const struct iq_model *, struct iq_uses, enum iq_level level, struct iq_slots *,
                  struct iq_graph *, struct iq_err *);
void iq_graph_close(struct iq_graph *);
/* Whether a run of a model like this has the op. */
bool iq_graph_has(const struct iq_model_config *, struct iq_uses, enum iq_op_id op);
/* Each op's neighbours in execution order, mask and temper left out; IQ_OP_NONE at the ends. */
void iq_graph_neighbours(const struct iq_model_config *, struct iq_uses, enum iq_op_id prev[IQ_OPS],
                         enum iq_op_id next[IQ_OPS]);
/* Ranks that make the rows of an op together, each in its slot. */
uint32_t iq_graph_ranks(const struct iq_model *, enum iq_op_id op);
uint16_t iq_graph_node(const struct iq_graph *, enum iq_op_id op, uint32_t layer);

#endif
