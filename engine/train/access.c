/* What a trainer shows of itself. */
#include "engine/train/parts.h"

#include <string.h>

uint32_t iq_train_steps_done(const struct iq_train *t) { return t->step; }
const struct iq_train_recipe *iq_train_recipe_of(const struct iq_train *t) { return &t->recipe; }
const float *iq_train_gradient(const struct iq_train *t) { return t->sum; }

const struct iq_train_tensor *iq_train_tensor_at(const struct iq_train *t, size_t index)
{
    return index < t->tensors ? &t->tensor[index] : NULL;
}

const float *iq_train_weights(const struct iq_train *t, size_t *count)
{
    if (count) *count = t->weights;
    return t->w;
}

struct iq_digest iq_train_tensor_digest(const struct iq_train *t, size_t index, int what)
{
    const struct iq_train_tensor *x = &t->tensor[index];
    const float *const of[] = {t->w, t->m, t->v};
    return iq_digest_row(of[what] + x->at, (size_t)x->rows * x->cols, sizeof *t->w);
}

struct iq_digest iq_train_digest(const struct iq_train *t)
{
    struct iq_digest d[2] = {iq_digest_row(t->w, 3 * t->weights, sizeof *t->w), {0, t->step}};
    return iq_digest_list(d, 2);
}

int iq_train_logits(struct iq_train *t, const uint32_t *tokens, uint32_t length, float *logits,
                    struct iq_err *err)
{
    if (!length || length > t->recipe.length)
        return iq_fail(err, IQ_SHAPE, "logits: found a row of %u tokens, expected 1 to %u", length,
                       t->recipe.length);
    for (uint32_t i = 0; i < length; i++)
        if (tokens[i] >= t->recipe.vocab)
            return iq_fail(err, IQ_FORMAT, "logits: column %u: found token %u, expected less than %u", i,
                           tokens[i], t->recipe.vocab);
    struct iq__train_part part = {.sequences = 1, .length = length, .tokens = tokens};
    IQ_TRY(iq__train_room(t, 1, length, err));
    int rc = iq__train_forward(t, &part);
    if (rc != IQ_OK) return iq_fail(err, rc, "logits: a row of %u tokens ran out of memory", length);
    memcpy(logits, t->memory.logits, (size_t)length * t->recipe.vocab * sizeof *logits);
    return IQ_OK;
}
