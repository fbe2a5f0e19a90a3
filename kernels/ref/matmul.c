/* y = x W^T, as the contract says it (DESIGN 3). Written to be read; runs on the calling thread. */
#include "kernels/ops/matmul.h"
#include "kernels/arith.h"
#include "kernels/exec.h"
#include "kernels/matrix.h"
#include "kernels/op.h"
#include "kernels/tables.h"

static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* The tree that halves the list. Depth: log2(n). */
static float tree(const float *s, uint32_t n)
{
    if (n == 1) return s[0];
    uint32_t left = iq_tree_left(n);
    return tree(s, left) + tree(s + left, n - left);
}

static float chain(const float *x, const float *w, uint32_t k)
{
    float s = 0;
    for (uint32_t i = 0; i < k; i++) s = IQ_FMAF(x[i], w[i], s);
    return s;
}

static float unit_sum(const float *x, const float *w, uint32_t k, float *sums)
{
    uint32_t n = 0;
    for (uint32_t k0 = 0; k0 < k; k0 += IQ_CHUNK, n++)
        sums[n] = chain(x + k0, w + k0, smaller(IQ_CHUNK, k - k0));
    return tree(sums, n);
}

/* sums: room for the sums of the units, then for the chunks of one. */
static float sum_over_k(const float *x, const float *w, uint32_t k, uint32_t unit, float *sums)
{
    uint32_t n = 0, units = (uint32_t)(((uint64_t)k + unit - 1) / unit);
    for (uint64_t k0 = 0; k0 < k; k0 += unit, n++)
        sums[n] = unit_sum(x + k0, w + k0, smaller(unit, (uint32_t)(k - k0)), sums + units);
    return tree(sums, n);
}

static int run(struct iq_exec *exec, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    (void)site, (void)params, (void)state;
    const struct iq_matmul *m = args;
    for (uint32_t p = 0; p < m->parts; p++) {
        const struct iq_matmul_part *part = &m->part[p];
        const struct iq_matrix *w = part->w;
        /* A row of weights; the sums need no more than one entry per column, and one per unit. */
        float *row = iq_exec_scratch(exec, 3 * (size_t)w->k * sizeof *row);
        if (!row) return IQ_MEMORY;
        for (uint32_t o = 0; o < w->n; o++) {
            iq_matrix_row(w, o, row);
            for (uint32_t r = 0; r < m->rows; r++) {
                float y = sum_over_k(m->x + r * m->ldx + part->x_at, row, w->k, w->unit, row + w->k);
                if (part->bias) y = y + part->bias[o];
                part->y[r * part->ldy + o] = iq_act_round(y, m->act);
            }
        }
    }
    return IQ_OK;
}

const struct iq_variant iq__matmul_reference = {.kind = "matmul",
                                                .name = "reference",
                                                .device = "cpu",
                                                .flags = IQ_V_REFERENCE | IQ_V_GOLDEN,
                                                .run = run};
