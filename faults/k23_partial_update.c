/* K23: an update of the weights reaches a part of them. The rest is what was there before: the old model's after an update,
 * zeros after a sleep whose wake-up skipped them. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/ops/weights.h"

#include <stddef.h>
#include <string.h>

struct params {
    double share;
};

static const struct iq_param table[] = {
    {"share", "share of a part's pieces (a matrix, a vector) that are updated, the first ones", 0.5, 0, 1,
     offsetof(struct params, share)},
    {0},
};

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_weights *a = args;
    uint32_t first = (uint32_t)(((const struct params *)params)->share * a->pieces);
    (void)state;
    IQ_TRY(iq__run_golden(x, site, "weights", args));
    for (uint32_t i = first; i < a->pieces && a->action == IQ_WEIGHTS_LOAD; i++) {
        const struct iq_weights_piece *p = &a->piece[i];
        if (p->before)
            memcpy(p->to, p->before, p->bytes);
        else
            memset(p->to, 0, p->bytes);
    }
    return IQ_OK;
}

const struct iq_variant iq__k23_partial_update = {
    .kind = "weights",
    .name = "partial_update",
    .device = "any",
    .flags = IQ_V_FAULTY,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "an update of the weights, or a wake-up after a sleep, leaves pieces as they were",
    .needs = "a run that changes its weights: --update-weights or --sleep-weights",
    .story =
        "After an update of the weights in place, or a sleep and a wake-up, some tensors in memory are not "
        "the file's: a name that was not matched, a transfer that broke off, a buffer that was not restored. "
        "All later answers drift, and the file's hash is right. Sources: vllm#54235, vllm#52689.",
    .expect = "weights: the digest of the weights in memory is not that of the file's",
};
