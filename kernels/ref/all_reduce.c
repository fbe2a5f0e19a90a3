/* Reference of all_reduce: the tree over all units, entered at its root; a piece is the node that it
 * covers. */
#include "kernels/arith.h"
#include "kernels/exec.h"
#include "kernels/op.h"
#include "kernels/ops/reduce.h"

/* Element (r, i) of the node over units [unit, unit + units). *at: the first piece of the node; moved
 * behind it. A node that is no piece and has a single unit can't be made: the pieces are not nodes of this
 * tree. */
static int node(const struct iq_all_reduce *a, uint32_t unit, uint32_t units, uint32_t r, uint32_t i,
                uint32_t *at, float *sum)
{
    if (*at == a->pieces || a->piece[*at].unit != unit) return IQ_SHAPE;
    if (a->piece[*at].units == units) {
        *sum = a->piece[*at].x[r * a->piece[*at].ldx + i];
        ++*at;
        return IQ_OK;
    }
    if (units < 2) return IQ_SHAPE;
    float left, right;
    uint32_t half = iq_tree_left(units);
    IQ_TRY(node(a, unit, half, r, i, at, &left));
    IQ_TRY(node(a, unit + half, units - half, r, i, at, &right));
    *sum = left + right;
    return IQ_OK;
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_all_reduce *a = args;
    (void)x, (void)site, (void)params, (void)state;
    for (uint32_t r = 0; r < a->rows; r++)
        for (uint32_t i = 0; i < a->n; i++) {
            uint32_t at = 0;
            float sum;
            IQ_TRY(node(a, 0, a->units, r, i, &at, &sum));
            if (at != a->pieces) return IQ_SHAPE;
            a->y[r * a->ldy + i] = iq_act_round(sum, a->act);
        }
    return IQ_OK;
}

const struct iq_variant iq__all_reduce_reference = {.kind = "all_reduce",
                                                    .name = "reference",
                                                    .device = "cpu",
                                                    .flags = IQ_V_REFERENCE | IQ_V_GOLDEN,
                                                    .run = run};
