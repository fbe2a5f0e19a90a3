/* One copy against the reference: the first bit that differs, how far apart the weights are, and the answers pair by pair. */
#include "golden/answer.h"
#include "harness/study/twins_parts.h"

#include <math.h>
#include <stdio.h>

static void first_difference(const struct iq__twins_copy *c, const struct iq__twins_copy *reference,
                             uint32_t steps, struct iq_twin *out)
{
    const size_t per_step = IQ__TWINS_STATES * c->tensors;
    out->step = IQ_TWIN_EQUAL;
    for (size_t i = 0; i < (steps + (size_t)1) * per_step; i++) {
        if (iq_digest_equal(c->state[i], reference->state[i])) continue;
        out->step = (int64_t)(i / per_step) - 1;
        out->moments = i % per_step >= c->tensors;
        snprintf(out->tensor, sizeof out->tensor, "%s", c->tensor[i % c->tensors].name);
        return;
    }
}

static double distance(const struct iq__twins_copy *c, const struct iq__twins_copy *reference)
{
    double apart = 0, size = 0;
    for (size_t i = 0; i < c->n_weights; i++) {
        double w = reference->weights[i], d = (double)c->weights[i] - w;
        apart += d * d;
        size += w * w;
    }
    return sqrt(apart / size);
}

/* The mean over tokens, clustered by question: the variance of a ratio of sums, linearised. */
static void compare_nll(const struct iq__twins_material *s, const struct iq__twins_copy *c,
                        const struct iq__twins_copy *reference, struct iq_twin *out)
{
    const double n = IQ__TWINS_QUESTIONS, tokens = (double)s->answers;
    double squares = 0;
    for (int i = 0; i < IQ__TWINS_QUESTIONS; i++) {
        out->nll += c->score[i].nll / tokens;
        out->nll_by += (c->score[i].nll - reference->score[i].nll) / tokens;
    }
    for (int i = 0; i < IQ__TWINS_QUESTIONS; i++) {
        const struct iq__twins_question *q = &s->question[i];
        double rest = c->score[i].nll - reference->score[i].nll - out->nll_by * (q->n - q->prompt);
        squares += rest * rest;
    }
    double half = IQ_ANSWER_Z * sqrt(squares * n / (n - 1)) / tokens;
    out->nll_by_low = out->nll_by - half;
    out->nll_by_high = out->nll_by + half;
}

static void compare_answers(const struct iq__twins_copy *c, const struct iq__twins_copy *reference,
                            struct iq_twin *out)
{
    uint64_t lost = 0, gained = 0;
    for (int i = 0; i < IQ__TWINS_QUESTIONS; i++) {
        out->right += c->score[i].right;
        lost += reference->score[i].right && !c->score[i].right;
        gained += c->score[i].right && !reference->score[i].right;
    }
    iq_answer_interval(out->right, IQ__TWINS_QUESTIONS, &out->low, &out->high);
    out->right_by = ((double)gained - (double)lost) / IQ__TWINS_QUESTIONS;
    iq_answer_difference(lost, gained, IQ__TWINS_QUESTIONS, &out->right_by_low, &out->right_by_high);
}

void iq__twins_compare(const struct iq__twins_material *s, const struct iq__twins_copy *c,
                       const struct iq__twins_copy *reference, struct iq_twin *out)
{
    first_difference(c, reference, s->recipe.steps, out);
    out->distance = distance(c, reference);
    out->loss = c->loss;
    compare_answers(c, reference, out);
    compare_nll(s, c, reference, out);
}

void iq__twins_spread(struct iq_twins *s)
{
    double right = 0, nll = 0, right_squares = 0, nll_squares = 0;
    for (size_t i = 0; i < s->n; i++) {
        const struct iq_twin *t = &s->twin[i];
        if (i && t->step == IQ_TWIN_EQUAL) continue;
        s->copies++;
        right += (double)t->right / s->asked;
        nll += t->nll;
    }
    s->right_mean = right / s->copies;
    s->nll_mean = nll / s->copies;
    for (size_t i = 0; i < s->n; i++) {
        const struct iq_twin *t = &s->twin[i];
        if (i && t->step == IQ_TWIN_EQUAL) continue;
        double r = (double)t->right / s->asked - s->right_mean, l = t->nll - s->nll_mean;
        right_squares += r * r;
        nll_squares += l * l;
    }
    if (s->copies < 2) return;
    s->right_deviation = sqrt(right_squares / (s->copies - 1));
    s->nll_deviation = sqrt(nll_squares / (s->copies - 1));
}
