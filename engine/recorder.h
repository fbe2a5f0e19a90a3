/* What becomes of a step's digests: cells to the sink, positions to their seats and the sink, chains at the end.
 *
 * A position is recorded when it is first computed or attached. Computed again after a preemption it must give the same
 * bits: where it does not, the digest of both enters the chain and the position is recorded anew. So does a position whose
 * K and V were found to be others than were written, in a block that is spoilt (kv.h): its state names the decision.
 * Rows of rejected drafts leave cells, marked so, and no position; the cells of the token that comes there lie over them.
 * A position that says so itself is one that rollback should have taken back and did not.
 */
#ifndef IQ_ENGINE_RECORDER_H
#define IQ_ENGINE_RECORDER_H

#include "engine/forward.h"
#include "engine/schedule.h"

struct iq_recorder {
    const struct iq_graph *graph;
    struct iq_kv *kv;
    const struct iq_sink *sink; /* or NULL */
    enum iq_level level;
    bool untraced;
    struct iq_tap tap;
    struct iq_pool *pool;
    const struct iq_digest *weights; /* (1 + layers) of the weights in memory, or NULL */
    struct iq_digest *scratch;       /* (threads, chains) */
    struct iq_position *made;        /* (rows of a step) */
    uint16_t *chain_kv;              /* (2 * layers) nodes of K and V, in the graph's order */
    uint32_t *predict;               /* (rows of a step) 1 + index among the predicting rows, or 0 */
};

int iq_recorder_open(struct iq_recorder *, uint32_t max_rows,
                     struct iq_err *); /* graph, kv, pool, level are set */
void iq_recorder_close(struct iq_recorder *);
/* A prefix hit: positions [0, cached) of the seat, K and V digested again from the blocks' bytes. */
int iq_recorder_attached(struct iq_recorder *, struct iq_seat *, const struct iq_step *, struct iq_err *);
/* The rows of a step; `forward` holds the head's results. Called before tokens are appended to seats, when
 * the rows that stay are known. */
int iq_recorder_step(struct iq_recorder *, const struct iq_forward *, const struct iq_batch *,
                     struct iq_seat *const *of_row, struct iq_err *);
/* After a step: what the running seats hold in spoilt blocks is digested again from its bytes. */
int iq_recorder_look(struct iq_recorder *, struct iq_seat *const *running, uint32_t n, const struct iq_step *,
                     struct iq_err *);
/* What row r of a step is recorded as: `predicts` is 1 + its index among the rows that predict, or 0. cells: (nodes) its
 * digests, those of the prediction are filled in; scratch: (chains). */
struct iq_position iq_recorder_position(const struct iq_recorder *, const struct iq_forward *,
                                        const struct iq_batch *, const struct iq_step *, uint32_t r,
                                        uint32_t predicts, struct iq_digest *cells,
                                        struct iq_digest *scratch);
/* The chain over all positions of a finished request. */
struct iq_digest iq_recorder_chain(const struct iq_seat *);

#endif
