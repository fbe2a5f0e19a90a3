/* The trainer's own operations: gradients, and what goes with the optimiser. Products and AdamW itself are ops that a plan can
 * strike (kernels/ops/train.h); here are their forms. Forward passes of norms, rotary, attention and SwiGLU are the
 * engine's ops (kernels/ops), so that a model is trained with the bits it is served with.
 *
 * All is float32 under the contract of kernels/arith.h: a product and a sum are fused only where fmaf is written, sums have
 * a fixed order. Nothing depends on threads, instruction set or how a step's rows are grouped:
 *   - a *sequence* is `unit` consecutive rows (positions) of every activation; sums over rows have one unit per sequence,
 *     so that the tree over them is the one that data-parallel ranks and micro-batches cut at its nodes;
 *   - sums over a row's elements follow the dot rule (product) or the vector rule (norm, cross entropy, experts' weights).
 * Each op has a reference, written to be read, and a form for each instruction set with the same bits.
 * Shapes: (rows, n) with a row stride ld in floats. Everything is borrowed for the call. Errors: IQ_MEMORY (scratch).
 * Sources: Llama 2 (arXiv 2307.09288) for the block, AdamW (1711.05101), FlashAttention-2 (2307.08691) for the
 * gradient of attention by recomputed weights. */
#ifndef IQ_TRAIN_OPS_H
#define IQ_TRAIN_OPS_H

#include "kernels/exec.h"
#include "kernels/op.h"
#include "kernels/ops/train.h"

#include <stdbool.h>

#define IQ_TRAIN_NO_TARGET UINT32_MAX

/* Of y = x * r * w, r = 1 / sqrt(mean(x^2) + eps). With h = x * r and g = dy * w:
 *   dx[i] = dx[i] + r * fmaf(-h[i], c, g[i]), c = (vector rule of g * h) / n;   dw[i] = sum over rows of dy[i] * h[i] */
struct iq_train_norm_back {
    uint32_t rows, unit, n;
    float eps;
    const float *x, *w, *dy; /* (rows, n), (n), (rows, n): all contiguous */
    float *dx, *dw;          /* (rows, n) is added to; (n) */
};

/* Of the rotary embedding on half pairs, in place: the rotation by the opposite angle. */
struct iq_train_rope_back {
    uint32_t rows, unit, heads, dim;
    const float *table; /* (positions, dim / 2, 2): row r is position r % unit */
    float *dx;          /* (rows, heads, dim), row stride ld */
    size_t ld;
};

/* Of y = silu(gate) * up. sig = 1 / (1 + exp(-gate)); dup = dy * (gate * sig);
 * dgate = (dy * up) * (sig * fmaf(gate, 1 - sig, 1)). */
struct iq_train_swiglu_back {
    uint32_t rows, n;
    const float *gate, *up, *dy; /* row strides ld, ld, lddy */
    float *dgate, *dup;          /* row stride ld */
    size_t ld, lddy;
};

/* Of causal grouped-query attention. For each query row i of a sequence, keys j <= i, weights made again:
 *   s_j = (q_i . k_j) * scale (one chain over dim)   e_j = exp(s_j - max)   p_j = e_j * (1 / (vector rule of e))
 *   t_j = dy_i . v_j (one chain)   c = vector rule of dy_i * y_i   g_j = (p_j * (t_j - c)) * scale
 *   dq_i = chain over j of g_j k_j   dk_j, dv_j = chains over (query heads of the group, rows i >= j) of g_j q_i, p_j dy_i
 * all chains ascending. */
struct iq_train_attention_back {
    uint32_t sequences, unit, heads, kv_heads, dim;
    float scale;
    const float *q, *k, *v; /* (rows, heads or kv_heads, dim), row stride ld */
    const float *y, *dy;    /* (rows, heads, dim), contiguous */
    float *dq, *dk, *dv;    /* as q, k, v, row stride ld */
    size_t ld;
};

/* Cross entropy of each row that has a target, and its gradient, in place of the logits:
 *   loss = log(sum) - (x[target] - max), sum: vector rule of exp(x - max)
 *   dx[j] = (exp(x[j] - max) * (1 / sum) - (j == target)) * scale
 * Rows without one (IQ_TRAIN_NO_TARGET): loss 0, gradient +0. hit: the target has the largest logit, alone or first. */
struct iq_train_loss {
    uint32_t rows, vocab;
    float scale;
    const uint32_t *target; /* (rows) */
    float *x;               /* (rows, vocab), contiguous */
    float *loss;            /* (rows) */
    uint8_t *hit;           /* (rows) */
};

/* The residual stream with dropout on the branch: y = x + keep(b), keep(b) = b * (1 / (1 - p)) or nothing; with x NULL,
 * keep's gradient: y = b * (1 / (1 - p)) or +0. Element e of row r is kept where word e % 4 of
 * Philox(seed; step, site, e / 4; sequence, position) is at least p * 2^32: no draw depends on ranks or micro-batches. */
struct iq_train_residual {
    uint32_t rows, unit, n;
    float p; /* 0: no draws */
    uint64_t seed;
    uint32_t step, site; /* site: below 4,096; n: at most 4,194,304 */
    uint32_t sequence;   /* of row 0, within the step */
    const float *x, *b;  /* (rows, n), contiguous */
    float *y;
};

/* Of y[r] = table[ids[r]]: dtable[v] = tree over sequences of the chains, positions ascending, of dx where ids is v;
 * a sequence without v has +0. */
struct iq_train_embed_back {
    uint32_t rows, unit, vocab, n;
    const uint32_t *ids; /* (rows), below vocab */
    const float *dx;     /* (rows, n) */
    float *dtable;       /* (vocab, n) */
};

/* ---- the mixture of experts. What belongs to slots lies *by expert*: sorted by expert, then by row, as moe_dispatch's list
 * has it; slot s of row r is at place[r * k + s]. Slots of a row are ascending in their experts' ids. */

/* Of combine. dweight(r, s) = vector rule of dy(r) * x(place);   dx(place) = weight(r, s) * dy(r). */
struct iq_train_combine_back {
    uint32_t rows, k, n;
    const uint32_t *place;        /* (rows, k) */
    const float *weight, *x, *dy; /* (rows, k), (rows * k, n) by expert, (rows, n) */
    float *dweight, *dx;          /* (rows, k), (rows * k, n) by expert */
};

/* Of the router's softmax, renormalised over a row's slots, and of the load's balance. With p the softmax over all experts,
 * exp(l - max) * (1 / (vector rule of these)), and count[e] the slots of the row's sequence that went to e:
 *   b = vector rule of p * count;   c = weight_0 * dweight_0, then fmaf(weight_s, dweight_s, c) by ascending slot
 *   dlogits[e] = (p[e] * (count[e] - b)) * scale, then for a slot's expert fmaf(weight_s, dweight_s - c, dlogits[e])
 * With scale = w * experts / (k * unit^2) that is the gradient of w times a sequence's term (train.h); the term is
 * experts / (k * unit^2) times the sum of b over its rows. */
struct iq_train_route_back {
    uint32_t rows, unit, experts, k;
    float scale;
    const float *logits;    /* (rows, experts) */
    const uint32_t *expert; /* (rows, k) */
    const float *weight, *dweight;
    float *dlogits; /* (rows, experts) */
    float *balance; /* (rows): b is added to it */
};

/* Of y(place(r, s)) = x(r), next to what x's other reader, the router, gave: dx(r) = (dy(r, 0) + dy(r, 1) + ...) + dx(r), slots
 * ascending. */
struct iq_train_dispatch_back {
    uint32_t rows, k, n;
    const uint32_t *place; /* (rows, k) */
    const float *dy;       /* (rows * k, n) by expert */
    float *dx;             /* (rows, n) is added to */
};

/* Sum of squares of n floats, as a double: blocks of 4,096, in each 32 strided lanes of fma in double folded 16, 8, 4, 2, 1,
 * then the tree over blocks. */
enum { IQ_TRAIN_SQUARES_BLOCK = 4096 };
struct iq_train_squares {
    size_t n;
    const float *x;
    double *sum;
};

/* y[i] = y[i] + x[i]: a node of the tree over sequences. */
struct iq_train_add {
    size_t n;
    const float *x;
    float *y;
};

/* A row of the table of forms. `isa` names the engine's variants that go with it; "reference" is theirs. */
struct iq_train_ops {
    const char *name;
    bool (*usable)(void); /* NULL: on every machine */
    int (*product)(struct iq_exec *, const struct iq_train_product *);
    int (*norm_back)(struct iq_exec *, const struct iq_train_norm_back *);
    int (*rope_back)(struct iq_exec *, const struct iq_train_rope_back *);
    int (*swiglu_back)(struct iq_exec *, const struct iq_train_swiglu_back *);
    int (*attention_back)(struct iq_exec *, const struct iq_train_attention_back *);
    int (*loss)(struct iq_exec *, const struct iq_train_loss *);
    int (*residual)(struct iq_exec *, const struct iq_train_residual *);
    int (*embed_back)(struct iq_exec *, const struct iq_train_embed_back *);
    int (*combine_back)(struct iq_exec *, const struct iq_train_combine_back *);
    int (*route_back)(struct iq_exec *, const struct iq_train_route_back *);
    int (*dispatch_back)(struct iq_exec *, const struct iq_train_dispatch_back *);
    int (*squares)(struct iq_exec *, const struct iq_train_squares *);
    int (*add)(struct iq_exec *, const struct iq_train_add *);
    int (*adamw)(struct iq_exec *, const struct iq_train_adamw *);
    struct iq_variant variant[2]; /* product and adamw for the dispatch; the reference's are the kernels' */
};

/* "reference", "scalar", "avx2" or "avx512"; NULL: the fastest usable here. Returns NULL if unknown or not usable. */
const struct iq_train_ops *iq_train_ops_find(const char *name);
const struct iq_train_ops *iq_train_ops_at(size_t index); /* NULL past the end */
/* Registers the kernels' variants and the forms above. Idempotent; not thread-safe. */
int iq_train_register(struct iq_err *);

#endif
