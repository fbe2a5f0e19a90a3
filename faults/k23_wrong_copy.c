/* K23: a tensor gets the bytes of another of its size: the shard of another rank, another expert's, keys for values. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/ops/weights.h"

#include <stddef.h>
#include <string.h>

struct params {
    double first;
};

static const struct iq_param table[] = {
    {"first", "the piece from which on one is looked for that has a like", 0, 0, 1 << 20,
     offsetof(struct params, first)},
    {0},
};

/* The next piece of the same size with other contents; i itself where there is none. */
static uint32_t like(const struct iq_weights *a, uint32_t i)
{
    for (uint32_t by = 1; by < a->pieces; by++) {
        const struct iq_weights_piece *p = &a->piece[(i + by) % a->pieces];
        if (p->bytes == a->piece[i].bytes && memcmp(p->from, a->piece[i].from, p->bytes))
            return (i + by) % a->pieces;
    }
    return i;
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_weights *a = args;
    uint32_t i = (uint32_t)((const struct params *)params)->first;
    (void)state;
    IQ_TRY(iq__run_golden(x, site, "weights", args));
    if (a->action != IQ_WEIGHTS_LOAD) return IQ_OK;
    while (i < a->pieces && like(a, i) == i) i++;
    if (i < a->pieces) memcpy(a->piece[i].to, a->piece[like(a, i)].from, a->piece[i].bytes);
    return IQ_OK;
}

const struct iq_variant iq__k23_wrong_copy = {
    .kind = "weights",
    .name = "wrong_copy",
    .device = "any",
    .flags = IQ_V_FAULTY,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "a tensor is loaded with another's bytes: another shard's, another expert's",
    .needs = "a run that changes its weights: --update-weights or --sleep-weights",
    .story =
        "Loaders that fuse, shard and rename tensors put one where another of the same size belongs: the "
        "shard of the neighbouring rank, the next expert, the gate for the up projection. Every size is "
        "right and nothing complains. Sources: vllm#54235 and the loaders' own bug threads.",
    .expect = "weights: the digest of the weights in memory is not that of the file's",
};
