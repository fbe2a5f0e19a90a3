/* The three products of a linear layer, and the residual, with a trainer's sizes. */
#include "engine/train/parts.h"
#include "kernels/arith.h"

int iq__train_apply(struct iq_train *t, size_t rows, const float *x, const float *w, size_t n, size_t k,
                    size_t unit, float *y)
{
    struct iq_train_product p = {.m = (uint32_t)rows,
                                 .n = (uint32_t)n,
                                 .k = (uint32_t)k,
                                 .unit = (uint32_t)unit,
                                 .a = x,
                                 .a_i = k,
                                 .a_k = 1,
                                 .b = w,
                                 .b_k = 1,
                                 .b_j = k,
                                 .y = y,
                                 .ldy = n};
    return iq__train_dispatch(t, IQ_OP_FORWARD, p.m, &p);
}

int iq__train_input_back(struct iq_train *t, size_t rows, const float *dy, const float *w, size_t n, size_t k,
                         float *dx)
{
    struct iq_train_product p = {.m = (uint32_t)rows,
                                 .n = (uint32_t)k,
                                 .k = (uint32_t)n,
                                 .unit = IQ_UNIT,
                                 .a = dy,
                                 .a_i = n,
                                 .a_k = 1,
                                 .b = w,
                                 .b_k = k,
                                 .b_j = 1,
                                 .y = dx,
                                 .ldy = k};
    return iq__train_dispatch(t, IQ_OP_INPUT_GRAD, p.m, &p);
}

int iq__train_weight_back(struct iq_train *t, const struct iq__train_part *part, const uint32_t *units,
                          const float *dy, const float *x, size_t n, size_t k, float *dw)
{
    uint32_t rows = units ? 0 : part->sequences * part->length;
    for (uint32_t s = 0; s < part->sequences && units; s++) rows += units[s];
    struct iq_train_product p = {.m = (uint32_t)n,
                                 .n = (uint32_t)k,
                                 .k = rows,
                                 .unit = part->length,
                                 .a = dy,
                                 .a_i = 1,
                                 .a_k = n,
                                 .b = x,
                                 .b_k = k,
                                 .b_j = 1,
                                 .y = dw,
                                 .ldy = k,
                                 .units = units,
                                 .n_units = part->sequences};
    return iq__train_dispatch(t, IQ_OP_WEIGHT_GRAD, p.m, &p);
}

int iq__train_residual(struct iq_train *t, const struct iq__train_part *part, uint32_t site, const float *x,
                       const float *branch, float *y)
{
    struct iq_train_residual r = {.rows = part->sequences * part->length,
                                  .unit = part->length,
                                  .n = t->recipe.hidden,
                                  .p = part->train ? (float)t->recipe.dropout : 0.0f,
                                  .seed = t->dropout,
                                  .step = t->step,
                                  .site = site,
                                  .sequence = part->sequence,
                                  .x = x,
                                  .b = branch,
                                  .y = y};
    return t->ops->residual(&t->exec, &r);
}
