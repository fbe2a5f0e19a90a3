/* `model eval`: accuracy, likelihood and margins on questions with one exact answer. */
#include "golden/canary/canary.h"
#include "harness/canary/eval.h"
#include "harness/canary/near_ties.h"
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
    struct iq_armed armed;
    struct iq_eval eval;
};

/* ---- questions ---- */

/* Lines as a list: no string in them holds a line's end. */
static int read_lines(struct iq_buf *text, const char *name, const struct iq_prompt_defaults *d,
                      struct iq_prompts *out, struct iq_err *err)
{
    cJSON *list = NULL;
    for (char *end = text->data; (end = strchr(end, '\n'));) *end = ',';
    text->data[text->len - 1] = ']';
    int status = iq_json_parse(text->data, text->len, name, &list, err);
    if (status == IQ_OK) status = iq_prompts_list(list, name, d, out, err);
    iq_json_free(list);
    return status;
}

static int draw_set(const struct iq_call *call, struct iq_buf *out, struct iq_err *err)
{
    unsigned set = 0;
    while (strcmp(iq_canary_sets[set].name, iq_arg_str(call, "set")))
        set++; /* the flag's choices are these */
    return iq_canary_set_write(&iq_canary_sets[set], IQ_CANARY_TASKS, (uint64_t)iq_arg_int(call, "seed"),
                               IQ_CANARY_HELD_OUT, out, err);
}

static bool near_tie_set(const struct iq_call *call)
{
    return !iq_arg_str(call, "prompts") && !strcmp(iq_arg_str(call, "set"), "near-tie");
}

/* The near ties of the model that is golden. */
static int take_ties(const struct iq_call *call, struct iq_buf *out, struct iq_err *err)
{
    const char *against = iq_arg_str(call, "against");
    const struct iq_shipped *ties;
    if (iq_arg_given(call, "seed"))
        return iq_fail(err, IQ_USAGE, "the set near-tie is recorded, not drawn; leave --seed out");
    IQ_TRY(iq_near_ties_find(against ? against : call->operands[0], &ties, err));
    iq_buf_put(out, ties->text, ties->len);
    return IQ_OK;
}

static int read_questions(const struct iq_call *call, struct iq_prompts *out, struct iq_err *err)
{
    const struct iq_prompt_defaults d = {.max_tokens = 64, .top_p = 1};
    const char *file = iq_arg_str(call, "prompts");
    struct iq_buf text = IQ_BUF(SET_MAX);
    if (file && (iq_arg_given(call, "set") || iq_arg_given(call, "seed")))
        return iq_fail(err, IQ_USAGE, "--prompts FILE brings its own questions; leave --set and --seed out");
    if (file) return iq_prompts_read(file, &d, out, err);
    iq_buf_put(&text, "[", 1);
    int status = near_tie_set(call) ? take_ties(call, &text, err) : draw_set(call, &text, err);
    if (status == IQ_OK && text.failed) status = iq_fail(err, IQ_MEMORY, "no memory for the questions");
    if (status == IQ_OK) status = read_lines(&text, iq_arg_str(call, "set"), &d, out, err);
    iq_buf_free(&text);
    return status;
}

/* What is measured from golden is golden's: near ties are of one model. */
static int check_ties(const struct side *golden, struct iq_err *err)
{
    for (uint32_t i = 0; i < golden->prompts.n; i++) {
        const struct iq_prompt *p = &golden->prompts.prompt[i];
        if (p->tie.ids.n && strcmp(p->tie.model, golden->sha256))
            return iq_fail(
                err, IQ_MISMATCH,
                "prompt %s: a near tie of the model with SHA-256 %s; --against names %s, which has %s", p->id,
                p->tie.model, golden->path, golden->sha256);
    }
    return IQ_OK;
}

static int run_side(const struct iq_call *call, const char *name, bool golden, struct side *side,
                    struct iq_err *err)
{
    struct iq_model_options o;
    struct iq_model *m;
    iq_settings_model(&side->settings, &o);
    IQ_TRY(iq_model_resolve(name, side->path, err));
    IQ_TRY(read_questions(call, &side->prompts, err));
    IQ_TRY(iq_model_open(side->path, &o, &m, err));
    memcpy(side->sha256, m->sha256, sizeof side->sha256);
    int status = golden ? check_ties(side, err) : IQ_OK;
    if (status == IQ_OK)
        status = iq_eval_run(m, &side->settings, side->armed.set ? &side->armed : NULL, &side->prompts,
                             &side->eval, err);
    iq_model_close(m);
    return status;
}

static void free_side(struct side *side)
{
    iq_eval_close(&side->eval);
    iq_armed_close(&side->armed);
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
        iq_buf_printf(b, "no logit of an expected answer differs in a bit\n");
    else
        iq_buf_printf(b, "logits first differ at question %s, token %u of its answer\n",
                      golden->prompts.prompt[t->question].id, t->token);
}

static void put_ties(const struct iq_eval_ties *n, struct iq_buf *b)
{
    iq_buf_printf(b,
                  "\n%-18s %5s  %9s %7s %8s %8s  %10s %10s %10s\nnear ties          %5u  %9u %7u %8.2f %8u  "
                  "%10.3g %10.3g %10.3g\n",
                  "", "", "differ", "flips", "%", "before", "moved", "90 %", "largest", n->n, n->differ,
                  n->flips, percent(share_of(n->flips, n->n)), n->early, n->median, n->most, n->largest);
}

static void put_text(const struct iq_eval_table *t, const struct iq_eval_ties *ties,
                     const struct side *golden, struct iq_buf *b)
{
    put_scores(t, b);
    if (golden) put_against(t, golden, b);
    if (ties->n) put_ties(ties, b);
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

static void write_ties(const struct iq_eval_ties *n, struct iq_jw *w)
{
    iq_jw_key(w, "near_ties"), iq_jw_begin(w, '{');
    iq_jw_key(w, "probes"), iq_jw_u64(w, n->n);
    iq_jw_key(w, "margins_as_recorded"), iq_jw_u64(w, n->recorded);
    iq_jw_key(w, "bits_differ"), iq_jw_u64(w, n->differ);
    iq_jw_key(w, "flips"), iq_jw_u64(w, n->flips);
    iq_jw_key(w, "flips_before"), iq_jw_u64(w, n->early);
    iq_jw_key(w, "moved_median"), iq_jw_f64(w, n->median);
    iq_jw_key(w, "moved_90"), iq_jw_f64(w, n->most);
    iq_jw_key(w, "moved_largest"), iq_jw_f64(w, n->largest);
    iq_jw_end(w, '}');
}

static void put_json(const struct iq_call *call, const struct iq_eval_table *t,
                     const struct iq_eval_ties *ties, const struct side *model, const struct side *golden,
                     struct iq_buf *b)
{
    const char *file = iq_arg_str(call, "prompts");
    struct iq_jw w = IQ_JW(b);
    iq_jw_begin(&w, '{');
    write_side(model, &w);
    iq_jw_key(&w, file ? "prompts" : "set"), iq_jw_str(&w, file ? file : iq_arg_str(call, "set"));
    if (!file && !near_tie_set(call))
        iq_jw_key(&w, "seed"), iq_jw_u64(&w, (uint64_t)iq_arg_int(call, "seed"));
    iq_jw_key(&w, "interval_kind"), iq_jw_str(&w, "wilson 95 %");
    write_line(&t->line[t->n - 1], golden != NULL, &w);
    write_tasks(t, golden != NULL, &w);
    if (ties->n) write_ties(ties, &w);
    if (model->armed.set) iq_jw_key(&w, "plan"), iq_plan_write(&model->armed.plan, &w);
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
    struct iq_eval_ties ties;
    struct iq_buf b = IQ_BUF(16 << 20);
    IQ_TRY(iq_eval_ties(&model->prompts, &model->eval, golden ? &golden->eval : NULL, &ties, err));
    if (golden && ties.recorded != ties.n)
        return iq_fail(
            err, IQ_MISMATCH,
            "golden's margin is the recorded one at %u of %u near ties: what was recorded elsewhere is not "
            "computed here to the bit; see `inquest doctor`",
            ties.recorded, ties.n);
    IQ_TRY(iq_eval_table(&model->prompts, &model->eval, golden ? &golden->eval : NULL, &t, err));
    if (iq_arg_on(call, "json"))
        put_json(call, &t, &ties, model, golden, &b);
    else
        put_text(&t, &ties, golden, &b);
    int status = iq_out_line(call->out, &b, err);
    if (model->armed.set) iq_armed_say(&model->armed);
    if (!reaches(call, "at-least", &t, false) || !reaches(call, "at-least-task", &t, true))
        call->verdict = IQ_FOUND;
    iq_eval_table_free(&t);
    iq_buf_free(&b);
    return status;
}

/* The model's settings and faults; golden has neither. */
static int set_up(const struct iq_call *call, struct side *model, struct side *golden, struct iq_err *err)
{
    const char *plan = iq_arg_str(call, "plan");
    iq_settings_init(&model->settings);
    iq_settings_init(&golden->settings);
    IQ_TRY(iq_variants_register(err));
    if (plan) IQ_TRY(iq_armed_load_engine(plan, &model->settings, &model->armed, err));
    iq_settings_args(call, &model->settings);
    if (plan) IQ_TRY(iq_plan_check_device(&model->armed.plan, &model->settings, err));
    golden->settings.threads = model->settings.threads;
    golden->settings.batch = model->settings.batch;
    golden->settings.positions = model->settings.positions;
    return IQ_OK;
}

static int run(struct iq_call *call, struct iq_err *err)
{
    const char *against = iq_arg_str(call, "against");
    struct side model = {0}, golden = {0};
    int status = set_up(call, &model, &golden, err);
    if (status == IQ_OK) status = run_side(call, call->operands[0], false, &model, err);
    if (status == IQ_OK && against) status = run_side(call, against, true, &golden, err);
    if (status == IQ_OK) status = report(call, &model, against ? &golden : NULL, err);
    free_side(&model);
    free_side(&golden);
    return status;
}

#define CHOICE(id, name, ...) "|" name

static const struct iq_flag flags[] = {
    {.name = "set",
     .type = IQ_FLAG_CHOICE,
     .meta = &(IQ_CANARY_SET_MAP(CHOICE) "|near-tie")[1],
     .help = "which of the canary's held-out questions, or its near ties",
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
    {.name = "plan",
     .type = IQ_FLAG_STRING,
     .meta = "FILE",
     .help = "faults that strike MODEL, and engine settings"},
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
    .about =
        "Each question is asked greedily; an answer is right that has the expected bytes, but for white "
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
        "one tokenizer.\n"
        "\n"
        "Near ties (--set near-tie, or --prompts with what `canary search` printed) are answered up to the "
        "token that "
        "is nearly\n"
        "undecided. Their kinds are tasks, level 0 is a tie at the first token and level 1 at a later one; a "
        "further "
        "line has:\n"
        "\n"
        "  differ   near ties with another bit in a logit than golden's; without --against, with another "
        "margin than "
        "recorded\n"
        "  flips    another token at the tie, and in percent of all; before: another token already in front "
        "of it\n"
        "  moved    how far golden's token over its best rival moved, in logits: median, of nine in ten at "
        "most, "
        "largest\n"
        "\n"
        "Their margins were recorded: where golden here does not give them to the bit, that is an error.\n",
    .examples =
        "inquest model eval canary.gguf\n"
        "inquest model eval canary.gguf --set deep --seed 7 --at-least 99.5 --at-least-task 98 --json\n"
        "inquest model eval canary.gguf --against canary.gguf --dtype bf16\n"
        "inquest model eval canary --set near-tie --against canary --plan plan.json\n"
        "inquest model eval M.gguf --prompts mine.jsonl\n",
    .statuses = "  1  fewer answers are right than --at-least or --at-least-task asks for\n",
    .flags = flags,
    .run = run,
};
