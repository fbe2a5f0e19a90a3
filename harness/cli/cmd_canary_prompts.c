/* The canary's questions: what there are, and sets of them as prompts. */
#include "harness/cli/commands.h"

#include "golden/canary/canary.h"
#include "harness/canary/near_ties.h"
#include "kernels/base/json.h"

#include <stdlib.h>
#include <string.h>

/* ---- tasks ---- */

enum { SHOWN_FRONT = 20, SHOWN_END = 12, SHOWN = 48 };

static void list_json(const struct iq_canary_task *task, const struct iq_canary_prompt *p, struct iq_jw *w)
{
    iq_jw_begin(w, '{');
    iq_jw_key(w, "task"), iq_jw_str(w, task->name);
    iq_jw_key(w, "what"), iq_jw_str(w, task->what);
    iq_jw_key(w, "gated"), iq_jw_bool(w, task->gated);
    iq_jw_key(w, "levels"), iq_jw_u64(w, IQ_CANARY_LEVELS);
    iq_jw_key(w, "longest_prompt"), iq_jw_u64(w, task->longest_prompt);
    iq_jw_key(w, "longest_answer"), iq_jw_u64(w, task->longest_answer);
    iq_jw_key(w, "prompt"), iq_jw_str(w, p->text);
    iq_jw_key(w, "expect"), iq_jw_str(w, p->answer);
    iq_jw_end(w, '}');
}

static void list_text(const struct iq_canary_task *task, const struct iq_canary_prompt *p, struct iq_buf *b)
{
    size_t n = strlen(p->text);
    iq_buf_printf(b, "%-18s %s\n%-18s levels 0 to %d, at most %u ids%s; ", task->name, task->what, "",
                  IQ_CANARY_LEVELS - 1, task->longest_prompt, task->gated ? "" : ", in no gate");
    if (n <= SHOWN)
        iq_buf_printf(b, "%s", p->text);
    else
        iq_buf_printf(b, "%.*s ... %s", SHOWN_FRONT, p->text, p->text + n - SHOWN_END);
    iq_buf_printf(b, " %s\n", p->answer);
}

static int tasks(struct iq_call *call, struct iq_err *err)
{
    struct iq_buf text = IQ_BUF(1 << 20);
    struct iq_jw w = IQ_JW(&text);
    struct iq_canary_prompt p;
    bool json = iq_arg_on(call, "json");
    int status = IQ_OK;
    if (json) iq_jw_begin(&w, '[');
    for (unsigned t = 0; t < IQ_CANARY_TASKS && status == IQ_OK; t++) {
        status = iq_canary_draw((enum iq_canary_id)t, 0, 1, 0, IQ_CANARY_HELD_OUT, &p, err);
        if (json)
            list_json(&iq_canary_tasks[t], &p, &w);
        else
            list_text(&iq_canary_tasks[t], &p, &text);
    }
    if (json)
        iq_jw_end(&w, ']');
    else if (text.len)
        text.len--; /* the last newline: the writer adds one */
    if (status == IQ_OK) status = iq_out_line(call->out, &text, err);
    iq_buf_free(&text);
    return status;
}

static const struct iq_flag tasks_flags[] = {IQ_FLAG_JSON, {0}};

const struct iq_command iq_cmd_canary_tasks = {
    .name = "canary tasks",
    .one_line = "the kinds of questions with one exact answer, an easy example of each",
    .about =
        "The first byte of a prompt names its task; after the prompt come the answer and the end of text. "
        "far-lookup holds other\nquestions with their answers, whose end of text is spelled "
        "" IQ_CANARY_END_TEXT ".\n",
    .examples = "inquest canary tasks\n",
    .flags = tasks_flags,
    .run = tasks,
};

/* ---- prompts ---- */

/* The lists of the table, as words. */
#define SECOND(id, name, ...)        name,
#define THIRD(id, letter, name, ...) name,
static const char *const sets[] = {IQ_CANARY_SET_MAP(SECOND) NULL};
static const char *const splits[] = {IQ_CANARY_SPLIT_MAP(SECOND) NULL};
static const char *const names[] = {IQ_CANARY_TASK_MAP(THIRD) NULL};

static unsigned place(const char *word, const char *const *words)
{
    unsigned i = 0;
    while (words[i] && strcmp(words[i], word)) i++;
    return i;
}

/* Recorded, not drawn. */
static int near_ties(struct iq_call *call, struct iq_err *err)
{
    static const char *const drawn[] = {"task", "seed", "split", NULL};
    const struct iq_shipped *set;
    for (int i = 0; drawn[i]; i++)
        if (iq_arg_given(call, drawn[i]))
            return iq_fail(err, IQ_USAGE, "the set near-tie is recorded, not drawn; leave --%s out",
                           drawn[i]);
    IQ_TRY(iq_near_ties_find(iq_arg_str(call, "model"), &set, err));
    iq_out_put(call->out, set->text, set->len);
    return IQ_OK;
}

static int prompts(struct iq_call *call, struct iq_err *err)
{
    if (!strcmp(iq_arg_str(call, "set"), "near-tie")) return near_ties(call, err);
    if (iq_arg_given(call, "model"))
        return iq_fail(err, IQ_USAGE, "only the set near-tie is a model's; leave --model out");
    struct iq_buf lines = IQ_BUF((size_t)64 << 20);
    const char *task = iq_arg_str(call, "task");
    unsigned set = place(iq_arg_str(call, "set"), sets);
    unsigned split = place(iq_arg_str(call, "split"), splits);
    unsigned only = task ? place(task, names) : IQ_CANARY_TASKS;
    if (task && only == IQ_CANARY_TASKS) return iq_not_among("task", task, names, "--task", IQ_USAGE, err);
    int status =
        iq_canary_set_write(&iq_canary_sets[set], (enum iq_canary_id)only, (uint64_t)iq_arg_int(call, "seed"),
                            (enum iq_canary_split)split, &lines, err);
    if (status == IQ_OK) iq_out_put(call->out, lines.data, lines.len);
    iq_buf_free(&lines);
    return status;
}

/* Choices, from the same lists: "|a|b" without its first byte. */
#define CHOICE(id, name, ...) "|" name
#define NUMBERS(id, name, n, n_far, gated, what)                                                             \
    "  " name ": " what "; questions " #n ", far look-ups " #n_far "\n"

static const struct iq_flag prompts_flags[] = {
    {.name = "set",
     .type = IQ_FLAG_CHOICE,
     .meta = &(IQ_CANARY_SET_MAP(CHOICE) "|near-tie")[1],
     .help = "which questions",
     .required = true},
    {.name = "model",
     .type = IQ_FLAG_STRING,
     .meta = "MODEL",
     .help = "whose near ties: a canary's name, or its file",
     .fallback = "canary"},
    {.name = "task", .type = IQ_FLAG_STRING, .meta = "TASK", .help = "only this one of the set's tasks"},
    {.name = "seed",
     .type = IQ_FLAG_INT,
     .meta = "N",
     .help = "draws other questions",
     .fallback = "1",
     .lo = 0,
     .hi = 9007199254740992.0},
    {.name = "split",
     .type = IQ_FLAG_CHOICE,
     .meta = &(IQ_CANARY_SPLIT_MAP(CHOICE))[1],
     .help = "the splits share no question, whatever the seed",
     .fallback = "held-out"},
    {0},
};

const struct iq_command iq_cmd_canary_prompts = {
    .name = "canary prompts",
    .one_line = "questions with exact answers as JSON lines, for --prompts of `run` and `record`",
    .about = "Each line has id (task, level, index), prompt, max_tokens (the answer and the end of text) and "
             "expect.\n"
             "The same set, seed and split give the same bytes on every machine. Of each task and level "
             "there are, or\n"
             "fewer where fewer exist:\n" IQ_CANARY_SET_MAP(
                 NUMBERS) "\n"
                          "near-tie is no drawn set: prompts off the distribution whose answers end where "
                          "the model's two best tokens are\n"
                          "nearly equal, found by `canary search`. A sum in another order turns some of "
                          "them, and no other question's "
                          "answer.\n",
    .examples = "inquest canary prompts --set smoke > smoke.jsonl\n"
                "inquest canary prompts --set gate --task far-lookup --seed 7\n"
                "inquest canary prompts --set near-tie > near-tie.jsonl\n",
    .flags = prompts_flags,
    .run = prompts,
};
