/* Tables of what iq_eval_run found. */
#include "harness/canary/eval.h"

#include "golden/answer.h"
#include "kernels/base/grow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const double iq_eval_limits[IQ_EVAL_LIMITS] = {0.01, 0.1, 1};

enum { KINDS = 256 }; /* tasks and levels, at most */

struct kind {
    char task[IQ_EVAL_TASK];
    int level;
};

/* "far-lookup.2.17": task far-lookup, level 2. */
static struct kind kind_of(const char *id)
{
    enum { DIGITS = 4 };
    struct kind k = {"other", 0};
    const size_t name = strcspn(id, ".");
    const char *level = id + name + (id[name] == '.'), *number;
    const size_t digits = strspn(level, "0123456789");
    number = level + digits + (level[digits] == '.');
    const size_t more = strspn(number, "0123456789");
    if (!name || name >= IQ_EVAL_TASK || !digits || digits > DIGITS || level[digits] != '.' || !more ||
        number[more])
        return k;
    memset(k.task, 0, sizeof k.task);
    memcpy(k.task, id, name);
    k.level = atoi(level);
    return k;
}

/* What a line is about. */
struct part {
    const struct iq_eval *model, *golden;
    struct kind kind[KINDS];
    uint32_t kinds;
    uint16_t *of; /* (n) a question's kind */
    struct iq_eval_line *line;
    float *margin; /* room for all tokens */
};

static bool same_kind(const struct kind *a, const struct kind *b)
{
    return !strcmp(a->task, b->task) && a->level == b->level;
}

static int sort_out(struct part *p, const struct iq_prompts *prompts, struct iq_err *err)
{
    for (uint32_t i = 0; i < prompts->n; i++) {
        const struct kind k = kind_of(prompts->prompt[i].id);
        uint32_t at = 0;
        while (at < p->kinds && !same_kind(&p->kind[at], &k)) at++;
        if (at == KINDS)
            return iq_fail(err, IQ_LIMIT, "prompt %s: more than %d tasks and levels; ask them in parts",
                           prompts->prompt[i].id, KINDS);
        if (at == p->kinds) p->kind[p->kinds++] = k;
        p->of[i] = (uint16_t)at;
    }
    return IQ_OK;
}

static bool within(const struct part *p, uint32_t i)
{
    const struct iq_eval_line *l = p->line;
    const struct kind *k = &p->kind[p->of[i]];
    return (!*l->task || !strcmp(l->task, k->task)) && (l->level == IQ_EVAL_ALL || l->level == k->level);
}

/* NaN last. */
static int ascending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return isnan(x) || isnan(y) ? isnan(x) - isnan(y) : (x > y) - (x < y);
}

static void score(const struct part *p, const struct iq_eval *e, struct iq_eval_score *s)
{
    size_t n = 0;
    double sum = 0;
    *s = (struct iq_eval_score){0};
    for (uint32_t i = 0; i < e->n; i++) {
        const struct iq_eval_question *q = &e->question[i];
        if (!within(p, i)) continue;
        s->right += q->right;
        for (uint32_t t = 0; t < q->tokens; t++) {
            sum += e->token[q->first + t].nll;
            p->margin[n++] = e->token[q->first + t].margin;
        }
    }
    iq_answer_interval(s->right, p->line->n, &s->low, &s->high);
    if (!n) return;
    qsort(p->margin, n, sizeof *p->margin, ascending);
    s->nll = sum / (double)n;
    s->margin = ((double)p->margin[(n - 1) / 2] + (double)p->margin[n / 2]) / 2;
    for (int k = 0; k < IQ_EVAL_LIMITS; k++) {
        size_t under = 0;
        while (under < n && (double)p->margin[under] < iq_eval_limits[k]) under++;
        s->below[k] = (double)under / (double)n;
    }
}

/* The first of the answer's tokens where logits differ; their number: nowhere. */
static uint32_t first_difference(const struct iq_eval *a, const struct iq_eval *b, uint32_t i)
{
    const struct iq_eval_question *q = &a->question[i];
    uint32_t t = 0;
    while (t < q->tokens && iq_digest_equal(a->token[q->first + t].logits, b->token[q->first + t].logits))
        t++;
    return t;
}

/* The larger; a NaN stays. */
static double larger(double a, double b) { return b > a || isnan(b) ? b : a; }

static void compare(const struct part *p)
{
    const struct iq_eval *a = p->model, *b = p->golden;
    struct iq_eval_line *l = p->line;
    for (uint32_t i = 0; i < a->n; i++) {
        const struct iq_eval_question *q = &a->question[i];
        if (!within(p, i)) continue;
        l->changed += !iq_digest_equal(q->answer, b->question[i].answer);
        l->differ += first_difference(a, b, i) < q->tokens;
        for (size_t t = q->first; t < q->first + q->tokens; t++) {
            l->nll_shift = larger(l->nll_shift, fabs(a->token[t].nll - b->token[t].nll));
            l->margin_shift =
                larger(l->margin_shift, fabs((double)a->token[t].margin - (double)b->token[t].margin));
        }
    }
}

static int add_line(struct iq_eval_table *table, struct part *p, const char *task, int level,
                    struct iq_err *err)
{
    IQ_TRY(iq_grow(&table->line, &table->cap, table->n + 1, sizeof *table->line, err));
    struct iq_eval_line *l = p->line = &table->line[table->n++];
    memcpy(l->task, task, strlen(task) + 1);
    l->level = level;
    for (uint32_t i = 0; i < p->model->n; i++) {
        if (!within(p, i)) continue;
        l->n++;
        l->tokens += p->model->question[i].tokens;
    }
    score(p, p->model, &l->model);
    if (!p->golden) return IQ_OK;
    score(p, p->golden, &l->golden);
    compare(p);
    return IQ_OK;
}

/* In the order in which they come up; a task's levels stand together. */
static int add_lines(struct iq_eval_table *table, struct part *p, struct iq_err *err)
{
    for (uint32_t i = 0; i < p->kinds; i++) {
        const char *task = p->kind[i].task;
        uint32_t first = 0;
        while (strcmp(p->kind[first].task, task)) first++;
        if (first < i) continue;
        IQ_TRY(add_line(table, p, task, IQ_EVAL_ALL, err));
        for (uint32_t j = i; j < p->kinds; j++)
            if (!strcmp(p->kind[j].task, task)) IQ_TRY(add_line(table, p, task, p->kind[j].level, err));
    }
    return add_line(table, p, "", IQ_EVAL_ALL, err);
}

static void find_first(struct iq_eval_table *table, const struct part *p)
{
    table->question = UINT32_MAX;
    for (uint32_t i = 0; p->golden && i < p->model->n; i++) {
        table->token = first_difference(p->model, p->golden, i);
        if (table->token == p->model->question[i].tokens) continue;
        table->question = i;
        return;
    }
}

int iq_eval_table(const struct iq_prompts *prompts, const struct iq_eval *model, const struct iq_eval *golden,
                  struct iq_eval_table *table, struct iq_err *err)
{
    *table = (struct iq_eval_table){0};
    if (golden && (golden->n != model->n || !iq_digest_equal(golden->asked, model->asked)))
        return iq_fail(err, IQ_MISMATCH,
                       "the two models have other token ids for the same questions; expected models with one "
                       "tokenizer");
    struct part p = {.model = model,
                     .golden = golden,
                     .of = calloc((size_t)model->n + 1, sizeof *p.of),
                     .margin = calloc(model->tokens + 1, sizeof *p.margin)};
    int status = p.of && p.margin
                     ? sort_out(&p, prompts, err)
                     : iq_fail(err, IQ_MEMORY, "no memory for a table of %u questions", model->n);
    if (status == IQ_OK) status = add_lines(table, &p, err);
    if (status == IQ_OK) find_first(table, &p);
    free(p.of);
    free(p.margin);
    if (status != IQ_OK) iq_eval_table_free(table);
    return status;
}

void iq_eval_table_free(struct iq_eval_table *table)
{
    free(table->line);
    *table = (struct iq_eval_table){0};
}
