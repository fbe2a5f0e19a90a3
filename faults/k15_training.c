/* K15 in training: another seed of the draws, another order of the optimiser's arithmetic. Benign controls: the model is as
 * good. */
#include "faults/families.h"
#include "kernels/arith.h"
#include "kernels/ops/train.h"

#include <stddef.h>

/* ---- unfused ---- */

static int unfused(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                   void *state)
{
    const struct iq_train_adamw *a = args;
    (void)x, (void)site, (void)params, (void)state;
    for (size_t i = 0; i < a->n; i++) {
        float g = a->g[i] * a->clip, w = a->w0[i];
        a->m[i] = a->beta1 * a->m0[i] + (1.0f - a->beta1) * g;
        a->v[i] = a->beta2 * a->v0[i] + (1.0f - a->beta2) * (g * g);
        w = w - a->lr * a->decay * w;
        a->w[i] = w - a->lr * a->rate1 * a->m[i] / (IQ_SQRTF(a->v[i] * a->rate2) + a->eps);
    }
    return IQ_OK;
}

const struct iq_variant iq__k15_unfused = {
    .kind = "adamw",
    .name = "unfused",
    .device = "cpu",
    .flags = IQ_V_BENIGN,
    .run = unfused,
    .what = "the optimiser's products and sums are rounded one by one, in another order: a benign control",
    .story = "An optimiser written as single tensor operations, and one fused into a kernel, group and round "
             "the same formula differently; frameworks choose between them by version and by size. Not a "
             "fault.",
    .expect = "adamw: weights and moments differ in their last bits; the model is as good",
};

/* ---- reseed ---- */

struct params {
    double by;
};

static const struct iq_param table[] = {
    {"by", "added to the run's seed", 1, 1, 1e9, offsetof(struct params, by)},
    {0},
};

static int reseed(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                  void *state)
{
    const struct iq_seed *a = args;
    (void)x, (void)site, (void)state;
    *a->seed = a->given + (uint64_t)((const struct params *)params)->by;
    return IQ_OK;
}

const struct iq_variant iq__k15_reseed = {
    .kind = "seed",
    .name = "reseed",
    .device = "any",
    .flags = IQ_V_BENIGN,
    .run = reseed,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "first weights, data or dropout are drawn by another seed: a benign control",
    .story = "First weights, the order of the data and dropout each have a stream of random numbers; a run "
             "that does not fix every one of them, or restarts one where it was, is another run of the same "
             "recipe. Not a fault.",
    .expect = "seed: other draws, so other weights; the model is as good",
};
