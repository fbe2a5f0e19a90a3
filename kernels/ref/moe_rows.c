/* References of all_to_all, grouped_matmul and combine. */
#include "kernels/arith.h"
#include "kernels/exec.h"
#include "kernels/matrix.h"
#include "kernels/op.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/moe.h"
#include "kernels/tables.h"

static int all_to_all(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                      void *state)
{
    const struct iq_all_to_all *a = args;
    (void)x, (void)site, (void)params, (void)state;
    if (a->ranks == 0 || a->experts % a->ranks) return IQ_SHAPE;
    for (uint32_t r = 0; r < a->rows; r++)
        for (uint32_t s = 0; s < a->k; s++) {
            size_t at = (size_t)r * a->k + s;
            const float *from = a->back ? a->x + at * a->n : a->x + r * a->ldx;
            bool dropped = a->owner[at] == IQ_SLOT_DROPPED;
            for (uint32_t i = 0; i < a->n; i++) a->y[at * a->n + i] = dropped ? 0.0f : from[i];
        }
    return IQ_OK;
}

/* A slot is a row of a product with its expert's weights. */
static int product(struct iq_exec *x, const struct iq_site *site, const struct iq_grouped_matmul *a,
                   uint32_t e, uint32_t at)
{
    struct iq_matmul m = {.rows = 1, .parts = a->parts, .act = a->act};
    for (uint32_t p = 0; p < a->parts; p++) {
        const struct iq_matrix *w = &a->part[p].w[e];
        m.x = a->x + (size_t)at * w->k;
        m.part[p] = (struct iq_matmul_part){.w = w, .y = a->part[p].y + (size_t)at * w->n};
    }
    return iq__matmul_reference.run(x, site, &m, NULL, NULL);
}

static int grouped_matmul(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                          void *state)
{
    const struct iq_grouped_matmul *a = args;
    (void)params, (void)state;
    for (uint32_t e = 0; e < a->experts; e++)
        for (uint32_t i = a->first[a->expert0 + e]; i < a->first[a->expert0 + e + 1]; i++)
            IQ_TRY(product(x, site, a, e, a->list[i]));
    for (size_t at = 0; a->expert0 == 0 && at < (size_t)a->rows * a->slots; at++)
        for (uint32_t p = 0; a->owner[at] == IQ_SLOT_DROPPED && p < a->parts; p++)
            for (uint32_t i = 0; i < a->part[p].w->n; i++) a->part[p].y[at * a->part[p].w->n + i] = 0.0f;
    return IQ_OK;
}

static int combine(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                   void *state)
{
    const struct iq_combine *a = args;
    (void)x, (void)site, (void)params, (void)state;
    for (uint32_t r = 0; r < a->rows; r++)
        for (uint32_t i = 0; i < a->n; i++) {
            bool any = false;
            float y = 0;
            for (size_t at = (size_t)r * a->k; at < (r + (size_t)1) * a->k; at++) {
                if (a->owner[at] == IQ_SLOT_DROPPED) continue;
                float term = a->x[at * a->n + i];
                y = any ? IQ_FMAF(a->weight[at], term, y) : a->weight[at] * term;
                any = true;
            }
            a->y[r * a->ldy + i] = iq_act_round(y, a->act);
        }
    return IQ_OK;
}

enum { FLAGS = IQ_V_REFERENCE | IQ_V_GOLDEN };

const struct iq_variant iq__all_to_all_reference = {
    .kind = "all_to_all", .name = "reference", .device = "cpu", .flags = FLAGS, .run = all_to_all};
const struct iq_variant iq__grouped_matmul_reference = {
    .kind = "grouped_matmul", .name = "reference", .device = "cpu", .flags = FLAGS, .run = grouped_matmul};
const struct iq_variant iq__combine_reference = {
    .kind = "combine", .name = "reference", .device = "cpu", .flags = FLAGS, .run = combine};
