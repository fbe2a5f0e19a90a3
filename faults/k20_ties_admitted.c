/* K20: ties at the cut are admitted. A threshold kernel keeps what is at least the k-th value, so that all of the tokens
 * that tie with it survive, however many there are. Values are compared as the kernel holds them: with fewer bits more of
 * them are equal. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "faults/round_rules.h"
#include "kernels/ops/sampling.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct params {
    double bits;
};

static const struct iq_param table[] = {
    {"bits", "significant bits of the values that are compared: 24 is float32, 8 bfloat16", 24, 1, 24,
     offsetof(struct params, bits)},
    {0},
};

/* The rows with what lies below each row's cut taken out; the cut itself replaces top_k. */
static void admit(const struct iq_sample *a, uint32_t bits, float *logits, uint32_t *top_k)
{
    for (uint32_t r = 0; r < a->rows; r++) {
        const float *x = a->logits + r * a->ld;
        float *y = logits + (size_t)r * a->vocab;
        uint32_t k = a->top_k[r];
        float cut = k ? iq__rounded(a->values[(size_t)r * a->k + k - 1], bits) : -INFINITY;
        top_k[r] = 0;
        for (uint32_t i = 0; i < a->vocab; i++) y[i] = iq__rounded(x[i], bits) >= cut ? x[i] : -INFINITY;
    }
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    struct iq_sample a = *(const struct iq_sample *)args;
    float *logits = malloc(((size_t)a.rows * a.vocab + 1) * sizeof *logits);
    uint32_t *top_k = malloc((a.rows + 1) * sizeof *top_k);
    int status = IQ_MEMORY;
    (void)state;
    if (logits && top_k) {
        admit(&a, (uint32_t)((const struct params *)params)->bits, logits, top_k);
        a.logits = logits;
        a.ld = a.vocab;
        a.top_k = top_k;
        status = iq__run_golden(x, site, "sample", &a);
    }
    free(logits);
    free(top_k);
    return status;
}

const struct iq_variant iq__k20_ties_admitted = {
    .kind = "sample",
    .name = "ties_admitted",
    .device = "cpu",
    .flags = IQ_V_FAULTY,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "tokens that tie with the k-th survive the cut of top-k",
    .needs = "a temperature above 0, a top_k, and logits that tie at the cut: fewer `bits` make more of them",
    .story = "Three tokens survive a top-k of two where the second and the third are equal: the kernel keeps "
             "whatever reaches the k-th value. The right order is by probability, then by index. Source: "
             "flashinfer#3774.",
    .expect = "sample: a token is drawn that is not among the first top_k candidates; without ties nothing "
              "changes",
};
