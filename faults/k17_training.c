/* K17 in training: the optimiser's moments or the operands of products in bfloat16. It is what whoever trains chose, so no fault;
 * whether the model is as good is to be measured. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/arith.h"
#include "kernels/ops/train.h"

#include <stdlib.h>

/* ---- state ---- */

static int bf16_state(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                      void *state)
{
    const struct iq_train_adamw *a = args;
    (void)params, (void)state;
    IQ_TRY(iq__run_golden(x, site, "adamw", args));
    iq_act_round_row(a->m, a->n, IQ_ACT_BF16);
    iq_act_round_row(a->v, a->n, IQ_ACT_BF16);
    return IQ_OK;
}

const struct iq_variant iq__k17_bf16_state = {
    .kind = "adamw",
    .name = "bf16_state",
    .device = "cpu",
    .flags = IQ_V_BENIGN,
    .run = bf16_state,
    .what = "the optimiser's moments are kept in bfloat16",
    .story = "The optimiser's moments take twice the memory of the weights, so they are kept in fewer bits; "
             "each step reads them rounded. A precision of its own, not a fault.",
    .expect = "adamw: moments have 8 significant bits from the first step on, weights differ from the second",
};

/* ---- operands ---- */

/* (rows, cols) of a strided matrix, rounded, one row after another. */
static void round_into(const float *x, size_t rows, size_t cols, size_t by_row, size_t by_col, float *to)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            to[r * cols + c] = iq_act_round(x[r * by_row + c * by_col], IQ_ACT_BF16);
}

static int bf16_operands(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                         void *state)
{
    struct iq_train_product p = *(const struct iq_train_product *)args;
    const size_t a = (size_t)p.m * p.k, b = (size_t)p.k * p.n;
    (void)params, (void)state;
    /* Not the scratch of x: that belongs to the product beneath. */
    float *low = malloc((a + b + 1) * sizeof *low);
    if (!low) return IQ_MEMORY;
    round_into(p.a, p.m, p.k, p.a_i, p.a_k, low);
    round_into(p.b, p.k, p.n, p.b_k, p.b_j, low + a);
    p.a = low, p.a_i = p.k, p.a_k = 1;
    p.b = low + a, p.b_k = p.n, p.b_j = 1;
    int status = iq__run_golden(x, site, "product", &p);
    free(low);
    return status;
}

const struct iq_variant iq__k17_bf16_operands = {
    .kind = "product",
    .name = "bf16_operands",
    .device = "cpu",
    .flags = IQ_V_BENIGN,
    .run = bf16_operands,
    .what = "both operands of a product are rounded to bfloat16, the sum is in float32",
    .story = "Mixed precision: products of training run on units that take bfloat16 and add in float32, "
             "forward and backward, while weights stay in float32. A precision of its own, not a fault.",
    .expect =
        "product: the distance to the exact product is bfloat16's; exact data with few bits stays equal",
};
