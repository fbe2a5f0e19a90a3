/* What the trainer's files share. Internal to engine/train. */
#ifndef IQ_TRAIN_PARTS_H
#define IQ_TRAIN_PARTS_H

#include "engine/train/train.h"
#include "kernels/dispatch.h"
#include "kernels/ops/kv.h"

extern const struct iq_train_ops iq__train_reference, iq__train_scalar, iq__train_avx2, iq__train_avx512;

/* Columns that follow from a recipe. */
struct iq__train_widths {
    size_t q, kv, qkv; /* heads * head_dim, kv_heads * head_dim, q + 2 kv */
};

/* What the backward pass reads again: (rows, ...) each, contiguous. */
struct iq__train_layer {
    float *x, *h, *qkv, *attended, *middle, *h2; /* hidden, hidden, qkv, q, hidden, hidden */
    float *gate_up, *act;                        /* 2 ffn, ffn; with experts (slots, ...) by expert */
    float *logits, *weight, *served;         /* (rows, experts), (rows, active), (slots, hidden) by expert */
    uint32_t *expert, *place, *list, *first; /* (rows, active) twice, (slots), (experts + 1) */
    float *attn_norm, *w_qkv, *w_out, *ffn_norm, *w_router, *w_gate_up, *w_down;
    size_t at_attn_norm, at_qkv, at_out, at_ffn_norm, at_router, at_gate_up, at_down; /* of their gradients */
};

/* For one micro-batch; grown to the largest. */
struct iq__train_memory {
    size_t rows, length;               /* that it is laid out for */
    size_t floats, indices, sequences; /* that base, index and seq hold */
    float *base;                       /* owned: all floats below and of the layers */
    float *final, *normed, *logits;
    float *raw, *branch;                                           /* (rows, qkv), (rows, hidden) */
    float *dx, *dh, *dbranch, *dgate_up, *dact, *dqkv, *dattended; /* gradients of what has that name */
    float *gathered, *by_slot;                                     /* with experts: (slots, hidden) */
    float *dweight, *dlogits;                                      /* (rows, active), (rows, experts) */
    float *cache_k, *cache_v;
    uint32_t *index; /* owned: all integers below and of the layers */
    uint32_t *pos, *blocks;
    uint32_t *owner, *units; /* (rows, active), (sequences) rows of an expert */
    struct iq_seq *seq;      /* owned: (sequences) */
};

struct iq_train {
    struct iq_train_recipe recipe;
    struct iq_train_options options;
    struct iq__train_widths width;
    float scale; /* of scores, as the engine has it */
    uint32_t step;
    struct iq_step at;          /* what sites see of the step */
    uint16_t at_layer, at_rank; /* at hand; IQ_NO_LAYER, IQ_WHOLE */
    uint64_t dropout;           /* the seed of the step's */
    struct iq_slots *slots;     /* owned */
    const struct iq_train_ops *ops;
    const struct iq_variant *norm, *rope, *swiglu, *kv_write, *attention;
    const struct iq_variant *route, *dispatch, *combine; /* with experts */
    struct iq_exec exec;
    struct iq_train_tensor *tensor; /* owned; the head comes last, in gradients also where it is tied */
    size_t tensors, weights, gradients;
    float *w, *m, *v;     /* (weights) each; owned, one allocation at w */
    float *before;        /* (3 * weights) while the optimiser may be struck, else NULL; owned */
    float *gradient;      /* (data_parallel + levels of micro-batches + 1, gradients); owned */
    float *own_sum, *sum; /* in there: room for the sum of the ranks' gradients; where the sum is */
    float *w_head, *w_final_norm;
    size_t at_head, at_final_norm;
    float *rotary;                 /* (length, head_dim / 2, 2); owned */
    struct iq__train_layer *layer; /* owned */
    struct iq__train_memory memory;
    uint32_t *target; /* owned: of a whole batch */
    float *loss;      /* owned */
    float *balance;   /* owned: sums over layers of what route_back gives */
    uint8_t *hit;     /* owned */
};

/* The slots of what a plan can strike: golden, then armed as the options say. */
int iq__train_slots(struct iq_train *, struct iq_err *err);
/* Runs an op that a plan can strike, at the step, layer and rank at hand. rows: of its output. */
int iq__train_dispatch(struct iq_train *, enum iq_op_id, uint32_t rows, const void *args);
/* Whether a variant may run behind golden's: then outputs lie apart from inputs. */
bool iq__train_watched(const struct iq_train *, enum iq_op_id);
/* The seed that the op gives for `given`. */
int iq__train_seed(struct iq_train *, enum iq_op_id, uint64_t given, uint64_t *seed);

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
    uint32_t batch;         /* sequences of the step's batch */
    bool train;             /* false: no dropout */
    const uint32_t *tokens; /* of its first row */
    float *balance;         /* of its first row */
};
int iq__train_forward(struct iq_train *, const struct iq__train_part *);
/* memory.logits holds the loss's gradient. Fills gradient (t->gradients floats). */
int iq__train_backward(struct iq_train *, const struct iq__train_part *, float *gradient);

/* A feed-forward on rows of its own: the dense one, or an expert. What it reads and what it keeps for the way back. */
struct iq__train_feed {
    size_t rows;
    const uint32_t *units; /* rows of each sequence; NULL: all rows of the part */
    const float *x, *w_gate_up, *w_down;
    float *gate_up, *act;
};
int iq__train_feed(struct iq_train *, const struct iq__train_feed *, float *y);
/* dx may be dy. */
int iq__train_feed_back(struct iq_train *, const struct iq__train_part *, const struct iq__train_feed *,
                        const float *dy, float *dx, float *dw_gate_up, float *dw_down);
/* From h2 to memory.branch, and from memory.dbranch to memory.dh. */
int iq__train_experts(struct iq_train *, const struct iq__train_layer *);
int iq__train_experts_back(struct iq_train *, const struct iq__train_part *, const struct iq__train_layer *,
                           float *gradient);

/* y = x W^T; dx = dy W; dW = dy^T x. w: (n, k). units: as a feed's. */
int iq__train_apply(struct iq_train *, size_t rows, const float *x, const float *w, size_t n, size_t k,
                    size_t unit, float *y);
int iq__train_input_back(struct iq_train *, size_t rows, const float *dy, const float *w, size_t n, size_t k,
                         float *dx);
int iq__train_weight_back(struct iq_train *, const struct iq__train_part *, const uint32_t *units,
                          const float *dy, const float *x, size_t n, size_t k, float *dw);
/* y = x + dropout(branch); x NULL: the branch's gradient. site: 2 layer, + 1 for the feed-forward. */
int iq__train_residual(struct iq_train *, const struct iq__train_part *, uint32_t site, const float *x,
                       const float *branch, float *y);

#endif
