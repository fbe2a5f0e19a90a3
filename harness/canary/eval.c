#include "harness/canary/eval.h"

#include "golden/answer.h"
#include "harness/cli/progress.h"
#include "kernels/base/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the questions as two sets of requests ---- */

struct exam {
    const struct iq_model *model;
    struct iq_prompts *prompts;
    struct iq_armed *armed;    /* or NULL */
    struct iq_request *scored; /* (n) prompt and expected answer */
    struct iq_ids ids;         /* theirs, one behind the other */
    uint64_t to_do;            /* rows of both passes */
};

static int check_prompt(const struct iq_prompt *p, struct iq_err *err)
{
    if (!p->expect)
        return iq_fail(err, IQ_FORMAT, "prompt %s: \"expect\" is missing, expected the exact answer", p->id);
    if (p->request.temperature > 0)
        return iq_fail(err, IQ_FORMAT,
                       "prompt %s: found temperature %g, expected 0: questions are asked greedily", p->id,
                       (double)p->request.temperature);
    return IQ_OK;
}

/* The prompt's tokens, the answer's, the end; of a near tie the answer's that were recorded. */
static int put_scored(struct exam *x, const struct iq_prompt *p, struct iq_err *err)
{
    const struct iq_tokenizer *t = x->model->tokenizer;
    const uint32_t end = iq_tokenizer_eos(t);
    for (size_t i = 0; i < p->ids.n; i++) IQ_TRY(iq_ids_put(&x->ids, p->ids.id[i], err));
    for (size_t i = 0; i < p->tie.ids.n; i++) IQ_TRY(iq_ids_put(&x->ids, p->tie.ids.id[i], err));
    if (p->tie.ids.n) return IQ_OK;
    if (iq_tokenizer_encode(t, p->expect, strlen(p->expect), 0, &x->ids, err) != IQ_OK)
        return iq_err_prefix(err, "prompt %s: expect: ", p->id);
    return end == IQ_TOKEN_NONE ? IQ_OK : iq_ids_put(&x->ids, end, err);
}

static int prepare(struct exam *x, struct iq_eval *e, struct iq_err *err)
{
    const uint32_t n = x->prompts->n;
    e->question = calloc((size_t)n + 1, sizeof *e->question);
    x->scored = calloc((size_t)n + 1, sizeof *x->scored);
    if (!e->question || !x->scored) return iq_fail(err, IQ_MEMORY, "no memory for %u questions", n);
    e->n = n;
    for (uint32_t i = 0; i < n; i++) IQ_TRY(check_prompt(&x->prompts->prompt[i], err));
    IQ_TRY(iq_prompts_tokenize(x->prompts, x->model, err));
    for (uint32_t i = 0; i < n; i++) {
        const struct iq_prompt *p = &x->prompts->prompt[i];
        const size_t before = x->ids.n;
        IQ_TRY(put_scored(x, p, err));
        x->scored[i] = (struct iq_request){.index = i,
                                           .id = p->id,
                                           .params = "{}",
                                           .n_prompt = (uint32_t)(x->ids.n - before),
                                           .top_p = 1,
                                           .score = true};
        e->question[i].first = e->tokens;
        e->question[i].tokens = x->scored[i].n_prompt - (uint32_t)p->ids.n;
        e->tokens += e->question[i].tokens;
    }
    size_t at = 0;
    struct iq_digest d[2] = {{0, 0}, {0, 0}};
    for (uint32_t i = 0; i < n; at += x->scored[i++].n_prompt) {
        x->scored[i].prompt = x->ids.id + at;
        d[1] = iq_digest_bytes(x->scored[i].prompt, x->scored[i].n_prompt * sizeof *x->ids.id);
        d[0] = iq_digest_list(d, 2);
    }
    e->asked = d[0];
    x->to_do = 2 * (uint64_t)x->ids.n;
    e->token = calloc(e->tokens + 1, sizeof *e->token);
    return e->token ? IQ_OK : iq_fail(err, IQ_MEMORY, "no memory for %zu tokens", e->tokens);
}

/* ---- asking ---- */

typedef int take_fn(const struct exam *, uint32_t i, const struct iq_output *, struct iq_eval *,
                    struct iq_err *);

static int take_answer(const struct exam *x, uint32_t i, const struct iq_output *o, struct iq_eval *e,
                       struct iq_err *err)
{
    struct iq_buf text = IQ_BUF((size_t)1 << 28);
    struct iq_eval_question *q = &e->question[i];
    const uint32_t *ids = o->ids + o->n_prompt, n = o->n_ids - o->n_prompt;
    const struct iq_ids *tie = &x->prompts->prompt[i].tie.ids;
    q->answer = iq_digest_bytes(ids, n * sizeof *ids);
    while (q->kept < n && q->kept < tie->n && ids[q->kept] == tie->id[q->kept]) q->kept++;
    int status = iq_tokenizer_decode(x->model->tokenizer, ids, n, IQ_DECODE_SKIP, &text, err);
    q->right = iq_answer_right(text.data ? text.data : "", text.len, x->prompts->prompt[i].expect);
    iq_buf_free(&text);
    return status;
}

static float gap(const struct iq_position *p, uint32_t token)
{
    for (int k = 0; k < IQ_TOP; k++)
        if (p->top_id[k] == token) return p->top_logit[k] - p->top_logit[k == 0];
    return -INFINITY;
}

/* The row in front of a token gives it. */
static int take_score(const struct exam *x, uint32_t i, const struct iq_output *o, struct iq_eval *e,
                      struct iq_err *err)
{
    struct iq_eval_question *q = &e->question[i];
    (void)err;
    if (x->prompts->prompt[i].tie.ids.n)
        q->gap = gap(&o->position[o->n_prompt - 2], x->scored[i].prompt[o->n_prompt - 1]);
    for (uint32_t t = 0; t < q->tokens; t++) {
        const uint32_t at = o->n_prompt - q->tokens + t;
        const struct iq_position *p = &o->position[at - 1];
        e->token[q->first + t] = (struct iq_eval_token){o->nll[at], p->margin, p->logits};
    }
    return IQ_OK;
}

static int ask(const struct exam *x, const struct iq_settings *s, const struct iq_request *request,
               take_fn *take, struct iq_progress *bar, struct iq_eval *e, struct iq_err *err)
{
    struct iq_engine_config c;
    struct iq_engine *engine = NULL;
    iq_settings_engine(s, &c);
    c.prefix_cache = false;
    c.untraced = take == take_answer && !x->armed;
    int status = iq_engine_open(x->model, &c, request, e->n, &engine, err);
    if (status == IQ_OK && x->armed) {
        iq_engine_arm(engine, &x->armed->selector);
        iq_engine_record(engine, &x->armed->sink);
    }
    for (bool more = e->n > 0; status == IQ_OK && more;) {
        status = iq_engine_step(engine, &more, err);
        iq_progress_at(bar, e->computed + iq_engine_stats(engine)->tokens);
    }
    for (uint32_t i = 0; status == IQ_OK && i < e->n; i++)
        status = take(x, i, iq_engine_output(engine, i), e, err);
    if (engine) e->computed += iq_engine_stats(engine)->tokens;
    iq_engine_close(engine);
    return status;
}

int iq_eval_run(const struct iq_model *m, const struct iq_settings *s, struct iq_armed *armed,
                struct iq_prompts *prompts, struct iq_eval *e, struct iq_err *err)
{
    struct exam x = {.model = m, .prompts = prompts, .armed = armed};
    const double began = iq_clock_s();
    struct iq_progress bar;
    *e = (struct iq_eval){0};
    int status = prepare(&x, e, err);
    if (status == IQ_OK) {
        iq_progress_begin(&bar, "asking", "tok", 0, x.to_do);
        status = ask(&x, s, prompts->request, take_answer, &bar, e, err);
        if (status == IQ_OK) status = ask(&x, s, x.scored, take_score, &bar, e, err);
        iq_progress_end(&bar);
    }
    e->seconds = iq_clock_s() - began;
    iq_ids_free(&x.ids);
    free(x.scored);
    if (status != IQ_OK) iq_eval_close(e);
    return status;
}

void iq_eval_close(struct iq_eval *e)
{
    free(e->question);
    free(e->token);
    *e = (struct iq_eval){0};
}
