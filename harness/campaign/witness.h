/* What sees a trial: golden's run kept whole (tokens, positions, the digest of every cell), and a subject held against it as
 * it runs. The rules are the comparator's (golden/compare.h), over one pass: the guilty op is the first cell, in the
 * subject's order, that differs at a position whose digest differs; all that came before is equal, its inputs too. The
 * firing log has no part in it.
 */
#ifndef IQ_HARNESS_WITNESS_H
#define IQ_HARNESS_WITNESS_H

#include "golden/campaign.h"
#include "kernels/base/cell.h"

struct iq_golden_request {
    struct iq_position *position; /* (positions) */
    struct iq_digest *cell;       /* (positions, nodes); zero: none */
    size_t positions, cap, cap_cells;
    uint32_t *ids, n_ids, n_prompt; /* once it has ended */
};

struct iq_golden {
    const struct iq_node *node; /* borrowed from the engine */
    uint32_t nodes, requests;
    struct iq_golden_request *request;
};

int iq_golden_open(struct iq_golden *, const struct iq_node *, uint32_t nodes, uint32_t requests,
                   struct iq_err *);
void iq_golden_free(struct iq_golden *);
/* Keeps what it is given. */
struct iq_sink iq_golden_sink(struct iq_golden *);

struct iq_witness {
    const struct iq_golden *golden;
    struct {
        bool differs, parted, changed; /* a position differs; tokens went other ways; it answers otherwise */
        uint32_t positions;
        uint32_t next; /* what the position before predicted */
        uint32_t tokens_changed;
    } * request;           /* (golden->requests) */
    uint32_t row_node;     /* of the position that is being given: its first cell that differs */
    uint64_t first;        /* step << 16 | node of the guilty cell; UINT64_MAX: none */
    uint32_t differing;    /* requests that differ so far */
    struct iq_digest bits; /* over all positions that are not golden's, in the subject's order */
    uint64_t fired, rows, rows_changed;
    uint64_t fired_faults[4]; /* bit per fault (of the first 256) that fired */
    uint32_t tie_flips, decisive_flips, changed, nans;
    uint32_t first_request, first_pos, first_seen; /* of the first position that differs; its step */
    struct iq_trial_row row;                       /* guilty fields are filled in as they are seen */
    uint32_t guilty_rows, guilty_batch, guilty_request, guilty_pos; /* for in vitro */
};

int iq_witness_open(struct iq_witness *, const struct iq_golden *, struct iq_err *);
void iq_witness_free(struct iq_witness *);
struct iq_sink iq_witness_sink(struct iq_witness *);
/* One position whose cells were looked at: `node` is its first cell that differs, UINT32_MAX: none. */
void iq_witness_position(struct iq_witness *, const struct iq_position *, uint32_t node);
void iq_witness_fired(struct iq_witness *, const struct iq_firing *);
/* A request has ended with these ids. */
void iq_witness_ended(struct iq_witness *, uint32_t request, const uint32_t *ids, uint32_t n_ids);
/* Everything but id, index, cell, label and numerics. */
void iq_witness_row(const struct iq_witness *, struct iq_trial_row *out);

#endif
