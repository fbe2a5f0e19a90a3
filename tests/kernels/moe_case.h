/* Calls of the mixture-of-experts ops for the tests of their variants, here and on a device. All values come from a seed. */
#ifndef IQ_TESTS_MOE_CASE_H
#define IQ_TESTS_MOE_CASE_H

#include "kernels/moe_lists.h"
#include "kernels/op.h"
#include "tests/kernels/matmul_case.h"

/* Logits: ordinary, many ties, NaN and infinities and both zeros among them, all equal, a wide range. */
enum { MOE_MOODS = 5 };

static inline float moe_logit(struct random *r, uint32_t mood)
{
    static const uint32_t special[] = {0x7fc00001, 0xffc00000, 0x7f800000,
                                       0xff800000, 0x80000000, 0x00000000};
    switch (mood) {
    case 0:
        return 8 * unit(r);
    case 1:
        return (float)below(r, 4);
    case 2:
        return below(r, 3) ? 4 * unit(r) : iq_bits_f32(special[below(r, 6)]);
    case 3:
        return 2.5f;
    default:
        return 300 * unit(r);
    }
}

static inline float *moe_floats(struct random *r, size_t n, float (*of)(struct random *, uint32_t),
                                uint32_t mood)
{
    float *x = malloc((n + 1) * sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = of(r, mood);
    return x;
}

static inline float moe_value(struct random *r, uint32_t mood) { return value(r, mood != 0); }

/* A dispatch that owns its arrays: each row's slots have different experts by ascending id. */
static inline struct iq_moe_dispatch moe_dispatch_open(uint32_t rows, uint32_t experts, uint32_t k)
{
    size_t slots = (size_t)rows * k;
    struct iq_moe_dispatch d = {.rows = rows, .experts = experts, .k = k};
    d.expert = malloc((slots + 1) * sizeof(uint32_t));
    d.owner = malloc((slots + 1) * sizeof(uint32_t));
    d.list = malloc((slots + 1) * sizeof(uint32_t));
    d.first = malloc((experts + (size_t)1) * sizeof(uint32_t));
    return d;
}

static inline void moe_dispatch_close(struct iq_moe_dispatch *d)
{
    free((void *)d->expert), free(d->owner), free(d->list), free(d->first);
}

/* skew: rows like the first experts best; drop: one slot in so many is served by nobody, 0: all are. */
static inline struct iq_moe_dispatch moe_dispatched(struct random *r, uint32_t rows, uint32_t experts,
                                                    uint32_t k, uint32_t skew, uint32_t drop)
{
    struct iq_moe_dispatch d = moe_dispatch_open(rows, experts, k);
    uint32_t *expert = (uint32_t *)d.expert;
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t e = 0, s = 0; s < k; e++) /* s of k are chosen, e of experts were asked */
            if (below(r, experts - e) < k - s || skew) expert[row * k + s++] = e;
    for (uint32_t i = 0; i < rows * k; i++)
        d.owner[i] = drop && !below(r, drop) ? IQ_SLOT_DROPPED : expert[i];
    iq_moe_lists(&d);
    return d;
}

/* ---- grouped products ---- */

/* A layer's experts: parts of packed matrices that are alike. */
struct moe_weights {
    uint32_t experts, parts;
    struct iq_matrix *w[IQ_GROUPED_PARTS];
};

static inline struct moe_weights moe_weights_open(struct random *r, enum iq_format f, uint32_t experts,
                                                  uint32_t parts, uint32_t n, uint32_t k, uint32_t sum_unit,
                                                  int odd)
{
    struct moe_weights m = {experts, parts, {0}};
    for (uint32_t p = 0; p < parts; p++) {
        m.w[p] = malloc(experts * sizeof *m.w[p]);
        for (uint32_t e = 0; e < experts; e++) {
            uint8_t *raw = random_rows(r, f, n, k, odd);
            m.w[p][e] = packed(f, n, k, sum_unit, raw);
            free(raw);
        }
    }
    return m;
}

static inline void moe_weights_close(struct moe_weights *m)
{
    for (uint32_t p = 0; p < m->parts; p++) {
        for (uint32_t e = 0; e < m->experts; e++) free((void *)m->w[p][e].data);
        free(m->w[p]);
    }
}

/* Rank `rank` of `ranks`; y: (rows, slots, n) of each part. */
static inline struct iq_grouped_matmul moe_grouped(const struct iq_moe_dispatch *d,
                                                   const struct moe_weights *m, const float *x, uint32_t act,
                                                   float *const *y, uint32_t rank, uint32_t ranks)
{
    struct iq_grouped_matmul g = {.rows = d->rows,
                                  .slots = d->k,
                                  .parts = m->parts,
                                  .act = act,
                                  .expert0 = m->experts / ranks * rank,
                                  .experts = m->experts / ranks,
                                  .x = x,
                                  .owner = d->owner,
                                  .first = d->first,
                                  .list = d->list};
    for (uint32_t p = 0; p < m->parts; p++) g.part[p] = (struct iq_grouped_part){m->w[p] + g.expert0, y[p]};
    return g;
}

#endif
