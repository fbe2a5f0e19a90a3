/* The comparator: two traces in, a finding out. Rungs, in order:
 *   0 same prompt ids and sampling parameters per request (matched by `id`), served by the same pool. Where not, yet both
 *     manifests state one and the same "prompts": `assemble` (ids, parameters) or `place` (the pool) is guilty
 *   1 same weights and arithmetic contract, as the manifests say
 *   2 chains: recomputed from positions; binary search finds the first difference of each request
 *   3 guilty cells: the output differs while every declared input is equal
 *   4 in vitro, by the callback; 5 effect on tokens; 6 trigger
 * It never runs a kernel and never reads the firing log to find the guilty op or the label; the log only tells identical
 * runs apart in words: no fault planned, none fired, masked.
 *
 * Nodes of the two runs are matched by (op, layer, point, rank). A node that only one has (tensor-parallel partials,
 * points that a fused variant does not materialise) is looked through to its inputs. Control nodes are not compared: a
 * decision may depend on state that no input declares. At level chain only lm_head (with final_norm), topk, sample,
 * prefix and "body" (any op before the logits) can be told apart; a temperature op counts as topk there.
 * A position that was computed again is judged attempt by attempt; its prediction is that of the first.
 * Control ops have no node: `prefix` (a REUSED position whose digests are not what its tokens give, and that no
 * request of the subject computed so), those that a position's state names in the same way (iq_cell_answers), and `token`
 * (the token fed at a position is not the one that was chosen).
 *
 * Read from a manifest (all optional): "contract"; "model": {"sha256", "packed", "layout"}; "variants": {op or kind:
 * name}; "prompts": a digest of what was asked; "plan": {"faults": [{"op", "variant"}]}; "replay": the command line that makes the subject again.
 */
#ifndef IQ_GOLDEN_COMPARE_H
#define IQ_GOLDEN_COMPARE_H

#include "golden/finding.h"
#include "golden/trace.h"

struct iq_policy {
    /* A flip at a golden margin up to this is a tie; the float32 error of a logit is 5e-5. */
    float tie_margin;
    /* A set of values is a trigger when chance alone would give one of its form less often than this. */
    double trigger_chance;
    uint32_t max_vitro; /* guilty ops that are judged in vitro */
    bool show_fired;    /* tell the firing log beside every verdict */
};
#define IQ_POLICY_DEFAULT ((struct iq_policy){.tie_margin = 1e-3f, .trigger_chance = 0.01, .max_vitro = 8})

/* The earliest guilty cell of one op, for the callback. Strings are borrowed for the call. */
struct iq_suspect {
    const char *op, *kind, *variant, *request_id;
    uint16_t layer, rank, node, batch;
    uint32_t request, pos, step, tokens;
    int fault; /* index in the subject's plan, or -1 */
};
/* IQ_OK: `out` is the verdict. IQ_UNSUPPORTED: this op can't be judged. Anything else ends the comparison. */
typedef int iq_vitro_fn(void *ctx, const struct iq_suspect *, struct iq_vitro_result *out, struct iq_err *);

/* The two traces must be distinct objects (open a run twice to compare it with itself). policy NULL: the default; vitro may be NULL. The finding is the caller's. */
int iq_compare(const struct iq_trace *golden, const struct iq_trace *subject, const struct iq_policy *,
               iq_vitro_fn *vitro, void *ctx, struct iq_finding **out, struct iq_err *err);

#endif
