/* Which tensors a model has, where they lie, and their first values. */
#include "engine/train/parts.h"
#include "kernels/arith.h"
#include "kernels/base/rng.h"
#include "kernels/rotary.h"

#include <stdio.h>
#include <stdlib.h>

/* Weights of the largest model: their moments and gradients must be addressable, and all gradients, a tied head's too, are one
 * row of a sum, whose columns count with 32 bits. */
static const size_t weights_most = (size_t)1 << 31;

static size_t place(struct iq_train *t, const char *name, size_t rows, size_t cols, double init, bool decays)
{
    struct iq_train_tensor *x = &t->tensor[t->tensors++];
    snprintf(x->name, sizeof x->name, "%s", name);
    x->rows = (uint32_t)rows;
    x->cols = (uint32_t)cols;
    x->at = t->gradients;
    x->layer = IQ_NO_LAYER;
    x->init = init;
    x->decays = decays;
    t->gradients += rows * cols; /* at most 2^41 a tensor and 3,587 tensors: no overflow */
    return x->at;
}

static void place_layer(struct iq_train *t, uint32_t i)
{
    const struct iq_train_recipe *r = &t->recipe;
    struct iq__train_layer *l = &t->layer[i];
    const size_t experts = r->experts ? r->experts : 1;
    const size_t first = t->tensors;
    char name[32];
#define PLACE(tensor, rows, cols, init, decays)                                                              \
    (snprintf(name, sizeof name, "layer.%u." tensor, i), place(t, name, rows, cols, init, decays))
    l->at_attn_norm = PLACE("attn_norm", 1, r->hidden, -1, false);
    l->at_qkv = PLACE("qkv", t->width.qkv, r->hidden, r->init_in, true);
    l->at_out = PLACE("out", r->hidden, t->width.q, r->init_out, true);
    l->at_ffn_norm = PLACE("ffn_norm", 1, r->hidden, -1, false);
    if (r->experts) l->at_router = PLACE("router", r->experts, r->hidden, r->init_router, true);
    l->at_gate_up = PLACE("gate_up", experts * 2 * r->ffn, r->hidden, r->init_in, true);
    l->at_down = PLACE("down", experts * r->hidden, r->ffn, r->init_out, true);
#undef PLACE
    for (size_t k = first; k < t->tensors; k++) t->tensor[k].layer = (uint16_t)i;
}

int iq__train_layout(struct iq_train *t, struct iq_err *err)
{
    const struct iq_train_recipe *r = &t->recipe;
    t->width.q = (size_t)r->heads * r->head_dim;
    t->width.kv = (size_t)r->kv_heads * r->head_dim;
    t->width.qkv = t->width.q + 2 * t->width.kv;
    t->scale = (float)(1.0 / sqrt((double)r->head_dim));
    t->layer = calloc(r->layers, sizeof *t->layer);
    t->tensor = calloc(7 * (size_t)r->layers + 3, sizeof *t->tensor);
    if (!t->layer || !t->tensor)
        return iq_fail(err, IQ_MEMORY, "no memory for the list of tensors of %u layers", r->layers);
    place(t, "embed", r->vocab, r->hidden, r->init_embed, false);
    for (uint32_t i = 0; i < r->layers; i++) place_layer(t, i);
    t->at_final_norm = place(t, "final_norm", 1, r->hidden, -1, false);
    t->weights = t->gradients;
    t->at_head = place(t, "head", r->vocab, r->hidden, r->init_head, false);
    if (r->tied)
        t->tensors--;
    else
        t->weights = t->gradients;
    if (t->weights > weights_most)
        return iq_fail(err, IQ_LIMIT, "recipe: it describes %zu weights, expected at most %zu", t->weights,
                       weights_most);
    return IQ_OK;
}

static uint32_t levels(uint32_t micro)
{
    uint32_t n = 0;
    while (micro > 1) micro /= 2, n++;
    return n;
}

int iq__train_allocate(struct iq_train *t, struct iq_err *err)
{
    const struct iq_train_recipe *r = &t->recipe;
    const size_t buffers = t->options.data_parallel + levels(t->options.micro) + 1;
    t->w = calloc(3 * t->weights, sizeof *t->w);
    t->gradient = calloc(buffers * t->gradients, sizeof *t->gradient);
    t->rotary = malloc((size_t)r->length * r->head_dim * sizeof *t->rotary);
    const bool apart = iq__train_watched(t, IQ_OP_OPTIMISER);
    if (apart) t->before = malloc(3 * t->weights * sizeof *t->before);
    if (!t->w || !t->gradient || !t->rotary || (apart && !t->before))
        return iq_fail(err, IQ_MEMORY, "no memory for %zu weights, their moments and %zu gradients of each",
                       t->weights, buffers);
    t->own_sum = t->sum = t->gradient + (buffers - 1) * t->gradients;
    t->m = t->w + t->weights;
    t->v = t->m + t->weights;
    for (struct iq__train_layer *l = t->layer; l < t->layer + r->layers; l++) {
        l->attn_norm = t->w + l->at_attn_norm;
        l->w_qkv = t->w + l->at_qkv;
        l->w_out = t->w + l->at_out;
        l->ffn_norm = t->w + l->at_ffn_norm;
        l->w_router = t->w + l->at_router;
        l->w_gate_up = t->w + l->at_gate_up;
        l->w_down = t->w + l->at_down;
    }
    t->w_final_norm = t->w + t->at_final_norm;
    t->w_head = r->tied ? t->w : t->w + t->at_head;
    struct iq_rotary_spec spec = {.rotary = r->head_dim, .base = r->rope_base};
    return iq_rotary_table(&spec, r->length, t->rotary, NULL, err);
}

/* Two normal numbers from a draw: Box and Muller. */
static void normal_pair(const struct iq_philox *draw, int at, float out[2])
{
    float u = (float)((draw->v[at] >> 8) + 1) * 0x1p-24f; /* above 0, at most 1 */
    float angle = (float)(draw->v[at + 1] >> 8) * 0x1p-24f * 0x1.921fb6p+2f;
    float radius = IQ_SQRTF(-2.0f * iq_log(u));
    out[0] = radius * iq_cos(angle);
    out[1] = radius * iq_sin(angle);
}

/* Four of the tensor's numbers at a time: a draw's. */
static void first_values(const struct iq_train *t, uint64_t seed, size_t tensor)
{
    const struct iq_train_tensor *x = &t->tensor[tensor];
    const size_t n = (size_t)x->rows * x->cols;
    float *w = t->w + x->at, z[4];
    for (size_t i = 0; i < n && x->init < 0; i++) w[i] = 1.0f;
    for (size_t i = 0; i < n && x->init >= 0; i += 4) {
        /* The high half's top bit keeps these apart from dropout's draws, whose step is below 2^30. */
        struct iq_philox draw = iq_philox(seed, (uint64_t)1 << 63 | tensor, i / 4);
        normal_pair(&draw, 0, z);
        normal_pair(&draw, 2, z + 2);
        for (size_t k = 0; k < 4 && i + k < n; k++) w[i + k] = z[k] * (float)x->init;
    }
}

int iq_train_open(const struct iq_train_recipe *recipe, const struct iq_train_options *options,
                  struct iq_train **out, struct iq_err *err)
{
    *out = NULL;
    struct iq_train *t;
    uint64_t seed;
    IQ_TRY(iq__train_new(recipe, options, &t, err));
    int rc = iq__train_seed(t, IQ_OP_INIT, recipe->seed, &seed);
    if (rc != IQ_OK) {
        iq_train_close(t);
        return iq_fail(err, rc, "training: the seed of first weights could not be had");
    }
    for (size_t i = 0; i < t->tensors; i++) first_values(t, seed, i);
    *out = t;
    return IQ_OK;
}
