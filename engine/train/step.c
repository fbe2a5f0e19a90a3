/* A step: parts of the batch forward and back, their gradients up the tree over sequences, the update. */
#include "engine/train/parts.h"
#include "kernels/arith.h"
#include "kernels/ops/reduce.h"
#include "kernels/sum_plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The tree over `rows` sequences, `depth` turns down from the root: the bits of `node`, highest first. */
static void find_node(uint32_t rows, uint32_t node, uint32_t nodes, uint32_t *first, uint32_t *count)
{
    *first = 0;
    *count = rows;
    while (nodes > 1) {
        uint32_t left = iq_tree_left(*count);
        nodes /= 2;
        if (node >= nodes) {
            *first += left;
            *count -= left;
            node -= nodes;
        } else {
            *count = left;
        }
    }
}

static int check_batch(const struct iq_train *t, const struct iq_train_batch *b, uint32_t *targets,
                       struct iq_err *err)
{
    const uint32_t parts = t->options.data_parallel * t->options.micro;
    const uint32_t slots = t->recipe.experts ? t->recipe.active : 1; /* of a token */
    *targets = 0;
    if (t->step >= iq_train_steps(&t->recipe))
        return iq_fail(err, IQ_LIMIT, "training: all %u steps of the recipe are done",
                       iq_train_steps(&t->recipe));
    if (!b->length || b->length > t->recipe.length)
        return iq_fail(err, IQ_SHAPE, "batch: found rows of %u tokens, expected 1 to %u", b->length,
                       t->recipe.length);
    if (b->rows < parts || (uint64_t)b->rows * b->length > UINT32_MAX / 2 / slots)
        return iq_fail(
            err, IQ_SHAPE,
            "batch: found %u rows, expected at least %u (data-parallel %u, micro-batches %u) and fewer "
            "than 2^31 tokens, or slots of experts, in all",
            b->rows, parts, t->options.data_parallel, t->options.micro);
    for (size_t i = 0; i < (size_t)b->rows * b->length; i++) {
        if (b->tokens[i] >= t->recipe.vocab)
            return iq_fail(err, IQ_FORMAT, "batch: row %zu column %zu: found token %u, expected less than %u",
                           i / b->length, i % b->length, b->tokens[i], t->recipe.vocab);
        if (!b->mask[i]) continue;
        if (i % b->length == 0)
            return iq_fail(err, IQ_FORMAT, "batch: row %zu: the mask asks for token 0, which follows nothing",
                           i / b->length);
        ++*targets;
    }
    if (!*targets) return iq_fail(err, IQ_FORMAT, "batch: the mask has no token to predict");
    return IQ_OK;
}

/* Row i's logits predict the token after it. */
static int set_targets(struct iq_train *t, const struct iq_train_batch *b, struct iq_err *err)
{
    const size_t n = (size_t)b->rows * b->length;
    free(t->target);
    free(t->loss);
    free(t->balance);
    free(t->hit);
    t->target = malloc(n * sizeof *t->target);
    t->loss = malloc(n * sizeof *t->loss);
    t->balance = calloc(n, sizeof *t->balance);
    t->hit = malloc(n);
    if (!t->target || !t->loss || !t->balance || !t->hit)
        return iq_fail(err, IQ_MEMORY, "no memory for the targets of %zu tokens", n);
    for (size_t i = 0; i < n; i++)
        t->target[i] = i + 1 < n && b->mask[i + 1] ? b->tokens[i + 1] : IQ_TRAIN_NO_TARGET;
    return IQ_OK;
}

/* ---- gradients ---- */

static int run_part(struct iq_train *t, const struct iq_train_batch *b, uint32_t node, uint32_t targets,
                    float *gradient, struct iq_err *err)
{
    struct iq__train_part part = {.length = b->length, .batch = b->rows, .train = true};
    find_node(b->rows, node, t->options.data_parallel * t->options.micro, &part.sequence, &part.sequences);
    const size_t at = (size_t)part.sequence * b->length;
    part.tokens = b->tokens + at;
    part.balance = t->balance + at;
    IQ_TRY(iq__train_room(t, part.sequences, part.length, err));
    struct iq_train_loss loss = {.rows = part.sequences * part.length,
                                 .vocab = t->recipe.vocab,
                                 .scale = 1.0f / (float)targets,
                                 .target = t->target + at,
                                 .x = t->memory.logits,
                                 .loss = t->loss + at,
                                 .hit = t->hit + at};
    int rc = iq__train_forward(t, &part);
    if (rc == IQ_OK) rc = t->ops->loss(&t->exec, &loss);
    if (rc == IQ_OK) rc = iq__train_backward(t, &part, gradient);
    if (rc != IQ_OK) return iq_fail(err, rc, "training: step %u ran out of memory", t->step);
    return IQ_OK;
}

static int add_gradients(struct iq_train *t, const float *from, float *to)
{
    struct iq_train_add a = {t->gradients, from, to};
    return t->ops->add(&t->exec, &a);
}

/* The sum over the rank's node, in its own buffer: micro-batches are the nodes below, added as soon as both halves are
 * there. Levels above the first lie behind all ranks' buffers. */
static int run_rank(struct iq_train *t, const struct iq_train_batch *b, uint32_t rank, uint32_t targets,
                    struct iq_err *err)
{
    float *own = t->gradient + rank * t->gradients,
          *above = t->gradient + t->options.data_parallel * t->gradients;
    t->at_rank = (uint16_t)rank;
    for (uint32_t i = 0, depth = 0; i < t->options.micro; i++, depth++) {
#define LEVEL(d) ((d) ? above + ((d)-1) * t->gradients : own)
        IQ_TRY(run_part(t, b, rank * t->options.micro + i, targets, LEVEL(depth), err));
        for (uint32_t pops = iq__nodes_ending_at(i, t->options.micro); pops; pops--, depth--)
            IQ_TRY(add_gradients(t, LEVEL(depth), LEVEL(depth - 1)));
#undef LEVEL
    }
    return IQ_OK;
}

/* Ranks' gradients meet, by the tree over ranks. One rank alone has the sum already, unless a plan wants to see it made. */
static int all_reduce(struct iq_train *t)
{
    const uint32_t ranks = t->options.data_parallel;
    struct iq_piece piece[IQ_REDUCE_PIECES];
    for (uint32_t r = 0; r < ranks; r++)
        piece[r] = (struct iq_piece){r, 1, r, t->gradient + r * t->gradients, t->gradients};
    struct iq_all_reduce a = {.rows = 1,
                              .n = (uint32_t)t->gradients,
                              .units = ranks,
                              .pieces = ranks,
                              .act = IQ_ACT_F32,
                              .piece = piece,
                              .y = t->own_sum,
                              .ldy = t->gradients};
    const bool made = ranks > 1 || iq__train_watched(t, IQ_OP_GRAD_REDUCE);
    t->at_rank = IQ_WHOLE;
    if (made) IQ_TRY(iq__train_dispatch(t, IQ_OP_GRAD_REDUCE, 1, &a));
    t->sum = made ? t->own_sum : t->gradient;
    if (!t->recipe.tied) return IQ_OK;
    struct iq_train_add head = {t->gradients - t->at_head, t->sum + t->at_head, t->sum};
    return t->ops->add(&t->exec, &head);
}

/* ---- the update ---- */

/* 1 / (1 - beta^n), n at least 1. */
static float correction(double beta, uint32_t n)
{
    double power = 1.0;
    for (double square = beta; n; n >>= 1, square = square * square)
        if (n & 1) power = power * square;
    return (float)(1.0 / (1.0 - power));
}

static int update(struct iq_train *t, double norm, double rate)
{
    const struct iq_train_recipe *r = &t->recipe;
    const float *w0 = t->w;
    if (iq__train_watched(t, IQ_OP_OPTIMISER)) w0 = memcpy(t->before, t->w, 3 * t->weights * sizeof *t->w);
    float clip = r->clip > 0 && norm > r->clip ? (float)(r->clip / norm) : 1.0f;
    for (size_t i = 0; i < t->tensors; i++) {
        const struct iq_train_tensor *x = &t->tensor[i];
        struct iq_train_adamw a = {.n = (size_t)x->rows * x->cols,
                                   .clip = clip,
                                   .lr = (float)rate,
                                   .beta1 = (float)r->beta1,
                                   .beta2 = (float)r->beta2,
                                   .eps = (float)r->eps,
                                   .decay = x->decays ? (float)r->decay : 0.0f,
                                   .rate1 = correction(r->beta1, t->step + 1),
                                   .rate2 = correction(r->beta2, t->step + 1),
                                   .g = t->sum + x->at,
                                   .w0 = w0 + x->at,
                                   .m0 = w0 + t->weights + x->at,
                                   .v0 = w0 + 2 * t->weights + x->at,
                                   .w = t->w + x->at,
                                   .m = t->m + x->at,
                                   .v = t->v + x->at};
        t->at_layer = x->layer;
        IQ_TRY(iq__train_dispatch(t, IQ_OP_OPTIMISER, 1, &a));
    }
    t->at_layer = IQ_NO_LAYER;
    return IQ_OK;
}

/* The sum of a sequence's losses, or other numbers, by the vector rule, then the tree. Depth: log2(rows). */
static float sum_losses(const float *loss, uint32_t rows, uint32_t length)
{
    if (rows > 1) {
        uint32_t left = iq_tree_left(rows);
        return sum_losses(loss, left, length) + sum_losses(loss + (size_t)left * length, rows - left, length);
    }
    float lane[IQ_VECTOR_LANES] = {0};
    for (uint32_t i = 0; i < length; i++) lane[i % IQ_VECTOR_LANES] += loss[i];
    return iq_fold32(lane);
}

/* The mean over sequences of what ops.h calls the term, over layers summed already. */
static double balance(const struct iq_train *t, const struct iq_train_batch *b)
{
    const double pairs = (double)t->recipe.active * b->length * b->length;
    return (double)sum_losses(t->balance, b->rows, b->length) * t->recipe.experts / pairs / b->rows;
}

int iq_train_step(struct iq_train *t, const struct iq_train_batch *b, struct iq_train_result *out,
                  struct iq_err *err)
{
    struct iq_train_result result = {.rate = iq_train_rate(&t->recipe, t->step)};
    *out = (struct iq_train_result){0};
    IQ_TRY(check_batch(t, b, &result.targets, err));
    IQ_TRY(set_targets(t, b, err));
    t->at = (struct iq_step){
        .step = t->step, .batch = b->rows, .captured = b->rows, .tokens = b->rows * b->length, .tp = 1};
    int rc = iq__train_seed(t, IQ_OP_DROPOUT, t->recipe.seed, &t->dropout);
    for (uint32_t rank = 0; rc == IQ_OK && rank < t->options.data_parallel; rank++)
        IQ_TRY(run_rank(t, b, rank, result.targets, err));
    double squares = 0;
    if (rc == IQ_OK) rc = all_reduce(t);
    struct iq_train_squares sum = {t->weights, t->sum, &squares};
    if (rc == IQ_OK) rc = t->ops->squares(&t->exec, &sum);
    if (rc != IQ_OK) return iq_fail(err, rc, "training: step %u ran out of memory", t->step);
    result.norm = sqrt(squares); /* correctly rounded, as sqrtf is */
    result.loss = (double)sum_losses(t->loss, b->rows, b->length) / result.targets;
    if (t->recipe.experts) result.balance = balance(t, b);
    for (size_t i = 0; i < (size_t)b->rows * b->length; i++) result.hits += t->hit[i];
    if (!isfinite(result.norm))
        return iq_fail(
            err, IQ_LIMIT,
            "training: step %u: the gradient's norm is %g (loss %g), expected a finite number: lower "
            "the learning rate or go back to a checkpoint",
            t->step, result.norm, result.loss);
    IQ_TRY(update(t, result.norm, result.rate));
    t->step++;
    *out = result;
    return IQ_OK;
}
