#include "harness/study/twins.h"

#include "harness/cli/progress.h"
#include "harness/plan/armed.h"
#include "harness/plan/variants.h"
#include "harness/study/twins_parts.h"
#include "kernels/base/json.h"
#include "kernels/base/pool.h"
#include "kernels/base/rng.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 4 };

#define FAULT(op, variant) "{\"faults\":[{\"op\":\"" op "\",\"variant\":\"" variant "\"}]}"
const struct iq_twin_factor iq_twin_factors[] = {
    {"reference", "nothing", NULL, RANKS},
    {"again", "nothing, once more", NULL, RANKS},
    {"init-seed", "the seed of the first weights", FAULT("init", "reseed"), RANKS},
    {"data-order", "the order of the same rows", FAULT("data", "reseed"), RANKS},
    {"dropout", "the stream of dropout", FAULT("dropout", "reseed"), RANKS},
    {"sum-order", "the order of the sum over ranks", FAULT("grad_reduce", "backwards"), RANKS},
    {"ring-2", "a ring's sum over 2 ranks", FAULT("grad_reduce", "ring"), 2},
    {"ring-4", "a ring's sum over 4 ranks", FAULT("grad_reduce", "ring"), 4},
    {"ring-8", "a ring's sum over 8 ranks", FAULT("grad_reduce", "ring"), 8},
    {"optimiser-order", "the order of the optimiser's arithmetic", FAULT("optimiser", "unfused"), RANKS},
    {"optimiser-bf16", "bfloat16 for the optimiser's moments", FAULT("optimiser", "bf16_state"), RANKS},
    {"products-bf16", "bfloat16 for the operands of products", FAULT("product", "bf16_operands"), RANKS},
    {0},
};

/* ---- one copy ---- */

/* The pool's rows in the order of a seed: each once. */
static void shuffle(uint64_t seed, uint32_t *order, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) order[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = (uint32_t)(iq_draw(seed, i, IQ_DRAW_DATA) % i), kept = order[i - 1];
        order[i - 1] = order[j];
        order[j] = kept;
    }
}

static void take_state(const struct iq_train *t, struct iq__twins_copy *c, uint32_t steps)
{
    struct iq_digest *to = c->state + (size_t)steps * IQ__TWINS_STATES * c->tensors;
    for (int what = 0; what < IQ__TWINS_STATES; what++)
        for (size_t i = 0; i < c->tensors; i++) *to++ = iq_train_tensor_digest(t, i, what);
}

/* What all threads share. */
struct study {
    const struct iq__twins_material *material;
    struct iq__twins_copy *copy; /* (n) */
    size_t n;
    atomic_size_t next;        /* copy that nobody has taken */
    atomic_uint_fast64_t done; /* steps of all */
    struct iq_progress bar;
};

static int step(const struct iq__twins_material *s, struct iq_train *t, uint32_t *order, uint64_t *ordered,
                struct iq__twins_copy *c, struct iq_err *err)
{
    uint32_t tokens[IQ__TWINS_ROWS * IQ__TWINS_LENGTH];
    uint8_t mask[IQ__TWINS_ROWS * IQ__TWINS_LENGTH];
    const struct iq_train_batch b = {IQ__TWINS_ROWS, IQ__TWINS_LENGTH, tokens, mask};
    const uint32_t done = iq_train_steps_done(t), steps = s->recipe.steps;
    const uint32_t last = steps < IQ_TWINS_LAST ? steps : IQ_TWINS_LAST;
    struct iq_train_result result;
    uint64_t seed;
    IQ_TRY(iq_train_data_seed(t, s->recipe.seed, &seed, err));
    if (done == 0 || seed != *ordered) shuffle(seed, order, steps * IQ__TWINS_ROWS);
    *ordered = seed;
    for (uint32_t r = 0; r < IQ__TWINS_ROWS; r++) {
        const size_t from = (size_t)order[done * IQ__TWINS_ROWS + r] * IQ__TWINS_LENGTH;
        memcpy(tokens + r * IQ__TWINS_LENGTH, s->tokens + from, IQ__TWINS_LENGTH * sizeof *tokens);
        memcpy(mask + r * IQ__TWINS_LENGTH, s->mask + from, IQ__TWINS_LENGTH);
    }
    IQ_TRY(iq_train_step(t, &b, &result, err));
    take_state(t, c, done + 1);
    if (done >= steps - last) c->loss += result.loss / last;
    return IQ_OK;
}

static int ask(const struct iq__twins_material *s, struct iq_train *t, struct iq__twins_copy *c,
               struct iq_err *err)
{
    float *logits = malloc((size_t)IQ__TWINS_LONGEST * IQ_CANARY_VOCAB * sizeof *logits);
    int status = logits ? IQ_OK : iq_fail(err, IQ_MEMORY, "no memory for logits");
    for (uint32_t i = 0; status == IQ_OK && i < IQ__TWINS_QUESTIONS; i++) {
        const struct iq__twins_question *q = &s->question[i];
        status = iq_train_logits(t, q->id, q->n, logits, err);
        if (status == IQ_OK) c->score[i] = iq__twins_judge(q, logits);
    }
    free(logits);
    return status;
}

static int keep(const struct iq_train *t, struct iq__twins_copy *c, struct iq_err *err)
{
    const float *w = iq_train_weights(t, &c->n_weights);
    c->weights = malloc(c->n_weights * sizeof *w);
    if (!c->weights) return iq_fail(err, IQ_MEMORY, "no memory for %zu weights", c->n_weights);
    memcpy(c->weights, w, c->n_weights * sizeof *w);
    return IQ_OK;
}

static int train(struct study *y, struct iq__twins_copy *c, bool draws, struct iq_train *t,
                 struct iq_err *err)
{
    const struct iq__twins_material *s = y->material;
    const uint32_t steps = s->recipe.steps;
    uint64_t ordered = 0;
    while (iq_train_tensor_at(t, c->tensors)) c->tensors++;
    c->tensor = malloc(c->tensors * sizeof *c->tensor);
    uint32_t *order = calloc((size_t)steps * IQ__TWINS_ROWS, sizeof *order);
    c->state = malloc(((size_t)steps + 1) * IQ__TWINS_STATES * c->tensors * sizeof *c->state);
    if (!order || !c->tensor || !c->state) {
        free(order);
        return iq_fail(err, IQ_MEMORY, "no memory for the digests of %u steps", steps);
    }
    int status = IQ_OK;
    for (size_t i = 0; i < c->tensors; i++) c->tensor[i] = *iq_train_tensor_at(t, i);
    take_state(t, c, 0);
    for (uint32_t i = 0; status == IQ_OK && i < steps; i++) {
        status = step(s, t, order, &ordered, c, err);
        uint64_t done = atomic_fetch_add(&y->done, 1) + 1;
        if (draws) iq_progress_at(&y->bar, done);
    }
    free(order);
    if (status == IQ_OK) status = keep(t, c, err);
    iq_train_disarm(t);
    return status == IQ_OK ? ask(s, t, c, err) : status;
}

static int make(struct study *y, struct iq__twins_copy *c, bool draws, struct iq_err *err)
{
    struct iq_train_options o = {.threads = 1, .data_parallel = c->factor->ranks};
    struct iq_armed armed = {0};
    struct iq_train *t = NULL;
    if (c->factor->plan) {
        IQ_TRY(iq_armed_parse(c->factor->plan, c->factor->name, &armed, err));
        iq_armed_options(&armed, &o);
    }
    int status = iq_train_open(&y->material->recipe, &o, &t, err);
    if (status == IQ_OK) status = train(y, c, draws, t, err);
    iq_train_close(t);
    iq_armed_close(&armed);
    return status == IQ_OK ? IQ_OK : iq_err_prefix(err, "twin %s: ", c->factor->name);
}

static void make_some(void *ctx, int part, int parts)
{
    struct study *y = ctx;
    (void)parts;
    for (size_t i; (i = atomic_fetch_add(&y->next, 1)) < y->n;)
        y->copy[i].status = make(y, &y->copy[i], part == 0, &y->copy[i].err);
}

/* ---- the study ---- */

static int choose(const struct iq_twins_config *c, struct study *y, struct iq_err *err)
{
    const char *known[sizeof iq_twin_factors / sizeof *iq_twin_factors];
    size_t n = 0, all = 0;
    while (iq_twin_factors[all].name) all++;
    for (size_t i = 2; i < all; i++) known[n++] = iq_twin_factors[i].name;
    known[n] = NULL;
    for (const char *const *f = c->factor; f && *f; f++) {
        size_t at = 0;
        while (known[at] && strcmp(known[at], *f)) at++;
        if (!known[at]) return iq_not_among("factor", *f, known, "--factor", IQ_USAGE, err);
    }
    y->copy = calloc(sizeof known / sizeof *known, sizeof *y->copy);
    if (!y->copy) return iq_fail(err, IQ_MEMORY, "no memory for %zu twins", all);
    for (size_t i = 0; i < all; i++) {
        bool taken = i < 2 || !c->factor;
        for (const char *const *f = c->factor; f && *f; f++) taken |= !strcmp(*f, iq_twin_factors[i].name);
        if (taken) y->copy[y->n++].factor = &iq_twin_factors[i];
    }
    return IQ_OK;
}

static int train_all(const struct iq_twins_config *c, struct study *y, struct iq_err *err)
{
    struct iq_pool *pool;
    IQ_TRY(iq_variants_register(err)); /* before there are threads */
    IQ_TRY(iq_pool_open((int)(c->threads < y->n ? c->threads : y->n), &pool, err));
    iq_progress_begin(&y->bar, "training twins", "steps", 0, (uint64_t)c->steps * y->n);
    iq_pool_run(pool, make_some, y);
    iq_progress_end(&y->bar);
    iq_pool_close(pool);
    for (size_t i = 0; i < y->n; i++)
        if (y->copy[i].status != IQ_OK) return *err = y->copy[i].err, y->copy[i].status;
    return IQ_OK;
}

static int tell(const struct study *y, struct iq_twins *out, struct iq_err *err)
{
    const struct iq__twins_copy *reference = &y->copy[0];
    out->twin = calloc(y->n, sizeof *out->twin);
    if (!out->twin) return iq_fail(err, IQ_MEMORY, "no memory for %zu twins", y->n);
    out->n = y->n;
    out->steps = y->material->recipe.steps;
    out->asked = IQ__TWINS_QUESTIONS;
    out->tokens = y->material->answers;
    out->weights = reference->n_weights;
    for (size_t i = 0; i < y->n; i++) {
        out->twin[i].factor = y->copy[i].factor;
        iq__twins_compare(y->material, &y->copy[i], reference, &out->twin[i]);
    }
    out->repeated = out->twin[1].step == IQ_TWIN_EQUAL;
    iq__twins_spread(out);
    return IQ_OK;
}

int iq_twins_run(const struct iq_twins_config *c, struct iq_twins *out, struct iq_err *err)
{
    struct iq__twins_material *material = calloc(1, sizeof *material);
    struct study y = {.material = material};
    *out = (struct iq_twins){0};
    int status =
        material ? choose(c, &y, err) : iq_fail(err, IQ_MEMORY, "no memory for the study's questions");
    if (status == IQ_OK) status = iq__twins_draw(c, material, err);
    if (status == IQ_OK) status = train_all(c, &y, err);
    if (status == IQ_OK) status = tell(&y, out, err);
    for (size_t i = 0; i < y.n; i++) {
        free(y.copy[i].tensor);
        free(y.copy[i].state);
        free(y.copy[i].weights);
    }
    free(y.copy);
    if (material) {
        free(material->tokens);
        free(material->mask);
    }
    free(material);
    return status;
}

void iq_twins_close(struct iq_twins *t)
{
    free(t->twin);
    *t = (struct iq_twins){0};
}
