/* y = x W^T, as the contract says it (DESIGN 3). Written to be read; runs on the calling thread. */
#include "kernels/ops/matmul.h"
#include "kernels/arith.h"
#include "kernels/exec.h"
#include "kernels/matrix.h"
#include "kernels/op.h"
#include "kernels/sum_rule.h"
#include "kernels/tables.h"

static int run(struct iq_exec *exec, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    (void)site, (void)params, (void)state;
    const struct iq_matmul *m = args;
    for (uint32_t p = 0; p < m->parts; p++) {
        const struct iq_matmul_part *part = &m->part[p];
        const struct iq_matrix *w = part->w;
        /* A row of weights, and the sums. */
        float *row = iq_exec_scratch(exec, (w->k + IQ__SUM_ROOM((size_t)w->k)) * sizeof *row);
        if (!row) return IQ_MEMORY;
        for (uint32_t o = 0; o < w->n; o++) {
            iq_matrix_row(w, o, row);
            for (uint32_t r = 0; r < m->rows; r++) {
                float y = iq__sum_over_k(m->x + r * m->ldx + part->x_at, row, w->k, w->unit, row + w->k);
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
