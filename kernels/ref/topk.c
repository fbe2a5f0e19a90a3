/* Reference of topk: each logit is put in its place among the best so far. */
#include "kernels/arith.h"
#include "kernels/cpu/topk_order.h"
#include "kernels/exec.h"
#include "kernels/op.h"
#include "kernels/ops/sampling.h"

static void topk_row(const struct iq_topk *a, const float *x, uint32_t *ids, float *values)
{
    uint32_t found = 0;
    for (uint32_t id = 0; id < a->vocab; id++) {
        uint64_t entry = iq__topk_entry(x[id], id);
        if (found == a->k && entry > iq__topk_entry(values[found - 1], ids[found - 1])) continue;
        uint32_t at = found < a->k ? found++ : found - 1; /* the last one falls out */
        for (; at > 0 && entry < iq__topk_entry(values[at - 1], ids[at - 1]); at--) {
            ids[at] = ids[at - 1];
            values[at] = values[at - 1];
        }
        ids[at] = id;
        values[at] = iq_canonical(x[id]);
    }
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_topk *a = args;
    (void)x, (void)site, (void)params, (void)state;
    if (a->k > a->vocab) return IQ_SHAPE;
    if (a->k == 0) return IQ_OK;
    for (uint32_t r = 0; r < a->rows; r++)
        topk_row(a, a->logits + r * a->ld, a->ids + (size_t)r * a->k, a->values + (size_t)r * a->k);
    return IQ_OK;
}

const struct iq_variant iq__topk_reference = {
    .kind = "topk", .name = "reference", .device = "cpu", .flags = IQ_V_REFERENCE | IQ_V_GOLDEN, .run = run};
