/* Rows of the packed table, widened: a tied embedding needs no second copy of the LM head's weights. A row is some
 * hundred values, so no instruction set has a variant of its own. */
#include "kernels/ops/embed.h"
#include "kernels/arith.h"
#include "kernels/matrix.h"
#include "kernels/op.h"
#include "kernels/tables.h"

static int run(struct iq_exec *exec, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    (void)exec, (void)site, (void)params, (void)state;
    const struct iq_embed *e = args;
    for (uint32_t r = 0; r < e->rows; r++) {
        float *y = e->y + r * e->ldy;
        iq_matrix_row(e->table, e->ids[r], y);
        iq_act_round_row(y, e->table->k, e->act);
    }
    return IQ_OK;
}

const struct iq_variant iq__embed_reference = {
    .kind = "embed", .name = "reference", .device = "cpu", .flags = IQ_V_REFERENCE | IQ_V_GOLDEN, .run = run};
