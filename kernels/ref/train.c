/* References of seed, product and adamw: each as ops/train.h says it. The trainer has forms of the last two for each
 * instruction set. */
#include "kernels/ops/train.h"
#include "kernels/arith.h"
#include "kernels/sum_plan.h"
#include "kernels/tables.h"

/* ---- seed ---- */

static int seed(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                void *state)
{
    const struct iq_seed *a = args;
    (void)x, (void)site, (void)params, (void)state;
    *a->seed = a->given;
    return IQ_OK;
}

/* ---- product ---- */

struct terms { /* of one sum: a[k * a_k] * b[k * b_k] */
    const float *a, *b;
    size_t a_k, b_k;
};

static float chain(const struct terms *t, uint32_t lo, uint32_t hi)
{
    float s = 0;
    for (size_t k = lo; k < hi; k++) s = IQ_FMAF(t->a[k * t->a_k], t->b[k * t->b_k], s);
    return s;
}

/* The tree over the n chunks of [lo, hi). Depth: log2(n). */
static float sum_chunks(const struct terms *t, uint32_t lo, uint32_t hi, uint32_t n)
{
    if (n <= 1) return chain(t, lo, hi);
    uint32_t left = iq_tree_left(n), middle = lo + left * IQ_CHUNK;
    return sum_chunks(t, lo, middle, left) + sum_chunks(t, middle, hi, n - left);
}

/* The tree over n units, the first of which is u and begins at *k, which moves on. Depth: log2(n). */
static float sum_units(const struct iq_train_product *p, const struct terms *t, uint32_t u, uint32_t n,
                       uint32_t *k)
{
    if (n > 1) {
        uint32_t left = iq_tree_left(n);
        float sum = sum_units(p, t, u, left, k);
        return sum + sum_units(p, t, u + left, n - left, k);
    }
    uint32_t lo = *k, rest = p->k - lo, width = p->units ? p->units[u] : p->unit < rest ? p->unit : rest;
    *k += width;
    return sum_chunks(t, lo, *k, iq__ceil_div(width, IQ_CHUNK));
}

static int product(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                   void *state)
{
    const struct iq_train_product *p = args;
    const uint32_t units = p->units ? p->n_units : iq__ceil_div(p->k, p->unit);
    (void)x, (void)site, (void)params, (void)state;
    for (size_t i = 0; i < p->m; i++)
        for (size_t j = 0; j < p->n; j++) {
            struct terms t = {p->a + i * p->a_i, p->b + j * p->b_j, p->a_k, p->b_k};
            uint32_t k = 0;
            p->y[i * p->ldy + j] = iq_canonical(sum_units(p, &t, 0, units, &k));
        }
    return IQ_OK;
}

/* ---- adamw ---- */

static int adamw(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                 void *state)
{
    const struct iq_train_adamw *a = args;
    (void)x, (void)site, (void)params, (void)state;
    for (size_t i = 0; i < a->n; i++) {
        float slope = a->g[i] * a->clip, kept = IQ_FMAF(-(a->lr * a->decay), a->w0[i], a->w0[i]);
        a->m[i] = IQ_FMAF(a->beta1, a->m0[i], (1.0f - a->beta1) * slope);
        a->v[i] = IQ_FMAF(a->beta2, a->v0[i], (1.0f - a->beta2) * slope * slope);
        a->w[i] = IQ_FMAF(-a->lr, (a->m[i] * a->rate1) / (IQ_SQRTF(a->v[i] * a->rate2) + a->eps), kept);
    }
    return IQ_OK;
}

#define REFERENCE(of, runs)                                                                                  \
    {                                                                                                        \
        .kind = of, .name = "reference", .device = "cpu", .flags = IQ_V_REFERENCE | IQ_V_GOLDEN, .run = runs \
    }
static const struct iq_variant seed_reference = REFERENCE("seed", seed);
const struct iq_variant iq_product_reference = REFERENCE("product", product);
const struct iq_variant iq_adamw_reference = REFERENCE("adamw", adamw);

const struct iq_variant *const iq__variants_train[] = {&seed_reference, &iq_product_reference,
                                                       &iq_adamw_reference, NULL};
