/* K20: equal logits in no fixed order. The sort behind top-k is not stable, so that tied candidates come in another order
 * in every other step; greedy decoding then takes another of the best. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "faults/round_rules.h"
#include "kernels/ops/sampling.h"

#include <stddef.h>

struct params {
    double bits;
};

static const struct iq_param table[] = {
    {"bits", "significant bits of the values that are compared: 24 is float32, 8 bfloat16", 24, 1, 24,
     offsetof(struct params, bits)},
    {0},
};

static void swap(const struct iq_topk *a, size_t i, size_t j)
{
    uint32_t id = a->ids[i];
    float value = a->values[i];
    a->ids[i] = a->ids[j];
    a->values[i] = a->values[j];
    a->ids[j] = id;
    a->values[j] = value;
}

static void reverse_ties(const struct iq_topk *a, uint32_t r, uint32_t bits)
{
    size_t base = (size_t)r * a->k;
    for (size_t i = 0, n; i < a->k; i += n) {
        float v = iq__rounded(a->values[base + i], bits);
        for (n = 1; i + n < a->k && iq__rounded(a->values[base + i + n], bits) == v;) n++;
        for (size_t j = 0; j < n / 2; j++) swap(a, base + i + j, base + i + n - 1 - j);
    }
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_topk *a = args;
    (void)state;
    IQ_TRY(iq__run_golden(x, site, "topk", args));
    for (uint32_t r = 0; r < a->rows && site->step->step % 2 == 0; r++)
        reverse_ties(a, r, (uint32_t)((const struct params *)params)->bits);
    return IQ_OK;
}

const struct iq_variant iq__k20_unstable_ties = {
    .kind = "topk",
    .name = "unstable_ties",
    .device = "cpu",
    .flags = IQ_V_FAULTY,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "tied candidates stand in another order in every other step",
    .needs = "logits that tie: fewer `bits` make more of them",
    .story =
        "The sort behind top-k promises no order among equal keys, and the order changes from one launch "
        "to the next: where the best two logits tie, a greedy answer is one of two. Serving engines in "
        "bfloat16, whose logits tie often, show it as answers that do not repeat. The order must be by "
        "value, then by index (flashinfer#3774).",
    .expect = "topk: tied candidates are not in the order of their ids; without ties nothing changes",
};
