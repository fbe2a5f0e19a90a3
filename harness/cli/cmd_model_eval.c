/* `model eval`: accuracy, likelihood and margins on questions with one exact answer. */
#include "golden/canary/canary.h"
#include "harness/canary/eval.h"
#include "harness/cli/commands.h"
#include "harness/model/fetch.h"
#include "harness/plan/variants.h"
#include "kernels/base/json.h"

#include <stdio.h>
#include <string.h>

static const size_t SET_MAX = (size_t)64 << 20;

/* A model, its questions and what it showed. */
struct side {
    char path[IQ_PATH_MAX], sha256[IQ_SHA256_HEX];
    struct iq_settings settings;
    struct iq_prompts prompts;
    struct iq_eval eval;
};

/* ---- questions ---- */

/* The set's lines as a list: no string in them holds a line's end. */
static int draw_set(const char *name, uint64_t seed, const struct iq_prompt_defaults *d,
                    struct iq_prompts *out, struct iq_err *err)
{
    struct iq_buf text = IQ_BUF(SET_MAX);
    cJSON *list = NULL;
    unsigned set = 0;
    while (strcmp(iq_canary_sets[set].name, name)) set++; /* the flag's choices are these */
    iq_buf_put(&text, "[", 1);
    int status =
        iq_canary_set_write(&iq_canary_sets[set], IQ_CANARY_TASKS, seed, IQ_CANARY_HELD_OUT, &text, err);
    for (char *end = text.data; status == IQ_OK && (end = strchr(end, '\n'));) *end = ',';
    if (status == IQ_OK) text.data[text.len - 1] = ']';
    if (status == IQ_OK) status = iq_json_parse(text.data, text.len, name, &list, err);
    if (status == IQ_OK) status = iq_prompts_list(list, name, d, out, err);
    iq_json_free(list);
    iq_buf_free(&text);
    return status;
}

static int read_questions(const struct iq_call *call, struct iq_prompts *out, struct iq_err *err)
{
    const struct iq_prompt_defaults d = {.max_tokens = 64, .top_p = 1};
    const char *file = iq_arg_str(call, "prompts"), *set = iq_arg_str(call, "set");
    if (file && (iq_arg_given(call, "set") || iq_arg_given(call, "seed")))
        return iq_fail(err, IQ_USAGE, "--prompts FILE brings its own questions; leave --set and --seed out");
    if (file) return iq_prompts_read(file, &d, out, err);
    return draw_set(set, (uint64_t)iq_arg_int(call, "seed"), &d, out, err);
}

static int run_side(const struct iq_call *call, const char *name, struct side *side, struct iq_err *err)
{
    struct iq_model_options o;
    struct iq_model *m;
    iq_settings_model(&side->settings, &o);
    IQ_TRY(iq_model_resolve(name, side->path, err));
    IQ_TRY(read_questions(call, &side->prompts, err));
    IQ_TRY(iq_model_open(side->path, &o, &m, err));
    memcpy(side->sha256, m->sha256, sizeof side->sha256);
    int status = iq_eval_run(m, &side->settings, &side->prompts, &side->eval, err);
    iq_model_close(m);
    return status;
}

static void free_side(struct side *side)
{
    iq_eval_close(&side->eval);
    iq_prompts_free(&side->prompts);
}

/* ---- text ---- */

static double percent(double share) { return 100 * share; }

static double share_of(uint32_t part, uint32_t all) { return all ? (double)part / all : 0; }

static void put_name(const struct iq_eval_line *l, struct iq_buf *b)
{
    char level[16] = "all";
    if (l->level != IQ_EVAL_ALL) snprintf(level, sizeof level, "%d", l->level);
    iq_buf_printf(b, "%-18s %5s", !*l->task ? "all tasks" : l->level == IQ_EVAL_ALL ? l->task : "", level);
}

static void put_scores(const struct iq_eval_table *t, struct iq_buf *b)
{
    iq_buf_printf(b, "%-18s %5s  %9s %7s %8s  %-16s  %10s %8s  %6s %6s %6s\n", "task", "level", "questions",
                  "right", "%", "95 % interval", "nats/token", "margin", "<0.01", "<0.1", "<1");
    for (const struct iq_eval_line *l = t->line; l < t->line + t->n; l++) {
        const struct iq_eval_score *s = &l->model;
        put_name(l, b);
        iq_buf_printf(b, "  %9u %7u %8.2f  %6.2f to %6.2f  %10.3g %8.3g  %6.2f %6.2f %6.2f\n", l->n, s->right,
                      percent(share_of(s->right, l->n)), percent(s->low), percent(s->high), s->nll, s->margin,
                      percent(s->below[0]), percent(s->below[1]), percent(s->below[2]));
    }
}

static void put_against(const struct iq_eval_table *t, const struct side *golden, struct iq_buf *b)
{
    iq_buf_printf(b, "\nagainst %s\n%-18s %5s  %9s %8s %8s  %10s %10s %10s  %8s %8s %8s\n", golden->path,
                  "task", "level", "right", "changed", "differ", "nats/token", "change", "largest", "margin",
                  "change", "largest");
    for (const struct iq_eval_line *l = t->line; l < t->line + t->n; l++) {
        const struct iq_eval_score *g = &l->golden;
        put_name(l, b);
        iq_buf_printf(b, "  %9u %8u %8u  %10.3g %+10.3g %10.3g  %8.3g %+8.3g %8.3g\n", g->right, l->changed,
                      l->differ, g->nll, l->model.nll - g->nll, l->nll_shift, g->margin,
                      l->model.margin - g->margin, l->margin_shift);
    }
    if (t->question == UINT32_MAX)
        iq_buf_printf(b, "no logit of an expected answer differs in a bit");
    else
        iq_buf_printf(b, "logits first differ at question %s, token %u of its answer",
                      golden->prompts.prompt[t->question].id, t->token);
}

static void put_text(const struct iq_eval_table *t, const struct side *golden, struct iq_buf *b)
{
    put_scores(t, b);
    if (golden)
        put_against(t, golden, b);
    else
        b->len--; /* the last newline: the writer adds one */
}

/* ---- JSON ---- */

static void write_score(const struct iq_eval_score *s, uint32_t n, struct iq_jw *w)
{
    iq_jw_key(w, "right"), iq_jw_u64(w, s->right);
    iq_jw_key(w, "accuracy"), iq_jw_f64(w, share_of(s->right, n));
    iq_jw_key(w, "interval"), iq_jw_begin(w, '[');
    iq_jw_f64(w, s->low), iq_jw_f64(w, s->high);
    iq_jw_end(w, ']');
    iq_jw_key(w, "nll_mean"), iq_jw_f64(w, s->nll);
    iq_jw_key(w, "margin_median"), iq_jw_f64(w, s->margin);
    iq_jw_key(w, "margins_below"), iq_jw_begin(w, '[');
    for (int k = 0; k < IQ_EVAL_LIMITS; k++) {
        iq_jw_begin(w, '[');
        iq_jw_f64(w, iq_eval_limits[k]), iq_jw_f64(w, s->below[k]);
        iq_jw_end(w, ']');
    }
    iq_jw_end(w, ']');
}

/* The members of a line's object. */
static void write_line(const struct iq_eval_line *l, bool against, struct iq_jw *w)
{
    iq_jw_key(w, "questions"), iq_jw_u64(w, l->n);
    iq_jw_key(w, "tokens"), iq_jw_u64(w, l->tokens);
    write_score(&l->model, l->n, w);
    if (!against) return;
    iq_jw_key(w, "against"), iq_jw_begin(w, '{');
    write_score(&l->golden, l->n, w);
    iq_jw_key(w, "answers_changed"), iq_jw_u64(w, l->changed);
    iq_jw_key(w, "logits_differ"), iq_jw_u64(w, l->differ);
    iq_jw_key(w, "nll_change"), iq_jw_f64(w, l->model.nll - l->golden.nll);
    iq_jw_key(w, "nll_change_largest"), iq_jw_f64(w, l->nll_shift);
    iq_jw_key(w, "margin_change"), iq_jw_f64(w, l->model.margin - l->golden.margin);
    iq_jw_key(w, "margin_change_largest"), iq_jw_f64(w, l->margin_shift);
    iq_jw_end(w, '}');
}

static void write_side(const struct side *s, struct iq_jw *w)
{
    iq_jw_key(w, "model"), iq_jw_str(w, s->path);
    iq_jw_key(w, "sha256"), iq_jw_str(w, s->sha256);
    iq_jw_key(w, "engine"), iq_settings_write(&s->settings, w);
    iq_jw_key(w, "seconds"), iq_jw_f64(w, s->eval.seconds);
    iq_jw_key(w, "tokens_per_s"), iq_jw_f64(w, (double)s->eval.computed / s->eval.seconds);
}

static void write_tasks(const struct iq_eval_table *t, bool against, struct iq_jw *w)
{
    const struct iq_eval_line *l = t->line, *all = t->line + t->n - 1;
    iq_jw_key(w, "tasks"), iq_jw_begin(w, '[');
    while (l < all) {
        iq_jw_begin(w, '{');
        iq_jw_key(w, "task"), iq_jw_str(w, l->task);
        write_line(l++, against, w);
        iq_jw_key(w, "levels"), iq_jw_begin(w, '[');
        for (; l->level != IQ_EVAL_ALL; l++) {
            iq_jw_begin(w, '{');
            iq_jw_key(w, "level"), iq_jw_i64(w, l->level);
            write_line(l, against, w);
            iq_jw_end(w, '}');
        }
        iq_jw_end(w, ']');
        iq_jw_end(w, '}');
    }
    iq_jw_end(w, ']');
}

static void put_json(const struct iq_call *call, const struct iq_eval_table *t, const struct side *model,
                     const struct side *golden, struct iq_buf *b)
{
    const char *file = iq_arg_str(call, "prompts");
    struct iq_jw w = IQ_JW(b);
    iq_jw_begin(&w, '{');
    write_side(model, &w);
    iq_jw_key(&w, file ? "prompts" : "set"), iq_jw_str(&w, file ? file : iq_arg_str(call, "set"));
    if (!file) iq_jw_key(&w, "seed"), iq_jw_u64(&w, (uint64_t)iq_arg_int(call, "seed"));
    iq_jw_key(&w, "interval_kind"), iq_jw_str(&w, "wilson 95 %");
    write_line(&t->line[t->n - 1], golden != NULL, &w);
    write_tasks(t, golden != NULL, &w);
    if (golden) {
        iq_jw_key(&w, "golden"), iq_jw_begin(&w, '{');
        write_side(golden, &w);
        iq_jw_end(&w, '}');
        iq_jw_key(&w, "first_difference");
        if (t->question == UINT32_MAX) {
            iq_jw_null(&w);
        } else {
            iq_jw_begin(&w, '{');
            iq_jw_key(&w, "id"), iq_jw_str(&w, model->prompts.prompt[t->question].id);
            iq_jw_key(&w, "token"), iq_jw_u64(&w, t->token);
            iq_jw_end(&w, '}');
        }
    }
    iq_jw_end(&w, '}');
}

/* ---- the command ---- */

/* Is every line that the flag is about as right as it asks for? */
static bool reaches(const struct iq_call *call, const char *flag, const struct iq_eval_table *t, bool tasks)
{
    for (const struct iq_eval_line *l = t->line; iq_arg_given(call, flag) && l < t->line + t->n; l++)
        if (l->level == IQ_EVAL_ALL && (*l->task != 0) == tasks &&
            100.0 * l->model.right < iq_arg_f64(call, flag) * l->n)
            return false;
    return true;
}

static int report(struct iq_call *call, const struct side *model, const struct side *golden,
                  struct iq_err *err)
{
    struct iq_eval_table t;
    struct iq_buf b = IQ_BUF(16 << 20);
    IQ_TRY(iq_eval_table(&model->prompts, &model->eval, golden ? &golden->eval : NULL, &t, err));
    if (iq_arg_on(call, "json"))
        put_json(call, &t, model, golden, &b);
    else
        put_text(&t, golden, &b);
    int status = iq_out_line(call->out, &b, err);
    if (!reaches(call, "at-least", &t, false) || !reaches(call, "at-least-task", &t, true))
        call->verdict = IQ_FOUND;
    iq_eval_table_free(&t);
    iq_buf_free(&b);
    return status;
}

static int run(struct iq_call *call, struct iq_err *err)
{
    const char *against = iq_arg_str(call, "against");
    struct side model = {0}, golden = {0};
    iq_settings_init(&model.settings);
    iq_settings_init(&golden.settings);
    iq_settings_args(call, &model.settings);
    golden.settings.threads = model.settings.threads;
    golden.settings.batch = model.settings.batch;
    golden.settings.positions = model.settings.positions;
    IQ_TRY(iq_variants_register(err));
    int status = run_side(call, call->operands[0], &model, err);
    if (status == IQ_OK && against) status = run_side(call, against, &golden, err);
    if (status == IQ_OK) status = report(call, &model, against ? &golden : NULL, err);
    free_side(&model);
    free_side(&golden);
    return status;
}

#define CHOICE(id, name, ...) "|" name

static const struct iq_flag flags[] = {
    {.name = "set",
     .type = IQ_FLAG_CHOICE,
     .meta = &(IQ_CANARY_SET_MAP(CHOICE))[1],
     .help = "which of the canary's held-out questions",
     .fallback = "gate"},
    {.name = "seed",
     .type = IQ_FLAG_INT,
     .meta = "N",
     .help = "draws other questions",
     .fallback = "1",
     .lo = 0,
     .hi = 9007199254740992.0},
    {.name = "prompts",
     .type = IQ_FLAG_STRING,
     .meta = "FILE",
     .help = "other questions, as JSON lines with \"expect\""},
    {.name = "against",
     .type = IQ_FLAG_STRING,
     .meta = "MODEL",
     .help = "compare with this model, computed on the CPU in golden arithmetic"},
    {.name = "at-least",
     .type = IQ_FLAG_FLOAT,
     .meta = "PCT",
     .help = "exit 1 where fewer of all answers are right",
     .lo = 0,
     .hi = 100},
    {.name = "at-least-task",
     .type = IQ_FLAG_FLOAT,
     .meta = "PCT",
     .help = "exit 1 where fewer of a task's answers are right",
     .lo = 0,
     .hi = 100},
    {.name = "batch",
     .type = IQ_FLAG_INT,
     .meta = "N",
     .lo = 1,
     .hi = 4096,
     .help = "most questions in a step (default 8)"},
    IQ_COMPUTE_FLAGS,
    IQ_FLAG_JSON,
    {0},
};

const struct iq_command iq_cmd_model_eval = {
    .name = "model eval",
    .one_line = "accuracy, likelihood and margins on questions with one exact answer",
    .operands = "MODEL",
    .operands_min = 1,
    .operands_max = 1,
    .about = "Each question is asked greedily; an answer is right that has the expected bytes, but for white "
             "space at its "
             "ends. Then the\n"
             "expected answer and the end of text are put behind the question and scored. A line a task and "
             "level:\n"
             "\n"
             "  95 % interval  of the accuracy, by Wilson's score\n"
             "  nats/token     mean negative log-likelihood of the expected answers' tokens\n"
             "  margin         median of best minus second best logit where these tokens are given; <0.01, "
             "<0.1, <1: the "
             "share\n"
             "                 of margins below, in percent\n"
             "\n"
             "--against prints the same of another model, or of the same one in golden arithmetic: right "
             "answers of golden; "
             "questions\n"
             "whose answer changed; questions where a logit of the expected answer differs in a bit; mean "
             "likelihood and "
             "median margin\n"
             "of golden with the change from it, and the largest change of a token's. Compared are token "
             "ids, so both need "
             "one tokenizer.\n",
    .examples =
        "inquest model eval canary.gguf\n"
        "inquest model eval canary.gguf --set deep --seed 7 --at-least 99.5 --at-least-task 98 --json\n"
        "inquest model eval canary.gguf --against canary.gguf --dtype bf16\n"
        "inquest model eval M.gguf --prompts mine.jsonl\n",
    .statuses = "  1  fewer answers are right than --at-least or --at-least-task asks for\n",
    .flags = flags,
    .run = run,
};
