/* The ops of training at which its arithmetic and its draws can be freed: what a plan can strike. The trainer's other ops
 * (engine/train/ops.h) nothing can; its forward norms, attention and the like are the engine's, run as golden.
 *
 * seed: a control op. What a draw is keyed by: of first weights (op init, once), of the rows of a step (data) and of dropout
 * (dropout), each step anew. So copies that differ in their draws alone are variants under a trigger as all others are.
 * all_reduce (kernels/ops/reduce.h) is the sum of the data-parallel ranks' gradients: one row, a unit a rank.
 * Sites: step counts from 0; layer, where it lies in one; rank: the data-parallel rank of a product; no rows.
 * Everything is borrowed for the call. Errors: IQ_MEMORY (scratch).
 * Source: AdamW (arXiv 1711.05101). */
#ifndef IQ_OPS_TRAIN_H
#define IQ_OPS_TRAIN_H

#include <stddef.h>
#include <stdint.h>

struct iq_seed {
    uint64_t given; /* by the run */
    uint64_t *seed; /* that is used */
};

/* y[i][j] = sum over k of a(i, k) b(k, j), by the contract's sum with this unit. a(i, k) is a[i * a_i + k * a_k], b alike:
 *   forward   y = x W^T    m: rows     n: outputs  k: columns  (unit: that of the engine's product)
 *   input     dx = dy W    m: rows     n: columns  k: outputs  (unit 128)
 *   weights   dW = dy^T x  m: outputs  n: columns  k: rows     (unit: a sequence)
 * An expert's rows are some of each sequence: its units have lengths of their own, down to 0, whose sum is +0.
 * NaN results are canonical. */
struct iq_train_product {
    uint32_t m, n, k, unit;
    const float *a, *b;
    size_t a_i, a_k, b_k, b_j;
    float *y; /* (m, n), row stride ldy */
    size_t ldy;
    const uint32_t *units; /* (n_units) lengths, at most `unit`, together k; NULL: `unit` each */
    uint32_t n_units;
};

/* One step of AdamW with decoupled decay on n weights. g' = g * clip; m = fmaf(beta1, m0, (1 - beta1) * g');
 * v = fmaf(beta2, v0, ((1 - beta2) * g') * g'); w = fmaf(-(lr * decay), w0, w0), then
 * w = fmaf(-lr, (m * rate1) / (sqrt(v * rate2) + eps), w), rate = 1 / (1 - beta^step).
 * w0, m0, v0 may be w, m, v themselves where one variant alone runs on them. */
struct iq_train_adamw {
    size_t n;
    float clip, lr, beta1, beta2, eps, decay, rate1, rate2;
    const float *g, *w0, *m0, *v0;
    float *w, *m, *v;
};

/* Here by name, for the trainer's table of forms. */
struct iq_variant;
extern const struct iq_variant iq_product_reference, iq_adamw_reference;

#endif
