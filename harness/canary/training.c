#include "harness/canary/training.h"

#include "golden/canary/canary.h"
#include "harness/cli/progress.h"
#include "kernels/base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int iq_canary_batch(uint64_t seed, uint32_t step, uint32_t steps, uint32_t *tokens, uint8_t *mask,
                    struct iq_train_batch *out, struct iq_err *err)
{
    struct iq_canary_step s;
    struct iq_canary_row *row = malloc(sizeof *row);
    int status = row ? iq_canary_step(seed, step, steps, &s, err)
                     : iq_fail(err, IQ_MEMORY, "no memory for a row of the canary");
    for (uint32_t i = 0; status == IQ_OK && i < s.rows; i++) {
        status = iq_canary_row(&s.mix, seed, s.first + i, IQ_CANARY_TRAIN, row, err);
        if (status != IQ_OK) break;
        memcpy(tokens + (size_t)i * row->n, row->id, row->n * sizeof *tokens);
        memcpy(mask + (size_t)i * row->n, row->loss, row->n);
    }
    free(row);
    if (status == IQ_OK) *out = (struct iq_train_batch){s.rows, s.mix.length, tokens, mask};
    return status;
}

/* ---- signals: the step in hand is finished, and a checkpoint written ---- */

static volatile sig_atomic_t asked;

static void ask(int sig)
{
    (void)sig;
    asked = 1; /* SA_RESETHAND: a second one ends the process */
}

static const int ends[] = {SIGINT, SIGTERM};
enum { ENDS = sizeof ends / sizeof *ends };

static void watch_signals(struct sigaction before[ENDS])
{
    struct sigaction act = {.sa_handler = ask, .sa_flags = (int)SA_RESETHAND};
    asked = 0;
    for (int i = 0; i < ENDS; i++) sigaction(ends[i], &act, &before[i]);
}

static void restore_signals(const struct sigaction before[ENDS])
{
    for (int i = 0; i < ENDS; i++) sigaction(ends[i], &before[i], NULL);
}

/* ---- the run ---- */

static bool same_recipe(const struct iq_train_recipe *a, const struct iq_train_recipe *b)
{
#define X(type, field, least, most, what)                                                                    \
    if (a->field != b->field) return false;
    IQ_TRAIN_RECIPE_MAP(X)
#undef X
    return true;
}

/* From the checkpoint where there is one, else from the beginning. */
static int begin(const struct iq_canary_training *c, struct iq_train **out, struct iq_err *err)
{
    struct iq_err absent = {0};
    int status = iq_train_load(c->checkpoint, &c->options, out, &absent);
    if (status == IQ_NOT_FOUND) return iq_train_open(&c->recipe->train, &c->options, out, err);
    if (status != IQ_OK) return iq_fail(err, status, "%s; remove it to begin again", absent.text);
    if (!same_recipe(iq_train_recipe_of(*out), &c->recipe->train))
        return iq_fail(err, IQ_MISMATCH,
                       "%s: it is a checkpoint of another recipe, expected that of the canary `%s`; name "
                       "another file or remove it",
                       c->checkpoint, c->recipe->name);
    iq_say("%s: going on from step %u", c->checkpoint, iq_train_steps_done(*out));
    return IQ_OK;
}

static const char *golden_digest(const struct iq_canary_recipe *r, uint32_t step)
{
    for (const struct iq_canary_golden *g = r->golden; g->digest; g++)
        if (g->step == step) return g->digest;
    return NULL;
}

/* A stretch up to the next report. */
struct stretch {
    struct iq_canary_report report;
    double began;
    uint64_t ids;
    uint32_t steps;
};

static int step(struct iq_train *t, struct stretch *s, uint32_t *tokens, uint8_t *mask, struct iq_err *err)
{
    const struct iq_train_recipe *r = iq_train_recipe_of(t);
    struct iq_train_batch batch;
    struct iq_train_result result;
    uint64_t seed;
    IQ_TRY(iq_train_data_seed(t, r->seed, &seed, err));
    IQ_TRY(iq_canary_batch(seed, iq_train_steps_done(t), r->steps, tokens, mask, &batch, err));
    IQ_TRY(iq_train_step(t, &batch, &result, err));
    s->report.loss += result.loss;
    s->report.norm = result.norm;
    s->report.rate = result.rate;
    s->report.targets += result.targets;
    s->report.hits += result.hits;
    s->ids += (uint64_t)batch.rows * batch.length;
    s->steps++;
    return IQ_OK;
}

static int end_stretch(const struct iq_canary_training *c, const struct iq_train *t, struct stretch *s,
                       struct iq_err *err)
{
    if (!s->steps) return IQ_OK;
    s->report.step = iq_train_steps_done(t);
    s->report.loss /= s->steps;
    s->report.tokens_s = (double)s->ids / (iq_clock_s() - s->began);
    s->report.digest = iq_train_digest(t);
    s->report.golden = golden_digest(c->recipe, s->report.step);
    IQ_TRY(iq_train_save(t, c->checkpoint, err));
    IQ_TRY(c->report(c->ctx, &s->report, err));
    *s = (struct stretch){.began = iq_clock_s()};
    return IQ_OK;
}

static int go_on(const struct iq_canary_training *c, struct iq_train *t, struct iq_err *err)
{
    static uint32_t tokens[IQ_CANARY_STEP_IDS];
    static uint8_t mask[IQ_CANARY_STEP_IDS];
    const uint32_t first = iq_train_steps_done(t);
    struct stretch s = {.began = iq_clock_s()};
    struct iq_progress bar;
    int status = IQ_OK;
    iq_progress_begin(&bar, "training", "tok", (uint64_t)first * IQ_CANARY_STEP_IDS,
                      (uint64_t)c->until * IQ_CANARY_STEP_IDS);
    for (uint32_t done = first; status == IQ_OK && done < c->until && !asked;) {
        double loss = s.report.loss;
        status = step(t, &s, tokens, mask, err);
        if (status != IQ_OK) break;
        done = iq_train_steps_done(t);
        snprintf(bar.label, sizeof bar.label, "step %u of %u, loss %.3f", done, c->until,
                 s.report.loss - loss);
        iq_progress_at(&bar, (uint64_t)done * IQ_CANARY_STEP_IDS);
        if (done % c->every == 0) status = end_stretch(c, t, &s, err);
    }
    iq_progress_end(&bar);
    return status == IQ_OK ? end_stretch(c, t, &s, err) : status;
}

int iq_canary_train(const struct iq_canary_training *c, struct iq_train **out, bool *interrupted,
                    struct iq_err *err)
{
    struct sigaction before[ENDS];
    IQ_TRY(begin(c, out, err));
    watch_signals(before);
    int status = go_on(c, *out, err);
    *interrupted = asked;
    restore_signals(before);
    return status;
}
