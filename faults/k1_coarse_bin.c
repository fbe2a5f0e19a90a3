/* K1: top-k by radix selection over a coarse bin, whose refinement buffer overflows.
 *
 * Such kernels count the values by the leading bits of their order-preserving integer, find the bin in
 * which the k-th falls, take all of the better bins, and collect that bin's members in a buffer of fixed
 * size to be sorted. Where logits are narrow one bin holds tens of thousands, the buffer fills, and what
 * arrives later is dropped, the maximum too if it is among them. The result is well formed: ids in range,
 * no id twice, values that belong to their ids. */
#include "faults/families.h"
#include "faults/topk_rows.h"
#include "kernels/cpu/topk_order.h"

#include <stddef.h>

struct params {
    double bits, capacity;
};

static const struct iq_param table[] = {
    {"bits", "leading bits of the value that choose its bin", 8, 1, 16, offsetof(struct params, bits)},
    {"capacity", "entries of the refinement buffer", 4096, 1, 1 << 24, offsetof(struct params, capacity)},
    {0},
};

static uint32_t capacity(const struct iq_topk *a, const struct params *p)
{
    /* These kernels are built with a buffer of at least k; beyond the vocabulary it can't fill. */
    uint32_t cap = p->capacity > a->k ? (uint32_t)p->capacity : a->k;
    return cap < a->vocab ? cap : a->vocab;
}

static uint32_t bin_of(float value, uint32_t bits) { return iq__topk_key(value) >> (32 - bits); }

/* The bin that the k-th best falls into. */
static uint32_t threshold_bin(const float *x, uint32_t n, uint32_t k, uint32_t bits, uint32_t *count)
{
    uint32_t bin = 0, seen = 0;
    memset(count, 0, sizeof *count << bits);
    for (uint32_t i = 0; i < n; i++) count[bin_of(x[i], bits)]++;
    while (seen + count[bin] < k) seen += count[bin++];
    return bin;
}

static void row(const struct iq_topk *a, uint32_t r, const void *params, void *scratch)
{
    const struct params *p = params;
    const float *x = a->logits + r * a->ld;
    uint32_t bits = (uint32_t)p->bits, *count = scratch;
    struct iq__best all = {(uint64_t *)(void *)(count + (1u << bits)), 0, a->k};
    uint64_t *buffer = all.entry + a->k;
    uint32_t cap = capacity(a, p), held = 0, bin = threshold_bin(x, a->vocab, a->k, bits, count);
    for (uint32_t i = 0; i < a->vocab; i++) {
        uint32_t b = bin_of(x[i], bits);
        if (b < bin)
            iq__best_push(&all, iq__topk_entry(x[i], i));
        else if (b == bin && held < cap)
            buffer[held++] = iq__topk_entry(x[i], i);
        /* else: a member of the threshold's bin that finds the buffer full is lost; nothing counts it */
    }
    for (uint32_t i = 0; i < held; i++) iq__best_push(&all, buffer[i]);
    iq__best_sort(&all);
    iq__topk_write(a, r, all.entry, all.n);
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_topk *a = args;
    const struct params *p = params;
    (void)site, (void)state;
    if (!a->k) return IQ_OK;
    size_t bytes =
        (sizeof(uint32_t) << (uint32_t)p->bits) + ((size_t)a->k + capacity(a, p)) * sizeof(uint64_t);
    return iq__topk_rows(x, a, p, bytes, row);
}

const struct iq_variant iq__k1_coarse_bin = {
    .kind = "topk",
    .name = "coarse_bin",
    .device = "cpu",
    .flags = IQ_V_FAULTY,
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
