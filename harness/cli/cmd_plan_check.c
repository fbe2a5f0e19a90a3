#include "harness/cli/commands.h"
#include "harness/cli/run_common.h"
#include "harness/model/fetch.h"
#include "harness/plan/check.h"

#include "engine/model.h"

#include <stdlib.h>
#include <string.h>

struct job {
    struct iq_call *call;
    const char *path;
    struct iq_plan plan;
    struct iq_settings settings;
    struct iq_model *model; /* or NULL */
    struct iq_prompts prompts;
    bool prompted;
    struct iq_plan_world world;
    struct iq_plan_finding *found; /* (plan.n) */
};

static int open_model(struct job *j, struct iq_err *err)
{
    const char *name = iq_arg_str(j->call, "model");
    struct iq_model_options options;
    char path[IQ_PATH_MAX];
    if (!name) return IQ_OK;
    IQ_TRY(iq_model_resolve(name, path, err));
    iq_settings_model(&j->settings, &options);
    options.weights = false;
    return iq_model_open(path, &options, &j->model, err);
}

static int gather(struct job *j, struct iq_err *err)
{
    const struct iq_call *call = j->call;
    j->prompted = iq_arg_str(call, "prompt") || iq_arg_str(call, "prompts");
    if (j->prompted && !iq_arg_str(call, "model"))
        return iq_fail(err, IQ_USAGE, "prompts are counted in a model's tokens: give --model too");
    iq_settings_init(&j->settings);
    IQ_TRY(iq_plan_load(j->path, &j->plan, &j->settings, err));
    iq_settings_args(call, &j->settings);
    IQ_TRY(open_model(j, err));
    if (j->prompted) {
        IQ_TRY(iq_run_prompts(call, &j->prompts, err));
        IQ_TRY(iq_prompts_tokenize(&j->prompts, j->model, err));
    }
    j->found = calloc(j->plan.n + 1, sizeof *j->found);
    if (!j->found) return iq_fail(err, IQ_MEMORY, "no memory for %zu faults", j->plan.n);
    IQ_TRY(iq_plan_world_open(&j->settings, j->model ? &j->model->config : NULL,
                              j->prompted ? &j->prompts : NULL, &j->world, err));
    return iq_plan_check(&j->plan, &j->world, j->found, err);
}

/* ---- what is said ---- */

static const char *class_of(const struct iq_fault *f)
{
    return iq_fault_is_workaround(f) ? "workaround" : f->variant->flags & IQ_V_FAULTY ? "wrong" : "benign";
}

/* Whether fault i, which stands later, may strike an op that j may. */
static bool meets(const struct job *j, size_t i, size_t k)
{
    for (const char *const *a = j->found[i].op; *a; a++)
        for (const char *const *b = j->found[k].op; *b; b++)
            if (!strcmp(*a, *b)) return true;
    return false;
}

static void say_fault(const struct job *j, size_t i, struct iq_buf *b)
{
    const struct iq_fault *f = &j->plan.fault[i];
    const struct iq_plan_finding *found = &j->found[i];
    iq_buf_printf(b, "\nfault %zu  %s (%s)\n  what     ", i, f->name, class_of(f));
    iq_fault_explain(f, b);
    iq_buf_printf(b, "\n");
    for (size_t k = 0; found->op[k]; k++) iq_buf_printf(b, "%s%s", k ? ", " : "  at       ", found->op[k]);
    if (found->op[0]) iq_buf_printf(b, "\n");
    if (f->variant->needs) iq_buf_printf(b, "  needs    %s\n", f->variant->needs);
    if (found->of)
        iq_buf_printf(b, "  drawn    %u of the %u %s%s\n", found->drawn, found->of,
                      f->per == IQ_PER_SESSION ? "session" : "request", found->of == 1 ? "" : "s");
    for (size_t k = 0; k < i; k++)
        if (meets(j, i, k))
            iq_buf_printf(b, "  wins     over fault %zu (%s) in rows that both strike\n", k,
                          j->plan.fault[k].name);
    iq_buf_printf(b, "  fires    %s%s\n", found->why.len ? "never: " : "perhaps: nothing speaks against it",
                  found->why.len ? found->why.data : "");
}

static void say_known(const struct job *j, struct iq_buf *b)
{
    if (iq_plan_trains(&j->plan)) {
        iq_buf_printf(b, "a plan of training: its triggers are not checked against a recipe\n");
        return;
    }
    iq_buf_printf(b, "checked against the engine's settings");
    if (j->model) iq_buf_printf(b, ", the model's sizes");
    if (j->prompted) iq_buf_printf(b, ", %u prompt%s", j->prompts.n, j->prompts.n == 1 ? "" : "s");
    iq_buf_printf(b, "%s%s\n", j->prompted ? "" : "; with ",
                  j->prompted ? ""
                  : j->model  ? "--prompts more can be told"
                              : "--model and --prompts more can be told");
}

static void say(const struct job *j, size_t never, struct iq_buf *b)
{
    iq_buf_printf(b, "%s: %zu fault%s, of which %zu can never fire\n", j->path, j->plan.n,
                  j->plan.n == 1 ? "" : "s", never);
    say_known(j, b);
    for (size_t i = 0; i < j->plan.n; i++) say_fault(j, i, b);
}

static void write_fault(const struct job *j, size_t i, struct iq_jw *w)
{
    const struct iq_fault *f = &j->plan.fault[i];
    const struct iq_plan_finding *found = &j->found[i];
    struct iq_buf says = IQ_BUF(1 << 20);
    iq_fault_explain(f, &says);
    iq_jw_begin(w, '{');
    iq_jw_key(w, "name"), iq_jw_str(w, f->name);
    iq_jw_key(w, "class"), iq_jw_str(w, class_of(f));
    iq_jw_key(w, "says"), iq_jw_str(w, says.data);
    iq_jw_key(w, "ops"), iq_jw_begin(w, '[');
    for (size_t k = 0; found->op[k]; k++) iq_jw_str(w, found->op[k]);
    iq_jw_end(w, ']');
    iq_jw_key(w, "needs"), iq_jw_str(w, f->variant->needs);
    iq_jw_key(w, "wins_over"), iq_jw_begin(w, '[');
    for (size_t k = 0; k < i; k++)
        if (meets(j, i, k)) iq_jw_u64(w, k);
    iq_jw_end(w, ']');
    if (found->of) {
        iq_jw_key(w, "drawn"), iq_jw_u64(w, found->drawn);
        iq_jw_key(w, "of"), iq_jw_u64(w, found->of);
    }
    iq_jw_key(w, "never"), iq_jw_str(w, found->why.len ? found->why.data : NULL);
    iq_jw_key(w, "plan"), iq_fault_json(f, w);
    iq_jw_end(w, '}');
    iq_buf_free(&says);
}

static void write(const struct job *j, size_t never, struct iq_jw *w)
{
    iq_jw_begin(w, '{');
    iq_jw_key(w, "never"), iq_jw_u64(w, never);
    iq_jw_key(w, "model"), iq_jw_bool(w, j->model != NULL);
    iq_jw_key(w, "prompts"), iq_jw_u64(w, j->prompts.n);
    iq_jw_key(w, "training"), iq_jw_bool(w, iq_plan_trains(&j->plan));
    iq_jw_key(w, "engine"), iq_settings_write(&j->settings, w);
    iq_jw_key(w, "faults"), iq_jw_begin(w, '[');
    for (size_t i = 0; i < j->plan.n; i++) write_fault(j, i, w);
    iq_jw_end(w, ']');
    iq_jw_end(w, '}');
}

static int print(const struct job *j, struct iq_err *err)
{
    struct iq_buf text = IQ_BUF((size_t)1 << 28);
    struct iq_jw w = IQ_JW(&text);
    size_t never = 0;
    for (size_t i = 0; i < j->plan.n; i++) never += j->found[i].why.len != 0;
    if (never) j->call->verdict = IQ_FOUND;
    if (iq_arg_on(j->call, "json"))
        write(j, never, &w);
    else
        say(j, never, &text);
    if (!iq_arg_on(j->call, "json") && text.len) text.len--; /* the last newline: the writer adds one */
    int status = text.failed
                     ? iq_fail(err, IQ_MEMORY, "no memory for what is to be said of %zu faults", j->plan.n)
                     : iq_out_line(j->call->out, &text, err);
    iq_buf_free(&text);
    return status;
}

static int run(struct iq_call *call, struct iq_err *err)
{
    struct job j = {.call = call, .path = call->operands[0]};
    int status = gather(&j, err);
    if (status == IQ_OK) status = print(&j, err);
    iq_plan_findings_free(j.found, j.plan.n);
    free(j.found);
    iq_plan_world_close(&j.world);
    iq_plan_free(&j.plan);
    iq_prompts_free(&j.prompts);
    iq_model_close(j.model);
    return status;
}

static const struct iq_flag flags[] = {
    {.name = "model",
     .type = IQ_FLAG_STRING,
     .meta = "FILE",
     .help =
         "check against this model's ops, layers and sizes: a .gguf file, a Hugging Face folder, or a name "
         "that `model fetch` knows"},
    IQ_PROMPT_FLAGS,
    IQ_ADAPTER_FLAG,
    {.name = "level",
     .type = IQ_FLAG_CHOICE,
     .meta = "chain|ops|tensors",
     .help = "what is recorded (default chain)"},
    IQ_SETTINGS_FLAGS,
    IQ_FLAG_JSON,
    {0},
};

const struct iq_command iq_cmd_plan_check = {
    .name = "plan check",
    .one_line = "explain a plan in words, and say which of its faults can never fire",
    .operands = "PLAN",
    .operands_min = 1,
    .operands_max = 1,
    .about = "Nothing is run. What each fault does and when, the ops that it may strike, what it needs, "
             "which faults it "
             "wins over (in a\n"
             "row that several strike the last one wins, so a workaround goes last), and why it can never "
             "fire: a field of "
             "`when` that\n"
             "can't be what it asks for under the engine's settings (the plan's \"engine\", then the options "
             "here, as for "
             "`run`), fields\n"
             "that contradict each other, an op that the model has not, a rate of 0, a later fault that "
             "strikes wherever it "
             "could. With\n"
             "--model its layers and sizes count too, with --prompts their lengths, sampling and sessions, "
             "and the draws of "
             "faults that\n"
             "are sticky. `perhaps` means no more than that nothing speaks against it.\n",
    .examples = "inquest plan check plan.json\n"
                "inquest plan check plan.json --model canary --prompts P.jsonl --batch 8 --json\n",
    .statuses = "  1  a fault can never fire\n",
    .flags = flags,
    .run = run,
};
