/* What twins are trained on and asked: the canary's tasks of level 0 that so small a model learns in so few steps. */
#include "harness/study/twins_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const enum iq_canary_id tasks[IQ__TWINS_TASKS] = {IQ_CANARY_SORT, IQ_CANARY_BRACKETS};

static struct iq_train_recipe recipe_of(const struct iq_twins_config *c)
{
    return (struct iq_train_recipe){.vocab = IQ_CANARY_VOCAB,
                                    .hidden = 64,
                                    .layers = 2,
                                    .heads = 4,
                                    .kv_heads = 4,
                                    .head_dim = 16,
                                    .ffn = 128,
                                    .length = IQ__TWINS_LENGTH,
                                    .rope_base = 10000,
                                    .norm_eps = 1e-5,
                                    .init_embed = 1,
                                    .init_in = 0.0625,
                                    .init_head = 0.0625,
                                    .dropout = 0.05,
                                    .steps = c->steps,
                                    .warmup = c->steps < 40 ? c->steps / 2 : 20,
                                    .schedule = IQ_TRAIN_LINEAR,
                                    .tail = 0.5,
                                    .rate = 6e-3,
                                    .beta1 = 0.9,
                                    .beta2 = 0.95,
                                    .eps = 1e-8,
                                    .decay = 0.1,
                                    .clip = 1,
                                    .seed = c->seed};
}

/* ---- drawing ---- */

static int draw_question(struct iq__twins_material *s, uint32_t i, uint64_t seed, struct iq_canary_prompt *p,
                         struct iq_err *err)
{
    struct iq__twins_question *q = &s->question[i];
    IQ_TRY(iq_canary_draw(tasks[i % IQ__TWINS_TASKS], 0, seed, i, IQ_CANARY_HELD_OUT, p, err));
    const size_t n = iq_canary_encode(p->text, strlen(p->text), q->id, IQ__TWINS_LONGEST),
                 more = strlen(p->answer);
    if (n + more + 1 > IQ__TWINS_LONGEST)
        return iq_fail(err, IQ_INTERNAL, "twins: a question of %zu ids, expected at most %d", n + more + 1,
                       IQ__TWINS_LONGEST);
    for (size_t k = 0; k < more; k++) q->id[n + k] = (unsigned char)p->answer[k];
    q->id[n + more] = IQ_CANARY_END;
    q->prompt = (uint32_t)n;
    q->n = (uint32_t)(n + more + 1);
    s->answers += q->n - q->prompt;
    return IQ_OK;
}

static int draw_row(struct iq__twins_material *s, size_t i, uint64_t seed, struct iq_canary_row *row,
                    struct iq_err *err)
{
    struct iq_canary_mix mix = {.level = {1}, .length = IQ__TWINS_LENGTH};
    for (int t = 0; t < IQ__TWINS_TASKS; t++) mix.weight[tasks[t]] = 1;
    IQ_TRY(iq_canary_row(&mix, seed, i, IQ_CANARY_TRAIN, row, err));
    memcpy(s->tokens + i * IQ__TWINS_LENGTH, row->id, IQ__TWINS_LENGTH * sizeof *s->tokens);
    memcpy(s->mask + i * IQ__TWINS_LENGTH, row->loss, IQ__TWINS_LENGTH);
    return IQ_OK;
}

int iq__twins_draw(const struct iq_twins_config *c, struct iq__twins_material *s, struct iq_err *err)
{
    const size_t rows = (size_t)c->steps * IQ__TWINS_ROWS;
    union {
        struct iq_canary_prompt prompt;
        struct iq_canary_row row;
    } *room = malloc(sizeof *room);
    s->recipe = recipe_of(c);
    s->tokens = malloc(rows * IQ__TWINS_LENGTH * sizeof *s->tokens);
    s->mask = malloc(rows * IQ__TWINS_LENGTH);
    int status = room && s->tokens && s->mask
                     ? IQ_OK
                     : iq_fail(err, IQ_MEMORY, "no memory for %zu rows of training", rows);
    for (size_t i = 0; status == IQ_OK && i < rows; i++) status = draw_row(s, i, c->seed, &room->row, err);
    for (uint32_t i = 0; status == IQ_OK && i < IQ__TWINS_QUESTIONS; i++)
        status = draw_question(s, i, c->seed, &room->prompt, err);
    free(room);
    return status;
}

/* ---- judging ---- */

struct iq__twins_score iq__twins_judge(const struct iq__twins_question *q, const float *logits)
{
    struct iq__twins_score out = {0, true};
    for (uint32_t i = q->prompt; i < q->n; i++) {
        const float *row = logits + (size_t)(i - 1) * IQ_CANARY_VOCAB;
        uint32_t best = 0;
        double sum = 0;
        for (uint32_t v = 1; v < IQ_CANARY_VOCAB; v++)
            if (row[v] > row[best]) best = v;
        for (uint32_t v = 0; v < IQ_CANARY_VOCAB; v++) sum += exp((double)row[v] - (double)row[best]);
        out.right &= best == q->id[i];
        out.nll += log(sum) + (double)row[best] - (double)row[q->id[i]];
    }
    return out;
}
