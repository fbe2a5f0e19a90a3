/* K1: top-k by radix selection over a coarse bin, whose refinement buffer overflows.
 *
 * Such kernels count the values by the leading bits of their order-preserving integer, find the bin in
 * which the k-th falls, take all of the better bins, and collect that bin's members in a buffer of fixed
 * size to be sorted. Where logits are narrow one bin holds tens of thousands, the buffer fills, and what
 * arrives later is dropped, the maximum too if it is among them. The result is well formed: ids in range,
 * no id twice, values that belong to their ids. */
#include "faults/families.h"
#include "faults/topk_rows.h"

#include <stddef.h>

struct params {
    double bits, capacity;
};

static const struct iq_param table[] = {
    {"bits", "leading bits of the value that choose its bin", 8, 1, 16, offsetof(struct params, bits)},
    {"capacity", "entries of the refinement buffer", 4096, 1, 1 << 24, offsetof(struct params, capacity)},
    {0},
};

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_topk *a = args;
    const struct params *p = params;
    (void)site, (void)state;
    if (!a->k) return IQ_OK;
    /* These kernels are built with a buffer of at least k. */
    struct iq__k1_rule rule = {.bits = (uint32_t)p->bits,
                               .cap = p->capacity > a->k ? (uint32_t)p->capacity : a->k};
    return IQ__TOPK_RUN(k1, x, a, &rule, a->k);
}

const struct iq_variant iq__k1_coarse_bin = {
    .kind = "topk",
    .name = "coarse_bin",
    .device = "any",
    .flags = IQ_V_FAULTY | IQ_V_ROW_LOCAL,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "a radix selection by coarse bins whose candidate buffer overflows",
    .needs = "logits so narrow that one bin holds more than `capacity` of them: fewer `bits` widen it",
    .story =
        "Radix top-k puts values into bins by their leading bits and collects the bin of the k-th value in a "
        "buffer of fixed size. With narrow logits one bin holds more than fit; later candidates are dropped, "
        "the argmax among them. Sources: vllm#51782, sglang#36807, flashinfer#3529; the observable of "
        "anthropic.com/engineering/a-postmortem-of-three-recent-issues (approximate top-k).",
    .expect = "topk: the selected values are not the largest: the argmax may be missing, ids and values stay "
              "well formed",
};
