#include "harness/canary/recipe.h"

#include "golden/canary/canary.h"

/* What mattered: attention's and the feed-forward's outputs begin at zero, embeddings at deviation 1; a rotary base that
 * reaches over the whole context; the final decay, which brings 90-97 % to 99-100 %. */
#define SCHEDULE                                                                                             \
    .steps = 9600, .warmup = 100, .schedule = IQ_TRAIN_LINEAR, .tail = 0.3, .rate = 1.4e-3, .beta1 = 0.9,    \
    .beta2 = 0.95, .eps = 1e-8, .decay = 0.1, .clip = 1.0, .seed = 1

static const struct iq_canary_golden dense_golden[] = {{0, NULL}};

const struct iq_canary_recipe iq_canary_dense = {
    .name = "dense",
    .train = {.vocab = IQ_CANARY_VOCAB,
              .hidden = 176,
              .layers = 4,
              .heads = 8,
              .kv_heads = 8,
              .head_dim = 32,
              .ffn = 512,
              .length = IQ_CANARY_CONTEXT,
              .rope_base = 500000,
              .norm_eps = 1e-5,
              .init_embed = 1,
              .init_in = 0.0377,
              .init_head = 0.0377,
              SCHEDULE},
    .golden = dense_golden,
};
