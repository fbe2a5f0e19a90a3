/* What the trainer's files share. Internal to engine/train. */
#ifndef IQ_TRAIN_PARTS_H
#define IQ_TRAIN_PARTS_H

#include "engine/train/train.h"
#include "kernels/op.h"
#include "kernels/ops/kv.h"

extern const struct iq_train_ops iq__train_reference, iq__train_scalar, iq__train_avx2, iq__train_avx512;

/* Columns that follow from a recipe. */
struct iq__train_widths {
    size_t q, kv, qkv; /* heads * head_dim, kv_heads * head_dim, q + 2 kv */
};

/* What the backward pass reads again: (rows, ...) each, contiguous. */
struct iq__train_layer {
    float *x, *h, *qkv, *attended, *middle, *h2, *gate_up,
        *act; /* hidden, hidden, qkv, q, hidden, hidden, 2 ffn, ffn */
    float *attn_norm, *w_qkv, *w_out, *ffn_norm, *w_gate_up, *w_down;
    size_t at_attn_norm, at_qkv, at_out, at_ffn_norm, at_gate_up, at_down; /* of their gradients */
};

/* For one micro-batch; grown to the largest. */
struct iq__train_memory {
    size_t rows, length;               /* that it is laid out for */
    size_t floats, indices, sequences; /* that base, index and seq hold */
    float *base;                       /* owned: all floats below and of the layers */
    float *final, *normed, *logits;
    float *raw, *branch;                                           /* (rows, qkv), (rows, hidden) */
    float *dx, *dh, *dbranch, *dgate_up, *dact, *dqkv, *dattended; /* gradients of what has that name */
    float *cache_k, *cache_v;
    uint32_t *index; /* owned: positions, block numbers */
    uint32_t *pos, *blocks;
    struct iq_seq *seq; /* owned: (sequences) */
};

struct iq_train {
    struct iq_train_recipe recipe;
    struct iq_train_options options;
    struct iq__train_widths width;
    float scale; /* of scores, as the engine has it */
    uint32_t step;
    const struct iq_train_ops *ops;
    const struct iq_variant *norm, *rope, *swiglu, *kv_write, *attention;
    struct iq_exec exec;
    struct iq_train_tensor *tensor; /* owned; the head comes last, in gradients also where it is tied */
    size_t tensors, weights, gradients;
    float *w, *m, *v; /* (weights) each; owned, one allocation at w */
    float *gradient;  /* (data_parallel + levels of micro-batches, gradients); owned */
    float *w_head, *w_final_norm;
    size_t at_head, at_final_norm;
    float *rotary;                 /* (length, head_dim / 2, 2); owned */
    struct iq__train_layer *layer; /* owned */
    struct iq__train_memory memory;
    uint32_t *target; /* owned: of a whole batch */
    float *loss;      /* owned */
    uint8_t *hit;     /* owned */
};

int iq__train_layout(struct iq_train *, struct iq_err *err);   /* tensors and where they lie */
int iq__train_allocate(struct iq_train *, struct iq_err *err); /* weights, moments, gradients, rotary table */
/* Without first weights. */
int iq__train_new(const struct iq_train_recipe *, const struct iq_train_options *, struct iq_train **out,
                  struct iq_err *err);
/* Room for `sequences` rows of `length` tokens. */
int iq__train_room(struct iq_train *, uint32_t sequences, uint32_t length, struct iq_err *err);

/* A micro-batch: rows [sequence, sequence + sequences) of the step's batch. */
struct iq__train_part {
    uint32_t sequence, sequences, length;
    bool train;             /* false: no dropout */
    const uint32_t *tokens; /* of its first row */
};
int iq__train_forward(struct iq_train *, const struct iq__train_part *);
/* memory.logits holds the loss's gradient. Fills gradient (t->gradients floats). */
int iq__train_backward(struct iq_train *, const struct iq__train_part *, float *gradient);

/* y = x W^T; dx = dy W; dW = dy^T x. w: (n, k). */
int iq__train_apply(struct iq_train *, size_t rows, const float *x, const float *w, size_t n, size_t k,
                    size_t unit, float *y);
int iq__train_input_back(struct iq_train *, size_t rows, const float *dy, const float *w, size_t n, size_t k,
                         float *dx);
int iq__train_weight_back(struct iq_train *, const struct iq__train_part *, const float *dy, const float *x,
                          size_t n, size_t k, float *dw);
/* y = x + dropout(branch); x NULL: the branch's gradient. site: 2 layer, + 1 for the feed-forward. */
int iq__train_residual(struct iq_train *, const struct iq__train_part *, uint32_t site, const float *x,
                       const float *branch, float *y);

#endif
