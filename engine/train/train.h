/* The deterministic trainer: a Llama block in float32, dense or a mixture of experts, from scratch.
 *
 * A step takes a batch of token rows of equal length, each a sequence of its own, and a mask of the tokens to predict. Its
 * bits (loss, gradients, weights, moments) are a function of the recipe, the step and the batch: threads, instruction set,
 * data-parallel ranks and micro-batches change none. A sequence is the unit of every sum over rows; ranks own the nodes of
 * the tree over sequences at depth log2(data_parallel), micro-batches those below, and the sums are finished up the one tree
 * (DESIGN 3). Forward passes are the engine's ops, so the logits are those that the engine's golden float32 gives.
 *
 * With experts, each row is served by its `active` best (kernels/ops/moe.h, weights renormalised), none is dropped, and what is
 * minimised is loss + balance's weight * sum over layers of the mean over the batch's sequences of
 *   experts * sum over e of (share of the sequence's slots that e has) * (mean over its rows of e's softmax probability)
 * (Switch, arXiv 2101.03961, there over a batch; here over a sequence, so that no rank needs another's counts). It is 1 when all
 * is even. Rows past a sequence's end, whatever token stands there, count as others do.
 *
 * Ownership: iq_train_close frees all. Not thread-safe: one caller a trainer; it has threads of its own.
 * Errors name the field or the file, what was found and what was expected; on error the weights are as they were. */
#ifndef IQ_TRAIN_H
#define IQ_TRAIN_H

#include "engine/train/ops.h"
#include "kernels/base/digest.h"
#include "kernels/dispatch.h"
#include "kernels/ops/moe.h"

/* warm-up: rate * (step + 1) / warmup. Then, with p = step / steps:
 *   flat     nothing more
 *   linear   rate * min(1, (1 - p) / tail): flat, then straight to zero over the last `tail` of the steps
 *   cosine   rate * (1 + cos(pi q)) / 2, q from 0 at the end of the warm-up to 1 at `steps`
 * Behind it, an encore: encore_rate, straight to zero over `encore` steps. */
#define IQ_TRAIN_SCHEDULE_MAP(X) X(FLAT, "flat") X(LINEAR, "linear") X(COSINE, "cosine")
enum iq_train_schedule {
#define X(id, name) IQ_TRAIN_##id,
    IQ_TRAIN_SCHEDULE_MAP(X)
#undef X
        IQ_TRAIN_SCHEDULES
};

/* All that decides the bits of a run but its data. X(type, field, least, most, what) */
#define IQ_TRAIN_RECIPE_MAP(X)                                                                               \
    X(uint32_t, vocab, 2, 1 << 20, "tokens")                                                                 \
    X(uint32_t, hidden, 1, 1 << 14, "width of the residual stream")                                          \
    X(uint32_t, layers, 1, 512, "blocks")                                                                    \
    X(uint32_t, heads, 1, 1024, "query heads")                                                               \
    X(uint32_t, kv_heads, 1, 1024, "KV heads; divide the query heads")                                       \
    X(uint32_t, head_dim, 2, 128, "elements of a head, even")                                                \
    X(uint32_t, ffn, 1, 1 << 16, "width of the feed-forward, or of an expert's")                             \
    X(uint32_t, experts, 0, IQ_EXPERTS, "experts of a block; 0: dense")                                      \
    X(uint32_t, active, 0, IQ_EXPERT_SLOTS, "experts of a row; dense: 0")                                    \
    X(uint32_t, length, 1, 1 << 17, "longest row, tokens")                                                   \
    X(uint32_t, tied, 0, 1, "1: the head is the embedding")                                                  \
    X(double, rope_base, 1, 1e12, "rotary base")                                                             \
    X(double, norm_eps, 0, 1, "added to the mean square")                                                    \
    X(double, init_embed, 0, 100, "deviation of the first embedding")                                        \
    X(double, init_in, 0, 100, "of q, k, v, gate and up")                                                    \
    X(double, init_out, 0, 100, "of the attention's and the feed-forward's output")                          \
    X(double, init_router, 0, 100, "of the router; dense: 0")                                                \
    X(double, init_head, 0, 100, "of the head")                                                              \
    X(double, balance, 0, 100, "weight of the load's balance in what is minimised; dense: 0")                \
    X(double, dropout, 0, 0.99, "share of each branch's elements that is dropped")                           \
    X(uint32_t, steps, 1, 1u << 30, "length of the schedule")                                                \
    X(uint32_t, warmup, 0, 1u << 30, "steps of the warm-up")                                                 \
    X(uint32_t, schedule, 0, IQ_TRAIN_SCHEDULES - 1, "0 flat, 1 linear, 2 cosine")                           \
    X(double, tail, 0, 1, "linear: the share of the steps that decays")                                      \
    X(double, rate, 0, 100, "learning rate")                                                                 \
    X(uint32_t, encore, 0, 1u << 30, "steps behind the schedule, in which the rate falls once more")         \
    X(double, encore_rate, 0, 100, "learning rate at its begin; without one: 0")                             \
    X(double, beta1, 0, 0.999999, "decay of the mean of gradients")                                          \
    X(double, beta2, 0, 0.99999999, "of the mean of their squares")                                          \
    X(double, eps, 0, 1, "added to the root of it")                                                          \
    X(double, decay, 0, 10, "decoupled weight decay, of the blocks' matrices")                               \
    X(double, clip, 0, 1e9, "largest norm of the gradient; 0: any")                                          \
    X(uint64_t, seed, 0, 0x1p64, "of first weights and dropout")

struct iq_train_recipe {
#define X(type, field, least, most, what) type field;
    IQ_TRAIN_RECIPE_MAP(X)
#undef X
};

/* The schedule's and the encore's. */
static inline uint32_t iq_train_steps(const struct iq_train_recipe *r) { return r->steps + r->encore; }

/* What may differ from run to run without a change of bits. Zero or NULL: 1, or the fastest. */
struct iq_train_options {
    uint32_t threads;
    uint32_t data_parallel; /* in-process ranks, a power of two, at most 256 */
    uint32_t micro;         /* micro-batches of a rank, a power of two: less memory */
    const char *isa;        /* "reference", "scalar", "avx2", "avx512" */
    /* A plan, which does change bits: variants in place of the ops of kernels/ops/train.h, the first weights' seed among them;
     * and who learns what fired. Borrowed until iq_train_disarm. NULL: golden. */
    const struct iq_selector *selector;
    const struct iq_tap *tap;
};

struct iq_train_batch {
    uint32_t rows, length;  /* rows: at least data_parallel * micro; length: at most the recipe's */
    const uint32_t *tokens; /* (rows, length) */
    const uint8_t *mask;    /* (rows, length): 1: predicted from the tokens before it. Column 0 is 0 */
};

struct iq_train_result {
    double loss;            /* mean over the targets, nats, before the update */
    double balance;         /* of the experts' load: sum over layers, its weight left out; dense: 0 */
    double norm;            /* of the gradient, before clipping */
    double rate;            /* learning rate of the step */
    uint32_t targets, hits; /* masked tokens; those that had the largest logit */
};

struct iq_train_tensor {
    char name[32];       /* "embed", "layer.3.qkv" ... */
    uint32_t rows, cols; /* (rows, cols); a norm has one row; experts lie one after another */
    size_t at;           /* in weights, gradient, moments */
    uint16_t layer;      /* or IQ_NO_LAYER */
    double init;         /* deviation; negative: ones */
    bool decays;
};

struct iq_train;

int iq_train_recipe_check(const struct iq_train_recipe *, struct iq_err *err);
/* The learning rate of a step, 0 for the first. */
double iq_train_rate(const struct iq_train_recipe *, uint32_t step);

/* First weights: normal numbers from Philox(seed), Box and Muller's way. IQ_FORMAT: the recipe; IQ_USAGE: the options. */
int iq_train_open(const struct iq_train_recipe *, const struct iq_train_options *, struct iq_train **out,
                  struct iq_err *err);
void iq_train_close(struct iq_train *);

/* From here on golden. */
void iq_train_disarm(struct iq_train *);

/* The seed of the rows of the next step, for whoever draws them: `given`, unless a plan strikes the op data. */
int iq_train_data_seed(struct iq_train *, uint64_t given, uint64_t *seed, struct iq_err *err);
/* IQ_SHAPE: the batch's sizes; IQ_FORMAT: a token or no target; IQ_LIMIT: the schedule is over, or the gradient's norm is
 * not a finite number. */
int iq_train_step(struct iq_train *, const struct iq_train_batch *, struct iq_train_result *,
                  struct iq_err *err);
/* logits: (length, vocab) of one row. */
int iq_train_logits(struct iq_train *, const uint32_t *tokens, uint32_t length, float *logits,
                    struct iq_err *err);

uint32_t iq_train_steps_done(const struct iq_train *);
const struct iq_train_recipe *iq_train_recipe_of(const struct iq_train *);
const struct iq_train_tensor *iq_train_tensor_at(const struct iq_train *,
                                                 size_t index); /* NULL past the end */
const float *iq_train_weights(const struct iq_train *, size_t *count);
/* Of the last step, summed over the batch, not clipped; where the head is tied, its part included. */
const float *iq_train_gradient(const struct iq_train *);
/* Of one tensor: 0 its weights, 1 the means of its gradients, 2 those of their squares. */
struct iq_digest iq_train_tensor_digest(const struct iq_train *, size_t index, int what);
/* Of weights, moments and step. */
struct iq_digest iq_train_digest(const struct iq_train *);

/* A checkpoint holds the recipe, the step, weights and moments: a run continues from it to the bit, under any options. It is
 * written beside `path`, synced, then renamed: a kill or a full disk leaves the checkpoint that was there. Floats are little
 * endian; the last 64 characters are the SHA-256 of all before. Loading: IQ_FORMAT (not a checkpoint, cut off, fields out of
 * range), IQ_MISMATCH (the contents are not what was written), IQ_IO, IQ_MEMORY. Saving: IQ_FULL, IQ_IO. */
int iq_train_save(const struct iq_train *, const char *path, struct iq_err *err);
int iq_train_load(const char *path, const struct iq_train_options *, struct iq_train **out,
                  struct iq_err *err);

#endif
