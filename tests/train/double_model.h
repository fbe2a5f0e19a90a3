/* The trainer's formulas once more, forward only, in double and without a fixed order: what finite differences and losses
 * are compared with. Rows are sequences of `unit` positions; all arrays are contiguous. */
#ifndef IQ_TESTS_TRAIN_DOUBLE_MODEL_H
#define IQ_TESTS_TRAIN_DOUBLE_MODEL_H

#include "engine/train/train.h"

void double_linear(size_t rows, size_t n, size_t k, const double *x, const double *w, double *y);
void double_norm(size_t rows, size_t n, double eps, const double *x, const double *w, double *y);
void double_rope(size_t rows, size_t unit, size_t heads, size_t dim, double base, const double *x, double *y);
/* x: (rows, heads + 2 kv_heads, dim); y: (rows, heads, dim) */
void double_attention(size_t sequences, size_t unit, size_t heads, size_t kv_heads, size_t dim,
                      const double *x, double *y);
void double_swiglu(size_t rows, size_t n, const double *gate_up, double *y); /* (rows, 2 n) to (rows, n) */
/* Each expert's weight on each row, 0 where it does not serve it: (rows, experts). */
void double_route(size_t rows, size_t experts, size_t k, const double *logits, double *weight);
/* Mean over sequences of the load's balance. */
double double_balance(size_t rows, size_t unit, size_t experts, size_t k, const double *logits,
                      const double *weight);
double double_loss(size_t rows, size_t vocab, const double *x, const uint32_t *target); /* sum */

/* Mean loss of a batch, without dropout; weights as the trainer lays them out. balance: sum over layers. */
double double_model_loss(const struct iq_train_recipe *, const double *weights, const struct iq_train_batch *,
                         double *balance);

#endif
