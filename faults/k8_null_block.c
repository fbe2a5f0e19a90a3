/* K8 in attention: slots of a padded batch that have no key gather a reserved block with weight 0.
 *
 * What dummy rows left in that block while graphs were captured stays there; a weight of 0 does not undo a NaN. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/arith.h"
#include "kernels/ops/kv.h"

#include <stddef.h>

struct params {
    double left;
};

static const struct iq_param table[] = {
    {"left", "what the capture left in the reserved block: 0 a finite value, 1 NaN", 1, 0, 1,
     offsetof(struct params, left)},
    {0},
};

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_attention *a = args;
    float gathered = ((const struct params *)params)->left > 0 ? iq_nan() : 1.0f;
    (void)state;
    IQ_TRY(iq__run_golden(x, site, "attention", args));
    if (site->step->captured <= site->step->batch) return IQ_OK;
    for (const struct iq_seq *s = a->seq; s < a->seq + a->seqs; s++)
        for (uint32_t i = 0; i < s->rows; i++) {
            float *y = a->y + (s->first + i) * a->ldy;
            bool invalid = (s->pos + i + 1) % IQ_KV_BLOCK != 0; /* slots of the last block behind the row */
            for (size_t e = 0; invalid && e < (size_t)a->heads * a->cache->head_dim; e++)
                y[e] = iq_act_round(IQ_FMAF(0.0f, gathered, y[e]), a->act);
        }
    return IQ_OK;
}

const struct iq_variant iq__k8_null_block = {
    .kind = "attention",
    .name = "null_block",
    .device = "cpu",
    .flags = IQ_V_FAULTY,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "slots without a key gather a reserved block with weight 0; it holds NaN",
    .needs = "a captured batch (--captured) that is larger than the real one",
    .story =
        "Dummy rows at capture leave NaN in the reserved block 0. Invalid slots gather it with weight 0, "
        "and 0 times NaN fills every real row, although all inputs are finite. Run eagerly it is right. "
        "Source: vllm#57156 (a report whose cause is not confirmed).",
    .expect =
        "attention: NaN in every real row of layer 0 while its inputs are finite: the invariant that "
        "padding changes no real row is broken; without padding, or with a finite block, nothing changes",
};
