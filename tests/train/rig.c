#include "tests/train/rig.h"

#include "kernels/base/rng.h"

uint64_t rig_seed(void)
{
    const char *text = getenv("IQ_TEST_SEED");
    return text ? strtoull(text, NULL, 0) : 1;
}

uint32_t rig_below(struct rig_random *r, uint32_t n)
{
    return (uint32_t)((iq_draw(r->seed, r->at++, IQ_DRAW_DATA) >> 32) * n >> 32);
}

float rig_float(struct rig_random *r) { return (float)rig_below(r, 1u << 24) * 0x1p-23f - 1.0f; }

float *rig_floats(struct rig_random *r, size_t n)
{
    float *x = malloc((n + 1) * sizeof *x);
    for (size_t i = 0; i < n; i++) {
        uint32_t special = rig_below(r, 100);
        x[i] = special == 0 ? 0.0f : special == 1 ? -0.0f : rig_float(r);
    }
    return x;
}

struct iq_train_recipe rig_recipe(void)
{
    return (struct iq_train_recipe){.vocab = 37,
                                    .hidden = 45,
                                    .layers = 2,
                                    .heads = 4,
                                    .kv_heads = 2,
                                    .head_dim = 6,
                                    .ffn = 33,
                                    .length = 300,
                                    .rope_base = 10000,
                                    .norm_eps = 1e-5,
                                    .init_embed = 1,
                                    .init_in = 0.2,
                                    .init_out = 0.1,
                                    .init_head = 0.15,
                                    .steps = 1000,
                                    .warmup = 4,
                                    .schedule = IQ_TRAIN_LINEAR,
                                    .tail = 0.3,
                                    .rate = 0.01,
                                    .beta1 = 0.9,
                                    .beta2 = 0.95,
                                    .eps = 1e-8,
                                    .decay = 0.1,
                                    .clip = 1,
                                    .seed = rig_seed()};
}

struct iq_train_recipe rig_experts(void)
{
    struct iq_train_recipe c = rig_recipe();
    c.experts = 5;
    c.active = 2;
    c.ffn = 19;
    c.balance = 0.3;
    c.init_router = 0.2;
    return c;
}

struct iq_train_batch rig_batch(struct rig_random *r, const struct iq_train_recipe *c, uint32_t rows,
                                uint32_t length)
{
    size_t n = (size_t)rows * length;
    uint32_t *tokens = malloc(n * sizeof *tokens);
    uint8_t *mask = malloc(n);
    for (size_t i = 0; i < n; i++) {
        tokens[i] = rig_below(r, c->vocab);
        mask[i] = i % length != 0 && rig_below(r, 3) == 0;
    }
    mask[length > 1 ? 1 : 0] = 1;
    return (struct iq_train_batch){rows, length, tokens, mask};
}

void rig_batch_free(struct iq_train_batch *b)
{
    free((void *)b->tokens);
    free((void *)b->mask);
}

struct iq_train *rig_open(const struct iq_train_recipe *c, struct iq_train_options o)
{
    struct iq_train *t;
    rig_check_ok(iq_train_open(c, &o, &t, &err));
    return t;
}

void rig_run(struct iq_train *t, uint32_t from, uint32_t to)
{
    const struct iq_train_recipe *c = iq_train_recipe_of(t);
    for (uint32_t step = from; step < to; step++) {
        struct rig_random r = {c->seed + step, 0};
        struct iq_train_batch b = rig_batch(&r, c, 11, 5 + step % 3 * 9);
        struct iq_train_result result;
        rig_check_ok(iq_train_step(t, &b, &result, &err));
        rig_batch_free(&b);
    }
}

struct iq_digest rig_train(const struct iq_train_recipe *c, struct iq_train_options o, uint32_t steps)
{
    struct iq_train *t = rig_open(c, o);
    rig_run(t, 0, steps);
    struct iq_digest d = iq_train_digest(t);
    iq_train_close(t);
    return d;
}
